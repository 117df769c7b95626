//! A connection that has become a tunnel: bytes both ways, until both sides have closed theirs.
//!
//! The end of one side is passed on as such. That of a client leaves the back end its last word. That of a back end may also
//! mean that it is gone (over TCP the two look alike): then the next bytes from the client are answered with a reset, and
//! the tunnel ends; a client that is silent is waited for as long as anybody is.

use crate::exchange::Exchange;
use crate::link::Link;
use crate::peer::ChosenPeer;
use crate::scratch::scratch;
use brisk_balance::Outcome;
use brisk_net::Deadline;
use brisk_net::Failure;
use brisk_server::body::BodySource;
use brisk_server::core::LogLevel;
use brisk_server::log::Witness;
use brisk_server::response::{BodyStream, Chunk, Piece};
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// The reader has seen the end; the writer is being told.
    Ending,
    Closed,
}

/// The back end's bytes for the client. While it is pulled, or waited for, it passes on what the client sends.
/// It is a body like any other for the one who sends it, so tunnels need no code in the protocols of clients.
pub struct Tunnel {
    link: Box<Link>,
    peer: Box<ChosenPeer>,
    client: BodySource,
    /// From the back end, to be given.
    first: Vec<u8>,
    /// From the client, on its way.
    up: Vec<u8>,
    /// `up` is not drained: a write may take a part only.
    up_at: usize,
    up_way: Way,
    down_way: Way,
    read_timeout: Duration,
    send_timeout: Duration,
    /// Nothing has moved for too long.
    /// Both directions renew it, as nginx's `proxy_read_timeout` does for an upgraded connection.
    idle: Deadline,
    witness: Witness,
    /// The head was sent on its way.
    /// The first pull gives a flush, so that the 101 leaves before a byte of either side.
    has_begun: bool,
}

impl Tunnel {
    /// A tunnel of an exchange that the peer has switched; the client's side is `client`.
    pub fn new(
        mut exchange: Box<Exchange>,
        client: BodySource,
        (read_timeout, send_timeout): (Duration, Duration),
        witness: Witness,
    ) -> Tunnel {
        let first = exchange.take_rest();
        // The codec ends here: from now on bytes mean nothing to us.
        // The lease stays with the tunnel: `max_conns` and `least_conn` count it until its end.
        let Exchange { peer, link, .. } = *exchange;
        let mut idle = Deadline::default();
        // From the switch on: a tunnel in which neither side ever speaks ends, too.
        idle.set(read_timeout);
        Tunnel {
            link,
            peer,
            client,
            first,
            up: Vec::new(),
            up_at: 0,
            up_way: Way::Open,
            down_way: Way::Open,
            read_timeout,
            send_timeout,
            idle,
            witness,
            has_begun: false,
        }
    }

    /// Client to back end, as far as it goes now.
    /// Order is kept by having at most one piece under way: the client is not read while its last piece waits.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.up_at < self.up.len() {
                match self.link.stream.try_write(&self.up[self.up_at..]) {
                    Ok(count) => {
                        self.up_at += count;
                        self.peer.state.note(|attempt| attempt.sent += count as u64);
                        // A write that took something begins the time anew.
                        self.link.write_limit.clear();
                        self.idle.set(self.read_timeout);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        // Set with the first write that was not taken, so a back end that reads slowly but steadily
                        // is not cut off.
                        if !self.link.write_limit.is_set() {
                            self.link.write_limit.set(self.send_timeout);
                        }
                        if self.link.write_limit.poll_over(cx) {
                            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                        }
                        ready!(self.link.stream.poll_writable(cx));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            self.up.clear();
            self.up_at = 0;
            match self.up_way {
                Way::Open if ready!(self.client.poll_raw(cx, &mut self.up))? => {}
                // The client has closed its side; what it had said before has left, as nothing is read while a piece waits.
                Way::Open => self.up_way = Way::Ending,
                // The back end may still have something to say.
                Way::Ending => {
                    // An error here is the back end's end, which the other direction finds.
                    let _ = ready!(self.link.stream.poll_shutdown_write(cx));
                    self.up_way = Way::Closed;
                }
                Way::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Back end to client: the next bytes; none at the end.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        // Before the socket: it came earlier.
        if !self.first.is_empty() {
            return Poll::Ready(Ok(std::mem::take(&mut self.first)));
        }
        // Read into the thread's buffer, so that a silent tunnel holds none.
        let read = scratch(|buf| {
            loop {
                match self.link.stream.try_read(buf) {
                    // Copied, since the buffer is another connection's as soon as this call ends.
                    Ok(count) => return Poll::Ready(Ok(buf[..count].to_vec())),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(self.link.stream.poll_readable(cx));
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        });
        let bytes: Vec<u8> = ready!(read)?;
        self.peer.state.note(|attempt| {
            attempt.received += bytes.len() as u64;
            attempt.length += bytes.len() as u64;
        });
        self.idle.set(self.read_timeout);
        Poll::Ready(Ok(bytes))
    }

    /// After the back end's last word: ready when nobody needs the tunnel any more.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Both have said all: nothing can come any more.
        if self.up_way == Way::Closed {
            return Poll::Ready(());
        }
        // What the back end had said before has left: otherwise the tunnel would not be pulled.
        if self.down_way == Way::Ending && self.client.poll_end(cx).is_ready() {
            self.down_way = Way::Closed;
        }
        // A reset, or a close of both sides: what the client sends then goes nowhere.
        self.link.stream.poll_broken(cx)
    }

    fn fail(&mut self, what: &str, error: &io::Error) -> Poll<Option<Result<Chunk, Failure>>> {
        let text = brisk_conf::os_text(error);
        self.witness
            .log(LogLevel::Info, format_args!("{what}() failed ({text}) while proxying upgraded connection"));
        self.end()
    }

    /// An end that is no end (a reset, a time-out) is an error, so that the client's connection is not closed
    /// as if all had been said.
    fn end(&mut self) -> Poll<Option<Result<Chunk, Failure>>> {
        // However it ends, the peer has done what was asked of it.
        self.peer.finish(Outcome::Ok);
        // Who has heard the back end's last word was not cut off.
        Poll::Ready((self.down_way == Way::Open).then(|| Err(Failure::reported())))
    }
}

impl BodyStream for Tunnel {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Poll::Ready(Some(Ok(Chunk::Flush)));
        }
        // First, also while the client takes nothing: otherwise two peers that both wait for the other's bytes would stand still.
        if let Poll::Ready(Err(error)) = self.poll_up(cx) {
            return self.fail("send", &error);
        }
        if self.down_way == Way::Open {
            match self.poll_down(cx) {
                Poll::Ready(Ok(bytes)) if !bytes.is_empty() => {
                    return Poll::Ready(Some(Ok(Chunk::Piece(Piece::Bytes(bytes.into())))));
                }
                Poll::Ready(Ok(_)) => self.down_way = Way::Ending,
                Poll::Ready(Err(error)) => return self.fail("recv", &error),
                Poll::Pending => {}
            }
        }
        if self.down_way != Way::Open && self.poll_rest(cx).is_ready() {
            return self.end();
        }
        if self.idle.poll_over(cx) {
            // Only who has not said all can be late.
            let (level, who) = match self.down_way {
                Way::Open => (LogLevel::Error, "upstream"),
                _ => (LogLevel::Info, "client"),
            };
            let text = "timed out (110: Connection timed out) while proxying upgraded connection";
            self.witness.log(level, format_args!("{who} {text}"));
            return self.end();
        }
        Poll::Pending
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) {
        // What fails here fails again when the client can be told.
        let _ = self.poll_up(cx);
    }
}
