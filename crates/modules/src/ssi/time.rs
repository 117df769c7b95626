//! Times as `strftime` writes them in the C locale, for `config timefmt`.
//!
//! Written here since `strftime` of the C library follows a locale and cannot be asked for another one by a
//! thread.

use crate::limits::TIME_BYTES_MAX;
use brisk_http::date::{civil_from_days, days_from_civil};
use brisk_net::sys;
use std::fmt::Write as _;

/// nginx's default.
pub const DEFAULT: &str = "%A, %d-%b-%Y %H:%M:%S %Z";

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A second of the clock in some zone.
struct Moment {
    unix_secs: i64,
    year: i64,
    /// From 0.
    month: i64,
    day: i64,
    /// Of the day.
    secs: i64,
    /// From 0, Sunday.
    weekday: i64,
    /// From 0.
    day_of_year: i64,
    offset_minutes: i64,
    zone: String,
}

impl Moment {
    fn new(unix_secs: i64, offset_minutes: i64, zone: String) -> Moment {
        // Shifted first: then it is the clock of that zone, with days as in UTC.
        let local = unix_secs + offset_minutes * 60;
        let days = local.div_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        Moment {
            unix_secs,
            year,
            month: i64::from(month) - 1,
            day: day.into(),
            secs: local.rem_euclid(86_400),
            // 1970 began on a Thursday.
            weekday: (days + 4).rem_euclid(7),
            day_of_year: days - days_before(year),
            offset_minutes,
            zone,
        }
    }

    /// The week of the year, with weeks that begin on `first`.
    fn week(&self, first: i64) -> i64 {
        (self.day_of_year + 7 - (self.weekday - first).rem_euclid(7)) / 7
    }

    /// Year and week of ISO 8601.
    fn iso_week(&self) -> (i64, i64) {
        let weekday = (self.weekday + 6).rem_euclid(7);
        // The week belongs to the year of its Thursday.
        let thursday = days_before(self.year) + self.day_of_year - weekday + 3;
        let year = civil_from_days(thursday).0;
        (year, (thursday - days_before(year)) / 7 + 1)
    }
}

/// Days from 1970 to the first of January.
fn days_before(year: i64) -> i64 {
    days_from_civil(year, 1, 1)
}

/// Appends the time; false if that would be empty or too long.
pub fn write(format: &str, unix_secs: i64, is_local: bool, out: &mut Vec<u8>) -> bool {
    let moment = if is_local {
        let local = sys::local_time(unix_secs);
        Moment::new(unix_secs, local.offset_minutes.into(), sys::time_zone(unix_secs))
    } else {
        Moment::new(unix_secs, 0, "GMT".into())
    };
    let mut text = String::new();
    append(&moment, format, &mut text);
    // The buffer of nginx; a page cannot have more written than it could there.
    if text.is_empty() || text.len() >= TIME_BYTES_MAX {
        return false;
    }
    out.extend_from_slice(text.as_bytes());
    true
}

fn append(m: &Moment, format: &str, out: &mut String) {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        // The alternatives of other locales are the same here.
        let kind = match chars.next() {
            Some('E' | 'O') => chars.next(),
            kind => kind,
        };
        match kind {
            Some(kind) => field(m, kind, out),
            None => out.push('%'),
        }
    }
}

fn field(m: &Moment, kind: char, out: &mut String) {
    let (hour, minute, second) = (m.secs / 3600, m.secs / 60 % 60, m.secs % 60);
    let hour12 = (hour + 11) % 12 + 1;
    let (day_name, month_name) = (DAYS[m.weekday as usize], MONTHS[m.month as usize]);
    let done = match kind {
        'a' => out.write_str(&day_name[..3]),
        'A' => out.write_str(day_name),
        'b' | 'h' => out.write_str(&month_name[..3]),
        'B' => out.write_str(month_name),
        'C' => write!(out, "{:02}", m.year.div_euclid(100)),
        'd' => write!(out, "{:02}", m.day),
        'e' => write!(out, "{:2}", m.day),
        'g' => write!(out, "{:02}", m.iso_week().0.rem_euclid(100)),
        'G' => write!(out, "{}", m.iso_week().0),
        'H' => write!(out, "{hour:02}"),
        'I' => write!(out, "{hour12:02}"),
        'j' => write!(out, "{:03}", m.day_of_year + 1),
        'k' => write!(out, "{hour:2}"),
        'l' => write!(out, "{hour12:2}"),
        'm' => write!(out, "{:02}", m.month + 1),
        'M' => write!(out, "{minute:02}"),
        'n' => out.write_char('\n'),
        'p' => out.write_str(if hour < 12 { "AM" } else { "PM" }),
        'P' => out.write_str(if hour < 12 { "am" } else { "pm" }),
        's' => write!(out, "{}", m.unix_secs),
        'S' => write!(out, "{second:02}"),
        't' => out.write_char('\t'),
        'u' => write!(out, "{}", (m.weekday + 6) % 7 + 1),
        'U' => write!(out, "{:02}", m.week(0)),
        'V' => write!(out, "{:02}", m.iso_week().1),
        'w' => write!(out, "{}", m.weekday),
        'W' => write!(out, "{:02}", m.week(1)),
        'y' => write!(out, "{:02}", m.year.rem_euclid(100)),
        'Y' => write!(out, "{}", m.year),
        'z' => {
            let sign = if m.offset_minutes < 0 { '-' } else { '+' };
            let offset = m.offset_minutes.abs();
            write!(out, "{sign}{:02}{:02}", offset / 60, offset % 60)
        }
        'Z' => out.write_str(&m.zone),
        '%' => out.write_char('%'),
        _ => return compound(m, kind, out),
    };
    done.expect("a String takes everything");
}

/// What stands for several fields.
fn compound(m: &Moment, kind: char, out: &mut String) {
    let format = match kind {
        'c' => "%a %b %e %H:%M:%S %Y",
        'D' | 'x' => "%m/%d/%y",
        'F' => "%Y-%m-%d",
        'r' => "%I:%M:%S %p",
        'R' => "%H:%M",
        'T' | 'X' => "%H:%M:%S",
        _ => {
            out.push('%');
            // What no letter stands for is written as it is.
            out.push(kind);
            return;
        }
    };
    append(m, format, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(format: &str, unix_secs: i64, offset_minutes: i64) -> String {
        let mut out = String::new();
        append(&Moment::new(unix_secs, offset_minutes, "CET".into()), format, &mut out);
        out
    }

    #[test]
    fn times_are_written_as_strftime_does() {
        let check = |format: &str, want: &str| assert_eq!(at(format, 1_795_226_469, 60), want, "{format}");
        check(DEFAULT, "Saturday, 21-Nov-2026 03:01:09 CET");
        check("%a %A %b %B %h", "Sat Saturday Nov November Nov");
        check(
            "%c|%x|%X|%D|%F|%r|%R|%T",
            "Sat Nov 21 03:01:09 2026|11/21/26|03:01:09|11/21/26|2026-11-21|03:01:09 AM|03:01|03:01:09",
        );
        check("%C %d %e %g %G %H %I %j %k %l %m %M", "20 21 21 26 2026 03 03 325  3  3 11 01");
        check("%p %P %s %S %u %U %V %w %W %y %Y %z %Z", "AM am 1795226469 09 6 46 47 6 46 26 2026 +0100 CET");
        check("%n%t%% %Ey %Od %Q %", "\n\t% 26 21 %Q %");
    }

    #[test]
    fn years_have_their_edges() {
        let check = |unix_secs, want: &str| assert_eq!(at("%F %j %U %W %G-%V %I%p", unix_secs, 0), want);
        check(0, "1970-01-01 001 00 00 1970-01 12AM");
        check(951_782_400, "2000-02-29 060 09 09 2000-09 12AM");
        check(978_264_000, "2000-12-31 366 53 52 2000-52 12PM");
        check(1_104_537_600, "2005-01-01 001 00 00 2004-53 12AM");
        check(1_230_768_000, "2009-01-01 001 00 00 2009-01 12AM");
        check(-86_400, "1969-12-31 365 52 52 1970-01 12AM");
        check(4_107_542_400, "2100-03-01 060 09 09 2100-09 12AM");
    }

    #[test]
    fn what_is_empty_or_too_long_is_no_time() {
        let mut out = Vec::new();
        assert!(!write("", 0, false, &mut out));
        assert!(!write(&"%A".repeat(300), 0, false, &mut out));
        assert!(write("%Z", 0, false, &mut out));
        assert_eq!(out, b"GMT");
    }
}
