//! A request's body, as handlers see it: read as a whole into memory or a temporary file, or taken piece by piece.
//!
//! A handler that needs the whole body returns [`with_body`]; one that passes it on as it comes awaits
//! [`Request::body_piece`] in its own [`Flow::Wait`]. What nobody reads is dropped after the response. The state
//! belongs to the request, not to a location: it survives redirects, and whoever comes later goes on where an earlier
//! handler stopped.
//!
//! How bytes come (chunks, frames, `100 Continue`) is known to the two readers only.

use crate::core::http_conf::{BodyFile, CoreConf};
use crate::failure;
use crate::flow::Flow;
use crate::h1::body as h1;
use crate::limits::BODY_PIECE_BYTES;
use crate::reader::BodyReader;
use crate::request::Request;
pub use crate::request::body::{Content, RequestBody};
use crate::request::flight::Waits;
use crate::stream::body as stream;
use crate::temp_file::{Fate, TempError, TempFile};
use brisk_http::HeaderId;
use brisk_http::framing::BodyFraming;
use brisk_net::Failure;
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Reads the whole body and goes on with `then`; at once if the body is there already, or if there is none.
pub fn with_body(r: &mut Request, then: impl FnOnce(&mut Request) -> Flow + 'static) -> Flow {
    // A body that the head announces may have to be in a file even if it is empty.
    let is_there = r.head.framing == BodyFraming::None
        || (r.has_no_body() && r.core().client_body_in_file_only == BodyFile::Off);
    // Nothing to be waited for: the hot path goes on without a task.
    if is_there && matches!(r.body, RequestBody::Unread) {
        let content =
            if r.head.framing == BodyFraming::None { Content::None } else { Content::Memory(Vec::new()) };
        r.body = RequestBody::whole(content);
    }
    // Whole, refused or lent: whoever asks again gets what is there. Nobody waits for bytes that another one
    // has taken.
    match r.body {
        RequestBody::Whole { .. } | RequestBody::Refused(_) | RequestBody::Lent(_) => then(r),
        RequestBody::Unread | RequestBody::Partial(_) => Flow::Wait(Box::new(|r| {
            Box::pin(async move {
                match r.read_body().await {
                    Ok(()) => then(r),
                    Err(error) => failure::end(&error, r),
                }
            })
        })),
    }
}

impl Request {
    /// The body from its start, as the protocol carries it. `is_read`: it was read already.
    fn body_reader(&self, is_read: bool) -> BodyReader {
        let limit = self.core().client_max_body_size;
        // A limit is asked here only where no length was told. `BodyReader` counts as bytes come, so a
        // chunked body cannot pass it.
        match self.client.stream() {
            Some(exchange) => {
                let expects =
                    self.header(HeaderId::Expect).is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
                // A body of known length was checked with its location (`check_length`), and the engine sees that it
                // gets no longer.
                let limit = if self.head.framing == BodyFraming::Chunked { limit } else { 0 };
                BodyReader::Stream(stream::BodyReader::new(exchange, limit, expects))
            }
            // It was read already, but a tunnel wants what comes behind it.
            None if is_read => BodyReader::H1(h1::BodyReader::spent(self.conn().clone())),
            None => BodyReader::H1(h1::BodyReader::new(self.conn().clone(), &self.head, limit)),
        }
    }

    /// True if no bytes of a body are to come by the request's head.
    /// What the head says. Whether the bytes are here already is another question.
    pub fn has_no_body(&self) -> bool {
        match self.head.framing {
            BodyFraming::None => true,
            // RFC 9113 §8.1: a stream's request is over when the client says so.
            BodyFraming::Length(0) => !self.head.awaits_end,
            BodyFraming::Length(_) | BodyFraming::Chunked => false,
        }
    }

    /// How long the body is, as far as that is known; `None` too if handlers are not to see it.
    pub fn body_len(&self) -> Option<u64> {
        match (&self.body, self.head.framing) {
            (RequestBody::Whole { content, .. }, _) => match **content {
                Content::None => None,
                _ => Some(content.len()),
            },
            (RequestBody::Refused(_) | RequestBody::Lent(_), _) => None,
            (_, BodyFraming::Length(length)) => Some(length),
            (_, BodyFraming::None | BodyFraming::Chunked) => None,
        }
    }

    /// Reads what is left of the body; then [`RequestBody::content`] has it. After an error the request can only be
    /// answered with [`failure::end`].
    pub async fn read_body(&mut self) -> Result<(), Failure> {
        let mut reader = match std::mem::take(&mut self.body) {
            RequestBody::Unread => self.body_reader(false),
            RequestBody::Partial(reader) => reader,
            done => {
                self.body = done;
                return Ok(());
            }
        };
        // `Refused` until it is done: if the future is dropped in the middle, nobody takes the rest of the
        // body for a request.
        self.flight.waits_for(Waits::Body);
        let result = collect(self, &mut reader).await;
        self.flight.waits_for(Waits::Phase(self.route.cursor.phase));
        // A file that changed while a slow client was sending must not be served as it was.
        self.thread.files.must_confirm();
        match result {
            Ok(content) => {
                self.body = RequestBody::whole(content);
                Ok(())
            }
            Err(error) => {
                self.body = RequestBody::Refused(Some(reader));
                Err(error)
            }
        }
    }

    /// Appends the next piece of the body to `out`; false at the end. Waits for the client if need be.
    pub async fn body_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        if matches!(self.body, RequestBody::Unread) {
            self.body = RequestBody::Partial(self.body_reader(false));
        }
        let pause = self.core().client_body_timeout;
        match &mut self.body {
            RequestBody::Partial(reader) => {
                self.flight.waits_for(Waits::Body);
                let more = reader.read(out, pause).await;
                // After an error, too: the log tells how much has come.
                self.progress.body_received.set(reader.received());
                if more.is_err() {
                    self.body = RequestBody::Refused(Some(self.take_body_reader()));
                }
                more
            }
            // A body that was read as a whole before (`client_body_early_read`, an earlier handler) is given in
            // pieces all the same.
            RequestBody::Whole { content, given } => {
                let before = out.len();
                match &**content {
                    Content::None => {}
                    Content::Memory(bytes) => out.extend_from_slice(&bytes[*given as usize..]),
                    Content::File(file) => {
                        let piece =
                            file.read(*given, BODY_PIECE_BYTES).await.map_err(TempError::reading(file));
                        out.extend_from_slice(&piece.map_err(failure::body::file)?);
                    }
                }
                *given += (out.len() - before) as u64;
                Ok(out.len() > before)
            }
            // Not as an empty one: a file would be written without it.
            RequestBody::Refused(_) | RequestBody::Lent(_) => {
                crate::rlog!(
                    self,
                    Error,
                    "the request's body was refused or passed on before, and is not there"
                );
                Err(Failure::decided(500))
            }
            RequestBody::Unread => Ok(false),
        }
    }

    /// Reads what the client has sent already, at most `client_body_buffer_size`. True if that was all: then
    /// [`RequestBody::content`] has it; else it is in `out`, and the rest can be lent out.
    pub fn read_body_now(&mut self, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let mut reader = match std::mem::take(&mut self.body) {
            RequestBody::Unread => self.body_reader(false),
            RequestBody::Partial(reader) => reader,
            done => {
                let is_whole = matches!(done, RequestBody::Whole { .. });
                self.body = done;
                return Ok(is_whole);
            }
        };
        // One buffer's worth. A client that sends faster than it is read must not hold the thread.
        let (room, pause) = (self.core().client_body_buffer_size, self.core().client_body_timeout);
        // Polled without a task: the waker does nothing, and what has not come is waited for by the task that gets
        // the reader.
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match reader.poll_read(&mut cx, out, pause) {
                Poll::Ready(Ok(true)) if (out.len() as u64) < room => {}
                Poll::Ready(Ok(true)) | Poll::Pending => break,
                Poll::Ready(Ok(false)) => {
                    self.progress.body_received.set(reader.received());
                    self.body = RequestBody::whole(Content::Memory(std::mem::take(out)));
                    return Ok(true);
                }
                Poll::Ready(Err(error)) => {
                    // Kept, so that the rest is read and dropped after the error page, or the connection is
                    // closed.
                    self.body = RequestBody::Refused(Some(reader));
                    return Err(error);
                }
            }
        }
        self.progress.body_received.set(reader.received());
        self.body = RequestBody::Partial(reader);
        Ok(false)
    }

    /// Lends out what is left of the body.
    pub fn lend_body(&mut self) -> BodySource {
        // The cell is where the reader comes back to. Request and borrower each hold one end, so either may go first.
        let home = Rc::new(Cell::new(None));
        let reader = match std::mem::replace(&mut self.body, RequestBody::Lent(home.clone())) {
            RequestBody::Unread => Some(self.body_reader(false)),
            RequestBody::Partial(reader) => Some(reader),
            other => {
                self.body = other;
                None
            }
        };
        BodySource { reader, home, pause: self.core().client_body_timeout }
    }

    /// Lends out the client's side of a connection that has become a tunnel.
    pub fn lend_connection(&mut self) -> BodySource {
        let mut source = self.lend_body();
        if source.reader.is_none() {
            source.reader = Some(self.body_reader(true));
            self.body = RequestBody::Lent(source.home.clone());
        }
        source
    }

    /// True if the client may still be sending what nobody has read.
    /// Bytes that are left on a connection of HTTP/1.1 would be parsed as the next request (request
    /// smuggling), so what cannot be told counts as unread.
    pub(crate) fn has_unread_body(&self) -> bool {
        match &self.body {
            RequestBody::Unread | RequestBody::Refused(None) => !self.has_no_body(),
            RequestBody::Partial(reader) | RequestBody::Refused(Some(reader)) => !reader.is_done(),
            RequestBody::Lent(home) => {
                // Taken out to be looked at, and put back.
                let reader = home.take();
                let unread = reader.as_ref().is_none_or(|reader| !reader.is_done());
                home.set(reader);
                unread
            }
            RequestBody::Whole { .. } => false,
        }
    }

    /// Somebody takes the body while the response is being sent.
    pub fn is_body_lent(&self) -> bool {
        matches!(self.body, RequestBody::Lent(_))
    }

    /// What was lent out is here again.
    pub(crate) fn take_back_body(&mut self) {
        if let RequestBody::Lent(home) = &self.body
            && let Some(reader) = home.take()
        // The counter of the log goes on where the borrower stopped.
        {
            self.progress.body_received.set(reader.received());
            self.body = RequestBody::Partial(reader);
        }
    }

    /// The reader of what is left, to drop it.
    pub(crate) fn take_body_reader(&mut self) -> BodyReader {
        match std::mem::take(&mut self.body) {
            RequestBody::Partial(reader) | RequestBody::Refused(Some(reader)) => reader,
            RequestBody::Lent(home) => home.take().unwrap_or_else(|| self.body_reader(false)),
            _ => self.body_reader(false),
        }
    }
}

/// What is left of a request's body, for whoever takes it while the response is being sent already: it belongs to nobody
/// but its holder, and goes back to the request when it is dropped.
pub struct BodySource {
    /// `None`: there is nothing (any more).
    reader: Option<BodyReader>,
    home: Rc<Cell<Option<BodyReader>>>,
    /// `client_body_timeout`.
    pause: Duration,
}

impl BodySource {
    /// Appends the next piece to `out`; false at the end.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, Failure>> {
        match &mut self.reader {
            Some(reader) => reader.poll_read(cx, out, self.pause),
            None => Poll::Ready(Ok(false)),
        }
    }

    /// What the client sends once the response's head has made the connection a tunnel; false when it has closed its
    /// side.
    pub fn poll_raw(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        match &mut self.reader {
            Some(reader) => reader.poll_raw(cx, out),
            None => Poll::Ready(Ok(false)),
        }
    }

    /// Tells the client of a tunnel that nothing more comes; what it sends is still heard. To be called when all that it is
    /// to get has left, as for a body that is pulled.
    pub fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.reader {
            Some(reader) => reader.poll_end(cx),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Bytes taken from the client so far, framing included.
    pub fn received(&self) -> u64 {
        self.reader.as_ref().map_or(0, BodyReader::received)
    }
}

impl Drop for BodySource {
    fn drop(&mut self) {
        // By dropping, so that a stream that is given up in the middle gives it back, too.
        self.home.set(self.reader.take());
    }
}

/// Reads everything, into memory as long as it is little.
async fn collect(r: &Request, reader: &mut BodyReader) -> Result<Content, Failure> {
    if r.head.framing == BodyFraming::None {
        return Ok(Content::None);
    }
    let live = r.live.clone();
    let core = &live.snap.location(r.route.loc).core;
    let room = memory_bytes_max(core, r.head.framing, r.client.stream().is_some());
    let mut memory = Vec::new();
    let mut file = None;
    loop {
        let more = reader.read(&mut memory, core.client_body_timeout).await;
        // The account must know of the buffer even if the read has failed: the request lives on with its error page.
        r.client.holds_body(memory.capacity());
        r.progress.body_received.set(reader.received());
        if !more? {
            break;
        }
        // From here on the rest goes to the file in pieces of this size, so that a body never takes more
        // memory than the buffer.
        if memory.len() as u64 >= room {
            memory = spool(r, core, &mut file, memory).await.map_err(failure::body::file)?;
            r.client.holds_body(memory.capacity());
        }
    }
    if file.is_none() && core.client_body_in_file_only == BodyFile::Off {
        return Ok(Content::Memory(memory));
    }
    spool(r, core, &mut file, memory).await.map_err(failure::body::file)?;
    Ok(file.map_or(Content::None, Content::File))
}

/// How much is kept in memory before it goes to a file. As in nginx a body of known length is if it is not much larger
/// than the buffer, and on a stream only if it fits.
fn memory_bytes_max(core: &CoreConf, framing: BodyFraming, on_stream: bool) -> u64 {
    let size = core.client_body_buffer_size;
    // nginx takes a quarter more than the buffer for a body whose length is known, since such a body saves a
    // file.
    let most = if on_stream { size } else { size.saturating_add(size / 4).saturating_sub(1) };
    match framing {
        BodyFraming::Length(length) if length <= most => u64::MAX,
        _ => size,
    }
}

/// Appends `bytes` to the file, which is made if there is none. Gives the buffer back, emptied.
async fn spool(
    r: &Request,
    core: &CoreConf,
    file: &mut Option<TempFile>,
    bytes: Vec<u8>,
) -> Result<Vec<u8>, TempError> {
    let file = match file {
        Some(file) => file,
        None => {
            let fate = match core.client_body_in_file_only {
                // `Unlinked`: no name is left behind if the process dies, and nobody else can open it.
                BodyFile::Off => Fate::Unlinked,
                BodyFile::Clean => Fate::Removed,
                BodyFile::Keep => Fate::Kept,
            };
            let made = TempFile::create(&core.body_temp_path(&r.snap().state_folder), fate).await?;
            let path = made.path().display();
            match fate {
                _ if bytes.is_empty() => {}
                Fate::Unlinked => {
                    crate::rlog!(r, Warn, "a client request body is buffered to a temporary file {path}");
                }
                _ => crate::rlog!(r, Notice, "a client request body is buffered to a temporary file {path}"),
            }
            file.insert(made)
        }
    };
    if bytes.is_empty() { Ok(bytes) } else { file.append(bytes).await }
}

/// Refuses a body that its length shows to be too large for the present location.
pub(crate) fn check_length(r: &mut Request) -> Result<(), Flow> {
    let max = r.core().client_max_body_size;
    let Some(length) = r.body_len().filter(|&length| max > 0 && length > max) else { return Ok(()) };
    crate::rlog!(r, Error, "client intended to send too large body: {length} bytes");
    // An error page is served as if there were none.
    // Its length must not be shown to the page's handler either: it would wait for a body that is refused.
    r.body = match std::mem::take(&mut r.body) {
        RequestBody::Whole { .. } => RequestBody::whole(Content::None),
        RequestBody::Unread => RequestBody::Refused(None),
        RequestBody::Partial(reader) => RequestBody::Refused(Some(reader)),
        other @ (RequestBody::Refused(_) | RequestBody::Lent(_)) => other,
    };
    Err(Flow::Status(413))
}

/// `client_body_early_read`: whether the body is to be read before the phases.
pub(crate) fn is_wanted_early(r: &Request) -> bool {
    r.core().client_body_early_read.iter().any(|condition| condition.holds(r))
}

/// Reads it, by the rules of the server's level.
pub(crate) fn read_early(r: &mut Request) -> Flow {
    match check_length(r) {
        Ok(()) => with_body(r, |_| Flow::Next),
        Err(flow) => flow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temp_file::wait;
    use brisk_host::temp_file::TempPath;

    fn request(head: &str, framing: BodyFraming) -> Request {
        let (mut r, _) = crate::vars::tests::request(head, &[]);
        r.head.framing = framing;
        r
    }

    /// All pieces, and how many there were.
    fn pieces(r: &mut Request) -> (Vec<u8>, usize) {
        let (mut out, mut count) = (Vec::new(), 0);
        while wait(r.body_piece(&mut out)).unwrap() {
            count += 1;
        }
        (out, count)
    }

    const HEAD: &str = "POST / HTTP/1.1\nHost: a\n\n";

    #[test]
    fn what_was_read_can_be_taken_in_pieces() {
        let mut r = request(HEAD, BodyFraming::Chunked);
        r.body = RequestBody::whole(Content::Memory(b"hello".to_vec()));
        assert_eq!(pieces(&mut r), (b"hello".to_vec(), 1));
        assert_eq!(pieces(&mut r), (Vec::new(), 0), "once");
        assert_eq!((r.body_len(), r.has_unread_body()), (Some(5), false));

        let path = std::env::temp_dir().join(format!("brisk-body-{}", std::process::id()));
        let place = TempPath { path: path.to_string_lossy().into_owned(), levels: Vec::new() };
        let body = vec![b'x'; BODY_PIECE_BYTES * 2 + 1];
        let mut file = wait(TempFile::create(&place, Fate::Unlinked)).unwrap();
        wait(file.append(body.clone())).unwrap();
        r.body = RequestBody::whole(Content::File(file));
        assert_eq!(pieces(&mut r), (body, 3));
        std::fs::remove_dir(path).unwrap();
    }

    #[test]
    fn no_body_is_there_at_once() {
        let mut r = request(HEAD, BodyFraming::None);
        assert!(matches!(with_body(&mut r, |_| Flow::Done), Flow::Done));
        assert!(matches!(r.body.content().map(|c| &**c), Some(Content::None)));
        assert_eq!((r.body_len(), r.has_unread_body(), pieces(&mut r).1), (None, false, 0));
        let mut r = request(HEAD, BodyFraming::Length(0));
        assert!(matches!(with_body(&mut r, |_| Flow::Done), Flow::Done));
        assert_eq!(r.body_len(), Some(0));
        let mut r = request(HEAD, BodyFraming::Length(1));
        assert!(matches!(with_body(&mut r, |_| Flow::Done), Flow::Wait(_)));
        assert!(r.has_unread_body());
    }

    #[test]
    fn too_large_by_its_length() {
        let mut r = request(HEAD, BodyFraming::Length(1 << 20));
        assert!(check_length(&mut r).is_ok());
        r.head.framing = BodyFraming::Length((1 << 20) + 1);
        assert!(matches!(check_length(&mut r), Err(Flow::Status(413))));
        assert!(check_length(&mut r).is_ok(), "an error page is not refused again");
        assert!(r.has_unread_body(), "it is still to be dropped");
        assert!(matches!(with_body(&mut r, |_| Flow::Done), Flow::Done), "and nobody reads it");
        assert!(wait(r.body_piece(&mut Vec::new())).is_err(), "nor takes it for an empty one");
    }

    #[test]
    fn memory_up_to_a_quarter_more_than_the_buffer() {
        let mut core = CoreConf::default();
        core.client_body_buffer_size = 1000;
        let check = |framing, on_stream, want| assert_eq!(memory_bytes_max(&core, framing, on_stream), want);
        check(BodyFraming::Length(1249), false, u64::MAX);
        check(BodyFraming::Length(1250), false, 1000);
        check(BodyFraming::Length(1000), true, u64::MAX);
        check(BodyFraming::Length(1001), true, 1000);
        check(BodyFraming::Chunked, false, 1000);
    }
}
