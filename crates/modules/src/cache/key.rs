//! Keys of requests.

use super::conf::Rules;
use brisk_server::request::Request;
use brisk_server::vars::{Part, Template};
use brisk_upstream::origin::Origin;
use std::sync::Arc;

/// The key of a request. `method` takes the place of the request's own: a PURGE removes what a GET has stored.
pub fn of(rules: &Rules, r: &Request, origin: &dyn Origin, method: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    match &rules.key {
        Some(template) => append(template, r, method, &mut out),
        None => origin.default_key(r, &mut out),
    }
    out
}

fn append(template: &Template, r: &Request, method: Option<&str>, out: &mut Vec<u8>) {
    let Some(method) = method.filter(|_| has_method(r, template)) else {
        template.append(r, out);
        return;
    };
    for part in template.parts() {
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Var(id) if is_method(r, part) => {
                let _ = id;
                out.extend_from_slice(method.as_bytes());
            }
            Part::Var(id) => {
                r.var(*id, out);
            }
            Part::Capture(group) => r.captures.borrow().append(*group, out),
        }
    }
}

fn is_method(r: &Request, part: &Part) -> bool {
    matches!(part, Part::Var(id) if &*r.snap().vars.get(*id).name == "request_method")
}

fn has_method(r: &Request, template: &Template) -> bool {
    template.parts().iter().any(|part| is_method(r, part))
}

/// Whether the key tells methods apart.
pub fn tells_methods(rules: &Rules, r: &Request) -> bool {
    rules.key.as_ref().is_some_and(|template| has_method(r, template))
}

/// Whether one of the conditions holds: a string that is neither empty nor "0".
pub fn holds(conditions: &[Arc<Template>], r: &Request) -> bool {
    conditions.iter().any(|condition| condition.holds(r))
}
