//! Byte strings that are constant, shared or owned, and how text is escaped.

use brisk_net::Slice;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A byte string for header values and bodies. Cloning an owned one shares it.
#[derive(Clone, Debug)]
pub enum Text {
    /// Part of the program.
    Static(&'static [u8]),
    /// Shared with others.
    Shared(Arc<[u8]>),
    /// Its own.
    Owned(Vec<u8>),
    /// Part of something larger that is shared.
    Part(Part),
    /// Shared, and perhaps in a file, too.
    Slice(Slice),
}

/// Bytes within a larger value that is shared and does not change.
#[derive(Clone)]
pub struct Part {
    of: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<u32>,
}

impl Part {
    /// Beyond the end of `of`, or of 4 GiB, there is nothing.
    pub fn new(of: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Part {
        let at = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Part { of, range: at(range.start)..at(range.end) }
    }
}

impl Deref for Part {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let range = self.range.start as usize..self.range.end as usize;
        (*self.of).as_ref().get(range).unwrap_or_default()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Text {
    /// Part of it: a copy, unless it has parts of its own.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Text {
        match self {
            Text::Slice(slice) => Text::Slice(slice.part(range)),
            text if range == (0..text.len()) => text.clone(),
            text => Text::Owned(text[range].to_vec()),
        }
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::Static(b"")
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Text::Static(text) => text,
            Text::Shared(text) => text,
            Text::Owned(text) => text,
            Text::Part(part) => part,
            Text::Slice(slice) => slice,
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Text {
        Text::Static(text.as_bytes())
    }
}

impl From<&'static [u8]> for Text {
    fn from(text: &'static [u8]) -> Text {
        Text::Static(text)
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text::Owned(text)
    }
}

impl From<Part> for Text {
    fn from(part: Part) -> Text {
        Text::Part(part)
    }
}

impl From<Slice> for Text {
    fn from(slice: Slice) -> Text {
        Text::Slice(slice)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text::Owned(text.into_bytes())
    }
}

impl From<Arc<[u8]>> for Text {
    fn from(text: Arc<[u8]>) -> Text {
        Text::Shared(text)
    }
}

impl PartialEq<[u8]> for Text {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

/// Appends `src` to `out` as the inside of a JSON string (RFC 8259 §7). Bytes outside ASCII stay as they are.
pub fn escape_json(src: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &b in src {
        let short = match b {
            b'"' | b'\\' => b,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(b >> 4)]);
                out.push(HEX[usize::from(b & 0xf)]);
                continue;
            }
            _ => {
                out.push(b);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inside_of_a_json_string() {
        let mut out = Vec::new();
        escape_json(b"a\"\\\n\r\t\x08\x0c\x01\x1f/\x7f\xc3\xa9", &mut out);
        assert_eq!(out, "a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001F/\u{7f}é".as_bytes());
    }
}
