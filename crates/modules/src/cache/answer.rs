//! Stored answers become responses.
//!
//! It decides nothing about freshness: it is given an answer that may be used. What a client then gets of it (all, a
//! part, a 304) follows from its own conditions.

use super::conf::Rules;
use super::note::{Note, Status};
use brisk_cache::{Body as Stored, Cache, Digest, Object};
use brisk_cachepolicy::fields::{Field, Fields};
use brisk_cachepolicy::partial::{self, Part, Serve};
use brisk_cachepolicy::reuse::Mode;
use brisk_cachepolicy::vary;
use brisk_http::HeaderId;
use brisk_http::conditional::{self, ImsMode, Outcome, Preconditions, Validators};
use brisk_http::head::Parsed;
use brisk_http::response::{ResponseHead, parse_response};
use brisk_net::watch::Watch;
use brisk_net::{Slice, file};
use brisk_server::connection::Peer;
use brisk_server::files::{Dep, OpenFile};
use brisk_server::flow::Flow;
use brisk_server::in_memory::InMemory;
use brisk_server::plan::Dependencies;
use brisk_server::request::Request;
use brisk_server::response::{Body, Piece};
use brisk_server::rlog;
use brisk_upstream::head::BackendHead;
use brisk_upstream::origin::Origin;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Does something with the fields of a request.
pub fn with_fields<T>(r: &Request, work: impl FnOnce(Fields<'_>) -> T) -> T {
    let fields: Vec<Field<'_>> = r.fields().collect();
    work(Fields(&fields))
}

/// Does something with the fields of an answer.
pub fn with_head<T>(head: &BackendHead, work: impl FnOnce(Fields<'_>) -> T) -> T {
    let fields: Vec<Field<'_>> = head.fields().map(|field| (field.name, field.value)).collect();
    work(Fields(&fields))
}

/// The digest of the request's variant, by the fields that the stored answer varies on.
pub fn variant(object: &Object, main: Digest, mode: Mode, r: &Request) -> Digest {
    // Of the fields that the stored answer names, not of those that the next one may: which those are is not
    // known yet.
    let names: Vec<&[u8]> = object.meta.vary.split(|&b| b == b',').collect();
    main.variant(&with_fields(r, |fields| vary::variant(&names, fields, mode)))
}

/// A head as text, to be stored.
pub fn write_head(status: u16, status_text: &[u8], fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"HTTP/1.1 ".to_vec();
    // A status without its text is valid (RFC 9112 §4), but the space before it is not optional.
    if status_text.is_empty() {
        out.extend_from_slice(format!("{status} ").as_bytes());
    } else {
        out.extend_from_slice(status_text);
    }
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The head of a stored answer; it is parsed once. `None`: it is not one, whatever has become of the file.
pub fn head(object: &Object) -> Option<Arc<BackendHead>> {
    // Kept with the object, which threads share: a hit parses nothing.
    if let Some(head) = object.parsed.get() {
        return head.clone().downcast().ok();
    }
    let head = Arc::new(parse_head(&object.meta.head)?);
    // Another thread may have been first: its head is as good.
    let _ = object.parsed.set(head.clone());
    Some(head)
}

/// What [`write_head`] has written.
pub fn parse_head(text: &[u8]) -> Option<BackendHead> {
    let mut parsed = ResponseHead::default();
    // Whatever stands in a file is parsed as strictly as a back end's answer.
    let is_whole = matches!(parse_response(text, &mut parsed), Ok(Parsed::Complete));
    is_whole.then(|| BackendHead::from_response(text, parsed))
}

/// What of a stored answer a request gets.
pub enum Cut {
    /// All of it.
    Whole,
    /// These bytes, as a 206.
    Part(Part),
    /// It is a part, and not of what the request asks for.
    Nothing,
}

/// A stored 206 is only for requests for bytes that lie within it.
pub fn cut(rules: &Rules, r: &Request, object: &Object) -> Cut {
    if object.meta.status != 206 {
        return Cut::Whole;
    }
    // A 206 without a range is nginx's: there the whole file is the answer.
    let Some(part) = &object.meta.part else {
        // nginx's rules leave it to the key. RFC 9111's do not, unless the key tells ranges apart.
        let is_answer = rules.mode == Mode::Nginx || rules.key_has_range && obeys_range(r, object);
        return if is_answer { Cut::Whole } else { Cut::Nothing };
    };
    let wanted = r.header(HeaderId::Range).filter(|_| obeys_range(r, object));
    match partial::serve(part, wanted) {
        // Only a part whose bytes are all there: the file may have been cut.
        // (`Serve::Stored` has looked at the range alone.)
        Serve::Stored(start, end) if part.len() == object.body.len() => {
            Cut::Part(Part { start, end, total: part.total })
        }
        _ => Cut::Nothing,
    }
}

/// Whether `If-Range` lets the range be served from what is stored (RFC 9110 §13.1.5).
fn obeys_range(r: &Request, object: &Object) -> bool {
    let Some(condition) = r.header(HeaderId::IfRange) else { return true };
    head(object).is_some_and(|head| {
        let last_modified = head.get(HeaderId::LastModified).and_then(brisk_http::date::parse_http_date);
        let validators = Validators { etag: head.get(HeaderId::ETag), last_modified };
        conditional::if_range_matches(condition, &validators)
    })
}

/// Fills the response from a stored answer, of which [`cut`] has said that the request may have it.
pub fn give(
    cache: &Cache,
    rules: &Rules,
    r: &mut Request,
    origin: &dyn Origin,
    object: &Arc<Object>,
    now: i64,
) -> Flow {
    let Some(head) = head(object) else {
        rlog!(
            r,
            Crit,
            "cache file of key \"{}\" contains invalid header",
            String::from_utf8_lossy(&object.meta.key)
        );
        return Flow::Status(500);
    };
    let note = Note::of(r);
    note.ttl.set(Some(object.meta.terms.ttl(now)));
    // What is stored of a part begins at its own first byte, not at the whole's.
    let first = object.meta.part.map_or(0, |part| part.start);
    let (range, part) = match cut(rules, r, object) {
        Cut::Whole => (0..object.body.len(), None),
        Cut::Part(part) => (part.start - first..part.end - first, Some(part)),
        Cut::Nothing => {
            rlog!(r, Alert, "a stored part is no answer to this request");
            return Flow::Status(500);
        }
    };
    let length = range.end - range.start;
    let body = match body(object, range) {
        Ok(body) => body,
        Err(error) => {
            rlog!(r, Crit, "reading the cache failed ({})", brisk_conf::os_text(&error));
            return Flow::Status(500);
        }
    };
    // Only what is fresh becomes a prepared answer; anything else is coded while it is sent.
    let is_fresh = matches!(note.status.get(), Some(Status::Hit | Status::Revalidated));
    let body = match body {
        // An empty body too is streamed, since a prepared answer would be made of one that is not.
        Body::Empty if !is_fresh && length == 0 => Body::Stream(Box::new(InMemory::new(Body::Empty))),
        body if is_fresh => body,
        body => Body::Stream(Box::new(InMemory::new(body))),
    };
    // The answer to a HEAD was stored without its body.
    let said = head.get(HeaderId::ContentLength).and_then(|v| std::str::from_utf8(v).ok()?.parse().ok());
    // RFC 9110 §9.3.2: the length that a GET would have.
    let length = if r.is_head() && length == 0 { said.unwrap_or(0) } else { length };
    let flow = origin.respond(r, &head, Some(length), body);
    if !matches!(flow, Flow::Done) {
        return flow;
    }
    let has_accept_ranges = head.has(HeaderId::AcceptRanges);
    if (has_accept_ranges || rules.mode == Mode::Rfc9111) && r.resp.status == 200 {
        allow_ranges(r);
    }
    if let Some(part) = part {
        r.resp.set("Content-Range", part.content_range());
    }
    tell(rules, r);
    if rules.mode == Mode::Rfc9111 {
        add_age(r, &head, object, now);
        answer_condition(r, &head);
    }
    note_purity(cache, r, object, now);
    flow
}

/// The core's filter cuts ranges and says that it does.
pub fn allow_ranges(r: &mut Request) {
    r.resp.remove("Accept-Ranges");
    r.resp.allow_ranges = true;
}

/// `Age`, and the date of the origin (RFC 9111 §4, RFC 9110 §6.6.1).
fn add_age(r: &mut Request, head: &BackendHead, object: &Object, now: i64) {
    // The stored `Age` was the age when it was stored; what counts is what it has become.
    r.resp.remove("Age");
    let age = object.meta.terms.age(now);
    r.resp.add("Age", age.to_string());
    if r.resp.date.is_none()
        && let Some(date) = head.get(HeaderId::Date)
    {
        r.resp.date = Some(date.to_vec().into());
    }
}

/// RFC 9111 §4.3.2, where it differs from what nginx makes of conditions: `If-None-Match` alone counts if it is there, an
/// older time matches, and without `Last-Modified` the answer's date counts.
fn answer_condition(r: &mut Request, head: &BackendHead) {
    if r.resp.status != 200 || r.has_header(HeaderId::IfMatch) || r.has_header(HeaderId::IfUnmodifiedSince) {
        return;
    }
    let if_none_match = r.header(HeaderId::IfNoneMatch);
    let since = r.header(HeaderId::IfModifiedSince).filter(|_| if_none_match.is_none());
    let conditions = Preconditions { if_none_match, if_modified_since: since, ..Preconditions::default() };
    let date = || head.get(HeaderId::Date).and_then(brisk_http::date::parse_http_date);
    let validators =
        Validators { etag: r.resp.etag.as_deref(), last_modified: r.resp.last_modified.or_else(date) };
    let has_any = if_none_match.is_some() || since.is_some();
    if has_any && conditional::evaluate(&conditions, &validators, ImsMode::Before) == Outcome::NotModified {
        r.resp.status = 304;
        r.resp.content_type = None;
        r.resp.content_length = None;
        r.resp.content_encoding = None;
        // What a 304 must not have: the client keeps the fields of what it has.
        r.resp.allow_ranges = false;
        r.resp.body = Body::Empty;
    }
}

/// What `brisk cache why` sends.
const WHY: &[u8] = b"brisk-cache-status";

/// `Cache-Status` behind those of other caches (RFC 9211 §2): in RFC 9111's mode, and for clients on this machine that ask.
pub fn tell(rules: &Rules, r: &mut Request) {
    // Names of zones and keys are for the administrator: a client elsewhere cannot ask for them.
    // The field's value is no secret: the address is what decides.
    let asks = r.header(HeaderId::Pragma) == Some(WHY);
    let is_near = || match r.peer() {
        Peer::Ip(address) => address.ip().to_canonical().is_loopback(),
        Peer::Unix => true,
    };
    let may_know = asks && is_near();
    if rules.mode != Mode::Rfc9111 && !may_know {
        return;
    }
    let zone = may_know.then(|| rules.zone.name(r));
    if let Some(text) = Note::of(r).cache_status(zone.as_deref()) {
        r.resp.add("Cache-Status", text);
    }
}

/// A fresh answer is the same for all requests for the same target within this second, unless it varies.
fn note_purity(cache: &Cache, r: &mut Request, object: &Object, now: i64) {
    // Such an answer depends on fields that prepared answers are not kept by.
    if !object.meta.vary.is_empty() || object.meta.part.is_some() {
        r.depends_on(Dependencies::FIELD);
        return;
    }
    // `Age`, and the end of freshness, change with the second.
    r.good_until(now);
    // The flag falls when the entry is purged or replaced, on all threads.
    // Both places: the evidence asks for a folder and an entry, and here one flag stands for both.
    let flag = object.flag.clone();
    let watch = Watch { directory: flag.clone(), entry: flag };
    r.evidence.deps.push(Dep::stored(watch, cache.hits.part(r.thread.index).clone()));
}

/// A part of the stored body.
pub fn body(object: &Object, range: Range<u64>) -> std::io::Result<Body> {
    if range.is_empty() {
        return Ok(Body::Empty);
    }
    Ok(match &object.body {
        Stored::Memory(bytes) => {
            Body::bytes(Slice::new(bytes.clone(), range.start as usize..range.end as usize))
        }
        Stored::File { fd, offset, .. } => {
            let file = open_file(&**fd)?;
            // A descriptor of its own: the entry may be dropped while the body is sent.
            Body::One(Piece::File { file, range: offset + range.start..offset + range.end })
        }
    })
}

/// An open file as responses have it.
pub fn open_file(fd: impl rustix::fd::AsFd) -> std::io::Result<Rc<OpenFile>> {
    // From 3 on: the first three are the standard streams, which a library may write to.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, 3)?;
    let info = file::info(&fd)?;
    Ok(Rc::new(OpenFile { info, fd: Some(fd), content: None }))
}
