//! Includes: other locations' answers in the page, or in a variable.

use super::Shared;
use brisk_net::Failure;
use brisk_server::in_memory::InMemory;
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::subrequest::Part;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// An answer that becomes part of the page.
pub struct Include {
    part: Part,
    state: State,
    /// What takes its place if it is empty or an error.
    stub: Option<Arc<[u8]>>,
    /// The page says that there was an error, in the place of the error's own page.
    hides_errors: bool,
    /// Some of it was sent.
    given: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its handlers are at work.
    Running,
    Known,
    /// There is no answer.
    Failed,
}

impl Include {
    pub fn new(part: Part, stub: Option<Arc<[u8]>>, hides_errors: bool) -> Include {
        Include { part, state: State::Running, stub, hides_errors, given: false }
    }

    /// Lets the handlers work until there is an answer.
    pub fn start(&mut self, cx: &mut Context<'_>) {
        if self.state == State::Running
            && let Poll::Ready(response) = self.part.poll_response(cx)
        {
            self.state = if response.is_some() { State::Known } else { State::Failed };
        }
    }

    /// True if there was no answer at all: too many includes within each other, or a location that closes; or an error that is not shown.
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// The next of the answer, for a page of the request `me`.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>, me: &Request) -> Poll<Option<Result<Chunk, Failure>>> {
        self.start(cx);
        match self.state {
            State::Running => return Poll::Pending,
            State::Failed => return Poll::Ready(None),
            State::Known => {}
        }
        loop {
            let response = ready!(self.part.poll_response(cx));
            // nginx: what ends a request with an error, not an answer that a back end gives as one.
            let is_error = response.is_some_and(|r| r.reply.err_status >= 300);
            if is_error && self.put_stub(me) {
                continue;
            }
            if is_error && self.hides_errors && !self.given {
                self.state = State::Failed;
                return Poll::Ready(None);
            }
            match ready!(self.part.poll_chunk(cx)) {
                Some(Ok(Chunk::Piece(piece))) if piece.is_empty() => {}
                None if !self.given && self.put_stub(me) => {}
                chunk => {
                    self.given |= matches!(chunk, Some(Ok(Chunk::Piece(_))));
                    return Poll::Ready(chunk);
                }
            }
        }
    }

    /// Puts the stub in the place of the answer; false if there is none.
    fn put_stub(&mut self, me: &Request) -> bool {
        let Some(stub) = self.stub.take() else { return false };
        self.part.replace(me.resp.content_type.clone(), stub.into());
        true
    }
}

/// An answer that becomes a variable's value.
pub struct Set {
    name: Box<[u8]>,
    state: SetState,
    value: Vec<u8>,
    /// `subrequest_output_buffer_size`.
    bytes_max: usize,
}

enum SetState {
    Running(Option<Part>),
    Reading(InMemory),
}

impl Set {
    pub fn new(name: Box<[u8]>, part: Part) -> Set {
        Set { name, state: SetState::Running(Some(part)), value: Vec::new(), bytes_max: 0 }
    }

    /// Ready when the variable is set, or left as it was because the answer was an error. An error ends the request,
    /// as in nginx.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        me: &Request,
        shared: &Rc<Shared>,
    ) -> Poll<Result<(), Failure>> {
        if let SetState::Running(part) = &mut self.state {
            let Some(running) = part else { return Poll::Ready(Ok(())) };
            let Some(r) = ready!(running.poll_response(cx)) else { return Poll::Ready(Ok(())) };
            if r.resp.status >= 300 {
                return Poll::Ready(Ok(()));
            }
            self.bytes_max = r.core().subrequest_output_buffer_size as usize;
            if let Some(length) = r.resp.content_length.filter(|n| *n > self.bytes_max as u64) {
                return Poll::Ready(Err(too_big(&format!(": {length}"))));
            }
            let part = part.take().map(|part| Body::Stream(Box::new(part)));
            self.state = SetState::Reading(InMemory::new(part.unwrap_or_default()));
        }
        let SetState::Reading(body) = &mut self.state else { return Poll::Pending };
        loop {
            match ready!(body.poll_chunk(cx)) {
                Some(Ok(Chunk::Piece(piece))) => {
                    let bytes = Piece::in_memory(&piece).unwrap_or_default();
                    if bytes.len() > self.bytes_max - self.value.len() {
                        return Poll::Ready(Err(too_big("")));
                    }
                    self.value.extend_from_slice(bytes);
                }
                Some(Ok(Chunk::Flush)) => {}
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    if let Err(message) = shared.set(&self.name, std::mem::take(&mut self.value)) {
                        brisk_server::rlog!(me, Error, "{message}");
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

fn too_big(length: &str) -> Failure {
    Failure::broken(format!("too big subrequest response{length}"))
}
