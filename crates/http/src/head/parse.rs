//! The request parser.

use memchr::memchr;

use super::limits::Room;
use super::line::{Name, Scan, may_begin, parse_field, scan, stray_control};
use super::{HeadError, HeadOptions, Method, Parsed, RequestHead, Span, Version};

/// Where a head that arrives in pieces is continued, so that no byte is searched twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    stage: Stage,
    /// Where the current line begins.
    line: usize,
    /// Where to look for its end.
    from: usize,
    room: Room,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    LeadingLines,
    RequestLine,
    Fields,
    Done,
}

/// Parses the head at the beginning of `buf` into `head`.
///
/// After `Partial` call again with the same bytes and more behind them (the memory may have moved) and the same
/// `head`: parsing continues where it stopped. Errors are told as soon as they are certain. A head that is complete
/// is cleared by the next call.
pub fn parse_request(buf: &[u8], opts: &HeadOptions, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    if matches!(head.progress.stage, Stage::New | Stage::Done) {
        if head.progress.stage == Stage::Done {
            head.clear();
        }
        head.progress = Progress { stage: Stage::LeadingLines, room: Room::new(opts), ..Progress::default() };
    }
    if head.progress.stage == Stage::LeadingLines && !skip_leading_lines(buf, opts, &mut head.progress)? {
        return Ok(Parsed::Partial);
    }
    if head.progress.stage == Stage::RequestLine {
        let Some((start, end)) = next_request_line(buf, opts, &mut head.progress)? else {
            return Ok(Parsed::Partial);
        };
        parse_request_line(buf, start, end, head)?;
        if head.version == Version::Http09 {
            return Ok(complete(head));
        }
        head.progress.stage = Stage::Fields;
    }
    parse_fields(buf, opts, head)
}

fn complete(head: &mut RequestHead) -> Parsed {
    head.progress.stage = Stage::Done;
    head.len = head.progress.line;
    Parsed::Complete
}

/// RFC 9112 §2.2: a server SHOULD ignore at least one empty line before a request line. nginx ignores any number
/// until its timer ends; we ignore what fits into the first buffer, so that the memory has a limit.
fn skip_leading_lines(buf: &[u8], opts: &HeadOptions, progress: &mut Progress) -> Result<bool, HeadError> {
    loop {
        if progress.line > opts.first_buffer {
            return Err(HeadError::BadRequest("too many empty lines before the request line"));
        }
        match buf.get(progress.line) {
            None => return Ok(false),
            Some(b'\n') => progress.line += 1,
            Some(b'\r') => match buf.get(progress.line + 1) {
                None => return Ok(false),
                Some(b'\n') => progress.line += 2,
                Some(_) => return Err(HeadError::BadRequest("CR without LF before the request line")),
            },
            Some(_) => break,
        }
    }
    progress.room.take_leading(progress.line);
    progress.from = progress.line;
    progress.stage = Stage::RequestLine;
    Ok(true)
}

/// The bounds of the request line once it has arrived.
fn next_request_line(
    buf: &[u8],
    opts: &HeadOptions,
    progress: &mut Progress,
) -> Result<Option<(usize, usize)>, HeadError> {
    let start = progress.line;
    let limit = progress.room.line_limit(opts);
    let window = &buf[..buf.len().min(start.saturating_add(limit))];
    match scan(window, progress.from.min(window.len())) {
        Scan::Line { end, next } => {
            progress.room.take(next - start, opts);
            progress.line = next;
            progress.from = next;
            Ok(Some((start, end)))
        }
        Scan::More { from } => {
            check_method_prefix(&window[start..])?;
            if window.len() - start >= limit {
                // Without a space there is no URI yet that could be too long.
                let has_method = memchr(b' ', &window[start..]).is_some();
                return Err(if has_method { HeadError::UriTooLong } else { HeadError::BadMethod });
            }
            progress.from = from;
            Ok(None)
        }
        Scan::Bad { at } => {
            check_method_prefix(&buf[start..=at])?;
            Err(HeadError::BadRequest("control byte in the request line"))
        }
    }
}

/// Whether nginx takes this byte in a method. Lower case is refused, so that other protocols fail at once.
#[inline]
fn is_method_byte(b: u8) -> bool {
    b.is_ascii_uppercase() || b == b'_' || b == b'-'
}

/// Refuses what can no longer become a request line, such as a TLS `ClientHello`. Looks at a few bytes only: it runs
/// whenever a piece arrives.
fn check_method_prefix(line: &[u8]) -> Result<(), HeadError> {
    const METHOD_PREFIX_BYTES: usize = 32;
    let end = line.iter().take(METHOD_PREFIX_BYTES).position(|&b| !is_method_byte(b));
    match end {
        Some(0) => Err(HeadError::BadMethod),
        Some(at) if line[at] != b' ' => Err(HeadError::BadMethod),
        _ => Ok(()),
    }
}

/// `method SP request-target SP HTTP-version` (RFC 9112 §3); like nginx, any number of spaces separates the parts,
/// and spaces may follow the version.
fn parse_request_line(buf: &[u8], start: usize, end: usize, head: &mut RequestHead) -> Result<(), HeadError> {
    let line = &buf[start..end];
    let method_len = line.iter().position(|&b| !is_method_byte(b)).unwrap_or(line.len());
    if method_len == 0 || line.get(method_len) != Some(&b' ') {
        return Err(HeadError::BadMethod);
    }
    head.method = Method::from_name(&line[..method_len]);
    head.method_name = Span::new(start, start + method_len);
    head.request_line = Span::new(start, end);

    let target = skip_spaces(line, method_len);
    let target_end = memchr(b' ', &line[target..]).map_or(line.len(), |len| target + len);
    let Some(&first) = line.get(target) else {
        return Err(HeadError::BadRequest("no request target"));
    };
    // RFC 9112 §3.2.4: the asterisk-form is for OPTIONS alone.
    let is_asterisk = head.method == Method::Options && &line[target..target_end] == b"*";
    if first != b'/' && !first.is_ascii_alphabetic() && head.method != Method::Connect && !is_asterisk {
        return Err(HeadError::BadRequest("unknown form of the request target"));
    }
    head.target = Span::new(start + target, start + target_end);

    let protocol = skip_spaces(line, target_end);
    head.protocol = Span::new(start + protocol, end);
    head.version = parse_version(&line[protocol..])?;
    if head.version == Version::Http09 && head.method != Method::Get {
        return Err(HeadError::BadMethod09);
    }
    Ok(())
}

#[inline]
fn skip_spaces(line: &[u8], from: usize) -> usize {
    line[from..].iter().position(|&b| b != b' ').map_or(line.len(), |n| from + n)
}

/// `HTTP/1.1`, or nothing for HTTP/0.9. Any 1.x from 1.1 on counts as 1.1 (RFC 9110 §2.5).
#[inline]
fn parse_version(text: &[u8]) -> Result<Version, HeadError> {
    match text {
        b"HTTP/1.1" => return Ok(Version::Http11),
        b"HTTP/1.0" => return Ok(Version::Http10),
        b"" => return Ok(Version::Http09),
        _ => {}
    }
    parse_odd_version(text)
}

/// Versions that nginx takes although RFC 9112 §2.3 has one digit each: trailing spaces, `HTTP/1.01`.
#[cold]
fn parse_odd_version(text: &[u8]) -> Result<Version, HeadError> {
    const MINOR_DIGITS_MAX: usize = 3;
    let bad = HeadError::BadRequest("malformed protocol version");
    let Some(numbers) = text.strip_prefix(b"HTTP/") else { return Err(bad) };
    match numbers {
        [b'1', b'.', ..] => {}
        [b'1', b'0'..=b'9', ..] | [b'2'..=b'9', ..] => return Err(HeadError::UnsupportedVersion),
        _ => return Err(bad),
    }
    let minor = numbers[2..].trim_ascii_end();
    let is_number =
        !minor.is_empty() && minor.len() <= MINOR_DIGITS_MAX && minor.iter().all(u8::is_ascii_digit);
    // `trim_ascii_end` also takes tabs, which nginx does not.
    if !is_number || numbers[2 + minor.len()..].iter().any(|&b| b != b' ') {
        return Err(bad);
    }
    Ok(if minor.iter().all(|&b| b == b'0') { Version::Http10 } else { Version::Http11 })
}

/// Header lines up to the blank line.
fn parse_fields(buf: &[u8], opts: &HeadOptions, head: &mut RequestHead) -> Result<Parsed, HeadError> {
    loop {
        let start = head.progress.line;
        let limit = head.progress.room.line_limit(opts);
        let window = &buf[..buf.len().min(start.saturating_add(limit))];
        match window.get(start) {
            // The usual end is told without a search.
            Some(b'\r') if window.get(start + 1) == Some(&b'\n') => {
                head.progress.line = start + 2;
                return end_fields(buf, head);
            }
            Some(b'\r' | b'\n') | None => {}
            Some(&first) if may_begin(first) => {}
            Some(_) => return Err(HeadError::invalid_header(&window[start..], 0)),
        }
        match scan(window, head.progress.from.min(window.len())) {
            Scan::Line { end, next } => {
                head.progress.room.take(next - start, opts);
                head.progress.line = next;
                head.progress.from = next;
                if end == start {
                    return end_fields(buf, head);
                }
                take_field(buf, start, end, opts, head)?;
            }
            Scan::More { from } => {
                if window.len() - start >= limit {
                    return Err(HeadError::too_large(&window[start..]));
                }
                head.progress.from = from;
                return Ok(Parsed::Partial);
            }
            Scan::Bad { at } => return Err(HeadError::invalid_header(&window[start..], at - start)),
        }
    }
}

/// The blank line has come. One look at all of the head is cheaper than one at each value.
#[inline]
fn end_fields(buf: &[u8], head: &mut RequestHead) -> Result<Parsed, HeadError> {
    let fields = head.request_line.end as usize;
    if let Some(at) = stray_control(&buf[fields..head.progress.line]) {
        return Err(control_byte(buf, fields + at));
    }
    Ok(complete(head))
}

/// The error for a control byte in a value: the line that has it.
#[cold]
fn control_byte(buf: &[u8], at: usize) -> HeadError {
    let start = memchr::memrchr(b'\n', &buf[..at]).map_or(0, |end| end + 1);
    HeadError::invalid_header(&buf[start..], at - start)
}

/// Parses one header line and files it.
#[inline]
fn take_field(
    buf: &[u8],
    start: usize,
    end: usize,
    opts: &HeadOptions,
    head: &mut RequestHead,
) -> Result<(), HeadError> {
    let (header, name) = match parse_field(buf, start, end) {
        Ok(field) => field,
        Err(at) => return Err(HeadError::invalid_header(&buf[start..end], at - start)),
    };
    let invalid = match name {
        Name::NoColon => return Err(HeadError::invalid_header(&buf[start..end], end - start)),
        Name::Valid => false,
        Name::Underscore => !opts.underscores_in_headers,
        Name::Odd => true,
    };
    if invalid && opts.ignore_invalid_headers {
        head.ignored.push(Span::new(start, end));
        return Ok(());
    }
    if head.headers.len() >= opts.headers_max {
        return Err(HeadError::TooManyHeaders);
    }
    head.repeated |= head.present & header.id.bit();
    head.present |= header.id.bit();
    head.headers.push(header);
    Ok(())
}
