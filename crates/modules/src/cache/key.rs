//! Keys of requests.

use super::conf::Rules;
use brisk_cache::format::OF_HEAD;
use brisk_cachepolicy::reuse::Mode;
use brisk_http::Method;
use brisk_server::request::Request;
use brisk_server::vars::{Part, Target as _, Template, append_part};
use brisk_upstream::origin::Origin;
use std::sync::Arc;

/// The key of a request. `method` takes the place of the request's own: a PURGE removes what a GET has stored.
pub fn of(rules: &Rules, r: &Request, origin: &dyn Origin, method: Option<&str>) -> Vec<u8> {
    // Most keys fit: one allocation.
    // (Longer ones grow: a key is as long as its address.)
    let mut out = Vec::with_capacity(128);
    let is_head = method.map_or(r.route.method == Method::Head, |method| method == "HEAD");
    // By RFC 9111's rules a HEAD may be answered with what a GET has stored, and its own answer is not stored.
    let is_apart = rules.mode == Mode::Nginx && !rules.convert_head && !rules.key_has_method;
    if is_head && is_apart {
        // In front of the whole key: no configured key can be made to begin so by a client.
        out.extend_from_slice(OF_HEAD);
    }
    match &rules.key {
        Some(template) => append(template, r, method, &mut out),
        None => origin.default_key(r, &mut out),
    }
    out
}

fn append(template: &Template, r: &Request, method: Option<&str>, out: &mut Vec<u8>) {
    let Some(method) = method.filter(|_| has_method(r, template)) else {
        // Decoded delimiters stay encoded: `/a%3fb` and `/a?b` must have different keys.
        template.append_target(r, out);
        return;
    };
    for part in template.parts() {
        // Only where the template names it: the purge of a key without a method is that of the key itself.
        if is_method(r, part) {
            out.extend_from_slice(method.as_bytes());
        } else {
            append_part(part, r, out);
        }
    }
}

fn is_method(r: &Request, part: &Part) -> bool {
    // By its name: a `map` of it is another variable, and a purge cannot know what that makes of it.
    matches!(part, Part::Var(id) if &*r.snap().vars.get(*id).name == "request_method")
}

fn has_method(r: &Request, template: &Template) -> bool {
    template.parts().iter().any(|part| is_method(r, part))
}

/// Whether one of the conditions holds: a string that is neither empty nor "0".
pub fn holds(conditions: &[Arc<Template>], r: &Request) -> bool {
    conditions.iter().any(|condition| condition.holds(r))
}
