//! Networks as configurations write them: `192.0.2.0/24`, `2001:db8::/32`, or one address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with the number of its bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cidr {
    V4 { net: Ipv4Addr, bits: u8 },
    V6 { net: Ipv6Addr, bits: u8 },
}

/// What [`Cidr::parse`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed {
    pub cidr: Cidr,
    /// Bits behind the mask were set: nginx warns "low address bits of … are meaningless".
    pub is_rough: bool,
}

impl Cidr {
    /// Parses an address or network.
    pub fn parse(text: &str) -> Option<Parsed> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|b| b.is_ascii_digit()) => {
                (address, Some(bits.parse::<u8>().ok()?))
            }
            Some(_) => return None,
            None => (text, None),
        };
        let max = if address.contains(':') { 128 } else { 32 };
        let bits = bits.unwrap_or(max);
        if bits > max {
            return None;
        }
        match address.parse().ok()? {
            IpAddr::V4(ip) => {
                let net = Ipv4Addr::from_bits(ip.to_bits() & mask4(bits));
                Some(Parsed { cidr: Cidr::V4 { net, bits }, is_rough: net != ip })
            }
            IpAddr::V6(ip) => {
                let net = Ipv6Addr::from_bits(ip.to_bits() & mask6(bits));
                Some(Parsed { cidr: Cidr::V6 { net, bits }, is_rough: net != ip })
            }
        }
    }

    /// Whether an address belongs to the network. An IPv4 address is never in an IPv6 network, nor the other way
    /// round.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self, address) {
            (Cidr::V4 { net, bits }, IpAddr::V4(ip)) => ip.to_bits() & mask4(*bits) == net.to_bits(),
            (Cidr::V6 { net, bits }, IpAddr::V6(ip)) => ip.to_bits() & mask6(*bits) == net.to_bits(),
            _ => false,
        }
    }
}

fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0)
}

fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed() {
        let check = |text: &str, want: Option<(&str, u8, bool)>| {
            let got = Cidr::parse(text).map(|parsed| match parsed.cidr {
                Cidr::V4 { net, bits } => (net.to_string(), bits, parsed.is_rough),
                Cidr::V6 { net, bits } => (net.to_string(), bits, parsed.is_rough),
            });
            assert_eq!(got, want.map(|(net, bits, rough)| (net.to_string(), bits, rough)), "{text}");
        };
        check("192.0.2.1", Some(("192.0.2.1", 32, false)));
        check("192.0.2.0/24", Some(("192.0.2.0", 24, false)));
        check("192.0.2.1/24", Some(("192.0.2.0", 24, true)));
        check("1.2.3.4/0", Some(("0.0.0.0", 0, true)));
        check("::/0", Some(("::", 0, false)));
        check("2001:db8::1/32", Some(("2001:db8::", 32, true)));
        check("::1", Some(("::1", 128, false)));
        for bad in [
            "",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/+8",
            "host",
            "10.0.0.0/8/8",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn addresses_are_compared_by_the_bits_that_count() {
        let check = |net: &str, address: &str, want: bool| {
            let cidr = Cidr::parse(net).unwrap().cidr;
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
}
