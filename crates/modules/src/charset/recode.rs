//! Recoding bodies with a `charset_map`.

use super::map::{Direction, Map, Tables};
use brisk_net::Failure;
use brisk_server::in_memory::InMemory;
use brisk_server::response::{Body, BodyStream, Chunk, Piece, Response};
use std::io::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Recodes a text that comes in pieces.
pub struct Recoder {
    map: Arc<Map>,
    direction: Direction,
    /// The beginning of a UTF-8 character whose end is in the next piece.
    /// Three bytes at most: a fourth makes it a whole one.
    partial: Vec<u8>,
}

impl Recoder {
    /// A recoder between two charsets, if there is a map.
    /// A recoder is of one body: it may hold a part of a character.
    pub fn find(maps: &[Arc<Map>], from: &[u8], to: &[u8]) -> Option<Recoder> {
        maps.iter().find_map(|map| {
            let direction = map.connects(from, to)?;
            Some(Recoder { map: map.clone(), direction, partial: Vec::new() })
        })
    }

    /// Whether a text stays as long as it is.
    fn keeps_length(&self) -> bool {
        matches!(self.map.tables, Tables::Bytes { .. })
    }

    fn recode(&mut self, input: &[u8], out: &mut Vec<u8>) {
        match (&self.map.tables, self.direction) {
            (Tables::Bytes { forth, .. }, Direction::Forth) => {
                out.extend(input.iter().map(|&b| forth[usize::from(b)]));
            }
            (Tables::Bytes { back, .. }, Direction::Back) => {
                out.extend(input.iter().map(|&b| back[usize::from(b)]));
            }
            (Tables::Utf8 { encode, .. }, Direction::Forth) => {
                out.extend(input.iter().flat_map(|&b| encode[usize::from(b)].bytes()));
            }
            (Tables::Utf8 { .. }, Direction::Back) => self.decode(input, out),
        }
    }

    /// Characters that the charset lacks become numeric references, as in nginx: most of what is recoded is HTML.
    fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) {
        let Tables::Utf8 { decode, .. } = &self.map.tables else { return };
        let joined;
        let mut rest = input;
        if !self.partial.is_empty() {
            // At most three bytes were kept: the copy happens once for a character that a piece has cut.
            joined = [&*std::mem::take(&mut self.partial), input].concat();
            rest = &joined;
        }
        loop {
            let (text, broken) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(valid).unwrap_or_default(), Some((after, error.error_len())))
                }
            };
            for character in text.chars() {
                match decode.get(&character) {
                    // ASCII stays what it is, whatever a map says: markup must survive.
                    _ if character.is_ascii() => out.push(character as u8),
                    Some(&byte) => out.push(byte),
                    None => {
                        let _ = write!(out, "&#{};", u32::from(character));
                    }
                }
            }
            match broken {
                None => return,
                Some((after, Some(length))) => {
                    // One mark for what is broken, as nginx writes for bytes that no map knows.
                    out.push(b'?');
                    rest = &after[length..];
                }
                Some((after, None)) => {
                    self.partial = after.to_vec();
                    return;
                }
            }
        }
    }

    /// The text is at its end.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.partial).is_empty() {
            // A character that ends nowhere is as broken as one with wrong bytes.
            out.push(b'?');
        }
    }
}

/// Recodes a response's body.
pub fn apply(resp: &mut Response, mut recoder: Recoder) {
    if matches!(resp.body, Body::Empty) && resp.content_length != Some(0) {
        // The answer to a HEAD: the length is that of the text that a GET would get, if it is known.
        resp.allow_ranges &= recoder.keeps_length();
        resp.content_length = resp.content_length.filter(|_| recoder.keeps_length());
        return;
    }
    let body = std::mem::take(&mut resp.body);
    // Small bodies at once: they keep a length, and may become prepared answers.
    if let Some(pieces) = body.in_memory() {
        let mut out = Vec::new();
        for bytes in pieces {
            recoder.recode(bytes, &mut out);
        }
        recoder.finish(&mut out);
        // Byte for byte a range is the same range of the recoded text.
        resp.allow_ranges &= recoder.keeps_length();
        if resp.content_length.is_some() {
            resp.content_length = Some(out.len() as u64);
        }
        resp.body = if out.is_empty() { Body::Empty } else { Body::bytes(out) };
        return;
    }
    // Ranges are cut from a stream in their order only; a client may ask in any.
    resp.clear_ranges();
    if !recoder.keeps_length() {
        // A character of one byte may become three.
        resp.content_length = None;
    }
    resp.body = Body::Stream(Box::new(Recoded { inner: InMemory::new(body), recoder }));
}

/// A body that is recoded while it is sent.
struct Recoded {
    inner: InMemory,
    recoder: Recoder,
}

impl BodyStream for Recoded {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            let mut out = Vec::new();
            let chunk = ready!(self.inner.poll_chunk(cx));
            match &chunk {
                Some(Ok(Chunk::Piece(piece))) => {
                    self.recoder.recode(piece.in_memory().unwrap_or_default(), &mut out);
                    // A piece that ended within its only character gives nothing: the next one is asked for.
                    if out.is_empty() {
                        continue;
                    }
                }
                None => self.recoder.finish(&mut out),
                Some(_) => {}
            }
            // A flush and an error are passed on as they are.
            return Poll::Ready(if out.is_empty() {
                chunk
            } else {
                Some(Ok(Chunk::Piece(Piece::Bytes(out.into()))))
            });
        }
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        self.inner.poll_ahead(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::super::map::tests::map;
    use super::*;

    /// Recodes `text` cut at every place: the result must not depend on the cut.
    fn check(charset_map: &str, (from, to): (&str, &str), text: &[u8], want: &[u8]) {
        let maps = [Arc::new(map(charset_map).unwrap())];
        for cut in 0..=text.len() {
            let mut recoder = Recoder::find(&maps, from.as_bytes(), to.as_bytes()).unwrap();
            let mut out = Vec::new();
            recoder.recode(&text[..cut], &mut out);
            recoder.recode(&text[cut..], &mut out);
            recoder.finish(&mut out);
            assert_eq!(out, want, "cut at {cut}: {}", String::from_utf8_lossy(&out));
        }
    }

    #[test]
    fn bytes_to_bytes() {
        check("charset_map B A { 58 59; E1 F1; }", ("b", "a"), b"aX\xe1\xe2", b"aY\xf1?");
        check("charset_map B A { 58 59; E1 F1; }", ("a", "b"), b"aY\xf1\xe2", b"aX\xe1?");
    }

    #[test]
    fn to_and_from_utf8() {
        const KOI: &str = "charset_map koi8-r utf-8 { 80 E282AC; C1 D0B0; }";
        check(KOI, ("koi8-r", "utf-8"), b"x\xc1\x80\xc2", "x\u{430}\u{20ac}?".as_bytes());
        check(KOI, ("utf-8", "koi8-r"), "x\u{430}\u{20ac}y".as_bytes(), b"x\xc1\x80y");
        check(KOI, ("utf-8", "koi8-r"), "\u{431}\u{1f600}".as_bytes(), b"&#1073;&#128512;");
        check(KOI, ("utf-8", "koi8-r"), b"a\xff<\xd0<\xd0\xb0", b"a?<?<\xc1");
        check(KOI, ("utf-8", "koi8-r"), b"a\xe2\x82", b"a?");
    }

    #[test]
    fn lengths_follow_the_text() {
        let maps = [Arc::new(map("charset_map a utf-8 { C1 D0B0; }").unwrap())];
        let mut resp = Response { content_length: Some(2), allow_ranges: true, ..Response::default() };
        resp.body = Body::bytes(&b"\xc1x"[..]);
        apply(&mut resp, Recoder::find(&maps, b"a", b"utf-8").unwrap());
        assert_eq!((resp.content_length, resp.allow_ranges), (Some(3), false));
        assert_eq!(resp.body.len(), Some(3));
    }
}
