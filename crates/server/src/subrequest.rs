//! Subrequests: a location's answer as a part of another answer, or as a condition for it (SSI, `auth_request`,
//! `addition`, `mirror`, `slice`).
//!
//! A subrequest is a request of its own that re-enters the phases: same connection, same head, same variables (as in nginx; look-ups and
//! copies have their own), another URI. Its response is not serialised: whoever asked takes its status and headers, and pulls its body.

use crate::body::{Content, RequestBody};
use crate::conf::ids::ServerId;
use crate::h1::intake;
use crate::limits::{ASIDE_HEADS_LEFT_MIN, ASIDE_MAX, SUBREQUEST_DEPTH_MAX};
use crate::live::Live;
use crate::logged;
use crate::phases::{self, Run};
use crate::plan::Carried;
use crate::purity::Declared;
use crate::regex::Captures;
use crate::request::Request;
use crate::request::client::Carrier;
use crate::request::head::Head;
use crate::request::route::{Cursor, Phase, Purpose, Route};
use crate::request::state::Shared;
use crate::response::{Body, BodyStream, Chunk, Piece, Response};
use crate::table::Thread;
use crate::text::Text;
use brisk_host::memory::Charge;
use brisk_http::Method;
use brisk_net::Failure;
use brisk_net::clock::Now;
use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// What subrequests of one request start from. Body streams keep it to ask later.
pub struct Parent {
    head: Head,
    carrier: Option<Carrier>,
    thread: Rc<Thread>,
    /// Shared instead of cloned: the configuration must outlive the request while its parts are still being made.
    live: Rc<Live>,
    server: ServerId,
    shared: Rc<Shared>,
    /// The body, if the request has read it. A subrequest never reads: what comes is the request's.
    body: Rc<Content>,
    has_decoded_delimiter: bool,
    depth: u8,
    started: Now,
    /// The copy of the head counts as one more head of the connection.
    charge: Option<Charge>,
}

impl Parent {
    /// With the body, as far as the request has read it.
    pub fn of(r: &Request) -> Rc<Parent> {
        let body = r.body.content().cloned().unwrap_or_else(|| Rc::new(Content::None));
        Rc::new(Parent::with_body(r, body))
    }

    /// For subrequests that are not to see the body.
    pub fn without_body(r: &Request) -> Rc<Parent> {
        Rc::new(Parent::with_body(r, Rc::new(Content::None)))
    }

    fn with_body(r: &Request, body: Rc<Content>) -> Parent {
        // What subrequests read, and do, is not known of the request that they are for.
        // So the main answer is never prepared.
        r.note(Declared::ANYTHING);
        let mut head = Head::empty();
        // Copied: the main request goes back to the pool when it is answered, and parts of its body may still be made then.
        r.head.copy_to(&mut head);
        Parent {
            head,
            carrier: r.client.carrier.clone(),
            thread: r.thread.clone(),
            live: r.live.clone(),
            server: r.route.server,
            shared: r.state.shared.clone(),
            body,
            has_decoded_delimiter: r.route.has_decoded_delimiter,
            depth: r.route.depth,
            started: r.progress.started,
            // Given back with the last part that holds this parent.
            charge: r.account().map(|account| account.hold_head(r.head_bytes())),
        }
    }

    /// Runs a GET (or HEAD) of `uri` and gives the finished subrequest; its response is in
    /// [`resp`](Request::resp). `None` if subrequests are nested too deeply or the location closed the connection.
    pub async fn run(&self, method: Method, uri: &[u8], args: &[u8]) -> Option<Subrequest> {
        let r = self.begin(method, uri, args);
        self.driven(r).await
    }

    /// How a GET of `uri` would be answered: the finished request has a status, and neither fields nor a body. It is judged as if the
    /// client had sent it, `internal` locations and the access phase included. `prepare` sees it first.
    pub async fn look_up(
        &self,
        uri: &[u8],
        args: &[u8],
        prepare: impl FnOnce(&mut Request),
    ) -> Option<Subrequest> {
        let mut r = self.begin(Method::Get, uri, args);
        r.route.purpose = Purpose::LookUp;
        r.route.internal = false;
        r.state.shared = Rc::new(self.shared.of_look_up());
        prepare(&mut r);
        self.driven(r).await
    }

    /// As [`run`](Parent::run), for a GET that is judged as if the client had sent it: whoever has named the URI may show no more than
    /// clients may see.
    async fn run_as_client(&self, uri: &[u8], args: &[u8]) -> Option<Subrequest> {
        let mut r = self.begin(Method::Get, uri, args);
        r.route.internal = false;
        r.route.as_client = true;
        self.driven(r).await
    }

    async fn driven(&self, r: Box<Request>) -> Option<Subrequest> {
        let mut r = Subrequest(Some(r));
        // Nested too deeply: a page that includes itself would never end (nginx: 50).
        if self.depth >= SUBREQUEST_DEPTH_MAX {
            let uri = String::from_utf8_lossy(&r.route.uri);
            crate::rlog!(r, Error, "subrequests cycle while processing \"{uri}\"");
            return None;
        }
        let run = phases::run(&mut r);
        match phases::drive(&mut r, run).await {
            Run::Respond => Some(r),
            _ => None,
        }
    }

    /// Runs a subrequest that nobody waits for, and whose body nobody wants (`mirror`). The thread does not end before
    /// it. False if there are too many already, or if those of the connection hold so much that its next requests could be refused.
    pub fn run_aside(self: &Rc<Self>, method: Method, uri: &[u8], args: &[u8]) -> bool {
        let running = self.thread.aside.get();
        let own_bytes = self.charge.as_ref().map_or(0, Charge::bytes);
        let conn = self.carrier.as_ref().map(Carrier::conn);
        // Counted per thread and per connection: copies have no client that waits for them and would slow down.
        let has_room = conn.is_none_or(|conn| conn.head_room() / ASIDE_HEADS_LEFT_MIN >= own_bytes);
        if running >= ASIDE_MAX || !has_room {
            return false;
        }
        self.thread.aside.set(running + 1);
        let (parent, uri, args) = (self.clone(), uri.to_vec(), args.to_vec());
        // Closing the connection takes more than dropping it from here on.
        if let Some(conn) = conn {
            conn.outlived.set(true);
        }
        // The thread counts the copy as work: it does not end before it.
        self.thread.count();
        let thread = self.thread.clone();
        // As it is now: both go on at the same time.
        let shared = Rc::new(self.shared.of_copy());
        let work = Box::pin(async move {
            let mut r = parent.begin(method, &uri, &args);
            r.state.shared = shared;
            drop(parent.driven(r).await);
        });
        let id = conn.map_or(0, |conn| conn.id);
        // Detached: the client's answer does not wait for the copy's.
        brisk_net::spawn(Aside { thread, id, work: Some(work) });
        true
    }

    /// A copy of `r`, the request that this was made of, without its body: what works on the body asks it for
    /// variables when the request itself is busy with being sent.
    pub fn shadow(&self, r: &Request) -> Box<Request> {
        let mut copy = self.begin(r.route.method, &r.route.uri, &r.route.args);
        copy.route.depth = r.route.depth;
        copy.route.internal = r.route.internal;
        copy.live = self.live.clone();
        copy.route.loc = r.route.loc;
        copy.route.unparsed_uri_valid = r.route.unparsed_uri_valid;
        copy.resp = r.resp.head();
        copy.reply.limit_rate = r.reply.limit_rate;
        // Values of `set` are the request's own; without them the copy would compute others.
        copy.state.own = r.state.own.clone();
        copy
    }

    fn begin(&self, method: Method, uri: &[u8], args: &[u8]) -> Box<Request> {
        let mut r = self.thread.take_request();
        // Not as compiled late: a subrequest begins in the server's own block.
        r.live = self.live.shared_root();
        self.head.copy_to(&mut r.head);
        r.client.carrier.clone_from(&self.carrier);
        r.route.server = self.server;
        // The location is looked for anew, by the subrequest's own URI.
        r.route.loc = r.snap().server(self.server).root;
        r.state.shared = self.shared.clone();
        // A subrequest never reads from the connection: what comes there is the main request's.
        r.body = RequestBody::Whole { content: self.body.clone(), given: 0 };
        r.route.uri.extend_from_slice(uri);
        r.route.has_decoded_delimiter = self.has_decoded_delimiter || intake::has_delimiter(uri);
        r.route.args.extend_from_slice(args);
        r.route.method = method;
        r.route.cursor = Cursor::at(Phase::ServerRewrite);
        r.route.depth = self.depth + 1;
        // A location that is `internal` may be asked for by name.
        r.route.internal = true;
        r.route.unparsed_uri_valid = false;
        // The log tells of the whole request's time.
        r.progress.started = self.started;
        // The request holds its connection from here on, so that its descriptor is not closed under it.
        r.hold();
        r
    }
}

/// A finished subrequest. When it is done with, it is logged (`log_subrequest`) and its memory used again.
pub struct Subrequest(Option<Box<Request>>);

impl Deref for Subrequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        self.0.as_deref().expect("taken only when it is dropped")
    }
}

impl DerefMut for Subrequest {
    fn deref_mut(&mut self) -> &mut Request {
        self.0.as_deref_mut().expect("taken only when it is dropped")
    }
}

impl Drop for Subrequest {
    fn drop(&mut self) {
        let Some(r) = self.0.take() else { return };
        // After a panic its state cannot be trusted.
        if std::thread::panicking() {
            return;
        }
        // A look-up is no access.
        if r.core().log_subrequest && r.route.purpose == Purpose::Answer {
            logged::finish_subrequest(&r);
        }
        r.thread.clone().put_request(r);
    }
}

/// A subrequest whose body becomes part of another body. It runs when it is polled; nothing is collected.
pub struct Part(State);

enum State {
    Running(Pin<Box<dyn Future<Output = Option<Subrequest>>>>),
    Open { r: Subrequest, pieces: VecDeque<Piece>, stream: Option<Box<dyn BodyStream>> },
    Over,
}

impl Part {
    /// A GET of `uri`.
    pub fn new(parent: &Rc<Parent>, uri: Vec<u8>, args: Vec<u8>) -> Part {
        let parent = parent.clone();
        Part(State::Running(Box::pin(async move { parent.run(Method::Get, &uri, &args).await })))
    }

    /// The same, judged as if the client had sent it.
    pub fn as_client(parent: &Rc<Parent>, uri: Vec<u8>, args: Vec<u8>) -> Part {
        let parent = parent.clone();
        Part(State::Running(Box::pin(async move { parent.run_as_client(&uri, &args).await })))
    }

    /// Runs the phases. Ready when the response is known; `None`: there is none, or it was given to its end.
    pub fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Option<&mut Request>> {
        if let State::Running(run) = &mut self.0 {
            self.0 = match ready!(run.as_mut().poll(cx)) {
                Some(mut r) => {
                    let (pieces, stream) = match std::mem::take(&mut r.resp.body) {
                        Body::Empty => (VecDeque::new(), None),
                        Body::One(piece) => (VecDeque::from([piece]), None),
                        Body::Many(pieces) => (pieces.into(), None),
                        Body::Stream(stream) => (VecDeque::new(), Some(stream)),
                    };
                    State::Open { r, pieces, stream }
                }
                // Whatever comes of it is logged when it is dropped.
                None => State::Over,
            };
        }
        match &mut self.0 {
            State::Open { r, .. } => Poll::Ready(Some(r)),
            _ => Poll::Ready(None),
        }
    }

    /// Puts another body in the place of the response, which must be known. It passes the filters of the
    /// subrequest's location.
    pub fn replace(&mut self, content_type: Option<Text>, body: Text) {
        let State::Open { mut r, .. } = std::mem::replace(&mut self.0, State::Over) else { return };
        // The status of the error that is replaced would win over 200.
        r.reply.err_status = 0;
        r.reply.page_of = None;
        r.reply.completed = false;
        r.resp = Response {
            status: 200,
            content_type,
            content_length: Some(body.len() as u64),
            body: Body::bytes(body),
            ..Response::default()
        };
        self.0 = State::Running(Box::pin(async move {
            let run = phases::refilter(&mut r);
            matches!(phases::drive(&mut r, run).await, Run::Respond).then_some(r)
        }));
    }
}

impl BodyStream for Part {
    /// Runs the phases, then gives the body.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if ready!(self.poll_response(cx)).is_none() {
            return Poll::Ready(None);
        }
        let State::Open { r, pieces, stream } = &mut self.0 else { return Poll::Ready(None) };
        let chunk = match (pieces.pop_front(), stream) {
            (Some(piece), _) => Some(Ok(Chunk::Piece(piece))),
            (None, Some(stream)) => ready!(stream.poll_chunk(cx)),
            (None, None) => None,
        };
        match &chunk {
            Some(Ok(Chunk::Piece(piece))) => r.progress.sent.body_bytes += piece.len(),
            // A flush or an error is not counted.
            Some(_) => {}
            None => r.reply.completed = true,
        }
        Poll::Ready(chunk)
    }
}

/// Copies of a request at its content handler: the same location asks once more (slices, updates in the background). They
/// have no body.
pub struct Again {
    parent: Rc<Parent>,
    route: Route,
    captures: Captures,
    /// Of each [`Carry`](crate::plan::Carry) of the location.
    carried: Vec<Carried>,
}

impl Again {
    /// Of a request at its content handler, without the body.
    pub fn of(r: &Request) -> Again {
        Again {
            parent: Parent::without_body(r),
            route: r.route.clone(),
            captures: r.state.captures.borrow().clone(),
            carried: r.snap().location(r.route.loc).plan.carried.iter().map(|carry| carry(r)).collect(),
        }
    }

    /// A copy, whose response nobody waits for.
    pub fn request(&self) -> Box<Request> {
        let route = &self.route;
        let mut copy = self.parent.begin(route.method, &route.uri, &route.args);
        copy.live = self.parent.live.clone();
        copy.route.loc = route.loc;
        copy.route.internal = route.internal;
        copy.route.unparsed_uri_valid = route.unparsed_uri_valid;
        // The copy begins behind the rewrite phase, whose results it therefore needs.
        copy.route.location_valid = route.location_valid;
        copy.state.captures.replace(self.captures.clone());
        copy.route.cursor = Cursor::at(Phase::Content);
        for give in &self.carried {
            give(&mut copy);
        }
        copy
    }

    /// Runs a copy that `prepare` has seen, until it has its response; `None` if there is none.
    pub async fn run(&self, prepare: impl FnOnce(&mut Request)) -> Option<Box<Request>> {
        let mut copy = self.request();
        prepare(&mut copy);
        let run = phases::run(&mut copy);
        match phases::drive(&mut copy, run).await {
            Run::Respond => Some(copy),
            _ => None,
        }
    }
}

/// A subrequest at its work aside.
struct Aside {
    thread: Rc<Thread>,
    /// Of the connection.
    id: u64,
    work: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Future for Aside {
    type Output = ();

    /// A panic costs the subrequest only.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Ready(()) };
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(_) => {
                crate::hand_over::panicked(&this.thread, this.id);
                // Its memory goes at once, and with it what it has borrowed.
                this.work = None;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Whatever it holds goes before it is counted no more.
        self.work = None;
        self.thread.aside.set(self.thread.aside.get() - 1);
        self.thread.uncount();
    }
}
