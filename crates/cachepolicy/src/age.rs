//! How old a response is (RFC 9111 §4.2.3, §5.1).

use crate::date;
use crate::directives::delta_seconds;
use crate::fields::{Fields, members};

/// The `Age` that a response came with: its first member, if that is a number (RFC 9111 §5.1); otherwise none.
pub fn value(fields: Fields<'_>) -> Option<u64> {
    delta_seconds(members(fields.first("Age")?).next()?)
}

/// When the origin says that it made the response; `None` if it does not say, or says it wrong.
pub fn date(fields: Fields<'_>, now: i64) -> Option<i64> {
    date::strict(fields.first("Date")?, now)
}

/// `corrected_initial_age`: how old a response was when it came in, in seconds.
pub fn initial(fields: Fields<'_>, request_time: i64, response_time: i64) -> u64 {
    let apparent = date(fields, response_time).map_or(0, |date| response_time.saturating_sub(date).max(0));
    let delay = response_time.saturating_sub(request_time).max(0);
    let corrected = value(fields).unwrap_or(0).saturating_add(delay as u64);
    corrected.max(apparent as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_http::date::format_imf;

    #[test]
    fn the_first_number_counts() {
        let check = |lines: &[&str], want| {
            let fields: Vec<_> = lines.iter().map(|l| (&b"Age"[..], l.as_bytes())).collect();
            assert_eq!(value(Fields(&fields)), want, "{lines:?}");
        };
        check(&["7200"], Some(7200));
        check(&["7200, 0"], Some(7200));
        check(&["0, 7200"], Some(0));
        check(&["7200", "0"], Some(7200));
        for bad in ["", "abc", "-5", "7200.0", "7200;a=b"] {
            check(&[bad], None);
        }
    }

    #[test]
    fn the_greater_of_what_is_said_and_what_is_seen() {
        let now = 1_000_000;
        let date = |secs: i64| format_imf(secs).to_vec();
        let check = |date: Option<Vec<u8>>, age: &str, sent: i64, want| {
            let mut fields = vec![(&b"Age"[..], age.as_bytes())];
            if let Some(date) = &date {
                fields.push((b"Date", date));
            }
            assert_eq!(initial(Fields(&fields), sent, now), want, "{date:?} {age}");
        };
        check(None, "", now, 0);
        check(None, "30", now - 2, 32);
        check(Some(date(now - 100)), "30", now, 100);
        check(Some(date(now + 100)), "30", now, 30);
        check(Some(b"wrong".to_vec()), "30", now, 30);
    }
}
