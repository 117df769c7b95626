//! Dates for people and programs: UTC, as everything that compares machines.

use brisk_http::date::civil_from_days;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year, month, day, hour, minute, second, weekday from the epoch's.
fn parts(unix: i64) -> (i64, u8, u8, i64, i64, i64, usize) {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    (year, month, day, second / 3600, second / 60 % 60, second % 60, days.rem_euclid(7) as usize)
}

/// As C's `ctime`, without the line's end: `Sat Nov 21 05:52:57 2026`.
pub fn ctime(unix: i64) -> String {
    let (year, month, day, hour, minute, second, weekday) = parts(unix);
    let month = MONTHS[usize::from(month) - 1];
    format!("{} {month} {day:02} {hour:02}:{minute:02}:{second:02} {year}", DAYS[weekday])
}

/// RFC 3339 with milliseconds: `2026-11-21T05:52:57.000Z`.
pub fn rfc3339(unix_ms: i64) -> String {
    let (year, month, day, hour, minute, second, _) = parts(unix_ms.div_euclid(1000));
    let ms = unix_ms.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Reads RFC 3339 back, as far as logs and HAR files need it: milliseconds since the epoch.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let separators = [(4, '-'), (7, '-'), (13, ':'), (16, ':')];
    if separators
        .iter()
        .any(|&(at, c)| text.get(at..=at).is_none_or(|have| have != c.encode_utf8(&mut [0; 4])))
    {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = brisk_http::date::days_from_civil(year, month as u8, day as u8);
    let mut ms = (days * 86_400 + hour * 3600 + minute * 60 + second) * 1000;
    let mut rest = text.get(19..)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
        let digits: String = fraction[..end].chars().chain("000".chars()).take(3).collect();
        ms += digits.parse::<i64>().ok()?;
        rest = &fraction[end..];
    }
    if let Some(sign) = rest.chars().next().filter(|c| matches!(c, '+' | '-')) {
        let offset = rest[1..].replace(':', "");
        let (hours, minutes) =
            (offset.get(..2)?.parse::<i64>().ok()?, offset.get(2..4)?.parse::<i64>().ok()?);
        let offset = (hours * 60 + minutes) * 60_000;
        ms += if sign == '+' { -offset } else { offset };
    }
    Some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_c_and_the_rfc_write_them() {
        assert_eq!(ctime(1_795_240_377), "Sat Nov 21 05:52:57 2026");
        assert_eq!(rfc3339(1_795_240_377_012), "2026-11-21T05:52:57.012Z");
        for (text, ms) in [
            ("2026-11-21T05:52:57.012Z", Some(1_795_240_377_012)),
            ("2026-11-21T06:52:57+01:00", Some(1_795_240_377_000)),
            ("2026-11-21T06:52", None),
            ("2026-13-21T06:52:00Z", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(parse_rfc3339(text), ms, "{text}");
        }
    }
}
