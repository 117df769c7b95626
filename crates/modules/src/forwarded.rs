//! The chain of proxies behind which a client stands.
//!
//! Each proxy appends whom it has got the request from. Whatever stands before the last proxy that is trusted
//! anybody may have written: it is never looked at.

use brisk_conf::cidr::{Cidr, number, parse_address};
use std::net::SocketAddr;

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
    let mut address: Option<SocketAddr> = None;
    // From the nearest to the farthest: fields are in the order in which they were added.
    for field in fields.rev() {
        let mut rest = field;
        loop {
            let is_trusted = address
                .map_or(is_start_trusted, |a| proxies.iter().any(|proxy| proxy.contains_unmapped(a.ip())));
            if !is_trusted {
                return address;
            }
            // Spaces alone separate, too, as in nginx.
            let is_separator = |b: &u8| matches!(b, b' ' | b',');
            let end = rest.iter().rposition(|b| !is_separator(b)).map_or(0, |at| at + 1);
            // An empty entry, as of `, ,`, is no address and ends the search.
            let begin = rest[..end].iter().rposition(is_separator).map_or(0, |at| at + 1);
            match parse_address_port(&rest[begin..end]) {
                Some(next) => address = Some(next),
                // `unknown` or a made-up name: what stood behind it is still what the proxy said.
                None => return address,
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
