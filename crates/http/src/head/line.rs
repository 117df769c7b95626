//! Lines and header fields, shared by requests, responses and trailers.

use memchr::memchr3;

use super::{Header, HeaderId, Span};

/// What [`scan`] found.
pub(crate) enum Scan {
    /// The line ends before `end`; the next one begins at `next`.
    Line {
        /// Offset of the line end.
        end: usize,
        /// Offset after the line end.
        next: usize,
    },
    /// No line end yet; look again from `from`.
    More {
        /// Offset of the first byte that was not judged.
        from: usize,
    },
    /// A NUL or a CR that no LF follows.
    Bad {
        /// Its offset.
        at: usize,
    },
}

/// Looks for a line end from `from` on.
///
/// RFC 9112 §2.2: a recipient MAY recognise a single LF as a line terminator (nginx does), and must treat a bare CR
/// as invalid. RFC 9110 §5.5: NUL in a field makes the message invalid.
#[inline]
pub(crate) fn scan(buf: &[u8], from: usize) -> Scan {
    let Some(found) = memchr3(b'\n', b'\r', 0, &buf[from..]) else {
        return Scan::More { from: buf.len() };
    };
    let at = from + found;
    match buf[at] {
        b'\n' => Scan::Line { end: at, next: at + 1 },
        b'\r' => match buf.get(at + 1) {
            Some(b'\n') => Scan::Line { end: at, next: at + 2 },
            Some(_) => Scan::Bad { at },
            None => Scan::More { from: at },
        },
        _ => Scan::Bad { at },
    }
}

/// A letter, digit or hyphen: what nginx takes for a valid name.
const VALID: u8 = 0;
/// `_`, valid if `underscores_in_headers` is on.
const UNDERSCORE: u8 = 1;
/// Any other byte of a token: nginx calls such a name invalid, RFC 9110 does not.
const ODD: u8 = 2;
/// The end of the name.
const COLON: u8 = 3;
/// What no token has (RFC 9110 §5.6.2): controls, white space, delimiters such as brackets, bytes outside ASCII.
const FATAL: u8 = 4;

/// Classes of the bytes of a field name.
static NAME_CLASS: [u8; 256] = {
    let mut table = [FATAL; 256];
    let mut b = 0;
    while b < 256 {
        let c = b as u8;
        if c.is_ascii_alphanumeric() || c == b'-' {
            table[b] = VALID;
        } else if is_token_byte(c) {
            table[b] = ODD;
        }
        b += 1;
    }
    table[b'_' as usize] = UNDERSCORE;
    table[b':' as usize] = COLON;
    table
};

/// `tchar` of RFC 9110 §5.6.2.
pub(crate) const fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// A control byte that no field value may have (RFC 9110 §5.5). Line ends and tabs are none of them. Bytes from 0x80 on are
/// `obs-text`, which a value may have.
#[inline]
const fn is_stray(b: u8) -> bool {
    (b < b' ' && !matches!(b, b'\t' | b'\r' | b'\n')) || b == 0x7f
}

/// So many bytes are judged at once.
const BLOCK_BYTES: usize = 32;

/// Not 0 for a stray byte. Nothing branches: over a block that becomes SIMD instructions. A comparison gives all bits, as theirs do:
/// ones would have to be masked.
#[inline(always)]
fn stray_mark(b: u8) -> u8 {
    let all_if = |is: bool| if is { 0xff } else { 0 };
    let is_space = all_if(b == b'\t') | all_if(b == b'\r') | all_if(b == b'\n');
    b' '.saturating_sub(b) & !is_space | all_if(b == 0x7f)
}

/// Where the first stray control byte is.
#[inline]
pub(crate) fn stray_control(text: &[u8]) -> Option<usize> {
    let marks = |bytes: &[u8]| bytes.iter().fold(0, |marks, &b| marks | stray_mark(b));
    let is_clean = text.last_chunk::<BLOCK_BYTES>().is_some_and(|last| {
        // What is left over behind the last whole block is judged with the bytes before it: it needs no loop of its own.
        marks(text.as_chunks::<BLOCK_BYTES>().0.as_flattened()) | marks(last) == 0
    });
    if is_clean { None } else { text.iter().position(|&b| is_stray(b)) }
}

/// What kind of name a header line has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// Letters, digits, hyphens.
    Valid,
    /// Also underscores.
    Underscore,
    /// Also other bytes of a token.
    Odd,
    /// There is no colon: nginx takes the line for a name with an empty value.
    NoColon,
}

/// Whether a line may begin with this byte. White space would be a folded line (RFC 9112 §5.2 lets a server refuse
/// it with 400) or a name with a space in front.
#[inline]
pub(crate) fn may_begin(byte: u8) -> bool {
    NAME_CLASS[byte as usize] < COLON
}

/// Parses the header line `buf[start..end]`, which is not empty. The error is the offset of the byte at fault.
///
/// White space between name and colon is refused (RFC 9112 §5.1).
#[inline]
pub(crate) fn parse_field(buf: &[u8], start: usize, end: usize) -> Result<(Header, Name), usize> {
    let line = &buf[start..end];
    let valid = line.iter().position(|&b| NAME_CLASS[b as usize] != VALID).unwrap_or(line.len());
    let (colon, id, kind) = if valid > 0 && line.get(valid) == Some(&b':') {
        (valid, HeaderId::from_valid_name(&line[..valid]), Name::Valid)
    } else {
        let (colon, kind) = odd_name(line).map_err(|at| start + at)?;
        let id = if kind == Name::NoColon { HeaderId::from_name(&line[..colon]) } else { HeaderId::Other };
        (colon, id, kind)
    };
    let value = trim_ows(line, line.len().min(colon + 1));
    let header = Header {
        name: Span::new(start, start + colon),
        value: Span::new(start + value.0, start + value.1),
        id,
    };
    Ok((header, kind))
}

/// The length of a name that is not simply valid, and how odd it is. The error is the offset of the byte at fault.
#[cold]
fn odd_name(line: &[u8]) -> Result<(usize, Name), usize> {
    let colon = line.iter().position(|&b| NAME_CLASS[b as usize] >= COLON).unwrap_or(line.len());
    if colon == 0 || (colon < line.len() && line[colon] != b':') {
        return Err(colon);
    }
    let kind = if colon == line.len() {
        Name::NoColon
    } else if line[..colon].iter().all(|&b| NAME_CLASS[b as usize] <= UNDERSCORE) {
        Name::Underscore
    } else {
        Name::Odd
    };
    Ok((colon, kind))
}

/// The bounds of `line[from..]` without optional white space (RFC 9110 §5.6.3).
#[inline]
fn trim_ows(line: &[u8], from: usize) -> (usize, usize) {
    let ows = |b: u8| b == b' ' || b == b'\t';
    let mut start = from;
    let mut end = line.len();
    while start < end && ows(line[start]) {
        start += 1;
    }
    while end > start && ows(line[end - 1]) {
        end -= 1;
    }
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At each place of texts of all lengths around a block's, each kind of byte, and the first of two.
    #[test]
    fn stray_control_bytes_are_found_wherever_they_stand() {
        for length in 0..4 * BLOCK_BYTES {
            let text = vec![b'a'; length];
            assert_eq!(stray_control(&text), None);
            for at in 0..length {
                for b in 0..=255 {
                    let mut text = text.clone();
                    text[at] = b;
                    let wanted = (b < b' ' && !b"\t\r\n".contains(&b)) || b == 0x7f;
                    assert_eq!(stray_control(&text), wanted.then_some(at), "{b} at {at} of {length}");
                }
                let mut text = text.clone();
                text[at..].fill(0x01);
                assert_eq!(stray_control(&text), Some(at));
            }
        }
    }
}
