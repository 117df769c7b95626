//! SCGI: one netstring of NUL-terminated names and values, then the body. The answer ends with the connection.

use crate::limits::LENGTH_BYTES_MAX;
use crate::{Pair, Params, put_all};

/// Writes a request up to its body.
pub struct RequestWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> RequestWriter<'a> {
    /// Begins a request at the end of `out`. `CONTENT_LENGTH` must come first, and must be there without a body too.
    pub fn new(content_length: u64, out: &'a mut Vec<u8>) -> RequestWriter<'a> {
        let start = out.len();
        out.resize(start + LENGTH_BYTES_MAX + 1, 0);
        let mut writer = RequestWriter { out, start };
        writer.pair(b"CONTENT_LENGTH", &[content_length.to_string().as_bytes()]);
        writer
    }

    /// Ends the parameters; the body follows.
    pub fn finish(self) {
        let begin = self.start + LENGTH_BYTES_MAX + 1;
        let length = format!("{}:", self.out.len() - begin);
        self.out.push(b',');
        self.out.splice(self.start..begin, length.into_bytes());
    }
}

impl Params for RequestWriter<'_> {
    fn pair(&mut self, name: &[u8], pieces: &[&[u8]]) {
        self.out.extend_from_slice(name);
        self.out.push(0);
        put_all(pieces, self.out);
        self.out.push(0);
    }
}

/// How a web server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A request as an application sees it: for simulated peers in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Names and values, in their order.
    pub params: Vec<Pair<'a>>,
    /// What `CONTENT_LENGTH` says.
    pub body_bytes: u64,
    /// Where in the bytes the body begins.
    pub len: usize,
}

/// Reads a request up to its body; `None` if more bytes are needed. A netstring of more than `bytes_max` is refused.
pub fn parse(buf: &[u8], bytes_max: usize) -> Result<Option<Request<'_>>, Malformed> {
    let digits = buf.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > LENGTH_BYTES_MAX || buf.get(digits).is_some_and(|&b| b != b':' || digits == 0) {
        return Err(Malformed);
    }
    let length = std::str::from_utf8(&buf[..digits]).ok().and_then(|text| text.parse().ok());
    let Some(length) = length.filter(|&length: &usize| length <= bytes_max) else {
        return if digits == 0 && buf.is_empty() { Ok(None) } else { Err(Malformed) };
    };
    let end = digits + 1 + length;
    let Some(comma) = buf.get(end) else { return Ok(None) };
    if *comma != b',' {
        return Err(Malformed);
    }
    let params = pairs(&buf[digits + 1..end])?;
    let (name, value) = params.first().ok_or(Malformed)?;
    let value = std::str::from_utf8(value).map_err(|_| Malformed)?;
    if *name != b"CONTENT_LENGTH" || !value.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Malformed);
    }
    let body_bytes = value.parse().map_err(|_| Malformed)?;
    Ok(Some(Request { params, body_bytes, len: end + 1 }))
}

fn pairs(text: &[u8]) -> Result<Vec<Pair<'_>>, Malformed> {
    let mut texts = text.strip_suffix(b"\0").ok_or(Malformed)?.split(|&b| b == 0);
    let mut pairs = Vec::new();
    while let Some(name) = texts.next() {
        pairs.push((name, texts.next().ok_or(Malformed)?));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_netstring() {
        let mut out = b"x".to_vec();
        let mut writer = RequestWriter::new(27, &mut out);
        writer.pair(b"SCGI", &[b"1"]);
        writer.pair(b"REQUEST_METHOD", &[b"PO", b"ST"]);
        writer.pair(b"REQUEST_URI", &[b"/deepthought"]);
        writer.finish();
        // The example of the specification.
        let want = "x70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,";
        assert_eq!(String::from_utf8(out.clone()).unwrap(), want);
        let request = parse(&out[1..], 100).unwrap().unwrap();
        assert_eq!((request.body_bytes, request.len, request.params.len()), (27, out.len() - 1, 4));
        assert_eq!(request.params[3], (&b"REQUEST_URI"[..], &b"/deepthought"[..]));
        for len in 0..out.len() - 1 {
            assert_eq!(parse(&out[1..=len], 100), Ok(None), "{len}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = [
            ":",
            "x",
            "3:abc,",
            "0:,",
            "4:a\0b\0;",
            "4:a\0b\0,",
            "17:CONTENT_LENGTH\0+1\0,",
            "16:CONTENT_LENGTH\0x\0,",
            "101:",
            "99999999999999999999:",
            "999999999999999999999",
        ];
        for text in bad {
            assert_eq!(parse(text.as_bytes(), 100), Err(Malformed), "{text:?}");
        }
    }
}
