//! What a request's task and its connection share: the body that comes in, the piece that goes out, and whether the
//! stream is still there.
//!
//! It must not know frames, windows and priorities: the protocol behind [`Session`] turns it into those, and reads
//! `outgoing` whenever there is room.

use super::{Reset, Session, StreamId};
use crate::connection::Connection;
use crate::files::OpenFile;
use crate::request::reply::Interim;
use crate::response::Piece;
use crate::text::Text;
use brisk_host::peer::Cut;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tasks that wait for something to happen to a stream.
/// Usually one. A request that waits for its body and for a back end at once has two parts that wait.
#[derive(Default)]
pub struct Wakers(RefCell<Vec<Waker>>);

impl Wakers {
    fn add(&self, cx: &Context<'_>) {
        let mut all = self.0.borrow_mut();
        if !all.iter().any(|waker| waker.will_wake(cx.waker())) {
            all.push(cx.waker().clone());
        }
    }

    pub fn wake(&self) {
        // Taken first: a waker may lead to a task that registers again.
        for waker in self.0.take() {
            waker.wake();
        }
    }
}

/// A piece on its way out.
pub struct Outgoing {
    pub piece: Piece,
    /// Bytes of it that have left.
    pub at: u64,
    /// Nothing follows: its last frame ends the stream.
    pub last: bool,
}

/// Why a piece does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// These bytes of the file must come from the disk.
    Cold { offset: u64, len: usize },
    /// The file is shorter than it was.
    Truncated,
}

/// See the module's head.
pub struct Exchange {
    pub conn: Rc<Connection>,
    pub id: StreamId,
    /// Ends the task from outside.
    pub cut: Rc<Cut>,
    /// The configuration (by its count of reloads) that serves it.
    pub generation: u64,
    /// Received and not taken.
    /// Bounded by the window that the client was given; taking from it gives the client new room.
    pub input: RefCell<Vec<u8>>,
    /// The client has said all.
    pub ended: Cell<bool>,
    /// What it has said is not what it has announced: the stream ends with an error, whatever is answered.
    pub malformed: Cell<bool>,
    /// The stream is no more.
    /// The first reason stands: later ones follow from it.
    pub gone: Cell<Option<Reset>>,
    /// One piece at a time: the next is asked for when this one has left, so a slow client holds up who makes the
    /// body.
    pub outgoing: RefCell<Option<Outgoing>>,
    /// The session has found it while it filled frames, where nothing may wait; the task mends it and tells the
    /// session again.
    pub stuck: Cell<Option<Stuck>>,
    /// Bytes of body that have left, and bytes of frames around them.
    /// For the log, which tells both apart.
    pub sent: Cell<u64>,
    pub framing: Cell<u64>,
    /// The final head has left.
    /// No interim response may follow it (RFC 9110 §15.2).
    pub head_sent: Cell<bool>,
    /// The stream's body was ended by whoever made it.
    pub said_all: Cell<bool>,
    pub wakers: Wakers,
}

impl Exchange {
    pub fn new(conn: Rc<Connection>, id: StreamId, ended: bool, generation: u64) -> Exchange {
        Exchange {
            conn,
            id,
            cut: Rc::default(),
            generation,
            input: RefCell::default(),
            ended: Cell::new(ended),
            malformed: Cell::new(false),
            gone: Cell::new(None),
            outgoing: RefCell::default(),
            stuck: Cell::new(None),
            sent: Cell::new(0),
            framing: Cell::new(0),
            head_sent: Cell::new(false),
            said_all: Cell::new(false),
            wakers: Wakers::default(),
        }
    }

    pub fn session(&self) -> &dyn Session {
        // `None` only in a request that came by no stream.
        self.conn.session().expect("an exchange belongs to a session")
    }

    /// Bytes of memory: what has come, and a piece that is this stream's own.
    pub fn memory(&self) -> usize {
        let outgoing = self.outgoing.borrow();
        let piece = match outgoing.as_ref().map(|outgoing| &outgoing.piece) {
            Some(Piece::Bytes(Text::Owned(bytes))) => bytes.capacity(),
            _ => 0,
        };
        size_of::<Exchange>() + self.input.borrow().capacity() + piece
    }

    /// The stream has ended before its time.
    pub fn end(&self, why: Reset) {
        if self.gone.get().is_none() {
            // The stream has one end; what is told afterwards is told of a stream that is gone.
            self.gone.set(Some(why));
        }
        // Frees the piece at once, with the file or buffer that it holds.
        self.outgoing.take();
        self.wakers.wake();
    }

    /// Ready when the client has gone away or cancelled the stream.
    pub fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        if self.gone.get().is_some() {
            return Poll::Ready(());
        }
        self.wakers.add(cx);
        Poll::Pending
    }

    /// Ready when there is something of the body, or an end of it.
    pub fn poll_input(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.input.borrow().is_empty() || self.ended.get() || self.gone.get().is_some() {
            return Poll::Ready(());
        }
        self.wakers.add(cx);
        Poll::Pending
    }

    /// Sends a head; false if there is nobody to get it.
    pub fn send_head(&self, block: &[u8], end: bool) -> bool {
        self.gone.get().is_none() && self.session().send_head(self.id, block, end)
    }

    /// Begins to send a piece, which must not be empty: see [`Exchange::poll_sent`].
    pub fn put(&self, piece: Piece, last: bool) {
        *self.outgoing.borrow_mut() = Some(Outgoing { piece, at: 0, last });
        // The session takes bytes when it comes to this stream by priority; nothing is encoded here.
        self.session().set_ready(self.id);
    }

    /// Goes on with what was stuck.
    pub fn unstick(&self) {
        self.stuck.set(None);
        self.session().set_ready(self.id);
    }

    /// Ready when the piece has left, or cannot.
    pub fn poll_sent(&self, cx: &Context<'_>) -> Poll<Result<(), Stop>> {
        // In this order: a stream that is gone is neither stuck nor sent, and one that is stuck still has its piece.
        if self.gone.get().is_some() {
            return Poll::Ready(Err(Stop::Gone));
        }
        if let Some(stuck) = self.stuck.get() {
            return Poll::Ready(Err(Stop::Stuck(stuck)));
        }
        if self.outgoing.borrow().is_none() {
            return Poll::Ready(Ok(()));
        }
        // Filled by priority when the connection has room.
        self.wakers.add(cx);
        Poll::Pending
    }

    /// The file that the present piece is of.
    pub fn cold_file(&self) -> Option<Rc<OpenFile>> {
        match &self.outgoing.borrow().as_ref()?.piece {
            Piece::File { file, .. } => Some(file.clone()),
            Piece::Bytes(_) => None,
        }
    }
}

impl Interim for Exchange {
    fn send(&self, status: u16, fields: &[(Text, Text)]) {
        // A hint that has to wait is none.
        // The final head is on its way, or the client takes nothing.
        if self.head_sent.get() || !self.session().has_room() {
            return;
        }
        let mut block = Vec::new();
        self.session().encode_interim(status, fields, &mut block);
        self.send_head(&block, false);
    }
}

/// Why sending a piece ended early.
#[derive(Debug)]
pub enum Stop {
    Gone,
    Stuck(Stuck),
}
