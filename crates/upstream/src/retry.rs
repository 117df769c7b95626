//! What follows from an attempt: whether another peer is asked. Decisions only: no I/O, and no clock.

use crate::conf::{Settings, next};
use brisk_balance::Outcome;
use brisk_http::Method;
use brisk_net::{Activity, Cause, Failure, Origin, Retry};

/// An attempt that gave no response, or one with a status that another peer might not give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// A bit of [`next`].
    pub condition: u32,
    /// Whether the peer may have acted on the request.
    pub retry: Retry,
    /// See [`is_idempotent`].
    pub is_idempotent: bool,
    /// The request's body went to the peer as the client sent it: there is none for another peer.
    pub is_body_spent: bool,
    /// Attempts that are left.
    pub tries: u32,
    /// Milliseconds since the first attempt began.
    /// `*_next_upstream_timeout` is for beginning another attempt, not for ending one.
    pub elapsed_ms: u64,
}

/// Whether `*_next_upstream` and its limits allow another attempt.
pub(crate) fn is_allowed(settings: &Settings, case: &Case) -> bool {
    let may_have_acted = match case.retry {
        Retry::Never => return false,
        // Nothing has acted on the request: methods do not matter.
        // A peer that has refused, reset before the first byte, or said that it did not look (RFC 9113 §8.7).
        Retry::Safe => false,
        Retry::IfIdempotent => true,
    };
    // nginx's rule: a method that is not idempotent needs `non_idempotent` besides the condition itself.
    let mut wanted = case.condition;
    if may_have_acted && !case.is_idempotent {
        wanted |= next::NON_IDEMPOTENT;
    }
    let timeout_ms = settings.next_upstream_timeout.as_millis() as u64;
    case.tries > 0
        // All of them: the condition, and `non_idempotent` where that is needed.
        && settings.next_upstream & wanted == wanted
        // A body that went straight from the client is gone with the connection that it was written to.
        && !case.is_body_spent
        && (timeout_ms == 0 || case.elapsed_ms < timeout_ms)
}

/// Whether a request may be sent twice with the effect of one. nginx's list: `POST`, `LOCK` and `PATCH` may not, of the
/// others it expects that they may.
pub(crate) fn is_idempotent(method: Method, name: &[u8]) -> bool {
    method != Method::Post && !matches!(name, b"LOCK" | b"PATCH")
}

/// The condition of `*_next_upstream` and `*_cache_use_stale` that a failure meets, a bit of [`next`]; `None` for what is
/// no fault of an upstream server.
pub fn condition(failure: &Failure) -> Option<u32> {
    match (failure.origin(), failure.cause()) {
        (Origin::Upstream, Cause::TimedOut) => Some(next::TIMEOUT),
        (Origin::Upstream, Cause::UnaskedUpgrade) => Some(next::INVALID_HEADER),
        // A peer that has not looked at the request has said so in its protocol's words: nothing was invalid.
        (Origin::Upstream, Cause::Protocol(_)) if failure.retry() != Retry::Safe => {
            // So an HTTP/2 server that refuses streams is left by `error`, which is on by default.
            Some(next::INVALID_HEADER)
        }
        (Origin::Upstream, _) => Some(next::ERROR),
        // What cannot be reached from here may be for one peer only: local ports are used up per destination.
        (Origin::Local | Origin::Configuration, _)
            if matches!(failure.activity(), Activity::Resolving | Activity::Connecting) =>
        {
            Some(next::ERROR)
        }
        _ => None,
    }
}

/// The failure of a request that its pool of processes has refused, which has logged why. The cache may give out an old answer, as where any
/// other server fails.
pub(crate) fn refused(status: u16) -> Failure {
    Failure::upstream(Activity::Connecting, Cause::Decided(status)).retry_is(Retry::Never)
}

/// How an attempt counts for its peer if its response is not passed on for its status.
pub(crate) fn outcome_of_status(status: u16) -> Outcome {
    // The peer works: it only lacks what others may have.
    // `max_fails` must not take a server out for pages that it does not have.
    if matches!(status, 403 | 404) { Outcome::Next } else { Outcome::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_net::Scope;
    use std::time::Duration;

    const CASE: Case = Case {
        condition: next::ERROR,
        retry: Retry::IfIdempotent,
        is_idempotent: true,
        is_body_spent: false,
        tries: 1,
        elapsed_ms: 1000,
    };

    #[test]
    fn limits_of_retries() {
        let mut settings = Settings::new(&[], "");
        let check = |case: Case, want: bool| assert_eq!(is_allowed(&settings, &case), want, "{case:?}");
        check(CASE, true);
        check(Case { tries: 0, ..CASE }, false);
        check(Case { is_body_spent: true, ..CASE }, false);
        check(Case { condition: next::TIMEOUT, ..CASE }, true);
        check(Case { condition: next::INVALID_HEADER, ..CASE }, false);
        check(Case { condition: next::HTTP_503, ..CASE }, false);
        check(Case { retry: Retry::Never, ..CASE }, false);
        let post = Case { is_idempotent: false, ..CASE };
        check(post, false);
        check(Case { retry: Retry::Safe, ..post }, true);
        settings.next_upstream |= next::NON_IDEMPOTENT | next::HTTP_503;
        settings.next_upstream_timeout = Duration::from_secs(1);
        let check = |case: Case, want: bool| assert_eq!(is_allowed(&settings, &case), want, "{case:?}");
        check(CASE, false);
        let soon = Case { elapsed_ms: 999, ..post };
        check(soon, true);
        check(Case { condition: next::HTTP_503, ..soon }, true);
        check(Case { is_body_spent: true, ..soon }, false);
    }

    #[test]
    fn methods_that_may_be_sent_twice() {
        for (method, name, want) in [
            (Method::Get, &b"GET"[..], true),
            (Method::Put, b"PUT", true),
            (Method::Post, b"POST", false),
            (Method::Other, b"LOCK", false),
            (Method::Other, b"PATCH", false),
            (Method::Other, b"PURGE", true),
        ] {
            assert_eq!(is_idempotent(method, name), want);
        }
    }

    #[test]
    fn conditions_of_failures() {
        use Activity::{Connecting, Handshaking, ReadingHead, ReadingRequestBody, Resolving, SendingRequest};
        let unavailable = || Cause::Unavailable("x".into());
        let local = |activity, cause| Failure::new(Origin::Local, activity, cause);
        for (failure, want) in [
            (Failure::upstream(Connecting, Cause::TimedOut), Some(next::TIMEOUT)),
            (Failure::upstream(SendingRequest, Cause::TimedOut), Some(next::TIMEOUT)),
            (Failure::upstream(ReadingHead, Cause::Closed), Some(next::ERROR)),
            (Failure::upstream(ReadingHead, Cause::UnaskedUpgrade), Some(next::INVALID_HEADER)),
            (Failure::protocol("x"), Some(next::INVALID_HEADER)),
            (Failure::silent(), Some(next::INVALID_HEADER)),
            (Failure::protocol("x").scope_is(Scope::Stream).retry_is(Retry::Safe), Some(next::ERROR)),
            (Failure::upstream(Connecting, unavailable()), Some(next::ERROR)),
            (local(Connecting, unavailable()), Some(next::ERROR)),
            (Failure::new(Origin::Configuration, Resolving, unavailable()), Some(next::ERROR)),
            (Failure::new(Origin::Configuration, Handshaking, unavailable()), None),
            (Failure::client(ReadingRequestBody, Cause::TimedOut), None),
            (Failure::client(ReadingHead, Cause::Closed), None),
            (Failure::decided(403), None),
        ] {
            assert_eq!(condition(&failure), want, "{failure:?}");
        }
    }

    #[test]
    fn a_pool_that_refuses_has_failed_like_any_server() {
        let failure = refused(503);
        assert_eq!((condition(&failure), failure.retry()), (Some(next::ERROR), Retry::Never));
        assert_eq!(brisk_server::failure::status(&failure), 503);
    }

    #[test]
    fn what_a_status_says_of_its_peer() {
        assert_eq!(outcome_of_status(404), Outcome::Next);
        assert_eq!(outcome_of_status(502), Outcome::Failed);
        assert_eq!(outcome_of_status(429), Outcome::Failed);
    }
}
