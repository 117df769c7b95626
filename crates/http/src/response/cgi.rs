//! Response heads of gateways (FastCGI, SCGI, uwsgi): fields, and a status that is one of them (RFC 3875 §6).

use super::parse::{Controls, ResponseError, Stage, fields, status_line};
use super::{RequestKind, ResponseFraming, ResponseHead, lengths};
use crate::head::{HeaderId, Parsed, Span, printable};

/// How a gateway's head begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiStart {
    /// With the first field: FastCGI.
    Fields,
    /// Perhaps with an HTTP status line: SCGI, uwsgi.
    StatusLine,
}

/// Parses a gateway's response head at the beginning of `buf`; otherwise as [`parse_response`](super::parse_response).
///
/// Without a status line the field `Status` decides; without that a head with `Location` is a 302 and any other a 200,
/// whose reason phrase is the usual one (`status_text` is empty).
pub fn parse_cgi(buf: &[u8], head: &mut ResponseHead, start: CgiStart) -> Result<Parsed, ResponseError> {
    if matches!(head.progress.stage, Stage::New | Stage::Done) {
        head.clear();
        head.progress.stage = match start {
            CgiStart::Fields => Stage::Fields,
            CgiStart::StatusLine => Stage::StatusLine,
        };
    }
    if head.progress.stage == Stage::StatusLine {
        match status_line(buf, head) {
            Ok(Parsed::Complete) if !is_final(head.status) => {
                let status = head.status_text.of(buf);
                return Err(ResponseError::InvalidStatus(printable(status).into_boxed_str()));
            }
            Ok(Parsed::Complete) => {}
            Ok(Parsed::Partial) => return Ok(Parsed::Partial),
            // No status line: the fields begin at once.
            Err(_) => {
                head.clear();
                head.progress.stage = Stage::Fields;
            }
        }
    }
    let parsed = fields(buf, head, Controls::Refused)?;
    if parsed == Parsed::Complete && head.status == 0 {
        take_status(buf, head, start)?;
    }
    Ok(parsed)
}

fn take_status(buf: &[u8], head: &mut ResponseHead, start: CgiStart) -> Result<(), ResponseError> {
    let Some(field) = head.find(HeaderId::Status) else {
        head.status = if head.has(HeaderId::Location) { 302 } else { 200 };
        return Ok(());
    };
    let span = field.value;
    let value = span.of(buf);
    head.status = status(value)
        .filter(|status| is_final(*status) || *status == 103 && start == CgiStart::Fields)
        .ok_or_else(|| ResponseError::InvalidStatus(printable(value).into_boxed_str()))?;
    // A bare code gets its usual reason phrase.
    head.status_text = if value.len() > 3 { span } else { Span::default() };
    Ok(())
}

/// `200` or `200 OK`.
fn status(value: &[u8]) -> Option<u16> {
    let (code, rest) = value.split_at_checked(3)?;
    let is_code = code.iter().all(u8::is_ascii_digit);
    let ends = matches!(rest.first(), None | Some(b' ' | b'.' | b'\t'));
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit.wrapping_sub(b'0')));
    (is_code && ends).then_some(code)
}

/// An application has one answer (RFC 3875 §6.2), so none that is interim; but early hints (RFC 8297) may come before it over FastCGI. SCGI and uwsgi
/// can switch protocols.
fn is_final(status: u16) -> bool {
    status >= 200 || status == 101
}

/// How many bytes a gateway's body has: `Content-Length` is a promise, `Transfer-Encoding` means nothing here because
/// the gateway's protocol ends the body. Refuses what [`response_framing`](super::response_framing) refuses.
pub fn cgi_framing(
    buf: &[u8],
    head: &ResponseHead,
    request: RequestKind,
) -> Result<ResponseFraming, ResponseError> {
    let (_, length) = lengths(buf, head)?;
    Ok(match length {
        _ if request == RequestKind::Head || matches!(head.status, 204 | 304) => ResponseFraming::None,
        Some(length) => ResponseFraming::Length(length),
        None => ResponseFraming::UntilClose,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, start: CgiStart, want: Result<(u16, &str, usize), &str>) {
        let mut head = ResponseHead::default();
        let text = format!("{text}\nbody");
        let mut parsed = Ok(Parsed::Partial);
        for len in 0..=text.len() {
            parsed = parse_cgi(&text.as_bytes()[..len], &mut head, start);
            if parsed != Ok(Parsed::Partial) {
                break;
            }
        }
        let got = parsed.map(|parsed| {
            assert_eq!(parsed, Parsed::Complete, "{text}");
            assert_eq!(&text[head.len..], "body");
            let reason = std::str::from_utf8(head.status_text.of(text.as_bytes())).unwrap();
            (head.status, reason, head.headers.len())
        });
        assert_eq!(got.map_err(|error| error.to_string()), want.map_err(str::to_string), "{text}");
    }

    #[test]
    fn a_status_is_a_field_or_follows_from_location() {
        let fields = |text: &str, want: Result<(u16, &str, usize), &str>| {
            check(text, CgiStart::Fields, want);
        };
        fields("Status: 404 Not Found\r\nA: b\r\n", Ok((404, "404 Not Found", 2)));
        fields("Status: 404\n", Ok((404, "", 1)));
        fields("Status:201 \n", Ok((201, "", 1)));
        fields("Location: /x\nContent-Type: text/html\n", Ok((302, "", 2)));
        fields("Status: 201 Created\nLocation: /x\n", Ok((201, "201 Created", 2)));
        fields("Content-Type: text/html\n", Ok((200, "", 1)));
        fields("", Ok((200, "", 0)));
        fields("\r", Ok((200, "", 0)));
        // As everywhere, a status line between the fields is dropped.
        fields("HTTP/1.1 404 Not Found\nA: b\n", Ok((200, "", 1)));
        for (bad, shown) in
            [("", ""), ("20", "20"), ("2x0", "2x0"), ("2000", "2000"), ("\u{e9}20", "\\xc3\\xa920")]
        {
            let message = format!("upstream sent invalid status \"{shown}\"");
            fields(&format!("Status: {bad}\n"), Err(&message));
        }
        fields("Status: 099\n", Err("upstream sent invalid status \"099\""));
        fields("Status: 103\nLink: x\n", Ok((103, "", 2)));
        // There is no other interim answer.
        for status in ["100", "102", "103", "199"] {
            let message = format!("upstream sent invalid status \"{status}\"");
            if status != "103" {
                fields(&format!("Status: {status}\n"), Err(&message));
            }
            check(&format!("Status: {status}\n"), CgiStart::StatusLine, Err(&message));
            let line = format!("HTTP/1.1 {status}\r\n\r\nHTTP/1.1 200 OK\r\n");
            check(&line, CgiStart::StatusLine, Err(&message));
        }
    }

    #[test]
    fn a_status_line_may_come_first() {
        let line = |text: &str, want: Result<(u16, &str, usize), &str>| {
            check(text, CgiStart::StatusLine, want);
        };
        line("HTTP/1.0 404 Not Found\r\nA: b\r\n", Ok((404, "404 Not Found", 1)));
        line("HTTP/1.1 200\nStatus: 500 No\n", Ok((200, "200", 1)));
        line("Status: 404 Not Found\n", Ok((404, "404 Not Found", 1)));
        line("HTTP: x\nLocation: /x\n", Ok((302, "", 2)));
        line("HTTP/x\n", Ok((200, "", 0)));
        line("", Ok((200, "", 0)));
        line("A: b\0\n", Err("upstream sent invalid header: \"A: b\\x00...\""));
    }

    #[test]
    fn the_body_is_what_the_gateway_says() {
        let framing = |text: &str, request| {
            let mut head = ResponseHead::default();
            parse_cgi(text.as_bytes(), &mut head, CgiStart::Fields).unwrap();
            cgi_framing(text.as_bytes(), &head, request).map_err(|error| error.to_string())
        };
        let other = RequestKind::Other;
        assert_eq!(framing("Content-Length: 5\n\n", other), Ok(ResponseFraming::Length(5)));
        assert_eq!(framing("Content-Length: 5\n\n", RequestKind::Head), Ok(ResponseFraming::None));
        assert_eq!(framing("Status: 304\nContent-Length: 5\n\n", other), Ok(ResponseFraming::None));
        assert_eq!(framing("A: b\n\n", other), Ok(ResponseFraming::UntilClose));
        assert_eq!(framing("Transfer-Encoding: chunked\n\n", other), Ok(ResponseFraming::UntilClose));
        assert!(framing("Transfer-Encoding: gzip\n\n", other).is_err());
        assert!(framing("Content-Length: 5\nTransfer-Encoding: chunked\n\n", other).is_err());
        assert!(framing("Content-Length: 5\nContent-Length: 5\n\n", other).is_err());
        assert!(framing("Content-Length: 5x\n\n", other).is_err());
    }
}
