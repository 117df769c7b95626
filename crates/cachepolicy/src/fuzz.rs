//! Invariants of the policy as plain functions over arbitrary bytes: they panic if one is broken.

use crate::directives::{Request as RequestDirectives, Response as Directives};
use crate::fields::{Field, Fields, members};
use crate::partial::{self, Part, Serve};
use crate::reuse::{self, Mode, Reuse};
use crate::rfc9111::{self, Exchange, Ignored, Verdict};
use crate::{head, invalidate, nginx, structured, tags, vary};

const NOW: i64 = 1_800_000_000;

/// Lines of `Name: value`; a line `-` ends the request's fields.
fn fields(data: &[u8]) -> (Vec<Field<'_>>, Vec<Field<'_>>) {
    let mut sides = (Vec::new(), Vec::new());
    let mut is_request = true;
    for line in data.split(|&b| b == b'\n').take(64) {
        if line == b"-" {
            is_request = false;
        } else if let Some(at) = memchr::memchr(b':', line) {
            let field = (&line[..at], line[at + 1..].trim_ascii());
            if is_request { sides.0.push(field) } else { sides.1.push(field) }
        }
    }
    sides
}

/// Heads of requests and responses: both judges come to an end, and what the RFC forbids is never stored or reused.
pub fn fuzz_cache_policy(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let (request, response) = fields(data);
    let (request, response) = (Fields(&request), Fields(&response));
    let exchange = Exchange {
        request,
        status: [200, 203, 206, 301, 304, 404, 500, 599][usize::from(first % 8)],
        response,
        request_time: NOW - i64::from(first / 64),
        response_time: NOW,
        ignored: Ignored::default(),
        key_has_credentials: false,
        valid: (first & 8 != 0).then_some(60),
    };
    let asked = RequestDirectives::of(request);
    for (mode, verdict) in
        [(Mode::Rfc9111, rfc9111::judge(&exchange)), (Mode::Nginx, nginx::judge(&exchange))]
    {
        let Verdict::Store(terms) = verdict else { continue };
        assert!(!response.has("Set-Cookie"), "never without leave");
        let said = exchange.directives().0;
        assert!(
            !request.has("Authorization")
                || said.public
                || said.s_maxage.is_some()
                || said.must_revalidate
                || mode == Mode::Nginx
        );
        if mode == Mode::Rfc9111 {
            assert!(!said.private && !asked.no_store && (!said.no_store || said.must_understand));
        }
        for later in [0, 1, 59, 1 << 20, i64::MAX - NOW] {
            let reuse = reuse::judge(&terms, mode, &asked, NOW + later);
            if reuse == Reuse::Fresh && mode == Mode::Rfc9111 && asked.max_stale.is_none() {
                assert!(terms.ttl(NOW + later) > 0 && !terms.no_cache);
            }
            if let Reuse::Ask { while_revalidating, if_error, never_stale: true, .. } = reuse {
                assert!(!while_revalidating && !if_error);
            }
        }
    }
    check_heads(request, response);
    if let Some(part) = Part::of(response) {
        assert_eq!(Part::parse(&part.content_range()), Some(part));
        if let Serve::Stored(start, end) = partial::serve(&part, request.first("Range")) {
            assert!(start < end && part.has(start, end));
        }
        let _ = partial::missing(&part);
    }
    let _ = structured::cdn_cache_control(response);
    let _ = Directives::surrogate(response);
    assert!(tags::of(response).kept.len() <= tags::TAGS_MAX);
    for path in invalidate::targets(exchange.status, b"/a/b", b"http://h", response) {
        assert!(path.starts_with(b"/"));
    }
}

/// What is stored has no field of the connection, whatever updates it; the same request is the same variant.
fn check_heads(request: Fields<'_>, response: Fields<'_>) {
    let unkept = Directives::of(response).unkept;
    let mut stored = head::storable(response, &unkept);
    head::update(&mut stored, head::storable(request, &unkept));
    assert!(stored.iter().all(|(name, _)| !name.eq_ignore_ascii_case(b"connection")));
    if let Some(names) = vary::names(response) {
        for mode in [Mode::Nginx, Mode::Rfc9111] {
            assert_eq!(vary::variant(&names, request, mode), vary::variant(&names, request, mode));
        }
    }
    for (_, value) in response.0 {
        let total: usize = members(value).map(<[u8]>::len).sum();
        assert!(total <= value.len());
    }
}
