//! A request on its way through the phases, in parts that each own what belongs together.

pub(crate) mod body;
pub(crate) mod client;
pub(crate) mod evidence;
pub(crate) mod flight;
pub(crate) mod head;
pub(crate) mod progress;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod state;

pub use body::{Content, RequestBody};
pub use client::{Client, ClientWatch};
pub use evidence::Evidence;
pub use flight::{Flight, Waits};
pub use head::Head;
pub use progress::{Progress, Sent};
pub use reply::{Interim, Persistence, Refusal, Reply};
pub use route::{Cursor, Phase, Purpose, Route};
pub use state::{Sender, Shared, State, Values, Visit};

use crate::conf::entrance::Entrance;
use crate::conf::snapshot::Snapshot;
use crate::core::http_conf::CoreConf;
use crate::files::{Cold, Deps, Files, Found};
use crate::flow::Flow;
use crate::limits::WAITING_REQUEST_BYTES;
use crate::live::Live;
use crate::purity::Dependencies;
use crate::response::Response;
use crate::table::Thread;
use brisk_http::uri::resolved;
use brisk_http::{Method, status};
use brisk_net::file::Symlinks;
use brisk_net::{Loop, clock};
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

type Look = fn(&Files, &Path, Symlinks, &mut Deps<'_>) -> Result<Found, Cold>;

/// One request. Boxed once and used again for later requests of the thread.
pub struct Request {
    /// The thread that serves it.
    pub thread: Rc<Thread>,
    /// The configuration that it came in under, and keeps until it is answered.
    pub live: Rc<Live>,
    /// What was received: target, host and fields.
    pub head: Head,
    /// Who has sent it, and by what it came.
    pub client: Client,
    /// Where it is led: URI, location, place in the phases.
    pub route: Route,
    /// What has become of the body.
    pub body: RequestBody,
    /// What its handlers have made so far.
    pub resp: Response,
    /// How it is answered, whatever the response is.
    pub reply: Reply,
    /// How far it has come, for logs and metrics.
    pub progress: Progress,
    /// What others may see of it while it waits.
    pub flight: Rc<Flight>,
    /// What the answer depends on.
    pub evidence: Evidence,
    /// What modules and variables keep for it.
    pub state: State,
}

/// A request is made anew in its place for each one that comes, so its size is part of what each costs.
// 1440 is what it has; a field more is a decision, which whoever adds it makes here.
const _: () = assert!(size_of::<Request>() <= 1440);

impl Request {
    pub(crate) fn new(thread: Rc<Thread>, live: Rc<Live>) -> Request {
        let flight = Rc::new(Flight::new());
        thread.list_flight(&flight);
        Request {
            thread,
            live,
            head: Head::roomy(),
            client: Client::none(),
            route: Route::roomy(),
            body: RequestBody::Unread,
            resp: Response::default(),
            reply: Reply::default(),
            progress: Progress::default(),
            flight,
            evidence: Evidence::none(),
            state: State::none(),
        }
    }

    /// Makes it another request, in its place, which has nothing of this one but memory. It and each part with memory of its own
    /// name all their fields to do so: a field that is added and not renewed does not compile, or leaves a name unused, which a
    /// lint refuses. Moving parts out and in instead cost 900 instructions per request, this costs 300.
    pub(crate) fn renew(&mut self) {
        let Request {
            thread: _,
            live: _,
            head,
            client,
            route,
            body,
            resp,
            reply,
            progress,
            flight,
            evidence,
            state,
        } = self;
        client.renew();
        *body = RequestBody::Unread;
        reply.renew();
        *progress = Progress::default();
        flight.renew();
        head.renew();
        route.renew();
        resp.clear();
        evidence.renew();
        state.renew();
    }

    /// Bytes that the head occupies, with all copies of its parts.
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.bytes() + self.route.uri.capacity() + self.route.args.capacity()
    }

    /// The request is going to wait: from here on its connection counts what it holds. Room that it does not need is given back.
    pub(crate) fn hold(&mut self) {
        // Once. A request that is parked and becomes a task is held already.
        let Some(account) = self.account().cloned() else { return };
        self.head.shrink();
        let bytes = self.head_bytes();
        self.client.head_charge = Some(account.hold_head(bytes));
        self.client.also_holds(WAITING_REQUEST_BYTES);
    }

    /// Goes on in a location that was compiled late; false if there is none behind the entrance.
    pub(crate) fn enter_late(&mut self, entrance: &Entrance) -> bool {
        // An entrance without a location is one that could not be compiled, which is never handed out.
        let Some(location) = entrance.location() else { return false };
        self.evidence.deps.push(entrance.watch().into());
        self.live = Rc::new(Live::late(self.live.shared_root(), entrance.snap.clone()));
        self.route.loc = location;
        self.state.visit.clear();
        true
    }

    /// Goes on under the configuration as it was started. The location is one that was compiled late until another is set.
    pub(crate) fn leave_late(&mut self) {
        if let Some(root) = self.live.root.clone() {
            self.live = root;
        }
    }

    /// To be called where rules have changed the URI; false if it is no path of this server. In an extended location they are those of a file whose
    /// writer need not be trusted with all that the configuration's may: they lead nowhere above the root, nor to `internal` locations.
    pub(crate) fn is_led_within(&mut self) -> bool {
        if self.live.root.is_none() {
            return true;
        }
        self.route.internal = false;
        let found = resolved(&self.route.uri);
        if let Err(error) = &found {
            crate::rlog!(self, Error, "a folder's file leads to no path of this server ({error})");
        }
        found.map(|uri| self.route.uri = uri).is_ok()
    }

    /// What its configuration says.
    pub fn snap(&self) -> &Snapshot {
        &self.live.snap
    }

    /// Whether the host that was asked for is in a `server_name` of this address, written out or below `*.`: nobody else's name
    /// servers lead it here.
    pub fn is_for_written_name(&self) -> bool {
        let Some(listen) = self.conn().listener.id.get().map(|id| self.snap().listen(id)) else {
            return false;
        };
        let names = listen.local(|| self.conn().local()).map_or(&listen.names, |local| &local.names);
        names.has_written(&self.head.host)
    }

    /// The configuration of the present location.
    pub fn core(&self) -> &CoreConf {
        &self.live.snap.location(self.route.loc).core
    }

    /// The target as sent, without scheme, host and fragment: `$request_uri`. It begins with `/`, or is `*`.
    pub fn unparsed_uri(&self) -> Cow<'_, [u8]> {
        self.head.target.unparsed(self.head.parsed.target.of(&self.head.buf))
    }

    /// The client has sent HEAD (RFC 9110 §9.3.2): the answer has no body, whatever the method has become inside the server.
    pub fn is_head(&self) -> bool {
        self.head.parsed.method == Method::Head
    }

    /// Bytes of a body follow the answer's head: not to HEAD, and not where the status has no content (RFC 9110 §6.4.1), whatever
    /// a handler has put there. The client would take them for the beginning of the next answer.
    /// RFC 9112 §6.3 ends such a message behind its head.
    pub fn sends_body(&self) -> bool {
        self.resp.tunnel || !(self.is_head() || status::is_bodiless(self.resp.status))
    }

    /// The method's name: an error page, or a back end's redirect, has made a GET of whatever it was.
    pub fn method_name(&self) -> &[u8] {
        let (sent, method) = (self.sent_method_name(), self.route.method);
        let is_same = self.route.depth > 0 || method == self.head.parsed.method || method == Method::Other;
        if is_same { sent } else { method.as_str().as_bytes() }
    }

    /// Sets the content type by the URI's extension.
    pub fn set_content_type_by_extension(&mut self) {
        let core = self.core();
        let media = core.types.get(self.route.extension()).unwrap_or(&core.default_type).clone();
        // An empty `default_type` asks for none.
        self.resp.content_type = (!media.is_empty()).then(|| media.into());
    }

    /// Whether the client goes away before `wait` is over.
    pub async fn gone_before(&self, wait: impl Future<Output = ()>) -> bool {
        let mut wait = pin!(wait);
        let gone = poll_fn(|cx| {
            if self.client.poll_gone(cx).is_ready() {
                return Poll::Ready(true);
            }
            wait.as_mut().poll(cx).map(|()| false)
        });
        gone.await
    }

    /// Opens a file through the thread's cache. The error is what the handler returns: it is asked again when the
    /// file has been fetched.
    pub fn open_file(&mut self, path: &Path, symlinks: Symlinks) -> Result<Found, Flow> {
        self.look(path, symlinks, Files::open)
    }

    /// As [`Request::open_file`], for a text that is acted on ([`Files::read`]).
    pub fn read_text(&mut self, path: &Path, symlinks: Symlinks) -> Result<Found, Flow> {
        self.look(path, symlinks, Files::read)
    }

    /// What is at a path, without needing the right to read it; otherwise as [`Request::open_file`].
    pub fn stat_file(&mut self, path: &Path, symlinks: Symlinks) -> Result<Found, Flow> {
        self.look(path, symlinks, Files::stat)
    }

    fn look(&mut self, path: &Path, symlinks: Symlinks, look: Look) -> Result<Found, Flow> {
        let Evidence { deps, fetched, asks_again, .. } = &mut self.evidence;
        let mut deps = Deps { list: deps, fetched, asks_again: *asks_again, pure: true };
        let found = look(&self.thread.files, path, symlinks, &mut deps);
        // A path on which links are judged is watched at its end only.
        // A link in the middle may be changed without a word from the watch.
        if !deps.pure || symlinks != Symlinks::Follow {
            self.depends_on(Dependencies::STATE);
        }
        found.map_err(|Cold(wanted)| Flow::Disk(wanted))
    }

    /// How long the request has been waiting for the event loop, in microseconds; 0 where that is not
    /// [measured](crate::conf::Cx::measures_lag).
    pub fn waited_us(&self) -> u64 {
        // It has not waited for longer than it has been there.
        let lag_us = Loop::current().lag_us();
        lag_us.min(clock::precise_us().saturating_sub(self.conn().caught_up_us.get()))
    }
}
