//! Answers of two servers made comparable: only what must differ between two servers, or between two moments, is replaced.
//!
//! What is drawn anew for each answer (random numbers, identifiers, connection numbers) becomes the place at which it first
//! came up among the answers of its server: two servers agree if the same answers have the same one. Times become `NOW` if
//! they are those of the answer, and stay as they are if they are stale.

use brisk_http::date::parse_http_date;
use regex::{Captures, Regex};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64)
}

/// What is replaced in the answers of one server to one sequence.
pub struct Normal {
    ports: Vec<String>,
    folder: String,
    drawn: Regex,
    time: Regex,
    date: Regex,
    expires: Regex,
    offset: Regex,
    /// Whether a body of several parts is whole before its head is written hangs on what is in the kernel's memory.
    framing: Regex,
    pick: Regex,
    /// What came up, in this order.
    seen: Vec<String>,
}

impl Normal {
    pub fn new(ports: &[u16], folder: &str) -> Normal {
        let regex = |text: &str| Regex::new(text).expect("a valid pattern");
        Normal {
            ports: ports.iter().map(u16::to_string).collect(),
            folder: folder.to_string(),
            drawn: regex(r"\b[0-9a-f]{32}\b|uid=[A-Za-z0-9+/]{22}==|uid=[0-9A-F]{32}"),
            time: regex(r"\b(1[0-9]{9})(\.[0-9]{3})?\b"),
            date: regex(r"(?mi)^date: (.*?)\r$"),
            expires: regex(r"(?mi)^(expires): (.*?)\r$"),
            offset: regex(r"DATE[+-][0-9]+|max-age=[0-9]+"),
            framing: regex(r"(?mi)^(content-length|transfer-encoding): .*\r\n"),
            pick: regex(r"/rnd/[12]\.txt"),
            seen: Vec::new(),
        }
    }

    /// When an answer was made, as its field says.
    pub fn date(&self, text: &str) -> Option<i64> {
        self.date.captures(text).and_then(|found| parse_http_date(found[1].as_bytes()))
    }

    /// Without what follows from the moment and from a file's time (`expires modified`): another second, another number.
    pub fn of_any_second(&self, text: &str) -> String {
        self.offset.replace_all(text, "OFFSET").into_owned()
    }

    /// An answer that was asked for at `from` and had come at `to` (seconds since 1970).
    pub fn answer(&mut self, text: &str, from: i64, to: i64) -> String {
        // One second on either side: a thread reads the clock once for all that it does in a turn.
        let is_now = |secs: i64| (from - 1..=to + 1).contains(&secs);
        let mut text = text.to_string();
        for (at, port) in self.ports.iter().enumerate() {
            text = text.replace(port, &format!("PORT{}", at + 1));
        }
        text = text.replace(&self.folder, "DIR");
        text = self.framing.replace_all(&text, "").into_owned();
        let dated = self.date(&text);
        text = self
            .expires
            .replace_all(&text, |found: &Captures| {
                match (parse_http_date(found[2].as_bytes()), dated) {
                    // Times that do not follow the clock stay.
                    (Some(time), Some(date)) if (time - date).abs() < 400 * 86_400 => {
                        format!("{}: DATE{:+}\r", &found[1], time - date)
                    }
                    _ => found[0].to_string(),
                }
            })
            .into_owned();
        text = self
            .date
            .replace_all(&text, |found: &Captures| {
                let time = parse_http_date(found[1].as_bytes());
                if time.is_some_and(is_now) { "date: DATE\r".to_string() } else { found[0].to_string() }
            })
            .into_owned();
        let seen = &mut self.seen;
        text = self
            .drawn
            .replace_all(&text, |found: &Captures| {
                let value = &found[0];
                let at = seen.iter().position(|have| have == value).unwrap_or_else(|| {
                    seen.push(value.to_string());
                    seen.len() - 1
                });
                format!("DRAWN{at}")
            })
            .into_owned();
        text = self
            .time
            .replace_all(&text, |found: &Captures| {
                if found[1].parse().is_ok_and(is_now) { "NOW".to_string() } else { found[0].to_string() }
            })
            .into_owned();
        self.pick.replace_all(&text, "/rnd/DRAWN.txt").into_owned()
    }
}

#[test]
fn what_is_given_twice_is_told_from_what_is_drawn_twice() {
    let date = "Date: Thu, 01 Jan 1970 00:00:50 GMT\r\nExpires: Thu, 01 Jan 1970 01:00:50 GMT\r\n";
    let (a, b) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let check = |texts: [&str; 2], want: [&str; 2]| {
        let mut normal = Normal::new(&[81, 8080], "/tmp/x");
        assert_eq!(texts.map(|text| normal.answer(text, 50, 51)), want);
    };
    check([a, b], ["DRAWN0", "DRAWN1"]);
    check([a, a], ["DRAWN0", "DRAWN0"]);
    check(["http://h:8080/", "/tmp/x/y"], ["http://h:PORT2/", "DIR/y"]);
    check(
        [date, "Date: Thu, 01 Jan 1970 00:00:40 GMT\r\n"],
        ["date: DATE\r\nExpires: DATE+3600\r\n", "Date: Thu, 01 Jan 1970 00:00:40 GMT\r\n"],
    );
    let mut normal = Normal::new(&[], "/none");
    let now = 1_900_000_000;
    assert_eq!(
        normal.answer("at=1900000001.123 at=1899999990.000", now, now + 1),
        "at=NOW at=1899999990.000"
    );
}
