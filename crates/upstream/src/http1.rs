//! HTTP/1.0 and 1.1 to a back end (RFC 9112).
//!
//! The engine (`brisk_http::h1::Client`) parses; here is what a proxy makes of it: which connections persist, and
//! what counts as too much.

use crate::codec::{Codec, Event, Step};
use crate::head::BackendHead;
use brisk_http::chunked::{CHUNK_END, LAST_CHUNK, write_chunk_head};
use brisk_http::framing::parse_length;
use brisk_http::h1::{self, Client, ClientError, Rules};
use brisk_http::response::{RequestKind, ResponseFraming};
use brisk_http::{Header, HeaderId, Version};
use brisk_net::Failure;
use brisk_server::core::LogLevel;

/// Fields that there is room for from the start.
const FIELDS: usize = 16;

/// How a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What the response depends on.
    pub kind: RequestKind,
    /// The body is sent in chunks.
    pub chunked: bool,
    /// The client has asked for an upgrade, and that was passed on.
    pub upgrade: bool,
}

/// See the module's head.
pub struct Http1 {
    head: Vec<u8>,
    shape: Shape,
    client: Client,
    persists: bool,
    length: Option<u64>,
    /// More came than belongs to the answer.
    /// It is told by one warning, and then by the end; what it was is not passed on (RFC 9112 §6.3).
    excess: bool,
}

impl Http1 {
    /// `head` is the request's, complete.
    pub fn new(head: Vec<u8>, shape: Shape) -> Http1 {
        // Strict: a head in doubt is an error, since a lenient reading may differ from what a cache or client makes
        // of it (response splitting).
        let mut client = Client::new(Rules::Strict, shape.kind);
        // Most answers have fewer, so the list is allocated once per exchange.
        client.reserve_fields(FIELDS);
        Http1 { head, shape, client, persists: false, length: None, excess: false }
    }

    fn interim(&mut self, input: &[u8]) -> Result<Event, Failure> {
        // RFC 9110 §15.2: interim responses do not exist in HTTP/1.0.
        if self.client.head().version < Version::Http11 {
            return Err(Failure::protocol("upstream sent HTTP/1.0 response with early hints"));
        }
        Ok(Event::Interim(BackendHead::from_response(input, self.client.take_head())))
    }

    fn final_head(&mut self, input: &[u8]) -> Result<Event, Failure> {
        let parsed = self.client.take_head();
        // Three digits are all that the parser asks for; below 100 there are no classes (RFC 9110 §15).
        if parsed.status < 100 {
            return Err(Failure::protocol("upstream sent invalid status"));
        }
        if let Some(known) = self.client.known() {
            // RFC 9112 §9.3: HTTP/1.0 keeps a connection only if it says so; nginx never keeps it.
            self.persists = known.persists && parsed.version >= Version::Http11;
            self.length = match known.framing {
                ResponseFraming::Length(length) => Some(length),
                // What a HEAD or a 304 says of a body that does not follow.
                ResponseFraming::None => {
                    parsed.find(HeaderId::ContentLength).and_then(|field| parse_length(field.value.of(input)))
                }
                _ => None,
            };
            // RFC 9110 §7.8: a server must not switch to what was not asked for. `check_switch` refuses this
            // head; until then it must not count as a tunnel.
            if self.client.is_tunnel() && !self.shape.upgrade {
                // There was no request for it: what comes is a body without an announced end.
                self.client.begin_known(h1::Known { framing: ResponseFraming::UntilClose, ..known });
            }
        }
        Ok(Event::Head(BackendHead::from_response(input, parsed)))
    }

    fn trailers(&self) -> Event {
        let (fields, bytes) = self.client.trailers();
        let own = |field: &Header| (field.name.of(bytes).to_vec(), field.value.of(bytes).to_vec());
        Event::Trailers(fields.iter().map(own).collect())
    }
}

impl Codec for Http1 {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.client.begin(self.shape.kind);
        // Not before a head has said so: an exchange that fails earlier leaves no connection.
        (self.persists, self.length, self.excess) = (false, None, false);
        // The buffer itself goes on its way, without a copy.
        if out.is_empty() {
            *out = std::mem::take(&mut self.head);
        } else {
            out.append(&mut self.head);
        }
    }

    fn body(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if !self.shape.chunked {
            out.extend_from_slice(piece);
        } else if !piece.is_empty() {
            // An empty chunk would be the last one (RFC 9112 §7.1).
            write_chunk_head(piece.len() as u64, out);
            out.extend_from_slice(piece);
            out.extend_from_slice(CHUNK_END);
        }
    }

    /// A body with a length has its end in the head.
    fn end(&mut self, out: &mut Vec<u8>) {
        // Trailers of requests are not passed on: what they mean for the request is known to the application
        // only.
        if self.shape.chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    fn read(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Step, Failure> {
        if std::mem::take(&mut self.excess) {
            // The warning was given by the call before.
            return Ok(Step { used: 0, event: Event::End });
        }
        let received = self.client.receive(input).map_err(|error| match error {
            ClientError::Head(error) => Failure::protocol(error.to_string()),
            ClientError::Chunk(error) => {
                Failure::protocol(format!("upstream sent invalid chunked response: {error}"))
            }
        })?;
        let mut used = received.used;
        let event = match received.event {
            h1::Event::NeedMore => Event::NeedMore,
            h1::Event::Interim => self.interim(input)?,
            h1::Event::Head => self.final_head(input)?,
            h1::Event::Data(range) => Event::Data(range),
            h1::Event::Trailers => self.trailers(),
            h1::Event::End if used == input.len() => Event::End,
            h1::Event::End => {
                // The excess is used up, so that it is not taken for the next answer, and the connection is not kept.
                (self.persists, self.excess, used) = (false, true, input.len());
                let text = b"upstream sent more data than specified in \"Content-Length\" header";
                Event::Log(LogLevel::Warn, text.to_vec())
            }
        };
        Ok(Step { used, event })
    }

    fn eof(&mut self) -> Result<Event, Failure> {
        // `NeedMore` at the end of a connection is a response that was cut off.
        // An answer without a length ends with the connection (RFC 9112 §6.3); the engine knows whether this
        // one may.
        Ok(if self.client.closed() { Event::End } else { Event::NeedMore })
    }

    fn persists(&self) -> bool {
        self.persists
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_tunnel(&self) -> bool {
        self.client.is_tunnel()
    }
}
