//! The check of URIs that do not come from a request line (`ngx_http_parse_unsafe_uri`).

use std::borrow::Cow;

use super::{Unescape, UriError, unescape};

/// A URI that passed [`unsafe_uri`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeUri<'a> {
    /// The decoded path. It need not begin with `/` (SSI has relative ones).
    pub path: Cow<'a, [u8]>,
    /// What followed the first `?`.
    pub args: Option<&'a [u8]>,
}

/// Splits and decodes a URI from `X-Accel-Redirect`, a DAV `Destination`, an SSI include and the like. Refuses an empty
/// path, NUL and `..` segments, encoded or not.
///
/// nginx looks for `/..` before it cuts off the arguments and so lets `/..?x` pass; we look afterwards.
pub fn unsafe_uri(uri: &[u8]) -> Result<SafeUri<'_>, UriError> {
    let (raw, args) = match memchr::memchr(b'?', uri) {
        Some(at) => (&uri[..at], Some(&uri[at + 1..])),
        None => (uri, None),
    };
    let mut path = Cow::Borrowed(raw);
    if memchr::memchr(b'%', raw).is_some() {
        check(raw)?;
        let mut decoded = Vec::with_capacity(raw.len());
        unescape(Unescape::All, raw, &mut decoded);
        path = Cow::Owned(decoded);
    }
    check(&path)?;
    Ok(SafeUri { path, args })
}

/// A decoded path with its `.`, `..` and empty segments resolved as those of a request are: what a rule has put together from what
/// clients send. Refuses a path that does not begin with a slash, NUL, and what leads above the root.
pub fn resolved(path: &[u8]) -> Result<Vec<u8>, UriError> {
    if !path.starts_with(b"/") {
        return Err(UriError("a path that does not begin with a slash"));
    }
    if memchr::memchr(0, path).is_some() {
        return Err(UriError("NUL"));
    }
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in path.split(|&byte| byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => {
                kept.pop().ok_or(UriError("path above its root"))?;
            }
            segment => kept.push(segment),
        }
    }
    let is_folder = path.ends_with(b"/") || path.ends_with(b"/.") || path.ends_with(b"/..");
    let mut out = Vec::with_capacity(path.len());
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if is_folder || out.is_empty() {
        out.push(b'/');
    }
    Ok(out)
}

fn check(path: &[u8]) -> Result<(), UriError> {
    if path.is_empty() {
        return Err(UriError("empty path"));
    }
    if memchr::memchr(0, path).is_some() {
        return Err(UriError("NUL"));
    }
    if path.split(|&b| b == b'/').any(|segment| segment == b"..") {
        return Err(UriError("path above its root"));
    }
    Ok(())
}
