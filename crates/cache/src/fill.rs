//! An answer on its way into the cache: written as fast as it comes, read by its client as fast as that takes it.
//!
//! What is small stays in memory until it is complete; what is larger goes to a temporary file, of which the last pieces
//! are in memory too. The client may fall behind or go away: the answer is stored all the same. If it cannot be stored
//! (any longer), the writer waits for the reader, and memory is bounded.
//!
//! Writer and reader live on one thread.

use crate::cache::{Cache, Reserved};
use crate::digest::Digest;
use crate::disk::{self, Source, Temp};
use crate::format::{self, Meta};
use crate::limits::WINDOW_BYTES_MAX;
use crate::object::{Body, Object};
use brisk_net::{Content, blocking, clock, file};
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A body up to this size is written in one go when it is complete.
const SMALL_BODY_BYTES: u64 = 64 * 1024;
/// Bytes that are handed to the pool at a time.
const WRITE_BYTES: u64 = 64 * 1024;

/// Bytes of an entry that are copied for each new one, at most: who asks for one byte after the other must not have all
/// that came before copied each time.
const COPIED_PER_NEW: u64 = 16;
/// But so many are always copied.
const COPIED_BYTES: u64 = 256 * 1024;

/// Takes what is to be told of errors.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// A piece for the reader.
#[derive(Debug)]
pub enum Chunk {
    /// In memory.
    Bytes(Arc<[u8]>),
    /// This part of a file.
    File {
        /// The file.
        fd: Arc<OwnedFd>,
        /// The first byte.
        start: u64,
        /// The byte behind the last one.
        end: u64,
    },
}

/// What becomes of a complete answer whose entry exists already.
pub enum Merge {
    /// It takes the entry's place.
    Replace,
    /// The entry is worth more: the answer is not stored.
    Keep,
    /// Both become one entry with this head.
    Combine(Box<Combined>),
}

/// Two parts of a whole as one: what the entry has before the answer, the answer, what the entry has behind it.
pub struct Combined {
    /// The head of the whole.
    pub meta: Meta,
    /// Of the entry's body.
    pub before: Range<u64>,
    /// Of the entry's body.
    pub after: Range<u64>,
}

/// Decides by the entry that is there when the answer is complete.
pub type Merging = Box<dyn Fn(&Object) -> Merge>;

/// How it ended.
enum End {
    Whole,
    Broken(String),
}

struct State {
    /// Pieces that are in memory, and where the first one begins.
    window: VecDeque<Arc<[u8]>>,
    window_start: u64,
    /// Bytes that have come.
    end: u64,
    /// Bytes that are in the file.
    flushed: u64,
    file: Option<Arc<OwnedFd>>,
    /// Where the body begins in the file.
    offset: u64,
    done: Option<End>,
    /// Where the reader is; `None`: gone.
    reader: Option<u64>,
    reader_waker: Option<Waker>,
    writer_waker: Option<Waker>,
    /// The answer's length, if it is known: its last piece is held back until it is stored, so that whoever has read it
    /// finds it in the cache.
    length: Option<u64>,
}

impl State {
    /// Drops pieces that are in the file, or that the reader has.
    fn trim(&mut self, is_stored: bool) {
        loop {
            let Some(first) = self.window.front() else { return };
            let end = self.window_start + first.len() as u64;
            let is_read = self.reader.is_none_or(|at| at >= end);
            let is_full = self.end - self.window_start > WINDOW_BYTES_MAX;
            let in_file = end <= self.flushed;
            // What is to be stored must reach the file first.
            if !(is_read && (in_file || !is_stored) || in_file && is_full) {
                return;
            }
            self.window_start = end;
            self.window.pop_front();
        }
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader_waker.take() {
            waker.wake();
        }
    }
}

/// The writing end.
pub struct Fill {
    state: Rc<RefCell<State>>,
    cache: Arc<Cache>,
    digest: Digest,
    /// `None`: it is not (or no longer) to be stored.
    meta: Option<Meta>,
    header_bytes: usize,
    temp: Option<Temp>,
    /// What the temporary file takes; dropped with it, or when its entry is counted instead.
    reserved: Vec<Reserved>,
    crc: crc32fast::Hasher,
    report: Report,
    began: u64,
    merging: Option<Merging>,
}

/// The reading end.
pub struct Reader(Rc<RefCell<State>>);

impl Fill {
    /// Begins an entry. With `meta` of `None` nothing is stored: the answer only passes through.
    pub fn begin(
        cache: &Arc<Cache>,
        digest: Digest,
        meta: Option<Meta>,
        length: Option<u64>,
        report: Report,
    ) -> (Fill, Reader) {
        let header_bytes = meta.as_ref().and_then(|meta| format::encode(meta, 0, 0)).map(|h| h.len());
        let meta = meta.filter(|_| header_bytes.is_some());
        let header_bytes = header_bytes.unwrap_or(0);
        let began = meta.as_ref().map_or(0, |meta| meta.began);
        let state = Rc::new(RefCell::new(State {
            window: VecDeque::new(),
            window_start: 0,
            end: 0,
            flushed: 0,
            file: None,
            offset: header_bytes as u64,
            done: None,
            reader: Some(0),
            reader_waker: None,
            writer_waker: None,
            length: length.filter(|_| meta.is_some()),
        }));
        cache.index.begin_fill(digest);
        let fill = Fill {
            state: state.clone(),
            cache: cache.clone(),
            digest,
            meta,
            header_bytes,
            temp: None,
            reserved: Vec::new(),
            crc: crc32fast::Hasher::new(),
            report,
            began,
            merging: None,
        };
        (fill, Reader(state))
    }

    /// What becomes of it if there is an entry already; without this it takes the entry's place.
    pub fn merge_by(&mut self, merging: Option<Merging>) {
        self.merging = merging;
    }

    /// Whether it is still to be stored.
    pub fn is_stored(&self) -> bool {
        self.meta.is_some()
    }

    /// Gives up storing; the reader still gets everything.
    pub fn pass_through(&mut self) {
        if self.meta.take().is_some() {
            self.temp = None;
            self.reserved.clear();
            let mut state = self.state.borrow_mut();
            state.length = None;
            state.wake_reader();
        }
    }

    /// Stores the status alone: the client gets a page of the server's own for it.
    pub fn store_status(&self, status: u16) {
        if let Some(meta) = &self.meta {
            self.cache.store_status(self.digest, meta, status);
        }
    }

    /// Adds a piece. False: more is not wanted.
    pub async fn push(&mut self, piece: Arc<[u8]>) -> bool {
        if piece.is_empty() {
            return true;
        }
        self.crc.update(&piece);
        let waiting = {
            let mut state = self.state.borrow_mut();
            state.end += piece.len() as u64;
            state.window.push_back(piece);
            state.wake_reader();
            let too_large = self.meta.is_some() && state.end > self.cache.entry_bytes_max();
            drop(state);
            if too_large {
                self.pass_through();
            }
            let state = self.state.borrow();
            state.end - state.flushed
        };
        let is_small = self.temp.is_none() && waiting <= SMALL_BODY_BYTES;
        if self.meta.is_some() && !is_small && waiting >= WRITE_BYTES.min(SMALL_BODY_BYTES) {
            self.flush().await;
        }
        self.state.borrow_mut().trim(self.meta.is_some());
        if self.meta.is_none() {
            return self.room().await;
        }
        true
    }

    /// Waits until the reader has taken enough; false if it is gone.
    async fn room(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            state.trim(false);
            if state.reader.is_none() {
                return Poll::Ready(false);
            }
            if state.end - state.window_start <= WINDOW_BYTES_MAX {
                return Poll::Ready(true);
            }
            state.writer_waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn path(&self) -> PathBuf {
        self.cache.path(self.digest)
    }

    /// Writes what is in memory only to the file, which is made if there is none.
    async fn flush(&mut self) {
        let (pieces, from) = {
            let state = self.state.borrow();
            let mut at = state.window_start;
            let mut pieces = Vec::new();
            for piece in &state.window {
                if at >= state.flushed {
                    pieces.push(piece.clone());
                }
                at += piece.len() as u64;
            }
            (pieces, state.offset + state.flushed)
        };
        let more = pieces.iter().map(|piece| piece.len() as u64).sum();
        match self.cache.reserve(more) {
            Some(reserved) => self.reserved.push(reserved),
            None => return self.pass_through(),
        }
        let (temp, path) = (self.temp.take(), self.path());
        let cache = self.cache.clone();
        let job = move || {
            cache.make_room(0, None);
            let temp = temp.map_or_else(|| Temp::create(&path), Ok)?;
            let mut at = from;
            for piece in &pieces {
                file::write_cold(&*temp.fd, piece, at)?;
                at += piece.len() as u64;
            }
            Ok::<_, io::Error>((temp, at))
        };
        let result = match blocking::run(job) {
            Ok(job) => job.await,
            Err(blocking::QueueFull) => Err(io::Error::other("the queue of the thread pool is full")),
        };
        match result {
            Ok((temp, at)) => {
                let mut state = self.state.borrow_mut();
                state.flushed = at - state.offset;
                state.file = Some(temp.fd.clone());
                state.wake_reader();
                drop(state);
                self.temp = Some(temp);
            }
            Err(error) => {
                self.complain("write", &error);
                self.pass_through();
            }
        }
    }

    fn complain(&self, what: &str, error: &io::Error) {
        complain(&self.report, what, &self.path().display().to_string(), error);
    }

    /// The answer is complete. Gives the entry, if it was stored.
    pub async fn finish(mut self) -> Option<Arc<Object>> {
        let stored = self.store().await;
        let mut state = self.state.borrow_mut();
        state.done = Some(End::Whole);
        state.wake_reader();
        drop(state);
        stored
    }

    async fn store(&mut self) -> Option<Arc<Object>> {
        let length = self.state.borrow().length;
        let end = self.state.borrow().end;
        // A truncated body is never stored.
        if length.is_some_and(|length| length != end) {
            self.meta = None;
        }
        let body_crc = std::mem::take(&mut self.crc).finalize();
        if self.temp.is_some() && self.meta.is_some() {
            self.flush().await;
        }
        let meta = self.meta.take()?;
        if let Some(merging) = self.merging.take()
            && let Some(entry) = self.entry().await
        {
            match merging(&entry) {
                Merge::Replace => {}
                Merge::Keep => return None,
                Merge::Combine(combined) => return self.combine(&entry, *combined, end).await,
            }
        }
        let header = format::encode_in(&meta, end, body_crc, self.header_bytes)?;
        match self.temp.take() {
            None => self.publish_small(meta, header, Arc::new(Content::new(self.body())), body_crc),
            Some(temp) => self.publish_file(temp, meta, header, end, body_crc).await,
        }
    }

    /// What is stored already.
    async fn entry(&self) -> Option<Arc<Object>> {
        let entry = match self.cache.index.peek(self.digest) {
            Some(entry) => entry,
            None if self.cache.index.has_file(self.digest) => self.cache.load(self.digest).await.ok()??,
            None => return None,
        };
        (!self.cache.rules.hides(&entry.meta)).then_some(entry)
    }

    /// The body, which is in memory.
    fn body(&self) -> Arc<[u8]> {
        let state = self.state.borrow();
        match state.window.len() {
            1 => state.window[0].clone(),
            _ => state.window.iter().flat_map(|piece| piece.iter().copied()).collect(),
        }
    }

    /// Stores the answer, of `len` bytes, together with what the entry has around it.
    async fn combine(&mut self, entry: &Object, combined: Combined, len: u64) -> Option<Arc<Object>> {
        let Combined { meta, before, after } = combined;
        let copied = (before.end - before.start) + (after.end - after.start);
        if copied > COPIED_BYTES.max(len.saturating_mul(COPIED_PER_NEW)) {
            return None;
        }
        let total = copied + len;
        if let (Body::Memory(old), None) = (&entry.body, &self.temp)
            && total <= self.cache.body_bytes_max()
        {
            let cut = |range: Range<u64>| &old[range.start as usize..range.end as usize];
            let body = Content::from([cut(before), &self.body(), cut(after)].concat());
            let body_crc = crc32fast::hash(&body);
            let header = format::encode(&meta, total, body_crc)?;
            return self.publish_small(meta, header, Arc::new(body), body_crc);
        }
        let header_bytes = format::encode(&meta, 0, 0)?.len();
        let temp = self.temp.take();
        let own = match &temp {
            Some(temp) => Source::File { fd: temp.fd.clone(), offset: self.state.borrow().offset, len },
            None => Source::Memory(Arc::new(Content::new(self.body())), 0..len as usize),
        };
        let sources = [Source::of(&entry.body, before), own, Source::of(&entry.body, after)];
        let path = self.path();
        let job = move || {
            let done = disk::put_together(&path, header_bytes as u64, &sources);
            // Only here: closing a large file takes time.
            drop((temp, sources));
            done
        };
        let done = match blocking::run(job) {
            Ok(job) => job.await,
            Err(blocking::QueueFull) => Err(io::Error::other("the queue of the thread pool is full")),
        };
        match done {
            Ok((temp, body_crc)) => {
                let header = format::encode_in(&meta, total, body_crc, header_bytes)?;
                self.publish_file(temp, meta, header, total, body_crc).await
            }
            Err(error) => {
                self.complain("write", &error);
                None
            }
        }
    }

    /// It is in the memory tier at once; the file follows. Nothing, if it was purged since it began.
    fn publish_small(
        &self,
        meta: Meta,
        header: Vec<u8>,
        body: Arc<Content>,
        body_crc: u32,
    ) -> Option<Arc<Object>> {
        let object = Arc::new(Object::new(
            self.digest,
            meta,
            Body::Memory(body.clone()),
            header.len() as u32,
            body_crc,
        ));
        let bytes = (header.len() + body.len()) as u64;
        if !self.cache.publish(&object, bytes, self.began, clock::now().unix_secs) {
            return None;
        }
        let (cache, path, report, stored) =
            (self.cache.clone(), self.path(), self.report.clone(), object.clone());
        let write = self.cache.order.begin(self.digest);
        let job = move || {
            cache.make_room((header.len() + body.len()) as u64, Some(stored.digest));
            let written = disk::write(&path, &header, &body);
            match written.and_then(|temp| write.place(|| temp.place_of(&body, header.len()))) {
                // A newer answer is in its place.
                Ok(None) => {}
                Ok(Some(identity)) => cache.placed(&stored, identity, (header.len() + body.len()) as u64),
                Err(error) => {
                    complain(&report, "write", &path.display().to_string(), &error);
                    cache.index.remove_object(&stored);
                }
            }
        };
        if blocking::run(job).is_err() {
            self.complain("write", &io::Error::other("the queue of the thread pool is full"));
            self.cache.index.remove_object(&object);
        }
        Some(object)
    }

    /// The file gets its place, and the entry is there in the same step. Nothing, if it was purged since it began.
    async fn publish_file(
        &mut self,
        temp: Temp,
        meta: Meta,
        header: Vec<u8>,
        len: u64,
        body_crc: u32,
    ) -> Option<Arc<Object>> {
        let fd = temp.fd.clone();
        let reserved = std::mem::take(&mut self.reserved);
        let write = self.cache.order.begin(self.digest);
        let header_bytes = header.len() as u64;
        let (cache, digest, began, path) = (self.cache.clone(), self.digest, self.began, self.path());
        let job = move || {
            // From here on it is counted as an entry.
            drop(reserved);
            cache.make_room(header_bytes + len, Some(digest));
            file::write_cold(&*temp.fd, &header, 0)?;
            write.place(|| {
                let identity = temp.place()?;
                let body = Body::File { fd, offset: header_bytes, len };
                let object = Arc::new(Object::new(digest, meta, body, header_bytes as u32, body_crc));
                let _ = object.identity.set(identity);
                if cache.publish(&object, header_bytes + len, began, disk::unix_now()) {
                    return Ok(Some(object));
                }
                // What was in this place is older still.
                disk::remove(&path).map(|_| None)
            })
        };
        let placed = match blocking::run(job) {
            Ok(job) => job.await,
            Err(blocking::QueueFull) => Err(io::Error::other("the queue of the thread pool is full")),
        };
        match placed {
            Ok(stored) => stored.flatten(),
            Err(error) => {
                self.complain("rename", &error);
                None
            }
        }
    }

    /// The answer broke off; an empty text says that it was logged why.
    pub fn fail(self, why: &str) {
        let mut state = self.state.borrow_mut();
        state.done = Some(End::Broken(why.to_string()));
        state.wake_reader();
    }
}

fn complain(report: &Report, what: &str, path: &str, error: &io::Error) {
    let number = error.raw_os_error().map_or_else(String::new, |number| format!("{number}: "));
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    report(&format!("{what}() \"{path}\" failed ({number}{text})"));
}

impl Drop for Fill {
    fn drop(&mut self) {
        // Only now: a purge up to here is about an entry that is on its way.
        self.cache.index.end_fill(self.digest);
        let mut state = self.state.borrow_mut();
        if state.done.is_none() {
            state.done = Some(End::Broken("the answer was given up".into()));
            state.wake_reader();
        }
        drop(state);
        // The last close of a large file frees its blocks, which takes time.
        if let Some(temp) = self.temp.take() {
            let _ = blocking::run(move || drop(temp));
        }
    }
}

impl Reader {
    /// The next piece; `None` at the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Chunk>>> {
        let mut state = self.0.borrow_mut();
        let at = state.reader.unwrap_or(0);
        if at < state.window_start
            && let Some(fd) = &state.file
        {
            let (start, end) = (state.offset + at, state.offset + state.window_start);
            let chunk = Chunk::File { fd: fd.clone(), start, end };
            state.reader = Some(state.window_start);
            return Poll::Ready(Some(Ok(chunk)));
        }
        if at < state.end {
            let mut start = state.window_start;
            let piece = state.window.iter().find(|piece| {
                let is_it = start == at;
                start += piece.len() as u64;
                is_it
            });
            if let Some(piece) = piece.cloned() {
                let end = at + piece.len() as u64;
                let is_last = state.length == Some(end) && state.done.is_none();
                if !is_last {
                    state.reader = Some(end);
                    if let Some(waker) = state.writer_waker.take() {
                        waker.wake();
                    }
                    return Poll::Ready(Some(Ok(Chunk::Bytes(piece))));
                }
            }
        } else {
            match &state.done {
                Some(End::Whole) => return Poll::Ready(None),
                Some(End::Broken(why)) => return Poll::Ready(Some(Err(io::Error::other(why.clone())))),
                None => {}
            }
        }
        state.reader_waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.reader = None;
        state.reader_waker = None;
        if let Some(waker) = state.writer_waker.take() {
            waker.wake();
        }
    }
}
