//! Parts of a whole: what a 206 holds, what can be given out of it, what is missing (RFC 9111 §3.3, §3.4, RFC 9110
//! §14.4).

use crate::fields::Fields;
use brisk_http::range::{self, RangeOutcome};

/// Where a part lies: from `start` (inclusive) to `end` (exclusive), of `total` bytes if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last one.
    pub end: u64,
    /// Bytes of the whole.
    pub total: Option<u64>,
}

impl Part {
    /// Reads `Content-Range: bytes 0-9/100`, or `/*`.
    pub fn parse(value: &[u8]) -> Option<Part> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let (unit, rest) = text.split_once(' ')?;
        let (range, total) = rest.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let number = |text: &str| -> Option<u64> {
            text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
        };
        let total = if total == "*" { None } else { Some(number(total)?) };
        let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
        let is_sane =
            unit.eq_ignore_ascii_case("bytes") && start < end && total.is_none_or(|total| end <= total);
        is_sane.then_some(Part { start, end, total })
    }

    /// The part that a 206 holds; `None` if it does not say, or holds several (RFC 9110 §14.6).
    pub fn of(response: Fields<'_>) -> Option<Part> {
        let holds_several =
            |kind: &[u8]| kind.get(..SEVERAL.len()).is_some_and(|start| start.eq_ignore_ascii_case(SEVERAL));
        if response.first("Content-Type").is_some_and(holds_several) {
            return None;
        }
        Part::parse(response.first("Content-Range")?)
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// It is the whole.
    pub fn is_whole(&self) -> bool {
        self.start == 0 && self.total == Some(self.end)
    }

    /// Whether the bytes from `start` to before `end` are in it.
    pub fn has(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end
    }

    /// As a header field's value.
    pub fn content_range(&self) -> Vec<u8> {
        let total = self.total.map_or_else(|| "*".into(), |total| total.to_string());
        format!("bytes {}-{}/{total}", self.start, self.end - 1).into_bytes()
    }
}

/// The media type of a 206 with several parts.
const SEVERAL: &[u8] = b"multipart/byteranges";

/// What becomes of a `Range` request for which a part is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serve {
    /// These bytes of the whole are there.
    Stored(u64, u64),
    /// Something is missing: ask.
    Ask,
}

/// Whether the one range that is asked for lies within the stored part. A request without `Range` asks for the whole: that
/// is no 206, whatever is stored.
pub fn serve(part: &Part, wanted: Option<&[u8]>) -> Serve {
    let (Some(total), Some(wanted)) = (part.total, wanted) else { return Serve::Ask };
    match range::parse_ranges(wanted, total, 1) {
        RangeOutcome::Ranges(ranges) => match ranges.as_slice() {
            [(start, end)] if part.has(*start, *end) => Serve::Stored(*start, *end),
            _ => Serve::Ask,
        },
        RangeOutcome::Ignore | RangeOutcome::Unsatisfiable => Serve::Ask,
    }
}

/// The `Range` to ask for, so that the whole is there: what comes before or after the part. `None` if both are missing
/// or the end is not known: then the whole is asked for.
pub fn missing(part: &Part) -> Option<Vec<u8>> {
    let total = part.total?;
    match (part.start, part.end < total) {
        (0, true) => Some(format!("bytes={}-", part.end).into_bytes()),
        (start, false) if start > 0 => Some(format!("bytes=0-{}", start - 1).into_bytes()),
        _ => None,
    }
}

/// Two parts of the same representation together, if they touch (RFC 9111 §3.4). Whoever asks has compared the
/// validators.
pub fn combine(stored: &Part, fresh: &Part) -> Option<Part> {
    let same_total = match (stored.total, fresh.total) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let touch = stored.start <= fresh.end && fresh.start <= stored.end;
    (same_total && touch).then(|| Part {
        start: stored.start.min(fresh.start),
        end: stored.end.max(fresh.end),
        total: stored.total.or(fresh.total),
    })
}

/// Whether two answers are surely of the same representation: strong validators that are equal (RFC 9110 §15.3.7.3).
pub fn same_representation(stored: Fields<'_>, fresh: Fields<'_>) -> bool {
    match (stored.first("ETag"), fresh.first("ETag")) {
        (Some(one), Some(other)) => one == other && !one.starts_with(b"W/"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn content_ranges() {
        let check = |value: &str, want| assert_eq!(Part::parse(value.as_bytes()), want, "{value}");
        check("bytes 0-4/10", Some(Part { start: 0, end: 5, total: Some(10) }));
        check("bytes 5-9/*", Some(Part { start: 5, end: 10, total: None }));
        let of = |kind: &str| {
            let fields = [(&b"Content-Range"[..], &b"bytes 0-4/10"[..]), (b"content-type", kind.as_bytes())];
            Part::of(Fields(&fields)).is_some()
        };
        assert!(of("text/plain") && !of("Multipart/ByteRanges; boundary=a"));
        for bad in
            ["", "bytes", "bytes */10", "bytes 5-4/10", "bytes 0-10/10", "items 0-4/10", "bytes +1-4/10"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn what_can_be_served() {
        let part = Part { start: 4, end: 9, total: Some(10) };
        let check = |wanted: Option<&str>, want| {
            assert_eq!(serve(&part, wanted.map(str::as_bytes)), want, "{wanted:?}");
        };
        check(Some("bytes=4-8"), Serve::Stored(4, 9));
        check(Some("bytes=6-7"), Serve::Stored(6, 8));
        check(Some("bytes=6-"), Serve::Ask);
        check(Some("bytes=-1"), Serve::Ask);
        check(Some("bytes=4-5,7-8"), Serve::Ask);
        check(None, Serve::Ask);
        let whole = Part { start: 0, end: 10, total: Some(10) };
        assert_eq!(serve(&whole, None), Serve::Ask);
        assert_eq!(serve(&whole, Some(b"bytes=-1")), Serve::Stored(9, 10));
    }

    #[test]
    fn what_is_missing() {
        let check = |start, end, want: Option<&str>| {
            let part = Part { start, end, total: Some(10) };
            assert_eq!(missing(&part), want.map(|w| w.as_bytes().to_vec()));
        };
        check(0, 5, Some("bytes=5-"));
        check(5, 10, Some("bytes=0-4"));
        check(2, 5, None);
        check(0, 10, None);
    }

    #[test]
    fn only_equal_strong_tags_are_the_same() {
        let check = |one: &str, other: &str, want| {
            let (one, other) = ([(&b"ETag"[..], one.as_bytes())], [(&b"etag"[..], other.as_bytes())]);
            assert_eq!(same_representation(Fields(&one), Fields(&other)), want);
        };
        check("\"a\"", "\"a\"", true);
        check("\"a\"", "\"b\"", false);
        check("W/\"a\"", "W/\"a\"", false);
        assert!(!same_representation(Fields(&[]), Fields(&[])));
    }

    proptest! {
        #[test]
        fn parts_together_have_both(a in 0u64..50, b in 1u64..50, c in 0u64..50, d in 1u64..50) {
            let one = Part { start: a, end: a + b, total: Some(200) };
            let other = Part { start: c, end: c + d, total: None };
            if let Some(both) = combine(&one, &other) {
                prop_assert!(both.has(one.start, one.end) && both.has(other.start, other.end));
                prop_assert!(both.len() <= one.len() + other.len());
                prop_assert_eq!(Part::parse(&both.content_range()), Some(both));
            }
        }
    }
}
