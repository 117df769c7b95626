//! Invariants as plain functions over arbitrary bytes: they panic if one is broken.
//!
//! `crates/fuzz` replays the corpora through them and explores from there.

use crate::PREFACE;
use crate::conn::{Config, Connection, Event, HeadKind, HeadSink, Role};
use crate::error::ErrorCode;
use crate::frame::{self, FrameHead, HEAD_BYTES, kind};
use crate::hpack::{Checks, Decoder, Encoder, Field, FieldSink, Indexing, Limits, huffman};
use crate::settings::Settings;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Small limits, so that short inputs meet them.
const TIGHT: Limits =
    Limits { string_bytes_max: 60, list_bytes_max: 200, fields_max: 12, long_padding: false };

/// Keeps what it is given.
#[derive(Debug, Default)]
struct Collect(Fields);

impl FieldSink for Collect {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name.len() as u8
    }

    fn field(&mut self, field: Field<'_>) {
        assert_eq!(field.tag, field.name.len() as u8);
        assert!(!field.name.is_empty());
        let bad = field.value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'));
        assert_eq!(field.checks.has(Checks::BAD_VALUE), bad);
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

/// Header blocks, one behind another, each with its length in front: limits hold, and what was decoded can be encoded
/// and decoded again.
pub fn fuzz_hpack(data: &[u8]) {
    let mut decoder = Decoder::new(256);
    let (mut encoder, mut again) = (Encoder::new(128), Decoder::new(256));
    let mut rest = data;
    while let Some((&len, tail)) = rest.split_first() {
        let (block, tail) = tail.split_at(tail.len().min(usize::from(len)));
        rest = tail;
        let mut sink = Collect::default();
        let result = decoder.decode(block, TIGHT, &mut sink);
        assert!(decoder.memory() < 4096);
        let bytes: usize = sink.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= TIGHT.list_bytes_max && sink.0.len() <= TIGHT.fields_max);
        if result.is_err() {
            return;
        }
        let mut coded = Vec::new();
        if len % 7 == 0 {
            encoder.set_size_max(usize::from(len));
        }
        encoder.begin(&mut coded);
        for (at, (name, value)) in sink.0.iter().enumerate() {
            let indexing = [Indexing::Add, Indexing::Without, Indexing::Never][at % 3];
            encoder.field(name, value, indexing, &mut coded);
        }
        let mut back = Collect::default();
        again.decode(&coded, Limits::default(), &mut back).expect("what we encode is valid");
        assert_eq!(back.0, sink.0);
    }
}

/// The Huffman code: what is decoded is encoded to the same bytes, and the other way round.
pub fn fuzz_huffman(data: &[u8]) {
    let mut coded = Vec::new();
    huffman::encode(data, &mut coded);
    assert_eq!(coded.len(), huffman::encoded_len(data));
    let mut plain = Vec::new();
    huffman::decode(&coded, &mut plain).expect("what we encode is valid");
    assert_eq!(plain, data);
    plain.clear();
    if huffman::decode(data, &mut plain).is_ok() {
        coded.clear();
        huffman::encode(&plain, &mut coded);
        assert_eq!(coded, data, "there is one code for each text");
    }
}

impl HeadSink for Collect {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        self.0.push((b"-".to_vec(), format!("{kind:?}").into_bytes()));
    }
}

/// A server's connection: pieces do not matter, memory stays bounded, what it sends is well-formed and stays within
/// the windows, and no stream is told of after its end.
pub fn fuzz_connection(data: &[u8]) {
    let whole = talk(data, data.len().max(1));
    for step in [1, 3, 10] {
        let pieces = talk(data, step);
        assert_eq!(pieces, whole, "in steps of {step}");
    }
}

/// What a connection did.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    events: Vec<String>,
    out: Vec<u8>,
}

fn talk(data: &[u8], step: usize) -> Story {
    let settings = Settings {
        max_concurrent_streams: Some(5),
        initial_window_size: 100,
        enable_connect_protocol: true,
        ..Settings::default()
    };
    let config = Config { settings, head_limits: TIGHT, connection_window: 70_000, ..Config::default() };
    let mut story = Story { events: Vec::new(), out: Vec::new() };
    let mut conn = Connection::<Vec<u8>>::new(Role::Server, config, 0, &mut story.out);
    let mut input = PREFACE.to_vec();
    frame::write_head(0, kind::SETTINGS, 0, 0, &mut input);
    let mut fed = 0;
    let mut sink = Collect::default();
    loop {
        let mut at = 0;
        loop {
            match conn.receive(&input[at..], &mut sink, &mut story.out) {
                Ok(received) => {
                    assert!(received.used <= input.len() - at);
                    let idle = received.used == 0 && received.event.is_none();
                    at += received.used;
                    let event = received.event.map(|event| own(event, &mut story));
                    if let Some(event) = event {
                        act(&mut conn, event, &mut story);
                    }
                    if idle {
                        break;
                    }
                }
                Err(error) => {
                    story.events.push(format!("{error:?}"));
                    conn.fail(&error, &mut story.out);
                    check_output(&story.out);
                    return story;
                }
            }
            assert!(conn.len() <= 5 && conn.memory() < 64 << 10);
        }
        input.drain(..at);
        if fed == data.len() {
            check_output(&story.out);
            return story;
        }
        let count = step.min(data.len() - fed);
        input.extend_from_slice(&data[fed..fed + count]);
        fed += count;
    }
}

/// What is to be done about an event.
enum Act {
    Answer(u32),
    Took(u32, u32, bool),
    Nothing,
}

/// Notes an event; data is noted as one text however it came.
fn own(event: Event<'_, Vec<u8>>, story: &mut Story) -> Act {
    match event {
        Event::Data { stream, data, end, .. } => Act::Took(stream, data.len() as u32, end),
        Event::Head { stream, end, .. } => {
            story.events.push(format!("head {stream} {end}"));
            if end { Act::Answer(stream) } else { Act::Nothing }
        }
        Event::Trailers { stream, .. } => {
            story.events.push(format!("trailers {stream}"));
            Act::Answer(stream)
        }
        Event::Mismatch { stream } => {
            story.events.push(format!("mismatch {stream}"));
            Act::Answer(stream)
        }
        Event::Interim { .. } => unreachable!("a server gets no responses"),
        other => {
            story.events.push(format!("{other:?}"));
            Act::Nothing
        }
    }
}

fn act(conn: &mut Connection<Vec<u8>>, act: Act, story: &mut Story) {
    let out = &mut story.out;
    let stream = match act {
        Act::Nothing => return,
        Act::Took(stream, count, end) => {
            assert!(conn.has(stream));
            // What is consumed at once would make window updates hang on the pieces.
            conn.forget(stream, count, out);
            if !end {
                return;
            }
            story.events.push(format!("end {stream}"));
            stream
        }
        Act::Answer(stream) => stream,
    };
    assert!(conn.can_send(stream), "an answered stream is not asked again");
    conn.send_head(stream, &[0x88], false, out).expect("the stream is open");
    if stream % 4 == 1 {
        let body = [b'x'; 40];
        let room = conn.room(stream).min(body.len());
        conn.send_body(stream, &body[..room], true, out).expect("the stream is open");
    } else {
        conn.reset(stream, ErrorCode::CANCEL, out);
    }
    assert!(!conn.has(stream));
}

fn check_output(mut out: &[u8]) {
    while !out.is_empty() {
        let head = FrameHead::parse(out).expect("whole frames");
        out = out.get(HEAD_BYTES + head.len as usize..).expect("whole frames");
    }
}
