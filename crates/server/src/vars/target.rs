//! Templates whose text becomes a target: a path with arguments, or a URL.

use crate::request::Request;
use brisk_host::vars::{Part, Template};

/// Text that becomes a target. A `?` or `#` that was encoded in the request's path, and is decoded in `$uri`, captures and what
/// is made of them, must not begin the arguments of another request.
pub trait Target {
    /// Appends the text with such characters encoded again. nginx sends them as they are.
    fn append_target(&self, r: &Request, out: &mut Vec<u8>);

    /// See [`Target::append_target`].
    fn eval_target(&self, r: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_target(r, &mut out);
        out
    }

    /// The text as a decoded path and the arguments behind its first `?`. Such a character is part of the path.
    fn split_target(&self, r: &Request) -> (Vec<u8>, Option<Vec<u8>>);
}

impl Target for Template {
    fn append_target(&self, r: &Request, out: &mut Vec<u8>) {
        if !r.route.has_decoded_delimiter {
            // Nearly all requests: no part need be looked at by itself.
            return self.append(r, out);
        }
        self.parts().iter().for_each(|part| append_part(part, r, out));
    }

    fn split_target(&self, r: &Request) -> (Vec<u8>, Option<Vec<u8>>) {
        let mut out = Vec::new();
        let mut at = None;
        for part in self.parts() {
            let start = out.len();
            part.append(r, &mut out);
            // Only the first one begins the arguments; further ones are part of them (RFC 3986 §3.4).
            if at.is_none() && !(r.route.has_decoded_delimiter && may_have_decoded(part, r)) {
                at = memchr::memchr(b'?', &out[start..]).map(|found| start + found);
            }
        }
        let Some(at) = at else { return (out, None) };
        let args = out[at + 1..].to_vec();
        out.truncate(at);
        (out, Some(args))
    }
}

/// One part of a target, see [`Target::append_target`].
pub fn append_part(part: &Part, r: &Request, out: &mut Vec<u8>) {
    let start = out.len();
    part.append(r, out);
    if r.route.has_decoded_delimiter && may_have_decoded(part, r) {
        let value = out.split_off(start);
        escape_delimiters(&value, out);
    }
}

/// Whether the value may have been decoded. Only what is part of the target as it was sent surely has not.
fn may_have_decoded(part: &Part, r: &Request) -> bool {
    match part {
        Part::Text(_) => false,
        Part::Capture(_) => true,
        // A list of what was surely not decoded: a variable that it lacks is encoded without need, never the reverse.
        Part::Var(id) => {
            let name = &*r.snap().vars.get(*id).name;
            !matches!(name, "args" | "query_string" | "is_args" | "request_uri") && !name.starts_with("arg_")
        }
    }
}

/// Appends `value` with `?` and `#` as `%HH`.
fn escape_delimiters(value: &[u8], out: &mut Vec<u8>) {
    for &b in value {
        match b {
            b'?' => out.extend_from_slice(b"%3F"),
            b'#' => out.extend_from_slice(b"%23"),
            _ => out.push(b),
        }
    }
}
