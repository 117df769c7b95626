//! Requests over HTTP/3 from a client's engine to the server's session and back, over streams in memory.

use super::hot::{self, Bounds};
use super::life;
use super::session::Session;
use super::transport::{Quic, Read, Written};
use crate::conf::ids::ListenId;
use crate::connection::Connection;
use crate::module::Module;
use crate::stream::Streams as _;
use crate::table::{Slot, State};
use crate::testing;
use brisk_h3::qpack::{begin, write_literal};
use brisk_h3::{
    Config, Connection as Engine, ErrorCode, Event, Field, FieldSink, HeadKind, HeadSink, Own, Role, frame,
};
use brisk_host::peer::Peer;
use brisk_host::thread::Listener;
use brisk_net::listen::Address;
use brisk_net::{Io, Stream, clock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::rc::Rc;

static MODULES: &[&Module] = &[&crate::core::MAIN, &crate::core::HTTP, &crate::core::HTTP3];

/// What a stream has brought, and whether it ends there.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    fin: bool,
}

/// A QUIC connection in memory.
struct Wire {
    incoming: RefCell<BTreeMap<u64, Incoming>>,
    outgoing: RefCell<BTreeMap<u64, Vec<u8>>>,
    finished: RefCell<Vec<u64>>,
    resets: RefCell<Vec<(u64, u64)>>,
    closed: Cell<Option<u64>>,
    /// Bytes that are taken in all before a stream is blocked.
    room: Cell<usize>,
    next_uni: Cell<u64>,
    pings: Cell<u32>,
    /// Bytes that the client has not acknowledged.
    unacknowledged: Cell<usize>,
}

impl Quic for Wire {
    fn read(&self, stream: u64, max: usize, into: &mut Vec<u8>) -> Read {
        let mut all = self.incoming.borrow_mut();
        let Some(incoming) = all.get_mut(&stream) else { return Read::Gone };
        let count = incoming.bytes.len().min(max);
        into.extend(incoming.bytes.drain(..count));
        match (incoming.bytes.is_empty() && incoming.fin, count) {
            (true, _) => {
                all.remove(&stream);
                Read::End
            }
            (false, 0) => Read::Blocked,
            (false, _) => Read::Some,
        }
    }

    fn take_reset(&self, _: u64) -> Option<u64> {
        None
    }

    fn ping(&self) {
        self.pings.set(self.pings.get() + 1);
    }

    fn write(&self, stream: u64, bytes: &[u8]) -> Written {
        if self.finished.borrow().contains(&stream) || self.closed.get().is_some() {
            return Written::Gone;
        }
        let count = bytes.len().min(self.room.get());
        if count == 0 {
            return Written::Blocked;
        }
        self.room.set(self.room.get() - count);
        self.outgoing.borrow_mut().entry(stream).or_default().extend_from_slice(&bytes[..count]);
        Written::Some(count)
    }

    fn finish(&self, stream: u64) {
        self.finished.borrow_mut().push(stream);
    }

    fn reset(&self, stream: u64, code: u64) {
        self.resets.borrow_mut().push((stream, code));
    }

    fn stop(&self, stream: u64, _: u64) {
        self.incoming.borrow_mut().remove(&stream);
    }

    fn set_priority(&self, _: u64, _: i32) {}

    fn open_uni(&self) -> Option<u64> {
        let id = self.next_uni.get();
        self.next_uni.set(id + 4);
        Some(id)
    }

    fn close(&self, code: u64, _: &str) {
        self.closed.set(self.closed.get().or(Some(code)));
    }

    fn sending_streams(&self) -> usize {
        // Our own ones have nothing to be acknowledged here.
        usize::from(self.unacknowledged.get() > 0) * 10
    }

    fn memory(&self) -> usize {
        self.unacknowledged.get()
    }
}

/// A response as a client hears it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    status: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    ended: bool,
}

impl FieldSink for Answer {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match field.name {
            b":status" => self.status = text(field.value),
            name => self.fields.push((text(name), text(field.value))),
        }
    }
}

impl HeadSink for Answer {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

/// A server's connection with a client at its other end.
struct Pair {
    session: Rc<Session>,
    conn: Rc<Connection>,
    wire: Rc<Wire>,
    client: Engine<()>,
    begun: Vec<u64>,
}

fn server(directives: &str) -> Pair {
    let text = format!("events {{}} http {{ server {{ listen 127.0.0.1:8080; {directives} }} }}");
    let thread = testing::thread(MODULES, &text);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let listener = Rc::new(Listener::without_socket(Address::Ip(address), Some(ListenId(0))));
    let peer = Peer::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000)));
    // Datagrams would come and leave by it.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let io = Stream::from(Io::local(socket.into()));
    let conn = Rc::new(Connection::new(io, 1, peer, listener, clock::mono_ms()));
    let far_ms = clock::mono_ms() + 60_000;
    let slot =
        Slot { conn: conn.clone(), state: State::Idle, deadline_ms: far_ms, timer_ms: far_ms, turn: 0 };
    let index = thread.insert(slot) as u32;
    let wire = Rc::new(Wire {
        incoming: RefCell::default(),
        outgoing: RefCell::default(),
        finished: RefCell::default(),
        resets: RefCell::default(),
        closed: Cell::new(None),
        room: Cell::new(usize::MAX),
        next_uni: Cell::new(3),
        pings: Cell::new(0),
        unacknowledged: Cell::new(0),
    });
    let bounds = Bounds { streams_max: 10, stream_buffer_bytes: 1000 };
    let session = hot::begin(&thread, &thread.live(), index, &conn, wire.clone(), bounds).expect("a server");
    let client = Engine::new(Role::Client, Config::default(), 0);
    let mut pair = Pair { session, conn, wire, client, begun: Vec::new() };
    let settings = std::mem::take(pair.client.own_output(Own::Control));
    pair.send(2, &settings, false);
    pair
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    begin(&mut section);
    fields.iter().for_each(|(name, value)| write_literal(name.as_bytes(), value.as_bytes(), &mut section));
    let mut out = Vec::new();
    frame::write(frame::kind::HEADERS, &section, &mut out);
    out
}

fn get(path: &str) -> Vec<u8> {
    head(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", path)])
}

impl Pair {
    /// The client sends bytes on a stream; the server's turn follows.
    fn send(&mut self, stream: u64, bytes: &[u8], fin: bool) {
        {
            let mut all = self.wire.incoming.borrow_mut();
            let incoming = all.entry(stream).or_default();
            incoming.bytes.extend_from_slice(bytes);
            incoming.fin |= fin;
        }
        if self.begun.contains(&stream) {
            hot::readable(&self.session, &self.conn, stream);
        } else {
            self.begun.push(stream);
            hot::opened(&self.session, &self.conn, stream);
        }
        hot::work_off(&self.session, &self.conn);
    }

    /// What the client makes of what has come on a stream.
    fn answer(&mut self, stream: u64) -> Answer {
        let mut answer = Answer::default();
        if !self.client.has(stream) {
            self.client.open(stream, ());
        }
        let bytes = self.wire.outgoing.borrow_mut().remove(&stream).unwrap_or_default();
        let fin = self.wire.finished.borrow().contains(&stream);
        let mut input = bytes.as_slice();
        while let Some(event) =
            self.client.receive(stream, &mut input, fin, &mut answer).expect("valid frames")
        {
            match event {
                Event::Head { end, .. } => answer.ended |= end,
                Event::Data { data, end, .. } => {
                    answer.body.extend_from_slice(data);
                    answer.ended |= end;
                }
                other => panic!("{other:?}"),
            }
        }
        answer
    }

    /// What came on the server's control stream, behind its type.
    fn control(&self) -> Vec<u8> {
        let sent = self.wire.outgoing.borrow().get(&3).cloned().unwrap_or_default();
        assert_eq!(sent.first(), Some(&0), "the control stream's type");
        sent[1..].to_vec()
    }
}

#[test]
fn a_request_is_answered() {
    let mut pair = server("");
    pair.send(0, &get("/missing"), true);
    let answer = pair.answer(0);
    assert_eq!((answer.status.as_str(), answer.ended), ("404", true));
    let length = answer.fields.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value);
    assert_eq!(length, Some(&answer.body.len().to_string()));
    assert!(answer.fields.iter().any(|(name, value)| name == "content-type" && value == "text/html"));
    assert!(answer.fields.iter().any(|(name, value)| name == "date" && value.len() == 29));
    assert!(pair.session.is_idle() && pair.wire.closed.get().is_none());
    // Another one on the same connection; a HEAD has no body.
    let ask = head(&[(":method", "HEAD"), (":scheme", "https"), (":authority", "a"), (":path", "/missing")]);
    pair.send(4, &ask, true);
    let bare = pair.answer(4);
    assert_eq!((bare.status.as_str(), bare.body.len(), bare.ended), ("404", 0, true));
    assert_eq!(pair.conn.requests.get(), 2);
    let (frame, used) = frame::FrameHead::parse(&pair.control()).expect("a frame");
    assert_eq!((frame.kind, used + frame.len as usize), (frame::kind::SETTINGS, pair.control().len()));
}

#[test]
fn requests_in_pieces_and_answers_through_small_windows() {
    let mut pair = server("");
    pair.wire.room.set(0);
    let ask = get("/missing");
    for at in 0..ask.len() {
        pair.send(0, &ask[at..=at], at + 1 == ask.len());
    }
    assert!(!pair.session.is_idle() && !pair.wire.outgoing.borrow().contains_key(&0));
    let mut turns = 0;
    while pair.wire.finished.borrow().is_empty() {
        pair.wire.room.set(7);
        hot::writable(&pair.session, 0);
        hot::work_off(&pair.session, &pair.conn);
        turns += 1;
        assert!(turns < 1000);
    }
    let answer = pair.answer(0);
    assert_eq!((answer.status.as_str(), answer.ended), ("404", true));
    assert!(turns > 10 && pair.session.is_idle());
}

/// RFC 9114 §4.1.2, §4.3.1: answered, and an error all the same.
#[test]
fn malformed_requests_are_told_so() {
    let malformed = [
        head(&[(":method", "GET"), (":scheme", "https"), (":authority", "a")]),
        head(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/"), ("A", "b")]),
        head(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
            ("connection", "x"),
        ]),
        head(&[(":method", "GET"), (":scheme", "https"), (":path", "/")]),
    ];
    for ask in malformed {
        let mut pair = server("");
        pair.send(0, &ask, true);
        assert_eq!(*pair.wire.resets.borrow(), [(0, ErrorCode::MESSAGE_ERROR.0)]);
        assert!(pair.session.is_idle() && pair.wire.closed.get().is_none());
    }
}

/// RFC 9114 §4.1.2. What QUIC has and has not sent yet would be dropped by a reset.
#[test]
fn an_answer_to_a_malformed_request_is_not_overtaken_by_a_reset() {
    let mut pair = server("");
    pair.send(0, &get("/missing"), true);
    pair.session.break_stream(0);
    assert!(pair.wire.resets.borrow().is_empty());
    let answer = pair.answer(0);
    assert_eq!((answer.status.as_str(), answer.ended), ("404", true));
    // Of this one QUIC has taken nothing yet.
    pair.wire.room.set(0);
    pair.send(4, &get("/missing"), true);
    pair.session.break_stream(4);
    assert_eq!(*pair.wire.resets.borrow(), [(4, ErrorCode::MESSAGE_ERROR.0)]);
    assert!(pair.session.is_idle());
}

#[test]
fn a_broken_rule_ends_the_connection_alone() {
    let mut pair = server("");
    let mut data = Vec::new();
    frame::write(frame::kind::DATA, b"x", &mut data);
    pair.send(0, &data, false);
    assert_eq!(pair.wire.closed.get(), Some(ErrorCode::FRAME_UNEXPECTED.0));
    assert!(pair.session.is_dead());
    pair.send(4, &get("/"), true);
    assert!(!pair.wire.outgoing.borrow().contains_key(&4), "nothing more is heard");
}

#[test]
fn a_head_waits_for_the_table() {
    let mut pair = server("");
    // `:path: /a` by an entry that has not come.
    let section = [2, 0, 0x80, 0xd1, 0xd7, 0x50, 1, b'a'];
    let mut ask = Vec::new();
    frame::write(frame::kind::HEADERS, &section, &mut ask);
    pair.send(0, &ask, true);
    assert!(!pair.wire.outgoing.borrow().contains_key(&0));
    pair.send(6, &[2, 0x3f, 0xe1, 0x1f, 0xc1, 2, b'/', b'a'], false);
    let answer = pair.answer(0);
    assert_eq!((answer.status.as_str(), answer.ended), ("404", true));
}

#[test]
fn the_last_request_of_a_connection() {
    let mut pair = server("keepalive_requests 1;");
    pair.send(0, &get("/missing"), true);
    assert_eq!(pair.answer(0).status, "404");
    let control = pair.control();
    assert!(control.ends_with(&[frame::kind::GOAWAY as u8, 1, 4]), "{control:02x?}");
    assert_eq!(pair.wire.closed.get(), Some(ErrorCode::NO_ERROR.0));
}

#[test]
fn streams_of_unknown_types_and_beyond_the_bounds() {
    let mut pair = server("");
    pair.send(6, &[0x21, 1, 2], false);
    assert!(!pair.wire.incoming.borrow().contains_key(&6), "stopped");
    pair.wire.room.set(0);
    for at in 0..11 {
        pair.send(4 * at, &get("/missing")[..5], false);
    }
    assert_eq!(*pair.wire.resets.borrow(), [(40, ErrorCode::REQUEST_REJECTED.0)]);
}

/// An answer that waits for room, and of which the client wants no more: the engine has forgotten its request already.
#[test]
fn an_answer_that_is_not_wanted_is_forgotten() {
    let mut pair = server("");
    pair.wire.room.set(0);
    for at in 0..20 {
        pair.send(4 * at, &get("/missing"), true);
        assert_eq!(pair.session.states.borrow().len(), 1);
        hot::stopped(&pair.session, &pair.conn, 4 * at, ErrorCode::REQUEST_CANCELLED.0);
        assert!(pair.session.states.borrow().is_empty() && pair.session.is_idle());
    }
    assert_eq!((pair.wire.resets.borrow().len(), pair.wire.closed.get()), (20, None));
}

#[test]
fn an_answer_that_is_not_taken_is_given_up() {
    let mut pair = server("send_timeout 1s;");
    pair.wire.room.set(10);
    pair.send(0, &get("/missing"), true);
    let now = clock::mono_ms();
    assert_eq!(pair.session.stuck(now + 999, 1000), [0; 0]);
    assert_eq!(pair.session.stuck(now + 1000, 1000), [0]);
    pair.session.states.borrow_mut().get_mut(&0).unwrap().stuck_since_ms = 1;
    assert!(life::expired(&pair.session, &pair.conn).is_some());
    assert_eq!(*pair.wire.resets.borrow(), [(0, ErrorCode::REQUEST_CANCELLED.0)]);
    assert!(pair.session.is_idle() && pair.wire.closed.get().is_none());
}

/// As in nginx the stream ends, and the connection goes on.
#[test]
fn a_head_that_is_late_ends_its_stream() {
    let mut pair = server("");
    pair.send(0, &get("/missing")[..5], false);
    let now = clock::mono_ms();
    assert_eq!(pair.session.late_heads(now), [0; 0]);
    assert_eq!(pair.session.late_heads(now + 60_000), [0]);
    pair.session.states.borrow_mut().get_mut(&0).unwrap().head_deadline_ms = 1;
    assert!(life::expired(&pair.session, &pair.conn).is_some());
    assert_eq!(*pair.wire.resets.borrow(), [(0, ErrorCode::REQUEST_INCOMPLETE.0)]);
    assert!(pair.session.is_idle() && pair.wire.closed.get().is_none());
    assert_eq!((pair.session.head_deadline_ms(), pair.conn.requests.get()), (None, 1));
    pair.send(4, &get("/missing"), true);
    assert_eq!(pair.answer(4).status, "404");
}

/// RFC 9114 §4.2.2: answered, since the client may not have known the limit.
#[test]
fn a_head_that_is_too_large_is_answered() {
    let mut pair = server("large_client_header_buffers 4 1k;");
    let value = "x".repeat(2000);
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/"), ("x", &value)];
    pair.send(0, &head(&fields), false);
    let answer = pair.answer(0);
    assert_eq!((answer.status.as_str(), answer.ended), ("400", true));
    assert!(pair.wire.resets.borrow().is_empty() && pair.wire.closed.get().is_none());
    assert!(pair.session.is_idle());
}

/// A client that asks for something and acknowledges nothing of the answer.
#[test]
fn an_answer_that_is_never_acknowledged_ends_the_connection() {
    let mut pair = server("send_timeout 30s;");
    pair.send(0, &get("/missing"), true);
    pair.wire.unacknowledged.set(1000);
    let now_ms = clock::mono_ms();
    let is_over =
        |after_ms| life::is_never_acknowledged(&pair.session, &pair.conn, now_ms + after_ms, 30_000);
    assert!(!pair.session.is_idle() && !is_over(0) && !is_over(29_000));
    // A slow one acknowledges a little.
    pair.wire.unacknowledged.set(900);
    assert!(!is_over(30_000) && !is_over(59_000));
    assert!(is_over(60_000));
    // Another answer is another beginning.
    pair.conn.requests.set(2);
    pair.wire.unacknowledged.set(2000);
    assert!(!is_over(60_000) && is_over(90_000));
    pair.wire.unacknowledged.set(0);
    assert!(!is_over(60_000), "all has arrived");
    // While a request takes its time the client is asked for a sign of life.
    pair.wire.unacknowledged.set(1000);
    assert!(life::expired(&pair.session, &pair.conn).is_some());
    assert_eq!(pair.wire.pings.get(), 1);
}
