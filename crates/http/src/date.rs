//! Dates of HTTP (RFC 9110 §5.6.7) and the calendar behind them, in UTC and without a clock.

const SECONDS_PER_DAY: i64 = 86_400;
const WEEKDAYS: &[u8; 21] = b"SunMonTueWedThuFriSat";
const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// The seconds that [`format_imf`] can show: years 0 to 9999.
const FIRST_SECOND: i64 = -62_167_219_200;
const LAST_SECOND: i64 = 253_402_300_799;

/// A time in UTC, split up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year of the Gregorian calendar, continued backwards.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 is Sunday.
    pub weekday: u8,
}

impl Civil {
    /// The civil time of a Unix time. For a time zone add its offset before.
    pub fn from_unix(secs: i64) -> Self {
        let days = secs.div_euclid(SECONDS_PER_DAY);
        let in_day = secs.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: (in_day / 3600) as u8,
            minute: (in_day / 60 % 60) as u8,
            second: (in_day % 60) as u8,
            weekday: (days + 4).rem_euclid(7) as u8, // 1970-01-01 was a Thursday
        }
    }

    /// `Mon` …
    pub fn weekday_name(&self) -> &'static str {
        ascii(&WEEKDAYS[3 * usize::from(self.weekday)..][..3])
    }

    /// `Monday` …
    pub fn weekday_long_name(&self) -> &'static str {
        const NAMES: [&str; 7] =
            ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
        NAMES[usize::from(self.weekday)]
    }

    /// `Jan` …
    pub fn month_name(&self) -> &'static str {
        ascii(&MONTHS[3 * usize::from(self.month - 1)..][..3])
    }
}

fn ascii(name: &'static [u8]) -> &'static str {
    std::str::from_utf8(name).unwrap_or("")
}

/// Days in the 400 years after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01. Years are counted from March on, so that the leap day is their last day.
const EPOCH_DAY: i64 = 719_468;

/// Year, month and day of the day that is `days` after 1970-01-01.
pub fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days.saturating_add(EPOCH_DAY);
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    // Years of 365 days, corrected by the leap days before: one each 1460 days, but not each 36524, but each 146096.
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month as u8, day as u8)
}

/// Days from 1970-01-01 to a date.
pub fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_DAY
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Years outside 0 to 9999 become the nearest that fits.
pub fn format_imf(unix_secs: i64) -> [u8; 29] {
    let t = Civil::from_unix(unix_secs.clamp(FIRST_SECOND, LAST_SECOND));
    let mut out = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    out[..3].copy_from_slice(t.weekday_name().as_bytes());
    out[5..7].copy_from_slice(&two_digits(t.day));
    out[8..11].copy_from_slice(t.month_name().as_bytes());
    out[12..14].copy_from_slice(&two_digits((t.year / 100) as u8));
    out[14..16].copy_from_slice(&two_digits((t.year % 100) as u8));
    out[17..19].copy_from_slice(&two_digits(t.hour));
    out[20..22].copy_from_slice(&two_digits(t.minute));
    out[23..25].copy_from_slice(&two_digits(t.second));
    out
}

/// Appends a date as cookies have it: `Thu, 31-Dec-37 23:55:55 GMT`; from 2038 on with four digits, or it would be taken
/// for 1938.
pub fn append_cookie(unix_secs: i64, out: &mut Vec<u8>) {
    let civil = Civil::from_unix(unix_secs);
    let year = if civil.year > 2037 { civil.year.to_string() } else { format!("{:02}", civil.year % 100) };
    let (weekday, month) = (civil.weekday_name(), civil.month_name());
    let Civil { day, hour, minute, second, .. } = civil;
    let text = format!("{weekday}, {day:02}-{month}-{year} {hour:02}:{minute:02}:{second:02} GMT");
    out.extend_from_slice(text.as_bytes());
}

/// A number below 100 with a leading zero.
pub fn two_digits(n: u8) -> [u8; 2] {
    [b'0' + n / 10, b'0' + n % 10]
}

/// Parses a date of HTTP in any of its three formats. Two digits of an RFC 850 year mean 1970 to 2069, as in nginx.
///
/// Like nginx it ignores the name of the day and whatever follows the time, and knows no leap seconds.
pub fn parse_http_date(value: &[u8]) -> Option<i64> {
    parse(value, |yy| if yy < 70 { 2000 + yy } else { 1900 + yy })
}

/// As [`parse_http_date`], but a year of two digits that would be more than 50 years after `now` is in the past
/// (RFC 9110 §5.6.7).
pub fn parse_http_date_at(value: &[u8], now: i64) -> Option<i64> {
    let this_year = Civil::from_unix(now).year;
    parse(value, |yy| {
        let year = this_year - this_year.rem_euclid(100) + yy;
        if year > this_year + 50 { year - 100 } else { year }
    })
}

/// Parses what [`format_imf`] writes, and nothing else: for whoever passes a date on as it came.
pub fn parse_imf(value: &[u8]) -> Option<i64> {
    let value: &[u8; 29] = value.try_into().ok()?;
    let marks = [(3, b','), (4, b' '), (7, b' '), (11, b' '), (16, b' '), (19, b':'), (22, b':')];
    if marks.iter().any(|&(at, mark)| value[at] != mark) || value[25..] != *b" GMT" {
        return None;
    }
    let number = |at: usize| {
        let (tens, ones) = (value[at].wrapping_sub(b'0'), value[at + 1].wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| i64::from(tens) * 10 + i64::from(ones))
    };
    let month = MONTHS.chunks(3).position(|month| *month == value[8..11])? as u8 + 1;
    let (day, year) = (number(5)?, number(12)? * 100 + number(14)?);
    let (hour, minute, second) = (number(17)?, number(20)?, number(23)?);
    if day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_from_civil(year, month, day as u8);
    let weekday = 3 * (days + 4).rem_euclid(7) as usize;
    (value[..3] == WEEKDAYS[weekday..weekday + 3])
        .then(|| days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second)
}

fn parse(value: &[u8], full_year: impl Fn(i64) -> i64) -> Option<i64> {
    let name_end = value.iter().position(|&b| b == b',' || b == b' ')?;
    let mut cursor = Cursor { rest: &value[name_end + 1..] };
    cursor.spaces();
    let (year, month, day, secs);
    if value[name_end] == b',' {
        day = cursor.number(2)?;
        let separator = cursor.byte()?;
        month = cursor.month()?;
        cursor.expect(separator)?;
        year = match separator {
            b' ' => cursor.number(4)?,
            b'-' => full_year(cursor.number(2)?),
            _ => return None,
        };
        cursor.expect(b' ')?;
        secs = cursor.time()?;
    } else {
        month = cursor.month()?;
        cursor.expect(b' ')?;
        cursor.spaces();
        day = if cursor.rest.get(1).is_some_and(u8::is_ascii_digit) {
            cursor.number(2)?
        } else {
            cursor.number(1)?
        };
        cursor.expect(b' ')?;
        secs = cursor.time()?;
        cursor.expect(b' ')?;
        year = cursor.number(4)?;
    }
    if day < 1 || day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_civil(year, month, day as u8) * SECONDS_PER_DAY + secs)
}

fn days_in_month(year: i64, month: u8) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.byte()? == wanted).then_some(())
    }

    fn spaces(&mut self) {
        while let Some(rest) = self.rest.strip_prefix(b" ") {
            self.rest = rest;
        }
    }

    /// Exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let mut number = 0;
        for _ in 0..digits {
            let digit = char::from(self.byte()?).to_digit(10)?;
            number = number * 10 + i64::from(digit);
        }
        Some(number)
    }

    fn month(&mut self) -> Option<u8> {
        let name = self.rest.get(..3)?;
        self.rest = &self.rest[3..];
        let at = MONTHS.chunks(3).position(|month| month == name)?;
        Some(at as u8 + 1)
    }

    /// `hh:mm:ss` as seconds.
    fn time(&mut self) -> Option<i64> {
        let hour = self.number(2)?;
        self.expect(b':')?;
        let minute = self.number(2)?;
        self.expect(b':')?;
        let second = self.number(2)?;
        (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(secs: i64) -> String {
        String::from_utf8(format_imf(secs).to_vec()).unwrap()
    }

    #[test]
    fn formats() {
        assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(text(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(text(-1), "Wed, 31 Dec 1969 23:59:59 GMT");
        assert_eq!(text(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        assert_eq!(text(i64::MIN), "Sat, 01 Jan 0000 00:00:00 GMT");
    }

    #[test]
    fn parses_what_nginx_parses() {
        let check = |value: &str, want: Option<i64>| {
            assert_eq!(parse_http_date(value.as_bytes()), want, "{value}");
        };
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 16 08:49:37 1994", Some(784_975_777));
        check("Sun, 06 Nov 1994 08:49:37", Some(784_111_777));
        check("Tue, 19 Jan 2038 03:14:08 GMT", Some(2_147_483_648));
        check("Fri, 25 Feb 2174 09:42:23 GMT", Some(6_442_450_943));
        check("Sunday, 06-Nov-69 08:49:37 GMT", Some(3_150_953_377));
        check("Sunday, 06-Nov-70 08:49:37 GMT", Some(26_729_377));
        check("Sun, 29 Feb 2023 08:49:37 GMT", None);
        check("Sun, 00 Feb 2023 08:49:37 GMT", None);
        check("Sun, 06 Nov 1994 24:00:00 GMT", None);
        check("Sun, 06 Nov 1994 08:49:60 GMT", None);
        check("Sun, 06 Foo 1994 08:49:37 GMT", None);
        check("Sun, 6 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06-Nov 1994 08:49:37 GMT", None);
        check("wrong", None);
        check("", None);
        check("Sun, 06 Nov", None);
    }

    #[test]
    fn two_digit_years_are_at_most_50_years_ahead() {
        let now = 1_767_225_600; // 2026-01-01
        let year = |yy: &str| {
            let secs =
                parse_http_date_at(format!("Sunday, 06-Nov-{yy} 08:49:37 GMT").as_bytes(), now).unwrap();
            Civil::from_unix(secs).year
        };
        assert_eq!(year("26"), 2026);
        assert_eq!(year("76"), 2076);
        assert_eq!(year("77"), 1977);
        assert_eq!(year("99"), 1999);
    }

    proptest! {
        #![proptest_config(crate::testing::cases(256))]
        #[test]
        fn days_round_trip(days in -1_000_000i64..4_000_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert_eq!(days_from_civil(year, month, day), days);
        }

        #[test]
        fn dates_round_trip(secs in 0i64..LAST_SECOND) {
            prop_assert_eq!(parse_http_date(&format_imf(secs)), Some(secs));
        }

        #[test]
        fn dates_that_stay_as_they_are(
            secs in FIRST_SECOND..=LAST_SECOND,
            at in 0usize..29,
            byte in any::<u8>(),
        ) {
            let mut value = format_imf(secs);
            prop_assert_eq!(parse_imf(&value), Some(secs));
            value[at] = byte;
            let same = |secs: &i64| format_imf(*secs) == value;
            prop_assert_eq!(parse_imf(&value), parse_http_date(&value).filter(same));
        }

        #[test]
        fn parsing_never_panics(value in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse_http_date(&value);
        }
    }
}
