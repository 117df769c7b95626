//! The filters of the core: conditional requests and ranges. They apply to every response that has validators or
//! allows ranges, whoever made it.
//!
//! They know nothing of where the body is: files, memory and streams are cut alike.

use crate::core::http_conf::IfModifiedSince;
use crate::plan::{Filter, Plan, Stage};
use crate::purity::Declared;
use crate::request::{Refusal, Request};
use crate::response::{AskedRanges, Body, Piece};
use brisk_http::HeaderId;
use brisk_http::conditional::{self, ImsMode, Outcome, Preconditions, Validators};
use brisk_http::range::{self, Multipart, RangeOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Puts the core's filters into a plan.
pub fn install(_: &crate::conf::cx::Cx<'_, '_>, plan: &mut Plan) {
    // In every plan: which answers have validators is known when they come.
    // NotModified is the earlier stage: RFC 9110 §13.2.2 has preconditions evaluated before `Range`.
    plan.add_filter(Stage::NotModified, Arc::new(NotModified));
    plan.add_filter(Stage::Range, Arc::new(Ranges));
    #[cfg(debug_assertions)]
    crate::lies::install(plan);
}

/// Looked for first: a request without any of them is not evaluated, and nothing of it is recorded but their
/// absence.
const CONDITIONS: [HeaderId; 4] =
    [HeaderId::IfMatch, HeaderId::IfNoneMatch, HeaderId::IfModifiedSince, HeaderId::IfUnmodifiedSince];

/// RFC 9110 §13, as nginx's not_modified filter reads it.
struct NotModified;

impl Filter for NotModified {
    // It reads conditions through accessors, and files by their validators, so a prepared 304 depends on what
    // is recorded.
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        // Only a 200 has validators of what was asked for; what a back end has judged already is not judged again.
        if r.resp.status != 200 || r.resp.is_judged || !CONDITIONS.iter().any(|id| r.has_header(*id)) {
            return;
        }
        let mode = match r.core().if_modified_since {
            IfModifiedSince::Off => ImsMode::Off,
            IfModifiedSince::Exact => ImsMode::Exact,
            IfModifiedSince::Before => ImsMode::Before,
        };
        let conditions = Preconditions {
            if_match: r.header(HeaderId::IfMatch),
            if_none_match: r.header(HeaderId::IfNoneMatch),
            if_modified_since: r.header(HeaderId::IfModifiedSince),
            if_unmodified_since: r.header(HeaderId::IfUnmodifiedSince),
        };
        let validators = Validators { etag: r.resp.etag.as_deref(), last_modified: r.resp.last_modified };
        // The order of RFC 9110 §13.2.2 is in there; this filter only carries out what comes of it.
        match conditional::evaluate(&conditions, &validators, mode) {
            Outcome::Proceed => {}
            Outcome::NotModified => {
                // RFC 9110 §15.4.5: fields about the content are those of the stored answer.
                // A 304 has no body, and its fields must not describe one (RFC 9110 §15.4.5).
                r.resp.status = 304;
                r.resp.content_type = None;
                r.resp.content_length = None;
                r.resp.content_encoding = None;
                r.resp.allow_ranges = false;
                r.resp.body = Body::Empty;
            }
            Outcome::PreconditionFailed => {
                r.reply.refused = Some(Refusal::PreconditionFailed);
            }
        }
    }
}

/// RFC 9110 §14.
struct Ranges;

impl Filter for Ranges {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        // Only a whole 200 can be cut. HTTP/0.9 has no head to tell a part by.
        if !r.resp.allow_ranges || r.resp.status != 200 || r.version() < brisk_http::Version::Http10 {
            return;
        }
        // Without a length there is no Content-Range (RFC 9110 §14.4), and no range can be judged.
        let Some(length) = r.resp.content_length else { return };
        let max = r.core().max_ranges.unwrap_or(usize::MAX);
        // As nginx: not even `Accept-Ranges` is said then.
        if max == 0 {
            return;
        }
        // Also without a `Range`: it tells the client that it may ask for one.
        // Added before the request is looked at, as nginx does.
        r.resp.add("Accept-Ranges", "bytes");
        let Some(value) = r.header(HeaderId::Range) else { return };
        if let Some(condition) = r.header(HeaderId::IfRange) {
            let validators = Validators { etag: r.resp.etag.as_deref(), last_modified: r.resp.last_modified };
            // RFC 9110 §13.1.5: another representation than the client has a part of is sent as a whole.
            if !conditional::if_range_matches(condition, &validators) {
                return;
            }
        }
        // `max_ranges` unset: the parser has a bound of its own for the sum.
        let max = if max == usize::MAX { range::MAX_RANGES_UNSET } else { max };
        // An earlier step (`mp4`, `.htaccess`) may have judged the field already.
        let asked = r.state.visit.get::<AskedRanges>().and_then(|asked| asked.0.clone());
        let outcome = asked.map_or_else(|| range::parse_ranges(value, length, max), RangeOutcome::Ranges);
        // What is malformed is ignored (RFC 9110 §14.2): the client gets the whole, which it can use.
        match outcome {
            // More ranges than allowed, or a sum above the whole.
            RangeOutcome::Ignore => {}
            RangeOutcome::Unsatisfiable => unsatisfiable(r, length),
            RangeOutcome::Ranges(ranges) => match ranges.as_slice() {
                [one] => single(r, *one, length),
                // A stream is pulled once, so it cannot go back. RFC 9110 §14.2 lets a server ignore the field; nginx cuts such
                // bodies off.
                many if matches!(r.resp.body, Body::Stream(_)) && !are_in_order(many) => {}
                many => multipart(r, many, length),
            },
        }
    }
}

/// Whether each range begins where the one before has ended, or behind that.
fn are_in_order(ranges: &[(u64, u64)]) -> bool {
    ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

fn unsatisfiable(r: &mut Request, length: u64) {
    let mut text = Vec::new();
    range::write_content_range_unsatisfied(length, &mut text);
    r.resp.remove("Accept-Ranges");
    r.resp.set("Content-Range", text);
    r.reply.refused = Some(Refusal::RangeNotSatisfiable);
}

fn single(r: &mut Request, (start, end): (u64, u64), length: u64) {
    let mut text = Vec::new();
    range::write_content_range(start, end, length, &mut text);
    r.resp.status = 206;
    r.resp.remove("Accept-Ranges");
    r.resp.set("Content-Range", text);
    // Of the part: a client that reads the head only must know how much follows.
    r.resp.content_length = Some(end - start);
    let body = std::mem::take(&mut r.resp.body);
    // No frame: a single range is the body itself.
    r.resp.body = cut(body, &[(start, end)], |_| None);
    // The client must be able to tell where the part ends without its range.
}

/// The last number of a multipart boundary. It is unique in the process; a client that guesses it gains nothing, since the
/// parts are cut from bytes that the client is given anyway.
static BOUNDARY: AtomicU64 = AtomicU64::new(1);

fn multipart(r: &mut Request, ranges: &[(u64, u64)], length: u64) {
    // Of the whole: a range has its own field.
    // Its type moves into each part, and the response becomes multipart/byteranges (RFC 9110 §15.3.7.2).
    let mut content_type = Vec::new();
    r.resp.write_content_type(&mut content_type);
    let parts = Multipart {
        // Relaxed: only that no two are the same counts.
        boundary: BOUNDARY.fetch_add(1, Ordering::Relaxed),
        content_type: &content_type,
        total: length,
    };
    let mut media = Vec::new();
    parts.write_content_type(&mut media);
    r.resp.status = 206;
    r.resp.remove("Accept-Ranges");
    r.resp.remove("Content-Range");
    r.resp.content_type = Some(media.into());
    // It has become a part of each part's head.
    r.resp.charset = None;
    r.resp.content_length = Some(parts.body_len(ranges));
    let body = std::mem::take(&mut r.resp.body);
    r.resp.body = cut(body, ranges, |range| {
        let mut text = Vec::new();
        match range {
            Some((start, end)) => parts.write_part_head(start, end, &mut text),
            None => parts.write_end(&mut text),
        }
        Some(text)
    });
}

/// Cuts ranges out of a body; `frame` gives what comes before each and after the last.
fn cut(body: Body, ranges: &[(u64, u64)], frame: impl Fn(Option<(u64, u64)>) -> Option<Vec<u8>>) -> Body {
    let pieces = match body {
        Body::Empty => Vec::new(),
        Body::One(piece) => vec![piece],
        Body::Many(pieces) => pieces,
        Body::Stream(stream) => {
            return Body::Stream(Box::new(CutStream {
                inner: stream,
                ranges: ranges.to_vec(),
                frames: ranges.iter().map(|r| frame(Some(*r))).collect(),
                end: frame(None),
                at: 0,
                current: 0,
                queue: std::collections::VecDeque::new(),
                done: false,
            }));
        }
    };
    let mut out = Vec::new();
    for &(start, end) in ranges {
        out.extend(frame(Some((start, end))).map(|text| Piece::Bytes(text.into())));
        // Positions are counted over all pieces, so that a range may lie in several.
        let mut at = 0;
        for piece in &pieces {
            let len = piece.len();
            // A range may begin and end in any pieces; those outside of it are passed over without being read.
            let (from, to) = (start.max(at), end.min(at + len));
            if from < to {
                out.push(piece.part(from - at..to - at));
            }
            at += len;
        }
    }
    out.extend(frame(None).map(|text| Piece::Bytes(text.into())));
    match out.len() {
        // A single piece can leave together with the head.
        1 => Body::One(out.remove(0)),
        _ => Body::Many(out),
    }
}

/// Ranges of a body that is made while it is sent; they are in order.
struct CutStream {
    inner: Box<dyn crate::response::BodyStream>,
    ranges: Vec<(u64, u64)>,
    frames: Vec<Option<Vec<u8>>>,
    end: Option<Vec<u8>>,
    at: u64,
    current: usize,
    queue: std::collections::VecDeque<Piece>,
    done: bool,
}

impl CutStream {
    fn take(&mut self, piece: &Piece) {
        let len = piece.len();
        // The ranges are in order, so each piece is looked at once.
        while let Some(&(start, end)) = self.ranges.get(self.current) {
            let (from, to) = (start.max(self.at), end.min(self.at + len));
            if from < to {
                if let Some(frame) = self.frames[self.current].take() {
                    self.queue.push_back(Piece::Bytes(frame.into()));
                }
                self.queue.push_back(piece.part(from - self.at..to - self.at));
            }
            if end > self.at + len {
                // The range goes on in the next piece.
                break;
                // A part of a range at the end of a piece waits for the next one; the frame before it has
                // been given once.
            }
            self.current += 1;
        }
        self.at += len;
    }
}

impl crate::response::BodyStream for CutStream {
    fn poll_chunk(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<crate::response::Chunk, brisk_net::Failure>>> {
        use crate::response::Chunk;
        use std::task::Poll;
        loop {
            if let Some(piece) = self.queue.pop_front() {
                return Poll::Ready(Some(Ok(Chunk::Piece(piece))));
            }
            if self.done {
                return Poll::Ready(None);
            }
            match std::task::ready!(self.inner.poll_chunk(cx)) {
                Some(Ok(Chunk::Piece(piece))) => self.take(&piece),
                Some(other) => return Poll::Ready(Some(other)),
                None => {
                    self.done = true;
                    // The closing boundary, also if the body was shorter than it should be: the error comes
                    // from the body itself.
                    self.queue.extend(self.end.take().map(|text| Piece::Bytes(text.into())));
                }
            }
        }
    }

    fn poll_ahead(&mut self, cx: &mut std::task::Context<'_>) {
        // Ranges of a stream are cut from all of it, so reading ahead is worth as much as for the whole.
        self.inner.poll_ahead(cx);
    }
}
