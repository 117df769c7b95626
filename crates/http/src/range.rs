//! Byte ranges (RFC 9110 §14) as nginx's range filter reads and answers them.

pub use crate::limits::MAX_RANGES_UNSET;
/// What a `Range` field asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// Answer as if there were no `Range`.
    Ignore,
    /// Answer 416 with [`write_content_range_unsatisfied`].
    Unsatisfiable,
    /// Answer 206 with these parts: first byte, and the byte after the last. Never empty; more than one means
    /// `multipart/byteranges`. In the order of the request, perhaps overlapping.
    Ranges(Vec<(u64, u64)>),
}

/// Parses the value of `Range` for a representation of `len` bytes.
///
/// Against range floods: with several ranges the sum of their lengths must not be above `len`; without `max_ranges`
/// the headers of the parts (256 bytes each) count too. Otherwise the field is ignored, which RFC 9110 §14.2 allows.
pub fn parse_ranges(value: &[u8], len: u64, max_ranges: usize) -> RangeOutcome {
    const UNIT: &[u8] = b"bytes=";
    if max_ranges == 0 || value.len() <= UNIT.len() || !value[..UNIT.len()].eq_ignore_ascii_case(UNIT) {
        return RangeOutcome::Ignore;
    }
    let Ok(len) = i64::try_from(len) else { return RangeOutcome::Ignore };
    let mut ranges = Vec::new();
    let mut total: i64 = 0;
    for spec in value[UNIT.len()..].split(|&b| b == b',') {
        let Some((start, end)) = parse_spec(spec, len) else { return RangeOutcome::Unsatisfiable };
        if start < end {
            if ranges.len() == max_ranges {
                return RangeOutcome::Ignore;
            }
            let Some(sum) = total.checked_add(end - start) else { return RangeOutcome::Unsatisfiable };
            total = sum;
            ranges.push((start as u64, end as u64));
        } else if start == 0 {
            return RangeOutcome::Ignore;
        }
    }
    match ranges.len() {
        0 => RangeOutcome::Unsatisfiable,
        1 => RangeOutcome::Ranges(ranges),
        _ if total > len => RangeOutcome::Ignore,
        n if max_ranges >= MAX_RANGES_UNSET
            && total.saturating_add(n as i64 * 256) > len.saturating_add(4096) =>
        {
            RangeOutcome::Ignore
        }
        _ => RangeOutcome::Ranges(ranges),
    }
}

/// One of `a-b`, `a-`, `-n`, with spaces where nginx takes them, as a half-open range; it may be empty.
fn parse_spec(spec: &[u8], len: i64) -> Option<(i64, i64)> {
    let spec = trim_spaces(spec);
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = parse_position(last)?;
        return Some((len - suffix.min(len), len));
    }
    let start = parse_position(trim_spaces(first))?;
    let last = trim_spaces(last);
    if last.is_empty() {
        return Some((start, len));
    }
    let end = parse_position(last)?;
    Some((start, if end >= len { len } else { end + 1 }))
}

fn trim_spaces(mut s: &[u8]) -> &[u8] {
    while let Some(rest) = s.strip_prefix(b" ") {
        s = rest;
    }
    while let Some(rest) = s.strip_suffix(b" ") {
        s = rest;
    }
    s
}

fn parse_position(digits: &[u8]) -> Option<i64> {
    crate::framing::parse_length(digits).map(|n| n as i64)
}

/// Appends `bytes 0-8/1000` for the half-open range `start..end`.
pub fn write_content_range(start: u64, end: u64, total: u64, out: &mut Vec<u8>) {
    debug_assert!(start < end && end <= total);
    out.extend_from_slice(b"bytes ");
    write_number(start, out);
    out.push(b'-');
    write_number(end - 1, out);
    out.push(b'/');
    write_number(total, out);
}

/// Appends `bytes */1000`, for a 416 (RFC 9110 §15.5.17).
pub fn write_content_range_unsatisfied(total: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    write_number(total, out);
}

/// Appends a decimal number.
pub fn write_number(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A `multipart/byteranges` body (RFC 9110 §14.6): what goes around the parts.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// A number that the caller never uses twice; it is the boundary.
    pub boundary: u64,
    /// The representation's `Content-Type` with its charset; may be empty.
    pub content_type: &'a [u8],
    /// The length of the representation.
    pub total: u64,
}

impl Multipart<'_> {
    /// The value of `Content-Type` of the answer.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        self.write_boundary(out);
    }

    /// What precedes the bytes `start..end`.
    pub fn write_part_head(&self, start: u64, end: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        self.write_boundary(out);
        if !self.content_type.is_empty() {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(self.content_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        write_content_range(start, end, self.total, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// What follows the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        self.write_boundary(out);
        out.extend_from_slice(b"--\r\n");
    }

    /// The length of the whole body.
    pub fn body_len(&self, ranges: &[(u64, u64)]) -> u64 {
        let mut scratch = Vec::with_capacity(256);
        let mut len = 0;
        for &(start, end) in ranges {
            scratch.clear();
            self.write_part_head(start, end, &mut scratch);
            len += scratch.len() as u64 + (end - start);
        }
        scratch.clear();
        self.write_end(&mut scratch);
        len + scratch.len() as u64
    }

    /// Twenty digits, as in nginx, so that all part heads have nearly one length.
    fn write_boundary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{:020}", self.boundary).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::RangeOutcome::*;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_as_in_nginx() {
        let check = |value: &str, len: u64, max: usize, want: RangeOutcome| {
            assert_eq!(parse_ranges(value.as_bytes(), len, max), want, "{value} of {len}, at most {max}");
        };
        let max = MAX_RANGES_UNSET;
        check("bytes=0-8", 1000, max, Ranges(vec![(0, 9)]));
        check("BYTES= 0 - 8 ", 1000, max, Ranges(vec![(0, 9)]));
        check("bytes=-10", 1000, max, Ranges(vec![(990, 1000)]));
        check("bytes=-2000", 1000, max, Ranges(vec![(0, 1000)]));
        check("bytes=990-", 1000, max, Ranges(vec![(990, 1000)]));
        check("bytes=990-1990", 1000, max, Ranges(vec![(990, 1000)]));
        check("bytes=0-9, -10, 10-19", 1000, max, Ranges(vec![(0, 10), (990, 1000), (10, 20)]));
        check("bytes=0-9, -10, 100000-, 10-19", 1000, max, Ranges(vec![(0, 10), (990, 1000), (10, 20)]));
        check("bytes=100000-", 1000, max, Unsatisfiable);
        check("bytes=1000-", 1000, max, Unsatisfiable);
        check("bytes=alpha", 1000, max, Unsatisfiable);
        check("bytes=10-alpha", 1000, max, Unsatisfiable);
        check("bytes=10", 1000, max, Unsatisfiable);
        check("bytes=10-11 12-", 1000, max, Unsatisfiable);
        check("bytes=1 0-11", 1000, max, Unsatisfiable);
        check("bytes=-", 1000, max, Unsatisfiable);
        check("bytes=0-1,", 1000, max, Unsatisfiable);
        check("bytes=,0-1", 1000, max, Unsatisfiable);
        check("bytes=9-5", 1000, max, Unsatisfiable);
        check("bytes=+1-5", 1000, max, Unsatisfiable);
        check("bytes=0-99999999999999999999", 1000, max, Unsatisfiable);
        check("bytes=9223372036854775807-", 1000, max, Unsatisfiable);
        check("bytes=0-9223372036854775807", 1000, max, Ranges(vec![(0, 1000)]));
        check("bytes=0-10001, 0-0", 1000, max, Ignore);
        check("bytes=-0", 1000, max, Unsatisfiable);
        check("bytes=0-0", 0, max, Ignore);
        check("bytes=-1", 0, max, Ignore);
        check("bytes=", 1000, max, Ignore);
        check("lines=0-1", 1000, max, Ignore);
        check("bytes=0-9, -10", 1000, 2, Ranges(vec![(0, 10), (990, 1000)]));
        check("bytes=0-9, -10, 10000-", 1000, 2, Ranges(vec![(0, 10), (990, 1000)]));
        check("bytes=0-9, -10, 10-19", 1000, 2, Ignore);
        check("bytes=0-9", 1000, 0, Ignore);
    }

    #[test]
    fn a_flood_of_ranges_is_ignored() {
        let value = format!("bytes={}", (0..100).map(|n| format!("{n}-{n}")).collect::<Vec<_>>().join(","));
        assert_eq!(parse_ranges(value.as_bytes(), 1000, MAX_RANGES_UNSET), Ignore);
        assert!(matches!(parse_ranges(value.as_bytes(), 1000, 100), Ranges(r) if r.len() == 100));
    }

    #[test]
    fn multipart_text_and_length() {
        let parts = Multipart { boundary: 7, content_type: b"text/plain", total: 1000 };
        let ranges = [(0, 1), (998, 1000)];
        let mut body = Vec::new();
        for (start, end) in ranges {
            parts.write_part_head(start, end, &mut body);
            body.extend(std::iter::repeat_n(b'x', (end - start) as usize));
        }
        parts.write_end(&mut body);
        assert_eq!(
            String::from_utf8(body.clone()).unwrap(),
            "\r\n--00000000000000000007\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/1000\r\n\r\nx\
             \r\n--00000000000000000007\r\nContent-Type: text/plain\r\nContent-Range: bytes 998-999/1000\r\n\r\nxx\
             \r\n--00000000000000000007--\r\n"
        );
        assert_eq!(parts.body_len(&ranges), body.len() as u64);
        let mut kind = Vec::new();
        parts.write_content_type(&mut kind);
        assert_eq!(kind, b"multipart/byteranges; boundary=00000000000000000007");
    }

    proptest! {
        #![proptest_config(crate::testing::cases(256))]
        #[test]
        fn ranges_are_inside(value in "bytes=[0-9, -]{0,20}", len in 0u64..200, max in 0usize..5) {
            if let Ranges(ranges) = parse_ranges(value.as_bytes(), len, max) {
                prop_assert!(!ranges.is_empty() && ranges.len() <= max);
                prop_assert!(ranges.iter().all(|&(start, end)| start < end && end <= len));
            }
        }

        #[test]
        fn numbers_print(n in any::<u64>()) {
            let mut out = Vec::new();
            write_number(n, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), n.to_string());
        }
    }
}
