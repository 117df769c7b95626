//! `ngx_http_slice_module`: a large answer is asked for, and stored, in pieces.
//!
//! The handler that owns the location is asked for one slice at a time: the first as part of the request, the others by
//! copies of it, when the client has taken what came before. Together they are the whole, of which the client's range is
//! cut.

use brisk_cachepolicy::partial::Part;
use brisk_conf::Context;
use brisk_http::HeaderId;
use brisk_http::conditional::{self, Validators};
use brisk_http::range::{self, RangeOutcome};
use brisk_net::file::{Info, Kind};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::files::OpenFile;
use brisk_server::flow::Flow;
use brisk_server::in_memory::InMemory;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Carried, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::rlog;
use brisk_server::vars::{Variable, VariableGet};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use brisk_net::Failure;
use brisk_server::subrequest::Again;

pub static MODULE: Module = Module {
    name: "slice",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[directive("slice")
    .doc("The size of the pieces in which answers are asked for; 0: as a whole. The back end must be asked with Range $slice_range, and the cache's key must contain it.")
    .in_(Context::HSL)
    .takes_size()
    .default("0")
    .example("slice 1m;")
    .sets(|cx, bytes| cx.conf::<Conf>().size = bytes)];

static VARIABLES: &[Variable] = &[Variable {
    name: "slice_range",
    get: VariableGet::Fixed(slice_range),
    doc: "The present slice as a range: bytes=0-1048575.",
    ..Variable::SILENT
}];

#[derive(Clone, Default)]
struct Conf {
    size: u64,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// For the variable: the size in a location.
struct Size(u64);

/// A request's present slice: made when `$slice_range` is asked for, so that locations that do not use it are left alone.
#[derive(Clone, Copy)]
struct Slice {
    start: u64,
    size: u64,
}

fn slice_range(r: &Request, out: &mut Vec<u8>) -> bool {
    let slice = match r.state.own.get::<Slice>() {
        Some(slice) => slice,
        None => {
            let Some(Size(size)) = r.snap().location(r.route.loc).plan.data::<Size>() else { return false };
            // Only before there is an answer: later the variable must not make a slice of a request that was not
            // asked for one.
            if r.route.depth > 0 || r.resp.status != 0 {
                return false;
            }
            // Slices lie at multiples of their size, so that all ranges of all clients share the same stored
            // pieces.
            r.state.own.get_or(|| Slice { start: first_byte(r) / size * size, size: *size })
        }
    };
    let end = slice.start.saturating_add(slice.size - 1);
    out.extend_from_slice(format!("bytes={}-{end}", slice.start).as_bytes());
    true
}

/// Where the client's one range begins, if that is sure to be obeyed.
fn first_byte(r: &Request) -> u64 {
    let Some(range) = r.header(HeaderId::Range).filter(|_| !r.has_header(HeaderId::IfRange)) else {
        return 0;
    };
    // Several ranges begin with the first slice: the range filter finds what it needs there or further on.
    let is_bytes = range.get(..6).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes="));
    if !is_bytes || memchr::memchr(b',', range).is_some() {
        return 0;
    }
    let digits: Vec<u8> =
        range[6..].trim_ascii_start().iter().copied().take_while(u8::is_ascii_digit).collect();
    std::str::from_utf8(&digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let size = cx.conf_of::<Conf>().size;
    if size == 0 {
        return;
    }
    // Wraps the handler of the location: without one (files) ranges are cut where they are served.
    if let Some(inner) = plan.content.take() {
        plan.put(Arc::new(Size(size)));
        plan.content = Some(Arc::new(Sliced(inner)));
        plan.carried.push(carry);
    }
}

/// A copy asks for the same slice: what is renewed in the background is stored under the key that names this range.
fn carry(r: &Request) -> Carried {
    let slice = r.state.own.get::<Slice>().as_deref().copied();
    Box::new(move |copy| {
        if let Some(slice) = slice {
            copy.state.own.put(slice);
        }
    })
}

/// The location's own handler, asked for slices.
struct Sliced(Arc<dyn Handler>);

impl Handler for Sliced {
    fn handle(&self, r: &mut Request) -> Flow {
        match self.0.handle(r) {
            // Only then is a future made: an answer from the cache's memory needs none.
            waits @ (Flow::Wait(_) | Flow::Pending(_)) => Flow::Wait(Box::new(move |r| {
                Box::pin(async move {
                    let flow = waits.settled(r).await;
                    match whole(r, flow) {
                        Ok(flow) => flow,
                        Err(slices) => begin(r, slices).await,
                    }
                })
            })),
            flow => match whole(r, flow) {
                Ok(flow) => flow,
                Err(slices) => {
                    r.resp.body = Body::Stream(slices);
                    // It came from memory, so waiting for its first bytes would wait for nothing.
                    Flow::Done
                }
            },
        }
    }
}

/// What an answer must be to be the slice that was asked for. The error is what nginx logs.
fn check(r: &Request, slice: &Slice, etag: Option<&[u8]>) -> Result<Part, String> {
    if r.resp.status != 206 {
        return Err(format!("unexpected status code {} in slice response", r.resp.status));
    }
    // All slices must be of one representation: two versions of a file in one body could not be told from a whole
    // one.
    if etag.is_some() && r.resp.etag.as_deref() != etag {
        return Err("etag mismatch in slice response".into());
    }
    let value = r.resp.header(b"Content-Range").map(|value| value.to_vec()).unwrap_or_default();
    let part = Part::parse(&value).ok_or("invalid range in slice response")?;
    // Without the length of the whole it is not known how many slices there are.
    let total = part.total.ok_or("no complete length in slice response")?;
    let end = total.min(slice.start.saturating_add(slice.size));
    if (part.start, part.end) != (slice.start, end) {
        return Err(format!(
            "unexpected range in slice response: {}-{}, expected: {}-{end}",
            part.start, part.end, slice.start
        ));
    }
    Ok(part)
}

/// Bytes that must be there before the head leaves: as long as nothing has left, what goes wrong is seen as an error.
const FIRST_BYTES: u64 = 1460;

/// Gets the first bytes of the whole.
async fn begin(r: &mut Request, mut slices: Box<Slices>) -> Flow {
    let mut have = 0;
    while have < FIRST_BYTES && !r.is_head() {
        match poll_fn(|cx| slices.poll_chunk(cx)).await {
            Some(Ok(chunk)) => {
                if let Chunk::Piece(piece) = &chunk {
                    have += piece.len();
                }
                slices.held.push_back(chunk);
            }
            // Nothing has left yet: closing tells the client that there is no answer.
            Some(Err(_)) => return Flow::Close,
            None => break,
        }
    }
    slices.gives_held = true;
    r.resp.body = Body::Stream(slices);
    Flow::Done
}

/// Makes the whole of the first slice: a body that is to be begun, or what the request ends with otherwise.
fn whole(r: &mut Request, flow: Flow) -> Result<Flow, Box<Slices>> {
    // An answer that is no slice (an error, or a back end without ranges) is passed on as it is.
    if r.route.depth > 0 || !matches!(flow, Flow::Done) || r.resp.status != 206 {
        return Ok(flow);
    }
    let Some(slice) = r.state.own.get::<Slice>() else { return Ok(flow) };
    let part = match check(r, &slice, None) {
        Ok(part) => part,
        Err(why) => {
            rlog!(r, Error, "{why}");
            return Ok(Flow::Close);
        }
    };
    let total = part.total.unwrap_or(part.end);
    r.resp.status = 200;
    r.resp.reason = None;
    // Of the slice; the range filter says the client's anew.
    r.resp.remove("Content-Range");
    r.resp.remove("Accept-Ranges");
    // The whole is promised by the first slice; later ones that contradict it end the answer early.
    r.resp.content_length = Some(total);
    // Several ranges are answered as a whole: their pieces could lie before what was asked for already.
    let is_single = r.header(HeaderId::Range).is_none_or(|range| memchr::memchr(b',', range).is_none());
    r.resp.allow_ranges = is_single;
    let wanted = wanted(r, total).filter(|_| is_single).unwrap_or((0, total));
    let first = std::mem::take(&mut r.resp.body);
    Err(Box::new(Slices {
        // Copies are made of the request as it was when it came here, with the same location and variables.
        again: Rc::new(Again::of(r)),
        etag: r.resp.etag.as_ref().map(|etag| etag.to_vec().into()),
        size: slice.size,
        total,
        wanted,
        at: 0,
        state: State::First(part, first),
        blank: blank(),
        held: VecDeque::new(),
        gives_held: false,
    }))
}

/// The part of the whole that the client gets, if it has asked for one.
fn wanted(r: &Request, total: u64) -> Option<(u64, u64)> {
    let value = r.header(HeaderId::Range)?;
    if let Some(condition) = r.header(HeaderId::IfRange) {
        let validators = Validators { etag: r.resp.etag.as_deref(), last_modified: r.resp.last_modified };
        if !conditional::if_range_matches(condition, &validators) {
            return None;
        }
    }
    match range::parse_ranges(value, total, 1) {
        RangeOutcome::Ranges(ranges) => ranges.first().copied(),
        _ => None,
    }
}

enum State {
    First(Part, Body),
    /// A slice is coming: its body, and where it ends.
    Body(InMemory, u64),
    /// Another slice was asked for; where it ends. Dropping the body drops the question.
    Asking(Pin<Box<dyn Future<Output = Option<Body>>>>, u64),
    Next,
    Over,
}

/// The whole, slice by slice. What the client does not want is not asked for: blank pieces stand for it, which the range
/// filter cuts away.
struct Slices {
    again: Rc<Again>,
    etag: Option<Rc<[u8]>>,
    size: u64,
    total: u64,
    wanted: (u64, u64),
    at: u64,
    state: State,
    blank: Rc<OpenFile>,
    /// What was got before the head left.
    held: VecDeque<Chunk>,
    gives_held: bool,
}

/// A file that is never read.
fn blank() -> Rc<OpenFile> {
    let info = Info {
        kind: Kind::File,
        size: 0,
        mtime: 0,
        mtime_nsec: 0,
        ctime: 0,
        ctime_nsec: 0,
        inode: 0,
        device: 0,
        mode: 0,
        owner: 0,
    };
    Rc::new(OpenFile { info, fd: None, content: None })
}

impl Slices {
    fn skip(&mut self, to: u64) -> Poll<Option<Result<Chunk, Failure>>> {
        // A piece of a file has a length without bytes in memory, whatever the gap.
        let piece = Piece::File { file: self.blank.clone(), range: self.at..to };
        self.at = to;
        Poll::Ready(Some(Ok(Chunk::Piece(piece))))
    }

    /// Asks for the slice that begins here.
    fn ask(&self) -> State {
        let (again, etag) = (self.again.clone(), self.etag.clone());
        let slice = Slice { start: self.at, size: self.size };
        let end = self.total.min(self.at.saturating_add(self.size));
        let future = async move {
            // The slice is set before the copy enters its phases: its cache key must already have the new
            // range.
            let mut copy = again.run(|copy| copy.state.own.put(slice)).await?;
            if let Err(why) = check(&copy, &slice, etag.as_deref()) {
                rlog!(copy, Error, "{why}");
                return None;
            }
            Some(std::mem::take(&mut copy.resp.body))
        };
        State::Asking(Box::pin(future), end)
    }
}

impl BodyStream for Slices {
    fn poll_chunk(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if self.gives_held
            && let Some(chunk) = self.held.pop_front()
        {
            return Poll::Ready(Some(Ok(chunk)));
        }
        loop {
            match &mut self.state {
                State::First(part, body) => {
                    let (part, body) = (*part, std::mem::take(body));
                    self.state = State::Body(InMemory::new(body), part.end);
                    if part.start > 0 {
                        // What is before the first slice that was asked for.
                        return self.skip(part.start);
                    }
                }
                State::Body(body, end) => match ready!(body.poll_chunk(cx)) {
                    None if self.at == *end => self.state = State::Next,
                    None => {
                        self.state = State::Over;
                        return Poll::Ready(Some(Err(Failure::broken("a slice ended early"))));
                    }
                    Some(Ok(Chunk::Piece(piece))) => {
                        self.at += piece.len();
                        return Poll::Ready(Some(Ok(Chunk::Piece(piece))));
                    }
                    Some(other) => return Poll::Ready(Some(other)),
                },
                State::Asking(future, end) => {
                    let end = *end;
                    match ready!(future.as_mut().poll(cx)) {
                        Some(body) => self.state = State::Body(InMemory::new(body), end),
                        None => {
                            self.state = State::Over;
                            return Poll::Ready(Some(Err(Failure::broken("a slice is missing"))));
                        }
                    }
                }
                State::Next if self.at >= self.total => self.state = State::Over,
                State::Next => {
                    let (from, to) = self.wanted;
                    if self.at >= to {
                        return self.skip(self.total);
                    }
                    // Only with `If-Range`, where the first slice was 0 and the range proved to hold.
                    if self.at.saturating_add(self.size) <= from {
                        return self.skip(from / self.size * self.size);
                    }
                    self.state = self.ask();
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, refused};

    #[test]
    fn sizes() {
        accepted(&["slice 1m; server { location / { slice 0; add_header A $slice_range; } }"]);
        refused(&[("slice x;", "\"slice\" directive invalid value")]);
    }
}
