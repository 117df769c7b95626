//! A request comes to a location with a cache.

use super::caching::Caching;
use super::conf::{GET, HEAD, POST};
use super::lookup::Lookup;
use super::note::{Note, Status};
use super::purging::Asked;
use super::{answer, forward, key, purge};
use brisk_cache::{Cache, Digest, Found};
use brisk_cachepolicy::Refusal;
use brisk_cachepolicy::cache_status::Forwarded;
use brisk_cachepolicy::reuse::{Mode, Reuse};
use brisk_http::Method;
use brisk_net::clock;
use brisk_server::body::with_body;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_upstream::origin::{Ask, Origin};
use std::sync::Arc;

impl Caching {
    /// The content handler of a location with a cache. A body that is read anyway is read first: the key may speak of it.
    pub fn handle(self: &Arc<Self>, r: &mut Request, origin: Arc<dyn Origin>) -> Flow {
        // A location that streams bodies must not have them read for a key that does not speak of them.
        // (nginx reads it where `*_request_buffering` is on, which is the default.)
        if r.has_no_body() || !origin.reads_body_first(r) {
            return self.find(r, origin);
        }
        let caching = self.clone();
        with_body(r, move |r| caching.find(r, origin))
    }

    /// What is in memory and fresh is answered at once.
    fn find(self: &Arc<Self>, r: &mut Request, origin: Arc<dyn Origin>) -> Flow {
        let cache = match self.zones.choose(r) {
            Ok(Some(declared)) => declared.cache().clone(),
            // `off` from a variable: the request does as if there were no cache here.
            Ok(None) => return pass(self.clone(), origin, None),
            Err(name) => {
                rlog!(r, Error, "cache \"{name}\" not found");
                return Flow::Status(500);
            }
        };
        // Before the method is looked at: PURGE is a method that is not stored.
        match self.rules.purge.of(r) {
            None => {}
            Some(Asked::Refused) => return Flow::Status(403),
            Some(asked) => return purge::handle(&self.rules, &cache, r, &*origin, asked),
        }
        if !self.stores_method(r) {
            let note = Note::of(r);
            // For Cache-Status (RFC 9211 §2.2) and variables.
            note.forwarded.set(Some(Forwarded::Method));
            note.detail.set(Some(Refusal::Method.word()));
            // RFC 9111 §4.4: an unsafe method makes what is stored doubtful.
            let invalidates = self.rules.mode == Mode::Rfc9111;
            return pass(self.clone(), origin, invalidates.then_some(cache));
        }
        // RFC 9110 §9.3.1: what a body of a GET means is for the back end to say. The answer may follow from it.
        if !r.has_no_body() && r.route.method != Method::Post && !self.rules.key_has_body {
            let note = Note::of(r);
            note.forwarded.set(Some(Forwarded::Bypass));
            note.detail.set(Some("request-body"));
            return pass(self.clone(), origin, None);
        }
        // Of the request as it is now: a rewrite before has changed what it stands for.
        let key = key::of(&self.rules, r, &*origin, None);
        // Taken of the key without Vary: which variant is meant is known when something is found under it.
        let main = Digest::of(&key);
        let note = Note::of(r);
        brisk_server::dlog!(r, "http cache key: \"{}\"", String::from_utf8_lossy(&key));
        note.key.replace(key);
        // A bypass looks for nothing, but what comes is stored for others.
        let bypassed = key::holds(&self.rules.bypass, r);
        // Without a future: a hit in memory is answered within this call.
        if !bypassed && let Some(flow) = self.at_once(r, &cache, main, &*origin) {
            return flow;
        }
        // From here on it may wait: for the disk, for another request of the same key, for the back end.
        let lookup = Lookup::new(self.clone(), origin, cache, main, note);
        Flow::Wait(Box::new(move |r| {
            Box::pin(async move {
                if bypassed { forward::bypass(lookup, r).await } else { forward::run(lookup, r).await }
            })
        }))
    }

    fn stores_method(&self, r: &Request) -> bool {
        let bit = match r.route.method {
            Method::Get => GET,
            Method::Head => HEAD,
            Method::Post => POST,
            _ => return false,
        };
        self.rules.methods & bit != 0
    }

    /// The answer, if it is in memory and fresh.
    fn at_once(
        &self,
        r: &mut Request,
        cache: &Arc<Cache>,
        main: Digest,
        origin: &dyn Origin,
    ) -> Option<Flow> {
        // The clock is the thread's: it is not asked for anew for each of a thousand hits.
        let now = clock::now().unix_secs;
        // It does not count as a use: if nothing is found here, the full look-up counts it.
        // Only what is in memory: a file is read by the pool, which the full look-up waits for.
        let Found::Object(mut object) = cache.find(main, now, false) else { return None };
        // The digest is compared first, then the key itself: two keys with one digest must not share an answer.
        if !self.is_of_key(&object, r) {
            return None;
        }
        // RFC 9111 §4.1: one URL may have several answers, chosen by fields of the request.
        if !object.meta.vary.is_empty() {
            let digest = answer::variant(&object, main, self.rules.mode, r);
            if digest != object.meta.variant {
                let family = object.meta.family;
                let Found::Object(other) = cache.find(digest, now, false) else { return None };
                // A variant that was stored before its key was purged.
                if other.meta.family != family || !self.is_of_key(&other, r) {
                    return None;
                }
                object = other;
            }
        }
        // What a 206 is good for is looked at with care, elsewhere.
        // A partial answer must be combined or not be used (RFC 9111 §3.4).
        let is_part =
            object.meta.status == 206 && (object.meta.part.is_some() || self.rules.mode == Mode::Rfc9111);
        if is_part || self.judge(&object, r, now) != Reuse::Fresh {
            return None;
        }
        Note::of(r).decide(r, Status::Hit);
        cache.hits.part(r.thread.index).up();
        Some(answer::give(cache, &self.rules, r, origin, &object, now))
    }
}

/// Passes a request on without the cache. An answer to an unsafe request makes what is stored doubtful (RFC 9111 §4.4).
fn pass(caching: Arc<Caching>, origin: Arc<dyn Origin>, invalidates: Option<Arc<Cache>>) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let fetched = match origin.clone().fetch(r, Ask::default()).await {
                Ok(fetched) => fetched,
                // Nothing is invalidated: whether the back end has carried the request out is not known, and
                // RFC 9111 §4.4 speaks of answers without an error.
                Err(failure) => return brisk_server::failure::flow(&failure, r),
            };
            Note::of(r).forwarded_status.set(Some(fetched.head.status));
            let rules = &caching.rules;
            if let Some(cache) = invalidates {
                purge::invalidate(rules, &cache, r, &*origin, &fetched.head);
            }
            // A WebSocket may pass through a location with a cache.
            r.resp.tunnel = fetched.tunnel;
            r.resp.is_judged = true;
            let flow = origin.respond(r, &fetched.head, fetched.length, fetched.body);
            if matches!(flow, Flow::Done) {
                // Only of an answer that is sent: an error page is not the back end's.
                answer::tell(rules, r);
            }
            flow
        })
    }))
}
