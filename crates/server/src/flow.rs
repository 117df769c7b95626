//! What a handler decides.

use crate::conf::entrance::Entrance;
use crate::files::Wanted;
use crate::request::Request;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A future that works on a request; it lives on one thread.
/// On one thread, so it may hold the request itself and needs no lock.
pub type LocalFuture<'a> = Pin<Box<dyn Future<Output = Flow> + 'a>>;

/// Starts the waiting part of a handler.
pub type Waiter = Box<dyn for<'a> FnOnce(&'a mut Request) -> LocalFuture<'a>>;

/// What a handler waits for, where waiting must cost little: a connection of HTTP/1.1 keeps it in its table entry, without
/// a future or a task.
pub trait Pending {
    /// What has become of it. What wakes the context's waker leads to another call; after `Ready` there is none.
    /// No future: a table entry holds it, and its size is that of the box.
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow>;
}

/// What a handler decides. The engine in [`phases`](crate::phases) acts on it.
pub enum Flow {
    /// Not mine, or nothing against it: go on with the next handler.
    // `Next` and `Allowed` differ for `satisfy any` only.
    Next,
    /// Access is granted: with `satisfy any` no other module is asked.
    Allowed,
    /// The response in [`Request::resp`] is complete.
    Done,
    /// End with this status: `error_page` and built-in pages apply.
    Status(u16),
    /// Start again with another URI, inside the server.
    Redirect {
        /// The path, decoded.
        uri: Vec<u8>,
        /// What follows the `?`; `None` keeps the present arguments.
        args: Option<Vec<u8>>,
    },
    /// The same for whom may ask for no more than clients may, such as the rules of `.htaccess`: an `internal` location is 404.
    /// A rule that a site's owner writes must not reach what the administrator has closed.
    RedirectAsClient {
        /// The path, decoded.
        uri: Vec<u8>,
        /// What follows the `?`; `None` keeps the present arguments.
        args: Option<Vec<u8>>,
    },
    /// Go on in a named location.
    Named(Vec<u8>),
    /// Go on in a location that was compiled late into the present one ([`late`](crate::late)).
    Enter(Arc<Entrance>),
    /// This file is not in memory: fetch it on the pool, then ask the same handler again.
    /// The same handler is called again, so it must come to the same point without doing things twice.
    Disk(Wanted),
    /// Ask the same handler again: what it has waited for is there now. As with `Disk`, it comes to the same point once more.
    Again,
    /// Go through the location's steps once more from the precontent phase on: what decided in them holds no longer. Whoever returns it has put
    /// the request back to how it was then. Rewrites, limits and access, which it has passed, are not asked again.
    Anew,
    /// Await the future, then act on what it returns.
    Wait(Waiter),
    /// The same without a future.
    Pending(Box<dyn Pending>),
    /// Close the connection without an answer (`return 444`).
    Close,
}

impl Flow {
    /// Awaits whatever the handler waits for.
    /// A future may end in another thing that waits, so it goes round until there is a decision.
    pub async fn settled(mut self, r: &mut Request) -> Flow {
        loop {
            self = match self {
                Flow::Wait(waiter) => waiter(r).await,
                Flow::Pending(mut pending) => poll_fn(|cx| pending.poll(r, cx)).await,
                flow => return flow,
            }
        }
    }
}

/// What hangs on the match is undecided.
impl From<brisk_host::regex::MatchError> for Flow {
    fn from(_: brisk_host::regex::MatchError) -> Flow {
        // An expression that gave up has said neither yes nor no. Going on would open what a rule was to
        // close.
        Flow::Status(500)
    }
}
