//! Status codes: nginx's reason phrases and the texts of its error pages.
//!
//! A code without a phrase in this table is sent with an empty one, as nginx does. 494 to 499 and 444 are nginx's own
//! codes for its inside; see [`wire_status`].

/// The reason phrase that nginx sends; none for codes that it does not know.
pub fn reason(code: u16) -> Option<&'static str> {
    Some(match code {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Time-out",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Large",
        415 => "Unsupported Media Type",
        416 => "Requested Range Not Satisfiable",
        421 => "Misdirected Request",
        425 => "Too Early",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => return None,
    })
}

/// Appends `200 OK`, or `218 ` where no phrase is known: the space belongs to the status line (RFC 9112 §4).
pub fn write_status(code: u16, out: &mut Vec<u8>) {
    let code = code.min(999);
    out.extend_from_slice(&[
        b'0' + (code / 100) as u8,
        b'0' + (code / 10 % 10) as u8,
        b'0' + (code % 10) as u8,
        b' ',
    ]);
    out.extend_from_slice(reason(code).unwrap_or("").as_bytes());
}

/// The code that a client sees for one of nginx's own: 494 to 497 are kinds of 400. 444 (close without an answer)
/// and 499 (the client is gone) are never sent.
pub fn wire_status(code: u16) -> u16 {
    match code {
        494..=497 => 400,
        _ => code,
    }
}

/// Whether an answer with this code has no body whatever its fields say (RFC 9110 §6.4.1).
pub fn is_bodiless(code: u16) -> bool {
    matches!(code, 100..=199 | 204 | 304)
}

/// Whether nginx closes the connection after an error page with this code.
pub fn closes_connection(code: u16) -> bool {
    matches!(code, 400 | 413 | 414 | 494..=497 | 500 | 501)
}

/// The title of the error page that nginx has for a code; without one there is no body.
pub fn error_title(code: u16) -> Option<&'static str> {
    Some(match code {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 | 498 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        407 => "407 Proxy Authentication Required",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        425 => "425 Too Early",
        429 => "429 Too Many Requests",
        494 => "400 Request Header Or Cookie Too Large",
        495 => "400 The SSL certificate error",
        496 => "400 No required SSL certificate was sent",
        497 => "400 The plain HTTP request was sent to HTTPS port",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The heading of the error page: the title, but for 494 to 497, which have a heading and a note.
pub fn error_heading(code: u16) -> Option<&'static str> {
    match code {
        494..=497 => Some("400 Bad Request"),
        _ => error_title(code),
    }
}

/// The line under the heading.
pub fn error_note(code: u16) -> Option<&'static str> {
    match code {
        494..=497 => error_title(code).map(|title| &title["400 ".len()..]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oddities_of_nginx() {
        let line = |code| {
            let mut out = Vec::new();
            write_status(code, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(line(200), "200 OK");
        assert_eq!(line(203), "203 ");
        assert_eq!(line(302), "302 Moved Temporarily");
        assert_eq!(line(7), "007 ");
        assert_eq!(error_title(302), Some("302 Found"));
        assert_eq!(error_title(401), Some("401 Authorization Required"));
        assert_eq!(
            (wire_status(494), error_title(494)),
            (400, Some("400 Request Header Or Cookie Too Large"))
        );
        assert_eq!(error_heading(497), Some("400 Bad Request"));
        assert_eq!(error_note(497), Some("The plain HTTP request was sent to HTTPS port"));
        assert_eq!(error_note(404), None);
        assert_eq!(error_title(499), None);
        assert_eq!(error_title(304), None);
    }

    #[test]
    fn titles_and_phrases_agree() {
        for code in 100..=599 {
            if let Some(title) = error_title(code)
                && !matches!(code, 302 | 401 | 498)
                && code == wire_status(code)
            {
                assert_eq!(title, format!("{code} {}", reason(code).unwrap()));
            }
        }
    }
}
