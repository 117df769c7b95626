//! A request whose answer is not at hand: look on disk, wait for another's answer, or ask the back end.
//!
//! Each step decides by what is stored now; after a wait the decision is made anew, since anything may have been
//! stored or purged meanwhile.

use super::answer::{self, Cut};
use super::background;
use super::conf::stale;
use super::fetch::{self, Question};
use super::lookup::Lookup;
use super::note::Status;
use brisk_cache::{Digest, Found, Object, Updating};
use brisk_cachepolicy::cache_status::Forwarded;
use brisk_cachepolicy::reuse::{Mode, Reuse, Why};
use brisk_net::clock;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a request may be under way before another one takes over its right, where `*_cache_lock_age` does not count.
/// A right that nobody gives back must not keep an answer from being renewed for ever.
const UPDATE_AGE: Duration = Duration::from_hours(1);

/// What is stored for the request.
enum Stored {
    Object(Arc<Object>),
    Error(u16),
    Nothing { uses: u16, why: Forwarded },
}

/// What to do next.
enum Step {
    Done(Flow),
    Ask(Question),
    /// Look again when the request that asks under this name has its answer.
    Again(Digest),
}

impl Lookup {
    fn mode(&self) -> Mode {
        self.caching.rules.mode
    }

    /// Finds the entry of the key, and the request's variant of it.
    async fn stored(&mut self, r: &mut Request) -> Stored {
        // Anew in each round: what was found before the wait may be gone.
        self.digest = self.main;
        self.entry = None;
        let mut uses = 0;
        let object = match self.object(r, self.main, &mut uses).await {
            Ok(Some(object)) => object,
            Ok(None) => return Stored::Nothing { uses, why: Forwarded::UriMiss },
            Err(status) => return Stored::Error(status),
        };
        // The key's own entry tells on which fields its variants depend, whichever variant it is itself.
        self.entry = Some(object.clone());
        if object.meta.vary.is_empty() {
            return Stored::Object(object);
        }
        // (By the entry's own fields: another answer of the same key may name others.)
        let digest = answer::variant(&object, self.main, self.mode(), r);
        if digest == object.meta.variant {
            return Stored::Object(object);
        }
        self.digest = digest;
        match self.object(r, digest, &mut uses).await {
            // A purge of the key began another family.
            Ok(Some(other)) if other.meta.family == object.meta.family => Stored::Object(other),
            Err(status) => Stored::Error(status),
            Ok(_) => Stored::Nothing { uses, why: Forwarded::VaryMiss },
        }
    }

    /// One entry, from memory or disk. The error is a status that is stored without a body.
    async fn object(
        &self,
        r: &mut Request,
        digest: Digest,
        uses: &mut u16,
    ) -> Result<Option<Arc<Object>>, u16> {
        // Counting takes a place in the index: only where it is asked for.
        let counts = self.caching.rules.min_uses > 1;
        let object = match self.cache.find(digest, clock::now().unix_secs, counts) {
            Found::Object(object) => object,
            Found::Error(status) => return Err(status),
            Found::Nothing(count) => {
                *uses = count;
                return Ok(None);
            }
            Found::Load(count) => match self.cache.load(digest).await {
                Ok(Some(object)) => object,
                Ok(None) => {
                    *uses = count;
                    return Ok(None);
                }
                // As if nothing were stored: the back end has the answer, and a broken disk must not be an outage.
                Err(error) => {
                    rlog!(r, Crit, "{error}");
                    return Ok(None);
                }
            },
        };
        // The name of an entry is a hash that collisions are known for. The key itself stands in the entry and
        // decides.
        if !self.caching.is_of_key(&object, r) {
            rlog!(r, Crit, "cache file \"{}\" has md5 collision", self.cache.path(digest).display());
            return Ok(None);
        }
        Ok(Some(object))
    }

    /// Gives a stored answer out.
    pub fn give(&self, r: &mut Request, object: &Arc<Object>, status: Status) -> Flow {
        self.note.decide(r, status);
        if matches!(status, Status::Hit | Status::Updating | Status::Stale) {
            self.cache.hits.part(r.thread.index).up();
        }
        answer::give(&self.cache, &self.caching.rules, r, &*self.origin, object, clock::now().unix_secs)
    }

    /// Takes the right to ask, if no other request has it.
    fn lock(&self, name: Digest) -> Option<Updating> {
        let rules = &self.caching.rules;
        let age = if rules.lock { rules.lock_age } else { UPDATE_AGE };
        self.cache.lock(name, age)
    }

    /// Under what name requests for what is not stored wait for one another. Another range's answer is of no use to them, nor
    /// is that of who brings a stored part up to date.
    fn name_of_missing(&self, r: &Request, question: &Question) -> Digest {
        match (fetch::range(&self.caching.rules, r), &question.part) {
            (Some(range), _) => self.digest.variant(&[b"range\0", range].concat()),
            (None, Some(_)) => self.digest.variant(b"rest\0"),
            (None, None) => self.digest,
        }
    }

    /// Whether requests for the same answer wait for one another.
    fn collapses(&self) -> bool {
        self.caching.rules.lock || self.mode() == Mode::Rfc9111
    }
}

/// `*_cache_bypass`: nothing is taken from the cache; the answer may be stored.
pub async fn bypass(mut lookup: Lookup, r: &mut Request) -> Flow {
    lookup.note.decide(r, Status::Bypass);
    lookup.note.forwarded.set(Some(Forwarded::Bypass));
    // The entry tells where a variant belongs.
    // Looked for all the same: without the family of the key a purge would not find the variant.
    if let Stored::Object(object) = lookup.stored(r).await {
        lookup.entry.get_or_insert(object);
    }
    // (The look-up has left the variant's here.)
    lookup.digest = lookup.main;
    fetch::ask(lookup, r, Question::new(true)).await
}

/// Answers from the cache, or asks the back end.
pub async fn run(mut lookup: Lookup, r: &mut Request) -> Flow {
    // One deadline for all waits of the request, however often others begin anew.
    let deadline = clock::mono_ms() + lookup.caching.rules.lock_timeout.as_millis() as u64;
    let mut may_wait = true;
    loop {
        let step = match lookup.stored(r).await {
            // A status without a body is stored by `*_cache_valid` for error pages: it counts as a hit.
            Stored::Error(status) => {
                lookup.note.decide(r, Status::Hit);
                return Flow::Status(status);
            }
            Stored::Nothing { uses, why } => missing(&lookup, r, u64::from(uses), why, may_wait),
            Stored::Object(object) => match answer::cut(&lookup.caching.rules, r, &object) {
                Cut::Nothing => {
                    let question = Question { part: Some(object), ..Question::new(true) };
                    absent(&lookup, r, question, Forwarded::Partial, may_wait)
                }
                Cut::Whole | Cut::Part(_) => found(&lookup, r, object, may_wait),
            },
        };
        match step {
            Step::Done(flow) => return flow,
            Step::Ask(question) => return fetch::ask(lookup, r, question).await,
            Step::Again(name) => {
                lookup.note.collapsed.set(true);
                // It asks for itself then, as nginx lets it (`proxy_cache_lock_timeout`).
                if !lookup.cache.wait_unlocked(name, deadline).await {
                    rlog!(r, Info, "cache lock timeout");
                    may_wait = false;
                }
                // It has waited: what it knew of files may have changed.
                r.thread.files.must_confirm();
            }
        }
    }
}

fn missing(lookup: &Lookup, r: &Request, uses: u64, why: Forwarded, may_wait: bool) -> Step {
    // Rare answers do not take the place of others (`proxy_cache_min_uses`).
    // A client that wants no question is told at once that there is nothing.
    if uses < lookup.caching.rules.min_uses && !refuses_to_ask(lookup, r) {
        lookup.note.forwarded.set(Some(why));
        lookup.note.decide(r, Status::Scarce);
        return Step::Ask(Question::new(false));
    }
    absent(lookup, r, Question::new(true), why, may_wait)
}

/// What the request asks for is not stored, or only another part of it.
fn absent(lookup: &Lookup, r: &Request, question: Question, why: Forwarded, may_wait: bool) -> Step {
    lookup.note.forwarded.set(Some(why));
    lookup.note.decide(r, Status::Miss);
    if refuses_to_ask(lookup, r) {
        return Step::Done(Flow::Status(504));
    }
    lookup.cache.misses.fetch_add(1, Ordering::Relaxed);
    let name = lookup.name_of_missing(r, &question);
    // What turned out not to be storable is not waited for: the requests would be answered one after the other.
    if !lookup.collapses() || lookup.cache.is_unstorable(name) {
        return Step::Ask(question);
    }
    match lookup.lock(name) {
        Some(updating) => Step::Ask(Question { updating: Some(updating), ..question }),
        // No time to wait is no wait: nginx's `lock_timeout 0`.
        None if may_wait && !lookup.caching.rules.lock_timeout.is_zero() => Step::Again(name),
        // As in nginx: a request that has waited in vain gets an answer that is not stored.
        None => Step::Ask(Question { stores: false, ..question }),
    }
}

/// The client takes what is stored or nothing.
fn refuses_to_ask(lookup: &Lookup, r: &Request) -> bool {
    lookup.mode() == Mode::Rfc9111 && asks_for_stored_only(r)
}

/// `Cache-Control: only-if-cached` (RFC 9111 §5.2.1.7).
fn asks_for_stored_only(r: &Request) -> bool {
    answer::with_fields(r, brisk_cachepolicy::directives::Request::of).only_if_cached
}

fn found(lookup: &Lookup, r: &mut Request, object: Arc<Object>, may_wait: bool) -> Step {
    let rules = &lookup.caching.rules;
    let now = clock::now().unix_secs;
    let (while_revalidating, if_error, never_stale, why) = match lookup.caching.judge(&object, r, now) {
        Reuse::Fresh => return Step::Done(lookup.give(r, &object, Status::Hit)),
        Reuse::Ask { while_revalidating, if_error, never_stale, why } => {
            (while_revalidating, if_error, never_stale, why)
        }
    };
    if refuses_to_ask(lookup, r) {
        lookup.note.decide(r, Status::Miss);
        return Step::Done(Flow::Status(504));
    }
    // RFC 9211 §2.2: `request` where the client's own fields were the reason.
    lookup.note.forwarded.set(Some(if why == Why::Request { Forwarded::Request } else { Forwarded::Stale }));
    // RFC 5861 §3, or `use_stale updating`.
    let may_be_stale = !never_stale && (while_revalidating || rules.use_stale & stale::UPDATING != 0);
    // The copy that asks in the background has no body: what it got for that would be stored as the answer to this one.
    let in_background = (rules.background_update || lookup.mode() == Mode::Rfc9111) && r.has_no_body();
    let mut question = Question { stale: Some(object.clone()), if_error, never_stale, ..Question::new(true) };
    let updating = lookup.lock(lookup.digest);
    if may_be_stale {
        match updating {
            // The client does not wait: the answer is renewed without it.
            Some(updating) if in_background => {
                question.updating = Some(updating);
                background::start(lookup, r, question);
                lookup.note.forwarded.set(None);
                return Step::Done(lookup.give(r, &object, Status::Stale));
            }
            None => {
                lookup.note.forwarded.set(None);
                return Step::Done(lookup.give(r, &object, Status::Updating));
            }
            // The client waits for its answer, but others get the old one meanwhile.
            foreground => question.updating = foreground,
        }
    } else if updating.is_none()
        && lookup.collapses()
        && may_wait
        // A client that asks for a new answer gets one of its own.
        && why == Why::Stale
        && !lookup.cache.is_unstorable(lookup.digest)
    {
        return Step::Again(lookup.digest);
    } else {
        question.updating = updating;
    }
    lookup.note.decide(r, Status::Expired);
    Step::Ask(question)
}
