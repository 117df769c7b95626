//! Networks, as `Require ip`, `-ipmatch` and `Allow from` write them: an address, `10.1` and `10.1.`, `10.0.0.0/8`,
//! `10.0.0.0/255.0.0.0`, `2001:db8::/32`.

use brisk_conf::cidr::Cidr;
use std::net::{IpAddr, Ipv4Addr};

/// Reads a network; `None` for what is none.
pub fn parse(text: &str) -> Option<Cidr> {
    let Some((address, mask)) = text.split_once('/') else {
        return text.parse().map(Cidr::one).ok().or_else(|| partial(text));
    };
    let bits = match mask.parse::<Ipv4Addr>() {
        Ok(mask) => {
            let bits = mask.to_bits();
            // Ones behind a zero are no mask.
            (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits.leading_ones())?
        }
        // APR takes no number of zero bits (`apr_ipsubnet_create`); "all" says it.
        Err(_) if mask.bytes().all(|byte| byte.is_ascii_digit()) => {
            mask.parse().ok().filter(|bits| *bits > 0)?
        }
        Err(_) => return None,
    };
    let address: IpAddr = match address.parse() {
        Ok(address) => address,
        // `10.1/16`.
        Err(_) => first_of_partial(address)?.0.into(),
    };
    Cidr::parse(format!("{address}/{bits}").as_bytes()).map(|parsed| parsed.cidr)
}

/// Whether an address belongs to a network. An IPv4 address in an IPv6 one (RFC 4291 §2.5.5.2) is an IPv4 address here.
pub fn contains(network: Cidr, address: IpAddr) -> bool {
    let plain = match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    network.contains(plain) || network.contains(address)
}

/// The address that a text is, such as `%{REMOTE_ADDR}` gives it.
pub fn address(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `10.1` or `10.1.`: the first one to three bytes of an IPv4 address.
fn partial(text: &str) -> Option<Cidr> {
    let (address, bytes) = first_of_partial(text)?;
    Cidr::parse(format!("{address}/{}", bytes * 8).as_bytes()).map(|parsed| parsed.cidr)
}

fn first_of_partial(text: &str) -> Option<(Ipv4Addr, u32)> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *bytes.get_mut(count)? = is_number.then(|| part.parse().ok())??;
        count += 1;
    }
    (count < 4).then(|| (Ipv4Addr::from(bytes), count as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (network, inside, outside) in [
            ("10.1", "10.1.255.9", "10.2.0.0"),
            ("10.1.", "10.1.0.1", "10.11.0.1"),
            ("10.0.0.0/8", "10.9.9.9", "11.0.0.0"),
            ("10/8", "10.9.9.9", "11.0.0.0"),
            ("192.0.2.0/255.255.255.0", "192.0.2.200", "192.0.3.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("2001:db8::/32", "2001:db8:1::", "2001:db9::"),
            ("0.0.0.0/0.0.0.0", "1.2.3.4", "::1"),
        ] {
            let cidr = parse(network).unwrap_or_else(|| panic!("{network}"));
            assert!(contains(cidr, inside.parse().unwrap()), "{network} {inside}");
            assert!(!contains(cidr, outside.parse().unwrap()), "{network} {outside}");
        }
        for none in [
            "",
            "10.1.2.3.4",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/33",
            "10.0.0.0/255.0.255.0",
            "a.b",
            "10..1",
            "::1/129",
            "10.0.0.0/",
            "300.1",
        ] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
