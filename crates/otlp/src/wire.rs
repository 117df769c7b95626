//! Protocol Buffers' wire format, as far as traces need it, and gRPC's frame around a message.

/// A number in groups of seven bits, the lowest first.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn key(field: u32, kind: u32, out: &mut Vec<u8>) {
    varint(u64::from(field << 3 | kind), out);
}

/// An integer or an enum, `int64` in the schema.
pub fn integer(field: u32, value: i64, out: &mut Vec<u8>) {
    key(field, 0, out);
    varint(value as u64, out);
}

/// A `fixed64`.
pub fn fixed(field: u32, value: u64, out: &mut Vec<u8>) {
    key(field, 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// `bytes`.
pub fn bytes(field: u32, value: &[u8], out: &mut Vec<u8>) {
    key(field, 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A `string`. It must be UTF-8, or readers refuse the whole message: what clients have sent otherwise gets marks in its place.
pub fn text(field: u32, value: &[u8], out: &mut Vec<u8>) {
    bytes(field, String::from_utf8_lossy(value).as_bytes(), out);
}

/// A message inside of another one.
pub fn message(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    key(field, 2, out);
    let at = out.len();
    write(out);
    // Its length stands before it and is known behind it.
    let mut length = Vec::with_capacity(5);
    varint((out.len() - at) as u64, &mut length);
    out.splice(at..at, length);
}

/// A message as gRPC sends it: not compressed, with its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_numbers() {
        let written = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        assert_eq!(written(&|out| integer(1, 150, out)), [0x08, 0x96, 0x01]);
        assert_eq!(written(&|out| integer(2, -1, out)).len(), 11);
        assert_eq!(written(&|out| text(2, b"testing", out)), b"\x12\x07testing");
        assert_eq!(written(&|out| text(1, b"a\xffb", out)), "\x0a\x05a\u{fffd}b".as_bytes());
        assert_eq!(written(&|out| fixed(7, 1, out)), [0x39, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(written(&|out| message(3, out, |out| integer(1, 150, out))), [0x1a, 3, 0x08, 0x96, 0x01]);
        let long = written(&|out| message(3, out, |out| bytes(1, &[7; 300], out)));
        assert_eq!(long[..6], [0x1a, 0xaf, 0x02, 0x0a, 0xac, 0x02]);
        assert_eq!(framed(b"ab"), [0, 0, 0, 0, 2, b'a', b'b']);
    }
}
