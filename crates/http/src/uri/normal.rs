//! Decoding and normalising of paths (`ngx_http_parse_complex_uri`; RFC 3986 §5.2.4, §6.2.2).

use super::{Target, UriError};
use crate::head::Span;

/// Bytes that mean something in a path.
static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let special = b"/.%?#+";
    let mut i = 0;
    while i < special.len() {
        table[special[i] as usize] = true;
        i += 1;
    }
    table
};

/// Parses the path `target[start..]`, which begins with `/`, into `out.path`. Gives the offset of the `?` or `#` that
/// ends it.
pub(super) fn parse_path(
    target: &[u8],
    start: usize,
    merge_slashes: bool,
    out: &mut Target,
) -> Result<Option<usize>, UriError> {
    match plain_path(target, start, out) {
        Plain::Path { stop } => Ok(stop),
        Plain::NeedsWork => {
            out.plus = false;
            out.ext = None;
            complex_path(target, start, merge_slashes, out)
        }
    }
}

enum Plain {
    Path { stop: Option<usize> },
    NeedsWork,
}

/// The usual case: nothing to decode, nothing to remove, one copy.
#[inline]
fn plain_path(target: &[u8], start: usize, out: &mut Target) -> Plain {
    let path = &target[start..];
    let mut ext = None;
    let mut end = path.len();
    for (i, &b) in path.iter().enumerate() {
        if !SPECIAL[b as usize] {
            continue;
        }
        match b {
            b'/' if matches!(path.get(i + 1), Some(b'/' | b'.')) => return Plain::NeedsWork,
            b'/' => ext = None,
            b'.' => ext = Some(i + 1),
            b'+' => out.plus = true,
            b'?' => {
                end = i;
                break;
            }
            _ => return Plain::NeedsWork,
        }
    }
    out.path.extend_from_slice(&path[..end]);
    out.ext = ext.map(|ext| Span::new(ext, end));
    Plain::Path { stop: (end < path.len()).then_some(start + end) }
}

/// What the path so far ends with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Segment,
    Slash,
    Dot,
    DotDot,
}

/// A path under construction.
struct Builder<'a> {
    path: &'a mut Vec<u8>,
    ext: Option<usize>,
    tail: Tail,
    merge_slashes: bool,
    complex: bool,
    plus: bool,
}

fn complex_path(
    target: &[u8],
    start: usize,
    merge_slashes: bool,
    out: &mut Target,
) -> Result<Option<usize>, UriError> {
    let mut builder = Builder {
        path: &mut out.path,
        ext: None,
        tail: Tail::Segment,
        merge_slashes,
        complex: false,
        plus: false,
    };
    let mut at = start;
    let mut stop = None;
    while let Some(&b) = target.get(at) {
        match b {
            b'?' | b'#' => {
                stop = Some(at);
                break;
            }
            b'%' => {
                out.quoted = true;
                let byte = decode(target.get(at + 1), target.get(at + 2))?;
                builder.push(byte)?;
                at += 3;
            }
            _ => {
                builder.push(b)?;
                at += 1;
            }
        }
    }
    builder.end_segment()?;
    let (ext, complex, plus) = (builder.ext, builder.complex, builder.plus);
    out.ext = ext.map(|ext| Span::new(ext, out.path.len()));
    out.complex |= complex;
    out.plus = plus;
    Ok(stop)
}

/// The byte of `%HH`; never NUL.
fn decode(high: Option<&u8>, low: Option<&u8>) -> Result<u8, UriError> {
    match (high.and_then(|&b| hex(b)), low.and_then(|&b| hex(b))) {
        (Some(0), Some(0)) => Err(UriError("encoded NUL")),
        (Some(high), Some(low)) => Ok(high << 4 | low),
        _ => Err(UriError("malformed percent-encoding")),
    }
}

/// The value of a hexadecimal digit.
pub(super) fn hex(b: u8) -> Option<u8> {
    char::from(b).to_digit(16).map(|d| d as u8)
}

impl Builder<'_> {
    /// Adds a byte. An encoded `/` or `.` counts like a plain one, so that `%2e%2e%2f` climbs no higher than `../`.
    fn push(&mut self, b: u8) -> Result<(), UriError> {
        match (b, self.tail) {
            (b'/', Tail::Segment) => {
                self.ext = None;
                self.path.push(b);
                self.tail = Tail::Slash;
            }
            (b'/', Tail::Slash) => {
                self.complex = true;
                if !self.merge_slashes {
                    self.path.push(b);
                }
            }
            (b'/', Tail::Dot | Tail::DotDot) => {
                self.end_segment()?;
                self.tail = Tail::Slash;
            }
            (b'.', Tail::Segment) => {
                self.path.push(b);
                self.ext = Some(self.path.len());
            }
            (b'.', Tail::Slash) => {
                self.complex = true;
                self.path.push(b);
                self.tail = Tail::Dot;
            }
            (b'.', Tail::Dot) => {
                self.path.push(b);
                self.tail = Tail::DotDot;
            }
            _ => {
                self.plus |= b == b'+';
                self.path.push(b);
                self.tail = Tail::Segment;
            }
        }
        Ok(())
    }

    /// Removes a last segment `.`, or `..` with the one before it.
    fn end_segment(&mut self) -> Result<(), UriError> {
        match self.tail {
            Tail::Dot => {
                self.path.pop();
            }
            Tail::DotDot => {
                let parent = self.path.len() - "/..".len();
                let Some(slash) = memchr::memrchr(b'/', &self.path[..parent]) else {
                    return Err(UriError("path above the root"));
                };
                self.path.truncate(slash + 1);
            }
            Tail::Segment | Tail::Slash => {}
        }
        Ok(())
    }
}
