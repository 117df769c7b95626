//! The codec against a server's side of the same connection.

use super::{Http2, Question, RequestHead, Session};
use crate::codec::{Codec, Event};
use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::{Field, FieldSink, write_literal, write_status};
use brisk_h2::{Config, Connection, ErrorCode, Event as ServerEvent, Role, Settings, frame};
use brisk_net::{Failure, Retry};
use std::fmt::Write as _;

/// The fields of requests, in lines.
#[derive(Default)]
struct Lines(String);

impl FieldSink for Lines {
    fn tag(&mut self, _: &[u8]) -> u8 {
        0
    }

    fn field(&mut self, field: Field<'_>) {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        let _ = writeln!(self.0, "{}: {}", text(field.name), text(field.value));
    }
}

impl HeadSink for Lines {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

/// A back end.
struct Server {
    connection: Connection<()>,
    heads: Lines,
    body: Vec<u8>,
    ended: bool,
    stream: u32,
}

impl Server {
    fn new(out: &mut Vec<u8>) -> Server {
        let connection = Connection::new(Role::Server, Config::default(), 0, out);
        Server { connection, heads: Lines::default(), body: Vec::new(), ended: false, stream: 0 }
    }

    fn take(&mut self, mut input: &[u8], out: &mut Vec<u8>) {
        while !input.is_empty() {
            let received = self.connection.receive(input, &mut self.heads, out).unwrap();
            assert!(received.used > 0, "frames come as wholes");
            match received.event {
                Some(ServerEvent::Head { stream, end, .. }) => (self.stream, self.ended) = (stream, end),
                Some(ServerEvent::Data { data, end, .. }) => {
                    self.body.extend_from_slice(data);
                    self.ended = end;
                }
                _ => {}
            }
            input = &input[received.used..];
        }
    }

    fn head(&mut self, status: u16, fields: &[(&str, &str)], end: bool, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        if status > 0 {
            write_status(status, &mut block);
        }
        for (name, value) in fields {
            write_literal(name.as_bytes(), value.as_bytes(), &mut block);
        }
        self.connection.send_head(self.stream, &block, end, out).unwrap();
    }
}

fn codec(is_bodiless: bool) -> Http2 {
    let mut head = RequestHead::new(b"POST", false, b"/a?b", b"host");
    for (name, value) in [("X-A", "b\r\nc"), ("Connection", "x"), ("TE", "gzip"), ("te", "trailers")] {
        head.field(name.as_bytes(), value.as_bytes());
    }
    Http2::new(Question { head, is_bodiless, is_head: false, head_bytes_max: 4096 })
}

/// The text of a failure, and whether any request may be sent again after it.
fn text(failure: &Failure) -> String {
    let again = if failure.retry() == Retry::Safe { " safe" } else { "" };
    format!("[{}]{again}", failure.text())
}

/// What an answer comes to, read in pieces of `size` bytes.
fn read(codec: &mut Http2, bytes: &[u8], size: usize, out: &mut Vec<u8>) -> String {
    let mut said = String::new();
    let mut rest = Vec::new();
    for piece in bytes.chunks(size) {
        rest.extend_from_slice(piece);
        let mut at = 0;
        loop {
            let step = match codec.read(&rest[at..], out) {
                Ok(step) => step,
                Err(failure) => return said + &text(&failure),
            };
            let from = at;
            at += step.used;
            match step.event {
                Event::NeedMore => break,
                Event::Interim(head) => {
                    let _ = write!(said, "<{}>", head.status);
                }
                Event::Head(head) => {
                    let _ = write!(said, "{} {}:", head.status, head.fields().count());
                }
                Event::Data(range) => said.push_str(std::str::from_utf8(&rest[from..][range]).unwrap()),
                Event::Log(..) => {}
                Event::Trailers(fields) => {
                    let _ = write!(said, "+{}", fields.len());
                }
                Event::End => {
                    said.push('.');
                    break;
                }
            }
        }
        rest.drain(..at);
    }
    said
}

/// Begins an exchange; gives the codec, the server behind it, and what the server has said so far.
fn begin(is_bodiless: bool) -> (Http2, Server, Vec<u8>) {
    let mut answer = Vec::new();
    let mut server = Server::new(&mut answer);
    let mut codec = codec(is_bodiless);
    let mut out = Vec::new();
    codec.adopt(None);
    codec.begin(&mut out);
    server.take(&out, &mut answer);
    (codec, server, answer)
}

#[test]
fn a_request_and_its_answer_in_pieces_of_any_size() {
    for size in [1, 2, 9, 10, 1000] {
        let (mut codec, mut server, mut answer) = begin(false);
        assert_eq!(
            server.heads.0,
            ":method: POST\n:scheme: http\n:path: /a?b\n:authority: host\nx-a: b  c\nte: trailers\n"
        );
        let mut out = Vec::new();
        codec.body(b"hel", &mut out);
        codec.body(b"lo", &mut out);
        codec.end(&mut out);
        server.take(&out, &mut answer);
        assert_eq!((&*server.body, server.ended), (&b"hello"[..], true));
        assert_eq!(out.last(), Some(&b'o'), "the last piece says that it is the last");
        server.head(103, &[("link", "x")], false, &mut answer);
        server.head(200, &[("content-length", "4"), ("a", "b")], false, &mut answer);
        server.connection.send_body(1, b"data", false, &mut answer).unwrap();
        server.head(0, &[("grpc-status", "0")], true, &mut answer);
        out.clear();
        assert_eq!(read(&mut codec, &answer, size, &mut out), "<103>200 2:data+1.", "{size}");
        assert_eq!(codec.length(), Some(4));
        assert!(codec.persists());
        server.take(&out, &mut Vec::new());
        // The next one is on the same connection.
        let session = codec.release();
        codec.adopt(session);
        out.clear();
        codec.begin(&mut out);
        server.take(&out, &mut Vec::new());
        assert_eq!(server.stream, 3);
    }
}

#[test]
fn a_body_waits_for_leave() {
    let (mut codec, mut server, mut answer) = begin(false);
    assert_eq!(codec.room(), 65_535, "nothing is known yet");
    let mut out = Vec::new();
    Settings { initial_window_size: 3, ..Settings::default() }.write(&mut answer);
    assert_eq!(read(&mut codec, &answer, 100, &mut out), "");
    assert_eq!(codec.room(), 3);
    codec.body(b"abc", &mut out);
    assert_eq!(codec.room(), 0);
    answer.clear();
    server.take(&out, &mut answer);
    out.clear();
    frame::write_window_update(1, 3, &mut answer);
    assert_eq!(read(&mut codec, &answer, 100, &mut out), "");
    assert_eq!(codec.room(), 3);
    // A last piece that has left cannot say that it was the last.
    out.clear();
    codec.end(&mut out);
    server.take(&out, &mut answer);
    assert!(server.ended);
}

#[test]
fn answers_that_are_none() {
    let check = |want: &str, unprocessed: bool, say: &dyn Fn(&mut Server, &mut Vec<u8>)| {
        for size in [1, 10_000] {
            let (mut codec, mut server, mut answer) = begin(true);
            assert!(server.ended);
            say(&mut server, &mut answer);
            let said = read(&mut codec, &answer, size, &mut Vec::new());
            assert_eq!(said, if unprocessed { format!("{want} safe") } else { want.to_string() }, "{size}");
            assert!(!codec.persists(), "{want}");
        }
    };
    check("[upstream sent no :status header]", false, &|s, out| s.head(0, &[("a", "b")], true, out));
    check("[upstream sent no :status header]", false, &|s, out| s.head(0, &[], true, out));
    check("[upstream sent duplicate :status header]", false, &|s, out| {
        s.head(200, &[(":status", "200")], true, out);
    });
    check("[upstream sent invalid header \":x: y\"]", false, &|s, out| {
        s.head(200, &[(":x", "y")], true, out);
    });
    check("[upstream sent unexpected :status \"101\"]", false, &|s, out| s.head(101, &[], false, out));
    check("[upstream sent invalid :status \"9999999\"]", false, &|s, out| {
        s.head(0, &[(":status", "9999999")], true, out);
    });
    check("[upstream sent invalid :status \"2\"]", false, &|s, out| {
        s.head(0, &[(":status", "2")], true, out);
    });
    check("[upstream sent invalid header]", false, &|s, out| s.head(200, &[("a\nb", "y")], true, out));
    check("[upstream sent invalid header]", false, &|s, out| s.head(200, &[("a", "b\nc")], true, out));
    check("[upstream sent too large header field]", false, &|s, out| {
        s.head(200, &[("a", "~".repeat(5000).as_str())], true, out);
    });
    check("<103>[upstream prematurely closed stream]", false, &|s, out| {
        s.head(103, &[], false, out);
        s.head(103, &[], true, out);
    });
    check("[upstream prematurely closed stream]", false, &|s, out| {
        s.head(200, &[("content-length", "1")], true, out);
    });
    check("200 1:a[upstream sent response body larger than indicated content length]", false, &|s, out| {
        s.head(200, &[("content-length", "1")], false, out);
        s.connection.send_body(1, b"a", false, out).unwrap();
        s.connection.send_body(1, b"b", true, out).unwrap();
    });
    check("[upstream rejected request with error 8]", false, &|_, out| {
        frame::write_rst_stream(1, ErrorCode::CANCEL, out);
    });
    check("[upstream rejected request with error 7]", true, &|_, out| {
        frame::write_rst_stream(1, ErrorCode::REFUSED_STREAM, out);
    });
    check("[upstream sent goaway with error 0]", true, &|_, out| {
        frame::write_goaway(0, ErrorCode::NO_ERROR, b"", out);
    });
    check("[upstream sent goaway with error 5]", false, &|_, out| {
        frame::write_goaway(0, ErrorCode::STREAM_CLOSED, b"", out);
    });
}

/// RFC 9113 §8.1: a server may stop a request that it has answered already, by a reset without an error.
#[test]
fn what_comes_with_the_end_is_looked_at() {
    let answer_with = |codes: &[ErrorCode]| {
        let (mut codec, mut server, mut answer) = begin(true);
        server.head(200, &[], false, &mut answer);
        server.connection.send_body(1, b"all", true, &mut answer).unwrap();
        codes.iter().for_each(|code| frame::write_rst_stream(1, *code, &mut answer));
        read(&mut codec, &answer, 10_000, &mut Vec::new())
    };
    assert_eq!(answer_with(&[]), "200 0:all.");
    assert_eq!(answer_with(&[ErrorCode::NO_ERROR]), "200 0:all.");
    assert_eq!(answer_with(&[ErrorCode::CANCEL]), "200 0:[upstream rejected request with error 8]");
    let twice = answer_with(&[ErrorCode::NO_ERROR; 2]);
    assert_eq!(twice, "200 0:[upstream sent frame for closed stream 1]");
}

#[test]
fn a_connection_that_is_left_is_not_used_again() {
    let (mut codec, mut server, mut answer) = begin(true);
    frame::write_goaway(1, ErrorCode::NO_ERROR, b"", &mut answer);
    server.head(200, &[], true, &mut answer);
    assert_eq!(read(&mut codec, &answer, 10_000, &mut Vec::new()), "200 0:.");
    assert_eq!(codec.length(), Some(0));
    assert!(!codec.persists());
}

#[test]
fn between_exchanges_frames_are_answered() {
    let mut out = Vec::new();
    let mut session = Session::new(&mut out);
    let mut input = Vec::new();
    frame::write_ping([1; 8], false, &mut input);
    frame::write_window_update(0, 5, &mut input);
    out.clear();
    assert!(session.idle(&input, &mut out));
    assert_eq!(out[3..5], [frame::kind::PING, frame::flag::ACK]);
    frame::write_goaway(0, ErrorCode::NO_ERROR, b"", &mut input);
    assert!(!session.idle(&input, &mut Vec::new()));
    assert!(!Session::new(&mut Vec::new()).idle(b"HTTP/1.1 ", &mut Vec::new()));
}

/// Whatever comes: an error or an answer, never more memory than a head and a frame.
#[test]
fn who_makes_us_answer_and_does_not_read_is_given_up() {
    let (mut codec, _, _) = begin(true);
    let mut pings = Vec::new();
    (0..1000).for_each(|_| frame::write_ping([0; 8], false, &mut pings));
    let mut out = Vec::new();
    let given_up = (0..100).any(|_| !read(&mut codec, &pings, 100_000, &mut out).is_empty());
    assert!(given_up && out.len() < 2 << 20);
}

/// A trailer may come as one byte and takes a hundred here.
#[test]
fn there_are_as_many_trailers_as_over_http1() {
    for (count, want) in [(100, "200 0:x+100."), (101, "200 0:x[upstream sent too many trailers]")] {
        let (mut codec, mut server, mut answer) = begin(true);
        server.head(200, &[], false, &mut answer);
        server.connection.send_body(server.stream, b"x", false, &mut answer).unwrap();
        server.head(0, &vec![("a", ""); count], true, &mut answer);
        assert_eq!(read(&mut codec, &answer, 1000, &mut Vec::new()), want);
    }
}
