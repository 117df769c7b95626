//! Local times as logs and variables print them.

use brisk_net::sys::LocalTime;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Jan` …, for a month from 1 on.
pub fn month_name(month: u32) -> &'static str {
    MONTHS[(month as usize + 11) % 12]
}

/// The distance from UTC, such as `+0130`; `middle` stands between hours and minutes.
pub fn offset(time: &LocalTime, middle: &str) -> String {
    let sign = if time.offset_minutes < 0 { '-' } else { '+' };
    let minutes = time.offset_minutes.abs();
    format!("{sign}{:02}{middle}{:02}", minutes / 60, minutes % 60)
}

/// Date and time as ISO 8601 writes them, up to the seconds.
pub fn iso_seconds(t: &LocalTime) -> String {
    format!("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second)
}
