//! A connection's rules, one after the other, and two connections that talk to each other.

use super::*;
use crate::frame::{FrameHead, kind};
use crate::qpack::{begin, write_literal, write_status};
use brisk_mux::{Field, FieldSink, HeadKind};

mod rules;

#[derive(Default)]
struct Heads {
    fields: Vec<(String, String)>,
    kind: Option<HeadKind>,
    interim: bool,
}

impl FieldSink for Heads {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.interim |= field.name == b":status" && field.value.starts_with(b"1");
        self.fields.push((text(field.name), text(field.value)));
    }
}

impl HeadSink for Heads {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        self.fields.clear();
        self.kind = Some(kind);
        self.interim = false;
    }

    fn is_interim(&self) -> bool {
        self.interim
    }
}

type Told = Result<Vec<String>, ErrorCode>;

/// One side with what has happened.
struct Side {
    conn: Connection<()>,
    heads: Heads,
    body: Vec<u8>,
    /// What a blocked stream has left of its input, and whether it ends behind it.
    waiting: Vec<(u64, Vec<u8>, bool)>,
}

impl Side {
    fn new(role: Role, config: Config) -> Side {
        let conn = Connection::new(role, config, 0);
        Side { conn, heads: Heads::default(), body: Vec::new(), waiting: Vec::new() }
    }

    /// A server that has heard a client's SETTINGS, on stream 2.
    fn server() -> Side {
        let mut side = Side::new(Role::Server, Config::default());
        assert_eq!(side.hear(2, &control(&[]), false), Ok(vec!["Settings".to_string()]));
        side
    }

    /// A client that has heard a server's SETTINGS, on stream 3.
    fn client() -> Side {
        let mut side = Side::new(Role::Client, Config::default());
        assert_eq!(side.hear(3, &control(&[]), false), Ok(vec!["Settings".to_string()]));
        side
    }

    /// Begins the stream if it is new, and takes bytes of it; gives what happened.
    fn hear(&mut self, stream: u64, bytes: &[u8], fin: bool) -> Told {
        let is_new = if stream & UNI == 0 {
            self.conn.is_by_peer(stream) && stream >= self.conn.next_request
        } else {
            !self.conn.uni.iter().any(|uni| uni.id == stream)
        };
        if is_new && let Begun::Refused(code) = self.conn.begin(stream).map_err(|error| error.code)? {
            return Ok(vec![format!("Refused {stream} {code:?}")]);
        }
        let mut told = self.take(stream, bytes, fin)?;
        while let Some(id) = self.conn.next_unblocked() {
            told.push(format!("Unblocked {id}"));
            let at = self.waiting.iter().position(|waiting| waiting.0 == id).expect("it waits");
            let (_, rest, fin) = self.waiting.swap_remove(at);
            told.extend(self.take(id, &rest, fin)?);
        }
        Ok(told)
    }

    fn take(&mut self, stream: u64, bytes: &[u8], fin: bool) -> Told {
        let mut told = Vec::new();
        let mut input = bytes;
        loop {
            let event = self.conn.receive(stream, &mut input, fin, &mut self.heads);
            match event.map_err(|error| error.code)? {
                Some(Event::Data { stream, data, end, value }) => {
                    self.body.extend_from_slice(data);
                    told.push(format!("Data {stream} {} {end} {}", data.len(), value.is_some()));
                }
                Some(Event::Head { stream, end, .. }) => told.push(format!("Head {stream} {end}")),
                Some(Event::Reset { stream, code, by_peer, .. }) => {
                    told.push(format!("Reset {stream} {code:?} {by_peer}"));
                }
                Some(event) => told.push(format!("{event:?}")),
                None => break,
            }
        }
        let is_blocked = self.conn.blocked.iter().any(|&(id, _)| id == stream);
        if is_blocked {
            self.waiting.push((stream, input.to_vec(), fin));
        } else {
            assert!(input.is_empty(), "what is not blocked takes all");
        }
        Ok(told)
    }

    /// Frames on our control stream since the last look, as text.
    fn said(&mut self) -> Vec<String> {
        let out = std::mem::take(self.conn.own_output(Own::Control));
        let mut rest = out.as_slice();
        if rest.first() == Some(&0) {
            rest = &rest[1..];
        }
        let mut frames = Vec::new();
        while let Some((head, used)) = FrameHead::parse(rest) {
            let payload = &rest[used..][..head.len as usize];
            rest = &rest[used + payload.len()..];
            frames.push(match head.kind {
                kind::GOAWAY => format!("GOAWAY {}", varint::only(payload).unwrap()),
                kind => format!("{kind:#x} {payload:02x?}"),
            });
        }
        frames
    }
}

fn frame_of(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write(kind, payload, &mut out);
    out
}

fn number_frame(kind: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_integer(kind, value, &mut out);
    out
}

/// A control stream: SETTINGS without any, and what follows.
fn control(more: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend(frame_of(kind::SETTINGS, &[]));
    out.extend_from_slice(more);
    out
}

fn head_of(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    begin(&mut section);
    fields.iter().for_each(|(name, value)| write_literal(name.as_bytes(), value.as_bytes(), &mut section));
    frame_of(kind::HEADERS, &section)
}

fn get() -> Vec<u8> {
    head_of(&[(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")])
}

fn post(more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    fields.extend_from_slice(more);
    head_of(&fields)
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ok(events: &[&str]) -> Told {
    Ok(events.iter().map(|event| (*event).to_string()).collect())
}

#[test]
fn a_request_and_its_answer() {
    let mut server = Side::server();
    assert_eq!(server.hear(0, &get(), true), ok(&["Head 0 true"]));
    assert_eq!(server.heads.fields[0], (":method".to_string(), "GET".to_string()));
    let mut out = Vec::new();
    let mut section = Vec::new();
    begin(&mut section);
    write_status(200, &mut section);
    server.conn.send_head(0, &section, &mut out).unwrap();
    server.conn.begin_data(0, 5, &mut out).unwrap();
    out.extend_from_slice(b"hello");
    assert_eq!(server.conn.end_send(0), Ok(Some(())));
    assert_eq!(server.conn.end_send(0), Err(Gone));
    assert!(!server.conn.has(0) && server.conn.is_empty());

    let mut client = Side::client();
    client.conn.open(0, ());
    assert_eq!(client.conn.end_send(0), Ok(None));
    for at in 0..out.len() - 1 {
        let told = client.hear(0, &out[at..=at], false).unwrap();
        assert!(told.iter().all(|event| !event.contains("true")), "{told:?}");
    }
    assert_eq!(client.hear(0, b"o", true), ok(&["Data 0 1 true true"]));
    assert_eq!(client.body, b"hello");
}

#[test]
fn bodies_trailers_and_interim_responses() {
    let mut server = Side::server();
    let request = joined(&[
        &post(&[]),
        &frame_of(kind::DATA, b"ab"),
        &frame_of(0x21, b"a frame that means nothing"),
        &frame_of(kind::DATA, b"c"),
        &head_of(&[("x-sum", "3")]),
        &frame_of(0x40, b""),
    ]);
    let want =
        ok(&["Head 0 false", "Data 0 2 false false", "Data 0 1 false false", "Trailers { stream: 0 }"]);
    assert_eq!(server.hear(0, &request, true), want);
    assert_eq!(server.heads.kind, Some(HeadKind::Trailers));
    assert!(!server.conn.can_receive(0) && server.conn.can_send(0));
    // The same in pieces of any size.
    for step in 1..request.len() {
        let mut server = Side::server();
        for piece in request.chunks(step) {
            server.hear(0, piece, false).unwrap();
        }
        assert_eq!(server.hear(0, b"", true), ok(&[]));
        assert_eq!((server.body.as_slice(), server.heads.kind), (&b"abc"[..], Some(HeadKind::Trailers)));
        assert!(!server.conn.can_receive(0));
    }
    let mut client = Side::client();
    client.conn.open(0, ());
    let answer = joined(&[
        &head_of(&[(":status", "103")]),
        &head_of(&[(":status", "100")]),
        &head_of(&[(":status", "204")]),
    ]);
    let want = ok(&["Interim { stream: 0 }", "Interim { stream: 0 }", "Head 0 true"]);
    assert_eq!(client.hear(0, &answer, true), want);
}

/// RFC 9114 §4.1.2.
#[test]
fn content_length_against_data() {
    let run = |length: Option<u64>, parts: &[&[u8]], fin: bool| {
        let mut server = Side::server();
        assert_eq!(server.hear(0, &post(&[]), false), ok(&["Head 0 false"]));
        server.conn.expect(0, length);
        server.hear(0, &parts.concat(), fin).map(|told| told.join("; "))
    };
    let abc = frame_of(kind::DATA, b"abc");
    let done = "Data 0 3 true false".to_string();
    assert_eq!(run(Some(3), &[&abc], true), Ok(done.clone()));
    assert_eq!(run(None, &[&abc], true), Ok(done));
    assert_eq!(run(Some(2), &[&abc], true), Ok("Mismatch { stream: 0 }".into()));
    let short = "Data 0 3 false false; Mismatch { stream: 0 }".to_string();
    assert_eq!(run(Some(4), &[&abc], true), Ok(short.clone()));
    assert_eq!(run(Some(4), &[&abc, &head_of(&[("a", "b")])], false), Ok(short));
    assert_eq!(run(Some(0), &[], true), Ok("Data 0 0 true false".into()));
    let behind = joined(&[&abc, &abc]);
    assert_eq!(
        run(Some(2), &[&behind, &get()], true),
        Ok("Mismatch { stream: 0 }".into()),
        "the rest is dropped"
    );
}

#[test]
fn streams_that_end_before_their_time() {
    let mut server = Side::server();
    assert_eq!(server.hear(0, b"", true), ok(&["Reset 0 H3_REQUEST_INCOMPLETE false"]));
    let unknown = frame_of(0x21, b"x");
    assert_eq!(server.hear(4, &unknown, true), ok(&["Reset 4 H3_REQUEST_INCOMPLETE false"]));
    server.hear(8, &post(&[]), false).unwrap();
    let event = server.conn.peer_reset(8, ErrorCode::REQUEST_CANCELLED).unwrap();
    assert!(matches!(event, Some(Event::Reset { stream: 8, by_peer: true, .. })));
    assert!(server.conn.peer_reset(8, ErrorCode::REQUEST_CANCELLED).unwrap().is_none());
    server.hear(12, &get(), true).unwrap();
    let event = server.conn.peer_stopped(12, ErrorCode::REQUEST_CANCELLED).unwrap();
    assert!(matches!(event, Some(Event::Reset { stream: 12, by_peer: true, .. })));
    assert!(server.conn.is_empty());

    let mut client = Side::client();
    client.conn.open(0, ());
    assert!(client.conn.peer_stopped(0, ErrorCode::NO_ERROR).unwrap().is_none());
    assert!(!client.conn.can_send(0), "the answer is still heard");
    assert_eq!(client.hear(0, &head_of(&[(":status", "200")]), true), ok(&["Head 0 true"]));
    client.conn.open(4, ());
    assert_eq!(client.hear(4, b"", true), ok(&["Reset 4 H3_MESSAGE_ERROR false"]));
}

/// Streams that are over and still worked on count, and cancelled ones are counted.
#[test]
fn rapid_reset_ends_the_connection() {
    let mut server = Side::server();
    let mut id = 0;
    let end = loop {
        server.hear(id, &get(), true).unwrap();
        if let Err(error) = server.conn.peer_stopped(id, ErrorCode::REQUEST_CANCELLED) {
            break error;
        }
        id += 4;
    };
    assert_eq!(end.code, ErrorCode::EXCESSIVE_LOAD);
    assert_eq!(id / 4, 500);
    let mut server = Side::server();
    server.conn.set_busy(128);
    assert_eq!(server.hear(0, &get(), true), ok(&["Refused 0 H3_REQUEST_REJECTED"]));
}

/// RFC 9114 §5.2.
#[test]
fn goaway() {
    let mut server = Side::server();
    server.said();
    server.hear(0, &get(), true).unwrap();
    server.conn.announce_end();
    assert!(!server.conn.is_going_away());
    assert_eq!(server.hear(4, &get(), true), ok(&["Head 4 true"]));
    server.conn.go_away();
    server.conn.go_away();
    assert_eq!(server.said(), [format!("GOAWAY {}", (1u64 << 62) - 4), "GOAWAY 8".to_string()]);
    assert!(server.conn.is_going_away());
    assert_eq!(server.hear(8, &get(), true), ok(&["Refused 8 H3_REQUEST_REJECTED"]));

    let mut client = Side::client();
    assert!(client.conn.can_open());
    let mut hear = |id: u64| client.hear(3, &number_frame(kind::GOAWAY, id), false);
    assert_eq!(hear(8), ok(&["GoAway { id: 8 }"]));
    assert_eq!(hear(4), ok(&["GoAway { id: 4 }"]));
    assert_eq!(hear(8), Err(ErrorCode::ID_ERROR), "never a larger one");
    assert_eq!(Side::client().hear(3, &number_frame(kind::GOAWAY, 5), false), Err(ErrorCode::ID_ERROR));
    assert!(!client.conn.can_open());
    // A client names a push: any number.
    let mut server = Side::server();
    assert_eq!(server.hear(2, &number_frame(kind::GOAWAY, 5), false), ok(&["GoAway { id: 5 }"]));
}

fn priority_update(stream: u64, value: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    varint::encode(stream, &mut payload);
    payload.extend_from_slice(value.as_bytes());
    frame_of(kind::PRIORITY_UPDATE, &payload)
}

/// RFC 9218 §7.
#[test]
fn priorities() {
    let mut server = Side::server();
    assert_eq!(server.hear(2, &priority_update(0, "u=1"), false), ok(&[]), "before its stream");
    server.hear(0, &get(), true).unwrap();
    server.conn.set_priority(0, Priority { urgency: 5, incremental: true });
    assert_eq!(
        server.conn.priority(0),
        Priority { urgency: 1, incremental: false },
        "the frame overrides the field"
    );
    server.hear(4, &get(), true).unwrap();
    server.conn.set_priority(4, Priority { urgency: 5, incremental: true });
    assert_eq!(server.conn.priority(4).urgency, 5);
    assert_eq!(server.hear(2, &priority_update(4, "u=0, i"), false), ok(&["Priority { stream: 4 }"]));
    assert_eq!(server.conn.priority(4), Priority { urgency: 0, incremental: true });
    // What is kept for streams that never come is bounded.
    for at in 0..200 {
        server.hear(2, &priority_update(1000 + 4 * at, "u=0"), false).unwrap();
    }
    assert_eq!(server.conn.early.len(), EARLY_MAX);
    let refused = Err(ErrorCode::ID_ERROR);
    assert_eq!(Side::server().hear(2, &priority_update(3, "u=1"), false), refused);
    let push = frame_of(kind::PRIORITY_UPDATE_PUSH, b"\x00u=1");
    assert_eq!(Side::server().hear(2, &push, false), refused);
    let mut client = Side::client();
    client.said();
    client.conn.update_priority(4, b"u=2");
    assert_eq!(client.said(), ["0xf0700 [04, 75, 3d, 32]"]);
}

/// A section that needs insertions which have not come: RFC 9204 §2.1.2.
#[test]
fn streams_wait_for_the_table() {
    let mut server = Side::server();
    let section = frame_of(kind::HEADERS, &[0x02, 0x00, 0x80, 0xd1]);
    let request = joined(&[&section, &frame_of(kind::DATA, b"xyz")]);
    assert_eq!(server.hear(0, &request, true), ok(&[]));
    assert!(server.conn.awaits_head(0) && !server.conn.awaits_head(4));
    assert_eq!(server.hear(4, &get(), true), ok(&["Head 4 true"]), "others go on");
    assert_eq!(server.hear(6, &[2, 0x3f, 0xe1, 0x1f], false), ok(&[]));
    let told = server.hear(6, &[0x41, b'a', 0x01, b'b'], false);
    assert_eq!(told, ok(&["Unblocked 0", "Head 0 false", "Data 0 3 true false"]));
    assert_eq!(server.heads.fields[0], ("a".to_string(), "b".to_string()));
    // An increment of one insertion, and the section's acknowledgment, behind the stream's type.
    assert_eq!(*server.conn.own_output(Own::Decoder), [3, 0x01, 0x80]);
    // One that is given up is told to be.
    let mut server = Side::server();
    server.hear(0, &section, false).unwrap();
    server.conn.peer_reset(0, ErrorCode::REQUEST_CANCELLED).unwrap();
    assert_eq!(*server.conn.own_output(Own::Decoder), [3, 0x40]);
    assert!(server.conn.blocked.is_empty());
    server.waiting.clear();
    assert_eq!(server.hear(6, &[2, 0x3f, 0xe1, 0x1f, 0x41, b'a', 0x01, b'b'], false), ok(&[]));
    // No more than were allowed.
    let mut server = Side::server();
    for at in 0..16 {
        assert_eq!(server.hear(4 * at, &section, true), ok(&[]));
    }
    assert_eq!(server.hear(64, &section, true), Err(ErrorCode::QPACK_DECOMPRESSION_FAILED));
}

/// Later insertions change what an insert count would mean: a section that waits keeps what it meant.
#[test]
fn a_section_that_waits_keeps_its_meaning() {
    let mut server = Side::server();
    server.hear(0, &frame_of(kind::HEADERS, &[0x02, 0x00, 0x80]), true).unwrap();
    let mut instructions = vec![2, 0x3f, 0xe1, 0x1f, 0x41, b'a', 0x01, b'b'];
    instructions.extend_from_slice(&[0; 300]);
    // The entry is evicted before the section is looked at, which no encoder may do.
    let told = server.hear(6, &instructions, false);
    assert_eq!(told, Err(ErrorCode::QPACK_DECOMPRESSION_FAILED));
}

#[test]
fn heads_that_are_too_large() {
    let config = Config {
        head_limits: FieldLimits { list_bytes_max: 1000, ..FieldLimits::default() },
        ..Config::default()
    };
    let mut server = Side::new(Role::Server, config);
    let value = "x".repeat(990);
    let large = get().len() + 30;
    assert!(large < 1000);
    let too_large = |stream: u64, is_head: bool| {
        ok(&[format!("TooLarge {{ stream: {stream}, limit: List, is_head: {is_head} }}").as_str()])
    };
    assert_eq!(server.hear(0, &post(&[("a", &value)]), true), too_large(0, true));
    assert!(server.conn.can_send(0), "it may be answered");
    // What is announced is too much: nothing is waited for.
    let mut head = Vec::new();
    frame::write_head(kind::HEADERS, 1 << 40, &mut head);
    assert_eq!(server.hear(4, &head, false), too_large(4, true));
    assert_eq!(server.hear(4, &[0; 5000], false), ok(&[]));
    assert!(server.conn.memory() < 20_000, "{}", server.conn.memory());
    // Trailers are of a request that is known.
    assert_eq!(server.hear(8, &post(&[]), false), ok(&["Head 8 false"]));
    assert_eq!(server.hear(8, &head, false), too_large(8, false));
}

/// RFC 9114 §4.4: in a tunnel there is nothing but DATA.
#[test]
fn tunnels() {
    let mut server = Side::server();
    server.hear(0, &head_of(&[(":method", "CONNECT"), (":authority", "a:1")]), false).unwrap();
    server.conn.open_tunnel(0);
    assert_eq!(server.hear(0, &frame_of(kind::DATA, b"x"), false), ok(&["Data 0 1 false false"]));
    assert_eq!(server.hear(0, &head_of(&[("a", "b")]), true), Err(ErrorCode::FRAME_UNEXPECTED));
}

/// A byte of the encoder stream may copy a whole entry: work that brings nothing has an end.
#[test]
fn duplicating_without_end_is_a_flood() {
    let mut server = Side::server();
    let mut insert = vec![2, 0x3f, 0xe1, 0x1f, 0x41, b'a', 0x7f, 0xd9, 0x1e];
    insert.extend_from_slice(&[b'x'; 127 + 0x59 + 0x1e * 128]);
    server.hear(6, &insert, false).unwrap();
    let mut sent = 0;
    let end = loop {
        match server.hear(6, &[0; 100], false) {
            Ok(told) => assert!(told.is_empty()),
            Err(code) => break code,
        }
        sent += 100;
        assert!(sent < 10_000);
    };
    assert_eq!(end, ErrorCode::EXCESSIVE_LOAD);
}

/// Acknowledgments that a peer takes nothing of do not pile up.
#[test]
fn what_is_not_taken_is_bounded() {
    let config = Config { flood: FloodLimits::NONE, streams_max: usize::MAX, ..Config::default() };
    let mut server = Side::new(Role::Server, config);
    let mut id = 0;
    let end = loop {
        server.hear(id, b"", false).unwrap();
        match server.conn.peer_reset(id, ErrorCode::REQUEST_CANCELLED) {
            Ok(_) => id += 4,
            Err(error) => break error.code,
        }
    };
    assert_eq!(end, ErrorCode::EXCESSIVE_LOAD);
    assert!(server.conn.own_output(Own::Decoder).len() < OWN_STREAM_BYTES_MAX + 20);
}
