//! Sending a response body, pulled piece by piece.
//!
//! It knows sockets, files, `limit_rate` and time-outs. What the body is, and who makes it, it must not know: filters
//! have run.

use crate::connection::Connection;
use crate::core::http_conf::Rate;
use crate::files::OpenFile;
use crate::limits::{COPY_CHUNK_BYTES, INLINE_BODY_BYTES_MAX, SENDFILE_CHUNK_BYTES, SMALL_BODY_BYTES_MAX};
use crate::logged::refusal_delay;
use crate::pace::Pace;
use crate::request::Request;
use crate::response::{Body, BodyStream, Chunk, Piece};
use crate::text::Text;
use brisk_http::chunked::{CHUNK_END, write_chunk_head, write_last_chunk};
use brisk_http::h1::Delimiting;
use brisk_net::{Deadline, Failure, Slice, blocking, clock, file, sleep};
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// What a response is sent through: the socket, time-outs and the rate limit.
///
/// It is made after the filters and owns its settings, so the request can let go of its configuration while a slow
/// client takes the body.
pub struct Sender {
    conn: Rc<Connection>,
    send_timeout: Duration,
    sendfile: bool,
    chunk_max: u64,
    /// `limit_rate` and `limit_rate_after`, from when sending began.
    pace: Pace,
    /// The body's bytes. The head's are counted in `head_sent`, since `$body_bytes_sent` is without them.
    sent: u64,
    /// Bytes of a head that was sent at the limited rate.
    head_sent: u64,
    /// Bytes of chunked framing and trailers: `$body_bytes_sent` counts them, a rate limit does not.
    framing: u64,
    /// The body that is being sent, if it is made while it is sent. It is kept here and not in the request, so that it
    /// can read ahead whenever the sender waits.
    stream: Option<Box<dyn BodyStream>>,
    deadline: Deadline,
}

/// The bytes that `limit_rate` or `limit_rate_after` says.
pub fn rate_of(rate: &Rate, r: &Request) -> u64 {
    match rate {
        Rate::Bytes(bytes) => *bytes,
        Rate::Template(template) => {
            // The parser of sizes reads tokens. This one stands nowhere, so its span means nothing.
            let token = brisk_conf::Token {
                // A token of its own, so that sizes are read as in the configuration (`100k`).
                value: template.eval(r).into(),
                span: brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 },
                quoted: false,
            };
            // As nginx: a value that is no size is no limit.
            brisk_conf::value::size(&token).unwrap_or(0)
        }
    }
}

/// Why sending ended early.
#[derive(Debug)]
pub enum SendError {
    /// The client's connection: a write failed, or the client has closed it.
    Io(io::Error),
    /// What is sent could not be had.
    Body(Failure),
    TimedOut,
    /// The file was shorter than announced.
    Truncated,
}

impl From<io::Error> for SendError {
    /// `Io` ends the connection without a word in the log at error level: a client may go at any time.
    fn from(error: io::Error) -> SendError {
        SendError::Io(error)
    }
}

/// A file that is sent could not be read.
fn unread(error: &io::Error) -> SendError {
    SendError::Body(Failure::broken(brisk_conf::os_text(error)))
}

impl Sender {
    pub fn new(r: &Request) -> Sender {
        let core = r.core();
        let rate = |rate: &Rate| rate_of(rate, r);
        // `X-Accel-Limit-Rate`, or `set $limit_rate`, before the directive.
        // As the administrator wrote it: the application's word comes before the location's.
        let limit = r.reply.limit_rate.unwrap_or_else(|| rate(&core.limit_rate));
        // The sender holds the connection and no request: while a slow client takes its answer that may be let go of.
        let conn = r.conn().clone();
        Sender {
            send_timeout: core.send_timeout,
            sendfile: core.sendfile,
            conn,
            chunk_max: if core.sendfile_max_chunk == 0 { u64::MAX } else { core.sendfile_max_chunk },
            pace: Pace::new(limit, rate(&core.limit_rate_after), clock::mono_ms()),
            sent: 0,
            head_sent: 0,
            framing: 0,
            stream: None,
            deadline: Deadline::default(),
        }
    }

    /// Bytes that have left behind the head.
    pub fn sent(&self) -> u64 {
        self.sent + self.framing
    }

    /// Writes bytes that are no body: heads, chunk framing.
    /// Only small things come by here, so it does not look at the rate.
    pub async fn raw(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        let mut rest = bytes;
        // Tried before it waits: the socket usually has room, and then no waker is registered.
        while !rest.is_empty() {
            match self.conn.io.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until something can be written. A stream may read ahead meanwhile.
    async fn wait(&mut self) -> Result<(), SendError> {
        // Set anew for each wait: `send_timeout` is between two writes, not for the whole response (nginx).
        self.deadline.set(self.send_timeout);
        let Sender { conn, stream, deadline, .. } = self;
        poll_fn(|cx| {
            // A back end goes on being read up to its buffers while the client is slow (`proxy_buffering`).
            if let Some(stream) = stream {
                stream.poll_ahead(cx);
            }
            if conn.io.poll_writable(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if deadline.poll_over(cx) { Poll::Ready(Err(SendError::TimedOut)) } else { Poll::Pending }
        })
        .await
    }

    /// How much may be sent now; waits if it is nothing.
    async fn allowance(&mut self) -> Result<u64, SendError> {
        loop {
            let wait_ms = match self.pace.allowance(self.sent + self.head_sent, clock::mono_ms()) {
                Ok(bytes) => return Ok(bytes),
                Err(wait_ms) => wait_ms,
            };
            let Sender { conn, stream, .. } = self;
            let mut pause = sleep(Duration::from_millis(wait_ms));
            let pause = poll_fn(|cx| {
                if let Some(stream) = stream {
                    stream.poll_ahead(cx);
                }
                Pin::new(&mut pause).poll(cx)
            });
            // Nothing else looks at the socket during the pause: a client that has gone must free what the response
            // holds.
            if conn.closed_before(pause).await {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
        }
    }

    /// Sends the head on its own if the rate is limited, as part of what is limited; else leaves it to whoever writes next.
    async fn paced<'h>(&mut self, head: &'h [u8]) -> Result<&'h [u8], SendError> {
        if self.pace.is_unlimited() {
            return Ok(head);
        }
        let mut rest = head;
        while !rest.is_empty() {
            let count = usize::try_from(self.allowance().await?).unwrap_or(usize::MAX).min(rest.len());
            self.raw(&rest[..count]).await?;
            // Not in `sent`, which is the body's.
            self.head_sent += count as u64;
            rest = &rest[count..];
        }
        Ok(rest)
    }

    /// Writes a head that nothing comes behind for now.
    // With a rate the head was sent by `paced`, and nothing is left.
    async fn head(&mut self, head: &[u8]) -> Result<(), SendError> {
        let rest = self.paced(head).await?;
        self.raw(rest).await
    }

    /// Sends `head` and the body behind it.
    pub async fn response(
        &mut self,
        r: &mut Request,
        head: &[u8],
        delimiting: Delimiting,
    ) -> Result<(), SendError> {
        let body = std::mem::take(&mut r.resp.body);
        // What the head has said must be kept to, whatever the body turns out to be.
        let chunked = delimiting == Delimiting::Chunked;
        match body {
            _ if !r.sends_body() => self.head(head).await?,
            Body::Empty => self.head(head).await?,
            // One copy is cheaper than a call that gathers.
            Body::One(Piece::Bytes(text))
                if !chunked && self.pace.is_unlimited() && text.len() <= SMALL_BODY_BYTES_MAX =>
            {
                self.raw(&[head, &text].concat()).await?;
                self.sent += text.len() as u64;
            }
            Body::One(piece) => {
                self.piece_with_head(head, &piece, chunked).await?;
            }
            Body::Many(pieces) => {
                self.head(head).await?;
                for piece in &pieces {
                    self.piece_with_head(b"", piece, chunked).await?;
                }
            }
            Body::Stream(stream) => {
                let result = self.pull(head, stream, chunked).await;
                // What it holds (a back end's connection, the request's body) is given back before the request ends.
                // A lease at a back end is free when the last byte has left, not when the log is written.
                self.stream = None;
                result?;
            }
        }
        // Made only now: trailers may depend on what the body has come to.
        if chunked {
            for source in std::mem::take(&mut r.resp.trailers) {
                // A trailer such as a checksum is known only now.
                source.append(r);
            }
            let mut end = Vec::new();
            let trailers = r.resp.sent_trailers.get_mut();
            write_last_chunk(trailers.iter().map(|(n, v)| (&**n, &**v)), &mut end);
            self.raw(&end).await?;
            self.framing += end.len() as u64;
        }
        Ok(())
    }

    /// The head leaves with the first piece, or when there is none for now: a body that fails before that has no
    /// response (nginx: `postpone_output`).
    async fn pull(
        &mut self,
        mut head: &[u8],
        stream: Box<dyn BodyStream>,
        chunked: bool,
    ) -> Result<(), SendError> {
        self.stream = Some(stream);
        // Each turn asks for one piece and sends it, so at most one piece is in memory besides what the stream itself
        // keeps.
        loop {
            let next = poll_fn(|cx| match &mut self.stream {
                Some(stream) => stream.poll_chunk(cx),
                None => Poll::Ready(None),
            });
            // A body that ends without a piece still has its head to send.
            match next.await {
                None => return self.head(head).await,
                Some(Err(failure)) => return Err(SendError::Body(failure)),
                // A flush is a pause of the back end's: the head does not wait for the next bytes.
                Some(Ok(Chunk::Flush)) => self.head(std::mem::take(&mut head)).await?,
                Some(Ok(Chunk::Piece(piece))) => {
                    self.piece_with_head(std::mem::take(&mut head), &piece, chunked).await?;
                }
            }
        }
    }

    async fn piece_with_head(&mut self, head: &[u8], piece: &Piece, chunked: bool) -> Result<(), SendError> {
        // An empty chunk would end the body (RFC 9112 §7.1).
        if piece.is_empty() {
            return self.head(head).await;
        }
        let head = self.paced(head).await?;
        let framed;
        let mut lead = head;
        let mut tail: &[u8] = b"";
        if chunked {
            let mut bytes = head.to_vec();
            write_chunk_head(piece.len(), &mut bytes);
            // Counted before it is written: a failure in the middle ends the connection, and the figure is then the attempt's.
            self.framing += (bytes.len() - head.len() + CHUNK_END.len()) as u64;
            framed = bytes;
            (lead, tail) = (&framed, CHUNK_END);
        }
        match piece {
            // Text is in memory and leaves together with its frame.
            Piece::Bytes(Text::Slice(slice)) if tail.is_empty() => self.slice(lead, slice).await,
            Piece::Bytes(text) => self.bytes(lead, text, tail).await,
            Piece::File { file, range } => match &file.content {
                Some(content) => {
                    // A part beyond the end of what was read is an error, not a panic.
                    let bytes =
                        content.get(range.start as usize..range.end as usize).ok_or(SendError::Truncated)?;
                    self.bytes(lead, bytes, tail).await
                }
                None => {
                    self.file(lead, file, range.clone()).await?;
                    self.raw(tail).await
                    // By the kernel, so only the frame passes through here.
                }
            },
        }
    }

    /// Writes `bytes` with what comes before and behind, with as few calls as possible.
    async fn bytes(&mut self, mut lead: &[u8], mut bytes: &[u8], tail: &[u8]) -> Result<(), SendError> {
        let mut tail = tail;
        while !lead.is_empty() || !bytes.is_empty() || !tail.is_empty() {
            // The limit is for the body: framing in front of it and behind it leaves with the bytes that it frames.
            let allowed = usize::try_from(self.allowance().await?).unwrap_or(usize::MAX).min(bytes.len());
            // The tail leaves with the last bytes, but never before them.
            let end: &[u8] = if allowed == bytes.len() { tail } else { b"" };
            let result = if lead.is_empty() && end.is_empty() {
                self.conn.io.try_write(&bytes[..allowed])
            } else {
                let parts = [IoSlice::new(lead), IoSlice::new(&bytes[..allowed]), IoSlice::new(end)];
                self.conn.io.try_writev(&parts)
            };
            match result {
                Ok(count) => {
                    // A write that was taken in part may end within any of the three.
                    let of_lead = count.min(lead.len());
                    let of_bytes = (count - of_lead).min(bytes.len());
                    lead = &lead[of_lead..];
                    bytes = &bytes[of_bytes..];
                    tail = &tail[count - of_lead - of_bytes..];
                    self.sent += of_bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// As [`Sender::bytes`], from the file that `slice` stands in, where it stands in one.
    async fn slice(&mut self, mut lead: &[u8], slice: &Slice) -> Result<(), SendError> {
        let mut at = 0;
        while !lead.is_empty() || at < slice.len() {
            let allowed = self.allowance().await?.min(self.chunk_max);
            let room = usize::try_from(allowed).unwrap_or(usize::MAX).min(slice.len() - at);
            match self.conn.io.try_write_slice(lead, &slice.part(at..at + room), self.sendfile) {
                Ok(count) => {
                    let of_lead = count.min(lead.len());
                    lead = &lead[of_lead..];
                    at += count - of_lead;
                    self.sent += (count - of_lead) as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn file(&mut self, lead: &[u8], file: &Rc<OpenFile>, range: Range<u64>) -> Result<(), SendError> {
        if self.can_sendfile(&range) {
            return self.by_sendfile(lead, file, range).await;
        }
        // A TLS session may hand its keys to the kernel once it has sent something: the first part is copied, the
        // rest is not.
        // kTLS begins when a session has sent its first records.
        let at = self.by_copy(lead, file, range.clone()).await?;
        self.by_sendfile(b"", file, at..range.end).await
    }

    fn can_sendfile(&self, range: &Range<u64>) -> bool {
        self.sendfile && self.conn.io.can_sendfile(range.end - range.start)
    }

    async fn by_sendfile(
        &mut self,
        lead: &[u8],
        file: &Rc<OpenFile>,
        range: Range<u64>,
    ) -> Result<(), SendError> {
        let fd = file.fd.as_ref().ok_or(SendError::Truncated)?;
        // MSG_MORE keeps the head back, so that it leaves in one packet with the start of the file.
        self.more(lead).await?;
        // How much has left without a pause since others had their turn.
        let mut at = range.start;
        let mut turn = 0;
        while at < range.end {
            // At most 2 MiB: sendfile(2) does not return before all of it is in a socket that takes it, and others
            // wait meanwhile.
            let room = self.allowance().await?.min(self.chunk_max).min(SENDFILE_CHUNK_BYTES as u64);
            // Before each chunk, not once: a large file may be pushed out of memory while it is being sent.
            let count = room.min(range.end - at) as usize;
            self.warm(file, at, count).await?;
            let before = at;
            match self.conn.io.try_sendfile(fd.as_fd(), &mut at, count) {
                Ok(0) => return Err(SendError::Truncated),
                Ok(_) => {
                    self.sent += at - before;
                    // The file's position is the kernel's count, which may be less than asked for.
                    turn += at - before;
                    // A whole chunk left without a pause: let others have their turn.
                    // An event loop has no preemption: a client that takes everything would be served alone.
                    if turn >= count as u64 && at < range.end {
                        turn = 0;
                        yield_now().await;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    turn = 0;
                    self.wait().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn more(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.conn.io.try_write_more(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Makes sure that sendfile will not wait for the disk: if the chunk's ends are not in memory, the pool reads it.
    async fn warm(&self, file: &Rc<OpenFile>, at: u64, count: usize) -> Result<(), SendError> {
        let fd = file.fd.as_ref().ok_or(SendError::Truncated)?;
        // The two ends stand for the chunk: read-ahead brings neighbouring pages, and each look costs a system call.
        let mut probe = [0u8; 1];
        let last = at + count as u64 - 1;
        let cold = [at, last].into_iter().any(|offset| {
            file::read_warm(fd, &mut probe, offset).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
        });
        if cold {
            // A descriptor of its own: the pool may still be reading when the request is dropped, and the number be
            // given to another file.
            let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|error| unread(&error.into()))?;
            let job = blocking::run(move || {
                // A buffer of its own: what is read is thrown away, the page cache keeps it.
                let mut buf = vec![0; count.min(COPY_CHUNK_BYTES)];
                let mut offset = at;
                while offset <= last {
                    match file::read_cold(&fd, &mut buf, offset) {
                        Ok(read) if read > 0 => offset += read as u64,
                        _ => break,
                    }
                }
            });
            // With the pool's queue full sendfile waits for the disk itself, which is slow but right.
            if let Ok(job) = job {
                job.await;
            }
        }
        Ok(())
    }

    /// Sends the file, or the start of it: a session that has sent something may have the kernel go on. Gives how far.
    async fn by_copy(
        &mut self,
        lead: &[u8],
        file: &Rc<OpenFile>,
        range: Range<u64>,
    ) -> Result<u64, SendError> {
        let fd = file.fd.as_ref().ok_or(SendError::Truncated)?;
        let mut buf = vec![0; COPY_CHUNK_BYTES];
        let mut at = range.start;
        let mut lead = lead;
        while at < range.end {
            let want = buf.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
            let count = match file::read_warm(fd, &mut buf[..want], at) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|error| unread(&error.into()))?;
                    let job = blocking::run(move || {
                        let mut buf = vec![0; want];
                        file::read_cold(&fd, &mut buf, at).map(|count| (buf, count))
                    });
                    // Unlike sendfile there is no way on without the bytes, and waiting for a full queue would hold up the thread.
                    let full = |_| SendError::Body(Failure::broken("the queue of the thread pool is full"));
                    let (read, count) = job.map_err(full)?.await.map_err(|error| unread(&error))?;
                    buf[..count].copy_from_slice(&read[..count]);
                    count
                }
                Err(error) => return Err(unread(&error)),
            };
            if count == 0 {
                return Err(SendError::Truncated);
            }
            self.bytes(lead, &buf[..count], b"").await?;
            lead = b"";
            at += count as u64;
            // The session may have handed its keys to the kernel meanwhile.
            if self.can_sendfile(&(at..range.end)) {
                break;
            }
        }
        Ok(at)
    }
}

/// Lets the loop turn once.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether the response is complete in memory and nothing of the request is left to be read.
/// A task costs an allocation and two turns of the loop, so whatever can be answered here is.
pub fn can_inline(r: &Request) -> bool {
    let in_memory = match &r.resp.body {
        Body::Empty => true,
        Body::One(Piece::Bytes(text)) => text.len() as u64 <= INLINE_BODY_BYTES_MAX,
        // Its bytes were read when it was opened: nothing can block.
        Body::One(Piece::File { file, range }) => {
            file.content.is_some() && range.end - range.start <= INLINE_BODY_BYTES_MAX
        }
        Body::Many(pieces) => pieces.len() <= 16 && pieces.iter().all(|p| matches!(p, Piece::Bytes(_))),
        Body::Stream(_) => false,
    };
    // Everything that would need a wait later excludes the hot path, since a task cannot be entered in the middle of
    // an answer.
    in_memory
        && r.has_no_body()
        && r.resp.body.len().is_some_and(|len| len <= INLINE_BODY_BYTES_MAX)
        && r.resp.trailers.is_empty()
        && !is_rate_limited(r)
        && r.core().post_action.is_none()
        || (matches!(r.resp.body, Body::Empty)
            && refusal_delay(r).is_zero()
            && r.has_no_body()
            && r.core().post_action.is_none()
            && r.resp.trailers.is_empty())
}

/// Whether the response is to be slowed down.
pub fn is_rate_limited(r: &Request) -> bool {
    r.reply.limit_rate.is_some_and(|rate| rate > 0)
        || (r.reply.limit_rate.is_none() && !matches!(r.core().limit_rate, Rate::Bytes(0)))
        || !refusal_delay(r).is_zero()
}
