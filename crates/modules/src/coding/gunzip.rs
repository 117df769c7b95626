//! `ngx_http_gunzip_module`: decompresses gzip for clients that do not accept it, and for subrequests.
//!
//! How far a body expands is not known before: memory is bounded by making one piece at a time.

use super::gzip;
use super::rules::{Rules, weaken_etag};
use crate::limits::INLINE_PLAIN_BYTES_MAX;
use brisk_conf::{Arity, Context};
use brisk_http::negotiate::Coding;
use brisk_net::Failure;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::failure::broken;
use brisk_server::in_memory::InMemory;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};

use flate2::{Decompress, FlushDecompress, Status};
use std::io;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

pub static MODULE: Module = Module {
    name: "gunzip",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // For caches and back ends that hold only coded answers.
    directive("gunzip")
        .doc("Whether responses with Content-Encoding: gzip are decompressed for clients that do not accept it. However much a response expands, it takes no more memory than a buffer; data that is not gzip ends it with an error.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("gunzip on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("gunzip_buffers")
        .doc("Number and size of buffers for decompressed data.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("NUMBER SIZE")
        .example("gunzip_buffers 16 8k;")
        .ignored("a response has one buffer at a time"),
];

#[derive(Clone, Default)]
struct Conf {
    on: bool,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if cx.conf_of::<Conf>().on {
        let rules = cx.conf_of::<gzip::Conf>().rules.clone();
        // Before filters that read text, behind everything that makes bodies.
        plan.add_filter(Stage::Decoding, Arc::new(Gunzip { rules }));
    }
}

struct Gunzip {
    rules: Rules,
}

impl Filter for Gunzip {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let is_gzip =
            r.resp.content_encoding.as_ref().is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
        if !is_gzip {
            return;
        }
        // Also for clients that get it compressed: a cache must keep the two apart (RFC 9110 §12.5.5).
        self.rules.set_vary(&mut r.resp);
        if self.rules.preference(r).rank(Coding::Gzip).is_some() {
            return;
        }
        let body = std::mem::take(&mut r.resp.body);
        let (body, length) = match &body {
            // The length of the text is not known without the body.
            // (RFC 9110 §9.3.2: a HEAD has no length that would have to be made out.)
            _ if r.is_head() => (Body::Empty, None),
            // A small one as a whole: it keeps a Content-Length, and may be prepared.
            Body::One(piece) => match piece.in_memory().and_then(plain) {
                Some(text) => {
                    let length = text.len() as u64;
                    (if text.is_empty() { Body::Empty } else { Body::bytes(text) }, Some(length))
                }
                None => (Body::Stream(Box::new(Inflated::new(body))), None),
            },
            _ => (Body::Stream(Box::new(Inflated::new(body))), None),
        };
        let resp = &mut r.resp;
        resp.body = body;
        resp.content_length = length;
        resp.content_encoding = None;
        // Ranges would be of the compressed bytes.
        resp.clear_ranges();
        weaken_etag(resp);
    }
}

/// The whole of a small text; `None` if it is not small or not well-formed, which the stream will tell.
fn plain(coded: &[u8]) -> Option<Vec<u8>> {
    if coded.len() > INLINE_PLAIN_BYTES_MAX {
        return None;
    }
    let mut inflater = Inflater::default();
    // Text is about four times as long as its coded form.
    let mut text = Vec::with_capacity(coded.len().saturating_mul(4).min(INLINE_PLAIN_BYTES_MAX) + 1);
    let mut at = 0;
    while at < coded.len() {
        at += inflater.inflate(&coded[at..], &mut text).ok()?;
        // A small coded text may be very large: the stream makes it in pieces.
        if text.len() > INLINE_PLAIN_BYTES_MAX {
            return None;
        }
        // The inflater fills what room there is and does not make any.
        text.reserve(OUT_BYTES / 4);
    }
    inflater.has_ended().then_some(text)
}

/// Plain text given at a time.
/// (What a buffer holds is sent before the next is filled.)
const OUT_BYTES: usize = 32 * 1024;
/// As many times before others have their turn.
const PIECES_IN_A_ROW: u32 = 16;

/// Members of a gzip file, one after the other (RFC 1952 §2.2).
struct Inflater {
    member: Decompress,
    /// Nothing of a member, or all of it, was read.
    between: bool,
    /// A member was read.
    any: bool,
}

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater { member: Decompress::new_gzip(15), between: true, any: false }
    }
}

impl Inflater {
    /// Fills the room that `out` has; how much of the input was used.
    fn inflate(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let mut used = 0;
        loop {
            if self.between {
                if used == input.len() {
                    // At the end of the input between two members: no new one is begun that might not come.
                    return Ok(used);
                }
                if self.any {
                    // A member ends with its checksum; the next has a state of its own.
                    self.member = Decompress::new_gzip(15);
                }
                self.between = false;
            }
            // What a step has used is counted by the library: it says nothing else of it.
            let (before, had) = (self.member.total_in(), out.len());
            let status =
                self.member.decompress_vec(&input[used..], out, FlushDecompress::None).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("inflate() failed: {error}"))
                })?;
            let taken = (self.member.total_in() - before) as usize;
            used += taken;
            if status == Status::StreamEnd {
                self.between = true;
                self.any = true;
            // No room, no input, or no progress: the caller knows which.
            } else if out.len() == out.capacity() || used == input.len() || (taken == 0 && out.len() == had) {
                return Ok(used);
            }
        }
    }

    /// Whether the input may end here. An empty body is one that has nothing to say.
    fn has_ended(&self) -> bool {
        self.between
    }
}

/// A body that is decompressed while it is sent.
struct Inflated {
    inner: InMemory,
    inflater: Inflater,
    /// The piece in work, and how much of it was used.
    piece: Option<(Piece, usize)>,
    /// The last output filled its buffer: there may be more of the same input.
    full: bool,
    in_a_row: u32,
    over: bool,
}

impl Inflated {
    fn new(body: Body) -> Inflated {
        Inflated {
            inner: InMemory::new(body),
            inflater: Inflater::default(),
            piece: None,
            full: false,
            in_a_row: 0,
            over: false,
        }
    }

    /// Inflates some of the piece in work.
    fn step(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(OUT_BYTES);
        let Some((piece, at)) = &mut self.piece else { return Ok(out) };
        let input = piece.in_memory().unwrap_or_default();
        *at += self.inflater.inflate(&input[*at..], &mut out)?;
        // The library may hold bytes back that it has decoded already: asked once more with no input.
        // All of it was used, and there is nothing left to be given.
        self.full = out.len() == out.capacity();
        if *at >= input.len() && !self.full {
            self.piece = None;
        }
        Ok(out)
    }
}

impl BodyStream for Inflated {
    fn poll_chunk(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            if self.piece.is_none() {
                match ready!(self.inner.poll_chunk(cx)) {
                    Some(Ok(Chunk::Piece(piece))) => self.piece = Some((piece, 0)),
                    // RFC 1952 §2.3.1: without its checksum a member is cut off.
                    None => {
                        self.over = true;
                        if !self.inflater.has_ended() {
                            return Poll::Ready(Some(Err(Failure::broken("gzip data ended early"))));
                        }
                        continue;
                    }
                    other => return Poll::Ready(other),
                }
            }
            // One compressed piece may give thousands: the loop must not serve this client alone.
            if self.in_a_row >= PIECES_IN_A_ROW {
                self.in_a_row = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.in_a_row += 1;
            match self.step() {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(out.into()))))),
                Err(error) => {
                    self.over = true;
                    return Poll::Ready(Some(Err(broken(&error))));
                }
            }
        }
    }

    fn poll_ahead(&mut self, cx: &mut TaskContext<'_>) {
        self.inner.poll_ahead(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::{Pieces, drain};
    use super::*;
    use std::io::Write as _;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn inflated(coded: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let pieces = coded.chunks(piece).map(<[u8]>::to_vec).collect();
        drain(Inflated::new(Body::Stream(Box::new(Pieces(pieces))))).map(|(text, _)| text)
    }

    #[test]
    fn members_follow_each_other() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        let check = |coded: &[u8], want: &[u8]| {
            for piece in [1, 7, 4096, usize::MAX] {
                if piece > 100 || coded.len() < 2000 {
                    assert!(inflated(coded, piece).unwrap() == want, "{} in {piece}", coded.len());
                }
            }
            if want.len() <= INLINE_PLAIN_BYTES_MAX {
                assert_eq!(plain(coded).as_deref(), Some(want));
            }
        };
        check(b"", b"");
        check(&gzip(b""), b"");
        check(&gzip(b"abc"), b"abc");
        check(&[gzip(b"abc"), gzip(b""), gzip(b"def")].concat(), b"abcdef");
        check(&gzip(&text), &text);
        check(&[gzip(&text), gzip(b"x")].concat(), &[&text[..], b"x"].concat());
    }

    #[test]
    fn what_is_no_gzip_is_an_error() {
        let good = gzip(b"hello, hello, hello");
        let check = |coded: &[u8]| {
            for piece in [1, usize::MAX] {
                assert!(inflated(coded, piece).is_err(), "{coded:?}");
            }
            assert_eq!(plain(coded), None);
        };
        check(b"hello, this is no gzip at all");
        check(&good[..good.len() - 1]);
        check(&good[..5]);
        check(&[&good[..], b"garbage"].concat());
        let mut crc = good.clone();
        let at = crc.len() - 5;
        crc[at] ^= 1;
        check(&crc);
    }

    #[test]
    fn a_bomb_comes_in_small_pieces() {
        let bomb = gzip(&vec![0; 50_000_000]);
        assert!(bomb.len() < 60_000);
        assert_eq!(plain(&bomb), None);
        let mut stream = Inflated::new(Body::bytes(bomb));
        let mut cx = TaskContext::from_waker(std::task::Waker::noop());
        let (mut sum, mut turns) = (0, 0);
        loop {
            match stream.poll_chunk(&mut cx) {
                Poll::Ready(Some(Ok(Chunk::Piece(piece)))) => {
                    assert!(piece.len() <= OUT_BYTES as u64);
                    sum += piece.len();
                }
                Poll::Ready(None) => break,
                Poll::Pending => turns += 1,
                Poll::Ready(_) => panic!("an error or a flush"),
            }
        }
        assert_eq!(sum, 50_000_000);
        assert!(turns >= sum / (OUT_BYTES as u64 * u64::from(PIECES_IN_A_ROW)) - 1);
    }
}
