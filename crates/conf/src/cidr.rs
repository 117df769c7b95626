//! Addresses and networks as configurations and header fields write them: `192.0.2.0/24`, `2001:db8::/32`, or one
//! address. All of the server reads them here, by nginx's rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: its first and its last address, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cidr {
    /// Of IPv4.
    V4(u32, u32),
    /// Of IPv6.
    V6(u128, u128),
}

/// What [`Cidr::parse`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The network, without the bits behind the mask.
    pub cidr: Cidr,
    /// Bits behind the mask were set: nginx warns "low address bits of … are meaningless".
    pub is_rough: bool,
}

impl Cidr {
    /// Reads `address` or `address/bits`. Nothing for what is neither.
    pub fn parse(text: &[u8]) -> Option<Parsed> {
        let (address, bits) = match text.iter().position(|&b| b == b'/') {
            Some(at) => (&text[..at], Some(number(&text[at + 1..])?)),
            None => (text, None),
        };
        match parse_address(address)? {
            IpAddr::V4(ip) => {
                let (ip, bits) = (ip.to_bits(), bits.unwrap_or(32));
                let host = if bits > 32 { return None } else { u32::MAX.checked_shr(bits).unwrap_or(0) };
                Some(Parsed { cidr: Cidr::V4(ip & !host, ip | host), is_rough: ip & host != 0 })
            }
            IpAddr::V6(ip) => {
                let (ip, bits) = (ip.to_bits(), bits.unwrap_or(128));
                let host = if bits > 128 { return None } else { u128::MAX.checked_shr(bits).unwrap_or(0) };
                Some(Parsed { cidr: Cidr::V6(ip & !host, ip | host), is_rough: ip & host != 0 })
            }
        }
    }

    /// The network of one address.
    pub const fn one(address: IpAddr) -> Cidr {
        match address {
            IpAddr::V4(ip) => Cidr::V4(ip.to_bits(), ip.to_bits()),
            IpAddr::V6(ip) => Cidr::V6(ip.to_bits(), ip.to_bits()),
        }
    }

    /// Whether an address belongs to the network. An IPv4 address is never in an IPv6 network, nor the other way
    /// round: an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2) is one of IPv6.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Cidr::V4(first, last), IpAddr::V4(ip)) => (first..=last).contains(&ip.to_bits()),
            (Cidr::V6(first, last), IpAddr::V6(ip)) => (first..=last).contains(&ip.to_bits()),
            _ => false,
        }
    }

    /// As [`Cidr::contains`], but an IPv4-mapped IPv6 address is one of IPv4, as nginx's `ngx_cidr_match` has it.
    pub fn contains_unmapped(self, address: IpAddr) -> bool {
        self.contains(address.to_canonical())
    }
}

/// Up to five decimal digits.
pub fn number(digits: &[u8]) -> Option<u32> {
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

/// An IPv4 address ([`parse_ipv4`]) or an IPv6 address (RFC 4291 §2.2), without brackets.
pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    if let Some(ip) = parse_ipv4(text) {
        return Some(IpAddr::V4(ip));
    }
    let text = std::str::from_utf8(text).ok()?;
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
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
            let got = Cidr::parse(text.as_bytes()).map(|parsed| (bounds(parsed.cidr), parsed.is_rough));
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
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "host",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn addresses_are_compared_by_the_bits_that_count() {
        let check = |net: &str, address: &str, want: bool| {
            let cidr = Cidr::parse(net.as_bytes()).unwrap().cidr;
            assert_eq!(cidr.contains(address.parse().unwrap()), want, "{address} in {net}");
        };
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("0.0.0.0/0", "255.255.255.255", true);
        check("0.0.0.0/0", "::1", false);
        check("::/0", "::1", true);
        check("2001:db8::/33", "2001:db8:7fff::1", true);
        check("2001:db8::/33", "2001:db8:8000::1", false);
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.6", false);
    }

    #[test]
    fn containment_sees_through_mapped_addresses() {
        let check = |net: &str, ip: &str, want| {
            let cidr = Cidr::parse(net.as_bytes()).unwrap().cidr;
            assert_eq!(cidr.contains_unmapped(ip.parse().unwrap()), want, "{ip} in {net}");
        };
        check("127.0.0.0/8", "127.1.2.3", true);
        check("127.0.0.0/8", "::ffff:127.1.2.3", true);
        check("127.0.0.0/8", "128.0.0.0", false);
        check("::/0", "127.0.0.1", false);
        check("::1", "::1", true);
    }
}
