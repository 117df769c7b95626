//! The task of a request that has to wait.
//!
//! It is the same for all protocols that have streams: they differ in [`EncodeHead`] and in what is behind the
//! exchange's session.

use super::Reset;
use super::exchange::{Exchange, Stop, Stuck};
use crate::body::RequestBody;
use crate::core::http_conf::{CoreConf, Rate};
use crate::failure;
use crate::files::OpenFile;
use crate::h1::send::rate_of;
use crate::h1::serve::post_action;
use crate::logged::{Logged, delay_refusal};
use crate::pace::Pace;
use crate::phases::{self, Run};
use crate::request::Request;
use crate::request::client::Carrier;
use crate::request::flight::Waits;
use crate::response::{Body, BodyStream, Chunk, Piece};
use crate::table::Thread;
use brisk_host::peer::Cut;
use brisk_net::{Failure, blocking, clock, file, sleep, timeout};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Appends the final head of a request's response in the protocol's coding.
pub type EncodeHead = fn(&Request, &mut Vec<u8>);

/// Starts it. `malformed`: whatever is answered, the stream ends with an error.
pub fn spawn(exchange: Rc<Exchange>, mut r: Box<Request>, run: Run, malformed: bool, encode: EncodeHead) {
    // Before the task is spawned: a drain that looks at the session meanwhile must see that there is work.
    exchange.session().begun();
    exchange.malformed.set(malformed);
    r.client.carrier = Some(Carrier::Stream(exchange.clone()));
    r.reply.interim = Some(exchange.clone());
    r.enters_task();
    let task = Guard {
        cut: exchange.cut.clone(),
        future: Some(Box::pin(serve(exchange.clone(), r, run, encode))),
        exchange,
    };
    brisk_net::spawn(task);
}

/// Catches a panic of the request's future, ends it when that is ordered, and gives the stream back.
struct Guard<F> {
    exchange: Rc<Exchange>,
    cut: Rc<Cut>,
    future: Option<Pin<Box<F>>>,
}

impl<F: Future<Output = ()>> Future for Guard<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let turn = AssertUnwindSafe(|| match &mut this.future {
            // As in `h1/serve.rs`: the waker is left before the future is polled.
            Some(future) if !this.cut.is_wanted(cx.waker()) => future.as_mut().poll(cx),
            // What it owns (a request with its log line) goes before the stream is given back.
            _ => {
                drop(this.future.take());
                Poll::Ready(())
            }
        });
        match catch_unwind(turn) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(_) => {
                if let Some(thread) = Thread::current() {
                    crate::hand_over::panicked(&thread, this.exchange.conn.id);
                }
            }
        }
        // A task whose stream is gone counts against the client's streams until here.
        // Asked when the request is done with: the stream may have gone during its last steps.
        let was_gone = this.exchange.gone.get().is_some();
        this.exchange.session().ended(this.exchange.id, was_gone);
        Poll::Ready(())
    }
}

/// Drives a request to its end.
async fn serve(exchange: Rc<Exchange>, r: Box<Request>, run: Run, encode: EncodeHead) {
    let mut r = Logged::new(r);
    match phases::drive(&mut r, run).await {
        Run::Respond => respond(&exchange, &mut r, encode).await,
        _ => {
            // nginx: a client that was too slow has broken the rules.
            let why = if r.resp.status == 408 { Reset::Protocol } else { Reset::Internal };
            exchange.session().reset(exchange.id, why);
        }
    }
    // After the response, so that the client does not wait for it.
    post_action(&mut r).await;
    // Before it is asked whether there is more: a borrower may hold the reader until here.
    r.take_back_body();
    if r.has_unread_body() && exchange.gone.get().is_none() && !exchange.malformed.get() {
        discard(&exchange, &mut r).await;
    }
    if exchange.malformed.get() && exchange.gone.get().is_none() {
        exchange.session().break_stream(exchange.id);
    }
    if let Some(r) = r.finish() {
        r.thread.clone().put_request(r);
    }
}

/// The client may go on sending what nobody wants: for a moment that is heard, so that it learns of its own mistakes,
/// then it is told to stop (RFC 9113 §8.1).
async fn discard(exchange: &Rc<Exchange>, r: &mut Request) {
    // Half a second at most: the stream counts against the client's limit meanwhile.
    let time = r.core().lingering_timeout.min(Duration::from_millis(500));
    let session = exchange.session();
    let rest = async {
        loop {
            poll_fn(|cx| exchange.poll_input(cx)).await;
            let dropped = std::mem::take(&mut *exchange.input.borrow_mut()).len();
            // The connection's window must be given back even for bytes that are dropped, or other streams would come
            // to a halt.
            session.drop_body(exchange.id, dropped as u32);
            if exchange.ended.get() || exchange.gone.get().is_some() {
                return;
            }
        }
    };
    let _ = timeout(time, rest).await;
    r.body = RequestBody::default();
}

/// Sends the response.
async fn respond(exchange: &Rc<Exchange>, r: &mut Request, encode: EncodeHead) {
    delay_refusal(r).await;
    r.reply.interim = None;
    if r.resp.tunnel {
        r.flight.waits_for(Waits::Tunnel);
        exchange.session().open_tunnel(exchange.id);
    } else {
        r.flight.waits_for(Waits::Sending);
    }
    exchange.session().set_chunk(exchange.id, r.core().http2.chunk_size);
    let mut sender = Sender::new(exchange, r);
    let mut block = Vec::with_capacity(256);
    encode(r, &mut block);
    // `post_action` needs the whole configuration after the response.
    if r.core().post_action.is_none() {
        r.thread.clone().reduce(r);
    }
    // The head is encoded before the request lets go of its configuration, which that needs.
    let result = sender.response(r, &block).await;
    r.progress.sent.head_bytes =
        block.len() as u64 + exchange.session().head_overhead() + exchange.framing.get();
    r.progress.sent.body_bytes = exchange.sent.get();
    r.reply.completed = result.is_ok();
    if let Err(error) = result {
        let why = failed(r, &error);
        exchange.session().reset(exchange.id, why);
    }
}

/// Why sending ended early.
enum SendError {
    Gone,
    TimedOut,
    Truncated,
    /// What is sent could not be had.
    Body(Failure),
}

fn failed(r: &Request, error: &SendError) -> Reset {
    match error {
        SendError::Gone => Reset::Cancel,
        SendError::TimedOut => {
            crate::rlog!(r, Info, "client timed out ({}: Connection timed out) while sending to client", 110);
            Reset::Protocol
        }
        SendError::Truncated => {
            let uri = String::from_utf8_lossy(&r.route.uri);
            crate::rlog!(r, Alert, "file \"{uri}\" was truncated while it was sent");
            Reset::Internal
        }
        SendError::Body(failure) => {
            failure::report(failure, r);
            Reset::Internal
        }
    }
}

/// What a response is sent through: the stream, time-outs and the rate limit.
struct Sender<'a> {
    exchange: &'a Rc<Exchange>,
    send_timeout: Duration,
    /// `limit_rate` and `limit_rate_after`, from when sending began.
    pace: Pace,
    /// Where the pieces come from: it may read ahead while the client takes nothing.
    source: RefCell<Option<Box<dyn BodyStream>>>,
}

impl<'a> Sender<'a> {
    fn new(exchange: &'a Rc<Exchange>, r: &Request) -> Sender<'a> {
        let core: &CoreConf = r.core();
        let value = |rate: &Rate| rate_of(rate, r);
        let rate = r.reply.limit_rate.unwrap_or_else(|| value(&core.limit_rate));
        let pace = Pace::new(rate, value(&core.limit_rate_after), clock::mono_ms());
        Sender { exchange, send_timeout: core.send_timeout, pace, source: RefCell::default() }
    }

    /// How much may be sent now; waits if it is nothing.
    async fn allowance(&self) -> Result<u64, SendError> {
        loop {
            let wait_ms = match self.pace.allowance(self.exchange.sent.get(), clock::mono_ms()) {
                Ok(bytes) => return Ok(bytes),
                Err(wait_ms) => wait_ms,
            };
            // A reset ends the wait, or a slow response would hold its stream's place long after the client has left.
            let gone = poll_fn(|cx| self.exchange.poll_gone(cx));
            if timeout(Duration::from_millis(wait_ms), gone).await.is_ok() {
                return Err(SendError::Gone);
            }
        }
    }

    fn head(&self, block: &[u8], end: bool) -> Result<(), SendError> {
        self.exchange.head_sent.set(true);
        if self.exchange.send_head(block, end) { Ok(()) } else { Err(SendError::Gone) }
    }

    async fn response(&mut self, r: &mut Request, head: &[u8]) -> Result<(), SendError> {
        let body = std::mem::take(&mut r.resp.body);
        let has_trailers = !r.resp.trailers.is_empty();
        // The head ends the stream (RFC 9113 §8.1), so that a response without a body is one frame.
        if !r.sends_body() || (body.is_empty() && !has_trailers) {
            return self.head(head, true);
        }
        // A stream's head waits for its first piece: see [`Sender::pull`].
        if !matches!(body, Body::Stream(_)) {
            self.head(head, false)?;
        }
        // Trailers end the stream, so the last piece must not.
        let ended = match body {
            Body::Empty => false,
            Body::One(piece) => self.piece(piece, !has_trailers).await?,
            Body::Many(mut pieces) => {
                // An empty last piece could not carry the end of the stream.
                pieces.retain(|piece| !piece.is_empty());
                let count = pieces.len();
                let mut ended = false;
                for (at, piece) in pieces.into_iter().enumerate() {
                    ended = self.piece(piece, !has_trailers && at + 1 == count).await?;
                }
                ended
            }
            Body::Stream(stream) => {
                *self.source.borrow_mut() = Some(stream);
                let result = self.pull(head).await;
                // What it holds (a back end's connection, the request's body) is given back before the request ends.
                self.source.take();
                result?;
                false
            }
        };
        if has_trailers {
            r.progress.sent.body_bytes = self.exchange.sent.get();
            for source in std::mem::take(&mut r.resp.trailers) {
                // In the request's order: a trailer's value may be of what the body has come to.
                source.append(r);
            }
            let mut block = Vec::new();
            self.exchange.session().encode_trailers(r.resp.sent_trailers.get_mut(), &mut block);
            if !block.is_empty() {
                return self.head(&block, true);
            }
        }
        // An empty DATA frame ends a body whose end was not known when its last piece left.
        if ended || self.exchange.said_all.get() || self.exchange.session().end_body(self.exchange.id) {
            Ok(())
        } else {
            Err(SendError::Gone)
        }
    }

    /// Sends what a stream gives. The head leaves with the first piece, or when there is none for now: a body that fails
    /// before that has no response.
    async fn pull(&mut self, head: &[u8]) -> Result<(), SendError> {
        let mut head = Some(head);
        loop {
            let next = poll_fn(|cx| match &mut *self.source.borrow_mut() {
                Some(source) => source.poll_chunk(cx),
                None => Poll::Ready(None),
            });
            let next = next.await;
            if !matches!(next, Some(Err(_)))
                && let Some(head) = head.take()
            {
                self.head(head, false)?;
            }
            match next {
                None => return Ok(()),
                Some(Err(failure)) => return Err(SendError::Body(failure)),
                Some(Ok(Chunk::Flush)) => {}
                Some(Ok(Chunk::Piece(piece))) => drop(self.piece(piece, false).await?),
            }
            // A reset is seen between two pieces, too, when nothing is waited for.
            if self.exchange.gone.get().is_some() {
                return Err(SendError::Gone);
            }
        }
    }

    /// Sends a piece; gives `last` back: whether the stream is ended with it.
    async fn piece(&mut self, piece: Piece, last: bool) -> Result<bool, SendError> {
        let mut at = 0;
        while at < piece.len() {
            // A limited rate cuts pieces, as the session sends whatever it is given as fast as it can.
            let room = self.allowance().await?.min(piece.len() - at);
            let ends = at + room == piece.len();
            self.part(piece.part(at..at + room), last && ends).await?;
            at += room;
        }
        Ok(last && !piece.is_empty())
    }

    async fn part(&mut self, piece: Piece, last: bool) -> Result<(), SendError> {
        self.exchange.put(piece, last);
        loop {
            let step = poll_fn(|cx| {
                let sent = self.exchange.poll_sent(cx);
                // Only while the client takes nothing: reading ahead is for that time.
                if sent.is_pending()
                    && let Some(source) = &mut *self.source.borrow_mut()
                {
                    source.poll_ahead(cx);
                }
                sent
            });
            let sent = self.patiently(step).await?;
            match sent {
                Ok(()) => return Ok(()),
                Err(Stop::Gone) => return Err(SendError::Gone),
                Err(Stop::Stuck(Stuck::Truncated)) => return Err(SendError::Truncated),
                Err(Stop::Stuck(Stuck::Cold { offset, len })) => {
                    // Asked again, since the piece may have been sent to its end meanwhile.
                    let file = self.exchange.cold_file().ok_or(SendError::Truncated)?;
                    // The bytes are in the kernel's memory then; the session reads them itself.
                    warm(&file, offset, len).await?;
                    self.exchange.unstick();
                }
            }
        }
    }

    /// `send_timeout` is between two advances of the client.
    async fn patiently<F: Future>(&self, work: F) -> Result<F::Output, SendError> {
        let mut work = std::pin::pin!(work);
        loop {
            let before = self.exchange.sent.get();
            match timeout(self.send_timeout, work.as_mut()).await {
                Ok(output) => return Ok(output),
                // Something of the piece has left: the client is slow, but there.
                Err(_) if self.exchange.sent.get() > before => {}
                Err(_) => return Err(SendError::TimedOut),
            }
        }
    }
}

fn unread(error: &io::Error) -> SendError {
    SendError::Body(Failure::broken(brisk_conf::os_text(error)))
}

/// Has the pool read a part of a file that is not in memory.
async fn warm(file: &OpenFile, offset: u64, len: usize) -> Result<(), SendError> {
    let fd = file.fd.as_ref().ok_or(SendError::Truncated)?;
    // A descriptor of its own: the read may outlast the stream, and then the number belongs to another file.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|error| unread(&error.into()))?;
    let job = blocking::run(move || {
        let mut buf = vec![0; len];
        file::read_cold(&fd, &mut buf, offset).map(drop)
    });
    match job {
        Ok(job) => job.await.map_err(|error| unread(&error)),
        // The pool's queue is full. The session finds the bytes cold again and comes back here, after a pause.
        Err(_) => {
            sleep(Duration::from_millis(10)).await;
            Ok(())
        }
    }
}
