//! Asking a back end, as a cache sees it: a question, a whole answer or a reason why there is none.

use crate::head::BackendHead;
use brisk_http::Method;
use brisk_net::Failure;
use brisk_server::flow::Flow;
use brisk_server::in_memory::InMemory;
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use crate::retry::condition;

/// What a `*_pass` location asks, and how its answers are passed on.
/// A cache needs no more than this of a back end, so it names no protocol, and protocols name no cache.
pub trait Origin: Send + Sync {
    /// Asks the back end, further attempts included. Nothing of the request's response is touched. A failure has been
    /// logged; [`condition`] says what it is for `*_cache_use_stale`.
    fn fetch(self: Arc<Self>, r: &mut Request, ask: Ask) -> FetchFuture<'_>;

    /// Whether the request's body is read as a whole before anything is asked (`*_request_buffering`): variables may speak of
    /// it then.
    /// A body that is passed on as it comes can be sent once, and a cache may have to ask again.
    fn reads_body_first(&self, r: &Request) -> bool;

    /// Makes a head the request's response: headers hidden, renamed and rewritten, `X-Accel-*` obeyed, errors
    /// intercepted. For fresh answers and for stored ones.
    fn respond(&self, r: &mut Request, head: &Arc<BackendHead>, length: Option<u64>, body: Body) -> Flow;

    /// Fields of answers that are not to be obeyed (`*_ignore_headers`), see [`ignored`].
    fn ignored(&self) -> u32;

    /// Appends what tells answers apart where no key is configured.
    fn default_key(&self, r: &Request, out: &mut Vec<u8>);
}

/// See [`Origin::fetch`].
pub type FetchFuture<'a> = Pin<Box<dyn Future<Output = Result<Fetched, Failure>> + 'a>>;

/// Bits of `*_ignore_headers`.
pub mod ignored {
    /// Another location answers.
    pub const X_ACCEL_REDIRECT: u32 = 1 << 0;
    /// How long the answer is stored.
    pub const X_ACCEL_EXPIRES: u32 = 1 << 1;
    /// How long the answer is stored.
    pub const EXPIRES: u32 = 1 << 2;
    /// Whether and how long the answer is stored.
    pub const CACHE_CONTROL: u32 = 1 << 3;
    /// An answer that sets a cookie is not stored.
    pub const SET_COOKIE: u32 = 1 << 4;
    /// How fast the answer is sent.
    pub const X_ACCEL_LIMIT_RATE: u32 = 1 << 5;
    /// Whether the answer is read ahead.
    pub const X_ACCEL_BUFFERING: u32 = 1 << 6;
    /// The answer's character set.
    pub const X_ACCEL_CHARSET: u32 = 1 << 7;
    /// What the stored answer depends on.
    pub const VARY: u32 = 1 << 8;
}

/// How a request is to be changed before it is asked.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// The answer may be stored: conditions and ranges of the client are left out, so that the answer is a whole one.
    pub cacheable: bool,
    /// Another method than the request's.
    pub method: Option<Method>,
    /// Fields to send, in place of what was left out.
    pub fields: Vec<(&'static str, Vec<u8>)>,
}

/// A back end's answer.
pub struct Fetched {
    /// The final head.
    pub head: Arc<BackendHead>,
    /// The body's length, if it is known. A body that is shorter ends with an error.
    pub length: Option<u64>,
    /// Owns its connection and may outlive the request; dropping it early closes the connection.
    pub body: Body,
    /// Passed on as it comes (`*_buffering off`, `X-Accel-Buffering: no`).
    pub unbuffered: bool,
    /// A tunnel: the body is one direction of it and drives the other.
    pub tunnel: bool,
}

impl Fetched {
    /// The body as a stream, whatever it is.
    pub fn into_stream(self) -> Box<dyn BodyStream> {
        match self.body {
            Body::Stream(stream) => stream,
            body => Box::new(InMemory::new(body)),
        }
    }
}
