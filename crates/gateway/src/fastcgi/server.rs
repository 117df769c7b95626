//! The application's side: for simulated peers in tests.

use super::record::RecordError as E;
use super::record::{Eight, HEAD_BYTES, Kind, Part, RecordError, RecordHead, Records};
use super::request::{EndRequest, KEEP_CONN};
use std::ops::Range;

/// What the web server sent. Ranges are of the bytes given to [`Peer::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// All bytes are done with.
    NeedMore,
    /// A request begins.
    Begin {
        /// [`RESPONDER`](super::RESPONDER), or a role that no web server of today asks for.
        role: u16,
        /// The connection stays open behind the request.
        keep_conn: bool,
    },
    /// The parameters are complete: name-value pairs for [`Pairs`](super::Pairs).
    Params(Vec<u8>),
    /// A part of the body.
    Stdin(Range<usize>),
    /// The body is complete.
    StdinEnd,
    /// The web server has lost interest.
    Abort,
}

/// What may come next; a record that may not is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begin,
    Params,
    Stdin,
}

/// A push parser for the requests of one connection, one after the other.
#[derive(Clone, Debug)]
pub struct Peer {
    records: Records,
    stage: Stage,
    /// The content of a `BEGIN_REQUEST`.
    begin: Eight,
    params: Vec<u8>,
    params_bytes_max: usize,
}

/// What web servers send about a request.
fn is_request(kind: Kind) -> bool {
    matches!(kind, Kind::BeginRequest | Kind::AbortRequest | Kind::Params | Kind::Stdin | Kind::Data)
}

impl Peer {
    /// A connection at its beginning; a request with more parameters than `params_bytes_max` is an error.
    pub fn new(params_bytes_max: usize) -> Peer {
        Peer {
            records: Records::new(is_request),
            stage: Stage::Begin,
            begin: Eight::default(),
            params: Vec::new(),
            params_bytes_max,
        }
    }

    /// Reads on, as [`Demux::next`](super::Demux::next).
    pub fn next(&mut self, buf: &[u8]) -> Result<(PeerEvent, usize), RecordError> {
        let mut at = 0;
        loop {
            let event = match self.records.next(buf, &mut at)? {
                Part::NeedMore => return Ok((PeerEvent::NeedMore, at)),
                Part::Head(head) => self.head(head)?,
                Part::Content { head, range, .. } => self.content(head.kind, buf, range)?,
                Part::End(_) => None,
            };
            if let Some(event) = event {
                return Ok((event, at));
            }
        }
    }

    /// Begins a record; gives what its head alone means.
    fn head(&mut self, head: RecordHead) -> Result<Option<PeerEvent>, RecordError> {
        let (stage, kind) = (self.stage, head.kind);
        let fits = match kind {
            Kind::BeginRequest => stage == Stage::Begin,
            Kind::Params => stage == Stage::Params,
            Kind::Stdin => stage == Stage::Stdin,
            Kind::AbortRequest => stage != Stage::Begin,
            _ => false,
        };
        if !fits {
            return Err(E::Unexpected(kind));
        }
        if kind == Kind::BeginRequest && usize::from(head.content) != HEAD_BYTES {
            return Err(E::Size(kind));
        }
        self.begin = Eight::default();
        if head.content > 0 && kind != Kind::AbortRequest {
            return Ok(None);
        }
        Ok(match kind {
            Kind::Params => {
                self.stage = Stage::Stdin;
                Some(PeerEvent::Params(std::mem::take(&mut self.params)))
            }
            Kind::Stdin => {
                self.stage = Stage::Begin;
                Some(PeerEvent::StdinEnd)
            }
            _ => {
                self.stage = Stage::Begin;
                self.params.clear();
                Some(PeerEvent::Abort)
            }
        })
    }

    fn content(
        &mut self,
        kind: Kind,
        buf: &[u8],
        range: Range<usize>,
    ) -> Result<Option<PeerEvent>, RecordError> {
        match kind {
            Kind::BeginRequest => {
                self.begin.take(&buf[range]);
                let Some([role_high, role_low, flags, ..]) = self.begin.whole() else { return Ok(None) };
                self.stage = Stage::Params;
                let role = u16::from_be_bytes([role_high, role_low]);
                Ok(Some(PeerEvent::Begin { role, keep_conn: flags & KEEP_CONN != 0 }))
            }
            Kind::Params => {
                if self.params.len() + range.len() > self.params_bytes_max {
                    return Err(E::TooLong);
                }
                self.params.extend_from_slice(&buf[range]);
                Ok(None)
            }
            Kind::Stdin => Ok(Some(PeerEvent::Stdin(range))),
            _ => Ok(None),
        }
    }
}

/// Appends `bytes` as records of a stream (`Stdout`, `Stderr`); nothing is written for no bytes, which would be the end.
pub fn write_stream(kind: Kind, bytes: &[u8], out: &mut Vec<u8>) {
    for piece in bytes.chunks(u16::MAX as usize) {
        let head = RecordHead::new(kind, piece.len() as u16);
        out.extend_from_slice(&head.bytes());
        out.extend_from_slice(piece);
        out.resize(out.len() + usize::from(head.padding), 0);
    }
}

/// Appends `END_REQUEST`.
pub fn write_end(end: EndRequest, out: &mut Vec<u8>) {
    out.extend_from_slice(&RecordHead::new(Kind::EndRequest, 8).bytes());
    out.extend_from_slice(&end.app_status.to_be_bytes());
    out.extend_from_slice(&[end.protocol_status.number(), u8::from(end.goes_on), 0, 0]);
}
