//! Request targets (RFC 9112 §3.2) and what becomes of them: a decoded, normalised path and the arguments.
//!
//! [`parse_target`] is where path traversal ends: the path it gives begins with `/`, has no `.` or `..` segment and
//! no NUL, whatever was encoded how. nginx's rules (`ngx_http_parse_complex_uri`) decide what is merged and decoded.

mod escape;
mod normal;
#[cfg(test)]
mod tests;
mod unsafe_uri;

pub use escape::{Escape, Unescape, escape, escape_html, escape_log, escape_target, unescape};
pub use unsafe_uri::{SafeUri, resolved, unsafe_uri};

use crate::head::Span;
use std::borrow::Cow;
use std::fmt;

/// How to read a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriOptions {
    /// `merge_slashes`: `//` in the path counts as `/`.
    pub merge_slashes: bool,
    /// Which forms are allowed.
    pub form: TargetForm,
    /// `*` is allowed too: the method is OPTIONS (RFC 9112 §3.2.4).
    pub asterisk: bool,
}

impl Default for UriOptions {
    fn default() -> Self {
        UriOptions { merge_slashes: true, form: TargetForm::Any, asterisk: false }
    }
}

/// The forms of a target (RFC 9112 §3.2) besides `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// origin-form or absolute-form: HTTP/1.x.
    Any,
    /// origin-form only: `:path` of HTTP/2 and HTTP/3.
    Origin,
    /// authority-form only: `CONNECT host:port`.
    Authority,
}

/// A parsed target. Spans point into the target, except `ext`.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The path, decoded and normalised; `$uri` before any rewrite.
    pub path: Vec<u8>,
    /// The arguments as they were sent, without `?` and fragment.
    pub args: Span,
    /// Whether there was a `?`.
    pub has_args: bool,
    /// The scheme of an absolute-form target, as it was sent.
    pub scheme: Option<Span>,
    /// Host and port of an absolute-form or authority-form target; [`crate::framing::validate_host`] takes it apart.
    pub host: Option<Span>,
    /// The extension of the last segment: a span of `path`.
    pub ext: Option<Span>,
    /// The path had to be normalised: `/.`, `//` or a fragment was in the target.
    pub complex: bool,
    /// The path had `%HH`.
    pub quoted: bool,
    /// The path has `+`.
    pub plus: bool,
    /// The target is `*`, and so is the path: the server as a whole is meant.
    pub asterisk: bool,
    /// What follows scheme and host.
    rest: Span,
}

impl Target {
    /// Makes it empty and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        // All fields are named, so one that is added and not cleared does not compile.
        let Target { path, args, has_args, scheme, host, ext, complex, quoted, plus, asterisk, rest } = self;
        path.clear();
        *args = Span::default();
        for span in [scheme, host, ext] {
            *span = None;
        }
        for flag in [has_args, complex, quoted, plus, asterisk] {
            *flag = false;
        }
        *rest = Span::default();
    }

    /// A copy that only says where things are in the text: no memory of its own.
    #[must_use]
    pub fn without_path(&self) -> Target {
        Target { path: Vec::new(), ..self.clone() }
    }

    /// Path and arguments as they were sent: `$request_uri`. `target` is what was parsed.
    ///
    /// It can stand in a request line: an empty path is "/" (RFC 9110 §4.2.3), also before arguments (`http://host?a`), and a
    /// fragment is cut off, which no target has (RFC 9112 §3.2). nginx leaves both as they came.
    pub fn unparsed<'a>(&self, target: &'a [u8]) -> Cow<'a, [u8]> {
        match self.rest.of(target) {
            b"" => Cow::Borrowed(b"/"),
            rest if rest[0] == b'?' => [b"/", rest].concat().into(),
            rest => rest.into(),
        }
    }
}

/// Why a target was refused: always a 400. `Display` is nginx's message; the text is for debugging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriError(pub &'static str);

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("client sent invalid request")
    }
}

impl std::error::Error for UriError {}

/// Parses `target` into `out`, which keeps its memory.
pub fn parse_target(target: &[u8], opts: UriOptions, out: &mut Target) -> Result<(), UriError> {
    out.clear();
    // Counting instead of `any` has no early exit and becomes SIMD.
    if target.iter().filter(|&&b| b <= b' ' || b == 0x7f).count() != 0 {
        return Err(UriError("control byte"));
    }
    if opts.asterisk && target == b"*" {
        out.asterisk = true;
        out.rest = Span::new(0, 1);
        out.path.push(b'*');
        return Ok(());
    }
    if opts.form == TargetForm::Authority {
        out.host = Some(authority_form(target)?);
        out.path.push(b'/');
        return Ok(());
    }
    let start = match target.first() {
        Some(b'/') => 0,
        Some(c) if c.is_ascii_alphabetic() && opts.form == TargetForm::Any => absolute_form(target, out)?,
        _ => return Err(UriError("unknown form")),
    };
    out.rest = Span::new(start, target.len());
    match target.get(start) {
        // RFC 9110 §4.2.3: an empty path means "/".
        None => out.path.push(b'/'),
        Some(b'?') => {
            out.path.push(b'/');
            set_args(target, start, out);
        }
        Some(_) => {
            if let Some(stop) = normal::parse_path(target, start, opts.merge_slashes, out)? {
                set_args(target, stop, out);
            }
        }
    }
    Ok(())
}

/// What follows the path: `target[stop]` is `?` or `#`. Fragments should not be sent; nginx cuts them off.
fn set_args(target: &[u8], stop: usize, out: &mut Target) {
    let hash = memchr::memchr(b'#', &target[stop..]).map(|n| stop + n);
    if let Some(hash) = hash {
        out.complex = true;
        out.rest.end = hash as u32;
    }
    if target[stop] == b'?' {
        out.has_args = true;
        out.args = Span::new(stop + 1, hash.unwrap_or(target.len()));
    }
}

/// `scheme://host[:port]`; gives the offset behind it (RFC 9112 §3.2.2).
fn absolute_form(target: &[u8], out: &mut Target) -> Result<usize, UriError> {
    let is_scheme = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let colon = target.iter().position(|b| !is_scheme(b)).unwrap_or(target.len());
    if !target[colon..].starts_with(b"://") {
        return Err(UriError("malformed scheme"));
    }
    let host = colon + 3;
    let host_end = host_end(target, host)?;
    let end = match target.get(host_end) {
        Some(b':') => skip_digits(target, host_end + 1),
        _ => host_end,
    };
    if !matches!(target.get(end), None | Some(b'/' | b'?')) {
        return Err(UriError("malformed host or port"));
    }
    out.scheme = Some(Span::new(0, colon));
    out.host = Some(Span::new(host, end));
    Ok(end)
}

/// `host:port`, both needed (RFC 9112 §3.2.3).
fn authority_form(target: &[u8]) -> Result<Span, UriError> {
    let colon = host_end(target, 0)?;
    let port = colon + 1;
    if target.get(colon) != Some(&b':') || port == target.len() || skip_digits(target, port) != target.len() {
        return Err(UriError("malformed authority"));
    }
    Ok(Span::new(0, target.len()))
}

/// Where the host that begins at `start` ends: a name, an IPv4 address or something in brackets.
fn host_end(target: &[u8], start: usize) -> Result<usize, UriError> {
    if target.get(start) != Some(&b'[') {
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
        let len = target[start..].iter().take_while(|b| is_name(b)).count();
        return Ok(start + len);
    }
    let literal = &target[start + 1..];
    let len = literal.iter().take_while(|&&b| is_literal_byte(b)).count();
    if literal.get(len) != Some(&b']') {
        return Err(UriError("malformed IP literal"));
    }
    Ok(start + 1 + len + 1)
}

/// The bytes of an IP literal (RFC 3986 §3.2.2): colon, unreserved and sub-delims.
#[inline]
pub(crate) fn is_literal_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b':' | b'-'
                | b'.'
                | b'_'
                | b'~'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}

fn skip_digits(target: &[u8], start: usize) -> usize {
    start + target[start..].iter().take_while(|b| b.is_ascii_digit()).count()
}
