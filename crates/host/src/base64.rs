//! Base64 in fields of requests.

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

static PLAIN: GeneralPurpose = lenient(&STANDARD);
static URL: GeneralPurpose = lenient(&URL_SAFE);

/// As nginx takes it: with padding or without, and whatever the last letter's spare bits are.
const fn lenient(alphabet: &Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config)
}

/// RFC 4648 §4.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    PLAIN.decode(text).ok()
}

/// RFC 4648 §5.
pub fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    URL.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_optional() {
        let check = |text: &str, want: Option<&[u8]>| {
            assert_eq!(decode(text.as_bytes()).as_deref(), want, "{text}");
        };
        check("", Some(b""));
        check("YTpi", Some(b"a:b"));
        check("YQ==", Some(b"a"));
        check("YQ", Some(b"a"));
        check("YR", Some(b"a"));
        check("+/+/", Some(b"\xfb\xff\xbf"));
        check("-_-_", None);
        check("Y", None);
        check("Y Q=", None);
        assert_eq!(decode_url(b"-_-_").as_deref(), Some(&b"\xfb\xff\xbf"[..]));
        assert_eq!(decode_url(b"+/+/"), None);
    }
}
