//! Whether a response may be stored and for how long it is fresh (RFC 9111 §3, §4.2).

use crate::age;
use crate::date;
use crate::directives::{Request as RequestDirectives, Response as Directives, SECONDS_MAX, delta_seconds};
use crate::fields::{Fields, members};
use crate::limits::HEURISTIC_SECONDS_MAX;
use crate::structured::cdn_cache_control;

/// Status codes that may be given out without being told for how long (RFC 9110 §15.1).
pub const HEURISTICALLY_CACHEABLE: &[u16] = &[200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501];

/// Part of the time since the last change that a response is taken to be fresh for: one in 10 (RFC 9111 §4.2.2).
const HEURISTIC_PART: i64 = 10;

/// Until when a stored response may be used, and how. Times are seconds since 1970 or lengths in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When the answer came in.
    pub response_time: i64,
    /// How old it was then.
    pub initial_age: u64,
    /// It is fresh while it is younger.
    pub lifetime: u64,
    /// How much longer it may be given out while it is asked for anew.
    pub stale_while_revalidate: u64,
    /// How much longer if the back end fails.
    pub stale_if_error: u64,
    /// It must never be given out stale.
    pub must_revalidate: bool,
    /// It must never be given out without asking first.
    pub no_cache: bool,
    /// It will not change: asking for it anew before its end is pointless.
    pub immutable: bool,
}

impl Terms {
    /// How old it is now.
    pub fn age(&self, now: i64) -> u64 {
        let resident = now.saturating_sub(self.response_time).max(0) as u64;
        self.initial_age.saturating_add(resident)
    }

    /// Seconds that are left; negative: for so long it has been stale.
    pub fn ttl(&self, now: i64) -> i64 {
        let (lifetime, age) = (self.lifetime.min(SECONDS_MAX * 2), self.age(now).min(SECONDS_MAX * 2));
        lifetime as i64 - age as i64
    }

    /// The first second in which it is stale.
    pub fn stale_at(&self) -> i64 {
        let left = self.lifetime.min(SECONDS_MAX * 2) as i64 - self.initial_age.min(SECONDS_MAX * 2) as i64;
        self.response_time.saturating_add(left)
    }
}

/// Why a response is not stored; as text it goes into logs, `Cache-Status` and `brisk cache why`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The method is not one that is cached.
    Method,
    /// The request says `no-store`.
    RequestNoStore,
    /// The request has credentials, and the answer does not say that it is for others (RFC 9111 §3.5).
    Authorization,
    /// The status is not one that is stored without being told to.
    Status,
    /// The answer says `no-store`.
    NoStore,
    /// The answer says `no-cache`.
    NoCache,
    /// The answer says `private`.
    Private,
    /// The answer sets a cookie.
    SetCookie,
    /// The answer says `Vary: *`.
    VaryStar,
    /// `Vary` is too long.
    VaryLong,
    /// `X-Accel-Expires: 0`, `max-age=0`, an `Expires` in the past.
    Expired,
    /// Nothing says how long it would hold.
    NoLifetime,
    /// The answer says `must-understand`, and its status is not understood.
    NotUnderstood,
    /// It is a part of a whole that is not known.
    PartialContent,
}

impl Refusal {
    /// As it goes into logs.
    pub fn text(self) -> &'static str {
        match self {
            Refusal::Method => "the method is not one of those that are cached",
            Refusal::RequestNoStore => "the request says Cache-Control: no-store",
            Refusal::Authorization => {
                "the request has Authorization, and the answer says neither public, s-maxage nor must-revalidate"
            }
            Refusal::Status => "answers with this status are not stored",
            Refusal::NoStore => "the answer says no-store",
            Refusal::NoCache => "the answer says no-cache",
            Refusal::Private => "the answer says private",
            Refusal::SetCookie => "the answer has Set-Cookie",
            Refusal::VaryStar => "the answer says Vary: *",
            Refusal::VaryLong => "Vary is too long",
            Refusal::Expired => "the answer has expired already",
            Refusal::NoLifetime => "nothing says how long the answer is valid",
            Refusal::NotUnderstood => "the answer says must-understand, and its status is not known",
            Refusal::PartialContent => "it is a part of a whole that is not known",
        }
    }

    /// The answer itself says so; the request or the configuration says the others.
    pub fn is_by_answer(self) -> bool {
        match self {
            Refusal::NoStore
            | Refusal::NoCache
            | Refusal::Private
            | Refusal::SetCookie
            | Refusal::VaryStar
            | Refusal::VaryLong
            | Refusal::Expired
            | Refusal::NotUnderstood => true,
            Refusal::Method
            | Refusal::RequestNoStore
            | Refusal::Authorization
            | Refusal::Status
            | Refusal::NoLifetime
            | Refusal::PartialContent => false,
        }
    }

    /// One word, for `Cache-Status`.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::Method => "method",
            Refusal::RequestNoStore => "request-no-store",
            Refusal::Authorization => "authorization",
            Refusal::Status => "status",
            Refusal::NoStore => "no-store",
            Refusal::NoCache => "no-cache",
            Refusal::Private => "private",
            Refusal::SetCookie => "set-cookie",
            Refusal::VaryStar => "vary-star",
            Refusal::VaryLong => "vary-long",
            Refusal::Expired => "expired",
            Refusal::NoLifetime => "no-lifetime",
            Refusal::NotUnderstood => "must-understand",
            Refusal::PartialContent => "partial",
        }
    }
}

/// Whether to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, on these terms.
    Store(Terms),
    /// It is not.
    Refuse(Refusal),
}

/// Response fields that the configuration leaves out of account (`proxy_ignore_headers`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// `Cache-Control`.
    pub cache_control: bool,
    /// `Expires`.
    pub expires: bool,
    /// `X-Accel-Expires`.
    pub x_accel_expires: bool,
    /// This is the explicit leave to store answers with `Set-Cookie`.
    pub set_cookie: bool,
    /// `Vary`.
    pub vary: bool,
}

/// What is judged.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request's fields.
    pub request: Fields<'a>,
    /// The response's status.
    pub status: u16,
    /// The response's fields.
    pub response: Fields<'a>,
    /// When the request was sent, and when the head came.
    pub request_time: i64,
    /// When the head came; both in seconds since 1970.
    pub response_time: i64,
    /// What the configuration leaves out of account.
    pub ignored: Ignored,
    /// The key tells clients with credentials apart: their answers may be stored.
    pub key_has_credentials: bool,
    /// `proxy_cache_valid` for this status: seconds that count if the answer says nothing.
    pub valid: Option<u64>,
}

impl Exchange<'_> {
    /// The response's directives for this cache, by precedence: `CDN-Cache-Control` (RFC 9213), `Surrogate-Control`,
    /// `Cache-Control`. True if one of the targeted two was there: then `Cache-Control` and `Expires` do not count.
    pub fn directives(&self) -> (Directives, bool) {
        if self.ignored.cache_control {
            return (Directives::default(), false);
        }
        let targeted = cdn_cache_control(self.response).or_else(|| Directives::surrogate(self.response));
        match targeted {
            Some(directives) => (directives, true),
            None => (Directives::of(self.response), false),
        }
    }

    pub(crate) fn refuses_credentials(&self, directives: &Directives) -> bool {
        self.request.has("Authorization")
            && !self.key_has_credentials
            && !(directives.public || directives.must_revalidate || directives.s_maxage.is_some())
    }

    pub(crate) fn varies_on_anything(&self) -> bool {
        !self.ignored.vary && self.response.all("Vary").flat_map(members).any(|name| name == b"*")
    }

    /// `X-Accel-Expires`: seconds, or `@` and a time; `Some(0)` forbids.
    pub(crate) fn x_accel_expires(&self) -> Option<u64> {
        let value = (!self.ignored.x_accel_expires).then(|| self.response.first("X-Accel-Expires"))??;
        match value.strip_prefix(b"@") {
            Some(time) => {
                let left = delta_seconds_wide(time)?.saturating_sub(self.response_time);
                Some(left.max(0) as u64)
            }
            None => delta_seconds(value),
        }
    }
}

/// As [`delta_seconds`], for times since 1970.
pub(crate) fn delta_seconds_wide(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// Judges a final answer to a GET (RFC 9111 §3).
pub fn judge(x: &Exchange<'_>) -> Verdict {
    let (directives, targeted) = x.directives();
    if let Some(refusal) = refused(x, &directives) {
        return Verdict::Refuse(refusal);
    }
    let accel = x.x_accel_expires();
    if accel == Some(0) {
        return Verdict::Refuse(Refusal::Expired);
    }
    let explicit = accel.or_else(|| explicit_lifetime(x, &directives, targeted));
    let initial_age = age::initial(x.response, x.request_time, x.response_time);
    let lifetime = match explicit.or(x.valid) {
        Some(lifetime) => lifetime,
        None => heuristic_lifetime(x, &directives),
    };
    // s-maxage implies proxy-revalidate (RFC 9111 §5.2.2.10).
    let must_revalidate =
        directives.must_revalidate || directives.proxy_revalidate || directives.s_maxage.is_some();
    let terms = Terms {
        response_time: x.response_time,
        initial_age,
        lifetime,
        stale_while_revalidate: directives.stale_while_revalidate.unwrap_or(0),
        stale_if_error: directives.stale_if_error.unwrap_or(0),
        must_revalidate: must_revalidate || directives.no_cache,
        no_cache: directives.no_cache,
        immutable: directives.immutable,
    };
    // What is of no use at once and cannot be asked about is not worth its room.
    let can_be_asked = x.response.has("ETag") || x.response.has("Last-Modified");
    let is_of_use = terms.ttl(x.response_time) > 0 && !terms.no_cache
        || can_be_asked
        || terms.stale_while_revalidate > 0
        || terms.stale_if_error > 0;
    if !is_of_use {
        let has_ended = explicit.is_some() || directives.no_cache;
        return Verdict::Refuse(if has_ended { Refusal::Expired } else { Refusal::NoLifetime });
    }
    Verdict::Store(terms)
}

fn refused(x: &Exchange<'_>, directives: &Directives) -> Option<Refusal> {
    let understood = brisk_http::status::reason(x.status).is_some();
    let no_store = directives.no_store && !(directives.must_understand && understood);
    if RequestDirectives::of(x.request).no_store {
        return Some(Refusal::RequestNoStore);
    }
    if x.status < 200 || x.status == 304 || x.status == 416 {
        return Some(Refusal::Status);
    }
    if directives.must_understand && !understood {
        return Some(Refusal::NotUnderstood);
    }
    if no_store {
        return Some(Refusal::NoStore);
    }
    if directives.private {
        return Some(Refusal::Private);
    }
    if x.refuses_credentials(directives) {
        return Some(Refusal::Authorization);
    }
    if x.response.has("Set-Cookie") && !x.ignored.set_cookie {
        return Some(Refusal::SetCookie);
    }
    if x.varies_on_anything() {
        return Some(Refusal::VaryStar);
    }
    None
}

/// RFC 9111 §4.2.1.
fn explicit_lifetime(x: &Exchange<'_>, directives: &Directives, targeted: bool) -> Option<u64> {
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Some(seconds);
    }
    // Where a targeted field counts, the others do not (RFC 9213 §2.2).
    if targeted || x.ignored.expires {
        return None;
    }
    let mut lines = x.response.all("Expires");
    let first = lines.next()?;
    // Several lines are as good as an invalid one: expired.
    let expires = if lines.next().is_some() { None } else { date::strict(first, x.response_time) };
    let made = age::date(x.response, x.response_time).unwrap_or(x.response_time);
    Some(expires.map_or(0, |expires| expires.saturating_sub(made).max(0) as u64).min(SECONDS_MAX))
}

/// RFC 9111 §4.2.2.
fn heuristic_lifetime(x: &Exchange<'_>, directives: &Directives) -> u64 {
    if !HEURISTICALLY_CACHEABLE.contains(&x.status) && !directives.public {
        return 0;
    }
    let changed = x.response.first("Last-Modified").and_then(|value| date::strict(value, x.response_time));
    let Some(changed) = changed else { return 0 };
    let made = age::date(x.response, x.response_time).unwrap_or(x.response_time);
    let since = made.saturating_sub(changed).max(0);
    (since / HEURISTIC_PART).min(HEURISTIC_SECONDS_MAX) as u64
}

#[cfg(test)]
mod tests;
