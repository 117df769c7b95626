//! nginx's own rules for storing, as its documentation states them: `X-Accel-Expires` before `Cache-Control` before
//! `Expires` before `proxy_cache_valid`; no `Age`, no heuristics, no directives of requests.

use crate::directives::{Response as Directives, SECONDS_MAX};
use crate::fields::members;
pub use crate::limits::VARY_BYTES_MAX;
use crate::rfc9111::{Exchange, Refusal, Terms, Verdict, delta_seconds_wide};
use brisk_http::date::parse_http_date;

/// What the fields say so far, in the order of nginx's reading.
#[derive(Default)]
struct Said {
    /// A time since 1970; 0: nothing yet.
    valid: i64,
    no_cache: Option<Refusal>,
    expired: bool,
    refused: Option<Refusal>,
    accel: bool,
    expires: bool,
    stale_while_revalidate: u64,
    stale_if_error: u64,
}

/// Judges an answer.
pub fn judge(x: &Exchange<'_>) -> Verdict {
    let mut said = Said::default();
    for (name, value) in x.response.0 {
        match name.to_ascii_lowercase().as_slice() {
            b"x-accel-expires" if !x.ignored.x_accel_expires => said.accel(value, x.response_time),
            b"cache-control" if !x.ignored.cache_control => said.cache_control(value, x.response_time),
            b"expires" if !x.ignored.expires => said.expires(value, x.response_time),
            b"set-cookie" if !x.ignored.set_cookie => said.refused = Some(Refusal::SetCookie),
            _ => {}
        }
    }
    if let Some(refusal) = said.refused.or(said.no_cache).or_else(|| refused(x)) {
        return Verdict::Refuse(refusal);
    }
    if said.expired {
        return Verdict::Refuse(Refusal::Expired);
    }
    let end = match (said.valid, x.valid) {
        (0, None | Some(0)) => return Verdict::Refuse(Refusal::NoLifetime),
        (0, Some(seconds)) => x.response_time.saturating_add(seconds as i64),
        (end, _) => end,
    };
    let left = end.saturating_sub(x.response_time);
    Verdict::Store(Terms {
        response_time: x.response_time,
        // An end in the past (`X-Accel-Expires: @1`): it came in too old by as much.
        initial_age: (-left).max(0) as u64,
        lifetime: left.max(0) as u64,
        stale_while_revalidate: said.stale_while_revalidate,
        stale_if_error: said.stale_if_error,
        must_revalidate: false,
        no_cache: false,
        immutable: false,
    })
}

/// Stricter than nginx: without leave nothing is stored for requests with credentials.
fn refused(x: &Exchange<'_>) -> Option<Refusal> {
    if x.varies_on_anything() {
        return Some(Refusal::VaryStar);
    }
    let vary = x.response.joined("Vary").map_or(0, |vary| vary.len());
    if vary > VARY_BYTES_MAX && !x.ignored.vary {
        return Some(Refusal::VaryLong);
    }
    x.refuses_credentials(&Directives::of(x.response)).then_some(Refusal::Authorization)
}

impl Said {
    fn accel(&mut self, value: &[u8], now: i64) {
        // A second line is ignored.
        if std::mem::replace(&mut self.accel, true) {
            return;
        }
        let end = match value.strip_prefix(b"@") {
            Some(time) => delta_seconds_wide(time),
            None => match delta_seconds_wide(value) {
                Some(0) => {
                    self.refused = Some(Refusal::Expired);
                    return;
                }
                seconds => seconds.map(|seconds| now.saturating_add(seconds)),
            },
        };
        if let Some(end) = end {
            (self.valid, self.no_cache, self.expired) = (end, None, false);
        }
    }

    fn cache_control(&mut self, line: &[u8], now: i64) {
        let mut directives = Directives::default();
        directives.add(line);
        if !(self.valid != 0 && self.accel) {
            // The qualified forms count as the unqualified ones.
            self.no_cache = if directives.no_store {
                Some(Refusal::NoStore)
            } else if directives.private {
                Some(Refusal::Private)
            } else if directives.no_cache || !directives.unkept.is_empty() {
                Some(Refusal::NoCache)
            } else {
                self.no_cache
            };
            if self.no_cache.is_some() {
                return;
            }
            match directives.s_maxage.or(directives.max_age) {
                Some(0) => {
                    self.no_cache = Some(Refusal::Expired);
                    return;
                }
                Some(seconds) => (self.valid, self.expired) = (now.saturating_add(seconds as i64), false),
                None => {}
            }
        }
        if let Some(seconds) = directives.stale_while_revalidate {
            (self.stale_while_revalidate, self.stale_if_error) = (seconds, seconds);
        }
        if let Some(seconds) = directives.stale_if_error {
            self.stale_if_error = seconds;
        }
    }

    fn expires(&mut self, value: &[u8], now: i64) {
        if std::mem::replace(&mut self.expires, true) || self.valid != 0 {
            return;
        }
        match parse_http_date(value) {
            Some(end) if end >= now => self.valid = end,
            _ => self.expired = true,
        }
    }
}

/// `proxy_cache_valid`: a list of statuses (none: 200, 301 and 302; 0: any) and a time in seconds.
pub fn valid_for(rules: &[(u16, u64)], status: u16) -> Option<u64> {
    rules.iter().find(|(of, _)| *of == 0 || *of == status).map(|(_, seconds)| (*seconds).min(SECONDS_MAX))
}

/// What nginx makes of a request's field that `Vary` names: white space and empty members do not count where they mean
/// nothing.
pub fn vary_value(name: &str, lines: &[&[u8]]) -> Vec<u8> {
    let normal = ["accept-charset", "accept-encoding", "accept-language"].contains(&name);
    if !normal {
        return lines.join(&b","[..]);
    }
    let words = lines.iter().flat_map(|line| members(line)).flat_map(|m| m.split(|&b| b == b' '));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b","[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;
    use crate::rfc9111::Ignored;

    const NOW: i64 = 1_800_000_000;

    fn judged(response: &[(&str, &str)], valid: Option<u64>, auth: bool) -> Result<(i64, u64, u64), Refusal> {
        let fields: Vec<_> = response.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let request = [(&b"Authorization"[..], &b"x"[..])];
        let verdict = judge(&Exchange {
            request: Fields(if auth { &request } else { &[] }),
            status: 200,
            response: Fields(&fields),
            request_time: NOW,
            response_time: NOW,
            ignored: Ignored::default(),
            key_has_credentials: false,
            valid,
        });
        match verdict {
            Verdict::Store(terms) => Ok((terms.ttl(NOW), terms.stale_while_revalidate, terms.stale_if_error)),
            Verdict::Refuse(refusal) => Err(refusal),
        }
    }

    const FUTURE: (&str, &str) = ("Expires", "Thu, 31 Dec 2037 23:55:55 GMT");
    const PAST: (&str, &str) = ("Expires", "Thu, 01 Jan 1970 00:00:01 GMT");

    #[test]
    fn precedence() {
        let check = |response: &[(&str, &str)], want: Result<i64, Refusal>| {
            assert_eq!(judged(response, None, false).map(|(ttl, ..)| ttl), want, "{response:?}");
        };
        let cc = |value| ("cache-control", value);
        let accel = |value| ("X-Accel-Expires", value);
        check(&[], Err(Refusal::NoLifetime));
        check(&[FUTURE], Ok(2_145_916_555 - NOW));
        check(&[PAST], Err(Refusal::Expired));
        check(&[cc("max-age=60")], Ok(60));
        check(&[cc("max-age=9223372036854775808")], Ok(SECONDS_MAX as i64));
        check(&[cc("max-age=1, s-maxage=10")], Ok(10));
        check(&[cc("max-age=60"), PAST], Ok(60));
        check(&[PAST, cc("max-age=60")], Ok(60));
        check(&[cc("no-cache"), FUTURE], Err(Refusal::NoCache));
        check(&[FUTURE, cc("no-cache")], Err(Refusal::NoCache));
        check(&[cc("no-cache, max-age=60")], Err(Refusal::NoCache));
        check(&[cc("no-cache"), cc("max-age=60")], Err(Refusal::NoCache));
        check(&[accel("60")], Ok(60));
        check(&[accel("60"), accel("0")], Ok(60));
        check(&[accel("@60")], Ok(60 - NOW));
        check(&[accel("60"), PAST, cc("no-cache")], Ok(60));
        check(&[PAST, cc("no-cache"), accel("60")], Ok(60));
        check(&[accel("0"), cc("max-age=60"), FUTURE], Err(Refusal::Expired));
        check(&[cc("max-age=60"), FUTURE, accel("0")], Err(Refusal::Expired));
        check(&[accel("foo"), cc("max-age=60")], Ok(60));
        check(&[("Set-Cookie", "foo"), PAST, cc("max-age=60")], Err(Refusal::SetCookie));
    }

    #[test]
    fn extensions() {
        let judged = |response: &[(&str, &str)]| judged(response, None, false);
        let extension = ("Cache-Control", "stale-while-revalidate=9");
        let want = Ok((1 - NOW, 9, 9));
        assert_eq!(judged(&[extension, ("X-Accel-Expires", "@1")]), want);
        assert_eq!(judged(&[("X-Accel-Expires", "@1"), extension]), want);
        let both = ("Cache-Control", "max-age=1, stale-while-revalidate=9, stale-if-error=5");
        assert_eq!(judged(&[both]), Ok((1, 9, 5)));
    }

    #[test]
    fn credentials_need_leave() {
        assert_eq!(judged(&[], Some(60), true), Err(Refusal::Authorization));
        assert_eq!(judged(&[("Cache-Control", "public")], Some(60), true), Ok((60, 0, 0)));
        assert_eq!(judged(&[], Some(60), false), Ok((60, 0, 0)));
    }

    #[test]
    fn valid_by_status() {
        let rules = [(200, 60), (302, 60), (0, 5)];
        assert_eq!((valid_for(&rules, 200), valid_for(&rules, 404)), (Some(60), Some(5)));
        assert_eq!(valid_for(&rules[..2], 404), None);
    }

    #[test]
    fn spaces_in_accept_fields_mean_nothing() {
        let value = |name, line: &str| String::from_utf8(vary_value(name, &[line.as_bytes()])).unwrap();
        assert_eq!(value("accept-encoding", "foo,,  ,bar , "), "foo,bar");
        assert_eq!(value("accept-encoding", "foobar"), "foobar");
        assert_eq!(value("x", "a, b"), "a, b");
    }
}
