//! The compressed protocol against zlib itself, in whatever pieces it comes, and what a client may do wrong in it.

use super::*;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;
use std::io::{Read as _, Write as _};

const ROOM: usize = 16 << 10;

/// A stream of zlib as clients make it.
fn deflated(bytes: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A packet of this header and content, whatever that is.
fn packet(number: u8, announced_bytes: usize, content: &[u8]) -> Vec<u8> {
    let (length, announced) = ((content.len() as u32).to_le_bytes(), (announced_bytes as u32).to_le_bytes());
    [&length[..3], &[number], &announced[..3], content].concat()
}

fn deflated_packet(number: u8, bytes: &[u8]) -> Vec<u8> {
    packet(number, bytes.len(), &deflated(bytes, 6))
}

/// Gives pieces of a size to a connection and gets pieces of a size from it.
struct Reader {
    packets: Packets,
    zlib: Zlib,
    got: Vec<u8>,
    size: usize,
    room: usize,
}

impl Reader {
    fn new(size: usize, room: usize) -> Reader {
        Reader { packets: Packets::default(), zlib: Zlib::default(), got: Vec::new(), size, room }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), ProtocolError> {
        for mut piece in bytes.chunks(self.size) {
            loop {
                let before = self.got.len();
                let unpacked = self.packets.unpack(&mut self.zlib, &mut piece, &mut self.got, self.room);
                assert!(self.got.len() - before <= self.room, "no more than there is room for");
                if !unpacked? {
                    break;
                }
            }
            assert!(piece.is_empty());
        }
        Ok(())
    }
}

/// What the client has sent, whatever pieces it comes in and is asked for in.
fn check(bytes: &[u8], want: &[u8]) {
    for (size, room) in [(1, 1), (1, ROOM), (7, 3), (bytes.len().max(1), 1), (bytes.len().max(1), ROOM)] {
        let mut reader = Reader::new(size, room);
        reader.take(bytes).unwrap();
        assert!(reader.got == want, "{size} {room}: {}", reader.got.escape_ascii());
        assert!(reader.packets.is_between());
    }
}

fn refuse(bytes: &[u8], want: ProtocolError) {
    for (size, room) in [(1, 1), (1, ROOM), (bytes.len(), 1), (bytes.len(), ROOM)] {
        assert_eq!(Reader::new(size, room).take(bytes), Err(want), "{size} {room}");
    }
}

#[test]
fn what_clients_send_is_read() {
    let text = b"\x0f\0\0\0\x03SELECT 1 FROM t".repeat(20);
    check(&deflated_packet(0, &text), &text);
    check(&packet(0, 0, &text), &text);
    // A frame that is cut by packets, one of which is empty.
    let parts = [
        deflated_packet(0, &text[..60]),
        packet(1, 0, b""),
        packet(2, 0, &text[60..61]),
        deflated_packet(3, &text[61..]),
    ];
    check(&parts.concat(), &text);
    // Levels, and what does not become smaller.
    for level in [0, 1, 9] {
        check(&packet(0, text.len(), &deflated(&text, level)), &text);
        check(&packet(0, 1, &deflated(b"x", level)), b"x");
    }
    check(b"", b"");
}

#[test]
fn numbers_are_checked_and_begin_anew_with_each_command() {
    let mut reader = Reader::new(100, ROOM);
    for number in 0..=300_u32 {
        reader.take(&packet(number as u8, 0, b"x")).unwrap();
    }
    let wrong = ProtocolError::PackedSequence { expected: 45, got: 44 };
    assert_eq!(reader.take(&packet(44, 0, b"x")), Err(wrong));
    // A command, its answer, a file behind that.
    let mut reader = Reader::new(100, ROOM);
    let (mut zlib, mut out) = (Zlib::default(), Vec::new());
    assert_eq!(reader.take(&packet(1, 0, b"x")), Err(ProtocolError::PackedSequence { expected: 0, got: 1 }));
    let mut reader = Reader::new(100, ROOM);
    reader.take(&packet(0, 0, b"x")).unwrap();
    reader.packets.pack(&mut zlib, b"\x05\0\0\x01\xfbfile", &mut out);
    assert_eq!(out, packet(1, 0, b"\x05\0\0\x01\xfbfile"));
    // PHP counts frames; what follows that must count on, and is counted by packets here.
    reader.take(&packet(5, 0, b"x")).unwrap();
    reader.take(&packet(6, 0, b"x")).unwrap();
    out.clear();
    reader.packets.pack(&mut zlib, b"\x04\0\0\x01done", &mut out);
    assert_eq!(out, packet(4, 0, b"\x04\0\0\x04done"));
    reader.take(&packet(9, 0, b"x")).unwrap();
    assert_eq!(reader.take(&packet(9, 0, b"x")), Err(ProtocolError::PackedSequence { expected: 10, got: 9 }));
    // Two commands at once, without an answer between them.
    let mut reader = Reader::new(100, ROOM);
    reader.take(&packet(0, 0, b"close")).unwrap();
    reader.packets.begin_command();
    reader.take(&packet(0, 0, b"query")).unwrap();
    out.clear();
    reader.packets.pack(&mut zlib, b"\x04\0\0\x01rows", &mut out);
    assert_eq!(out, packet(1, 0, b"\x04\0\0\x01rows"));
    // Whoever sends a wrong number is told so in the packet behind that.
    assert_eq!(reader.take(&packet(3, 0, b"x")).err(), None);
    assert!(reader.take(&packet(3, 0, b"x")).is_err());
    out.clear();
    reader.packets.pack(&mut zlib, b"\x05\0\0\x01error", &mut out);
    assert_eq!(out, packet(4, 0, b"\x05\0\0\x04error"));
}

#[test]
fn a_packet_is_left_alone_until_it_is_asked_for() {
    let bytes = [deflated_packet(0, b"close"), packet(0, 0, b"query")].concat();
    let (mut packets, mut zlib, mut got) = (Packets::default(), Zlib::default(), Vec::new());
    let mut rest = &bytes[..];
    assert_eq!(packets.unpack(&mut zlib, &mut rest, &mut got, ROOM), Ok(true));
    assert_eq!((&got[..], rest.len()), (&b"close"[..], 12));
    packets.begin_command();
    assert_eq!(packets.unpack(&mut zlib, &mut rest, &mut got, ROOM), Ok(true));
    assert_eq!(got, b"closequery");
}

#[test]
fn lies_are_refused() {
    let text = b"SELECT 1 FROM t WHERE a = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'";
    let stream = deflated(text, 6);
    let length = text.len();
    let lie = |announced_bytes| ProtocolError::Inflated { announced_bytes };
    refuse(&packet(0, length - 1, &stream), lie(length - 1));
    refuse(&packet(0, 1, &stream), lie(1));
    refuse(&packet(0, length + 1, &stream), lie(length + 1));
    refuse(&packet(0, 0xff_ffff, &stream), lie(0xff_ffff));
    refuse(&packet(0, length, &[&stream[..], b"x"].concat()), lie(length));
    for cut in 1..stream.len() {
        refuse(&packet(0, length, &stream[..cut]), ProtocolError::Deflated);
    }
    refuse(&packet(0, length, b""), ProtocolError::Deflated);
    refuse(&packet(0, length, text), ProtocolError::Deflated);
    let mut damaged = stream.clone();
    *damaged.last_mut().unwrap() ^= 1;
    refuse(&packet(0, length, &damaged), ProtocolError::Deflated);
    // A stream that needs a dictionary.
    refuse(&packet(0, 10, b"\x78\xbb\0\0\0\x01abcdefgh"), ProtocolError::Deflated);
}

#[test]
fn what_is_damaged_at_its_end_is_not_looked_at() {
    let mut bytes = deflated_packet(0, b"\x0e\0\0\0\x03DELETE FROM t");
    *bytes.last_mut().unwrap() ^= 1;
    let (last, before) = bytes.split_last().unwrap();
    let (mut packets, mut zlib, mut got) = (Packets::default(), Zlib::default(), Vec::new());
    assert_eq!(packets.unpack(&mut zlib, &mut &before[..], &mut got, ROOM), Ok(false));
    assert_eq!(packets.unpack(&mut zlib, &mut &[*last][..], &mut got, ROOM), Err(ProtocolError::Deflated));
}

#[test]
fn a_bomb_is_inflated_no_further_than_there_is_room() {
    let zeros = vec![0; 0xff_ffff];
    let stream = deflated(&zeros, 9);
    assert!(stream.len() < 17 << 10);
    // What it announces is refused where it is exceeded, and costs no more than that.
    let mut reader = Reader::new(1 << 20, ROOM);
    let lie = ProtocolError::Inflated { announced_bytes: 1000 };
    assert_eq!(reader.take(&packet(0, 1000, &stream)), Err(lie));
    assert!(reader.got.len() <= 1000);
    // Of one that announces all of it there is a piece at a time.
    let bytes = packet(0, zeros.len(), &stream);
    let (mut packets, mut zlib, mut rest) = (Packets::default(), Zlib::default(), &bytes[..]);
    let mut sum = 0;
    loop {
        let mut piece = Vec::new();
        let is_given = packets.unpack(&mut zlib, &mut rest, &mut piece, ROOM).unwrap();
        assert!(piece.len() <= ROOM && piece.capacity() <= 2 * ROOM);
        sum += piece.len();
        if !is_given {
            break;
        }
    }
    assert_eq!(sum, zeros.len());
}

#[test]
fn inflaters_are_used_again() {
    let mut zlib = Zlib::default();
    let bytes = deflated_packet(0, b"SELECT 1");
    let mut many: Vec<(Packets, Vec<u8>)> = Vec::new();
    many.resize_with(INFLATERS_KEPT_MAX + 3, Default::default);
    for _ in 0..2 {
        // All have half of a packet.
        for (packets, got) in &mut many {
            packets.begin_command();
            packets.unpack(&mut zlib, &mut &bytes[..12], got, ROOM).unwrap();
            assert!(!packets.is_between());
        }
        assert_eq!(zlib.inflaters.len(), 0);
        for (packets, got) in &mut many {
            packets.unpack(&mut zlib, &mut &bytes[12..], got, ROOM).unwrap();
            assert!(packets.is_between());
        }
        assert_eq!(zlib.inflaters.len(), INFLATERS_KEPT_MAX);
    }
    assert!(many.iter().all(|(_, got)| got == b"SELECT 1SELECT 1"));
}

/// What packets carry, as a client reads it that looks at them one by one; `None` if it would not.
fn read_as_clients_do(mut bytes: &[u8], mut number: u8) -> Option<Vec<Vec<u8>>> {
    let mut got = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let three = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize;
        let (content, rest) = rest.split_at_checked(three(0))?;
        let mut piece = content.to_vec();
        if three(4) > 0 {
            piece.clear();
            ZlibDecoder::new(content).read_to_end(&mut piece).ok()?;
            if piece.len() != three(4) || content.len() >= piece.len() {
                return None;
            }
        }
        if header[3] != number || piece.is_empty() {
            return None;
        }
        got.push(piece);
        number = number.wrapping_add(1);
        bytes = rest;
    }
    Some(got)
}

/// Frames with numbers from 0 on.
fn framed(messages: &[&[u8]]) -> Vec<u8> {
    let (mut bytes, mut number) = (Vec::new(), 0);
    messages.iter().for_each(|message| packet::put_message(&mut bytes, &mut number, message));
    bytes
}

/// Bytes that do not become smaller.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// What is packed of frames that come in pieces of a size.
fn packed(frames: &[u8], size: usize) -> Vec<u8> {
    let (mut packets, mut zlib, mut out) = (Packets::default(), Zlib::default(), Vec::new());
    frames.chunks(size).for_each(|piece| packets.pack(&mut zlib, piece, &mut out));
    assert!(matches!(packets.outgoing, Outgoing::Held(held) if held.is_empty()));
    assert!(read_as_clients_do(&out, 0).unwrap().concat() == frames);
    out
}

#[test]
fn little_is_stored_and_what_does_not_become_smaller() {
    assert_eq!(packed(b"", 1), b"");
    let short = framed(&[&[b'x'; 45]]);
    assert_eq!(packed(&short, 100), packet(0, 0, &short));
    assert!(packed(&framed(&[&[b'x'; 46]]), 100).len() < 30);
    let noise = framed(&[&noise(1000)]);
    for size in [1, 4, 5, 999, 2000] {
        assert_eq!(packed(&noise, size), packet(0, 0, &noise));
    }
    assert_eq!(packed(&framed(&[b""]), 1), packet(0, 0, b"\0\0\0\0"));
}

#[test]
fn packets_end_where_frames_do() {
    let frames = framed(&[b"one", &vec![b'x'; 100_000], b"three", &vec![b'y'; 30_000]]);
    for size in [1, 3, 16 << 10, frames.len()] {
        for piece in read_as_clients_do(&packed(&frames, size), 0).unwrap() {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let length = u32::from_le_bytes([rest[0], rest[1], rest[2], 0]) as usize;
                rest = &rest[packet::HEADER_BYTES + length..];
            }
        }
    }
    // Many are several packets, and each as large as it should be.
    let many = framed(&vec![&[b'z'; 100][..]; 3000]);
    let pieces = read_as_clients_do(&packed(&many, many.len()), 0).unwrap();
    assert!(
        pieces.len() == 5 && pieces[..4].iter().all(|piece| piece.len() / 104 == 631),
        "{}",
        pieces.len()
    );
}

#[test]
fn a_long_frame_is_a_stored_packet() {
    let long = vec![b'x'; DEFLATED_FRAME_BYTES_MAX + 1];
    let frames = framed(&[b"first", &long, b"last!"]);
    let (first, last) = (9, frames.len() - 9);
    for size in [1, 7, 16 << 10, frames.len()] {
        let want = [
            packet(0, 0, &frames[..first]),
            packet(1, 0, &frames[first..last]),
            packet(2, 0, &frames[last..]),
        ];
        assert!(packed(&frames, size) == want.concat(), "{size}");
    }
    assert!(packed(&framed(&[&long[1..]]), 10_000).len() < 3000);
    // One of the largest size does not fit into a packet with its header.
    let largest = framed(&[&vec![b'x'; 0xff_ffff]]);
    let cut = PACKET_BYTES_MAX;
    let want = [
        packet(0, 0, &largest[..cut]),
        packet(1, 0, &largest[cut..cut + 4]),
        packet(2, 0, &largest[cut + 4..]),
    ];
    for size in [60_000, largest.len()] {
        assert!(packed(&largest, size) == want.concat(), "{size}");
    }
}

#[test]
fn frames_count_on_from_their_packet() {
    let mut reader = Reader::new(100, ROOM);
    let (mut zlib, mut out) = (Zlib::default(), Vec::new());
    for number in 0..3 {
        reader.take(&packet(number, 0, b"x")).unwrap();
    }
    for piece in [&b"\x01\0\0\x01a\x01\0"[..], b"\0\x02b", b"\x01\0\0\x03c"] {
        reader.packets.pack(&mut zlib, piece, &mut out);
    }
    let want =
        [packet(3, 0, b"\x01\0\0\x03a"), packet(4, 0, b"\x01\0\0\x04b"), packet(5, 0, b"\x01\0\0\x05c")];
    assert_eq!(out, want.concat());
    // Behind a file.
    out.clear();
    reader.take(&packet(6, 0, b"x")).unwrap();
    reader.packets.pack(&mut zlib, b"\x01\0\0\x09d", &mut out);
    assert_eq!(out, packet(7, 0, b"\x01\0\0\x07d"));
}

proptest! {
    #[test]
    fn whatever_a_client_packs_is_read(
        pieces in prop::collection::vec((prop::collection::vec(0..4_u8, 0..300), 0..=10_u32), 0..8),
        size in 1..200_usize,
        room in 1..200_usize,
    ) {
        let mut bytes = Vec::new();
        let mut want = Vec::new();
        for (number, (piece, level)) in pieces.iter().enumerate() {
            let is_stored = *level > 9 || piece.is_empty();
            bytes.extend(if is_stored {
                packet(number as u8, 0, piece)
            } else {
                packet(number as u8, piece.len(), &deflated(piece, *level))
            });
            want.extend_from_slice(piece);
        }
        let mut reader = Reader::new(size, room);
        reader.take(&bytes).unwrap();
        prop_assert_eq!(reader.got, want);
        prop_assert!(reader.packets.is_between());
    }

    #[test]
    fn whatever_is_packed_is_read_by_clients(
        messages in prop::collection::vec(prop::collection::vec(0..8_u8, 0..3000), 0..8),
        size in 1..5000_usize,
    ) {
        let frames = framed(&messages.iter().map(|message| &message[..]).collect::<Vec<_>>());
        let out = packed(&frames, size);
        let mut reader = Reader::new(100, 100);
        reader.take(&out).unwrap();
        prop_assert_eq!(reader.got, frames);
    }
}
