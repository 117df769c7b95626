//! A page whose commands are carried out while it is sent.
//!
//! Includes start as soon as the page has been read so far, some of them at the same time; what they give is pulled in
//! the order of the page and never collected. A page that must wait for one (`wait`, `set`) is read no further.

use super::include::{Include, Set};
use super::parser::{Command, Event, Parser};
use super::{Conf, Dialect, Shared};
use brisk_net::Failure;
use brisk_server::in_memory::InMemory;
use brisk_server::limits::{SSI_AHEAD_MAX, SSI_QUEUE_BYTES_MAX, SSI_QUEUE_PARTS_MAX};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::subrequest::Parent;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// What is to be sent next.
pub enum Out {
    Text(Vec<u8>),
    Piece(Piece),
    Flush,
    Include(Box<Include>),
}

/// One level of `if`.
pub struct Level {
    /// What encloses it is sent.
    pub outer: bool,
    /// This branch is.
    pub shown: bool,
    /// One of the branches so far was chosen.
    pub chosen: bool,
    /// `else` was there.
    pub last: bool,
}

/// What the page waits for before it is read further.
pub enum Await {
    /// The include at the back of the queue.
    Include,
    Set(Box<Set>),
}

/// See the module's head.
pub struct Page {
    input: InMemory,
    parser: Parser,
    /// The piece in work, and how much of it was read.
    piece: Option<(Piece, usize)>,
    ended: bool,
    /// It cannot be made: see [`Page::command`].
    failed: bool,
    queue: VecDeque<Out>,
    /// Of texts in the queue.
    queued_bytes: usize,
    awaits: Option<Await>,
    pub conf: Conf,
    pub dialect: Dialect,
    /// The request to ask for variables.
    pub me: Box<Request>,
    pub parent: Rc<Parent>,
    pub shared: Rc<Shared>,
    pub levels: Vec<Level>,
    /// The block that is being read: its name and what is in it.
    pub block: Option<(Vec<u8>, Vec<u8>)>,
    pub errmsg: Vec<u8>,
    /// What stands for a variable that is not there.
    pub undefined: Vec<u8>,
}

impl Page {
    /// The page `body` of the request `r`.
    pub fn new(r: &Request, conf: Conf, dialect: Dialect, body: Body) -> Page {
        let parent = Parent::of(r);
        Page {
            input: InMemory::new(body),
            parser: Parser::new(conf.value_length),
            piece: None,
            ended: false,
            failed: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            awaits: None,
            conf,
            me: parent.shadow(r),
            parent,
            shared: r.state.shared.values.get_or(Default::default),
            levels: Vec::new(),
            block: None,
            errmsg: dialect.error_text().to_vec(),
            undefined: b"(none)".to_vec(),
            dialect,
        }
    }

    /// Appends a variable's value, the page's own first; false if it is not found.
    pub fn variable(&self, name: &str, out: &mut Vec<u8>) -> bool {
        self.shared.own(name, out)
            || match &self.dialect {
                Dialect::Nginx => self.me.var_named(name, out),
                Dialect::Apache(apache) => apache.variable(&self.me, name.as_bytes(), out),
            }
    }

    /// Whether what comes now is sent.
    pub fn is_shown(&self) -> bool {
        self.block.is_none() && self.levels.last().is_none_or(|level| level.outer && level.shown)
    }

    pub fn put(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.queued_bytes += text.len();
        match self.queue.back_mut() {
            Some(Out::Text(have)) => have.extend_from_slice(text),
            _ => self.queue.push_back(Out::Text(text.to_vec())),
        }
    }

    pub fn put_include(&mut self, include: Include, awaited: bool) {
        self.queue.push_back(Out::Include(Box::new(include)));
        if awaited {
            self.awaits = Some(Await::Include);
        }
    }

    pub fn wait_for(&mut self, set: Set) {
        self.awaits = Some(Await::Set(Box::new(set)));
    }

    /// A command failed: it is logged, and the page says so.
    pub fn fail(&mut self, message: &str) {
        brisk_server::rlog!(self.me, Error, "{message}");
        if !self.conf.silent_errors {
            let text = std::mem::take(&mut self.errmsg);
            self.put(&text);
            self.errmsg = text;
        }
    }

    fn is_full(&self) -> bool {
        let ahead = self.queue.iter().filter(|out| matches!(out, Out::Include(_))).count();
        self.queue.len() >= SSI_QUEUE_PARTS_MAX
            || self.queued_bytes >= SSI_QUEUE_BYTES_MAX
            || ahead >= SSI_AHEAD_MAX
    }

    /// Reads the page as far as that is possible and worth while. Pending: it has no more for now.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            match &mut self.awaits {
                Some(Await::Include) => return Poll::Ready(Ok(())),
                Some(Await::Set(set)) => {
                    ready!(set.poll(cx, &self.me, &self.shared))?;
                    self.awaits = None;
                }
                None => {}
            }
            if self.failed {
                return Poll::Ready(Err(Failure::broken("a regular expression failed in an SSI command")));
            }
            if self.ended || self.is_full() {
                return Poll::Ready(Ok(()));
            }
            if self.piece.is_some() {
                // Commands that send nothing would never end this loop.
                if self.shared.is_turn_over() {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                self.shared.count_part();
                self.step();
                continue;
            }
            match ready!(self.input.poll_chunk(cx)) {
                Some(Ok(Chunk::Piece(piece))) => self.piece = Some((piece, 0)),
                Some(Ok(Chunk::Flush)) => self.queue.push_back(Out::Flush),
                Some(Err(error)) => return Poll::Ready(Err(error)),
                None => {
                    self.ended = true;
                    match self.parser.finish() {
                        Some(Event::Text(text)) => self.text(text),
                        Some(Event::Bad(message)) => brisk_server::rlog!(self.me, Error, "{message}"),
                        Some(Event::Command(_)) | None => {}
                    }
                }
            }
        }
    }

    /// One event of the piece in work.
    fn step(&mut self) {
        let Some((piece, from)) = self.piece.take() else { return };
        let bytes = piece.in_memory().unwrap_or_default();
        let mut at = from;
        match self.parser.next(bytes, &mut at) {
            Some(Event::Text(text)) => {
                // Text that came with an earlier piece takes nothing of this one.
                if at > from && self.is_shown() {
                    self.slice(&piece, from..from + text.len());
                } else {
                    self.text(text);
                }
            }
            Some(Event::Command(command)) => self.command(command),
            Some(Event::Bad(message)) if self.is_shown() => self.fail(&message),
            Some(Event::Bad(_)) | None => {}
        }
        if at < piece.len() as usize {
            self.piece = Some((piece, at));
        }
    }

    /// A part of a piece that is sent: large ones are not copied.
    fn slice(&mut self, piece: &Piece, range: Range<usize>) {
        match piece {
            Piece::File { file, range: all } if range.len() as u64 >= self.conf.min_file_chunk => {
                let range = all.start + range.start as u64..all.start + range.end as u64;
                self.queue.push_back(Out::Piece(Piece::File { file: file.clone(), range }));
            }
            _ => {
                let bytes = piece.in_memory().unwrap_or_default();
                self.put(&bytes[range]);
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        if let Some((_, content)) = &mut self.block {
            if self.shared.take(text.len()) {
                content.extend_from_slice(text);
            }
        } else if self.is_shown() {
            self.put(text);
        }
    }

    fn command(&mut self, command: Command) {
        let result = self.execute(&command);
        // A value or a condition could not be found out: what follows may be what must not be seen.
        self.failed |= self.me.state.shared.vars.have_failed();
        let message = match result {
            Ok(()) => return,
            Err(_) if self.failed => return,
            Err(message) => message,
        };
        if self.is_shown() {
            self.fail(&message);
        } else {
            brisk_server::rlog!(self.me, Error, "{message}");
        }
    }

    /// Keeps a command as part of the block that is being read.
    pub fn keep(&mut self, command: &Command) {
        let mut text = Vec::new();
        command.write(&mut text);
        self.text(&text);
    }

    /// Lets the includes in the queue go on with their handlers.
    fn start_includes(&mut self, cx: &mut Context<'_>) {
        for out in &mut self.queue {
            if let Out::Include(include) = out {
                include.start(cx);
            }
        }
    }

    /// The next chunk of the queue. Ready with `None`: the queue is empty.
    fn poll_queue(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            if let Some(Out::Include(include)) = self.queue.front_mut() {
                match ready!(include.poll_chunk(cx, &self.me)) {
                    Some(chunk) => return Poll::Ready(Some(chunk)),
                    None if include.has_failed() => {
                        self.pop();
                        if !self.conf.silent_errors {
                            let text = self.errmsg.clone();
                            return Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(text.into())))));
                        }
                    }
                    None => self.pop(),
                }
                continue;
            }
            return Poll::Ready(match self.queue.pop_front() {
                Some(Out::Text(text)) => {
                    self.queued_bytes -= text.len();
                    Some(Ok(Chunk::Piece(Piece::Bytes(text.into()))))
                }
                Some(Out::Piece(piece)) => Some(Ok(Chunk::Piece(piece))),
                Some(Out::Flush) => Some(Ok(Chunk::Flush)),
                Some(Out::Include(_)) | None => None,
            });
        }
    }

    /// Drops the include at the front, which may be the one that the page waits for.
    fn pop(&mut self) {
        self.queue.pop_front();
        if self.queue.is_empty() && matches!(self.awaits, Some(Await::Include)) {
            self.awaits = None;
        }
    }
}

impl BodyStream for Page {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if self.shared.is_turn_over() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            let read = self.poll_read(cx);
            if let Poll::Ready(Err(error)) = read {
                return Poll::Ready(Some(Err(error)));
            }
            self.start_includes(cx);
            let was_waiting = self.awaits.is_some();
            match self.poll_queue(cx) {
                Poll::Ready(None) => {}
                chunk => return chunk,
            }
            if self.ended && self.queue.is_empty() {
                return Poll::Ready(None);
            }
            // The queue is empty: either what was waited for is done, or there is nothing to read for now.
            if read.is_pending() && was_waiting == self.awaits.is_some() {
                return Poll::Pending;
            }
        }
    }
}
