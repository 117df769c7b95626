//! Invariants as plain functions over arbitrary bytes: they panic if one is broken.
//!
//! `crates/fuzz` replays the corpora through them and explores from there.

use crate::conn::{Begun, Config, Connection, Event, Own, Role};
use crate::error::ErrorCode;
use crate::frame::FrameHead;
use crate::qpack::{self, Decoder};
use crate::settings::Settings;
use brisk_mux::{Checks, Field, FieldLimits, FieldSink, HeadKind, HeadSink};
use std::collections::BTreeMap;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Small limits, so that short inputs meet them.
const TIGHT: FieldLimits =
    FieldLimits { string_bytes_max: 60, list_bytes_max: 200, fields_max: 12, long_padding: false };

/// Keeps what it is given.
#[derive(Debug, Default)]
struct Collect(Fields);

impl FieldSink for Collect {
    fn tag(&mut self, name: &[u8]) -> u8 {
        name.len() as u8
    }

    fn field(&mut self, field: Field<'_>) {
        assert_eq!(field.tag, field.name.len() as u8);
        let bad = field.value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'));
        assert_eq!(field.checks.has(Checks::BAD_VALUE), bad);
        assert_eq!(field.checks.has(Checks::PSEUDO), field.name.first() == Some(&b':'));
        self.0.push((field.name.to_vec(), field.value.to_vec()));
    }
}

impl HeadSink for Collect {
    fn begin(&mut self, stream: u64, kind: HeadKind) {
        self.0.push((b"-".to_vec(), format!("{stream} {kind:?}").into_bytes()));
    }
}

/// Pieces of input, each with what it is for in front and its length behind that.
fn pieces(data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (&[what, len], tail) = rest.split_first_chunk::<2>()?;
        let (piece, tail) = tail.split_at(tail.len().min(usize::from(len)));
        rest = tail;
        Some((what, piece))
    })
}

/// Instructions and field sections in any order: limits hold, what was decoded can be encoded and decoded again, and how
/// instructions come in pieces does not matter.
pub fn fuzz_qpack(data: &[u8]) {
    let (mut decoder, mut twin) = (Decoder::new(256), Decoder::new(256));
    for (what, piece) in pieces(data) {
        if what % 2 == 0 {
            let whole = decoder.instructions(piece, &mut Collect::default());
            let parts = piece.chunks(1).try_for_each(|byte| twin.instructions(byte, &mut Collect::default()));
            assert_eq!(whole, parts);
            assert_eq!(decoder.inserts(), twin.inserts());
            assert!(decoder.memory() < 16 << 10);
            if whole.is_err() {
                return;
            }
            continue;
        }
        let Ok(prefix) = decoder.prefix(piece) else { return };
        if prefix.required > decoder.inserts() {
            continue;
        }
        let mut sink = Collect::default();
        let result = decoder.decode(piece, prefix, TIGHT, &mut sink);
        let bytes: usize = sink.0.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= TIGHT.list_bytes_max && sink.0.len() <= TIGHT.fields_max);
        if result.is_err() {
            continue;
        }
        let mut coded = Vec::new();
        qpack::begin(&mut coded);
        sink.0.iter().for_each(|(name, value)| qpack::write_literal(name, value, &mut coded));
        let mut again = Decoder::new(0);
        let prefix = again.prefix(&coded).expect("what we encode is valid");
        let mut back = Collect::default();
        again.decode(&coded, prefix, FieldLimits::default(), &mut back).expect("what we encode is valid");
        assert_eq!(back.0, sink.0);
    }
}

/// A server's connection: how each stream comes in pieces does not matter, memory stays bounded, what it sends is well-formed,
/// and no stream is told of after its end.
pub fn fuzz_connection(data: &[u8]) {
    let whole = talk(data, usize::MAX);
    for step in [1, 3, 10] {
        assert_eq!(talk(data, step), whole, "in steps of {step}");
    }
}

/// What a connection did. DATA is noted as one text per stream however it came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    events: Vec<String>,
    bodies: BTreeMap<u64, Vec<u8>>,
    fields: Fields,
    own: [Vec<u8>; 2],
}

struct Talk {
    conn: Connection<u32>,
    sink: Collect,
    story: Story,
    begun: [u64; 2],
    /// What is left of the input of blocked streams.
    waiting: BTreeMap<u64, (Vec<u8>, bool)>,
    finished: Vec<u64>,
}

/// The streams that a peer may begin here, by what a piece says: some requests, some unidirectional ones.
const STREAMS: [u64; 8] = [2, 6, 10, 14, 0, 4, 8, 12];

fn talk(data: &[u8], step: usize) -> Story {
    let settings =
        Settings { qpack_max_table_capacity: 256, qpack_blocked_streams: 2, ..Settings::default() };
    let config = Config { settings, head_limits: TIGHT, streams_max: 3, ..Config::default() };
    let mut talk = Talk {
        conn: Connection::new(Role::Server, config, 0),
        sink: Collect::default(),
        story: Story::default(),
        begun: [0, 2],
        waiting: BTreeMap::new(),
        finished: Vec::new(),
    };
    for (what, piece) in pieces(data) {
        let stream = STREAMS[usize::from(what & 7)];
        if let Err(error) = talk.piece(stream, piece, what, step) {
            talk.story.events.push(format!("{error:?}"));
            break;
        }
        assert!(talk.conn.len() <= 3 && talk.conn.memory() < 64 << 10);
    }
    talk.story.fields = talk.sink.0;
    for (own, out) in [Own::Control, Own::Decoder].into_iter().zip(&mut talk.story.own) {
        *out = std::mem::take(talk.conn.own_output(own));
    }
    check_control(&talk.story.own[0]);
    // Acknowledgments of insertions are joined as they come.
    talk.story.own[1].clear();
    talk.story
}

impl Talk {
    fn piece(
        &mut self,
        stream: u64,
        piece: &[u8],
        what: u8,
        step: usize,
    ) -> Result<(), crate::ConnectionError> {
        let begun = &mut self.begun[usize::from(stream & 2 != 0)];
        while *begun <= stream {
            let id = *begun;
            *begun += 4;
            if let Begun::Refused(code) = self.conn.begin(id)? {
                self.story.events.push(format!("refused {id} {code:?}"));
                self.finished.push(id);
            }
        }
        if self.finished.contains(&stream) {
            return Ok(());
        }
        if what & 0x40 != 0 {
            self.finished.push(stream);
            self.waiting.remove(&stream);
            let event = self.conn.peer_reset(stream, ErrorCode::REQUEST_CANCELLED)?;
            self.story.events.push(format!("{event:?}"));
            return Ok(());
        }
        let fin = what & 0x80 != 0;
        if fin {
            self.finished.push(stream);
        }
        if let Some((rest, ends)) = self.waiting.get_mut(&stream) {
            // It is not read while it waits.
            rest.extend_from_slice(piece);
            *ends |= fin;
            return Ok(());
        }
        for part in piece.chunks(step.max(1)) {
            self.feed(stream, part, false)?;
        }
        if fin {
            self.feed(stream, &[], true)?;
        }
        while let Some(id) = self.conn.next_unblocked() {
            self.story.events.push(format!("unblocked {id}"));
            let (rest, ends) = self.waiting.remove(&id).expect("it waits");
            self.feed(id, &rest, ends)?;
        }
        Ok(())
    }

    fn feed(&mut self, stream: u64, part: &[u8], fin: bool) -> Result<(), crate::ConnectionError> {
        if let Some((rest, ends)) = self.waiting.get_mut(&stream) {
            rest.extend_from_slice(part);
            *ends |= fin;
            return Ok(());
        }
        let mut input = part;
        while let Some(event) = self.conn.receive(stream, &mut input, fin, &mut self.sink)? {
            assert!(input.len() <= part.len());
            let answer = match event {
                Event::Data { stream, data, end, .. } => {
                    self.story.bodies.entry(stream).or_default().extend_from_slice(data);
                    if end {
                        self.story.events.push(format!("end {stream}"));
                    }
                    end.then_some(stream)
                }
                Event::Head { stream, end, bytes } => {
                    self.story.events.push(format!("head {stream} {bytes}"));
                    if end {
                        self.story.events.push(format!("end {stream}"));
                    }
                    end.then_some(stream)
                }
                other => {
                    self.story.events.push(format!("{other:?}"));
                    None
                }
            };
            answer.into_iter().for_each(|stream| self.answer(stream));
        }
        if !input.is_empty() || self.is_blocked(stream) {
            self.waiting.insert(stream, (input.to_vec(), fin));
        }
        Ok(())
    }

    fn is_blocked(&self, stream: u64) -> bool {
        self.conn.is_blocked(stream)
    }

    fn answer(&mut self, stream: u64) {
        assert!(self.conn.can_send(stream), "an answered stream is not asked again");
        let mut out = Vec::new();
        let mut section = Vec::new();
        qpack::begin(&mut section);
        qpack::write_status(200, &mut section);
        self.conn.send_head(stream, &section, &mut out).expect("the stream is open");
        if stream.is_multiple_of(8) {
            self.conn.end_send(stream).expect("the stream is open");
        } else {
            self.conn.reset(stream);
        }
        assert!(!self.conn.has(stream));
    }
}

fn check_control(out: &[u8]) {
    let mut rest = &out[1..];
    while !rest.is_empty() {
        let (head, used) = FrameHead::parse(rest).expect("whole frames");
        rest = rest.get(used + head.len as usize..).expect("whole frames");
    }
}
