//! Writing header fields, with the last line of defence against response splitting.

/// Appends `name: value CRLF`. CR, LF and NUL in a value become spaces (RFC 9110 §5.5 allows a recipient to do so; we
/// do it as the sender, whatever a configuration or an upstream put in). A name with such a byte, or none, is a field
/// that cannot be sent: nothing is written.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if name.is_empty() || name.iter().any(|&b| b <= b' ' || b == b':' || b == 0x7f) {
        return;
    }
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    if memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        for b in &mut out[start..] {
            if matches!(*b, b'\r' | b'\n' | 0) {
                *b = b' ';
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// RFC 9110 §5.6.2: a byte of a token.
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::write_field;

    #[test]
    fn a_field_is_one_line() {
        let check = |name: &str, value: &str, want: &str| {
            let mut out = Vec::new();
            write_field(name.as_bytes(), value.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        };
        check("A", "b", "A: b\r\n");
        check("A", "", "A: \r\n");
        check("A", "x\r\nSet-Cookie: y\0", "A: x  Set-Cookie: y \r\n");
        check("A\r\nB", "x", "");
        check("A:", "x", "");
        check("", "x", "");
    }
}
