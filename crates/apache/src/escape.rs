//! Escapes in URIs and directory names, as Apache's functions do them.

/// Percent-encodes what must not stand in a path (Apache: `ap_escape_uri`). `%` itself is encoded, `?` and `#` too.
pub fn uri(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"$-_.+!*'(),:;@&=/~".contains(&byte) {
            out.push(byte);
        } else {
            percent(byte, &mut out);
        }
    }
    out
}

/// `%2f` and the like, in small letters as Apache writes them.
pub fn percent(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// Decodes percent-encoding, all but that of a slash. `None` where it is malformed or encodes a NUL.
pub fn decode_keeping_slashes(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'%' {
            out.push(byte);
            rest = behind;
            continue;
        }
        let digit = |at: usize| behind.get(at).and_then(|&byte| (byte as char).to_digit(16));
        match (digit(0)? << 4 | digit(1)?) as u8 {
            0 => return None,
            b'/' => out.extend_from_slice(&rest[..3]),
            decoded => out.push(decoded),
        }
        rest = &behind[2..];
    }
    Some(out)
}

/// Escapes for a name and a filter of LDAP (RFC 4514, RFC 4515).
pub fn ldap(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if !(b' '..0x7f).contains(&byte) || b"\\*()\",+;<=>#/".contains(&byte) {
            out.extend_from_slice(format!("\\{byte:02x}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// A text as a regular expression that matches it alone.
pub fn pattern(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() && c != '/' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways() {
        assert_eq!(uri(b"/a b%20?#[]\x7f\xe9;~"), b"/a%20b%2520%3f%23%5b%5d%7f%e9;~");
        assert_eq!(decode_keeping_slashes(b"%41%2fb%2F%"), None);
        assert_eq!(decode_keeping_slashes(b"%41%2fb%2F").as_deref(), Some(&b"A%2fb%2F"[..]));
        assert_eq!(decode_keeping_slashes(b"a%00"), None);
        assert_eq!(ldap(b"a*(b)"), b"a\\2a\\28b\\29");
    }
}
