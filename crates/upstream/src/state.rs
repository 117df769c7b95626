//! What is known of a request's attempts at back ends: `$upstream_…`, and the back end in messages.
//!
//! Cells, not `&mut`: the body's stream fills them while the request is elsewhere, on the same thread. Times
//! are milliseconds from the attempt's beginning.

use crate::head::BackendHead;
use brisk_balance::PeerInfo;
use brisk_server::request::Request;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// One attempt, as variables show it.
#[derive(Clone, Debug)]
pub struct AttemptRecord {
    /// The peer's address; the group's name where there was none to ask.
    pub peer: Arc<str>,
    /// 0: nothing is known yet.
    pub status: u16,
    /// Until the connection was there.
    pub connect_ms: Option<u64>,
    /// Until the response's head was there.
    pub header_ms: Option<u64>,
    /// Until the end of the response.
    pub response_ms: Option<u64>,
    /// Bytes of the answer's body.
    pub length: u64,
    /// Bytes from the peer.
    /// Heads and framing included, as nginx counts `$upstream_bytes_received`.
    pub received: u64,
    /// Bytes to the peer.
    pub sent: u64,
    /// The first attempt after an internal redirect.
    pub begins: bool,
}

/// All attempts of a request, internal redirects included. Streams that outlive the request go on filling it.
/// Shared by `Rc`: all of it stays on the request's thread.
#[derive(Default)]
pub struct State {
    attempts: RefCell<Vec<AttemptRecord>>,
    begins: Cell<bool>,
    /// `http://`, for messages.
    scheme: Cell<&'static str>,
    /// What is asked for, for messages.
    uri: RefCell<Rc<[u8]>>,
    head: RefCell<Option<Arc<BackendHead>>>,
    /// The server that was chosen last.
    chosen: RefCell<Option<Arc<PeerInfo>>>,
    /// Fields behind the body: names and values.
    pub trailers: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl State {
    /// The request's state; from now on attempts belong to another location's work.
    pub fn begin(r: &mut Request, scheme: &'static str, uri: Rc<[u8]>) -> Rc<State> {
        // Kept over internal redirects: `$upstream_addr` lists the attempts of all locations, divided by " :
        // ".
        let state = r.state.own.get_or(State::default);
        state.begins.set(true);
        state.scheme.set(scheme);
        state.uri.replace(uri);
        // The answer of the location before, whose fields must not be taken for this one's.
        state.head.take();
        state.trailers.take();
        // For messages of the server, which knows nothing of back ends but that they can be shown.
        r.flight.asks(state.clone());
        state
    }

    /// Adds an attempt.
    pub fn attempt(&self, peer: Arc<str>) {
        let mut attempts = self.attempts.borrow_mut();
        if attempts.is_empty() {
            // Mostly there is no other.
            attempts.reserve_exact(1);
        }
        attempts.push(AttemptRecord {
            peer,
            status: 0,
            connect_ms: None,
            header_ms: None,
            response_ms: None,
            length: 0,
            received: 0,
            sent: 0,
            begins: self.begins.take(),
        });
    }

    /// Adds an attempt at a server.
    pub fn choose(&self, peer: &Arc<PeerInfo>) {
        self.attempt(peer.name.clone());
        self.chosen.replace(Some(peer.clone()));
    }

    /// Adds an attempt at `name` for which there was no server to ask, and that the client is told of with `status`.
    pub fn unasked(&self, name: &str, status: u16) {
        self.attempt(name.into());
        self.note(|attempt| {
            // What the client gets, though no back end has said it; nginx lists it like an answer.
            attempt.status = status;
            attempt.response_ms = Some(0);
        });
    }

    /// The server that was chosen last.
    pub fn chosen(&self) -> Option<Arc<PeerInfo>> {
        self.chosen.borrow().clone()
    }

    /// Changes the present attempt.
    pub fn note(&self, change: impl FnOnce(&mut AttemptRecord)) {
        if let Some(last) = self.attempts.borrow_mut().last_mut() {
            change(last);
        }
    }

    /// Bytes that the last attempt has sent so far.
    pub fn sent(&self) -> u64 {
        self.attempts.borrow().last().map_or(0, |attempt| attempt.sent)
    }

    /// Attempts so far.
    pub fn len(&self) -> usize {
        self.attempts.borrow().len()
    }

    /// Whether there was no attempt.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address that is being asked.
    pub fn peer(&self) -> Arc<str> {
        self.attempts.borrow().last().map_or_else(|| "".into(), |attempt| attempt.peer.clone())
    }

    /// The final head has come.
    pub fn set_head(&self, head: Arc<BackendHead>) {
        self.head.replace(Some(head));
    }

    /// The final head, once it has come.
    pub fn head(&self) -> Option<Arc<BackendHead>> {
        self.head.borrow().clone()
    }

    /// Appends a value of each attempt as nginx joins them; false if there is none.
    pub fn join(&self, out: &mut Vec<u8>, each: impl Fn(&AttemptRecord, &mut Vec<u8>)) -> bool {
        let attempts = self.attempts.borrow();
        for (at, attempt) in attempts.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(if attempt.begins { b" : " } else { b", " });
            }
            each(attempt, out);
        }
        !attempts.is_empty()
    }
}

/// `http://127.0.0.1:8080/uri`
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = self.attempts.borrow();
        let peer = attempts.last().map_or("", |attempt| &attempt.peer);
        // As nginx writes it: a path and a URI could not be told apart.
        let colon = if peer.starts_with("unix:") { ":" } else { "" };
        write!(f, "{}{peer}{colon}{}", self.scheme.get(), String::from_utf8_lossy(&self.uri.borrow()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_joined_as_nginx_joins_them() {
        let state = State::default();
        let peers = |state: &State| {
            let mut out = Vec::new();
            state.join(&mut out, |attempt, out| out.extend_from_slice(attempt.peer.as_bytes()));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(peers(&state), "");
        state.begins.set(true);
        state.attempt("a".into());
        state.attempt("b".into());
        state.begins.set(true);
        state.attempt("c".into());
        assert_eq!(peers(&state), "a, b : c");
        state.scheme.set("http://");
        state.uri.replace(b"/x"[..].into());
        assert_eq!(state.to_string(), "http://c/x");
        state.attempt("unix:/s".into());
        assert_eq!(state.to_string(), "http://unix:/s:/x");
    }
}
