//! Dates as caches must read them: what is not exactly one of HTTP's formats is invalid, and an invalid `Expires` means
//! "already expired" (RFC 9111 §5.3). `brisk_http::date` reads as nginx does, more leniently.

use brisk_http::date::parse_http_date_at;

/// Seconds since 1970, if `value` is an IMF-fixdate, an RFC 850 date or an asctime date (RFC 9110 §5.6.7). Case does
/// not count: senders get it wrong, and nothing else can be meant.
pub fn strict(value: &[u8], now: i64) -> Option<i64> {
    let value = value.trim_ascii();
    let shape: Vec<u8> = value.iter().map(|&byte| class(byte)).collect();
    let is_imf = shape == b"aaa, 00 aaa 0000 00:00:00 aaa";
    let is_asctime = shape == b"aaa aaa 00 00:00:00 0000" || shape == b"aaa aaa  0 00:00:00 0000";
    let is_rfc850 = shape.ends_with(b"a, 00-aaa-00 00:00:00 aaa")
        && shape[..shape.len() - 24].iter().all(|&class| class == b'a');
    if !(is_imf || is_asctime || is_rfc850) {
        return None;
    }
    if !is_asctime && !value.to_ascii_uppercase().ends_with(b" GMT") {
        return None;
    }
    parse_http_date_at(&capitalised(value), now)
}

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => b'a',
        b'0'..=b'9' => b'0',
        other => other,
    }
}

/// Words with a capital first letter: `nOV` becomes `Nov`.
fn capitalised(value: &[u8]) -> Vec<u8> {
    let mut in_word = false;
    let letter = |byte: &u8| {
        let next = if in_word { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() };
        in_word = byte.is_ascii_alphabetic();
        next
    };
    value.iter().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_three_formats_are_dates() {
        let check = |value: &str, valid: bool| {
            let want = valid.then_some(784_111_777);
            assert_eq!(strict(value.as_bytes(), 1_767_225_600), want, "{value}");
        };
        check("Sun, 06 Nov 1994 08:49:37 GMT", true);
        check("sUN, 06 nOV 1994 08:49:37 gmt", true);
        check("Sunday, 06-Nov-94 08:49:37 GMT", true);
        check("Sun Nov  6 08:49:37 1994", true);
        for bad in [
            "",
            "0",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 AEST",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            check(bad, false);
        }
    }
}
