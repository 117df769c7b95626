//! A client's datagrams that belong together.

use crate::conf::{Action, Proxy};
use crate::limits::{
    DATAGRAM_SPARE_BYTES_MAX, DATAGRAMS_PER_TURN_MAX, DATAGRAMS_SPARE_MAX, DATAGRAMS_WAITING_BYTES_MAX,
    DATAGRAMS_WAITING_MAX,
};
use crate::opening;
use crate::proxy::{self, BAD_GATEWAY, Connected, INTERNAL, OK, Status, header};
use crate::relay::Rate;
use crate::serve::Sessions;
use crate::session::{Session, shown};
use crate::tcp::{full, poll_rates, rate_of};
use brisk_conf::os_text;
use brisk_host::log::LogLevel;
use brisk_host::memory::{Account, Charge};
use brisk_host::vars::Context as _;
use brisk_net::listen::Address;
use brisk_net::udp::{Batch, gather};
use brisk_net::{Deadline, clock};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Datagrams of a client that the session has not looked at yet.
pub struct Inbox {
    waiting: RefCell<VecDeque<Vec<u8>>>,
    /// Bytes of those, as a part of what the session holds.
    held: Charge,
    /// Memory of datagrams that have left, for the next ones.
    spare: RefCell<Vec<Vec<u8>>>,
    waker: RefCell<Option<Waker>>,
    /// Datagrams so far, those that wait included.
    count: Cell<u64>,
    /// How many the session takes; 0: any number.
    most: u64,
}

impl Inbox {
    /// For so many datagrams; 0: any number. Those that wait are charged to `account`.
    pub fn new(most: u64, account: &Rc<Account>) -> Inbox {
        Inbox {
            waiting: RefCell::default(),
            held: account.hold(0),
            spare: RefCell::default(),
            waker: RefCell::default(),
            count: Cell::new(0),
            most,
        }
    }

    /// Whether the next datagram begins another session.
    pub fn is_full(&self) -> bool {
        self.most > 0 && self.count.get() >= self.most
    }

    /// Takes a datagram; it is dropped where the session does not keep up.
    pub fn put(&self, datagram: &[u8]) {
        let mut waiting = self.waiting.borrow_mut();
        let held = self.held.bytes() + datagram.len();
        if waiting.len() < DATAGRAMS_WAITING_MAX && held <= DATAGRAMS_WAITING_BYTES_MAX {
            self.held.set(held);
            let mut bytes = self.spare.borrow_mut().pop().unwrap_or_default();
            bytes.extend_from_slice(datagram);
            waiting.push_back(bytes);
            self.count.set(self.count.get() + 1);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// A datagram that was taken has left.
    fn give_back(&self, mut datagram: Vec<u8>) {
        datagram.clear();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < DATAGRAMS_SPARE_MAX && datagram.capacity() <= DATAGRAM_SPARE_BYTES_MAX {
            spare.push(datagram);
        }
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Vec<u8>> {
        match self.waiting.borrow_mut().pop_front() {
            Some(datagram) => {
                self.held.set(self.held.bytes() - datagram.len());
                Poll::Ready(datagram)
            }
            None => {
                self.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// A client, as far as a session is its own. What it sends to another address of ours is another session, which answers from there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The socket that it has sent to.
    pub listener: Address,
    /// The address of ours that it has sent to, where the socket stands for all of them.
    pub local: Option<IpAddr>,
    /// Its own address.
    pub remote: SocketAddr,
}

/// A session's place among those of its thread; dropped, its client's next datagram begins another.
pub struct Takes {
    /// The sessions of the thread.
    pub sessions: Rc<Sessions>,
    /// What names the session.
    pub client: Client,
    /// Where the client's datagrams wait.
    pub inbox: Rc<Inbox>,
}

impl Takes {
    fn leave(&self) {
        self.sessions.forget(&self.client, &self.inbox);
    }
}

impl Drop for Takes {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Serves a session; gives the status that it ends with.
pub async fn serve(session: &Session, takes: &Takes) -> Status {
    session.info(format_args!(
        "udp client {} connected to {}",
        full(session),
        shown(&session.origin.listener.address)
    ));
    if let Err(status) = opening::begin(session) {
        return status;
    }
    let server = session.server();
    match &*server.action {
        Action::Serve(_) => {
            session.log(LogLevel::Error, format_args!("the server's protocol is one of connections"));
            INTERNAL
        }
        Action::HandOver(_) => {
            session.log(LogLevel::Error, format_args!("\"pass\" is for TCP connections"));
            INTERNAL
        }
        Action::Return(text) => {
            let text = text.eval(session);
            takes.leave();
            let received = takes.inbox.waiting.borrow().front().map_or(0, |first| first.len() as u64);
            session.moved(received, 0);
            let mut batch = takes.sessions.batch();
            // It is empty, and takes any datagram.
            let _ = batch.push(&text);
            reply(session, &takes.client, &mut batch);
            OK
        }
        Action::Pass(pass) => {
            let proxy = &server.proxy;
            let connected = match proxy::connect(session, pass, proxy).await {
                Ok(connected) => connected,
                Err(status) => return status,
            };
            match relay(session, takes, &connected).await {
                Ok(()) => {
                    connected.finish(session);
                    OK
                }
                Err(error) => {
                    session.log(LogLevel::Error, format_args!("{error}"));
                    connected.failed(session);
                    BAD_GATEWAY
                }
            }
        }
    }
}

/// Sends datagrams to the client; false if its socket is gone. As with any datagram, that one does not arrive is no error.
fn reply(session: &Session, to: &Client, batch: &mut Batch) -> bool {
    let listener = &session.origin.listener;
    while !batch.is_empty() {
        let note = |bytes: usize| session.moved(0, bytes as u64);
        let sent = listener.with_io(|io| batch.send(io.fd(), Some(to.remote), to.local, note));
        match sent {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                let why = os_text(&error);
                let text = format_args!("sendto() failed ({why}) while writing to client");
                session.log(LogLevel::Info, text);
            }
            // The configuration has no such socket any more.
            None => {
                batch.clear();
                return false;
            }
        }
    }
    true
}

/// The numbers that decide when a session is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    requests: u64,
    responses: u64,
}

impl Tally {
    /// Whether all answers have come that there are to be, so that nothing is missing if no more come.
    fn is_answered(self, proxy: &Proxy) -> bool {
        proxy.responses.is_none_or(|each| self.responses >= each.saturating_mul(self.requests))
    }

    /// Whether the session takes no more datagrams of its client.
    fn is_full(self, proxy: &Proxy) -> bool {
        proxy.requests > 0 && self.requests >= proxy.requests
    }

    /// Whether nothing is to be waited for.
    fn is_over(self, proxy: &Proxy) -> bool {
        let takes_more = proxy.requests > 0 && self.requests < proxy.requests;
        !takes_more && proxy.responses.is_some() && self.is_answered(proxy)
    }
}

/// Passes datagrams on until all answers have come or nothing has for `proxy_timeout`. The error is a message for the log.
async fn relay(session: &Session, takes: &Takes, connected: &Connected) -> Result<(), String> {
    let server = session.server();
    let proxy = &server.proxy;
    let mut relay = Relay {
        session,
        takes,
        connected,
        began_ms: clock::mono_ms(),
        tally: Tally::default(),
        header: header(session, proxy).into(),
        upload: Rate::new(rate_of(session, &proxy.upload_rate)),
        download: Rate::new(rate_of(session, &proxy.download_rate)),
    };
    if relay.download.is_none() {
        // Otherwise each datagram is looked at alone, and the rate kept.
        gather(connected.stream.io().fd());
    }
    let wait = Cell::new(None);
    let mut idle = Deadline::default();
    idle.set(proxy.timeout);
    poll_fn(|cx| {
        let before = relay.tally;
        let (up, down) = match relay.poll_upward(cx, proxy).and_then(|up| Ok((up, relay.poll_downward(cx)?)))
        {
            Ok((up, Some(down))) => (up, down),
            Ok((_, None)) => return Poll::Ready(Ok(())),
            Err(error) => return Poll::Ready(Err(error)),
        };
        if relay.tally.is_over(proxy) {
            return Poll::Ready(Ok(()));
        }
        if relay.tally != before {
            idle.set(proxy.timeout);
        }
        if idle.poll_over(cx) {
            return Poll::Ready(if relay.tally.is_answered(proxy) {
                Ok(())
            } else {
                Err("upstream timed out (110: Connection timed out) while proxying".to_string())
            });
        }
        if up.max(down) >= DATAGRAMS_PER_TURN_MAX {
            cx.waker().wake_by_ref();
        }
        poll_rates(cx, &wait, [resumes(relay.upload.as_ref()), resumes(relay.download.as_ref())]);
        Poll::Pending
    })
    .await
}

/// When a rate lets the next datagram pass, if not now. None is cut: what is over the rate is made up for by those after it.
fn resumes(rate: Option<&Rate>) -> Option<u64> {
    rate.and_then(|rate| rate.room(clock::mono_ms()).err())
}

/// What moves the datagrams of a session.
struct Relay<'a> {
    session: &'a Session,
    takes: &'a Takes,
    connected: &'a Connected,
    began_ms: u64,
    tally: Tally,
    /// `proxy_protocol`: stands in front of the first datagram's bytes.
    header: Vec<u8>,
    upload: Option<Rate>,
    download: Option<Rate>,
}

impl Relay<'_> {
    /// Sends on what waits of the client's datagrams; gives how many they were.
    fn poll_upward(&mut self, cx: &mut Context<'_>, proxy: &Proxy) -> Result<usize, String> {
        let mut batch = self.takes.sessions.batch();
        let mut turns = 0;
        while turns < DATAGRAMS_PER_TURN_MAX
            && !self.tally.is_full(proxy)
            && resumes(self.upload.as_ref()).is_none()
        {
            let Poll::Ready(datagram) = self.takes.inbox.poll_next(cx) else { break };
            self.tally.requests += 1;
            turns += 1;
            self.upload.iter_mut().for_each(|rate| rate.note(datagram.len()));
            self.session.moved(datagram.len() as u64, 0);
            if self.header.is_empty() {
                put(&mut batch, &datagram, |batch| self.send(batch))?;
            } else {
                let mut first = std::mem::take(&mut self.header);
                first.extend_from_slice(&datagram);
                put(&mut batch, &first, |batch| self.send(batch))?;
            }
            self.takes.inbox.give_back(datagram);
        }
        self.send(&mut batch)?;
        Ok(turns)
    }

    /// Sends datagrams to the peer. What its socket has no room for is lost, as on any way.
    fn send(&self, batch: &mut Batch) -> Result<(), String> {
        let fd = self.connected.stream.io().fd();
        let sent = batch.send(fd, None, None, |bytes| {
            self.connected.moved(bytes as u64, 0);
            self.session.attempt(|attempt| attempt.sent_bytes += bytes as u64);
        });
        sent.map_err(|error| {
            batch.clear();
            let why = os_text(&error);
            format!("send() failed ({why}) while proxying and writing to upstream")
        })
    }

    /// Sends on what has come from the peer; gives how many datagrams they were. `None`: the client's socket is gone.
    fn poll_downward(&mut self, cx: &mut Context<'_>) -> Result<Option<usize>, String> {
        let peer = self.connected.stream.io();
        let Takes { sessions, client, .. } = self.takes;
        let (mut receiver, mut batch) = (sessions.receiver.borrow_mut(), sessions.batch());
        let failed = |why: &str| format!("recv() failed ({why}) while proxying and reading from upstream");
        let mut count = 0;
        while count < DATAGRAMS_PER_TURN_MAX
            && resumes(self.download.as_ref()).is_none()
            && peer.poll_readable(cx).is_ready()
        {
            let most = if self.download.is_some() { 1 } else { usize::MAX };
            let (mut has_client, before) = (true, count);
            let looked = receiver.receive_some(peer.fd(), most, |one| {
                count += 1;
                self.note(one.bytes.len());
                let _ = put(&mut batch, one.bytes, |batch| {
                    has_client &= reply(self.session, client, batch);
                    Ok(())
                });
            });
            if !(reply(self.session, client, &mut batch) && has_client) {
                return Ok(None);
            }
            match looked {
                Err(error) => return Err(failed(&os_text(&error))),
                // What has failed stays readable.
                Ok(looked) if !looked.has_more && peer.is_closed() && count == before => {
                    return Err(failed("the socket is closed"));
                }
                Ok(looked) if !looked.has_more => peer.mark_drained(),
                Ok(_) => {}
            }
        }
        Ok(Some(count))
    }

    /// A datagram of so many bytes has come from the peer.
    fn note(&mut self, bytes: usize) {
        self.tally.responses += 1;
        self.download.iter_mut().for_each(|rate| rate.note(bytes));
        self.connected.moved(0, bytes as u64);
        let began_ms = self.began_ms;
        self.session.attempt(|attempt| {
            attempt.received_bytes += bytes as u64;
            if attempt.first_byte_ms.is_none() {
                let connect_ms = attempt.connect_ms.unwrap_or_default();
                attempt.first_byte_ms = Some(connect_ms + clock::mono_ms().saturating_sub(began_ms));
            }
        });
    }
}

/// Puts a datagram into a batch, which is sent first if it has no room.
fn put(
    batch: &mut Batch,
    datagram: &[u8],
    send: impl FnOnce(&mut Batch) -> Result<(), String>,
) -> Result<(), String> {
    if !batch.push(datagram) {
        send(batch)?;
        // An empty one takes any datagram.
        let _ = batch.push(datagram);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_over_when_its_answers_are_there() {
        let check = |requests, expected, tally: (u64, u64), want: (bool, bool)| {
            let proxy = Proxy { responses: expected, requests, ..Proxy::default() };
            let tally = Tally { requests: tally.0, responses: tally.1 };
            assert_eq!((tally.is_answered(&proxy), tally.is_over(&proxy)), want, "{tally:?}");
        };
        // Any number of answers: only the time ends it.
        check(0, None, (1, 5), (true, false));
        check(0, Some(0), (1, 0), (true, true));
        check(0, Some(2), (1, 1), (false, false));
        check(0, Some(2), (1, 2), (true, true));
        // A session of two datagrams waits for the second.
        check(2, Some(1), (1, 1), (true, false));
        check(2, Some(1), (2, 1), (false, false));
        check(2, Some(1), (2, 2), (true, true));
        check(2, None, (2, 9), (true, false));
    }

    #[test]
    fn what_a_session_cannot_keep_up_with_is_dropped() {
        let account = Rc::default();
        let inbox = Inbox::new(0, &account);
        (0..2 * DATAGRAMS_WAITING_MAX).for_each(|_| inbox.put(b"x"));
        let mut cx = Context::from_waker(Waker::noop());
        let mut taken = 0;
        while inbox.poll_next(&mut cx).is_ready() {
            taken += 1;
        }
        assert_eq!(taken, DATAGRAMS_WAITING_MAX);
        // Large ones are counted by their bytes, and make room again when they have left.
        for _ in 0..2 {
            (0..DATAGRAMS_WAITING_MAX).for_each(|_| inbox.put(&vec![0; 60_000]));
            let held: usize = inbox.waiting.borrow().iter().map(Vec::capacity).sum();
            assert!((DATAGRAMS_WAITING_BYTES_MAX - 60_000..=DATAGRAMS_WAITING_BYTES_MAX).contains(&held));
            assert_eq!(account.bytes(), held);
            while let Poll::Ready(datagram) = inbox.poll_next(&mut cx) {
                inbox.give_back(datagram);
            }
            assert!(inbox.spare.borrow().is_empty());
            assert_eq!(account.bytes(), 0);
        }
        let inbox = Inbox::new(2, &account);
        let full = [1, 2, 3].map(|_| {
            inbox.put(b"x");
            inbox.is_full()
        });
        assert_eq!(full, [false, true, true]);
    }
}
