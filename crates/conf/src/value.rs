//! Values that directives share: flags, numbers, sizes and times with nginx's units.

use crate::diag::Diag;
use crate::parser::Token;
use std::time::Duration;

/// `on` or `off`, as nginx reads them (any case).
pub fn flag(directive: &str, token: &Token) -> Result<bool, Diag> {
    match token.bytes() {
        v if v.eq_ignore_ascii_case(b"on") => Ok(true),
        v if v.eq_ignore_ascii_case(b"off") => Ok(false),
        _ => Err(Diag::emerg(
            token.span,
            format!(
                "invalid value \"{}\" in \"{directive}\" directive, it must be \"on\" or \"off\"",
                token.text()
            ),
        )
        .help("write on or off")),
    }
}

/// One of a directive's words, in any case, as nginx reads them.
pub fn choice<T: Copy>(token: &Token, choices: &[(&str, T)]) -> Result<T, Diag> {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    one_of(token, &words).map(|place| choices[place].1)
}

/// The place of a parameter among the words that it may be, in any case.
pub fn one_of(token: &Token, words: &[&str]) -> Result<usize, Diag> {
    let place = words.iter().position(|word| token.bytes().eq_ignore_ascii_case(word.as_bytes()));
    place.ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()))
            .help(format!("it must be one of: {}", words.join(", ")))
    })
}

/// A plain number.
pub fn number(token: &Token) -> Result<u64, Diag> {
    token
        .str()
        .parse::<u64>()
        .ok()
        .filter(|_| token.bytes().iter().all(u8::is_ascii_digit))
        .ok_or_else(|| Diag::reason(token.span, "invalid number").help("a number without unit is expected"))
}

/// A plain number that may be negative.
pub fn signed(token: &Token) -> Result<i64, Diag> {
    let number = || Diag::reason(token.span, "invalid number").help("a number without unit is expected");
    let digits = token.bytes().strip_prefix(b"-").unwrap_or(token.bytes());
    let value = token.str().parse().ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    value.ok_or_else(number)
}

/// Bytes: a number with an optional `k` or `m`.
pub fn size(token: &Token) -> Result<u64, Diag> {
    parse_size(token.bytes(), false)
        .ok_or_else(|| Diag::reason(token.span, "invalid value").help(size_help(token, "512, 8k or 1m")))
}

/// Bytes: a number with an optional `k`, `m` or `g` (nginx allows `g` only for offsets into files).
pub fn offset(token: &Token) -> Result<u64, Diag> {
    parse_size(token.bytes(), true)
        .ok_or_else(|| Diag::reason(token.span, "invalid value").help(size_help(token, "8k, 1m or 2g")))
}

/// `10MB` is `10m` here.
fn size_help(token: &Token, examples: &str) -> String {
    let text = token.text().to_ascii_lowercase();
    let short = text.strip_suffix("ib").or_else(|| text.strip_suffix('b')).unwrap_or_default();
    match parse_size(short.as_bytes(), false) {
        Some(_) => format!("the units are single letters: {short}"),
        None => format!("a size such as {examples} is expected"),
    }
}

/// Bytes: a number with an optional `k` or `m`, or `g` if that is allowed.
pub fn parse_size(text: &[u8], giga: bool) -> Option<u64> {
    let (digits, unit) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 1024),
        (b'm' | b'M', digits) => (digits, 1024 * 1024),
        (b'g' | b'G', digits) if giga => (digits, 1024 * 1024 * 1024),
        _ => (text, 1),
    };
    digits_value(digits)?.checked_mul(unit).filter(|&n| i64::try_from(n).is_ok())
}

fn digits_value(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, byte| match byte {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// A time with millisecond resolution: `500ms`, `1m 30s`, `5` (seconds).
pub fn msec(token: &Token) -> Result<Duration, Diag> {
    parse_time(token.bytes(), false).map(Duration::from_millis).ok_or_else(|| {
        Diag::reason(token.span, "invalid value").help("a time such as 500ms, 30s, 5m or 1h30m")
    })
}

/// A time in whole seconds: `30`, `5m`, `1d12h`, `1y`.
pub fn seconds(token: &Token) -> Result<u64, Diag> {
    parse_time(token.bytes(), true)
        .ok_or_else(|| Diag::reason(token.span, "invalid value").help("a time such as 30, 5m, 1d12h or 1y"))
}

/// Parses nginx's time syntax: units in falling order, `y M w d h m s ms`; a last number without unit is seconds.
/// The result is in seconds (`whole`) or milliseconds.
pub fn parse_time(text: &[u8], whole: bool) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("y", 31_536_000_000),
        ("M", 2_592_000_000),
        ("w", 604_800_000),
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
        ("ms", 1),
    ];
    let text = std::str::from_utf8(text).ok()?;
    let mut rest = text;
    let mut total = 0u64;
    let mut rank = 0;
    let mut seen = false;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let value = digits_value(&rest.as_bytes()[..end])?;
        let after = &rest[end..];
        let unit_len = if after.starts_with("ms") { 2 } else { usize::from(!after.is_empty()) };
        let (unit, tail) = (after.get(..unit_len)?, after.get(unit_len..)?);
        let (index, scale) = match unit {
            "" | " " => (6, 1000),
            _ => UNITS.iter().position(|(name, _)| *name == unit).map(|i| (i, UNITS[i].1))?,
        };
        if (seen && index <= rank) || (whole && index == 7) {
            return None;
        }
        rank = index;
        seen = true;
        total = total.checked_add(value.checked_mul(scale)?)?;
        rest = tail.trim_start_matches(' ');
        if unit.is_empty() && !rest.is_empty() {
            return None;
        }
    }
    let total = if whole { total / 1000 } else { total };
    (seen && i64::try_from(total).is_ok()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, want| assert_eq!(parse_size(text.as_bytes(), true), want, "{text}");
        check("0", Some(0));
        check("8k", Some(8192));
        check("1M", Some(1 << 20));
        check("2g", Some(2 << 30));
        check("k", None);
        check("1x", None);
        check("-1", None);
        check("99999999999999999999", None);
        assert_eq!(parse_size(b"1g", false), None);
    }

    #[test]
    fn times() {
        let check = |text: &str, want| assert_eq!(parse_time(text.as_bytes(), false), want, "{text}");
        check("5", Some(5000));
        check("500ms", Some(500));
        check("1m30s", Some(90_000));
        check("1h 30m", Some(5_400_000));
        check("1d12h", Some(129_600_000));
        check("1y", Some(31_536_000_000));
        check("30s1m", None);
        check("1m1m", None);
        check("", None);
        check("1q", None);
        check("s", None);
        assert_eq!(parse_time(b"10m", true), Some(600));
        assert_eq!(parse_time(b"10ms", true), None);
    }
}
