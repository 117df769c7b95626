//! `Range` as Apache answers it: what is wrong is answered with the whole, and ranges that touch are one.

/// What a field comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// The field does not count.
    Ignored,
    /// Nothing of it is there: 416.
    None,
    /// These, half open.
    Some(Vec<(u64, u64)>),
}

/// Reads the field of a request for `length` bytes; more than `max` ranges are answered with the whole.
pub fn read(field: &[u8], length: u64, max: usize) -> Ranges {
    let Some((unit, list)) = field.split_at_checked(6) else { return Ranges::Ignored };
    // A comma at the end is none.
    let list = list.strip_suffix(b",").unwrap_or(list);
    let specs = || list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    if !unit.eq_ignore_ascii_case(b"bytes=") || length == 0 || specs().count() > max {
        return Ranges::Ignored;
    }
    let mut all: Vec<(u64, u64)> = Vec::new();
    for spec in specs() {
        let Some((start, end)) = one(spec, length) else { return Ranges::Ignored };
        if start >= length {
            continue;
        }
        match all.last_mut() {
            Some(last) if start <= last.1 && end >= last.0 => {
                *last = (last.0.min(start), last.1.max(end));
            }
            _ => all.push((start, end)),
        }
    }
    let total: u64 = all.iter().map(|(start, end)| end - start).sum();
    if all.is_empty() {
        Ranges::None
    } else if total > length {
        Ranges::Ignored
    } else {
        Ranges::Some(all)
    }
}

/// `a-b`, `a-`, `-n` as a half-open range, which may begin behind the end.
fn one(spec: &[u8], length: u64) -> Option<(u64, u64)> {
    let dash = memchr::memchr(b'-', spec)?;
    let number = |text: &[u8]| -> Option<u64> {
        let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
    };
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        return Some((length.saturating_sub(number(last)?), length));
    }
    let start = number(first)?;
    let end = if last.is_empty() { u64::MAX } else { number(last)? };
    (end >= start).then(|| (start, end.saturating_add(1).min(length.max(start))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let some = |list: &[(u64, u64)]| Ranges::Some(list.to_vec());
        for (field, wanted) in [
            ("bytes=0-1", some(&[(0, 2)])),
            ("bytes=0-100,70-100,900-901", some(&[(0, 101), (900, 902)])),
            ("bytes=1-70,71-100,900-901", some(&[(1, 101), (900, 902)])),
            ("bytes=10-20,1-9,99-99", some(&[(1, 21), (99, 100)])),
            ("bytes=5-10,1-3,99-99", some(&[(5, 11), (1, 4), (99, 100)])),
            ("bytes=0-1,-1", some(&[(0, 2), (999, 1000)])),
            ("bytes=500-", some(&[(500, 1000)])),
            ("bytes=2000-3000,0-1", some(&[(0, 2)])),
            ("bytes=2000-3000", Ranges::None),
            ("bytes=", Ranges::Ignored),
            ("bytes=,", Ranges::Ignored),
            ("bytes=0-1,", some(&[(0, 2)])),
            ("bytes=0-1,,3-4", Ranges::Ignored),
            ("bytes=7-1", Ranges::Ignored),
            ("bytes=foo", Ranges::Ignored),
            ("bytes=1-4,x", Ranges::Ignored),
            ("bytes=2000-3000,5-2", Ranges::Ignored),
            ("lines=1-2", Ranges::Ignored),
            ("bytes=0-1,10-11,20-21,30-31,40-41,50-51", Ranges::Ignored),
        ] {
            assert_eq!(read(field.as_bytes(), 1000, 5), wanted, "{field}");
        }
    }
}
