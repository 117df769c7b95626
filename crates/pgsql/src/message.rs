//! Messages of the protocol: a letter, a length that counts itself, and what follows.

use crate::limits::MESSAGE_BYTES_MAX;

/// Asks a server for TLS, before anything else is sent.
pub const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A server that is asked for TLS and has it answers with this one byte.
pub const ANSWER_TLS: u8 = b'S';

/// A message's letter, its body, and the length of it all.
type Message<'b> = (u8, &'b [u8], usize);

/// The first message at the beginning of `bytes`. `None`: it is not complete. The error:
/// no server sends such a length.
pub fn first(bytes: &[u8]) -> Result<Option<Message<'_>>, ()> {
    let Some((head, _)) = bytes.split_at_checked(5) else { return Ok(None) };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(());
    }
    Ok(bytes.get(5..=length).map(|body| (head[0], body, length + 1)))
}

/// Writes a message.
pub fn write(letter: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(letter);
    out.extend_from_slice(&(length as u32 + 4).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The first message of a connection, which has no letter.
pub fn write_startup(user: &str, database: &str, out: &mut Vec<u8>) {
    let mut body = vec![0, 3, 0, 0];
    for (name, value) in [("user", user), ("database", database), ("application_name", "brisk")] {
        for text in [name, value] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
    }
    body.push(0);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
}

/// A number of four bytes, and what follows it.
pub fn number(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes(*head), rest))
}

/// The values of a `DataRow`.
pub fn row(body: &[u8]) -> Option<Vec<Option<String>>> {
    let (count, mut rest) = body.split_first_chunk()?;
    let mut values = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = number(rest)?;
        rest = after;
        // -1 is NULL.
        let value = match usize::try_from(length) {
            Err(_) => None,
            Ok(length) => {
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                Some(String::from_utf8_lossy(value).into_owned())
            }
        };
        values.push(value);
    }
    rest.is_empty().then_some(values)
}

/// What an `ErrorResponse` says: its code (SQLSTATE), and its text.
pub fn error(body: &[u8]) -> (String, String) {
    let (mut code, mut text) = (String::new(), String::new());
    for field in body.split(|byte| *byte == 0) {
        let Some((kind, value)) = field.split_first() else { continue };
        let value = || String::from_utf8_lossy(value).into_owned();
        match kind {
            b'C' => code = value(),
            b'M' => text = value(),
            _ => {}
        }
    }
    (code, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_out_of_a_stream() {
        assert_eq!(first(b"Z\0\0\0"), Ok(None));
        assert_eq!(first(b"Z\0\0\0\x05"), Ok(None));
        assert_eq!(first(b"Z\0\0\0\x05IZ"), Ok(Some((b'Z', &b"I"[..], 6))));
        assert_eq!(first(b"Z\0\0\0\x03"), Err(()));
        assert_eq!(first(b"Z\xff\xff\xff\xff"), Err(()));
    }

    #[test]
    fn rows() {
        let read = |body: &[u8]| row(body);
        assert_eq!(read(b"\0\x02\0\0\0\x01t\xff\xff\xff\xff"), Some(vec![Some("t".into()), None]));
        assert_eq!(read(b"\0\x01\0\0\0\x05t"), None);
        assert_eq!(read(b"\0\x01\0\0\0\x01tt"), None);
        assert_eq!(read(b"\0"), None);
    }

    #[test]
    fn errors() {
        let (code, text) = error(b"SFATAL\0C28P01\0Mno such password\0\0");
        assert_eq!((code.as_str(), text.as_str()), ("28P01", "no such password"));
    }
}
