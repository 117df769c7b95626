//! Removing what is stored: by request, and because an unsafe request has changed what it stands for.

use super::conf::Rules;
use super::path::Declared;
use super::purging::{Asked, Key};
use super::{answer, key, path};
use crate::own_page::is_foreign;
use brisk_cache::format::OF_HEAD;
use brisk_cache::{Cache, Digest, Pattern, Purge};
use brisk_cachepolicy::invalidate;
use brisk_cachepolicy::tags::{self, TAG_BYTES_MAX, TAGS_MAX, Tags};
use brisk_http::HeaderId;
use brisk_http::uri::escape_html;
use brisk_server::flow::Flow;
use brisk_server::plan::Plan;
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::Target as _;
use brisk_server::zone::Zone;
use brisk_upstream::head::BackendHead;
use brisk_upstream::origin::Origin;
use std::sync::Arc;

/// Methods under whose keys an answer may be stored, where the key tells methods apart.
const STORED: [&str; 2] = ["GET", "HEAD"];

/// A request that `*_cache_purge` is about.
pub fn handle(rules: &Rules, cache: &Arc<Cache>, r: &mut Request, origin: &dyn Origin, asked: Asked) -> Flow {
    if is_foreign(r) {
        return refuse(r);
    }
    let Tags { kept, dropped } = answer::with_fields(r, tags::of);
    // All or nothing: with some of the tags left out the client would take for removed what is not.
    if dropped > 0 {
        rlog!(
            r,
            Error,
            "client sent more than {TAGS_MAX} tags to be purged, or one of more than {TAG_BYTES_MAX} bytes"
        );
        return Flow::Status(400);
    }
    if !kept.is_empty() {
        for tag in kept {
            // At once, for all that have it now; what is stored later is newer than the purge.
            cache.purge(Pattern::Tag(tag));
        }
        return Flow::Status(204);
    }
    // The purge's own method stands in keys with $request_method, under which nothing is ever stored.
    let mut keys = vec![key::of(rules, r, origin, None)];
    for method in STORED {
        let key = key::of(rules, r, origin, Some(method));
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    remove(cache, keys, r, asked)
}

/// A page elsewhere has a browser that is let in by its address.
fn refuse(r: &Request) -> Flow {
    rlog!(
        r,
        Error,
        "a purge was refused: it came from a page of another site, or to a name that no server_name has"
    );
    Flow::Status(403)
}

/// Makes all requests of a location purges of one cache.
pub fn install(key: &Key, declared: Arc<Declared>, plan: &mut Plan) {
    let key = key.key.clone();
    plan.content = Some(Arc::new(move |r: &mut Request| {
        if is_foreign(r) {
            return refuse(r);
        }
        let key = key.eval_target(r);
        // An answer to HEAD that has no body is stored beside the one to GET.
        let of_head = [OF_HEAD, &key].concat();
        remove(declared.cache(), vec![key, of_head], r, Asked::Page)
    }));
}

/// Removes what is stored under the first of these keys, or under others that are the same but for the method in them.
fn remove(cache: &Arc<Cache>, keys: Vec<Vec<u8>>, r: &mut Request, asked: Asked) -> Flow {
    // `keys[0]` is the configured one: the others differ from it in their methods only.
    if keys[0].ends_with(b"*") {
        for key in &keys {
            cache.purge(Pattern::Prefix(key[..key.len() - 1].into()));
        }
        return done(r, &keys[0], asked);
    }
    let cache = cache.clone();
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            let mut any = false;
            for key in &keys {
                // All of them: a client that purges means the page, whatever it was asked for with.
                any |= cache.purge_key(Digest::of(key)).await;
            }
            if any { done(r, &keys[0], asked) } else { Flow::Status(404) }
        })
    }))
}

fn done(r: &mut Request, key: &[u8], asked: Asked) -> Flow {
    if asked == Asked::Page {
        r.resp.text(200, "text/html", page(key));
    } else {
        // 204 has neither (RFC 9110 §15.3.5).
        r.resp.text(204, "", "");
        r.resp.content_length = None;
        r.resp.content_type = None;
    }
    Flow::Done
}

/// What ngx_cache_purge's users and their scripts look for.
fn page(key: &[u8]) -> Vec<u8> {
    let mut page =
        b"<html><head><title>Successful purge</title></head><body><h1>Successful purge</h1><p>Key: ".to_vec();
    // Keys are made of what clients send.
    escape_html(key, &mut page);
    page.extend_from_slice(b"</p></body></html>\n");
    page
}

/// `brisk cache purge`, told to a running server: what is in the memory of the cache `name`, or on its way into it, goes at
/// once. Gives how many entries went of which nothing was on disk yet.
pub fn by_order(zones: &[Arc<Zone>], name: &str, order: &Purge) -> usize {
    path::live(zones).filter(|(zone, _)| *zone == name).map(|(_, cache)| cache.obey(order)).sum()
}

/// After an answer to a request that is not safe (RFC 9111 §4.4).
pub fn invalidate(rules: &Rules, cache: &Arc<Cache>, r: &Request, origin: &dyn Origin, head: &BackendHead) {
    if invalidate::is_safe(r.sent_method_name()) {
        return;
    }
    // Behind a proxy the field says what the client has asked for, which absolute addresses in the answer
    // repeat.
    let host = r.header(HeaderId::Host).unwrap_or(&r.head.host);
    let own = [r.scheme().as_bytes(), b"://", host].concat();
    let target = r.unparsed_uri().into_owned();
    let paths = answer::with_head(head, |fields| invalidate::targets(head.status, &target, &own, fields));
    for method in STORED {
        let key = key::of(rules, r, origin, Some(method));
        for path in &paths {
            if let Some(key) = of_path(&key, &target, path) {
                cache.purge_key_soon(Digest::of(&key));
            }
        }
    }
}

/// The key of another path: the request's, with the other path where its own stands.
fn of_path(key: &[u8], own: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    if own == path {
        return Some(key.to_vec());
    }
    // From the end: a host in front may contain the path's bytes.
    let at = memchr::memmem::rfind(key, own)?;
    Some([&key[..at], path, &key[at + own.len()..]].concat())
}
