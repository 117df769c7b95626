//! Storing and freshness, as tables.

use super::*;
use brisk_http::date::format_imf;
use proptest::prelude::*;

const NOW: i64 = 1_800_000_000;

/// A text with `{N}` in it becomes the date of N seconds from now.
fn dated(value: &str) -> Vec<u8> {
    let number =
        value.strip_prefix('{').and_then(|v| v.strip_suffix('}')).and_then(|v| v.parse::<i64>().ok());
    number.map_or_else(|| value.into(), |offset| format_imf(NOW + offset).to_vec())
}

fn judged(request: &[(&str, &str)], status: u16, response: &[(&str, &str)]) -> Verdict {
    let own = |fields: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
        fields.iter().map(|(n, v)| (n.as_bytes().to_vec(), dated(v))).collect()
    };
    let (request, response) = (own(request), own(response));
    let lend = |fields: &'static [(Vec<u8>, Vec<u8>)]| -> Vec<(&'static [u8], &'static [u8])> {
        fields.iter().map(|(n, v)| (&n[..], &v[..])).collect()
    };
    let (request, response) = (lend(request.leak()), lend(response.leak()));
    judge(&Exchange {
        request: Fields(&request),
        status,
        response: Fields(&response),
        request_time: NOW,
        response_time: NOW,
        ignored: Ignored::default(),
        key_has_credentials: false,
        valid: None,
    })
}

fn lifetime(response: &[(&str, &str)]) -> Result<u64, Refusal> {
    match judged(&[], 200, response) {
        Verdict::Store(terms) => Ok(terms.lifetime),
        Verdict::Refuse(refusal) => Err(refusal),
    }
}

#[test]
fn lifetimes() {
    let check = |response: &[(&str, &str)], want| assert_eq!(lifetime(response), want, "{response:?}");
    check(&[], Err(Refusal::NoLifetime));
    check(&[("Cache-Control", "max-age=60")], Ok(60));
    check(&[("Cache-Control", "max-age=0")], Err(Refusal::Expired));
    check(&[("Cache-Control", "max-age=0"), ("ETag", "\"a\"")], Ok(0));
    check(&[("Cache-Control", "max-age=60"), ("Expires", "{-5}")], Ok(60));
    check(&[("Cache-Control", "max-age=60, s-maxage=5")], Ok(5));
    check(&[("Cache-Control", "max-age=0, s-maxage=5"), ("Expires", "{-5}")], Ok(5));
    check(&[("Expires", "{60}")], Ok(60));
    check(&[("Expires", "{60}"), ("Date", "{-40}")], Ok(100));
    check(&[("Expires", "{60}"), ("Date", "foo")], Ok(60));
    check(&[("Expires", "{0}")], Err(Refusal::Expired));
    check(&[("Expires", "0")], Err(Refusal::Expired));
    check(&[("Expires", "{60}"), ("Expires", "{60}")], Err(Refusal::Expired));
    // RFC 9213 §2.2: the targeted field alone.
    check(&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=9")], Ok(9));
    check(&[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "max-age=9")], Ok(9));
    check(&[("Cache-Control", "max-age=60"), ("CDN-Cache-Control", "no-store")], Err(Refusal::NoStore));
    check(&[("Cache-Control", "no-store"), ("CDN-Cache-Control", "max-age=\"9\"")], Err(Refusal::NoStore));
    check(&[("CDN-Cache-Control", "foo"), ("Expires", "{60}")], Err(Refusal::NoLifetime));
    check(&[("Surrogate-Control", "max-age=9"), ("Cache-Control", "private")], Ok(9));
    check(&[("X-Accel-Expires", "7"), ("Cache-Control", "max-age=60")], Ok(7));
    check(&[("X-Accel-Expires", "0"), ("Cache-Control", "max-age=60")], Err(Refusal::Expired));
    check(&[("X-Accel-Expires", "@1800000011")], Ok(11));
    // A tenth of what has passed since the last change, at most a day.
    check(&[("Last-Modified", "{-1000}")], Ok(100));
    check(&[("Last-Modified", "{-9000000}")], Ok(24 * 3600));
    check(&[("Last-Modified", "{50}")], Ok(0));
}

#[test]
fn statuses() {
    let check = |status, response: &[(&str, &str)], stored: bool| {
        let verdict = judged(&[], status, response);
        let is_fresh = matches!(&verdict, Verdict::Store(terms) if terms.ttl(NOW) > 0);
        assert_eq!(is_fresh, stored, "{status} {response:?}: {verdict:?}");
    };
    let (explicit, heuristic) = ([("Cache-Control", "max-age=60")], [("Last-Modified", "{-1000}")]);
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 400, 404, 410, 499, 500, 502, 599] {
        check(status, &explicit, true);
    }
    for status in [100, 103, 199, 304, 416] {
        check(status, &explicit, false);
    }
    for status in HEURISTICALLY_CACHEABLE {
        check(*status, &heuristic, true);
    }
    for status in [201, 202, 302, 403, 502, 503, 504, 599] {
        check(status, &heuristic, false);
    }
    check(599, &[("Last-Modified", "{-1000}"), ("Cache-Control", "public")], true);
    check(200, &[("Cache-Control", "max-age=60, no-store, must-understand")], true);
    check(599, &[("Cache-Control", "max-age=60, no-store, must-understand")], false);
}

#[test]
fn never_without_leave() {
    let check = |request: &[(&str, &str)], response: &[(&str, &str)], want: Option<Refusal>| {
        let have = match judged(request, 200, response) {
            Verdict::Store(_) => None,
            Verdict::Refuse(refusal) => Some(refusal),
        };
        assert_eq!(have, want, "{request:?} {response:?}");
    };
    let auth = [("authorization", "Basic eA==")];
    check(&auth, &[("Cache-Control", "max-age=60")], Some(Refusal::Authorization));
    for leave in ["max-age=60, public", "max-age=60, must-revalidate", "s-maxage=60"] {
        check(&auth, &[("Cache-Control", leave)], None);
    }
    check(&[], &[("Cache-Control", "max-age=60"), ("Set-Cookie", "a=b")], Some(Refusal::SetCookie));
    check(&[], &[("Cache-Control", "max-age=60"), ("Vary", "*")], Some(Refusal::VaryStar));
    for star in ["*, *", ", *", "*, Foo", "Foo, *"] {
        check(&[], &[("Cache-Control", "max-age=60"), ("Vary", star)], Some(Refusal::VaryStar));
    }
    check(&[], &[("Cache-Control", "max-age=60, private")], Some(Refusal::Private));
    let no_store = [("Cache-Control", "no-store")];
    check(&no_store, &[("Cache-Control", "max-age=60")], Some(Refusal::RequestNoStore));
    check(&[], &[("Cache-Control", "no-cache, max-age=60")], Some(Refusal::Expired));
    check(&[], &[("Cache-Control", "no-cache, max-age=60"), ("ETag", "\"a\"")], None);
}

#[test]
fn ages_and_ends() {
    let Verdict::Store(terms) = judged(&[], 200, &[("Cache-Control", "max-age=60"), ("Age", "20")]) else {
        panic!("stored")
    };
    assert_eq!((terms.age(NOW), terms.age(NOW + 5), terms.ttl(NOW + 5)), (20, 25, 35));
    assert_eq!(terms.stale_at(), NOW + 40);
    assert_eq!((terms.ttl(NOW + 40), terms.ttl(NOW + 50)), (0, -10));
    // A clock that was put back does not make it younger than it was.
    assert_eq!(terms.age(NOW - 100), 20);
}

proptest! {
    #[test]
    fn ttl_and_end_agree(age in 0u64..1 << 40, lifetime in 0u64..1 << 40, later in 0i64..1 << 33) {
        let terms = Terms {
            response_time: NOW, initial_age: age, lifetime, stale_while_revalidate: 0, stale_if_error: 0,
            must_revalidate: false, no_cache: false, immutable: false,
        };
        // Only where both are far beyond what is told apart can they differ.
        if age < SECONDS_MAX && lifetime < SECONDS_MAX && later < SECONDS_MAX as i64 {
            prop_assert_eq!(terms.ttl(NOW + later) > 0, NOW + later < terms.stale_at());
        }
    }
}
