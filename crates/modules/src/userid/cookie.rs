//! The identifier that a client sent, and the one that it is given.

use super::{Conf, Expires, Flags, Mode};
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use brisk_http::HeaderId;
use brisk_http::date;
use brisk_net::clock;
use brisk_server::plan::Filter;
use brisk_server::request::Request;
use brisk_server::vars::builtin::find_cookie;
use brisk_server::vars::is_set;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

/// Four numbers whose bytes in memory are the identifier: nginx shows and sends it so, and cookies outlive a change of
/// servers.
type Id = [u32; 4];

/// Length of an identifier in base64, without padding.
const CODED_LEN: usize = 22;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What is known of a client in one request.
struct Client {
    got: Option<Id>,
    /// The cookie's value as it was sent.
    cookie: Vec<u8>,
    /// Decided once, by a variable or by the filter.
    given: OnceCell<Option<Given>>,
}

/// What the client is given.
struct Given {
    id: Id,
    /// The identifier is the client's own; only the mark changes.
    same: bool,
}

fn client(r: &Request, conf: &Conf) -> Rc<Client> {
    r.state.own.get_or(|| {
        let mut fields = r.headers(HeaderId::Cookie);
        let found = fields.find_map(|field| find_cookie(field, &conf.name).map(|value| (field, value)));
        let (cookie, got) = found.map_or((Vec::new(), None), |(field, value)| {
            let got = decode(value).map_err(|why| {
                let field = String::from_utf8_lossy(field);
                brisk_server::rlog!(r, Error, "client sent {why} userid cookie \"{field}\"");
            });
            (value.to_vec(), got.ok())
        });
        Client { got: got.filter(|id| id[3] != 0), cookie, given: OnceCell::new() }
    })
}

/// Reads a cookie. It may end in a mark, or in rubbish: only the first 22 characters count.
fn decode(value: &[u8]) -> Result<Id, &'static str> {
    let coded = value.get(..CODED_LEN).ok_or("too short")?;
    let bytes = BASE64.decode(coded).map_err(|_| "invalid")?;
    let (words, _) = bytes.as_chunks::<4>();
    let words: [[u8; 4]; 4] = words.try_into().map_err(|_| "invalid")?;
    Ok(words.map(u32::from_ne_bytes))
}

impl Client {
    fn given(&self, r: &Request, conf: &Conf) -> Option<&Given> {
        self.given.get_or_init(|| self.decide(r, conf)).as_ref()
    }

    fn decide(&self, r: &Request, conf: &Conf) -> Option<Given> {
        let Some(got) = self.got else { return Some(Given { id: fresh(r, conf), same: false }) };
        let mut reset = Vec::new();
        conf.reset.map(|var| r.var(var, &mut reset));
        if !is_set(&reset) {
            let marked = |mark| self.cookie.len() > 23 && self.cookie[CODED_LEN..24] == [mark, b'='];
            return conf.mark.filter(|&mark| !marked(mark)).map(|_| Given { id: got, same: true });
        }
        if reset == b"log" {
            let name = String::from_utf8_lossy(&conf.name);
            brisk_server::rlog!(r, Notice, "userid cookie \"{name}={}\" was reset", hex(got));
        }
        Some(Given { id: fresh(r, conf), same: false })
    }
}

/// Differs between processes on one machine that start one after the other.
static START: LazyLock<u32> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.subsec_micros() / 20) << 16 | std::process::id()
});
static SEQUENCE_V1: AtomicU32 = AtomicU32::new(1);
static SEQUENCE: AtomicU32 = AtomicU32::new(SEQUENCE_FIRST);
const SEQUENCE_FIRST: u32 = 0x0303_0302;

fn fresh(r: &Request, conf: &Conf) -> Id {
    let time = clock::now().unix_secs as u32;
    if conf.mode == Mode::V1 {
        let sequence = SEQUENCE_V1.fetch_add(0x100, Ordering::Relaxed);
        return [conf.service.unwrap_or(0), time, *START, sequence];
    }
    let next = |n: u32| n.checked_add(0x100).unwrap_or(SEQUENCE_FIRST);
    let sequence = SEQUENCE.update(Ordering::Relaxed, Ordering::Relaxed, next);
    let service = conf.service.map_or_else(|| local_address(r), u32::to_be);
    [service, time.to_be(), START.to_be(), sequence.to_be()]
}

/// The last four bytes of our address, as they are in memory.
fn local_address(r: &Request) -> u32 {
    match r.local_addr().map(|addr| addr.ip()) {
        Some(IpAddr::V4(ip)) => u32::from_ne_bytes(ip.octets()),
        Some(IpAddr::V6(ip)) => (ip.to_bits() as u32).to_be(),
        None => 0,
    }
}

fn hex([a, b, c, d]: Id) -> String {
    format!("{a:08X}{b:08X}{c:08X}{d:08X}")
}

fn conf_of(r: &Request) -> Option<&Conf> {
    r.snap().location(r.route.loc).plan.data()
}

fn show(conf: &Conf, id: Id, out: &mut Vec<u8>) {
    out.extend_from_slice(&conf.name);
    out.push(b'=');
    out.extend_from_slice(hex(id).as_bytes());
}

/// `$uid_got`.
pub fn got_variable(r: &Request, out: &mut Vec<u8>) -> bool {
    let Some(conf) = conf_of(r) else { return false };
    client(r, conf).got.map(|id| show(conf, id, out)).is_some()
}

/// `$uid_set`.
pub fn set_variable(r: &Request, out: &mut Vec<u8>) -> bool {
    let Some(conf) = conf_of(r).filter(|conf| conf.mode.sets()) else { return false };
    client(r, conf).given(r, conf).map(|given| show(conf, given.id, out)).is_some()
}

/// Adds the cookie to responses.
pub struct SetCookie {
    pub(super) conf: Arc<Conf>,
}

impl Filter for SetCookie {
    fn filter(&self, r: &mut Request) {
        let conf = &self.conf;
        let client = client(r, conf);
        let Some(given) = client.given(r, conf) else { return };
        let value = if given.same { marked(&client.cookie, conf.mark) } else { encode(given.id, conf.mark) };
        r.resp.add("Set-Cookie", set_cookie(conf, &value, clock::now().unix_secs));
        if let Some(p3p) = &conf.p3p {
            r.resp.add("P3P", p3p.clone());
        }
    }
}

/// An identifier in base64; the mark takes the place of the first `=`.
fn encode(id: Id, mark: Option<u8>) -> Vec<u8> {
    let bytes: Vec<u8> = id.iter().flat_map(|word| word.to_ne_bytes()).collect();
    marked(BASE64.encode(bytes).as_bytes(), mark)
}

fn marked(coded: &[u8], mark: Option<u8>) -> Vec<u8> {
    let mut out = coded[..CODED_LEN].to_vec();
    out.extend_from_slice(&[mark.unwrap_or(b'='), b'=']);
    out
}

fn set_cookie(conf: &Conf, value: &[u8], now: i64) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&conf.name);
    out.push(b'=');
    out.extend_from_slice(value);
    match conf.expires {
        Expires::Session => {}
        Expires::Max => out.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
        Expires::After(seconds) => {
            out.extend_from_slice(b"; expires=");
            date::append_cookie(now.saturating_add(seconds), &mut out);
        }
    }
    if let Some(domain) = &conf.domain {
        out.extend_from_slice(b"; domain=");
        out.extend_from_slice(domain);
    }
    out.extend_from_slice(b"; path=");
    out.extend_from_slice(&conf.path);
    let Flags { secure, httponly, samesite } = conf.flags;
    if secure {
        out.extend_from_slice(b"; secure");
    }
    if httponly {
        out.extend_from_slice(b"; httponly");
    }
    if let Some(samesite) = samesite {
        out.extend_from_slice(b"; samesite=");
        out.extend_from_slice(samesite.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn identifiers_survive_their_coding() {
        let id = [0x0100_007f, 1, 0xffff_ffff, 0x0203_0303];
        let plain = encode(id, None);
        assert_eq!(plain.len(), 24);
        assert_eq!(decode(&plain), Ok(id));
        let marked = encode(id, Some(b't'));
        assert!(marked.ends_with(b"t="));
        assert_eq!(decode(&marked), Ok(id));
        assert_eq!(decode(b"AAAAAAAAAAAAAAAAAAAAA"), Err("too short"));
        assert_eq!(decode(b"AAAAAAAAAA*AAAAAAAAAAA"), Err("invalid"));
    }

    #[test]
    fn nginxs_cookie_is_read_as_nginx_reads_it() {
        // A cookie of nginx on a little-endian machine: fwAAAQ… is 127.0.0.1.
        let id = decode(b"fwAAAVJ5xQ0DAwMCAwMDAgA=").map(|id| id[0].to_ne_bytes());
        assert_eq!(id, Ok([127, 0, 0, 1]));
    }

    #[test]
    fn the_header_has_its_attributes_in_nginxs_order() {
        let conf = Conf {
            name: b"uid"[..].into(),
            path: b"/x"[..].into(),
            domain: Some(b"a.b"[..].into()),
            expires: Expires::After(10),
            flags: Flags { secure: true, httponly: true, samesite: Some("lax") },
            ..Conf::default()
        };
        assert_eq!(
            String::from_utf8(set_cookie(&conf, b"V", 0)).unwrap(),
            "uid=V; expires=Thu, 01-Jan-70 00:00:10 GMT; domain=a.b; path=/x; secure; httponly; samesite=lax"
        );
        let mut out = Vec::new();
        date::append_cookie(2_145_916_800, &mut out);
        assert_eq!(out, b"Fri, 01-Jan-2038 00:00:00 GMT");
    }

    #[test]
    fn values_are_checked_in_nginxs_words() {
        let mark = "\"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\"";
        refused(&[
            ("userid yes;", "invalid value \"yes\""),
            ("userid_flags secure x;", "invalid value \"x\""),
            ("userid_mark ab;", mark),
            ("userid_mark -;", mark),
            ("userid_expires soon;", "\"userid_expires\" directive invalid value"),
            ("userid_service x;", "\"userid_service\" directive invalid number"),
        ]);
        accepted(&[
            "userid on; userid_mark =; userid_expires 1d; userid_p3p none; server { location / { set $uid_reset 1; } }",
            "map $uri $uid_reset { } userid v1; userid_flags samesite=none secure; userid_expires max;",
        ]);
    }
}
