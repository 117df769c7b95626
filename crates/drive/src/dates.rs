//! Dates for people and programs: UTC, as everything that compares machines.

use brisk_http::date::{Civil, days_from_civil, parse_http_date};

/// As C's `ctime`, without the line's end: `Sat Nov 21 05:52:57 2026`.
pub fn ctime(unix: i64) -> String {
    let civil = Civil::from_unix(unix);
    let (weekday, month) = (civil.weekday_name(), civil.month_name());
    let Civil { year, day, hour, minute, second, .. } = civil;
    format!("{weekday} {month} {day:02} {hour:02}:{minute:02}:{second:02} {year}")
}

/// RFC 3339 with milliseconds: `2026-11-21T05:52:57.000Z`.
pub fn rfc3339(unix_ms: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::from_unix(unix_ms.div_euclid(1000));
    let ms = unix_ms.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// A date of access logs, as seconds since the epoch: `21/Nov/2026:05:52:57 +0000`.
pub fn parse_log(text: &str) -> Option<i64> {
    let (date, zone) = text.split_once(' ')?;
    let (day, time) = date.split_once(':')?;
    let at = parse_http_date(format!(", {} {time}", day.replace('/', " ")).as_bytes())?;
    let east = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = zone.get(1..5).filter(|_| zone.len() == 5)?;
    let number: i64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some(at - east * (number / 100 * 3600 + number % 100 * 60))
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
    let days = days_from_civil(year, month as u8, day as u8);
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
        for (text, seconds) in [
            ("21/Nov/2026:05:52:57 +0000", Some(1_795_240_377)),
            ("21/Nov/2026:06:52:57 +0100", Some(1_795_240_377)),
            ("21/Nov/2026:00:22:57 -0530", Some(1_795_240_377)),
            ("21/Foo/2026:05:52:57 +0000", None),
            ("31/Nov/2026:05:52:57 +0000", None),
            ("21/Nov/2026:05:52:57 0000", None),
            ("21/Nov/2026:05:52:57 +0é", None),
            ("21/Nov/2026", None),
        ] {
            assert_eq!(parse_log(text), seconds, "{text}");
        }
    }
}
