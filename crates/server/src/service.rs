//! Work that belongs to a configuration and to no request: looking names up again, asking back ends how they are.

use crate::connection::{Connection, Peer};
use crate::h1::intake;
use crate::request::Request;
use crate::thread::{Live, Thread};
use brisk_http::uri::{UriOptions, parse_target};
use brisk_http::{HeadOptions, parse_request};
use brisk_net::{Io, Stream, clock};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// Something that goes on in one thread while a configuration is live.
pub trait Service: Send + Sync {
    /// Starts its tasks ([`Work::spawn`]) on this thread's loop.
    fn start(self: Arc<Self>, work: &Work);
}

/// Where a service's tasks belong: they end when another configuration is live, or when the worker drains.
#[derive(Clone)]
pub struct Work {
    pub thread: Rc<Thread>,
    pub live: Rc<Live>,
    end: Rc<End>,
}

#[derive(Default)]
struct End {
    has_come: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Work {
    pub(crate) fn new(thread: Rc<Thread>, live: Rc<Live>) -> Work {
        Work { thread, live, end: Rc::default() }
    }

    /// Starts a task that is dropped, wherever it waits, when the work ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        brisk_net::spawn(Until { task: Some(Box::pin(task)), end: self.end.clone() });
    }

    /// A GET of `uri` that no client has sent, at the first server: for variables that work of our own wants. Of a client
    /// they find nobody: `$remote_addr` is `unix:`.
    pub fn request(&self, uri: &str, host: &[u8]) -> io::Result<Box<Request>> {
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let listener = self.thread.listeners.borrow().first().cloned().ok_or(io::ErrorKind::NotFound)?;
        let (ours, _) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let id = self.thread.shared.connection_ids.fetch_add(1, Ordering::Relaxed);
        let now = clock::now();
        let conn = Connection::new(Stream::from(Io::local(ours.into())), id, Peer::Unix, listener, now);
        let mut r = Box::new(Request::new(self.thread.clone(), self.live.clone()));
        r.conn = Some(Rc::new(conn));
        r.started = now;
        r.buf = [b"GET ", uri.as_bytes(), b" HTTP/1.0\r\nHost: ", host, b"\r\n\r\n"].concat();
        let Request { buf, head, target, .. } = &mut *r;
        parse_request(buf, &HeadOptions::default(), head).map_err(invalid)?;
        let sent = head.target.of(buf);
        parse_target(sent, UriOptions::default(), target).map_err(|_| io::ErrorKind::InvalidInput)?;
        let args = target.args.of(sent).to_vec();
        (r.args, r.uri) = (args, r.target.path.clone());
        r.has_decoded_delimiter = intake::has_delimiter(&r.uri);
        r.host.extend_from_slice(host);
        r.loc = r.snap().server(r.server).root;
        Ok(r)
    }

    pub(crate) fn end(&self) {
        self.end.has_come.set(true);
        self.end.wakers.take().into_iter().for_each(Waker::wake);
    }
}

struct Until<F> {
    task: Option<Pin<Box<F>>>,
    end: Rc<End>,
}

impl<F: Future<Output = ()>> Future for Until<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(task) = this.task.as_mut().filter(|_| !this.end.has_come.get()) else {
            this.task = None;
            return Poll::Ready(());
        };
        if task.as_mut().poll(cx).is_ready() {
            this.task = None;
            return Poll::Ready(());
        }
        let mut wakers = this.end.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
