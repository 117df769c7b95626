//! Content coding negotiation (RFC 9110 §12.5.3).

/// A weight in thousandths: 0 (not acceptable) to 1000.
pub type Quality = u16;

/// The weight that an `Accept-Encoding` value gives a coding by name; 0 if it does not name it, or names it with a
/// malformed weight. This is nginx's rule for gzip: `*` counts for nothing.
pub fn coding_quality(value: &[u8], coding: &[u8]) -> Quality {
    for item in value.split(|&b| b == b',') {
        let mut parts = item.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        if parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding)) {
            return weight(parts).unwrap_or(0);
        }
    }
    0
}

/// Whether gzip may be used.
pub fn accepts_gzip(value: &[u8]) -> bool {
    coding_quality(value, b"gzip") > 0
}

/// Of the codings that the server offers, the one with the greatest weight; among equals the first. As with gzip in
/// nginx, a coding must be named, since clients that send `*` rarely mean it.
pub fn choose_coding<'a>(value: &[u8], offered: &[&'a str]) -> Option<&'a str> {
    let mut best = None;
    let mut best_quality = 0;
    for &coding in offered {
        let quality = coding_quality(value, coding.as_bytes());
        if quality > best_quality {
            best = Some(coding);
            best_quality = quality;
        }
    }
    best
}

/// The weight in an item's parameters: none means 1000. nginx takes `q` alone and at most three decimals.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> Option<Quality> {
    let Some(parameter) = parameters.next() else { return Some(1000) };
    if parameter.is_empty() && parameters.next().is_none() {
        return Some(1000);
    }
    let [b'q' | b'Q', b'=', number @ ..] = parameter else { return None };
    let (whole, decimals) = match number {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !matches!(whole, b'0' | b'1') {
        return None;
    }
    let mut quality = u16::from(whole - b'0');
    for i in 0..3 {
        let digit = char::from(*decimals.get(i).unwrap_or(&b'0')).to_digit(10)?;
        quality = quality * 10 + digit as u16;
    }
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights() {
        let check = |value: &str, want: Quality| {
            assert_eq!(coding_quality(value.as_bytes(), b"gzip"), want, "{value}");
        };
        check("gzip", 1000);
        check("GZip", 1000);
        check("deflate, gzip ;q=0.5, br", 500);
        check("gzip; q=0.001", 1);
        check("gzip; q=1.000", 1000);
        check("gzip;q=1", 1000);
        check("gzip;q=0", 0);
        check("gzip;q=0.", 0);
        check("gzip;q=0.000", 0);
        check("gzip;q=0.0001", 0);
        check("gzip;q=1.001", 0);
        check("gzip;q=2", 0);
        check("gzip;q=", 0);
        check("gzip;q=0.a", 0);
        check("gzip;", 1000);
        check("gzip;x", 0);
        check("x-gzip", 0);
        check("gzipped", 0);
        check("gzipped, gzip", 1000);
        check("*", 0);
        check("", 0);
        check("deflate", 0);
    }

    #[test]
    fn choice() {
        let check = |value: &str, want: Option<&str>| {
            assert_eq!(choose_coding(value.as_bytes(), &["zstd", "br", "gzip"]), want, "{value}");
        };
        check("gzip, deflate, br, zstd", Some("zstd"));
        check("gzip, br", Some("br"));
        check("gzip, br;q=0.9", Some("gzip"));
        check("br;q=0", None);
        check("identity", None);
    }
}
