//! HTTP/1.1 response framing (RFC 9112 §6 and §7): bytes in, whole responses out.
//!
//! Knows nothing of sockets and clocks. Bodies are counted, not kept.

mod chunked;

use std::fmt;

use chunked::Chunked;
use memchr::{memchr, memmem};

/// A head longer than this is refused.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a response's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// How the body's end is found.
    pub body: Body,
    /// Whether the connection ends with this response.
    pub close: bool,
    /// The length of the head itself, in bytes.
    pub bytes: u32,
}

/// How the end of a body is found (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// It has exactly this many bytes; zero when there is none.
    Length(u64),
    /// It is chunked.
    Chunked,
    /// It ends with the connection.
    UntilClose,
}

/// How a response broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// The status line or a header line is not one.
    BadHead,
    /// The head exceeds [`HEAD_BYTES_MAX`].
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

/// The last head seen on a target.
///
/// A server's next head for the same request is mostly the same to the byte (`Date` changes once
/// a second). Equal bytes mean an equal framing, so such a head is compared and not parsed.
#[derive(Debug, Default)]
pub struct HeadCache {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl HeadCache {
    /// The head as it came; empty before the first.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// The head that `input` starts with, when it is the remembered one, and its length.
    #[inline]
    fn recall(&self, input: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        input.starts_with(&self.bytes).then_some((head, self.bytes.len()))
    }

    fn remember(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = Some(head);
    }
}

/// Finds the responses in a connection's bytes; the state says what comes next.
#[derive(Debug)]
pub enum ResponseReader {
    /// A head, of which these bytes have come. Empty between responses.
    Head(Vec<u8>),
    /// So many more bytes of a body.
    Length(Head, u64),
    /// A chunked body.
    Chunked(Head, Chunked),
    /// A body that ends with the connection.
    UntilClose(Head),
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self::Head(Vec::new())
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
        if let Self::Head(partial) = self
            && partial.is_empty()
            && let Some((head, head_len)) = cache.recall(input)
            && let Body::Length(length) = head.body
            && length <= (input.len() - head_len) as u64
        {
            *input = &input[head_len + length as usize..];
            return Ok(Some(head));
        }
        self.read_slowly(input, is_head, cache)
    }

    fn read_slowly(
        &mut self,
        input: &mut &[u8],
        is_head: bool,
        cache: &mut HeadCache,
    ) -> Result<Option<Head>, ResponseError> {
        while !input.is_empty() {
            let done = match self {
                Self::Head(partial) => match take_head(partial, input, is_head, cache)? {
                    None => None,
                    // An interim response (RFC 9110 §15.2) precedes the one that counts.
                    Some(head) if is_interim(head) => {
                        partial.clear();
                        None
                    }
                    Some(head) => match head.body {
                        Body::Length(0) => Some(head),
                        Body::Length(length) => {
                            *self = Self::Length(head, length);
                            None
                        }
                        Body::Chunked => {
                            *self = Self::Chunked(head, Chunked::default());
                            None
                        }
                        Body::UntilClose => {
                            *self = Self::UntilClose(head);
                            None
                        }
                    },
                },
                Self::Length(head, left) => {
                    let taken = (*left).min(input.len() as u64);
                    *left -= taken;
                    *input = &input[taken as usize..];
                    (*left == 0).then_some(*head)
                }
                Self::Chunked(head, chunked) => chunked.skip(input)?.then_some(*head),
                Self::UntilClose(_) => {
                    *input = &[];
                    None
                }
            };
            if let Some(head) = done {
                *self = Self::default();
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    /// Whether a head has been read, and its body not as a whole.
    pub fn is_in_body(&self) -> bool {
        !matches!(self, Self::Head(_))
    }

    /// The connection has ended: the response that this completes, if any.
    pub fn end(self) -> Result<Option<Head>, ResponseError> {
        match self {
            Self::Head(partial) if partial.is_empty() => Ok(None),
            Self::UntilClose(head) => Ok(Some(head)),
            Self::Head(_) | Self::Length(..) | Self::Chunked(..) => Err(ResponseError::Truncated),
        }
    }
}

/// Takes a head off `input`, joining it with the part that came before.
fn take_head(
    partial: &mut Vec<u8>,
    input: &mut &[u8],
    is_head: bool,
    cache: &mut HeadCache,
) -> Result<Option<Head>, ResponseError> {
    const END: &[u8] = b"\r\n\r\n";
    let before = partial.len();
    if before == 0 {
        if let Some((head, head_len)) = cache.recall(input) {
            *input = &input[head_len..];
            return Ok(Some(head));
        }
        if let Some(at) = memmem::find(input, END) {
            let (bytes, rest) = input.split_at(at + END.len());
            *input = rest;
            return finish_head(bytes, is_head, cache).map(Some);
        }
    }
    partial.extend_from_slice(input);
    // The end may lie across the seam.
    let from = before.saturating_sub(END.len() - 1);
    let Some(at) = memmem::find(&partial[from..], END) else {
        *input = &[];
        if partial.len() > HEAD_BYTES_MAX {
            return Err(ResponseError::HeadTooLong);
        }
        return Ok(None);
    };
    let head_len = from + at + END.len();
    *input = &input[head_len - before..];
    finish_head(&partial[..head_len], is_head, cache).map(Some)
}

fn finish_head(bytes: &[u8], is_head: bool, cache: &mut HeadCache) -> Result<Head, ResponseError> {
    let head = parse_head(bytes, is_head)?;
    if !is_interim(head) {
        cache.remember(bytes, head);
    }
    Ok(head)
}

/// 1xx, except 101, after which the connection speaks another protocol.
fn is_interim(head: Head) -> bool {
    head.status / 100 == 1 && head.status != 101
}

/// Reads a whole head, blank line included.
pub fn parse_head(bytes: &[u8], is_head: bool) -> Result<Head, ResponseError> {
    let (status_line, mut rest) = split_line(bytes).ok_or(ResponseError::BadHead)?;
    let (status, mut close) = parse_status_line(status_line)?;
    let mut length = None;
    let mut chunked = false;
    loop {
        let (line, after) = split_line(rest).ok_or(ResponseError::BadHead)?;
        rest = after;
        if line.is_empty() {
            break;
        }
        let colon = memchr(b':', line).ok_or(ResponseError::BadHead)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let parsed = parse_decimal(value).ok_or(ResponseError::BadLength)?;
            if length.is_some_and(|other| other != parsed) {
                return Err(ResponseError::BadLength);
            }
            length = Some(parsed);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = ends_with_token(value, b"chunked");
        } else if name.eq_ignore_ascii_case(b"connection") {
            close = match () {
                () if has_token(value, b"close") => true,
                () if has_token(value, b"keep-alive") => false,
                () => close,
            };
        }
    }
    // RFC 9112 §6.3, in its order.
    let body = match length {
        _ if is_head || status / 100 == 1 || status == 204 || status == 304 => Body::Length(0),
        _ if chunked => Body::Chunked,
        Some(length) => Body::Length(length),
        None => Body::UntilClose,
    };
    Ok(Head { status, body, close: close || body == Body::UntilClose, bytes: bytes.len() as u32 })
}

/// The status code, and whether this version closes by default (RFC 9112 §9.3).
fn parse_status_line(line: &[u8]) -> Result<(u16, bool), ResponseError> {
    let minor = match line.get(..9) {
        Some(b"HTTP/1.1 ") => 1,
        Some(b"HTTP/1.0 ") => 0,
        _ => return Err(ResponseError::BadHead),
    };
    let digits = line.get(9..12).and_then(parse_decimal).ok_or(ResponseError::BadHead)?;
    match line.get(12) {
        None | Some(b' ') if digits >= 100 => Ok((digits as u16, minor == 0)),
        _ => Err(ResponseError::BadHead),
    }
}

/// Splits at the first CRLF.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let newline = memchr(b'\n', bytes)?;
    let line = bytes[..newline].strip_suffix(b"\r")?;
    Some((line, &bytes[newline + 1..]))
}

/// Digits only: no sign, no space, no overflow.
fn parse_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

fn ends_with_token(list: &[u8], token: &[u8]) -> bool {
    list.rsplit(|&byte| byte == b',').next().is_some_and(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests;
