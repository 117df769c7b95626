//! What must hold for any bytes that a back end sends.

use crate::codec::{Codec, Event};
use crate::http1::{Http1, Shape};
use crate::http2::{Http2, Question, RequestHead};
use brisk_http::response::RequestKind;

/// What an answer came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: Option<u16>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    interim: usize,
    body: Vec<u8>,
    trailers: usize,
    ended: bool,
    failed: bool,
    persists: bool,
    tunnel: bool,
}

/// Reads an answer that comes in pieces which end at `cuts`.
/// Whatever the pieces, the meaning must be the same: TCP may cut a stream anywhere.
fn read(shape: Shape, bytes: &[u8], cuts: impl Fn(usize) -> usize) -> Answer {
    read_by(&mut Http1::new(b"GET / HTTP/1.1\r\n\r\n".to_vec(), shape), bytes, cuts)
}

// As `Exchange` does it: bytes that were left unused are shown again with what comes behind them.
fn read_by(codec: &mut dyn Codec, bytes: &[u8], cuts: impl Fn(usize) -> usize) -> Answer {
    let mut out = Vec::new();
    codec.begin(&mut out);
    codec.end(&mut out);
    let mut answer = Answer::default();
    let mut rest = Vec::new();
    let mut at = 0;
    while at < bytes.len() && !answer.ended && !answer.failed && !answer.tunnel {
        let end = (at + cuts(at).max(1)).min(bytes.len());
        rest.extend_from_slice(&bytes[at..end]);
        at = end;
        let used = feed(codec, &rest, &mut answer, &mut out);
        rest.drain(..used);
    }
    if !answer.ended && !answer.failed && !answer.tunnel {
        // The end of the connection is the end of some answers, and cuts others off.
        match codec.eof() {
            Ok(Event::End) => answer.ended = true,
            Ok(_) | Err(_) => answer.failed = true,
        }
    } else {
        answer.persists = answer.ended && codec.persists();
    }
    answer
}

fn feed(codec: &mut dyn Codec, input: &[u8], answer: &mut Answer, out: &mut Vec<u8>) -> usize {
    let mut at = 0;
    let mut idle = 0;
    while !answer.ended {
        let Ok(step) = codec.read(&input[at..], out) else {
            answer.failed = true;
            return at;
        };
        assert!(at + step.used <= input.len(), "no more is used than there is");
        // A codec may give trailers, a message or the end without using a byte, but not for ever: the
        // exchange would never return.
        idle = if step.used == 0 { idle + 1 } else { 0 };
        assert!(idle < 4, "it comes to an end");
        let from = at;
        at += step.used;
        match step.event {
            Event::NeedMore => break,
            Event::Interim(_) => answer.interim += 1,
            Event::Head(head) => {
                assert!(answer.status.is_none(), "there is one head");
                assert!((100..1000).contains(&head.status));
                answer.status = Some(head.status);
                answer.fields =
                    head.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect();
                for (name, value) in &answer.fields {
                    assert!(!name.is_empty());
                    // A line break in a value would let a back end write fields of its own into the client's
                    // response, or a second response.
                    assert!(!value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)), "a value is one line");
                }
                // What follows is the tunnel's: no codec reads it.
                if codec.is_tunnel() {
                    answer.tunnel = true;
                    return at;
                }
            }
            Event::Data(range) => {
                assert!(range.end <= step.used, "data is within what was used");
                answer.body.extend_from_slice(&input[from..][range]);
            }
            Event::Log(..) => {}
            Event::Trailers(fields) => answer.trailers = fields.len(),
            Event::End => answer.ended = true,
        }
    }
    at
}

/// The first byte says what was asked; the rest is the answer. It means the same in whatever pieces it comes, but for what
/// comes behind it: that makes a connection unfit only if it has come by then.
pub fn fuzz_answer(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let kind = if first & 1 != 0 { RequestKind::Head } else { RequestKind::Other };
    let shape = Shape { kind, chunked: false, upgrade: first & 2 != 0 };
    let mut whole = read(shape, bytes, |_| bytes.len());
    if let (Some(length), true) = (length(&whole), whole.ended && kind == RequestKind::Other) {
        // Without a body to be expected (HEAD, 204, 304) the length is only told.
        let bodiless = whole.status.is_some_and(brisk_http::status::is_bodiless);
        assert!(bodiless || whole.body.len() as u64 == length, "a body is as long as announced");
    }
    whole.persists = false;
    for size in [1, 2, 7, 64] {
        let mut pieces = read(shape, bytes, |_| size);
        pieces.persists = false;
        assert_eq!(pieces, whole, "in pieces of {size}");
    }
}

/// The same over HTTP/2. What comes behind the end counts only if it comes with it.
pub fn fuzz_http2(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let read = |size: usize| {
        let head = RequestHead::new(b"GET", false, b"/", b"host");
        let is_head = first & 1 != 0;
        let mut codec = Http2::new(Question { head, is_bodiless: true, is_head, head_bytes_max: 4096 });
        let mut answer = read_by(&mut codec, bytes, |_| size);
        answer.persists = false;
        answer
    };
    let whole = read(bytes.len());
    assert!(whole.body.is_empty() || first & 1 == 0, "there is no body to HEAD");
    // In this direction only: what comes behind the end is an error if it comes in the same read, and is not
    // seen otherwise.
    for size in [1, 2, 7, 64] {
        let pieces = read(size);
        assert!(whole.failed || !pieces.failed, "in pieces of {size}");
        if !whole.failed {
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
    }
}

fn length(answer: &Answer) -> Option<u64> {
    let field = answer.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"Content-Length"))?;
    std::str::from_utf8(&field.1).ok()?.parse().ok()
}
