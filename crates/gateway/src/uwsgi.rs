//! The uwsgi protocol: one packet of names and values with 16-bit lengths (little endian), then the body. The answer
//! ends with the connection.

use crate::{Pair, Params, put_all, total};

/// Bytes before a packet's content: modifier 1, length, modifier 2.
const HEAD_BYTES: usize = 4;

/// Writes a request up to its body.
pub struct RequestWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// A name or value that its length cannot tell.
    too_long: bool,
}

impl<'a> RequestWriter<'a> {
    /// Begins a packet at the end of `out`.
    pub fn new(modifier1: u8, modifier2: u8, out: &'a mut Vec<u8>) -> RequestWriter<'a> {
        let start = out.len();
        out.extend_from_slice(&[modifier1, 0, 0, modifier2]);
        RequestWriter { out, start, too_long: false }
    }

    /// Adds bytes as they are (`uwsgi_string`).
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Ends the packet; the body follows. The error is the size of a packet that is too large.
    pub fn finish(self) -> Result<(), usize> {
        let len = self.out.len() - self.start - HEAD_BYTES;
        let Some(length) = u16::try_from(len).ok().filter(|_| !self.too_long) else { return Err(len) };
        self.out[self.start + 1..self.start + 3].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    fn put_length(&mut self, len: usize) {
        self.too_long |= len > usize::from(u16::MAX);
        self.out.extend_from_slice(&(len as u16).to_le_bytes());
    }
}

impl Params for RequestWriter<'_> {
    fn pair(&mut self, name: &[u8], pieces: &[&[u8]]) {
        self.put_length(name.len());
        self.out.extend_from_slice(name);
        self.put_length(total(pieces));
        put_all(pieces, self.out);
    }
}

/// How a web server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A request as an application sees it: for simulated peers in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The kind of request; 0: WSGI.
    pub modifier1: u8,
    /// What it means depends on `modifier1`.
    pub modifier2: u8,
    /// Names and values, in their order.
    pub params: Vec<Pair<'a>>,
    /// Where in the bytes the body begins.
    pub len: usize,
}

/// Reads a request up to its body; `None` if more bytes are needed.
pub fn parse(buf: &[u8]) -> Result<Option<Request<'_>>, Malformed> {
    let Some((&[modifier1, low, high, modifier2], rest)) = buf.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes([low, high]));
    let Some(mut content) = rest.get(..length) else { return Ok(None) };
    let mut params = Vec::new();
    while !content.is_empty() {
        params.push((text(&mut content)?, text(&mut content)?));
    }
    Ok(Some(Request { modifier1, modifier2, params, len: HEAD_BYTES + length }))
}

fn text<'a>(content: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let (length, rest) = content.split_first_chunk::<2>().ok_or(Malformed)?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length))).ok_or(Malformed)?;
    *content = rest;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_packet() {
        let mut out = b"x".to_vec();
        let mut writer = RequestWriter::new(5, 7, &mut out);
        writer.pair(b"A", &[b"b", b"c"]);
        writer.pair(b"EMPTY", &[]);
        writer.raw(b"\x01\x00Q\x00\x00");
        assert_eq!(writer.finish(), Ok(()));
        assert_eq!(out, b"x\x05\x15\x00\x07\x01\x00A\x02\x00bc\x05\x00EMPTY\x00\x00\x01\x00Q\x00\x00");
        let request = parse(&out[1..]).unwrap().unwrap();
        assert_eq!((request.modifier1, request.modifier2, request.len), (5, 7, out.len() - 1));
        assert_eq!(request.params, [(&b"A"[..], &b"bc"[..]), (b"EMPTY", b""), (b"Q", b"")]);
        for len in 0..out.len() - 1 {
            assert_eq!(parse(&out[1..=len]), Ok(None), "{len}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        let mut writer = RequestWriter::new(0, 0, &mut out);
        writer.pair(b"A", &[&vec![b'x'; 40_000]]);
        writer.pair(b"B", &[&vec![b'x'; 40_000]]);
        assert_eq!(writer.finish(), Err(80_010));
        out.clear();
        let mut writer = RequestWriter::new(0, 0, &mut out);
        writer.pair(b"A", &[&vec![b'x'; 65_536]]);
        assert_eq!(writer.finish(), Err(65_541));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [&b"\0\x01\0\0x"[..], b"\0\x02\0\0\x01\0", b"\0\x03\0\0\x01\0A", b"\0\x04\0\0\x01\0AB"] {
            assert_eq!(parse(bad), Err(Malformed), "{bad:?}");
        }
        assert_eq!(parse(b"\0\0\0\0").unwrap().unwrap().params, []);
    }
}
