//! HTTP/1.1 responses (RFC 9112 §6 and §7): bytes in, whole responses out.
//!
//! The engine is `brisk_http`'s. Beside it: heads that have come before are recognised, not parsed, and bodies are counted,
//! not kept.

pub use crate::limits::RESPONSE_HEAD_BYTES_MAX;
use brisk_http::h1::{Client, ClientError, Event, Known, Rules};
use brisk_http::head::Header;
use brisk_http::response::{RequestKind, ResponseError as HeadError, ResponseFraming};
use std::fmt;

/// What a response's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// Whether the connection ends with this response.
    pub close: bool,
    /// The length of the head itself, in bytes.
    pub bytes: u32,
}

impl From<Known> for Head {
    fn from(known: Known) -> Self {
        Self { status: known.status, close: !known.persists, bytes: known.len }
    }
}

/// How a response broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// The status line or a header line is not one.
    BadHead,
    /// The head exceeds [`RESPONSE_HEAD_BYTES_MAX`].
    HeadTooLong,
    /// `Content-Length` is no number or differs from another one.
    BadLength,
    /// The chunked coding is broken.
    BadChunk,
    /// The connection ended inside the response.
    Truncated,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadHead => "malformed response head",
            Self::HeadTooLong => "response head too long",
            Self::BadLength => "invalid Content-Length",
            Self::BadChunk => "invalid chunked coding",
            Self::Truncated => "connection closed inside a response",
        })
    }
}

impl std::error::Error for ResponseError {}

impl From<ClientError> for ResponseError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Head(HeadError::InvalidContentLength | HeadError::Duplicate) => Self::BadLength,
            ClientError::Head(_) => Self::BadHead,
            ClientError::Chunk(_) => Self::BadChunk,
        }
    }
}

/// The last head seen on a target.
///
/// A server's next head for the same request is mostly the same to the byte (`Date` changes once
/// a second). Equal bytes mean an equal framing, so such a head is compared and not parsed.
#[derive(Debug, Default)]
pub struct HeadCache {
    bytes: Vec<u8>,
    known: Option<Known>,
}

impl HeadCache {
    /// The head as it came; empty before the first.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// The head that `input` starts with, when it is the remembered one.
    #[inline]
    fn recall(&self, input: &[u8]) -> Option<Known> {
        self.known.filter(|_| input.starts_with(&self.bytes))
    }

    fn remember(&mut self, bytes: &[u8], known: Known) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.known = Some(known);
    }
}

/// Finds the responses in a connection's bytes.
#[derive(Debug)]
pub struct ResponseReader {
    client: Client,
    /// A head, of which these bytes have come.
    partial: Vec<u8>,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self { client: Client::new(Rules::Tolerant, RequestKind::Other), partial: Vec::new() }
    }
}

impl ResponseReader {
    /// Takes bytes off `input` up to the end of one response, which is returned, or all of them.
    ///
    /// `is_head` says that the request's method was HEAD; `cache` belongs to the request's target.
    #[inline]
    pub fn read(
        &mut self,
        input: &mut &[u8],
        is_head: bool,
        cache: &mut HeadCache,
    ) -> Result<Option<Head>, ResponseError> {
        // The common case in one place: a known head with its whole body behind it.
        if self.partial.is_empty()
            && !self.client.is_in_body()
            && let Some(known) = cache.recall(input)
        {
            let head_len = known.len as usize;
            if let ResponseFraming::Length(length) = known.framing
                && length <= (input.len() - head_len) as u64
            {
                *input = &input[head_len + length as usize..];
                return Ok(Some(known.into()));
            }
            *input = &input[head_len..];
            self.client.begin_known(known);
            return self.read_body(input);
        }
        self.read_slowly(input, is_head, cache)
    }

    fn read_slowly(
        &mut self,
        input: &mut &[u8],
        is_head: bool,
        cache: &mut HeadCache,
    ) -> Result<Option<Head>, ResponseError> {
        while !self.client.is_in_body() && !input.is_empty() {
            if self.partial.is_empty() {
                self.client.begin(if is_head { RequestKind::Head } else { RequestKind::Other });
            }
            let before = self.partial.len();
            let bytes = if before == 0 {
                *input
            } else {
                self.partial.extend_from_slice(input);
                &self.partial[..]
            };
            let received = self.client.receive(bytes)?;
            match received.event {
                Event::Head | Event::Interim => {
                    let head = &bytes[..received.used];
                    check_head(head, &self.client.head().headers)?;
                    // An interim response (RFC 9110 §15.2) precedes the one that counts.
                    if let Some(known) = self.client.known() {
                        cache.remember(head, known);
                    }
                    *input = &input[received.used - before..];
                    self.partial.clear();
                    if received.event == Event::Head {
                        break;
                    }
                }
                _ => {
                    if before == 0 {
                        self.partial.extend_from_slice(input);
                    }
                    *input = &[];
                    if self.partial.len() > RESPONSE_HEAD_BYTES_MAX {
                        return Err(ResponseError::HeadTooLong);
                    }
                }
            }
        }
        self.read_body(input)
    }

    /// Counts what belongs to the body; gives the head when it is complete.
    fn read_body(&mut self, input: &mut &[u8]) -> Result<Option<Head>, ResponseError> {
        let Some(known) = self.client.known() else { return Ok(None) };
        if self.client.is_tunnel() {
            // Nothing here speaks what follows.
            self.client.begin(RequestKind::Other);
            return Ok(Some(Head { close: true, ..known.into() }));
        }
        loop {
            let received = self.client.receive(input)?;
            *input = &input[received.used..];
            match received.event {
                Event::End => return Ok(Some(known.into())),
                Event::NeedMore => return Ok(None),
                _ => {}
            }
        }
    }

    /// Whether a head has been read, and its body not as a whole.
    pub fn is_in_body(&self) -> bool {
        self.client.is_in_body()
    }

    /// The connection has ended: the response that this completes, if any.
    pub fn end(mut self) -> Result<Option<Head>, ResponseError> {
        match self.client.known() {
            Some(known) if self.client.is_in_body() => {
                if self.client.closed() {
                    Ok(Some(known.into()))
                } else {
                    Err(ResponseError::Truncated)
                }
            }
            _ if self.partial.is_empty() => Ok(None),
            _ => Err(ResponseError::Truncated),
        }
    }
}

/// Refuses what the parser lets pass for the sake of old back ends: lines without a colon, and versions other than 1.x. `bytes`
/// begin with the head.
pub fn check_head(bytes: &[u8], fields: &[Header]) -> Result<(), ResponseError> {
    let has_colons = fields.iter().all(|field| bytes.get(field.name.end as usize) == Some(&b':'));
    if has_colons && bytes.starts_with(b"HTTP/1.") { Ok(()) } else { Err(ResponseError::BadHead) }
}

#[cfg(test)]
mod tests;
