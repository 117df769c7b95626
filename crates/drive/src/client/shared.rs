//! What the exchanges of one connection with streams share, over HTTP/2 and HTTP/3: what has come for each, who waits, and whether others
//! may begin.
//!
//! A task of its own reads and writes; an exchange is a stream that waits for its events. Whoever changes what is to be sent wakes the task.

use super::failure::{Failure, Fault};
use super::incoming::{Heads, Incoming};
use super::message::Phases;
use std::collections::HashMap;
use std::hash::Hash;
use std::task::{Context, Poll, Waker};

/// How far the connection is.
pub(super) enum Stage {
    /// The handshake is under way; who waits for its end.
    Opening(Vec<Waker>),
    /// Requests may be made.
    Open,
    /// The server takes no new ones.
    Leaving,
    Failed(Failure),
}

/// See the module's head. `S` is how streams are numbered.
pub(super) struct Shared<S> {
    pub stage: Stage,
    pub incoming: HashMap<S, Incoming>,
    driver: Option<Waker>,
    /// Of those who wait for room for another stream.
    waiting: Vec<Waker>,
}

impl<S: Copy + Eq + Hash> Shared<S> {
    pub(super) fn new(stage: Stage) -> Self {
        Self { stage, incoming: HashMap::new(), driver: None, waiting: Vec::new() }
    }

    /// New streams may be begun.
    pub(super) fn is_usable(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// The task is woken by [`Shared::kick`].
    pub(super) fn drive(&mut self, cx: &Context<'_>) {
        self.driver = Some(cx.waker().clone());
    }

    /// There is something for the task to do.
    pub(super) fn kick(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    /// There may be room for another stream.
    pub(super) fn admit(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    /// Goes on to another stage; who waits for the end of the handshake looks again.
    pub(super) fn enter(&mut self, stage: Stage) {
        if let Stage::Opening(wakers) = std::mem::replace(&mut self.stage, stage) {
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// The connection is over.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.incoming.values_mut().for_each(|incoming| incoming.fail(failure.clone()));
        self.enter(Stage::Failed(failure));
        self.admit();
    }

    /// One exchange is over.
    pub(super) fn end(&mut self, stream: S, failure: Failure) {
        if let Some(incoming) = self.incoming.get_mut(&stream) {
            incoming.end(Err(failure));
        }
    }

    /// The server takes no new requests, and has not looked at those that are `lost`.
    pub(super) fn go_away(&mut self, failure: &Failure, lost: impl Fn(S) -> bool) {
        if matches!(self.stage, Stage::Open) {
            self.enter(Stage::Leaving);
        }
        let lost = self.incoming.iter_mut().filter(|(stream, _)| lost(**stream));
        lost.for_each(|(_, incoming)| incoming.end(Err(failure.clone())));
        self.admit();
    }

    /// Ready when the handshake is complete.
    pub(super) fn poll_opened(&mut self, cx: &Context<'_>) -> Poll<Result<(), Failure>> {
        match &mut self.stage {
            Stage::Opening(wakers) => {
                wakers.push(cx.waker().clone());
                Poll::Pending
            }
            Stage::Failed(failure) => Poll::Ready(Err(failure.clone())),
            Stage::Open | Stage::Leaving => Poll::Ready(Ok(())),
        }
    }

    /// Whether a stream may be begun, as far as the connection goes.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match &self.stage {
            Stage::Failed(failure) => Err(failure.clone()),
            Stage::Leaving => Err(Failure::new(Fault::Reset, "the server goes away")),
            Stage::Opening(_) | Stage::Open => Ok(()),
        }
    }

    /// A stream that was begun, or a wait until there is room for one.
    pub(super) fn poll_begun<T>(&mut self, begun: Option<T>, cx: &Context<'_>) -> Poll<Result<T, Failure>> {
        match begun {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => {
                self.waiting.push(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ready when the response on a stream is over.
    pub(super) fn poll_response(
        &mut self,
        stream: S,
        cx: &Context<'_>,
        phases: &mut Phases,
        heads: &mut Heads,
    ) -> Poll<Result<(), Failure>> {
        match (self.incoming.get_mut(&stream), &self.stage) {
            (Some(incoming), _) => incoming.poll(cx, phases, heads),
            (None, Stage::Failed(failure)) => Poll::Ready(Err(failure.clone())),
            (None, _) => Poll::Ready(Err(Failure::new(Fault::Reset, "the stream is gone"))),
        }
    }
}
