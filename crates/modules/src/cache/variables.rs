//! `$upstream_cache_…`.

use super::note::Note;
use brisk_server::request::Request;
use brisk_server::vars::{Reads, Variable, VariableGet};

const fn fixed(name: &'static str, get: fn(&Request, &mut Vec<u8>) -> bool, doc: &'static str) -> Variable {
    // Silent ones: asking for them marks nothing in the request.
    Variable { name, get: VariableGet::Fixed(get), doc, ..Variable::SILENT }
}

/// What a stored answer says of itself: the same for all clients that get it within a second.
const fn of_answer(variable: Variable) -> Variable {
    Variable { reads: Reads::Recorded, ..variable }
}

fn some(text: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    text.is_some_and(|text| {
        out.extend_from_slice(text);
        true
    })
}

/// The variables of all caches.
pub static VARIABLES: &[Variable] = &[
    of_answer(fixed(
        "cache_status",
        |r, out| some(Note::of(r).cache_status(None).as_deref(), out),
        "What the cache did and why, as Cache-Status says it (RFC 9211), with one word about why an answer was not stored.",
    )),
    fixed(
        "upstream_cache_etag",
        |r, out| some(Note::of(r).validators.borrow().etag.as_deref(), out),
        "The ETag of an expired answer that is being revalidated.",
    ),
    of_answer(fixed(
        "upstream_cache_key",
        |r, out| {
            let note = Note::of(r);
            let key = note.key.borrow();
            some((!key.is_empty()).then_some(&**key), out)
        },
        "The key under which the answer is looked for.",
    )),
    fixed(
        "upstream_cache_last_modified",
        |r, out| some(Note::of(r).validators.borrow().last_modified.as_deref(), out),
        "The Last-Modified of an expired answer that is being revalidated.",
    ),
    of_answer(fixed(
        "upstream_cache_status",
        |r, out| some(Note::of(r).status.get().map(super::note::Status::text), out),
        "MISS, BYPASS, EXPIRED, STALE, UPDATING, REVALIDATED or HIT.",
    )),
];
