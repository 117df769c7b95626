//! Whether a stored answer may be given out (RFC 9111 §4, RFC 5861, RFC 8246).

use crate::directives::Request as RequestDirectives;
use crate::rfc9111::Terms;

/// Whose rules apply: `proxy_cache_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// nginx's: requests have no say, an answer is fresh up to and including its last second.
    #[default]
    Nginx,
    /// RFC 9111's.
    Rfc9111,
}

/// What may be done with a stored answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Give it out.
    Fresh,
    /// Ask first; what may be done meanwhile and if that fails.
    Ask {
        /// It may be given out meanwhile (RFC 5861 §3).
        while_revalidating: bool,
        /// It may be given out if asking fails (RFC 5861 §4).
        if_error: bool,
        /// It must not be given out whatever happens.
        never_stale: bool,
        /// Why it is not given out at once.
        why: Why,
    },
}

/// Why a stored answer is not given out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its time is over.
    Stale,
    /// The request's directives ask for it.
    Request,
    /// The answer's `no-cache`.
    NoCache,
}

/// Judges a stored answer for a request.
pub fn judge(terms: &Terms, mode: Mode, request: &RequestDirectives, now: i64) -> Reuse {
    let ttl = terms.ttl(now);
    if mode == Mode::Nginx {
        return if ttl >= 0 { Reuse::Fresh } else { ask(terms, -ttl, false, Why::Stale) };
    }
    if terms.no_cache {
        return ask(terms, -ttl, true, Why::NoCache);
    }
    // Asking for what will not change (RFC 8246 §2) is left out as long as it is fresh.
    let forced = request.no_cache || request.max_age.is_some_and(|max| terms.age(now) > max);
    if request.no_store || forced && !(terms.immutable && ttl > 0) {
        return ask(terms, -ttl, true, Why::Request);
    }
    let wanted = i64::try_from(request.min_fresh.unwrap_or(0)).unwrap_or(i64::MAX);
    if ttl > 0 {
        return if ttl >= wanted { Reuse::Fresh } else { ask(terms, -ttl, true, Why::Request) };
    }
    // RFC 9111 §5.2.1.2; what must be revalidated is not given out however much the client would take.
    if let Some(max) = request.max_stale
        && !terms.must_revalidate
        && request.min_fresh.is_none()
        && ttl.unsigned_abs() <= max
    {
        return Reuse::Fresh;
    }
    ask(terms, -ttl, terms.must_revalidate, Why::Stale)
}

/// `stale_for`: seconds since the end of freshness.
fn ask(terms: &Terms, stale_for: i64, never_stale: bool, why: Why) -> Reuse {
    let within = |seconds: u64| !never_stale && seconds > 0 && stale_for <= seconds as i64;
    Reuse::Ask {
        while_revalidating: within(terms.stale_while_revalidate),
        if_error: within(terms.stale_if_error),
        never_stale,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_800_000_000;

    fn terms(lifetime: u64, age: u64) -> Terms {
        Terms {
            response_time: NOW,
            initial_age: age,
            lifetime,
            stale_while_revalidate: 10,
            stale_if_error: 20,
            must_revalidate: false,
            no_cache: false,
            immutable: false,
        }
    }

    fn stale(terms: &Terms, request: RequestDirectives) -> Option<(bool, bool, bool, Why)> {
        match judge(terms, Mode::Rfc9111, &request, NOW) {
            Reuse::Fresh => None,
            Reuse::Ask { while_revalidating, if_error, never_stale, why } => {
                Some((while_revalidating, if_error, never_stale, why))
            }
        }
    }

    #[test]
    fn stale_answers() {
        let none = RequestDirectives::default();
        assert_eq!(stale(&terms(60, 59), none), None);
        assert_eq!(stale(&terms(60, 60), none), Some((true, true, false, Why::Stale)));
        assert_eq!(stale(&terms(60, 70), none), Some((true, true, false, Why::Stale)));
        assert_eq!(stale(&terms(60, 71), none), Some((false, true, false, Why::Stale)));
        assert_eq!(stale(&terms(60, 81), none), Some((false, false, false, Why::Stale)));
        let must = Terms { must_revalidate: true, ..terms(60, 61) };
        assert_eq!(stale(&must, none), Some((false, false, true, Why::Stale)));
        let max_stale = RequestDirectives { max_stale: Some(5), ..none };
        assert_eq!(stale(&terms(60, 65), max_stale), None);
        assert!(stale(&terms(60, 66), max_stale).is_some() && stale(&must, max_stale).is_some());
        let no_cache = Terms { no_cache: true, ..terms(60, 0) };
        assert_eq!(stale(&no_cache, none), Some((false, false, true, Why::NoCache)));
    }

    #[test]
    fn requests_have_a_say() {
        let none = RequestDirectives::default();
        let asks = |request| stale(&terms(60, 20), request).map(|(.., why)| why);
        assert_eq!(asks(RequestDirectives { no_cache: true, ..none }), Some(Why::Request));
        assert_eq!(asks(RequestDirectives { max_age: Some(10), ..none }), Some(Why::Request));
        assert_eq!(asks(RequestDirectives { max_age: Some(20), ..none }), None);
        assert_eq!(asks(RequestDirectives { min_fresh: Some(41), ..none }), Some(Why::Request));
        assert_eq!(asks(RequestDirectives { min_fresh: Some(40), ..none }), None);
        let immutable = Terms { immutable: true, ..terms(60, 20) };
        assert_eq!(stale(&immutable, RequestDirectives { no_cache: true, ..none }), None);
    }

    #[test]
    fn nginx_counts_the_last_second() {
        let judge = |age| judge(&terms(60, age), Mode::Nginx, &RequestDirectives::default(), NOW);
        assert_eq!(judge(60), Reuse::Fresh);
        assert!(matches!(judge(61), Reuse::Ask { while_revalidating: true, if_error: true, .. }));
        assert!(matches!(judge(71), Reuse::Ask { while_revalidating: false, if_error: true, .. }));
    }

    proptest! {
        #[test]
        fn what_must_be_revalidated_is_never_stale(
            lifetime in 0u64..1000, age in 0u64..3000, max_stale in proptest::option::of(0u64..5000), later in 0i64..3000
        ) {
            let terms = Terms { must_revalidate: true, ..terms(lifetime, age) };
            let request = RequestDirectives { max_stale, ..RequestDirectives::default() };
            match judge(&terms, Mode::Rfc9111, &request, NOW + later) {
                Reuse::Fresh => prop_assert!(terms.ttl(NOW + later) > 0),
                Reuse::Ask { while_revalidating, if_error, .. } => prop_assert!(!while_revalidating && !if_error),
            }
        }
    }
}
