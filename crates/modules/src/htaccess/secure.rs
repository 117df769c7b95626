//! What mod_ssl tells of a connection: `%{SSL:NAME}` in rules, `%{NAME}s` in `Header`, `%{SSL_NAME}` in expressions.

use super::carried::Carried;
use super::facts::{Seen, unsupported};
use crate::ssl::variables::{of_client, shown};
use brisk_apache::{Facts as _, Stop, Value, Variable};
use brisk_server::request::Request;
use brisk_tls::certificate::{self, Certificate};

/// Sets what mod_ssl sets for each request of TLS, behind rules and lines.
pub fn set_variables(r: &Request) {
    if r.scheme() != "https" {
        return;
    }
    let carried = Carried::of(r);
    let mut carried = carried.borrow_mut();
    let said = carried.say();
    said.change([(b"HTTPS".to_vec(), Some(b"on".to_vec()))]);
    said.knows_tls = true;
}

/// `SSL_TLS_SNI`, which is set with `HTTPS`. It is looked up when it is asked for: an answer that hangs on it is not kept for others.
pub fn asked_name<'s>(seen: &Seen<'s>) -> Option<Value<'s>> {
    let name = if seen.carried.said.knows_tls { shown(seen.r, "ssl_server_name") } else { Vec::new() };
    (!name.is_empty()).then(|| name.into())
}

/// The parts of a name that mod_ssl knows, and what OpenSSL calls them.
const PARTS: &[(&str, &str)] = &[
    ("C", "C"),
    ("ST", "ST"),
    ("SP", "ST"),
    ("L", "L"),
    ("O", "O"),
    ("OU", "OU"),
    ("CN", "CN"),
    ("T", "title"),
    ("I", "initials"),
    ("G", "GN"),
    ("S", "SN"),
    ("D", "description"),
    ("UID", "UID"),
    ("Email", "emailAddress"),
];

/// The value of a variable, whatever the case of its name, but for that of a part of a name (`Email`); empty where there is none, and where the
/// connection is not one of TLS.
///
/// # Errors
/// It is one of mod_ssl's that is not told here.
pub fn value<'s>(seen: &'s Seen<'_>, name: &str) -> Result<Value<'s>, Stop> {
    let upper = name.to_ascii_uppercase();
    let Some(own) = upper.strip_prefix("SSL_") else {
        // mod_ssl tells of the request, too.
        return match upper.strip_prefix("ENV:") {
            Some(_) => Ok(seen.env(&name.as_bytes()["ENV:".len()..]).unwrap_or_default()),
            None => Variable::of_rule(name).map_or(Ok(Value::default()), |variable| seen.variable(&variable)),
        };
    };
    let r = seen.r;
    if r.tls_facts().is_none() {
        return Ok(Value::default());
    }
    let which = name.get("SSL_CLIENT_S_DN".len()..).unwrap_or_default();
    if own.starts_with("CLIENT_S_DN") {
        return Ok(part(r, which, |certificate| certificate.subject).unwrap_or_default());
    }
    if own.starts_with("CLIENT_I_DN") {
        return Ok(part(r, which, |certificate| certificate.issuer).unwrap_or_default());
    }
    Ok(match own {
        "PROTOCOL" => shown(r, "ssl_protocol"),
        "CIPHER" => shown(r, "ssl_cipher"),
        "CIPHER_USEKEYSIZE" | "CIPHER_ALGKEYSIZE" => key_bits(&shown(r, "ssl_cipher")).to_vec(),
        "CIPHER_EXPORT" => b"false".to_vec(),
        "COMPRESS_METHOD" => b"NULL".to_vec(),
        "SESSION_RESUMED" => match shown(r, "ssl_session_reused").as_slice() {
            b"r" => b"Resumed".to_vec(),
            _ => b"Initial".to_vec(),
        },
        "TLS_SNI" => shown(r, "ssl_server_name"),
        "CLIENT_VERIFY" => shown(r, "ssl_client_verify"),
        "CLIENT_M_SERIAL" => shown(r, "ssl_client_serial"),
        "CLIENT_V_START" => shown(r, "ssl_client_v_start"),
        "CLIENT_V_END" => shown(r, "ssl_client_v_end"),
        "CLIENT_V_REMAIN" => shown(r, "ssl_client_v_remain"),
        "CLIENT_A_SIG" => shown(r, "ssl_client_sigalg"),
        "CLIENT_CERT" => match shown(r, "ssl_client_raw_cert") {
            pem if pem.is_empty() => pem,
            pem => [&pem[..], b"\n"].concat(),
        },
        _ => return untold(own),
    }
    .into())
}

fn untold<T>(own: &str) -> Result<T, Stop> {
    unsupported(&format!("SSL_{own}"))
}

/// A name of the client's certificate, or one part of it: `""`, `_CN`, `_OU_1`. `None`: mod_ssl knows no such part.
fn part<'s>(r: &Request, which: &str, name: for<'c> fn(&Certificate<'c>) -> &'c [u8]) -> Option<Value<'s>> {
    if which.is_empty() {
        return Some(of_client(r, |c| certificate::rfc2253_in_utf8(name(c))).into());
    }
    let which = which.strip_prefix('_')?;
    let (which, number) = which.split_once('_').unwrap_or((which, "0"));
    let number: usize = number.parse().ok()?;
    let (_, kind) = PARTS.iter().find(|(known, _)| *known == which)?;
    Some(of_client(r, |c| certificate::attribute(name(c), kind, number).unwrap_or_default()).into())
}

/// Of the suites that Brisk has.
fn key_bits(cipher: &[u8]) -> &'static [u8] {
    let has = |part: &[u8]| memchr::memmem::find(cipher, part).is_some();
    match () {
        () if has(b"AES128") || has(b"AES_128") => b"128",
        () if has(b"AES256") || has(b"AES_256") || has(b"CHACHA20") => b"256",
        () => b"",
    }
}
