//! The response parser.

use std::fmt;

use super::ResponseHead;
use crate::head::line::{Scan, may_begin, parse_field, scan, stray_control};
use crate::head::{Parsed, Span, Version, fault_text};

/// Where a head that arrives in pieces is continued.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(super) stage: Stage,
    line: usize,
    from: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    New,
    StatusLine,
    Fields,
    Done,
}

/// Why a response was refused. `Display` is what nginx logs of an upstream, as far as it logs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The first line is no status line. nginx takes the bytes for an HTTP/0.9 response.
    NoStatusLine,
    /// A malformed field. Holds the line up to the byte at fault, escaped.
    InvalidHeader(Box<str>),
    /// `Content-Length` or `Transfer-Encoding` twice.
    Duplicate,
    /// `Content-Length` is no number.
    InvalidContentLength,
    /// `Content-Length` and `Transfer-Encoding`.
    LengthAndTransferEncoding,
    /// A transfer coding other than `chunked`.
    UnknownTransferEncoding(Box<str>),
    /// A gateway's `Status` is no status.
    InvalidStatus(Box<str>),
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResponseError::NoStatusLine => f.write_str("upstream sent no valid HTTP/1.0 header"),
            ResponseError::InvalidHeader(line) => write!(f, "upstream sent invalid header: \"{line}\""),
            ResponseError::Duplicate => f.write_str("upstream sent duplicate header line"),
            ResponseError::InvalidContentLength => {
                f.write_str("upstream sent invalid \"Content-Length\" header")
            }
            ResponseError::LengthAndTransferEncoding => f.write_str(
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time",
            ),
            ResponseError::UnknownTransferEncoding(value) => {
                write!(f, "upstream sent unknown \"Transfer-Encoding\": \"{value}\"")
            }
            ResponseError::InvalidStatus(value) => write!(f, "upstream sent invalid status \"{value}\""),
        }
    }
}

impl std::error::Error for ResponseError {}

/// Parses the response head at the beginning of `buf` into `head`. After `Partial` call again with the same bytes and
/// more; the caller limits how many. A head that is complete is cleared by the next call.
///
/// Odd names are ordinary fields here, as in nginx, as long as they are tokens.
pub fn parse_response(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, ResponseError> {
    parse(buf, head, Controls::Refused)
}

/// The same for clients that show or measure what a server sends, and pass nothing on: values may have control bytes.
pub fn parse_response_tolerantly(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, ResponseError> {
    parse(buf, head, Controls::Taken)
}

/// What becomes of control bytes in values, which RFC 9110 §5.5 forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controls {
    Refused,
    Taken,
}

fn parse(buf: &[u8], head: &mut ResponseHead, controls: Controls) -> Result<Parsed, ResponseError> {
    if matches!(head.progress.stage, Stage::New | Stage::Done) {
        head.clear();
        head.progress.stage = Stage::StatusLine;
    }
    if head.progress.stage == Stage::StatusLine && status_line(buf, head)? == Parsed::Partial {
        return Ok(Parsed::Partial);
    }
    fields(buf, head, controls)
}

/// The first line; then the stage is the fields.
pub(super) fn status_line(buf: &[u8], head: &mut ResponseHead) -> Result<Parsed, ResponseError> {
    match scan(buf, head.progress.from) {
        Scan::Line { end, next } => {
            parse_status_line(&buf[..end], head)?;
            head.progress = Progress { stage: Stage::Fields, line: next, from: next };
            Ok(Parsed::Complete)
        }
        Scan::More { from } => {
            check_status_prefix(buf)?;
            head.progress.from = from;
            Ok(Parsed::Partial)
        }
        Scan::Bad { .. } => Err(ResponseError::NoStatusLine),
    }
}

/// Refuses at once what cannot become a status line: an HTTP/0.9 body may have no line end at all.
fn check_status_prefix(buf: &[u8]) -> Result<(), ResponseError> {
    const START: &[u8] = b"HTTP/";
    let len = buf.len().min(START.len());
    if buf[..len] == START[..len] { Ok(()) } else { Err(ResponseError::NoStatusLine) }
}

/// `HTTP-version SP status-code [SP reason-phrase]`. As in nginx a `.` may follow the code (IIS sends `403.1`).
fn parse_status_line(line: &[u8], head: &mut ResponseHead) -> Result<(), ResponseError> {
    let (version, code_at) = parse_version(line).ok_or(ResponseError::NoStatusLine)?;
    let code = line.get(code_at..code_at + 3).ok_or(ResponseError::NoStatusLine)?;
    if !code.iter().all(u8::is_ascii_digit) || !matches!(line.get(code_at + 3), None | Some(b' ' | b'.')) {
        return Err(ResponseError::NoStatusLine);
    }
    head.version = version;
    head.status = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    head.status_text = Span::new(code_at, line.len());
    Ok(())
}

/// The version, and the offset of the status code behind it.
fn parse_version(line: &[u8]) -> Option<(Version, usize)> {
    const DIGITS_MAX: usize = 3;
    let digits = |from: usize| {
        let count = line[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        (1..=DIGITS_MAX).contains(&count).then_some(from + count)
    };
    if line.starts_with(b"HTTP/1.1 ") {
        return Some((Version::Http11, skip_spaces(line, 9)));
    }
    if !line.starts_with(b"HTTP/") || line.get(5) == Some(&b'0') {
        return None;
    }
    let dot = digits(5)?;
    if line.get(dot) != Some(&b'.') {
        return None;
    }
    let end = digits(dot + 1)?;
    if line.get(end) != Some(&b' ') {
        return None;
    }
    let is_10 = &line[5..dot] == b"1" && line[dot + 1..end].iter().all(|&b| b == b'0');
    Some((if is_10 { Version::Http10 } else { Version::Http11 }, skip_spaces(line, end)))
}

fn skip_spaces(line: &[u8], from: usize) -> usize {
    from + line[from..].iter().take_while(|&&b| b == b' ').count()
}

/// The fields, and the empty line behind them.
pub(super) fn fields(
    buf: &[u8],
    head: &mut ResponseHead,
    controls: Controls,
) -> Result<Parsed, ResponseError> {
    loop {
        let start = head.progress.line;
        if let Some(&first) = buf.get(start)
            && !may_begin(first)
            && !matches!(first, b'\r' | b'\n')
        {
            return Err(invalid_header(&buf[start..], 0));
        }
        match scan(buf, head.progress.from) {
            Scan::Line { end, next } => {
                head.progress.line = next;
                head.progress.from = next;
                if end == start {
                    // A reason phrase is text for people; what it holds means nothing to a parser.
                    let fields = head.status_text.end as usize;
                    if controls == Controls::Refused
                        && let Some(at) = stray_control(&buf[fields..next])
                    {
                        let line = memchr::memrchr(b'\n', &buf[..fields + at]).map_or(0, |end| end + 1);
                        return Err(invalid_header(&buf[line..], fields + at - line));
                    }
                    head.progress.stage = Stage::Done;
                    head.len = next;
                    return Ok(Parsed::Complete);
                }
                take_field(buf, start, end, head)?;
            }
            Scan::More { from } => {
                head.progress.from = from;
                return Ok(Parsed::Partial);
            }
            Scan::Bad { at } => return Err(invalid_header(&buf[start..], at - start)),
        }
    }
}

fn take_field(buf: &[u8], start: usize, end: usize, head: &mut ResponseHead) -> Result<(), ResponseError> {
    // IIS may send the status line twice.
    if buf[start..end].starts_with(b"HTTP/") {
        return Ok(());
    }
    let (field, _) =
        parse_field(buf, start, end).map_err(|at| invalid_header(&buf[start..end], at - start))?;
    head.repeated |= head.present & field.id.bit();
    head.present |= field.id.bit();
    head.headers.push(field);
    Ok(())
}

#[cold]
fn invalid_header(line: &[u8], at: usize) -> ResponseError {
    ResponseError::InvalidHeader(fault_text(line, at))
}
