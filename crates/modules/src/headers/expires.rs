//! `expires`: when a response is out of date, as `Expires` and `Cache-Control` say it (RFC 9111 §5.2, §5.3).

use brisk_conf::value::parse_time;
use brisk_conf::{Diag, Directive};
use brisk_http::date;
use brisk_net::sys::local_time;
use brisk_server::conf::Cx;
use brisk_server::request::Request;
use brisk_server::response::Response;
use brisk_server::text::Text;
use brisk_server::vars::Template;

/// The directive.
#[derive(Clone)]
pub enum Expires {
    Fixed(When),
    /// Parsed anew for each response; what does not parse says nothing.
    Computed {
        template: Template,
        modified: bool,
    },
}

impl Default for Expires {
    fn default() -> Expires {
        Expires::Fixed(When::Off)
    }
}

/// What its value means. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Off,
    Epoch,
    Max,
    /// From now.
    Access(i64),
    /// From the response's last modification, if it has one.
    Modified(i64),
    /// At this time of the day, local time.
    Daily(i64),
}

/// The setter's work.
pub fn parse(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Expires, Diag> {
    let fail = |span, why: &str| {
        Diag::reason(span, why)
            .help("write a time such as 30d, -1 or @15h30m, modified TIME, epoch, max or off")
    };
    let (token, modified) = match d.args.as_slice() {
        [token] => (token, false),
        [word, token] if word.bytes() == b"modified" => (token, true),
        _ => return Err(fail(d.arg(0).span, "invalid value")),
    };
    // Looked at now if it can be: a mistake is told before the start.
    let template = cx.template(token)?;
    if !template.is_literal() {
        return Ok(Expires::Computed { template, modified });
    }
    When::parse(token.bytes(), modified).map(Expires::Fixed).map_err(|why| fail(token.span, why))
}

impl Expires {
    pub fn is_off(&self) -> bool {
        matches!(self, Expires::Fixed(When::Off))
    }

    /// Adds the two fields to the response, in place of those that are there.
    pub fn apply(&self, r: &mut Request) {
        let when = match self {
            Expires::Fixed(when) => *when,
            Expires::Computed { template, modified } => {
                When::parse(&template.eval(r), *modified).unwrap_or(When::Off)
            }
        };
        // Recorded by the asking: without a clock the answer may be prepared for as long as its file stays.
        let now = if when.follows_the_clock() { r.this_second() } else { 0 };
        if let Some((expires, cache_control)) = when.fields(now, r.resp.last_modified) {
            r.resp.set("Expires", expires.to_vec());
            set_cache_control(&mut r.resp, cache_control);
        }
    }
}

fn set_cache_control(resp: &mut Response, value: Text) {
    let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"Cache-Control");
    let mut seen = false;
    // The first of several is replaced, the others would contradict it.
    resp.headers.retain(|(name, _)| !is_it(name) || !std::mem::replace(&mut seen, true));
    resp.set("Cache-Control", value);
}

impl When {
    fn parse(text: &[u8], modified: bool) -> Result<When, &'static str> {
        match (text, modified) {
            (b"epoch", false) => return Ok(When::Epoch),
            (b"max", false) => return Ok(When::Max),
            (b"off", false) => return Ok(When::Off),
            ([b'@', ..], true) => return Err("daily time cannot be used with \"modified\" parameter"),
            _ => {}
        }
        let (digits, sign) = match text {
            [b'@' | b'+', rest @ ..] => (rest, 1),
            [b'-', rest @ ..] => (rest, -1),
            _ => (text, 1),
        };
        let seconds = parse_time(digits, true).ok_or("invalid value")? as i64;
        match (text, modified) {
            // (A day that ends at 24:00 is nginx's.)
            ([b'@', ..], _) if seconds > DAY => Err("daily time value must be less than 24 hours"),
            ([b'@', ..], _) => Ok(When::Daily(seconds)),
            (_, true) => Ok(When::Modified(sign * seconds)),
            (_, false) => Ok(When::Access(sign * seconds)),
        }
    }

    fn follows_the_clock(self) -> bool {
        matches!(self, When::Access(_) | When::Modified(_) | When::Daily(_))
    }

    /// The values of `Expires` and `Cache-Control`; `None` adds neither.
    fn fields(self, now: i64, last_modified: Option<i64>) -> Option<([u8; 29], Text)> {
        let (at, negative) = match self {
            When::Off => return None,
            When::Epoch => return Some((*b"Thu, 01 Jan 1970 00:00:01 GMT", "no-cache".into())),
            // Ten years.
            When::Max => return Some((*b"Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000".into())),
            When::Daily(time) => (next_time_of_day(now, time, utc_offset), false),
            // nginx takes no time at all, even after the modification, for now.
            When::Access(0) | When::Modified(0) => (now, false),
            When::Access(time) => (now.saturating_add(time), time < 0),
            When::Modified(time) => (last_modified.unwrap_or(now).saturating_add(time), time < 0),
        };
        let max_age = at.saturating_sub(now);
        // What is out of date already must be asked for again.
        let cache_control = if negative || max_age < 0 {
            Text::from("no-cache")
        } else {
            Text::from(format!("max-age={max_age}"))
        };
        Some((date::format_imf(at), cache_control))
    }
}

const DAY: i64 = 24 * 60 * 60;

/// Seconds east of UTC at a time.
fn utc_offset(at: i64) -> i64 {
    i64::from(local_time(at).offset_minutes) * 60
}

/// The next moment at which clocks show `time` seconds after midnight.
fn next_time_of_day(now: i64, time: i64, offset: impl Fn(i64) -> i64) -> i64 {
    let here = offset(now);
    // As clocks show it, counted as if there were no zones.
    let local = now + here;
    let today = local - local.rem_euclid(DAY) + time;
    // Summer time may begin or end in between.
    let moment = |local: i64| local - offset(local - here);
    if moment(today) > now { moment(today) } else { moment(today + DAY) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;

    #[test]
    fn values_are_parsed() {
        let check = |text: &str, want| assert_eq!(When::parse(text.as_bytes(), false), want, "{text}");
        check("off", Ok(When::Off));
        check("epoch", Ok(When::Epoch));
        check("max", Ok(When::Max));
        check("30d", Ok(When::Access(30 * DAY)));
        check("+1h", Ok(When::Access(3600)));
        check("-1", Ok(When::Access(-1)));
        check("0", Ok(When::Access(0)));
        check("@15h30m", Ok(When::Daily(15 * 3600 + 30 * 60)));
        check("@24h", Ok(When::Daily(DAY)));
        check("@25h", Err("daily time value must be less than 24 hours"));
        check("", Err("invalid value"));
        check("soon", Err("invalid value"));
        check("--1", Err("invalid value"));
        let check = |text: &str, want| assert_eq!(When::parse(text.as_bytes(), true), want, "{text}");
        check("1d", Ok(When::Modified(DAY)));
        check("-1", Ok(When::Modified(-1)));
        check("@1h", Err("daily time cannot be used with \"modified\" parameter"));
        check("max", Err("invalid value"));
    }

    #[test]
    fn messages() {
        messages_in_location("expires 24d; ", &[]);
        messages_in_location("expires modified +24h; ", &[]);
        messages_in_location("expires $arg_e; ", &[]);
        messages_in_location("expires never;", &["\"expires\" directive invalid value"]);
        messages_in_location("expires accessed 1h;", &["\"expires\" directive invalid value"]);
        messages_in_location(
            "expires @25h;",
            &["\"expires\" directive daily time value must be less than 24 hours"],
        );
        messages_in_location("expires 1; expires 2;", &["\"expires\" directive is duplicate"]);
    }

    #[test]
    fn fields_say_when() {
        const NOW: i64 = 1_000_000;
        let check = |when: When, modified: Option<i64>, want: Option<(i64, &str)>| {
            let got = when.fields(NOW, modified).map(|(at, text)| {
                (date::parse_http_date(&at).unwrap(), String::from_utf8(text.to_vec()).unwrap())
            });
            assert_eq!(got, want.map(|(at, text)| (at, text.to_string())), "{when:?}");
        };
        check(When::Off, None, None);
        check(When::Epoch, None, Some((1, "no-cache")));
        check(When::Max, None, Some((2_145_916_555, "max-age=315360000")));
        check(When::Access(0), None, Some((NOW, "max-age=0")));
        check(When::Access(60), None, Some((NOW + 60, "max-age=60")));
        check(When::Access(-60), None, Some((NOW - 60, "no-cache")));
        check(When::Modified(60), Some(NOW - 20), Some((NOW + 40, "max-age=40")));
        check(When::Modified(60), Some(NOW - 100), Some((NOW - 40, "no-cache")));
        check(When::Modified(60), None, Some((NOW + 60, "max-age=60")));
        check(When::Modified(0), Some(NOW - 100), Some((NOW, "max-age=0")));
        check(When::Modified(-60), Some(NOW + 100), Some((NOW + 40, "no-cache")));
    }

    #[test]
    fn the_time_of_day_is_local() {
        let check = |now, time, offset, want| assert_eq!(next_time_of_day(now, time, |_| offset), want);
        check(0, 3600, 0, 3600);
        check(3600, 3600, 0, 3600 + DAY);
        check(0, 3600, 3600, DAY);
        check(0, DAY, 0, DAY);
        check(10 * 3600, 3600, -3600, 2 * 3600 + DAY);
        // Clocks go forward one hour at noon.
        let spring = |at| if at < DAY / 2 { 0 } else { 3600 };
        assert_eq!(next_time_of_day(0, 20 * 3600, spring), 19 * 3600);
    }
}
