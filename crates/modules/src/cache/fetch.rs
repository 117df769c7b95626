//! The back end is asked, and its answer stored while it is passed on.
//!
//! Whether an answer may be stored or an old one given is decided by `cachepolicy`; peers and retries are the
//! origin's. Here the two are brought together, and nothing of the client's conditions reaches an answer that is
//! stored.

use super::answer::{self, with_fields, with_head};
use super::conf::{Rules, stale};
use super::lookup::Lookup;
use super::note::{Status, Validators};
use super::{join, key};
use brisk_cache::fill::{Chunk as Stored, Report};
use brisk_cache::{Digest, Fill, Meta, Object, Reader, Updating};
use brisk_cachepolicy::partial::Part;
use brisk_cachepolicy::reuse::Mode;
use brisk_cachepolicy::rfc9111::{self, Exchange, Ignored};
use brisk_cachepolicy::tags::{self, TAG_BYTES_MAX, TAGS_MAX, Tags};
use brisk_cachepolicy::{Refusal, Terms, Verdict, directives, head, nginx, vary};
use brisk_http::{HeaderId, Method};
use brisk_net::{Cause, Failure, clock};
use brisk_server::core::LogLevel;
use brisk_server::failure;
use brisk_server::flow::Flow;
use brisk_server::in_memory::InMemory;
use brisk_server::log::logs_of;
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::rlog;
use brisk_server::text::Text;
use brisk_upstream::conf::next;
use brisk_upstream::head::BackendHead;
use brisk_upstream::origin::{Ask, Fetched, condition, ignored};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What is to be asked, and what there is if that fails.
#[derive(Default)]
pub struct Question {
    /// The answer may be stored.
    pub stores: bool,
    /// An expired answer.
    pub stale: Option<Arc<Object>>,
    /// RFC 5861 allows it to be given out after an error.
    pub if_error: bool,
    /// It must not be given out whatever happens.
    pub never_stale: bool,
    /// A part of the answer is stored, and another is wanted.
    pub part: Option<Arc<Object>>,
    /// The right to ask; others may be waiting.
    pub updating: Option<Updating>,
}

impl Question {
    /// With nothing stored that could be used.
    pub fn new(stores: bool) -> Question {
        Question { stores, ..Question::default() }
    }
}

/// Asks the back end.
pub async fn ask(lookup: Lookup, r: &mut Request, mut question: Question) -> Flow {
    let rules = &lookup.caching.rules;
    // A range far into a large answer: fetching all of it for this client would take long (nginx:
    // `proxy_cache_max_range_offset`).
    // The range is asked for as it is, and the answer is not stored.
    let as_it_is = passes_range(rules, r);
    question.stores &= !as_it_is;
    // Too rare to be stored: what the client asks for (a range, a condition) is then passed on as it is.
    let is_scarce = !question.stores && lookup.note.status.get() == Some(Status::Scarce);
    loop {
        let mut ask = Ask { cacheable: !as_it_is && !is_scarce, ..Ask::default() };
        let mut part = None;
        if ask.cacheable {
            if r.route.method == Method::Head && rules.convert_head {
                // A GET is asked for, so that the body can be stored for both; the client of a HEAD gets none of it.
                ask.method = Some(Method::Get);
            }
            part = add_conditions(&lookup, r, &question, &mut ask);
        }
        // Taken before the question leaves: an answer must not look fresher than when it was asked for (RFC 9111
        // §4.2.3), and a purge that comes meanwhile must be newer than it, and be seen when it is stored.
        let _purges = [lookup.main, lookup.digest].map(|digest| lookup.cache.watch(digest));
        let asked =
            Asked { request_time: clock::now().unix_secs, stamp: lookup.cache.stamp(), whole: ask.cacheable };
        let fetched = match (lookup.origin.clone().fetch(r, ask).await, part) {
            (Err(failure), _) => return broken(&lookup, r, &question, &failure),
            (Ok(fetched), None) => fetched,
            (Ok(fetched), Some(part)) => match join::rest(&part, fetched) {
                Ok(whole) => whole,
                // The stored part cannot be completed, and the next request would come as far: without it the whole
                // is asked for.
                Err(why) => {
                    rlog!(r, Warn, "{why}: the stored part is dropped, and the whole asked for");
                    lookup.cache.drop_object(&part);
                    question.part = None;
                    continue;
                }
            },
        };
        return answered(lookup, r, question, fetched, &asked);
    }
}

/// When the question was sent, and what it was.
struct Asked {
    request_time: i64,
    stamp: u64,
    /// Without the client's conditions and ranges.
    whole: bool,
}

/// `*_cache_max_range_offset`.
fn passes_range(rules: &Rules, r: &Request) -> bool {
    let (Some(max), Some(range)) = (rules.max_range_offset, r.header(HeaderId::Range)) else { return false };
    if max == 0 {
        return true;
    }
    // Other units than bytes have no offset that could be compared.
    let Some(rest) = range.get(..6).filter(|unit| unit.eq_ignore_ascii_case(b"bytes=")).map(|_| &range[6..])
    else {
        return false;
    };
    let rest = rest.trim_ascii_start();
    // A suffix range counts from an end that is not known yet.
    if rest.starts_with(b"-") {
        return true;
    }
    let digits: Vec<u8> = rest.iter().copied().take_while(u8::is_ascii_digit).collect();
    let offset = std::str::from_utf8(&digits).ok().and_then(|text| text.parse::<u64>().ok());
    // A range that is not understood is passed on as it is.
    offset.is_none_or(|offset| offset >= max)
}

/// The one range that is asked for as the client has asked for it: the whole may be large.
pub fn range<'r>(rules: &Rules, r: &'r Request) -> Option<&'r [u8]> {
    // Several ranges, or a condition on the range, go the usual way: the whole is stored, and the core cuts it.
    let range = r.header(HeaderId::Range).filter(|range| memchr::memchr(b',', range).is_none())?;
    (rules.mode == Mode::Rfc9111 && !r.has_header(HeaderId::IfRange)).then_some(range)
}

/// Whether the body is asked for.
/// A HEAD for which a GET is sent has one.
fn has_body(lookup: &Lookup, r: &Request) -> bool {
    r.route.method != Method::Head || lookup.caching.converts_head && lookup.caching.rules.convert_head
}

/// Fields of a revalidation (RFC 9111 §4.3.1), or the range that is wanted. Gives the stored part if the rest of it is
/// asked for.
fn add_conditions(lookup: &Lookup, r: &Request, question: &Question, ask: &mut Ask) -> Option<Arc<Object>> {
    let rules = &lookup.caching.rules;
    let is_rfc = rules.mode == Mode::Rfc9111;
    if let Some(object) = &question.stale
        && (rules.revalidate || is_rfc)
        // Other statuses have no representation that a 304 could be about.
        && matches!(object.meta.status, 200 | 206)
        && let Some(head) = answer::head(object)
    {
        let validators = Validators {
            last_modified: head.get(HeaderId::LastModified).map(<[u8]>::to_vec),
            etag: head.get(HeaderId::ETag).map(<[u8]>::to_vec),
        };
        // Both validators are sent, as nginx does; a recipient that understands entity tags ignores the time (RFC
        // 9110 §13.1.3).
        if let Some(value) = &validators.last_modified {
            ask.fields.push(("If-Modified-Since", value.clone()));
        }
        if let Some(value) = &validators.etag {
            ask.fields.push(("If-None-Match", value.clone()));
        }
        lookup.note.validators.replace(validators);
        // Of what is stored as a part no more than that is wanted, should it have changed.
        if let Some(range) = range(rules, r).filter(|_| object.meta.part.is_some()) {
            ask.fields.push(("Range", range.to_vec()));
        }
        return None;
    }
    // A body that the client has sent cannot be sent twice.
    if let Some(part) = question.part.as_ref().filter(|_| r.has_no_body() && has_body(lookup, r))
        // A range of the client's own would be answered wrongly by the whole's rest.
        && !r.has_header(HeaderId::Range)
        && let Some(fields) = join::question(part)
    {
        ask.fields = fields;
        return Some(part.clone());
    }
    if question.stale.as_ref().is_none_or(|object| object.meta.part.is_some())
        && let Some(range) = range(rules, r)
    {
        ask.fields.push(("Range", range.to_vec()));
    }
    None
}

/// No response came.
fn broken(lookup: &Lookup, r: &mut Request, question: &Question, failure: &Failure) -> Flow {
    // Which conditions count is said in words of `*_next_upstream`, whose names are the same.
    let condition = condition(failure);
    // A failure that is not the back end's (the client has gone) is never a reason for an old answer.
    let bit = match condition {
        Some(next::TIMEOUT) => stale::TIMEOUT,
        Some(next::INVALID_HEADER) => stale::INVALID_HEADER,
        Some(_) => stale::ERROR,
        None => return failure::flow(failure, r),
    };
    if let Some(object) = question.stale.as_ref().filter(|_| !question.never_stale)
        && (lookup.caching.rules.use_stale & bit != 0 || question.if_error)
    {
        // `Cache-Status` must not say that the request was forwarded: what the client gets is the stored answer.
        lookup.note.forwarded.set(None);
        return lookup.give(r, object, Status::Stale);
    }
    // A shared cache that must revalidate and cannot says 504 (RFC 9111 §5.2.2.2).
    if question.stale.is_some() && question.never_stale && condition == Some(next::ERROR) {
        return Flow::Status(504);
    }
    failure::flow(failure, r)
}

/// An answer has come.
fn answered(lookup: Lookup, r: &mut Request, question: Question, fetched: Fetched, asked: &Asked) -> Flow {
    let rules = &lookup.caching.rules;
    let status = fetched.head.status;
    // Noted before an old answer may take its place.
    lookup.note.forwarded_status.set(Some(status));
    if let Some(object) = question.stale.as_ref().filter(|_| !question.never_stale) {
        let by_rule = rules.use_stale & stale::of_status(status) != 0;
        // RFC 5861 §4; nginx has stale-if-error for failures alone.
        let by_answer =
            rules.mode == Mode::Rfc9111 && question.if_error && matches!(status, 500 | 502 | 503 | 504);
        if by_rule || by_answer {
            lookup.note.forwarded.set(None);
            return lookup.give(r, object, Status::Stale);
        }
    }
    // The validators are noted only where they were sent.
    let has_asked_whether = lookup.note.validators.borrow().etag.is_some()
        || lookup.note.validators.borrow().last_modified.is_some();
    // A 304 to a condition of the client's own is passed on as an answer; only one to ours is about what is stored.
    if status == 304
        && has_asked_whether
        && let Some(object) = &question.stale
    {
        return revalidated(&lookup, r, object, &fetched.head, asked);
    }
    pass_on(lookup, r, question, fetched, asked)
}

/// What the answer and the configuration say about storing.
fn judge(
    lookup: &Lookup,
    r: &Request,
    head: &BackendHead,
    status: u16,
    asked: &Asked,
    valid: Option<u64>,
) -> Verdict {
    let rules = &lookup.caching.rules;
    let bits = lookup.origin.ignored();
    let ignored = Ignored {
        cache_control: bits & ignored::CACHE_CONTROL != 0,
        expires: bits & ignored::EXPIRES != 0,
        x_accel_expires: bits & ignored::X_ACCEL_EXPIRES != 0,
        set_cookie: bits & ignored::SET_COOKIE != 0,
        vary: bits & ignored::VARY != 0,
    };
    with_fields(r, |request| {
        with_head(head, |response| {
            let exchange = Exchange {
                request,
                status,
                response,
                request_time: asked.request_time,
                response_time: clock::now().unix_secs,
                ignored,
                key_has_credentials: rules.key_has_credentials,
                valid,
            };
            match rules.mode {
                Mode::Nginx => nginx::judge(&exchange),
                Mode::Rfc9111 => rfc9111::judge(&exchange),
            }
        })
    })
}

fn report(r: &Request) -> Report {
    // Crit: what cannot be written is a fault of the disk, which all entries share.
    let logs = logs_of(r);
    Arc::new(move |text: &str| logs.write(LogLevel::Crit, format_args!("{text}")))
}

/// A 304: what is stored is as good as new.
fn revalidated(
    lookup: &Lookup,
    r: &mut Request,
    object: &Arc<Object>,
    head: &BackendHead,
    asked: &Asked,
) -> Flow {
    let rules = &lookup.caching.rules;
    let valid = nginx::valid_for(&rules.valid, object.meta.status);
    // What cannot be parsed any more can be neither renewed nor given.
    let Some(stored) = answer::head(object) else { return Flow::Status(500) };
    // Of the question, not of the answer: a purge in between is newer.
    let mut meta = Meta { began: asked.stamp, ..object.meta.clone() };
    let terms = match rules.mode {
        Mode::Nginx => match judge(lookup, r, head, object.meta.status, asked, None) {
            Verdict::Store(terms) => Some(terms),
            // nginx judges the stored answer then, by the time that the configuration gives its status.
            Verdict::Refuse(_) => terms_of(judge(lookup, r, &stored, object.meta.status, asked, valid)),
        },
        Mode::Rfc9111 => {
            // RFC 9111 §3.2: the stored head takes the newer fields over.
            let mut fields: Vec<head::Owned> =
                stored.fields().map(|f| (f.name.to_vec(), f.value.to_vec())).collect();
            head::update(&mut fields, with_head(head, |fields| head::storable::<&[u8]>(fields, &[])));
            // What is not said anew is not meant anew: the old Age was the old answer's.
            if !head.has(HeaderId::Age) {
                fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"age"));
            }
            let updated = fields_head(object.meta.status, &fields);
            let is_same_variant = varying(lookup, &updated).is_some_and(|names| joined(&names) == meta.vary);
            meta.tags = tags_of(lookup, r, &updated);
            let fields = storable(lookup, &updated);
            meta.head = answer::write_head(object.meta.status, stored.status_text(), &fields).into();
            if !is_same_variant {
                // Its place in the cache was chosen by other fields: nobody else may get it.
                lookup.cache.drop_object(object);
            }
            terms_of(judge(lookup, r, &updated, object.meta.status, asked, valid)).filter(|_| is_same_variant)
        }
    };
    let object = match terms {
        Some(terms) => {
            meta.terms = terms;
            // In its place: the body is not written again.
            lookup.cache.freshen(object, meta, report(r))
        }
        // It may be given to this client, who has waited for it, but is not stored as fresh.
        None => object.clone(),
    };
    lookup.note.stored.set(true);
    lookup.give(r, &object, Status::Revalidated)
}

fn terms_of(verdict: Verdict) -> Option<Terms> {
    match verdict {
        Verdict::Store(terms) => Some(terms),
        Verdict::Refuse(_) => None,
    }
}

fn fields_head(status: u16, fields: &[head::Owned]) -> BackendHead {
    let mut head = BackendHead::new(status);
    for (name, value) in fields {
        head.push(name, value);
    }
    head
}

/// A new answer, stored or not.
fn pass_on(lookup: Lookup, r: &mut Request, mut question: Question, fetched: Fetched, asked: &Asked) -> Flow {
    let rules = &lookup.caching.rules;
    let verdict = storing(&lookup, r, &question, &fetched, asked);
    let (head, length) = (fetched.head.clone(), fetched.length);
    let (digest, meta) = match verdict {
        Ok(stored) => stored,
        Err(why) => {
            lookup.note.detail.set(Some(why));
            // Requests that wait for this answer are told to ask for themselves, instead of one after the other.
            if let Some(updating) = &mut question.updating {
                updating.note_unstorable();
            }
            forget_older(&lookup, &question, &head);
            // Waiting requests go on as soon as it is certain that there will be nothing for them.
            drop(question);
            let can_be_stored = could_be_stored(&lookup, r, &head, asked);
            r.resp.tunnel = fetched.tunnel;
            // What can be stored is subject to the client's conditions as a hit is; other answers were judged by the
            // back end.
            r.resp.is_judged = !can_be_stored;
            let flow = lookup.origin.respond(r, &head, length, fetched.body);
            return finish(rules, r, flow, &head, can_be_stored);
        }
    };
    let terms = meta.terms.clone();
    let body_length = length.filter(|_| has_body(&lookup, r));
    let merging = join::merging(&meta);
    // The reader is made with the fill, so that no byte is missed: the back end's stream begins to be read below.
    let (mut fill, reader) = Fill::begin(&lookup.cache, digest, Some(meta), body_length, report(r));
    fill.merge_by(merging);
    let flow = lookup.origin.respond(r, &head, length, Body::Stream(Box::new(Passing::new(reader))));
    if let Flow::Status(status) = flow
        && status == head.status
    {
        // An intercepted error: the page is made anew each time, the status is remembered.
        fill.store_status(status);
        return flow;
    }
    if !matches!(flow, Flow::Done) {
        return flow;
    }
    lookup.note.stored.set(true);
    lookup.note.ttl.set(Some(terms.ttl(clock::now().unix_secs)));
    // In a task of its own: the client may go, or be slow, and the answer is stored all the same.
    let stream = fetched.into_stream();
    brisk_net::spawn(pump(stream, fill, question.updating));
    finish(rules, r, flow, &head, true)
}

/// Whether nothing that an answer says keeps it from being stored. nginx applies the client's conditions to such answers alone,
/// also where the configuration does not store them; to others the client gets the answer as it came.
fn could_be_stored(lookup: &Lookup, r: &Request, head: &BackendHead, asked: &Asked) -> bool {
    // The answer to a range or a condition of the client's says nothing of the whole.
    if !asked.whole {
        return false;
    }
    let valid = nginx::valid_for(&lookup.caching.rules.valid, head.status);
    match judge(lookup, r, head, head.status, asked, valid) {
        Verdict::Store(_) => true,
        Verdict::Refuse(refusal) => !refusal.is_by_answer(),
    }
}

/// What is said of an answer that has just come. `can_be_stored`: it is the whole answer to a question without conditions.
fn finish(rules: &Rules, r: &mut Request, flow: Flow, head: &BackendHead, can_be_stored: bool) -> Flow {
    if !matches!(flow, Flow::Done) {
        return flow;
    }
    // Several ranges are left to the back end, as in nginx.
    let single = r.header(HeaderId::Range).is_none_or(|range| memchr::memchr(b',', range).is_none());
    if can_be_stored && single && (head.has(HeaderId::AcceptRanges) || rules.mode == Mode::Rfc9111) {
        answer::allow_ranges(r);
    }
    if rules.mode == Mode::Rfc9111
        && r.resp.date.is_none()
        && let Some(date) = head.get(HeaderId::Date)
    {
        r.resp.date = Some(date.to_vec().into());
    }
    answer::tell(rules, r);
    flow
}

/// A newer answer that says no-store makes the older one unusable.
fn forget_older(lookup: &Lookup, question: &Question, head: &BackendHead) {
    if lookup.caching.rules.mode == Mode::Rfc9111
        && (question.stale.is_some() || question.part.is_some())
        // A failure says nothing about what is stored.
        && (200..500).contains(&head.status)
        && with_head(head, directives::Response::of).no_store
    {
        lookup.cache.purge_key_soon(lookup.digest);
    }
}

/// Where and as what an answer is stored. The error is one word about why it is not.
fn storing(
    lookup: &Lookup,
    r: &Request,
    question: &Question,
    fetched: &Fetched,
    asked: &Asked,
) -> Result<(Digest, Meta), &'static str> {
    let rules = &lookup.caching.rules;
    let head = &fetched.head;
    if !question.stores || fetched.tunnel {
        return Err("min-uses-or-lock");
    }
    // As in nginx, what is passed on as it comes (`X-Accel-Buffering: no`) is not kept.
    if fetched.unbuffered {
        return Err("unbuffered");
    }
    // What could not be found out may have been a reason against it.
    if key::holds(&rules.no_cache, r) || r.state.shared.vars.have_failed() {
        return Err("no-cache-rule");
    }
    // The answer to a HEAD has no body, and must not be given to a GET. Those of HTTP back ends have keys of their own.
    let is_strict = !lookup.caching.converts_head || rules.mode == Mode::Rfc9111;
    if is_strict && !has_body(lookup, r) && !rules.key_has_method {
        return Err(Refusal::Method.word());
    }
    let part = part_of(lookup, r, head, fetched.length)?;
    let valid = nginx::valid_for(&rules.valid, head.status);
    let terms = match judge(lookup, r, head, head.status, asked, valid) {
        Verdict::Store(terms) => terms,
        Verdict::Refuse(refusal) => return Err(refusal.word()),
    };
    let names = varying(lookup, head).ok_or(Refusal::VaryStar.word())?;
    let (digest, variant, family) = place(lookup, r, &names);
    let mut fields = storable(lookup, head);
    // A part that is all there is, is the whole.
    // (The client of a range has got all of it; others want no range.)
    let is_whole = part.is_some_and(|part| part.is_whole());
    let (status, part) = if is_whole { (200, None) } else { (head.status, part) };
    if is_whole {
        join::make_whole(&mut fields);
    }
    let status_text = if is_whole { b"" } else { head.status_text() };
    let meta = Meta {
        key: lookup.note.key.borrow()[..].into(),
        status,
        terms,
        began: asked.stamp,
        family,
        vary: joined(&names),
        variant,
        part,
        tags: tags_of(lookup, r, head),
        head: answer::write_head(status, status_text, &fields).into(),
    };
    Ok((digest, meta))
}

/// The fields of requests on which an answer depends; `None`: on what no request tells (`Vary: *`).
fn varying(lookup: &Lookup, head: &BackendHead) -> Option<Vec<Box<[u8]>>> {
    let ignores_vary = lookup.origin.ignored() & ignored::VARY != 0;
    if ignores_vary { Some(Vec::new()) } else { with_head(head, vary::names) }
}

/// As it is stored.
fn joined(names: &[Box<[u8]>]) -> Box<[u8]> {
    names.join(&b","[..]).into()
}

/// What is kept of a head: not hop-by-hop fields and those that the answer itself excludes (RFC 9111 §3.1).
fn storable(lookup: &Lookup, head: &BackendHead) -> Vec<head::Owned> {
    let unkept = match lookup.caching.rules.mode {
        Mode::Nginx => Vec::new(),
        Mode::Rfc9111 => with_head(head, directives::Response::of).unkept,
    };
    with_head(head, |fields| head::storable(fields, &unkept))
}

/// The tags that are stored with an answer. That some are not is said once: it is the same answers that have too many.
fn tags_of(lookup: &Lookup, r: &Request, head: &BackendHead) -> Box<[u8]> {
    let Tags { kept, dropped } = with_head(head, tags::of);
    if dropped > 0 && lookup.cache.note_dropped_tags(dropped as u64) {
        rlog!(
            r,
            Warn,
            "upstream sent more than {TAGS_MAX} tags, or one of more than {TAG_BYTES_MAX} bytes: a purge by the other {dropped} leaves this answer; brisk_cache_tags_dropped_total counts further ones"
        );
    }
    kept.join(&b"\n"[..]).into()
}

/// The part that a 206 holds. nginx stores them like other answers, under keys that tell ranges apart.
fn part_of(
    lookup: &Lookup,
    r: &Request,
    head: &BackendHead,
    length: Option<u64>,
) -> Result<Option<Part>, &'static str> {
    let rules = &lookup.caching.rules;
    // nginx's mode: the key tells parts apart (`$slice_range`), so a 206 is an answer like any other.
    if head.status != 206 || rules.mode == Mode::Nginx || rules.key_has_range {
        return Ok(None);
    }
    // A part of unknown length could be cut short unnoticed.
    let part = with_head(head, Part::of).filter(|part| has_body(lookup, r) && length == Some(part.len()));
    part.map(Some).ok_or(Refusal::PartialContent.word())
}

/// The entry that an answer becomes: the key's, or that of one of its variants.
fn place(lookup: &Lookup, r: &Request, names: &[Box<[u8]>]) -> (Digest, Digest, u64) {
    let family = lookup.entry.as_ref().map(|entry| entry.meta.family);
    if names.is_empty() {
        // A family joins the variants of one key, so that a purge of the key voids them all at once.
        return (lookup.main, Digest::default(), family.unwrap_or_else(|| lookup.cache.new_family()));
    }
    let text = with_fields(r, |fields| vary::variant(names, fields, lookup.caching.rules.mode));
    let variant = lookup.main.variant(&text);
    match (&lookup.entry, family) {
        // The key's own entry is another variant.
        (Some(entry), Some(family)) if entry.meta.vary == joined(names) => {
            let digest = if entry.meta.variant == variant { lookup.main } else { variant };
            (digest, variant, family)
        }
        // It varies on other fields now: what was stored under the old ones is void.
        _ => (lookup.main, variant, lookup.cache.new_family()),
    }
}

/// Moves an answer into the cache as fast as it comes, whatever becomes of its client.
async fn pump(stream: Box<dyn BodyStream>, mut fill: Fill, updating: Option<Updating>) {
    let mut stream = InMemory::new(Body::Stream(stream));
    loop {
        match poll_fn(|cx| stream.poll_chunk(cx)).await {
            Some(Ok(Chunk::Piece(piece))) => {
                let bytes = match piece {
                    Piece::Bytes(Text::Shared(bytes)) => bytes,
                    // Copied once: the client's buffer and the cache's are the same bytes from here on.
                    Piece::Bytes(text) => Arc::from(&*text),
                    piece @ Piece::File { .. } => Arc::from(piece.in_memory().unwrap_or_default()),
                };
                if !fill.push(bytes).await {
                    return;
                }
            }
            Some(Ok(Chunk::Flush)) => {}
            // A body that ends early is never stored as whole (RFC 9111 §3.3).
            Some(Err(failure)) => {
                // What was reported already is not said a second time by the cache.
                fill.fail(match failure.cause() {
                    Cause::Reported => "",
                    _ if failure.text().is_empty() => "the body ended early",
                    _ => failure.text(),
                });
                return;
            }
            None => break,
        }
    }
    // First the entry, then the right to ask: those who wait find the entry.
    fill.finish().await;
    drop(updating);
}

/// What the client gets of an answer that is being stored.
struct Passing {
    reader: Reader,
    /// Something was given since the last flush.
    unflushed: bool,
}

impl Passing {
    fn new(reader: Reader) -> Passing {
        // The head itself is something to be sent.
        Passing { reader, unflushed: true }
    }
}

impl BodyStream for Passing {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        let next = self.reader.poll_chunk(cx);
        // The head leaves before the first piece, and also if the back end has broken off.
        let waits = matches!(next, Poll::Pending | Poll::Ready(Some(Err(_))));
        if waits && std::mem::take(&mut self.unflushed) {
            return Poll::Ready(Some(Ok(Chunk::Flush)));
        }
        let piece = match ready!(next) {
            None => return Poll::Ready(None),
            Some(Err(error)) if error.to_string().is_empty() => {
                return Poll::Ready(Some(Err(Failure::reported())));
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(failure::broken(&error)))),
            Some(Ok(Stored::Bytes(bytes))) => Piece::Bytes(Text::Shared(bytes)),
            Some(Ok(Stored::File { fd, start, end })) => match answer::open_file(&*fd) {
                Ok(file) => Piece::File { file, range: start..end },
                Err(error) => return Poll::Ready(Some(Err(failure::broken(&error)))),
            },
        };
        self.unflushed = true;
        Poll::Ready(Some(Ok(Chunk::Piece(piece))))
    }
}
