//! What ends a connection, by its code: the cases of h3spec for HTTP/3 and QPACK, and the RFC's others.

use super::*;

fn server(stream: u64, bytes: &[u8], fin: bool) -> Told {
    Side::server().hear(stream, bytes, fin)
}

fn client(stream: u64, bytes: &[u8]) -> Told {
    let mut side = Side::client();
    side.conn.open(0, ());
    side.hear(stream, bytes, false)
}

const UNEXPECTED: Told = Err(ErrorCode::FRAME_UNEXPECTED);

/// RFC 9114 §4.1, §7.2: what may come on a request's stream, and in which order.
#[test]
fn frames_on_requests() {
    let data = frame_of(kind::DATA, b"x");
    assert_eq!(server(0, &data, false), UNEXPECTED, "DATA before HEADERS");
    let trailers = head_of(&[("a", "b")]);
    let whole = joined(&[&post(&[]), &data, &trailers]);
    assert_eq!(server(0, &joined(&[&whole, &data]), true), UNEXPECTED, "DATA behind trailers");
    assert_eq!(server(0, &joined(&[&whole, &trailers]), true), UNEXPECTED, "HEADERS behind trailers");
    for kind in [
        kind::SETTINGS,
        kind::GOAWAY,
        kind::MAX_PUSH_ID,
        kind::CANCEL_PUSH,
        kind::PUSH_PROMISE,
        kind::PRIORITY_UPDATE,
        kind::PRIORITY_UPDATE_PUSH,
    ] {
        assert_eq!(server(0, &frame_of(kind, &[0]), false), UNEXPECTED, "{kind:#x} first");
        assert_eq!(server(0, &joined(&[&post(&[]), &frame_of(kind, &[0])]), false), UNEXPECTED, "{kind:#x}");
    }
    for kind in [0x2, 0x6, 0x8, 0x9] {
        assert_eq!(server(0, &frame_of(kind, &[0]), false), UNEXPECTED, "HTTP/2's {kind:#x}");
    }
    let reserved = joined(&[&frame_of(0x21, b"abc"), &get(), &frame_of(0x1f * 5 + 0x21, b"")]);
    assert_eq!(server(0, &reserved, true), ok(&["Head 0 false", "Data 0 0 true false"]));
}

/// RFC 9114 §7.1: frames that are cut off by the stream's end.
#[test]
fn frames_that_are_cut_off() {
    let whole = joined(&[&post(&[]), &frame_of(kind::DATA, b"hello")]);
    let refused = Err(ErrorCode::FRAME_ERROR);
    let between = post(&[]).len();
    for at in 1..whole.len() {
        if at != between {
            assert_eq!(server(0, &whole[..at], true), refused, "cut at {at}");
        }
    }
    assert_eq!(server(0, &joined(&[&post(&[]), &[0x21, 5, 1]]), true), refused, "in an unknown frame");
}

/// RFC 9114 §6.2.1, §7.2.4.
#[test]
fn the_control_stream() {
    let first = |frame: &[u8]| {
        let mut side = Side::new(Role::Server, Config::default());
        side.hear(2, &joined(&[&[0], frame]), false)
    };
    let missing = Err(ErrorCode::MISSING_SETTINGS);
    assert_eq!(first(&number_frame(kind::MAX_PUSH_ID, 0)), missing);
    assert_eq!(first(&number_frame(kind::GOAWAY, 0)), missing);
    assert_eq!(first(&frame_of(0x21, b"")), missing, "a reserved one is a frame, too");
    assert_eq!(server(2, &frame_of(kind::SETTINGS, &[]), false), UNEXPECTED, "a second time");
    assert_eq!(server(2, &frame_of(kind::DATA, b"x"), false), UNEXPECTED);
    assert_eq!(server(2, &get(), false), UNEXPECTED);
    assert_eq!(server(2, &frame_of(kind::PUSH_PROMISE, &[0]), false), UNEXPECTED);
    for kind in [0x2, 0x6, 0x8, 0x9] {
        assert_eq!(server(2, &frame_of(kind, &[0]), false), UNEXPECTED, "HTTP/2's {kind:#x}");
    }
    assert_eq!(server(2, &frame_of(0x21, b"anything"), false), ok(&[]));
    let settings = |payload: &[u8]| first(&frame_of(kind::SETTINGS, payload));
    assert_eq!(settings(&[0x02, 0x01]), Err(ErrorCode::SETTINGS_ERROR), "HTTP/2's");
    assert_eq!(settings(&[0x06, 0x01, 0x06, 0x01]), Err(ErrorCode::SETTINGS_ERROR), "twice");
    assert_eq!(settings(&[0x06]), Err(ErrorCode::FRAME_ERROR));
    let mut large = Vec::new();
    frame::write_head(kind::SETTINGS, 1 << 20, &mut large);
    assert_eq!(first(&large), Err(ErrorCode::EXCESSIVE_LOAD));
}

#[test]
fn settings_in_pieces() {
    let bytes = control(&frame_of(kind::GOAWAY, &[0]));
    let mut settings = vec![0];
    Settings { max_field_section_size: Some(5000), ..Settings::default() }.write(Some(3), &mut settings);
    settings.extend_from_slice(&bytes[3..]);
    for step in 1..settings.len() {
        let mut side = Side::new(Role::Server, Config::default());
        let mut told = Vec::new();
        for piece in settings.chunks(step) {
            told.extend(side.hear(2, piece, false).unwrap());
        }
        assert_eq!(told, ["Settings", "GoAway { id: 0 }"], "in steps of {step}");
        assert_eq!(side.conn.peer_settings().unwrap().max_field_section_size, Some(5000));
    }
}

/// RFC 9114 §6.2, §6.2.1, §6.2.2; RFC 9204 §4.2.
#[test]
fn streams_of_one_direction() {
    let refused = Err(ErrorCode::STREAM_CREATION_ERROR);
    assert_eq!(server(6, &[0], false), refused, "a second control stream");
    assert_eq!(server(6, &[1, 0], false), refused, "a client pushes nothing");
    for kind in [2, 3] {
        let mut side = Side::server();
        assert_eq!(side.hear(6, &[kind], false), ok(&[]));
        assert_eq!(side.hear(10, &[kind], false), refused, "a second one of type {kind}");
    }
    assert_eq!(client(7, &[1, 0]), Err(ErrorCode::ID_ERROR), "a push that was not allowed");
    assert_eq!(client(1, &get()), refused, "a server begins none of two directions");
    let mut side = Side::server();
    assert_eq!(side.hear(6, &[0x21, 1, 2, 3], false), ok(&["Unknown { stream: 6 }"]));
    assert_eq!(side.hear(10, &[0x40], false), ok(&[]), "half a type");
    assert_eq!(side.hear(10, &[0x21], true), ok(&["Unknown { stream: 10 }"]));
    assert_eq!(side.hear(14, &[], true), ok(&[]), "without a type");
    // Of those whose types never come there is a bounded number.
    let mut side = Side::server();
    let told: Vec<_> = (0..10).map(|at| side.hear(6 + 4 * at, &[], false).unwrap()).collect();
    assert_eq!(told[6], Vec::<String>::new());
    assert_eq!(told[7], ["Refused 34 H3_STREAM_CREATION_ERROR"]);
    let mut side = Side::server();
    let flood = (0..2000).map(|at| side.hear(6 + 4 * at, &[0x21], false)).find_map(Result::err);
    assert_eq!(flood, Some(ErrorCode::EXCESSIVE_LOAD), "one stream of no meaning after the other");
}

/// RFC 9114 §6.2.1, RFC 9204 §4.2.
#[test]
fn critical_streams_that_end() {
    let closed = Some(ErrorCode::CLOSED_CRITICAL_STREAM);
    for kind in [2u8, 3] {
        let mut side = Side::server();
        side.hear(6, &[kind], false).unwrap();
        assert_eq!(side.hear(6, b"", true).err(), closed, "type {kind}");
        let mut side = Side::server();
        side.hear(6, &[kind], false).unwrap();
        let reset = side.conn.peer_reset(6, ErrorCode::NO_ERROR);
        assert_eq!(reset.err().map(|error| error.code), closed, "type {kind}");
    }
    assert_eq!(server(2, b"", true).err(), closed);
    assert_eq!(server(2, &frame_of(0x21, b""), true).err(), closed);
    let reset = Side::server().conn.peer_reset(2, ErrorCode::NO_ERROR);
    assert_eq!(reset.err().map(|error| error.code), closed);
    // Ours, which the peer wants to hear no more of.
    let stopped = Side::server().conn.peer_stopped(3, ErrorCode::NO_ERROR);
    assert_eq!(stopped.err().map(|error| error.code), closed);
}

/// RFC 9114 §7.2.3, §7.2.5, §7.2.7.
#[test]
fn pushes() {
    let ids = Err(ErrorCode::ID_ERROR);
    assert_eq!(server(2, &number_frame(kind::CANCEL_PUSH, 0), false), ids);
    assert_eq!(client(3, &number_frame(kind::CANCEL_PUSH, 0)), ids);
    assert_eq!(
        client(0, &joined(&[&head_of(&[(":status", "200")]), &frame_of(kind::PUSH_PROMISE, &[0])])),
        ids
    );
    let mut side = Side::server();
    assert_eq!(side.hear(2, &number_frame(kind::MAX_PUSH_ID, 5), false), ok(&[]));
    assert_eq!(side.hear(2, &number_frame(kind::MAX_PUSH_ID, 5), false), ok(&[]));
    assert_eq!(side.hear(2, &number_frame(kind::MAX_PUSH_ID, 4), false), ids);
    for kind in [kind::MAX_PUSH_ID, kind::PRIORITY_UPDATE, kind::PRIORITY_UPDATE_PUSH] {
        assert_eq!(client(3, &frame_of(kind, &[0])), UNEXPECTED, "a client's frame");
    }
}

/// RFC 9114 §7.1: payloads that are shorter or longer than their fields.
#[test]
fn sizes_of_frames() {
    for kind in [kind::GOAWAY, kind::MAX_PUSH_ID, kind::CANCEL_PUSH] {
        for payload in [&[][..], &[0x40], &[0, 0]] {
            let told = server(2, &frame_of(kind, payload), false);
            assert_eq!(told, Err(ErrorCode::FRAME_ERROR), "{kind:#x} {payload:?}");
        }
    }
    assert_eq!(server(2, &frame_of(kind::PRIORITY_UPDATE, &[]), false), Err(ErrorCode::FRAME_ERROR));
}

/// RFC 9204 §2.2, §3.1, §4: QPACK's errors end the connection with their codes.
#[test]
fn qpack_errors() {
    let section = |bytes: &[u8]| server(0, &frame_of(kind::HEADERS, bytes), true);
    let failed = Err(ErrorCode::QPACK_DECOMPRESSION_FAILED);
    assert_eq!(section(&[0, 0, 0xff, 0x24]), failed, "an index that the static table has not");
    assert_eq!(section(&[]), failed, "no prefix");
    assert_eq!(section(&[0, 0, 0x80]), failed, "a dynamic entry without insertions");
    let encoder = |bytes: &[u8]| server(6, &joined(&[&[2], bytes]), false);
    let wrong = Err(ErrorCode::QPACK_ENCODER_STREAM_ERROR);
    assert_eq!(encoder(&[0x3f, 0xe2, 0x1f]), wrong, "a capacity beyond ours");
    assert_eq!(encoder(&[0xff, 0x24, 0x00]), wrong, "an index that the static table has not");
    let decoder = |bytes: &[u8]| server(6, &joined(&[&[3], bytes]), false);
    let wrong = Err(ErrorCode::QPACK_DECODER_STREAM_ERROR);
    assert_eq!(decoder(&[0x00]), wrong, "an increment of 0");
    assert_eq!(decoder(&[0x05]), wrong, "an increment beyond what was inserted");
    assert_eq!(decoder(&[0x84]), wrong, "a section that needed nothing");
    assert_eq!(decoder(&[0x44, 0x7f]), ok(&[]), "cancellations are allowed");
}

#[test]
fn floods_have_an_end() {
    let end = |stream: u64, bytes: &[u8]| {
        let mut side = Side::server();
        side.hear(0, &post(&[]), false).unwrap();
        (0..3000).find_map(|_| side.hear(stream, bytes, false).err())
    };
    let load = Some(ErrorCode::EXCESSIVE_LOAD);
    assert_eq!(end(0, &frame_of(kind::DATA, b"")), load, "empty DATA");
    assert_eq!(end(0, &frame_of(0x21, b"")), load, "frames of unknown types");
    assert_eq!(end(2, &frame_of(0x21, b"")), load, "the same on the control stream");
    assert_eq!(end(2, &priority_update(0, "u=1")), load);
    assert_eq!(end(2, &number_frame(kind::MAX_PUSH_ID, 9)), load);
}
