//! `server_name` as it is written: of `http`, and of other protocols that choose a server by name.

use crate::conf::Cx;
use crate::server_name::Name;
use brisk_conf::{Diag, Token};
use std::sync::Arc;

/// `$server_name`, which also stands in redirects: the first name.
/// nginx writes it into redirects (`server_name_in_redirect`) and `$server_name`.
pub fn first_name(hostname: &str, token: &Token) -> Box<[u8]> {
    match token.bytes() {
        text @ [b'~', ..] => text.into(),
        // `.example.com` is two names; the one without the dot is shown.
        [b'.', rest @ ..] => rest.to_ascii_lowercase().into(),
        text if is_hostname(text) => hostname.to_ascii_lowercase().into_bytes().into(),
        text => text.to_ascii_lowercase().into(),
    }
}

/// `$hostname` in `server_name` stands for this machine's name.
fn is_hostname(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"$hostname")
}

/// The names that one word of `server_name` means.
pub fn names(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Vec<Name>, Diag> {
    let bad = || {
        Diag::emerg(token.span, format!("server name \"{}\" is invalid", token.text()))
            .help("write example.com, *.example.com, www.example.* or ~regex")
    };
    let text = token.bytes();
    // An expression is kept as it was written: its case may matter within classes such as `\S`.
    if let Some(pattern) = text.strip_prefix(b"~") {
        if pattern.is_empty() {
            return Err(Diag::emerg(token.span, format!("empty regex in server name \"{}\"", token.text())));
        }
        // Names are compared in lower case; a pattern with upper case can only mean the same.
        let caseless = pattern.iter().any(u8::is_ascii_uppercase);
        return Ok(vec![Name::Regex(Arc::new(cx.regex(token, pattern, caseless)?))]);
    }
    // Mostly a URL where a name belongs, which no `Host` can match.
    if text.contains(&b'/') {
        cx.warn(Diag::warn(token.span, format!("server name \"{}\" has suspicious symbols", token.text())));
    }
    let lower = if is_hostname(text) {
        cx.global.env.hostname.to_ascii_lowercase().into_bytes()
    } else {
        text.to_ascii_lowercase()
    };
    // A star anywhere but at an end could not be looked up in a table.
    let stars = lower.iter().filter(|&&b| b == b'*').count();
    if lower.is_empty() {
        // The empty name is for requests without a `Host`.
        return Ok(vec![Name::Exact(Box::default())]);
    }
    Ok(match &*lower {
        [b'.', rest @ ..] if stars == 0 && !rest.is_empty() => {
            // `.example.com` is nginx's short form of both.
            vec![Name::Exact(rest.into()), Name::Head(rest.into())]
        }
        [b'*', b'.', rest @ ..] if stars == 1 && !rest.is_empty() => vec![Name::Head(rest.into())],
        [rest @ .., b'.', b'*'] if stars == 1 && !rest.is_empty() => vec![Name::Tail(rest.into())],
        // `*` alone would be the default server under another name; nginx refuses it.
        b"*" => return Err(bad()),
        // A name with a dot at its end is the same name (RFC 3986 §3.2.2); requests are compared without it.
        text if stars == 0 => vec![Name::Exact(text.strip_suffix(b".").unwrap_or(text).into())],
        _ => return Err(bad()),
    })
}
