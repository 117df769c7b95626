//! Addresses as directives and headers write them, and the chain of proxies behind which a client stands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cidr {
    /// First and last address.
    V4(u32, u32),
    V6(u128, u128),
}

impl Cidr {
    /// Reads `address` or `address/bits`. The second value is true if bits below the mask were set; they are dropped.
    pub fn parse(text: &[u8]) -> Option<(Cidr, bool)> {
        let (address, bits) = match memchr::memchr(b'/', text) {
            Some(at) => (&text[..at], Some(number(&text[at + 1..])?)),
            None => (text, None),
        };
        match parse_address(address)? {
            IpAddr::V4(ip) => {
                let (ip, bits) = (ip.to_bits(), bits.unwrap_or(32));
                let host = if bits > 32 { return None } else { u32::MAX.checked_shr(bits).unwrap_or(0) };
                Some((Cidr::V4(ip & !host, ip | host), ip & host != 0 && bits < 32))
            }
            IpAddr::V6(ip) => {
                let (ip, bits) = (ip.to_bits(), bits.unwrap_or(128));
                let host = if bits > 128 { return None } else { u128::MAX.checked_shr(bits).unwrap_or(0) };
                Some((Cidr::V6(ip & !host, ip | host), ip & host != 0 && bits < 128))
            }
        }
    }

    /// Whether an address lies in it; an IPv4 address in IPv6 clothes counts as IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self, address.to_canonical()) {
            (Cidr::V4(first, last), IpAddr::V4(ip)) => (first..=last).contains(&ip.to_bits()),
            (Cidr::V6(first, last), IpAddr::V6(ip)) => (first..=last).contains(&ip.to_bits()),
            _ => false,
        }
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    let plain = !digits.is_empty() && digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| digits.iter().fold(0, |sum, b| sum * 10 + u32::from(b - b'0')))
}

/// Four decimal numbers; leading zeros are allowed, as in nginx, and do not mean octal.
pub fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split(|&b| b == b'.');
    for octet in &mut octets {
        *octet = u8::try_from(number(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    if let Some(ip) = parse_ipv4(text) {
        return Some(IpAddr::V4(ip));
    }
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// An address with or without port: `192.0.2.1:80`, `[::1]`, `[::1]:80`, `::1`. Without, the port is 0.
pub fn parse_address_port(text: &[u8]) -> Option<SocketAddr> {
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
            (&text[..at], &text[at + 1..])
        }
    };
    let port = number(port).filter(|port| (1..=65535).contains(port))?;
    parse_address(address).map(|ip| SocketAddr::new(ip, port as u16))
}

/// The client's address: as long as the nearest known one is a trusted proxy's, what it says in `X-Forwarded-For` is
/// believed, from the last entry to the first; only the last entry unless `recursive`. `None`: it is where the
/// connection comes from, who is trusted if `is_start_trusted`.
pub fn forwarded<'f>(
    is_start_trusted: bool,
    fields: impl DoubleEndedIterator<Item = &'f [u8]>,
    proxies: &[Cidr],
    recursive: bool,
) -> Option<SocketAddr> {
    let mut address: Option<SocketAddr> = None;
    for field in fields.rev() {
        let mut rest = field;
        loop {
            let is_trusted =
                address.map_or(is_start_trusted, |a| proxies.iter().any(|proxy| proxy.contains(a.ip())));
            if !is_trusted {
                return address;
            }
            let is_separator = |b: &u8| matches!(b, b' ' | b',');
            let end = rest.iter().rposition(|b| !is_separator(b)).map_or(0, |at| at + 1);
            let begin = rest[..end].iter().rposition(is_separator).map_or(0, |at| at + 1);
            match parse_address_port(&rest[begin..end]) {
                Some(next) => address = Some(next),
                None => return address,
            }
            if !recursive {
                return address;
            }
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
    fn networks() {
        let check = |text: &str, want: Option<(&str, &str, bool)>| {
            let bounds = |cidr: Cidr| match cidr {
                Cidr::V4(a, b) => (Ipv4Addr::from(a).to_string(), Ipv4Addr::from(b).to_string()),
                Cidr::V6(a, b) => (Ipv6Addr::from(a).to_string(), Ipv6Addr::from(b).to_string()),
            };
            let got = Cidr::parse(text.as_bytes()).map(|(cidr, low)| (bounds(cidr), low));
            assert_eq!(got, want.map(|(a, b, low)| ((a.to_string(), b.to_string()), low)), "{text}");
        };
        check("10.0.0.0/8", Some(("10.0.0.0", "10.255.255.255", false)));
        check("10.1.0.0/8", Some(("10.0.0.0", "10.255.255.255", true)));
        check("192.0.2.1", Some(("192.0.2.1", "192.0.2.1", false)));
        check("192.0.2.1/32", Some(("192.0.2.1", "192.0.2.1", false)));
        check("255.255.255.255", Some(("255.255.255.255", "255.255.255.255", false)));
        check("0.0.0.0/0", Some(("0.0.0.0", "255.255.255.255", false)));
        check("010.01.0.0/16", Some(("10.1.0.0", "10.1.255.255", false)));
        check("2001:db8::/32", Some(("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", false)));
        check("::1", Some(("::1", "::1", false)));
        check("::1/0", Some(("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true)));
        for bad in [
            "",
            "/8",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0/8",
            "10.0.0.256",
            "10.0.0.0/-1",
            "a",
            "1.2.3.4.5",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn containment_sees_through_mapped_addresses() {
        let check = |net: &str, ip: &str, want| {
            let (cidr, _) = Cidr::parse(net.as_bytes()).unwrap();
            assert_eq!(cidr.contains(ip.parse().unwrap()), want, "{ip} in {net}");
        };
        check("127.0.0.0/8", "127.1.2.3", true);
        check("127.0.0.0/8", "::ffff:127.1.2.3", true);
        check("127.0.0.0/8", "128.0.0.0", false);
        check("::/0", "127.0.0.1", false);
        check("::1", "::1", true);
    }

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
                ["127.0.0.1", "10.0.0.0/8"].iter().map(|t| Cidr::parse(t.as_bytes()).unwrap().0).collect();
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
