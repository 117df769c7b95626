//! Framing, whole and cut at every byte.

use super::*;

const PLAIN: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello";

/// Reads `stream` in two pieces cut at each byte, and byte by byte, with a cold and a warm cache;
/// every way must find the same responses and leave the same end.
fn check(stream: &[u8], is_head: bool, want: &[(u16, bool)], end: Result<Option<u16>, ResponseError>) {
    let mut cache = HeadCache::default();
    for _ in 0..2 {
        for cut in 0..=stream.len() {
            let pieces = [&stream[..cut], &stream[cut..]];
            assert_eq!(run(&pieces, is_head, &mut cache), (want.to_vec(), end), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(run(&bytes, is_head, &mut cache), (want.to_vec(), end), "byte by byte");
    }
}

type Found = (Vec<(u16, bool)>, Result<Option<u16>, ResponseError>);

fn run(pieces: &[&[u8]], is_head: bool, cache: &mut HeadCache) -> Found {
    let mut reader = ResponseReader::default();
    let mut found = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while !input.is_empty() {
            match reader.read(&mut input, is_head, cache) {
                Ok(Some(head)) => found.push((head.status, head.close)),
                Ok(None) => assert!(input.is_empty(), "input is left without a response"),
                Err(error) => return (found, Err(error)),
            }
        }
    }
    (found, reader.end().map(|head| head.map(|head| head.status)))
}

#[test]
fn content_length() {
    check(PLAIN, false, &[(200, false)], Ok(None));
    check(&[PLAIN, PLAIN].concat(), false, &[(200, false); 2], Ok(None));
    check(b"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n", false, &[(404, false)], Ok(None));
    check(b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", false, &[(200, false)], Ok(None));
}

#[test]
fn responses_without_a_body() {
    check(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, &[(200, false)], Ok(None));
    check(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, &[(304, false)], Ok(None));
    check(b"HTTP/1.1 204 No Content\r\n\r\n", false, &[(204, false)], Ok(None));
}

#[test]
fn interim_responses_are_skipped() {
    let stream =
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", PLAIN].concat();
    check(&stream, false, &[(200, false)], Ok(None));
}

#[test]
fn connection_header_and_version_decide_on_closing() {
    check(
        b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
        false,
        &[(200, true)],
        Ok(None),
    );
    check(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false, &[(200, true)], Ok(None));
    let kept = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    check(kept, false, &[(200, false)], Ok(None));
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    check(b"HTTP/1.1 200 OK\r\n\r\nabc", false, &[], Ok(Some(200)));
}

#[test]
fn chunked() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n";
    let ok = |body: &[u8]| {
        check(&[HEAD, body, PLAIN].concat(), false, &[(200, false); 2], Ok(None));
    };
    ok(b"0\r\n\r\n");
    ok(b"5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n");
    ok(b"0a;name=value\r\n0123456789\r\n000\r\nTrailer: x\r\nOther: y\r\n\r\n");
    let bad = |body: &[u8]| {
        check(&[HEAD, body].concat(), false, &[], Err(ResponseError::BadChunk));
    };
    bad(b"x\r\n");
    bad(b"\r\n");
    bad(b"5\nhello");
    bad(b"5\r\nhelloX");
    bad(b"11111111111111111\r\n");
    bad(b"0\r\n\rx");
    check(&[HEAD, b"5\r\nhel"].concat(), false, &[], Err(ResponseError::Truncated));
}

#[test]
fn broken_heads() {
    let bad = |stream: &[u8], error| check(stream, false, &[], Err(error));
    bad(b"HTTP/2.0 200 OK\r\n\r\n", ResponseError::BadHead);
    bad(b"HTTP/1.1 20x OK\r\n\r\n", ResponseError::BadHead);
    bad(b"HTTP/1.1 2000 OK\r\n\r\n", ResponseError::BadHead);
    bad(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", ResponseError::BadHead);
    bad(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::BadLength);
    bad(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::BadLength);
    bad(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ResponseError::BadLength);
    bad(b"HTTP/1.1 200 OK\r\n", ResponseError::Truncated);
    bad(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", ResponseError::Truncated);
}

#[test]
fn an_endless_head_is_refused() {
    let mut reader = ResponseReader::default();
    let mut cache = HeadCache::default();
    let line = [b'a'; 1000];
    assert_eq!(reader.read(&mut &b"HTTP/1.1 200 OK\r\nA: "[..], false, &mut cache), Ok(None));
    let error = (0..100).find_map(|_| reader.read(&mut &line[..], false, &mut cache).err());
    assert_eq!(error, Some(ResponseError::HeadTooLong));
}

#[test]
fn a_head_that_differs_from_the_last_one_is_parsed_anew() {
    let mut cache = HeadCache::default();
    let mut reader = ResponseReader::default();
    let other = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 4\r\n\r\nfour";
    for stream in [PLAIN, other, PLAIN, other] {
        let mut input = stream;
        let head = reader.read(&mut input, false, &mut cache).unwrap().unwrap();
        assert_eq!(head.status, 200);
        assert!(input.is_empty());
    }
}
