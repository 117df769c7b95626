//! Conditional requests (RFC 9110 §13) as nginx evaluates them.
//!
//! Where nginx and the RFC differ, nginx wins, since caches in front of it have adapted to it: `If-Unmodified-Since`
//! counts beside `If-Match`, and both `If-Modified-Since` and `If-None-Match` must say "not modified".

use crate::date::parse_http_date;

/// An entity tag (RFC 9110 §8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag<'a> {
    /// Whether it begins with `W/`.
    pub weak: bool,
    /// The rest, with its quotes.
    pub opaque: &'a [u8],
}

impl<'a> ETag<'a> {
    /// The tag of a field's value; anything counts as one, since upstreams send all kinds.
    pub fn new(value: &'a [u8]) -> Self {
        match value.strip_prefix(b"W/") {
            Some(opaque) if !opaque.is_empty() => ETag { weak: true, opaque },
            _ => ETag { weak: false, opaque: value },
        }
    }

    /// Equal, and both are strong (RFC 9110 §8.8.3.2).
    pub fn strong_eq(self, other: ETag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Equal, weak or not.
    pub fn weak_eq(self, other: ETag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// The tags of a list. A comma inside quotes is part of a tag.
pub fn etag_list(value: &[u8]) -> impl Iterator<Item = ETag<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let skip = rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b',')).count();
        rest = &rest[skip..];
        if rest.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = rest.iter().position(|&b| {
            quoted ^= b == b'"';
            b == b',' && !quoted
        });
        let (item, tail) = rest.split_at(end.unwrap_or(rest.len()));
        rest = tail;
        Some(ETag::new(item.trim_ascii_end()))
    })
}

/// How tags are compared in [`etag_matches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// For `If-None-Match`: `W/` does not count.
    Weak,
    /// For `If-Match`: `W/` counts. nginx compares the text, so that a weak tag equals itself, which RFC 9110
    /// §13.1.1 forbids.
    Exact,
}

/// Whether a list (or `*`) matches the representation's tag.
pub fn etag_matches(list: &[u8], etag: Option<&[u8]>, comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    let Some(etag) = etag.map(ETag::new) else { return false };
    etag_list(list).any(|item| match comparison {
        Comparison::Weak => item.weak_eq(etag),
        Comparison::Exact => item == etag,
    })
}

/// The conditional fields of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preconditions<'a> {
    /// `If-Match`
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Option<&'a [u8]>,
}

/// What is known of the representation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validators<'a> {
    /// `ETag`
    pub etag: Option<&'a [u8]>,
    /// `Last-Modified` in Unix seconds.
    pub last_modified: Option<i64>,
}

/// The directive `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ImsMode {
    /// Every representation counts as modified.
    Off,
    /// Not modified only at exactly this time.
    #[default]
    Exact,
    /// Not modified at this time or before.
    Before,
}

/// What a conditional request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer as it is.
    Proceed,
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
}

/// Evaluates the preconditions of a request whose answer would be a 200.
pub fn evaluate(conditions: &Preconditions<'_>, validators: &Validators<'_>, mode: ImsMode) -> Outcome {
    if let Some(date) = conditions.if_unmodified_since
        && !is_unmodified_since(date, validators.last_modified)
    {
        return Outcome::PreconditionFailed;
    }
    if let Some(list) = conditions.if_match
        && !etag_matches(list, validators.etag, Comparison::Exact)
    {
        return Outcome::PreconditionFailed;
    }
    if conditions.if_modified_since.is_none() && conditions.if_none_match.is_none() {
        return Outcome::Proceed;
    }
    let same_time = conditions
        .if_modified_since
        .is_none_or(|date| !is_modified_since(date, validators.last_modified, mode));
    let same_tag =
        conditions.if_none_match.is_none_or(|list| etag_matches(list, validators.etag, Comparison::Weak));
    if same_time && same_tag { Outcome::NotModified } else { Outcome::Proceed }
}

/// A date that does not parse is before any other.
fn is_unmodified_since(date: &[u8], last_modified: Option<i64>) -> bool {
    last_modified.is_some_and(|modified| parse_http_date(date).is_some_and(|date| date >= modified))
}

fn is_modified_since(date: &[u8], last_modified: Option<i64>, mode: ImsMode) -> bool {
    let (Some(modified), Some(date)) = (last_modified, parse_http_date(date)) else { return true };
    match mode {
        ImsMode::Off => true,
        ImsMode::Exact => date != modified,
        ImsMode::Before => date < modified,
    }
}

/// Whether the value of `If-Range` lets the ranges be served (RFC 9110 §13.1.5).
///
/// A weak tag never matches (nginx would compare its text); a date must be the very date of `Last-Modified`.
pub fn if_range_matches(value: &[u8], validators: &Validators<'_>) -> bool {
    if value.len() >= 2 && value.ends_with(b"\"") {
        return validators.etag.is_some_and(|etag| ETag::new(etag).strong_eq(ETag::new(value)));
    }
    validators.last_modified.is_some_and(|modified| parse_http_date(value) == Some(modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";
    const FILE: Validators<'static> = Validators { etag: Some(b"\"a\""), last_modified: Some(784_111_777) };

    #[test]
    fn tags_in_lists() {
        let check = |list: &str, etag: &str, weak: bool, exact: bool| {
            let matches = |c| etag_matches(list.as_bytes(), Some(etag.as_bytes()), c);
            assert_eq!(matches(Comparison::Weak), weak, "{list} ~ {etag}");
            assert_eq!(matches(Comparison::Exact), exact, "{list} = {etag}");
        };
        check("\"a\"", "\"a\"", true, true);
        check("*", "\"a\"", true, true);
        check("W/\"a\"", "\"a\"", true, false);
        check("\"a\"", "W/\"a\"", true, false);
        check("W/\"a\"", "W/\"a\"", true, true);
        check("\"x\", \"y\",\t\"a\" , \"z\"", "\"a\"", true, true);
        check("\"x,\"a\",y\"", "\"a\"", false, false);
        check("\"a,b\"", "\"a,b\"", true, true);
        check("\"a\"b", "\"a\"", false, false);
        check("\"ab\"", "\"a\"", false, false);
        check("a", "a", true, true);
        check("", "\"a\"", false, false);
        check(", ,", "\"a\"", false, false);
        check("\"a", "\"a\"", false, false);
    }

    #[test]
    fn preconditions() {
        use ImsMode::*;
        use Outcome::*;
        let none = Preconditions::default();
        let nothing_known = Validators::default();
        let check = |c: Preconditions<'_>, v: &Validators<'_>, mode: ImsMode, want: Outcome| {
            assert_eq!(evaluate(&c, v, mode), want, "{c:?} {v:?} {mode:?}");
        };
        check(none, &FILE, Exact, Proceed);
        let since = |d| Preconditions { if_modified_since: Some(d), ..none };
        check(since(DATE), &FILE, Exact, NotModified);
        check(since(DATE), &FILE, Before, NotModified);
        check(since(DATE), &FILE, Off, Proceed);
        check(since(AFTER), &FILE, Exact, Proceed);
        check(since(AFTER), &FILE, Before, NotModified);
        check(since(BEFORE), &FILE, Before, Proceed);
        check(since(b"soon"), &FILE, Before, Proceed);
        check(since(DATE), &nothing_known, Exact, Proceed);
        let unmodified = |d| Preconditions { if_unmodified_since: Some(d), ..none };
        check(unmodified(DATE), &FILE, Exact, Proceed);
        check(unmodified(AFTER), &FILE, Exact, Proceed);
        check(unmodified(BEFORE), &FILE, Exact, PreconditionFailed);
        check(unmodified(b"soon"), &FILE, Exact, PreconditionFailed);
        check(unmodified(DATE), &nothing_known, Exact, PreconditionFailed);
        let tags = |t| Preconditions { if_match: Some(t), ..none };
        check(tags(b"\"a\""), &FILE, Exact, Proceed);
        check(tags(b"*"), &nothing_known, Exact, Proceed);
        check(tags(b"\"b\""), &FILE, Exact, PreconditionFailed);
        check(tags(b"W/\"a\""), &FILE, Exact, PreconditionFailed);
        let no_tags = |t| Preconditions { if_none_match: Some(t), ..none };
        check(no_tags(b"W/\"a\""), &FILE, Exact, NotModified);
        check(no_tags(b"\"b\""), &FILE, Exact, Proceed);
        check(no_tags(b"*"), &nothing_known, Exact, NotModified);
        check(no_tags(b"\"a\""), &nothing_known, Exact, Proceed);
        let both = |d, t| Preconditions { if_modified_since: Some(d), if_none_match: Some(t), ..none };
        check(both(DATE, b"\"a\""), &FILE, Exact, NotModified);
        check(both(DATE, b"\"b\""), &FILE, Exact, Proceed);
        check(both(BEFORE, b"\"a\""), &FILE, Exact, Proceed);
    }

    #[test]
    fn if_range() {
        let check = |value: &[u8], v: &Validators<'_>, want: bool| {
            assert_eq!(if_range_matches(value, v), want, "{}", String::from_utf8_lossy(value));
        };
        check(b"\"a\"", &FILE, true);
        check(b"\"b\"", &FILE, false);
        check(b"W/\"a\"", &Validators { etag: Some(b"W/\"a\""), ..FILE }, false);
        check(b"\"a\"", &Validators { etag: None, ..FILE }, false);
        check(DATE, &FILE, true);
        check(AFTER, &FILE, false);
        check(b"wrong", &FILE, false);
        check(DATE, &Validators { last_modified: None, ..FILE }, false);
    }
}
