//! The chain of proxies behind which a client stands.
//!
//! Each proxy appends whom it has got the request from. Whatever stands before the last proxy that is trusted
//! anybody may have written: it is never looked at.

use brisk_conf::cidr::{Cidr, number, parse_address};
use std::net::{IpAddr, SocketAddr};

/// What a proxy may say of its client's address and be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any address.
    Any,
    /// A public one: a proxy outside of the own network does not speak for clients within.
    Public,
}

impl Trust {
    /// Whether it is believed that a client has this address.
    pub fn believes(self, client: IpAddr) -> bool {
        self == Trust::Any || is_public(client)
    }
}

/// As mod_remoteip has it: not private, of this machine or of a link (RFC 3330), and global unicast (RFC 4291 §2.4).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => !(ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified()),
        IpAddr::V6(ip) => ip.octets()[0] & 0xe0 == 0x20,
    }
}

/// An address with or without port: `192.0.2.1:80`, `[::1]`, `[::1]:80`, `::1`. Without, the port is 0.
fn parse_address_port(text: &[u8]) -> Option<SocketAddr> {
    // First: colons of an address must not be taken for the one before a port.
    if let Some(ip) = parse_address(text) {
        return Some(SocketAddr::new(ip, 0));
    }
    let (address, port) = match text {
        [b'[', rest @ ..] => {
            let end = memchr::memchr(b']', rest)?;
            match &rest[end + 1..] {
                [] => return parse_address(&rest[..end]).map(|ip| SocketAddr::new(ip, 0)),
                [b':', port @ ..] => (&rest[..end], port),
                _ => return None,
            }
        }
        _ => {
            let at = memchr::memchr(b':', text)?;
            // The first colon: an address with several was found above.
            (&text[..at], &text[at + 1..])
        }
    };
    let port = number(port).filter(|port| (1..=65535).contains(port))?;
    parse_address(address).map(|ip| SocketAddr::new(ip, port as u16))
}

/// The client's address: as long as the nearest known one is a trusted proxy's, what it says in `X-Forwarded-For` is
/// believed, from the last entry to the first; only the last entry unless `recursive`. `None`: it is where the
/// connection comes from, which is trusted if `is_start_trusted`.
pub fn forwarded<'f>(
    is_start_trusted: bool,
    fields: impl DoubleEndedIterator<Item = &'f [u8]>,
    // An unmapped comparison: `::ffff:192.0.2.1` is that of 192.0.2.1.
    proxies: &[Cidr],
    recursive: bool,
) -> Option<SocketAddr> {
    let trust = |ip| proxies.iter().any(|proxy| proxy.contains_unmapped(ip)).then_some(Trust::Any);
    followed(is_start_trusted.then_some(Trust::Any), fields, &trust, recursive)
}

/// The same where proxies are believed to a different degree; `None`: it is no proxy.
pub fn followed<'f>(
    start: Option<Trust>,
    fields: impl DoubleEndedIterator<Item = &'f [u8]>,
    trust: &dyn Fn(IpAddr) -> Option<Trust>,
    recursive: bool,
) -> Option<SocketAddr> {
    let mut address: Option<SocketAddr> = None;
    let mut is_outside = false;
    // From the nearest to the farthest: fields are in the order in which they were added.
    for field in fields.rev() {
        let mut rest = field;
        loop {
            let Some(mut trusted) = address.map_or(start, |a| trust(a.ip())) else { return address };
            // A proxy within that one outside has named may be anybody.
            is_outside |= trusted == Trust::Public;
            if is_outside {
                trusted = Trust::Public;
            }
            // Spaces alone separate, too, as in nginx.
            let is_separator = |b: &u8| matches!(b, b' ' | b',');
            let end = rest.iter().rposition(|b| !is_separator(b)).map_or(0, |at| at + 1);
            // An empty entry, as of `, ,`, is no address and ends the search.
            let begin = rest[..end].iter().rposition(is_separator).map_or(0, |at| at + 1);
            match parse_address_port(&rest[begin..end]) {
                Some(next) if trusted.believes(next.ip()) => address = Some(next),
                // `unknown`, a made-up name or an address that this proxy is not believed: what stood behind it is still what the proxy said.
                _ => return address,
            }
            if !recursive {
                return address;
            }
            // The field is used up; an earlier field of the same name goes on before it.
            if begin == 0 {
                break;
            }
            rest = &rest[..begin];
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_ports() {
        let check = |text: &str, want: Option<&str>| {
            let got = parse_address_port(text.as_bytes()).map(|addr| addr.to_string());
            assert_eq!(got.as_deref(), want, "{text}");
        };
        check("192.0.2.1:80", Some("192.0.2.1:80"));
        check("[::1]:80", Some("[::1]:80"));
        check("[::1]", Some("[::1]:0"));
        check("::1", Some("[::1]:0"));
        check("192.0.2.1:0", None);
        check("192.0.2.1:65536", None);
        check("192.0.2.1:", None);
        check("[::1", None);
        check("[::1]80", None);
        check("unix:", None);
        check("", None);
    }

    #[test]
    fn a_proxy_outside_speaks_for_public_addresses_only() {
        let check = |field: &str, want: &str| {
            let trust = |ip: IpAddr| match ip.to_string().as_str() {
                "198.51.100.1" => Some(Trust::Public),
                "198.51.100.2" => Some(Trust::Any),
                _ => None,
            };
            let fields = std::iter::once(field.as_bytes());
            let got = followed(Some(Trust::Public), fields, &trust, true);
            assert_eq!(got.map_or("none".into(), |a| a.ip().to_string()), want, "{field}");
        };
        check("192.0.2.1", "192.0.2.1");
        for private in [
            "10.0.0.1",
            "127.0.0.1",
            "169.254.1.1",
            "172.31.0.1",
            "192.168.0.1",
            "::ffff:10.0.0.1",
            "0.0.0.0",
        ] {
            check(private, "none");
            check(&format!("{private}, 198.51.100.1"), "198.51.100.1");
        }
        for strange in ["::1", "fe80::1", "fc00::1", "ff02::1"] {
            check(strange, "none");
        }
        check("2001:db8::1", "2001:db8::1");
        check("172.32.0.1", "172.32.0.1");
        check("192.0.2.1, 10.0.0.1", "none");
        check("192.0.2.1, 198.51.100.2", "192.0.2.1");
        // The own network's proxy was named by one outside.
        check("10.0.0.1, 198.51.100.2", "198.51.100.2");
    }

    #[test]
    fn the_chain_is_followed_while_it_is_trusted() {
        let check = |fields: &[&str], recursive, want: &str| {
            let proxies: Vec<_> =
                ["127.0.0.1", "10.0.0.0/8"].iter().map(|t| Cidr::parse(t.as_bytes()).unwrap().cidr).collect();
            let fields = fields.iter().map(|f| f.as_bytes());
            let got =
                forwarded(true, fields, &proxies, recursive).map_or("none".into(), |a| a.ip().to_string());
            assert_eq!(got, want);
        };
        check(&[], true, "none");
        check(&["192.0.2.1"], false, "192.0.2.1");
        check(&["10.0.0.1, 192.0.2.1 , "], false, "192.0.2.1");
        check(&["192.0.2.1, 10.0.0.1"], false, "10.0.0.1");
        check(&["192.0.2.1, 10.0.0.1"], true, "192.0.2.1");
        check(&["192.0.2.9, 192.0.2.1,10.0.0.1"], true, "192.0.2.1");
        check(&["192.0.2.1", "10.0.0.1"], true, "192.0.2.1");
        check(&["192.0.2.1, junk, 10.0.0.1"], true, "10.0.0.1");
        check(&["junk"], true, "none");
        check(&["", "192.0.2.1"], true, "192.0.2.1");
    }
}
