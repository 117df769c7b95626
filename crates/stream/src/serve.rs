//! `stream` as the protocol of a socket: takes connections and datagrams, and holds the sessions of its thread.

use crate::conf::Stream;
use crate::limits::LOOKS_PER_TURN_MAX;
use crate::proxy::INTERNAL;
use crate::secure::Secure;
use crate::session::{Origin, Session};
use crate::udp::{Client, Inbox};
use crate::{tcp, udp};
use brisk_host::live::log_error;
use brisk_host::log::LogLevel;
use brisk_host::memory::Holding;
use brisk_host::peer::{Cut, Peer};
use brisk_host::snapshot::ListenId;
use brisk_host::thread::{Begun, Listener, Passed, Protocol, Thread};
use brisk_host::vars::Context as _;
use brisk_net::listen::{self, Address};
use brisk_net::udp::{Batch, Received, Receiver};
use brisk_net::{Io, clock};
use hashbrown::HashMap;
use rustix::fd::OwnedFd;
use std::cell::{RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Makes a thread able to serve `stream`. Before it listens.
pub fn install(thread: &Rc<Thread>) {
    thread.add_protocol(Rc::new(Serves(Rc::new(Sessions {
        thread: thread.clone(),
        live: RefCell::default(),
        inboxes: RefCell::default(),
        receiver: RefCell::default(),
        batch: RefCell::default(),
    }))));
}

/// A session under way.
struct Running {
    /// The configuration that it is served by.
    generation: u64,
    is_udp: bool,
    cut: Rc<Cut>,
    session: Rc<Session>,
}

/// The sessions of a thread.
pub(crate) struct Sessions {
    thread: Rc<Thread>,
    /// By number.
    live: RefCell<HashMap<u64, Running>>,
    /// Where datagrams go, by their senders.
    inboxes: RefCell<HashMap<Client, Rc<Inbox>>>,
    /// Room for datagrams that come, from clients or from a peer.
    pub receiver: RefCell<Receiver>,
    /// Datagrams on their way out.
    batch: RefCell<Batch>,
}

impl Sessions {
    fn conf(&self) -> Option<Arc<Stream>> {
        self.thread.live().snap.shared_data()
    }

    fn id(&self) -> u64 {
        self.thread.arrivals().handled.up();
        self.thread.shared.connection_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends sessions.
    fn end(&self, which: impl Fn(&Running) -> bool) {
        let all: Vec<Rc<Cut>> = {
            let live = self.live.borrow();
            live.values().filter(|running| which(running)).map(|running| running.cut.clone()).collect()
        };
        all.iter().for_each(|cut| cut.order());
    }

    /// Room for datagrams of one session's turn. It is empty: what a session that panicked has left is not for the next one's client.
    pub fn batch(&self) -> RefMut<'_, Batch> {
        let mut batch = self.batch.borrow_mut();
        batch.clear();
        batch
    }

    /// A datagram's session takes no more of them.
    pub fn forget(&self, client: &Client, inbox: &Rc<Inbox>) {
        let mut inboxes = self.inboxes.borrow_mut();
        if inboxes.get(client).is_some_and(|have| Rc::ptr_eq(have, inbox)) {
            inboxes.remove(client);
        }
    }

    /// Runs a session to its end, wherever that comes from, and logs it. It is counted already.
    fn run<F: Future<Output = u16> + 'static>(
        self: &Rc<Self>,
        session: Session,
        serve: impl FnOnce(Rc<Session>) -> F + 'static,
    ) {
        let cut = Rc::<Cut>::default();
        let session = Rc::new(session);
        let running = Running {
            generation: session.live.generation,
            is_udp: session.origin.is_udp,
            cut: cut.clone(),
            session: session.clone(),
        };
        self.live.borrow_mut().insert(session.origin.id, running);
        let ended = Ended { sessions: self.clone(), session: session.clone() };
        brisk_net::spawn(async move {
            let ended = ended;
            let mut serving = pin!(serve(session));
            let status = poll_fn(|cx| {
                if cut.is_wanted(cx.waker()) {
                    return Poll::Ready(None);
                }
                match catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(cx))) {
                    Ok(polled) => polled.map(Some),
                    Err(_) => {
                        ended.session.log(LogLevel::Alert, format_args!("a session has panicked"));
                        Poll::Ready(Some(INTERNAL))
                    }
                }
            })
            .await;
            // A session that is cut off has not failed.
            ended.session.status.set(status.unwrap_or(crate::proxy::OK));
        });
    }

    /// Takes one datagram.
    fn take(self: &Rc<Self>, listener: &Rc<Listener>, one: &Received<'_>) {
        let Received { from, to, bytes: datagram, .. } = *one;
        let client = Client { listener: listener.address.clone(), local: to, remote: from };
        let known = self.inboxes.borrow().get(&client).cloned();
        if let Some(inbox) = known {
            inbox.put(datagram);
            if inbox.is_full() {
                self.forget(&client, &inbox);
            }
            return;
        }
        let Some((conf, id)) = self.conf().zip(listener.id.get()) else { return };
        let limit = self.thread.live().snap.main.connections as usize;
        if self.thread.connections() >= limit {
            let text = format_args!("{limit} worker_connections are not enough");
            return log_error(&self.thread.live(), LogLevel::Alert, text);
        }
        self.thread.arrivals().accepted.up();
        self.thread.count();
        let bound = listener.with_io(|io| listen::local_ip(io.fd())).flatten();
        let local = bound.map(|bound| came_to(bound, to));
        let session = Session::new(Origin {
            thread: self.thread.clone(),
            place: conf.listens[id.0 as usize].place(|| local).clone(),
            conf,
            listener: listener.clone(),
            id: self.id(),
            peer: Peer::Ip(from),
            is_udp: true,
            local,
            passes: 0,
        });
        let inbox = Rc::new(Inbox::new(session.server().proxy.requests, &session.account));
        inbox.put(datagram);
        if !inbox.is_full() {
            self.inboxes.borrow_mut().insert(client.clone(), inbox.clone());
        }
        let sessions = self.clone();
        self.run(session, move |session| async move {
            let takes = udp::Takes { sessions, client, inbox };
            // Behind the sessions that were told of a datagram before: those of one client leave in the order in which they came.
            brisk_net::one_turn().await;
            udp::serve(&session, &takes).await
        });
    }
}

/// The address that a datagram was sent to, by what its socket is bound to and what it tells. A socket of IPv6 shows those of IPv4 as
/// IPv4-mapped addresses (RFC 4291 §2.5.5.2), as it does for connections.
fn came_to(bound: SocketAddr, told: Option<IpAddr>) -> SocketAddr {
    let ip = match told {
        Some(IpAddr::V4(ip)) if bound.is_ipv6() => ip.to_ipv6_mapped().into(),
        Some(ip) => ip,
        None => bound.ip(),
    };
    SocketAddr::new(ip, bound.port())
}

/// Ends what a session has, whether its task ran to its end or was dropped.
struct Ended {
    sessions: Rc<Sessions>,
    session: Rc<Session>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.sessions.live.borrow_mut().remove(&self.session.origin.id);
        if !std::thread::panicking() {
            // Outside of the task's own guard: a log that fails must not end the worker.
            if catch_unwind(AssertUnwindSafe(|| self.session.finish())).is_err() {
                self.session.log(LogLevel::Alert, format_args!("logging a session has panicked"));
            }
        }
        self.sessions.thread.uncount();
    }
}

struct Serves(Rc<Sessions>);

impl Protocol for Serves {
    fn find(&self, address: &Address) -> Option<ListenId> {
        self.0.conf()?.find(address)
    }

    fn moves_later(&self, _: &Listener) -> bool {
        false
    }

    fn adopt(&self, fd: OwnedFd, peer: Peer, listener: Rc<Listener>) {
        self.take_over(Passed { begun: Begun::Socket(fd), peer, local: None, times: 0 }, listener);
    }

    fn take_over(&self, passed: Passed, listener: Rc<Listener>) {
        let sessions = &self.0;
        let thread = &sessions.thread;
        let (Some(conf), Some(id)) = (sessions.conf(), listener.id.get()) else { return thread.uncount() };
        let Passed { begun, peer, local, times } = passed;
        let (begun, secure) = match begun {
            Begun::Socket(fd) => match if peer == Peer::Unix { Ok(Io::local(fd)) } else { Io::new(fd) } {
                Ok(io) => (tcp::Begun::Plain(io), None),
                Err(_) => return thread.uncount(),
            },
            Begun::Secure(secure) => {
                let stream = Rc::new(secure.stream);
                let known = Secure::new(stream.clone(), secure.rules, secure.hello);
                (tcp::Begun::Secure(stream), Some((secure.name, known)))
            }
        };
        let local = local.or_else(|| begun.local());
        let place = conf.listens[id.0 as usize].place(|| local).clone();
        if !place.server.tcp_nodelay && matches!(peer, Peer::Ip(_)) {
            begun.delay_small_packets();
        }
        let session = Session::new(Origin {
            thread: thread.clone(),
            conf,
            place,
            listener,
            id: sessions.id(),
            peer,
            is_udp: false,
            local,
            passes: times,
        });
        if let Some((name, known)) = secure {
            name.into_iter().for_each(|name| drop(session.asked_name.set(name)));
            let _ = session.secure.set(Box::new(known));
        }
        sessions.run(session, move |session| async move { tcp::serve(&session, begun).await });
    }

    fn datagrams(&self, listener: &Rc<Listener>) -> bool {
        let mut receiver = self.0.receiver.borrow_mut();
        for _ in 0..LOOKS_PER_TURN_MAX {
            // What is told here of an answer of ours that did not arrive is no error: the datagrams that wait are none the worse.
            let each = |one: Received<'_>| self.0.take(listener, &one);
            match listener.with_io(|io| receiver.receive(io.fd(), each)) {
                Some(Ok(looked)) if looked.has_more => {}
                Some(Ok(_)) | None => return false,
                Some(Err(error)) => {
                    let why = brisk_conf::os_text(&error);
                    let text = format_args!("recvfrom() on {} failed ({why})", listener.address);
                    log_error(&self.0.thread.live(), LogLevel::Crit, text);
                    return false;
                }
            }
        }
        true
    }

    // Sessions are served to their end by the configuration under which they began.
    fn switched(&self, _: &[Rc<Listener>]) {}

    // Without their socket, sessions of datagrams can answer nothing.
    fn drain(&self) {
        self.0.end(|running| running.is_udp);
    }

    fn cut(&self, generation: u64) {
        self.0.end(|running| running.generation < generation);
    }

    fn holdings(&self, tell: &mut dyn FnMut(Holding)) {
        let now_ms = clock::mono_ms();
        for (&connection, running) in self.0.live.borrow().iter() {
            let session = &running.session;
            let moved = session.received_bytes.get() + session.sent_bytes.get();
            let bytes_per_sec = session.account.rate(moved, session.started.mono_ms, now_ms);
            let bytes = size_of::<Session>() + session.account.bytes();
            tell(Holding { connection, bytes, bytes_per_sec });
        }
    }

    fn give_up(&self, holding: &Holding) -> bool {
        let found = self
            .0
            .live
            .borrow()
            .get(&holding.connection)
            .map(|running| (running.session.clone(), running.cut.clone()));
        let Some((session, cut)) = found else { return false };
        let text = format_args!("session is closed for want of memory: it holds {} bytes", holding.bytes);
        session.log(LogLevel::Info, text);
        cut.order();
        true
    }
}
