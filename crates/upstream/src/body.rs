//! An answer's body on its way from a back end to the task that pulls it.
//!
//! It knows no client: what pulls it may be a connection, a stream, a cache's fill or a filter. The request may be
//! over, so messages go through a [`Witness`].

use crate::exchange::{Exchange, Got};
use crate::limits::{HELD_BYTES, HELD_MS};
use crate::spool::{Next, Spool, SpoolLimits};
use brisk_balance::Outcome;
use brisk_net::{Activity, Cause, Failure, Origin, Sleep, clock, sleep_until};
use brisk_server::core::LogLevel;
use brisk_server::failure;
use brisk_server::log::Witness;
use brisk_server::memory::Charge;
use brisk_server::pace::Pace;
use brisk_server::request::ClientWatch;
use brisk_server::response::{BodyStream, Chunk, Piece};
use brisk_server::temp_file::TempError;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// `*_limit_rate`: how much may be read by now.
/// An average since the head, as nginx computes it: what was not used in one second may be used in the next.
pub struct Rate {
    pace: Pace,
    read: u64,
    /// Kept between polls, so that being woken for other reasons does not make the pause begin anew.
    pause: Option<Sleep>,
}

impl Rate {
    /// `None` for 0: no limit.
    pub fn new(bytes_per_sec: u64) -> Option<Rate> {
        let pace = Pace::new(bytes_per_sec, 0, clock::mono_ms());
        (!pace.is_unlimited()).then_some(Rate { pace, read: 0, pause: None })
    }

    /// Bytes that may be read now.
    fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let now_ms = clock::mono_ms();
        let wait_ms = match self.pace.allowance(self.read, now_ms) {
            Ok(bytes) => {
                self.pause = None;
                return Poll::Ready(usize::try_from(bytes).unwrap_or(usize::MAX));
            }
            Err(wait_ms) => wait_ms,
        };
        let pause = self.pause.get_or_insert_with(|| sleep_until(now_ms.saturating_add(wait_ms)));
        ready!(Pin::new(pause).poll(cx));
        self.pause = None;
        // The pause is over in this very poll, so no timer would wake the task.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whether the little that has come waits for more.
///
/// A page of PHP comes in parts of 8 KiB, some milliseconds apart. Each would cost a write, a TLS record and the client's
/// wake-up. nginx waits until a buffer is full, however long that takes.
enum Hold {
    /// The first bytes of an answer, and those that have waited for long enough, leave at once.
    Over,
    /// The next bytes may wait.
    Free,
    Until(Sleep),
}

/// What is told of an answer that is being pulled.
pub struct Incoming {
    /// `None`: the back end has said everything.
    from: Option<Box<Exchange>>,
    spool: Spool,
    /// `*_buffering`: the answer is read ahead of the client, as far as the spool has room in memory and on the disk.
    ahead: bool,
    /// Why it ended early, if it did.
    error: bool,
    rate: Option<Rate>,
    /// `None`: the answer is wanted even if the client has gone, since a cache or `*_store` waits for it.
    client: Option<ClientWatch>,
    witness: Witness,
    hold: Hold,
    /// Something was given since the last flush.
    unflushed: bool,
    /// The temporary file was reported.
    told_of_file: bool,
    /// What waits in memory, as the client's connection counts it.
    charge: Option<Charge>,
}

/// What [`Incoming`] starts with.
pub struct Begin {
    /// The exchange whose head has come.
    pub exchange: Box<Exchange>,
    /// What has come with the head.
    pub first: Vec<u8>,
    /// How much may wait, and where.
    pub limits: SpoolLimits,
    /// It is read ahead of a slow client.
    pub ahead: bool,
    /// `*_limit_rate`; `None`: no limit.
    pub rate: Option<Rate>,
    /// The exchange ends when this client goes.
    pub client: Option<ClientWatch>,
    /// Takes messages when the request may be gone.
    pub witness: Witness,
    /// What waits in memory is charged to the connection.
    pub charge: Option<Charge>,
}

impl Incoming {
    /// The body, of which nothing has been read yet but what `begin` has.
    pub fn new(begin: Begin) -> Incoming {
        let mut spool = Spool::new(begin.limits);
        let mut rate = begin.rate;
        // What came with the head was read before the rate was known.
        if let Some(rate) = &mut rate {
            rate.read += begin.first.len() as u64;
        }
        if !begin.first.is_empty() {
            spool.push(begin.first);
        }
        Incoming {
            from: Some(begin.exchange),
            spool,
            ahead: begin.ahead,
            error: false,
            rate,
            client: begin.client,
            witness: begin.witness,
            hold: Hold::Over,
            // The head does not wait for a body that is passed on as it comes.
            unflushed: true,
            told_of_file: false,
            charge: begin.charge,
        }
    }

    /// Tells the connection's account what waits in memory now.
    fn count(&self) {
        if let Some(charge) = &self.charge {
            charge.set(self.spool.memory());
        }
    }

    /// Takes what the back end has sent; ready when something has changed.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(exchange) = &mut self.from else { return Poll::Ready(()) };
        // The rest of the request goes on its way meanwhile.
        // A failure to send is the reader's to tell, but for the client's body: without it the back end waits for
        // ever.
        if let Poll::Ready(Err(failure)) = exchange.poll_send(cx)
            && failure.activity() == Activity::ReadingRequestBody
        {
            self.fail(&failure);
            return Poll::Ready(());
        }
        // Set anew for each read, and asked before it: bytes in the socket hold the back end back.
        exchange.read_max = match &mut self.rate {
            Some(rate) => ready!(rate.poll_allowance(cx)),
            None => usize::MAX,
        };
        let got = ready!(exchange.poll_event(cx));
        match got {
            Ok(Got::Data(bytes)) => {
                if let Some(rate) = &mut self.rate {
                    rate.read += bytes.len() as u64;
                }
                self.spool.push(bytes);
                self.count();
            }
            Ok(Got::Log(level, text)) => {
                let text = String::from_utf8_lossy(&text);
                self.witness.log(level, format_args!("{text} while reading upstream"));
            }
            Ok(Got::Trailers(fields)) => {
                // Kept with the request's state, since the trailers are written by whoever serialises the response.
                exchange.peer.state.trailers.replace(fields);
            }
            // A codec gives one head; a second one would be its mistake, and is none of the body.
            Ok(Got::Interim(_) | Got::Head(_)) => {}
            Ok(Got::End) => {
                if let Some(exchange) = self.from.take() {
                    // The client gets what was announced; the connection is closed, since what came besides is of no
                    // known request.
                    if exchange.has_excess() {
                        let text = format_args!(
                            "upstream sent more data than specified in its response while reading upstream"
                        );
                        self.witness.log(LogLevel::Warn, text);
                    }
                    // The connection is back in the pool before the client has the last piece: the next request may
                    // use it.
                    exchange.complete();
                }
            }
            Err(failure) => self.fail(&failure),
        }
        // Also for what gives no bytes (a message, trailers): the caller asks the spool again, and comes back
        // here if that is empty.
        Poll::Ready(())
    }

    /// The body ends here, too early.
    fn fail(&mut self, failure: &Failure) {
        failure::log(failure, |level, text| self.witness.log(level, text));
        self.error = true;
        if let Some(exchange) = self.from.take() {
            // The head was good, so the peer does not count as failed.
            exchange.give_up().0.finish(Outcome::Ok);
        }
    }

    fn disk_failed(&mut self, error: &TempError) {
        // Ours, not the peer's: a full disk must not put servers out of service.
        let cause = Cause::Broken(error.to_string().into());
        self.fail(&Failure::new(Origin::Local, Activity::ReadingResponse, cause));
    }

    fn tell_of_file(&mut self) {
        if !self.told_of_file
            && let Some(path) = self.spool.path()
        {
            self.told_of_file = true;
            let text = format_args!(
                "an upstream response is buffered to a temporary file {path} while reading upstream"
            );
            self.witness.log(LogLevel::Warn, text);
        }
    }

    /// Whether what waits here is too little to be given out yet.
    fn holds(&self) -> bool {
        self.ahead
            && !matches!(self.hold, Hold::Over)
            && (1..HELD_BYTES).contains(&self.spool.memory())
            && self.from.is_some()
            // The next read would go beyond what `*_buffers` allow.
            && !self.spool.is_full()
            && !self.spool.is_on_disk()
    }

    /// Whether it has waited for long enough.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(self.hold, Hold::Free) {
            self.hold = Hold::Until(sleep_until(clock::mono_ms() + HELD_MS));
        }
        if let Hold::Until(sleep) = &mut self.hold {
            ready!(Pin::new(sleep).poll(cx));
        }
        self.hold = Hold::Over;
        Poll::Ready(())
    }

    /// The oldest bytes, or nothing where they wait for more.
    fn poll_oldest(&mut self, cx: &mut Context<'_>) -> Poll<Result<Next, TempError>> {
        if self.holds() { Poll::Ready(Ok(Next::Empty)) } else { self.spool.poll_next(cx) }
    }

    fn client_has_gone(&self, cx: &mut Context<'_>) -> bool {
        // Only while the back end is still at work: what waits here is sent, or fails, by itself.
        self.from.is_some() && self.client.as_ref().is_some_and(|client| client.poll_gone(cx).is_ready())
    }
}

impl BodyStream for Incoming {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            // Oldest first; what the back end says next is read only when nothing is left here, or too little (or ahead
            // of a slow client).
            match self.poll_oldest(cx) {
                Poll::Ready(Ok(Next::Bytes(bytes))) => {
                    self.count();
                    self.hold = Hold::Free;
                    self.unflushed = true;
                    return Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(bytes.into())))));
                }
                // What has come, the head at least, goes out before the connection breaks.
                Poll::Ready(Ok(Next::Empty)) if self.error && std::mem::take(&mut self.unflushed) => {
                    return Poll::Ready(Some(Ok(Chunk::Flush)));
                }
                Poll::Ready(Ok(Next::Empty)) if self.error => {
                    // The reason is in the log already. Whoever pulls must only learn that the body is not
                    // whole: it must not end as a good one, with a last chunk or END_STREAM.
                    return Poll::Ready(Some(Err(Failure::reported())));
                }
                Poll::Ready(Ok(Next::Empty)) if self.from.is_none() => return Poll::Ready(None),
                Poll::Ready(Ok(Next::Empty)) => {}
                Poll::Ready(Err(error)) => {
                    self.disk_failed(&error);
                    return Poll::Ready(Some(Err(Failure::reported())));
                }
                Poll::Pending => return Poll::Pending,
            }
            if self.poll_fill(cx).is_ready() {
                continue;
            }
            if self.client_has_gone(cx) {
                self.fail(&Failure::client(Activity::SendingResponse, Cause::Closed));
                return Poll::Ready(Some(Err(Failure::reported())));
            }
            if self.holds() && self.poll_held(cx).is_ready() {
                continue;
            }
            // Unbuffered: what has come must not wait for more.
            if !self.ahead && std::mem::take(&mut self.unflushed) {
                return Poll::Ready(Some(Ok(Chunk::Flush)));
            }
            return Poll::Pending;
        }
    }

    // Called while the client takes nothing. The back end's process is free as soon as its answer is here, in
    // memory or in the file.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        if !self.ahead || self.error {
            return;
        }
        loop {
            let is_idle = match self.spool.poll_disk(cx) {
                Poll::Ready(Ok(())) => true,
                // The file has a gap then: nothing that comes behind it could be given out in order.
                Poll::Ready(Err(error)) => return self.disk_failed(&error),
                Poll::Pending => false,
            };
            self.tell_of_file();
            // Full in memory: as much as a write is worth goes to the file. With the file full, too, the back end
            // waits.
            // `poll_chunk` makes room, and is called before this is.
            if self.spool.is_full() && !(is_idle && self.spool.spill()) {
                return;
            }
            if self.from.is_none() || (!self.spool.is_full() && self.poll_fill(cx).is_pending()) {
                return;
            }
        }
    }
}
