//! A request on its way through the phases.

use crate::body::RequestBody;
use crate::common::Common;
use crate::conf::{LocationId, ServerId, Snapshot};
use crate::connection::Connection;
use crate::core::{CoreConf, LogLevel};
use crate::counters::Ongoing;
use crate::extended::ExtendedConnect;
use crate::files::{Cold, Dep, Deps, Files, Found, Wanted};
use crate::flow::Flow;
use crate::interim::Interim;
use crate::limits::{WAITING_REQUEST_BYTES, WAITING_SLACK_BYTES_MAX};
use crate::memory::Charge;
use crate::phases::Cursor;
use crate::purity::{Declared, Dependencies};
use crate::regex::Captures;
use crate::response::Response;
use crate::stream::Exchange;
use crate::text::Text;
use crate::thread::{Live, Thread};
use crate::vars::Store;
use brisk_host::vars::emptied;
use brisk_http::framing::BodyFraming;
use brisk_http::head::{Header, Span};
use brisk_http::uri::Target;
use brisk_http::{Method, RequestHead};
use brisk_net::Loop;
use brisk_net::clock::{self, Now};
use brisk_net::file::Symlinks;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};

type Look = fn(&Files, &Path, Symlinks, &mut Deps<'_>) -> Result<Found, Cold>;

/// How many bytes went out, for logs and metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub head_bytes: u64,
    pub body_bytes: u64,
}

/// What becomes of the connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Persistence {
    #[default]
    Close,
    KeepAlive,
}

/// See [`Request::watch_client`].
pub struct ClientWatch {
    conn: Option<Rc<Connection>>,
    link: Option<Rc<Exchange>>,
}

impl ClientWatch {
    /// Ready when the client has gone away.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        poll_gone(self.link.as_deref(), self.conn.as_deref(), cx)
    }
}

/// The client's going away, by the protocol that it came by.
fn poll_gone(link: Option<&Exchange>, conn: Option<&Connection>, cx: &mut Context<'_>) -> Poll<()> {
    match (link, conn) {
        (Some(exchange), _) => exchange.poll_gone(cx),
        (None, Some(conn)) => conn.io.poll_closed(cx),
        (None, None) => Poll::Pending,
    }
}

/// One request. Boxed once and used again for later requests of the thread.
pub struct Request {
    /// The bytes of the head; spans of `head` point into it.
    pub(crate) buf: Vec<u8>,
    /// Immutable once parsed. What answers are made of reads it through the accessors in `reads.rs`.
    pub(crate) head: RequestHead,
    pub framing: BodyFraming,
    /// Scheme, arguments and flags of the target as sent. Its path is in `uri`.
    pub target: Target,
    /// Decoded and normalised; changed by rewrites and internal redirects.
    pub uri: Vec<u8>,
    pub args: Vec<u8>,
    /// The method that handlers act on; an error page turns it into GET.
    pub method: Method,
    /// Host without port, lower case: from the request line, else from `Host`.
    pub host: Vec<u8>,
    /// The port the client named.
    pub port: Option<u16>,
    pub thread: Rc<Thread>,
    pub live: Rc<Live>,
    pub(crate) conn: Option<Rc<Connection>>,
    /// The stream that it came on, if its connection carries several. `None`: the connection is its own.
    pub(crate) link: Option<Rc<Exchange>>,
    pub server: ServerId,
    pub loc: LocationId,
    pub cursor: Cursor,
    /// Reached by an internal redirect or as a subrequest.
    pub internal: bool,
    /// `try_files` found a file below the `alias` of a regular expression: the URI belongs behind the alias.
    pub add_uri_to_alias: bool,
    /// 0: what the client asked for; more: a subrequest.
    pub depth: u8,
    /// Rewrites and redirects that are left.
    pub uri_changes_left: u8,
    /// A rewrite has changed the URI; the location must be found anew.
    pub uri_changed: bool,
    /// The URI belongs to the location; false once `rewrite … break` has changed it there.
    pub location_valid: bool,
    /// The URI is still what the client sent.
    pub unparsed_uri_valid: bool,
    /// `uri` came from text in which `?` or `#` was encoded: decoded, it is part of a path and must not end one.
    /// See [`Template::append_target`](crate::vars::Template::append_target).
    pub has_decoded_delimiter: bool,
    /// An error page is being served; others only if `recursive_error_pages`.
    pub error_page: bool,
    /// The status the response will have whatever its handler says; 0: none.
    pub err_status: u16,
    pub persistence: Persistence,
    /// `limit_rate` set by `set $limit_rate`.
    pub limit_rate: Option<u64>,
    pub resp: Response,
    /// How interim responses are sent; `None` where that cannot be.
    pub interim: Option<Rc<dyn Interim>>,
    /// Hints were sent, or it was found that there are none.
    pub(crate) hinted: bool,
    /// Its stream was not over with its head, although no body was announced.
    pub(crate) awaits_end: bool,
    /// It is an extended CONNECT; handlers see the upgrade that it stands for.
    pub extended: Option<Box<ExtendedConnect>>,
    /// Counted among those that are being answered.
    pub(crate) ongoing: Option<Ongoing>,
    /// What its head occupies while it waits, as its connection counts it.
    head_charge: Option<Charge>,
    /// What of its body is in memory, and what is kept for it besides.
    body_charge: OnceCell<Charge>,
    charge: OnceCell<Charge>,
    /// Shared with subrequests.
    pub vars: Rc<Store>,
    /// Likewise.
    pub(crate) common: Rc<Common>,
    pub captures: RefCell<Captures>,
    /// What the answer has been found to depend on so far, and what was done on its way.
    pub(crate) declared: Cell<Declared>,
    /// The last second (since 1970) in which the answer is the same; what the clock writes into it does not make it
    /// impure, only short-lived.
    pub(crate) same_until: Cell<i64>,
    /// The back end that is being asked, as messages name it.
    pub upstream: Option<Rc<dyn fmt::Display>>,
    /// Files and directories that were looked at.
    pub deps: Vec<Dep>,
    /// Files fetched by the pool for this request.
    pub fetched: Vec<(Wanted, Found)>,
    pub started: Now,
    pub sent: Sent,
    /// The whole response has been sent.
    pub completed: bool,
    /// What has become of the body.
    pub body: RequestBody,
    /// Bytes of body that were received, framing included.
    pub body_received: Cell<u64>,
    /// One value per module that asked for it.
    pub slots: Vec<Box<dyn Any>>,
    /// As `slots`, for what variables find out: they see the request only from outside.
    pub(crate) findings: RefCell<Vec<Rc<dyn Any>>>,
}

/// Memory that a request leaves to the next one on its thread. Everything else of a request is made anew for each
/// ([`Request::new`]), so nothing that is not here can outlive its request; and what is here is empty, because
/// [`Buffers::of`] is the only way to get it.
#[derive(Default)]
struct Buffers {
    buf: Vec<u8>,
    head: RequestHead,
    target: Target,
    uri: Vec<u8>,
    args: Vec<u8>,
    host: Vec<u8>,
    headers: Vec<(Text, Text)>,
    deps: Vec<Dep>,
    fetched: Vec<(Wanted, Found)>,
    slots: Vec<Box<dyn Any>>,
    findings: Vec<Rc<dyn Any>>,
    captures: Captures,
    vars: Rc<Store>,
    common: Rc<Common>,
}

impl Buffers {
    /// Takes the memory out of a request that is over.
    fn of(r: &mut Request) -> Buffers {
        Buffers {
            buf: emptied(take(&mut r.buf)),
            head: take(&mut r.head).renewed(),
            target: take(&mut r.target).renewed(),
            uri: emptied(take(&mut r.uri)),
            args: emptied(take(&mut r.args)),
            host: emptied(take(&mut r.host)),
            headers: emptied(take(&mut r.resp.headers)),
            deps: emptied(take(&mut r.deps)),
            fetched: emptied(take(&mut r.fetched)),
            slots: emptied(take(&mut r.slots)),
            findings: emptied(r.findings.take()),
            captures: r.captures.take().renewed(),
            vars: renewed(&mut r.vars, Store::renewed),
            common: renewed(&mut r.common, Common::renewed),
        }
    }
}

/// What was shared with subrequests is made anew in its place, if they are over as well.
fn renewed<T: Default>(used: &mut Rc<T>, renew: fn(T) -> T) -> Rc<T> {
    match Rc::get_mut(used) {
        Some(own) => *own = renew(take(own)),
        None => return Rc::default(),
    }
    used.clone()
}

impl Request {
    pub(crate) fn new(thread: Rc<Thread>, live: Rc<Live>) -> Request {
        let buffers = Buffers {
            buf: Vec::with_capacity(1024),
            uri: Vec::with_capacity(128),
            host: Vec::with_capacity(64),
            ..Buffers::default()
        };
        Request::with(thread, live, buffers)
    }

    /// Makes it another request, which has nothing of this one but memory.
    pub(crate) fn renew(&mut self) {
        let buffers = Buffers::of(self);
        *self = Request::with(self.thread.clone(), self.live.clone(), buffers);
    }

    fn with(thread: Rc<Thread>, live: Rc<Live>, memory: Buffers) -> Request {
        Request {
            buf: memory.buf,
            head: memory.head,
            framing: BodyFraming::None,
            target: memory.target,
            uri: memory.uri,
            args: memory.args,
            method: Method::Get,
            host: memory.host,
            port: None,
            thread,
            live,
            conn: None,
            link: None,
            server: ServerId(0),
            loc: LocationId(0),
            cursor: Cursor::default(),
            internal: false,
            add_uri_to_alias: false,
            depth: 0,
            uri_changes_left: crate::limits::URI_CHANGES_MAX,
            uri_changed: false,
            location_valid: true,
            unparsed_uri_valid: true,
            has_decoded_delimiter: false,
            error_page: false,
            err_status: 0,
            persistence: Persistence::Close,
            limit_rate: None,
            resp: Response { headers: memory.headers, ..Response::default() },
            interim: None,
            hinted: false,
            awaits_end: false,
            extended: None,
            ongoing: None,
            head_charge: None,
            body_charge: OnceCell::new(),
            charge: OnceCell::new(),
            vars: memory.vars,
            common: memory.common,
            captures: memory.captures.into(),
            declared: Cell::new(Declared::RECORDED),
            same_until: Cell::new(i64::MAX),
            upstream: None,
            deps: memory.deps,
            fetched: memory.fetched,
            started: Now::default(),
            sent: Sent::default(),
            completed: false,
            body: RequestBody::Unread,
            body_received: Cell::new(0),
            slots: memory.slots,
            findings: memory.findings.into(),
        }
    }

    /// Bytes that the head occupies, with all copies of its parts.
    pub(crate) fn head_bytes(&self) -> usize {
        let spans = self.head.headers.capacity() * size_of::<Header>()
            + self.head.ignored.capacity() * size_of::<Span>();
        let parts = [&self.buf, &self.target.path, &self.uri, &self.args, &self.host];
        spans + parts.iter().map(|part| part.capacity()).sum::<usize>()
    }

    /// The request is going to wait: from here on its connection counts what it holds. Room that it does not need is given back.
    pub(crate) fn hold(&mut self) {
        let Some(account) = self.conn.as_ref().map(|conn| conn.account.clone()) else { return };
        if self.buf.capacity() - self.buf.len() > WAITING_SLACK_BYTES_MAX {
            self.buf.shrink_to_fit();
        }
        let headers = &mut self.head.headers;
        if (headers.capacity() - headers.len()) * size_of::<Header>() > WAITING_SLACK_BYTES_MAX {
            headers.shrink_to_fit();
        }
        let bytes = self.head_bytes();
        self.head_charge = Some(account.hold_head(bytes));
        self.also_holds(WAITING_REQUEST_BYTES);
    }

    /// So many bytes more are kept until the request ends.
    pub fn also_holds(&self, bytes: usize) {
        if let Some(conn) = &self.conn {
            self.charge.get_or_init(|| conn.account.hold(0)).add(bytes);
        }
    }

    /// So many bytes of the body are in memory.
    pub(crate) fn holds_body(&self, bytes: usize) {
        if let Some(conn) = &self.conn {
            self.body_charge.get_or_init(|| conn.account.hold(0)).set(bytes);
        }
    }

    pub fn snap(&self) -> &Snapshot {
        &self.live.snap
    }

    /// The configuration of the present location.
    pub fn core(&self) -> &CoreConf {
        &self.live.snap.location(self.loc).core
    }

    /// The target as sent, without scheme, host and fragment: `$request_uri`. It begins with `/`, or is `*`.
    pub fn unparsed_uri(&self) -> Cow<'_, [u8]> {
        self.target.unparsed(self.head.target.of(&self.buf))
    }

    pub fn is_head(&self) -> bool {
        self.head.method == Method::Head
    }

    /// The method's name: an error page, or a back end's redirect, has made a GET of whatever it was.
    pub fn method_name(&self) -> &[u8] {
        let sent = self.sent_method_name();
        let is_same = self.depth > 0 || self.method == self.head.method || self.method == Method::Other;
        if is_same { sent } else { self.method.as_str().as_bytes() }
    }

    /// The file extension of the URI's last segment, without the dot.
    pub fn extension(&self) -> &[u8] {
        let name = memchr::memrchr(b'/', &self.uri).map_or(&self.uri[..], |at| &self.uri[at + 1..]);
        memchr::memrchr(b'.', name).map_or(&b""[..], |at| &name[at + 1..])
    }

    /// Sets the content type by the URI's extension.
    pub fn set_content_type_by_extension(&mut self) {
        let core = self.core();
        let media = core.types.get(self.extension()).unwrap_or(&core.default_type).clone();
        self.resp.content_type = (!media.is_empty()).then(|| media.into());
    }

    /// This request's value of a module's type, made on first use.
    pub fn slot<T: Default + 'static>(&mut self) -> &mut T {
        let at = match self.slots.iter().position(|slot| slot.is::<T>()) {
            Some(at) => at,
            None => {
                self.slots.push(Box::<T>::default());
                self.slots.len() - 1
            }
        };
        self.slots[at].downcast_mut().expect("found by type")
    }

    /// The value, if there is one.
    pub fn slot_ref<T: 'static>(&self) -> Option<&T> {
        self.slots.iter().find_map(|slot| slot.downcast_ref())
    }

    /// The value of [`Request::finding`], if there is one.
    pub fn finding_ref<T: 'static>(&self) -> Option<Rc<T>> {
        self.findings.borrow().iter().find_map(|value| value.clone().downcast().ok())
    }

    /// Ready when the client has gone away, so that its request need not be answered.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        poll_gone(self.link.as_deref(), self.conn.as_deref(), cx)
    }

    /// Whether the client goes away before `wait` is over.
    pub async fn gone_before(&self, wait: impl Future<Output = ()>) -> bool {
        let mut wait = pin!(wait);
        let gone = poll_fn(|cx| {
            if self.poll_gone(cx).is_ready() {
                return Poll::Ready(true);
            }
            wait.as_mut().poll(cx).map(|()| false)
        });
        gone.await
    }

    /// The same for whoever has no request at hand.
    pub fn watch_client(&self) -> ClientWatch {
        ClientWatch { conn: self.conn.clone(), link: self.link.clone() }
    }

    /// This request's value of a module's type that variables share with handlers, made on first use.
    pub fn finding<T: 'static>(&self, find: impl FnOnce() -> T) -> Rc<T> {
        let have = self.findings.borrow().iter().find_map(|value| value.clone().downcast().ok());
        have.unwrap_or_else(|| {
            let value = Rc::new(find());
            self.findings.borrow_mut().push(value.clone());
            value
        })
    }

    /// Opens a file through the thread's cache. The error is what the handler returns: it is asked again when the
    /// file has been fetched.
    pub fn open_file(&mut self, path: &Path, symlinks: Symlinks) -> Result<Found, Flow> {
        self.look(path, symlinks, Files::open)
    }

    /// What is at a path, without needing the right to read it; otherwise as [`Request::open_file`].
    pub fn stat_file(&mut self, path: &Path, symlinks: Symlinks) -> Result<Found, Flow> {
        self.look(path, symlinks, Files::stat)
    }

    fn look(&mut self, path: &Path, symlinks: Symlinks, look: Look) -> Result<Found, Flow> {
        let mut deps = Deps { list: &mut self.deps, fetched: &self.fetched, pure: true };
        let found = look(&self.thread.files, path, symlinks, &mut deps);
        // A path on which links are judged is watched at its end only.
        if !deps.pure || symlinks != Symlinks::Follow {
            self.depends_on(Dependencies::STATE);
        }
        found.map_err(|Cold(wanted)| Flow::Disk(wanted))
    }

    /// How long the request has been waiting for the event loop, in microseconds; 0 where that is not
    /// [measured](crate::conf::Cx::measures_lag).
    pub fn waited_us(&self) -> u64 {
        let lag_us = Loop::current().lag_us();
        lag_us.min(clock::precise_us().saturating_sub(self.conn().caught_up_us.get()))
    }

    /// Whether messages of this level are wanted.
    pub fn logs(&self, level: LogLevel) -> bool {
        self.core().logs(level) || self.conn.as_ref().is_some_and(|conn| conn.debug.get())
    }

    /// Writes a message to the error logs of the location. Use [`rlog!`](crate::rlog).
    pub fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        crate::log::request(self, level, message);
    }
}

/// `dlog!(r, "using configuration \"{}\"", name)`: a step of the request's way, for `error_log … debug` and
/// `debug_connection`. Where neither is configured it costs one branch.
#[macro_export]
macro_rules! dlog {
    ($r:expr, $($arg:tt)*) => {
        if $crate::log::may_debug() {
            $crate::rlog!($r, Debug, $($arg)*);
        }
    };
}

/// `rlog!(r, Error, "open() \"{}\" failed", path)`: to the error logs, if the level is wanted.
#[macro_export]
macro_rules! rlog {
    ($r:expr, $level:ident, $($arg:tt)*) => {
        if $r.logs($crate::core::LogLevel::$level) {
            $r.log($crate::core::LogLevel::$level, format_args!($($arg)*));
        }
    };
}
