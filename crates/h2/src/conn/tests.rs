//! A connection's rules, one after the other, and two connections that talk to each other.

use super::*;
use crate::frame::{FrameHead, HEAD_BYTES, WINDOW_MAX, flag, kind, write_head};
use crate::hpack::{Encoder, Field, FieldSink, Indexing};
use crate::priority::Priority;

#[derive(Default)]
struct Heads {
    fields: Vec<(String, String)>,
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
    fn begin(&mut self, _: u64, _: HeadKind) {
        self.fields.clear();
        self.interim = false;
    }

    fn is_interim(&self) -> bool {
        self.interim
    }
}

/// One side with what it has sent and what has happened.
struct Side {
    conn: Connection<()>,
    heads: Heads,
    out: Vec<u8>,
    input: Vec<u8>,
    body: Vec<u8>,
}

impl Side {
    fn new(role: Role, config: Config) -> Side {
        let mut out = Vec::new();
        let conn = Connection::new(role, config, 0, &mut out);
        Side { conn, heads: Heads::default(), out, input: Vec::new(), body: Vec::new() }
    }

    /// A server that has heard a client's preface and SETTINGS.
    fn server() -> Side {
        Side::server_with(Config::default())
    }

    fn server_with(config: Config) -> Side {
        let mut side = Side::new(Role::Server, config);
        let mut hello = PREFACE.to_vec();
        write_head(0, kind::SETTINGS, 0, 0, &mut hello);
        assert_eq!(side.hear(&hello), Ok(vec!["Settings".to_string()]));
        side.out.clear();
        side
    }

    /// Takes bytes; gives what happened.
    fn hear(&mut self, bytes: &[u8]) -> Result<Vec<String>, ErrorCode> {
        self.input.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut at = 0;
        loop {
            let input = &self.input[at..];
            let received =
                self.conn.receive(input, &mut self.heads, &mut self.out).map_err(|error| error.code)?;
            at += received.used;
            match received.event {
                Some(Event::Data { stream, data, end, .. }) => {
                    self.body.extend_from_slice(data);
                    events.push(format!("Data {stream} {} {end}", data.len()));
                    let count = data.len() as u32;
                    self.conn.consume(stream, count, &mut self.out);
                }
                Some(Event::Reset { stream, code, by_peer, .. }) => {
                    events.push(format!("Reset {stream} {code:?} {by_peer}"));
                }
                Some(Event::Head { stream, end, .. }) => events.push(format!("Head {stream} {end}")),
                Some(event) => events.push(format!("{event:?}")),
                None if received.used == 0 => break,
                None => {}
            }
        }
        self.input.drain(..at);
        Ok(events)
    }

    /// Frames that were sent since the last look, as text.
    fn said(&mut self) -> Vec<String> {
        let out = std::mem::take(&mut self.out);
        let mut rest = out.as_slice();
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::parse(rest) {
            let payload = &rest[HEAD_BYTES..][..head.len as usize];
            rest = &rest[HEAD_BYTES + head.len as usize..];
            let word = |at: usize| payload.get(at..).and_then(frame::u32_of).unwrap_or(0);
            frames.push(match head.kind {
                kind::RST_STREAM => format!("RST {} {:?}", head.stream, ErrorCode(word(0))),
                kind::GOAWAY => format!("GOAWAY {} {:?}", word(0), ErrorCode(word(4))),
                kind::WINDOW_UPDATE => format!("WINDOW {} {}", head.stream, word(0)),
                kind::DATA => format!("DATA {} {} {}", head.stream, head.len, head.flags),
                kind::HEADERS => format!("HEADERS {} {}", head.stream, head.flags),
                other => format!("{other} {} {}", head.stream, head.flags),
            });
        }
        frames
    }
}

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(payload.len(), kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

/// `:method GET, :scheme http, :path /`.
const GET: &[u8] = &[0x82, 0x86, 0x84];
const END: u8 = flag::END_STREAM | flag::END_HEADERS;

fn get(stream: u32) -> Vec<u8> {
    frame_of(kind::HEADERS, END, stream, GET)
}

fn post(stream: u32) -> Vec<u8> {
    frame_of(kind::HEADERS, flag::END_HEADERS, stream, &[0x83, 0x86, 0x84])
}

#[test]
fn a_request_and_its_answer() {
    let mut side = Side::server();
    assert_eq!(side.hear(&get(1)).unwrap(), ["Head 1 true"]);
    assert_eq!(side.heads.fields[2], (":path".to_string(), "/".to_string()));
    side.conn.send_head(1, &[0x88], false, &mut side.out).unwrap();
    side.conn.send_body(1, b"hello", true, &mut side.out).unwrap();
    assert_eq!(side.said(), ["HEADERS 1 4", "DATA 1 5 1"]);
    assert!(side.conn.is_empty());
    assert_eq!(side.conn.send_head(1, &[0x88], true, &mut side.out), Err(send::Gone));
}

/// What ends the connection, by the RFC's sections.
#[test]
fn connection_errors() {
    let check = |what: &str, input: &[Vec<u8>], want: ErrorCode| {
        let mut side = Side::server();
        assert_eq!(side.hear(&input.concat()), Err(want), "{what}");
    };
    let setting =
        |id: u8, value: u32| frame_of(kind::SETTINGS, 0, 0, &[&[0, id][..], &value.to_be_bytes()].concat());
    let f = frame_of;
    use ErrorCode as E;
    check("4.2 frame too large", &[f(kind::DATA, 0, 1, &vec![0; 16_385])], E::FRAME_SIZE_ERROR);
    check("4.3 bad block", &[f(kind::HEADERS, END, 1, &[0xff, 0])], E::COMPRESSION_ERROR);
    check("5.1 DATA on idle", &[f(kind::DATA, 0, 1, b"x")], E::PROTOCOL_ERROR);
    check("5.1 RST_STREAM on idle", &[f(kind::RST_STREAM, 0, 1, &[0; 4])], E::PROTOCOL_ERROR);
    check("5.1 WINDOW_UPDATE on idle", &[f(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])], E::PROTOCOL_ERROR);
    check("5.1.1 even", &[get(2)], E::PROTOCOL_ERROR);
    check("5.1.1 smaller", &[get(5), get(3)], E::PROTOCOL_ERROR);
    check("5.3.1 self", &[f(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 1])], E::PROTOCOL_ERROR);
    check(
        "5.3.1 self in HEADERS",
        &[f(kind::HEADERS, END | flag::PRIORITY, 3, &[0, 0, 0, 3, 1, 0x82])],
        E::PROTOCOL_ERROR,
    );
    check("6.1 no stream", &[f(kind::DATA, 0, 0, b"x")], E::PROTOCOL_ERROR);
    check("6.1 padding", &[post(1), f(kind::DATA, flag::PADDED, 1, &[5, 1, 1])], E::PROTOCOL_ERROR);
    check("6.1 padding of nothing", &[post(1), f(kind::DATA, flag::PADDED, 1, &[])], E::FRAME_SIZE_ERROR);
    check("6.2 no stream", &[get(0)], E::PROTOCOL_ERROR);
    check("6.2 padding", &[f(kind::HEADERS, END | flag::PADDED, 1, &[9, 0x82])], E::PROTOCOL_ERROR);
    check("6.2 short", &[f(kind::HEADERS, END | flag::PRIORITY, 1, &[0; 4])], E::FRAME_SIZE_ERROR);
    check("6.2 CONTINUATION expected", &[f(kind::HEADERS, 1, 1, GET), get(3)], E::PROTOCOL_ERROR);
    check(
        "6.2 of another stream",
        &[f(kind::HEADERS, 1, 1, GET), f(kind::CONTINUATION, 4, 3, &[])],
        E::PROTOCOL_ERROR,
    );
    check("6.3 length", &[f(kind::PRIORITY, 0, 1, &[0; 4])], E::FRAME_SIZE_ERROR);
    check("6.3 no stream", &[f(kind::PRIORITY, 0, 0, &[0; 5])], E::PROTOCOL_ERROR);
    check("6.4 length", &[post(1), f(kind::RST_STREAM, 0, 1, &[0; 3])], E::FRAME_SIZE_ERROR);
    check("6.4 no stream", &[f(kind::RST_STREAM, 0, 0, &[0; 4])], E::PROTOCOL_ERROR);
    check("6.5 stream", &[f(kind::SETTINGS, 0, 1, &[])], E::PROTOCOL_ERROR);
    check("6.5 ack with payload", &[f(kind::SETTINGS, 1, 0, &[0; 6])], E::FRAME_SIZE_ERROR);
    check("6.5 length", &[f(kind::SETTINGS, 0, 0, &[0; 5])], E::FRAME_SIZE_ERROR);
    check("6.5.2 push", &[setting(2, 2)], E::PROTOCOL_ERROR);
    check("6.5.2 window", &[setting(4, 1 << 31)], E::FLOW_CONTROL_ERROR);
    check("6.5.2 small frames", &[setting(5, 16_383)], E::PROTOCOL_ERROR);
    check("6.5.2 large frames", &[setting(5, 1 << 24)], E::PROTOCOL_ERROR);
    check("6.6 PUSH_PROMISE", &[f(kind::PUSH_PROMISE, 4, 1, &[0, 0, 0, 2])], E::PROTOCOL_ERROR);
    check("6.7 length", &[f(kind::PING, 0, 0, &[0; 7])], E::FRAME_SIZE_ERROR);
    check("6.7 stream", &[f(kind::PING, 0, 1, &[0; 8])], E::PROTOCOL_ERROR);
    check("6.8 length", &[f(kind::GOAWAY, 0, 0, &[0; 7])], E::FRAME_SIZE_ERROR);
    check("6.8 stream", &[f(kind::GOAWAY, 0, 1, &[0; 8])], E::PROTOCOL_ERROR);
    check("6.9 length", &[f(kind::WINDOW_UPDATE, 0, 0, &[0; 3])], E::FRAME_SIZE_ERROR);
    check("6.9 zero", &[f(kind::WINDOW_UPDATE, 0, 0, &[0; 4])], E::PROTOCOL_ERROR);
    check(
        "6.9.1 overflow",
        &[f(kind::WINDOW_UPDATE, 0, 0, &WINDOW_MAX.to_be_bytes())],
        E::FLOW_CONTROL_ERROR,
    );
    check(
        "6.9.2 overflow by SETTINGS",
        &[get(1), f(kind::WINDOW_UPDATE, 0, 1, &(WINDOW_MAX - 65_535).to_be_bytes()), setting(4, 65_536)],
        E::FLOW_CONTROL_ERROR,
    );
    check("6.10 alone", &[f(kind::CONTINUATION, 4, 1, GET)], E::PROTOCOL_ERROR);
    check("9218 7.1 no stream", &[f(kind::PRIORITY_UPDATE, 0, 1, &[0, 0, 0, 1])], E::PROTOCOL_ERROR);
    check("9218 7.1 length", &[f(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0])], E::FRAME_SIZE_ERROR);
}

#[test]
fn the_preface_is_needed() {
    let mut side = Side::new(Role::Server, Config::default());
    assert_eq!(side.hear(&PREFACE[..10]), Ok(vec![]));
    assert_eq!(side.hear(b"GET"), Err(ErrorCode::PROTOCOL_ERROR));
    let mut side = Side::new(Role::Server, Config::default());
    assert!(!side.conn.has_begun());
    assert_eq!(side.hear(PREFACE), Ok(vec![]));
    assert!(side.conn.has_begun());
}

/// What ends one stream and leaves the others alone.
#[test]
fn stream_errors() {
    let check = |what: &str, input: &[Vec<u8>], want: &str| {
        let mut side = Side::server();
        side.hear(&post(1)).unwrap();
        side.conn.expect(1, Some(3));
        side.hear(&get(3)).unwrap();
        side.hear(&input.concat()).unwrap_or_else(|code| panic!("{what}: {code:?}"));
        let said = side.said();
        assert!(said.contains(&want.to_string()), "{what}: {said:?}");
        assert_eq!(side.hear(&get(9)).unwrap(), ["Head 9 true"], "{what}");
    };
    let f = frame_of;
    let data = |stream: u32, bytes: &[u8]| f(kind::DATA, 0, stream, bytes);
    check("5.1 DATA when half closed", &[data(3, b"x")], "RST 3 STREAM_CLOSED");
    check("5.1 HEADERS when half closed", &[get(3)], "RST 3 STREAM_CLOSED");
    check(
        "8.1 trailers that are not the end",
        &[f(kind::HEADERS, 4, 1, &[0, 1, b'a', 0])],
        "RST 1 PROTOCOL_ERROR",
    );
    check("6.9 zero", &[f(kind::WINDOW_UPDATE, 0, 3, &[0; 4])], "RST 3 PROTOCOL_ERROR");
    check(
        "6.9.1 overflow",
        &[f(kind::WINDOW_UPDATE, 0, 3, &WINDOW_MAX.to_be_bytes())],
        "RST 3 FLOW_CONTROL_ERROR",
    );
}

/// RFC 9113 §8.5: in a tunnel there is nothing but DATA.
#[test]
fn tunnels() {
    let mut side = Side::server();
    side.hear(&post(1)).unwrap();
    side.conn.open_tunnel(1);
    assert_eq!(side.hear(&frame_of(kind::DATA, 0, 1, b"x")), Ok(vec!["Data 1 1 false".into()]));
    side.hear(&frame_of(kind::HEADERS, 5, 1, &[0, 1, b'a', 0])).unwrap();
    assert!(side.said().contains(&"RST 1 PROTOCOL_ERROR".to_owned()));
    assert_eq!(side.hear(&get(3)).unwrap(), ["Head 3 true"]);
}

/// RFC 9113 §8.1.1: there is still somebody to be answered.
#[test]
fn bodies_of_another_length_than_announced() {
    let data = |flags: u8, bytes: &[u8]| frame_of(kind::DATA, flags, 1, bytes);
    let check = |input: &[Vec<u8>]| {
        let mut side = Side::server();
        side.hear(&post(1)).unwrap();
        side.conn.expect(1, Some(3));
        let events = side.hear(&input.concat()).unwrap();
        assert_eq!(events.last().map(String::as_str), Some("Mismatch { stream: 1 }"), "{events:?}");
        side.conn.send_head(1, &[0x8c], true, &mut side.out).unwrap();
        assert!(side.conn.is_empty());
        assert_eq!(side.hear(&get(3)).unwrap(), ["Head 3 true"]);
    };
    check(&[data(1, b"xx")]);
    check(&[data(0, b"xx"), data(0, b"xx")]);
    check(&[data(0, b"x"), get(1)]);
    // More of it before the answer, and after.
    let mut side = Side::server();
    side.hear(&post(1)).unwrap();
    side.conn.expect(1, Some(3));
    let more = [data(0, b"xxxx"), data(0, b"x"), data(1, b"x"), get(1)].concat();
    assert_eq!(side.hear(&more).unwrap(), ["Mismatch { stream: 1 }"]);
    side.conn.send_head(1, &[0x8c], true, &mut side.out).unwrap();
    assert_eq!(side.hear(&data(1, b"x")), Ok(vec![]));
    assert_eq!(side.said(), ["HEADERS 1 5"]);
}

/// Who has said all on a stream may still be told what comes (RFC 9113 §5.1, half-closed (local)).
#[test]
fn the_last_that_comes_on_a_stream_has_with_it_what_was_kept() {
    let last = [frame_of(kind::DATA, 1, 1, b"x"), frame_of(kind::HEADERS, 5, 1, &[0, 1, b'a', 0])];
    for last in last {
        let mut side = Side::server();
        side.hear(&post(1)).unwrap();
        side.conn.send_head(1, &[0x88], true, &mut side.out).unwrap();
        assert_eq!(side.hear(&frame_of(kind::DATA, 0, 1, b"x")).unwrap(), ["Data 1 1 false"]);
        let received = side.conn.receive(&last, &mut side.heads, &mut side.out).unwrap();
        let (Some(Event::Data { value, .. }) | Some(Event::Trailers { value, .. })) = received.event else {
            panic!("{:?}", received.event)
        };
        assert!(value.is_some() && side.conn.is_empty());
    }
}

#[test]
fn what_is_under_way_after_a_reset_is_no_fault() {
    let mut side = Side::server();
    side.hear(&post(1)).unwrap();
    side.conn.reset(1, ErrorCode::CANCEL, &mut side.out);
    let data = frame_of(kind::DATA, 1, 1, b"late");
    let more =
        [frame_of(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), frame_of(kind::RST_STREAM, 0, 1, &[0; 4])];
    assert_eq!(side.hear(&[data, get(1), more.concat()].concat()), Ok(vec![]));
    assert_eq!(side.said(), ["RST 1 CANCEL"]);
    // A stream that ended in peace is another matter (RFC 9113 §5.1).
    side.hear(&get(3)).unwrap();
    side.conn.send_head(3, &[0x88], true, &mut side.out).unwrap();
    side.hear(&frame_of(kind::DATA, 0, 3, b"x")).unwrap();
    assert_eq!(side.said(), ["HEADERS 3 5", "RST 3 STREAM_CLOSED"]);
    assert_eq!(side.hear(&get(3)), Ok(vec![]), "it was reset now");
    side.hear(&get(5)).unwrap();
    side.conn.send_head(5, &[0x88], true, &mut side.out).unwrap();
    assert_eq!(side.hear(&get(5)), Err(ErrorCode::STREAM_CLOSED));
}

#[test]
fn streams_have_a_limit() {
    let settings = Settings { max_concurrent_streams: Some(2), ..Settings::default() };
    let mut side = Side::server_with(Config { settings, ..Config::default() });
    assert_eq!(side.hear(&[get(1), get(3), get(5)].concat()).unwrap(), ["Head 1 true", "Head 3 true"]);
    assert_eq!(side.said(), ["RST 5 REFUSED_STREAM"]);
    side.conn.send_head(1, &[0x88], true, &mut side.out).unwrap();
    assert_eq!(side.hear(&get(7)).unwrap(), ["Head 7 true"]);
    // Who cancels them has no more of them in work than who waits.
    side.hear(&frame_of(kind::RST_STREAM, 0, 7, &[0, 0, 0, 8])).unwrap();
    side.conn.set_busy(1);
    assert_eq!(side.hear(&get(9)).unwrap(), Vec::<String>::new());
    side.conn.set_busy(0);
    assert_eq!(side.hear(&get(11)).unwrap(), ["Head 11 true"]);
}

#[test]
fn blocks_in_parts() {
    let mut side = Side::server();
    side.hear(&frame_of(kind::HEADERS, flag::END_STREAM | flag::PADDED, 1, &[2, 0x82, 0, 0])).unwrap();
    assert!(side.conn.is_inside_head());
    side.hear(&frame_of(kind::CONTINUATION, 0, 1, &[0x86])).unwrap();
    side.hear(&frame_of(kind::CONTINUATION, 0, 1, &[0x40, 1, b'a', 5, b'b'])).unwrap();
    let events = side.hear(&frame_of(kind::CONTINUATION, 4, 1, b"cdef\x84")).unwrap();
    assert_eq!(events, ["Head 1 true"]);
    assert_eq!(side.heads.fields[2], ("a".to_string(), "bcdef".to_string()));
}

/// A request whose head does not come to its end is given up alone; its fields change the table all the same.
#[test]
fn a_head_may_be_given_up() {
    // `a: b` is added to the table.
    let block = [GET, &[0x40, 1, b'a', 1, b'b']].concat();
    let (first, second) = block.split_at(4);
    let in_frames =
        [frame_of(kind::HEADERS, flag::END_STREAM, 1, first), frame_of(kind::CONTINUATION, 4, 1, second)];
    let whole = frame_of(kind::HEADERS, END, 1, &block);
    let cut = [whole[..HEAD_BYTES + 2].to_vec(), whole[HEAD_BYTES + 2..].to_vec()];
    for [begin, rest] in [in_frames, cut] {
        let mut side = Side::server();
        assert_eq!(side.conn.unfinished_head(&side.input), None);
        assert_eq!(side.hear(&begin).unwrap(), [""; 0]);
        assert_eq!(side.conn.unfinished_head(&side.input), Some(1));
        assert_eq!(side.conn.give_up_head(&side.input, &mut side.out), Some(1));
        assert_eq!(side.conn.give_up_head(&side.input, &mut side.out), None, "once");
        assert_eq!(side.said(), ["RST 1 PROTOCOL_ERROR"]);
        // However many others are reset meanwhile.
        (0..100).for_each(|at| side.conn.reset_by_us.push(1001 + 2 * at));
        assert_eq!(side.hear(&rest).unwrap(), [""; 0]);
        let with_entry = frame_of(kind::HEADERS, END, 3, &[GET, &[0xbe]].concat());
        assert_eq!(side.hear(&with_entry).unwrap(), ["Head 3 true"]);
        assert_eq!(side.heads.fields[3], ("a".to_string(), "b".to_string()));
    }
    // Neither a part of trailers nor of another frame is a request's head.
    let mut side = Side::server();
    side.hear(&[post(1), frame_of(kind::HEADERS, flag::END_STREAM, 1, &[])].concat()).unwrap();
    assert!(side.conn.is_inside_head() && side.conn.unfinished_head(&side.input).is_none());
    let mut side = Side::server();
    side.hear(&frame_of(kind::PING, 0, 0, &[0; 8])[..=HEAD_BYTES]).unwrap();
    assert_eq!(side.conn.unfinished_head(&side.input), None);
}

/// Everything that costs us work without end: the connection ends, and memory stays what it was.
#[test]
fn floods() {
    let check = |what: &str, begin: &[Vec<u8>], mut again: Box<dyn FnMut(u32) -> Vec<u8>>| {
        let mut side = Side::server();
        side.hear(&begin.concat()).unwrap();
        let code = (0..20_000).find_map(|n| {
            let result = side.hear(&again(n)).err();
            side.out.clear();
            assert!(side.conn.memory() < 200 << 10, "{what}: {}", side.conn.memory());
            result
        });
        assert_eq!(code, Some(ErrorCode::ENHANCE_YOUR_CALM), "{what}");
    };
    let f = frame_of;
    check(
        "rapid reset",
        &[],
        Box::new(|n| [get(2 * n + 1), f(kind::RST_STREAM, 0, 2 * n + 1, &[0; 4])].concat()),
    );
    check(
        "streams that we must reset",
        &[],
        Box::new(|n| [get(2 * n + 1), f(kind::WINDOW_UPDATE, 0, 2 * n + 1, &[0; 4])].concat()),
    );
    check("streams that are refused", &[], Box::new(|n| get(2 * n + 1)));
    check("CONTINUATION", &[f(kind::HEADERS, 0, 1, GET)], Box::new(|_| f(kind::CONTINUATION, 0, 1, &[0; 2])));
    check(
        "large CONTINUATION",
        &[f(kind::HEADERS, 0, 1, GET)],
        Box::new(|_| f(kind::CONTINUATION, 0, 1, &[0; 16_384])),
    );
    check("header bomb", &[f(kind::HEADERS, END, 1, &[0x82, 0x60, 4, b'a', b'b', b'c', b'd'])], {
        Box::new(|n| f(kind::HEADERS, END, 2 * n + 3, &[0xbe; 10_000]))
    });
    check("PING", &[], Box::new(|_| f(kind::PING, 0, 0, &[0; 8])));
    check("SETTINGS", &[], Box::new(|_| f(kind::SETTINGS, 0, 0, &[])));
    check("PRIORITY", &[], Box::new(|n| f(kind::PRIORITY, 0, 2 * n + 1, &[0, 0, 0, 0, 7])));
    check(
        "PRIORITY_UPDATE",
        &[],
        Box::new(|n| f(kind::PRIORITY_UPDATE, 0, 0, &[&(2 * n + 1).to_be_bytes()[..], b"u=1"].concat())),
    );
    check("empty DATA", &[post(1)], Box::new(|_| f(kind::DATA, 0, 1, &[])));
    check("padded empty DATA", &[post(1)], Box::new(|_| f(kind::DATA, flag::PADDED, 1, &[3, 0, 0, 0])));
    check("WINDOW_UPDATE", &[get(1)], Box::new(|_| f(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])));
    check("unknown frames", &[], Box::new(|_| f(0xfe, 0, 0, &[])));
    check("DATA for what is over", &[get(1), f(kind::RST_STREAM, 0, 1, &[0; 4])], {
        Box::new(|_| f(kind::DATA, 0, 1, b"x"))
    });
}

#[test]
fn what_comes_slowly_is_no_flood() {
    let mut side = Side::server();
    for second in 0..2000 {
        side.conn.tick(second);
        for _ in 0..50 {
            side.hear(&frame_of(kind::PING, 0, 0, &[0; 8])).unwrap();
        }
    }
}

#[test]
fn windows_for_bodies() {
    let settings = Settings { initial_window_size: 1000, ..Settings::default() };
    let mut side = Side::server_with(Config { settings, ..Config::default() });
    assert_eq!(side.hear(&post(1)), Ok(vec![]));
    assert_eq!(side.said(), ["RST 1 REFUSED_STREAM"], "it does not know of the small window yet");
    side.hear(&frame_of(kind::SETTINGS, flag::ACK, 0, &[])).unwrap();
    side.hear(&post(3)).unwrap();
    side.hear(&frame_of(kind::DATA, 0, 3, &[0; 400])).unwrap();
    assert_eq!(side.said(), Vec::<String>::new(), "not worth a frame");
    side.hear(&frame_of(kind::DATA, 0, 3, &[0; 100])).unwrap();
    assert_eq!(side.said(), ["WINDOW 3 500"]);
    side.conn.set_window(3, 70_000, &mut side.out);
    assert_eq!(side.said(), ["WINDOW 3 69000"]);
    for _ in 0..8 {
        side.hear(&frame_of(kind::DATA, flag::PADDED, 3, &[&[255][..], &[0; 16_383]].concat())).unwrap();
    }
    assert_eq!(side.body.len(), 500 + 8 * (16_383 - 255));
    let events = side.hear(&frame_of(kind::DATA, 1, 3, &[])).unwrap();
    assert_eq!(events, ["Data 3 0 true"]);
}

#[test]
fn more_than_a_window() {
    let settings = Settings { initial_window_size: 10, ..Settings::default() };
    let mut side = Side::server_with(Config { settings, connection_window: 65_535, ..Config::default() });
    side.hear(&[frame_of(kind::SETTINGS, flag::ACK, 0, &[]), post(1)].concat()).unwrap();
    let events = side.hear(&frame_of(kind::DATA, 0, 1, &[0; 11])).unwrap();
    assert_eq!(events, ["Reset 1 FLOW_CONTROL_ERROR false"]);
    // What is not read stays taken, for the stream and for the connection.
    let mut conn = Connection::<()>::new(Role::Server, Config::default(), 0, &mut Vec::new());
    let mut input = PREFACE.to_vec();
    write_head(0, kind::SETTINGS, 0, 0, &mut input);
    (0..17).for_each(|n| input.extend(post(2 * n + 1)));
    for n in 0..17 {
        for _ in 0..4 {
            input.extend(frame_of(kind::DATA, 0, 2 * n + 1, &[0; 16_000]));
        }
    }
    let (mut at, mut out) = (0, Vec::new());
    let error = loop {
        match conn.receive(&input[at..], &mut Heads::default(), &mut out) {
            Ok(received) => at += received.used,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, ErrorCode::FLOW_CONTROL_ERROR);
}

#[test]
fn sending_obeys_windows_and_frames() {
    let mut side = Side::server();
    let settings = Settings { initial_window_size: 5, max_frame_size: 20_000, ..Settings::default() };
    let mut frame = Vec::new();
    settings.write(&mut frame);
    side.hear(&[frame, get(1)].concat()).unwrap();
    side.said();
    assert_eq!(side.conn.room(1), 5);
    side.conn.send_head(1, &[0x88], false, &mut side.out).unwrap();
    side.conn.send_body(1, b"12345", false, &mut side.out).unwrap();
    assert_eq!(side.conn.room(1), 0);
    side.hear(&frame_of(kind::WINDOW_UPDATE, 0, 1, &50_000u32.to_be_bytes())).unwrap();
    assert_eq!(side.conn.room(1), 50_000);
    side.conn.send_body(1, &vec![0; 40_000], true, &mut side.out).unwrap();
    let want = ["HEADERS 1 4", "DATA 1 5 0", "DATA 1 16384 0", "DATA 1 16384 0", "DATA 1 7232 1"];
    assert_eq!(side.said(), want);
    // RFC 9113 §6.9.2: a smaller initial window makes windows negative.
    side.hear(&get(3)).unwrap();
    side.conn.send_head(3, &[0x88], false, &mut side.out).unwrap();
    side.conn.send_body(3, b"1234", false, &mut side.out).unwrap();
    side.hear(&frame_of(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1])).unwrap();
    assert_eq!(side.conn.room(3), 0);
    side.hear(&frame_of(kind::WINDOW_UPDATE, 0, 3, &3u32.to_be_bytes())).unwrap();
    assert_eq!(side.conn.room(3), 0);
    side.hear(&frame_of(kind::WINDOW_UPDATE, 0, 3, &1u32.to_be_bytes())).unwrap();
    assert_eq!(side.conn.room(3), 1);
}

/// Sends everything that the streams have, 1000 bytes at a time; gives the order.
fn order(side: &mut Side, mut left: Vec<(u32, usize)>) -> Vec<u32> {
    for &(id, _) in &left {
        side.conn.send_head(id, &[0x88], false, &mut side.out).unwrap();
        side.conn.set_ready(id, true);
    }
    let mut order = Vec::new();
    while let Some(id) = side.conn.next_sender() {
        let at = left.iter().position(|&(have, _)| have == id).unwrap();
        left[at].1 -= 1;
        side.conn.send_body(id, &[0; 1000], left[at].1 == 0, &mut side.out).unwrap();
        order.push(id);
    }
    order
}

#[test]
fn priorities_change_the_order() {
    let streams = || vec![(1, 3), (3, 3), (5, 3)];
    let begin = || {
        let mut side = Side::server();
        side.hear(&[get(1), get(3), get(5)].concat()).unwrap();
        side
    };
    let mut fair = begin();
    assert_eq!(order(&mut fair, streams()), [1, 3, 5, 1, 3, 5, 1, 3, 5]);

    // RFC 9218 §10: by urgency, then in order; incremental ones share.
    let mut urgent = begin();
    urgent.conn.set_priority(3, Priority::parse(b"u=1"));
    assert_eq!(order(&mut urgent, streams()), [3, 3, 3, 1, 1, 1, 5, 5, 5]);
    let mut incremental = begin();
    incremental.conn.set_priority(1, Priority::parse(b"u=5,i"));
    incremental.conn.set_priority(5, Priority::parse(b"u=5,i"));
    assert_eq!(order(&mut incremental, streams()), [3, 3, 3, 1, 5, 1, 5, 1, 5]);
    let mut updated = begin();
    let update = [&[0, 0, 0, 5][..], b"u=0"].concat();
    updated.hear(&frame_of(kind::PRIORITY_UPDATE, 0, 0, &update)).unwrap();
    assert_eq!(order(&mut updated, streams()), [5, 5, 5, 1, 1, 1, 3, 3, 3]);
    let mut early = Side::server();
    early.hear(&frame_of(kind::PRIORITY_UPDATE, 0, 0, &update)).unwrap();
    early.hear(&[get(1), get(3), get(5)].concat()).unwrap();
    assert_eq!(order(&mut early, streams()), [5, 5, 5, 1, 1, 1, 3, 3, 3]);

    // RFC 7540 §5.3.
    let mut tree = begin();
    tree.hear(&frame_of(kind::PRIORITY, 0, 1, &[0, 0, 0, 5, 15])).unwrap();
    tree.hear(&frame_of(kind::PRIORITY, 0, 3, &[0x80, 0, 0, 5, 15])).unwrap();
    assert_eq!(order(&mut tree, streams()), [5, 5, 5, 3, 3, 3, 1, 1, 1]);
    let mut weights = begin();
    weights.hear(&frame_of(kind::PRIORITY, 0, 3, &[0, 0, 0, 0, 255])).unwrap();
    let order = order(&mut weights, vec![(1, 20), (3, 16), (5, 20)]);
    assert_eq!(order[..20].iter().filter(|&&id| id == 3).count(), 16, "{order:?}");
}

#[test]
fn no_new_streams_after_goaway() {
    let mut side = Side::server();
    side.hear(&[get(1), post(3)].concat()).unwrap();
    side.conn.announce_end(&mut side.out);
    assert_eq!(side.hear(&get(5)).unwrap(), ["Head 5 true"]);
    side.conn.go_away(ErrorCode::NO_ERROR, &mut side.out);
    assert_eq!(side.said(), ["GOAWAY 2147483647 NO_ERROR", "GOAWAY 5 NO_ERROR"]);
    assert_eq!(side.hear(&[get(7), frame_of(kind::DATA, 1, 3, b"x")].concat()).unwrap(), ["Data 3 1 true"]);
    assert_eq!(side.said(), Vec::<String>::new());
    // RFC 9113 §6.8: the number does not grow.
    side.conn.fail(&ConnectionError::new(ErrorCode::PROTOCOL_ERROR, "x"), &mut side.out);
    assert_eq!(side.said(), ["GOAWAY 5 PROTOCOL_ERROR"]);
}

/// A client and a server of ours, with bodies both ways, in all sizes of pieces.
#[test]
fn both_sides() {
    for step in [1, 7, 100, 100_000] {
        let mut client = Side::new(Role::Client, Config::default());
        let mut server = Side::new(Role::Server, Config::default());
        let mut encoder = Encoder::new(4096);
        let mut block = Vec::new();
        for (name, value) in [(":method", "POST"), (":scheme", "http"), (":path", "/a"), ("x", "y")] {
            encoder.field(name.as_bytes(), value.as_bytes(), Indexing::Add, &mut block);
        }
        let id = client.conn.open(()).unwrap();
        client.conn.send_head(id, &block, false, &mut client.out).unwrap();
        let exchange = |client: &mut Side, server: &mut Side| {
            let mut events = (Vec::new(), Vec::new());
            while !client.out.is_empty() || !server.out.is_empty() {
                for part in std::mem::take(&mut client.out).chunks(step) {
                    events.1.extend(server.hear(part).unwrap());
                }
                for part in std::mem::take(&mut server.out).chunks(step) {
                    events.0.extend(client.hear(part).unwrap());
                }
            }
            events
        };
        let (_, events) = exchange(&mut client, &mut server);
        assert!(events.contains(&"Head 1 false".to_string()));
        let mut left = 200_000;
        while left > 0 {
            let count = client.conn.room(id).min(left);
            left -= count;
            client.conn.send_body(id, &vec![b'x'; count], left == 0, &mut client.out).unwrap();
            exchange(&mut client, &mut server);
        }
        assert_eq!(server.body.len(), 200_000);
        server.conn.send_head(id, &[0x08, 0x03, b'1', b'0', b'3'], false, &mut server.out).unwrap();
        assert!(exchange(&mut client, &mut server).0.contains(&"Interim { stream: 1 }".to_string()));
        server.conn.send_head(id, &[0x88], false, &mut server.out).unwrap();
        server.conn.send_body(id, b"hello", false, &mut server.out).unwrap();
        server.conn.send_head(id, &[0, 1, b't', 1, b'v'], true, &mut server.out).unwrap();
        let (events, _) = exchange(&mut client, &mut server);
        assert!(events.contains(&"Head 1 false".to_string()), "{events:?}");
        assert!(events.contains(&"Trailers { stream: 1, value: Some(()) }".to_string()), "{events:?}");
        assert_eq!((client.body.as_slice(), client.heads.fields.len()), (&b"hello"[..], 1));
        assert!(client.conn.is_empty() && server.conn.is_empty());
    }
}

#[test]
fn an_upgraded_connection_answers_stream_1() {
    let mut side = Side::new(Role::Server, Config::default());
    side.conn.upgrade(&[0, 4, 0, 0, 0, 3], ()).unwrap();
    assert_eq!(side.conn.room(1), 3);
    side.conn.send_head(1, &[0x88], false, &mut side.out).unwrap();
    side.conn.send_body(1, b"abc", true, &mut side.out).unwrap();
    let mut hello = PREFACE.to_vec();
    write_head(0, kind::SETTINGS, 0, 0, &mut hello);
    assert_eq!(side.hear(&[hello, get(3)].concat()).unwrap(), ["Settings", "Head 3 true"]);
    assert_eq!(side.hear(&get(1)), Err(ErrorCode::STREAM_CLOSED));
}

/// An idle connection with the table of a browser costs little.
#[test]
fn memory_of_an_idle_connection() {
    let mut side = Side::server();
    for n in 0..50u32 {
        let mut block = GET.to_vec();
        for field in 0..4 {
            block.extend_from_slice(&[0x40, 2, b'a' + field, b'a' + (n % 26) as u8, 20]);
            block.extend_from_slice(&[b'v'; 20]);
        }
        side.hear(&frame_of(kind::HEADERS, END, 2 * n + 1, &block)).unwrap();
        side.conn.send_head(2 * n + 1, &[0x88], true, &mut side.out).unwrap();
    }
    side.conn.trim();
    let bytes = side.conn.memory() + size_of::<Connection<()>>();
    assert!(bytes < 8 << 10, "{bytes}");
}

/// A refused head leaves `a: b` in the table, and the next one refers to it: it is known there by its name's tag. Found by the fuzzer.
#[test]
fn what_a_refused_head_leaves_in_the_table_keeps_its_tag() {
    crate::fuzz::fuzz_connection(
        b"\0\0\x08\x01\x04\0\0\0\x01\x82\x86\x84\x40\x01a\x01b\
          \0\0\x05\x01\x05\0\0\0\x05\x82\x87\x84\xbe\xbe",
    );
}
