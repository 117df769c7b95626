//! What a handler decides.

use crate::files::Wanted;
use crate::request::Request;
use std::future::Future;
use std::pin::Pin;

/// A future that works on a request; it lives on one thread.
pub type LocalFuture<'a> = Pin<Box<dyn Future<Output = Flow> + 'a>>;

/// Starts the waiting part of a handler.
pub type Waiter = Box<dyn for<'a> FnOnce(&'a mut Request) -> LocalFuture<'a>>;

/// What a handler decides. The engine in [`phases`](crate::phases) acts on it.
pub enum Flow {
    /// Not mine, or nothing against it: go on with the next handler.
    Next,
    /// Access is granted: with `satisfy any` no other module is asked.
    Allowed,
    /// The response in [`Request::resp`] is complete.
    Done,
    /// End with this status: `error_page` and built-in pages apply.
    Status(u16),
    /// Start again with another URI, inside the server. `args` of `None` keeps the present ones.
    Redirect { uri: Vec<u8>, args: Option<Vec<u8>> },
    /// Go on in a named location.
    Named(Vec<u8>),
    /// This file is not in memory: fetch it on the pool, then ask the same handler again.
    Disk(Wanted),
    /// Await the future, then act on what it returns.
    Wait(Waiter),
    /// Close the connection without an answer (`return 444`).
    Close,
}
