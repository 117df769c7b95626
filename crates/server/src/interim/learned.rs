//! Which links the last final response of a URI had: `early_hints_learn`.
//!
//! It knows no sockets, and an answer never waits for it. What is forgotten costs a hint.

use crate::limits::{HINT_LINKS_MAX, LEARNED_BYTES_MAX, LEARNED_ENTRY_BYTES_MAX};
use crate::request::Request;
use crate::response::Response;
use brisk_http::{HeaderId, Method};
use hashbrown::HashMap;
use std::sync::Arc;

type Links = Arc<[Box<[u8]>]>;

/// One thread's memory of links, by host and target. When it is full, the half that was not used of late goes.
#[derive(Default)]
pub struct Learned {
    recent: HashMap<Box<[u8]>, Links>,
    older: HashMap<Box<[u8]>, Links>,
    /// Of `recent`.
    bytes: usize,
}

fn key(r: &Request) -> Box<[u8]> {
    // The target as it was sent, with its arguments: they may choose another page.
    // The host as it was matched, in lower case; a port does not make another page.
    [r.head.host.as_slice(), b" ", &r.unparsed_uri()].concat().into()
}

impl Learned {
    /// Gives the links of the request's URI, one by one.
    pub fn get(&mut self, r: &Request, mut give: impl FnMut(&[u8])) {
        let key = key(r);
        let links = match self.recent.get(&key) {
            Some(links) => links.clone(),
            None => {
                // Found in the older half: it moves to the recent one, since it is in use.
                let Some(links) = self.older.remove(&key) else { return };
                self.put(key, links.clone());
                links
            }
        };
        links.iter().for_each(|link| give(link));
    }

    /// Remembers the links of a response that everyone may see; forgets them where there are none any more.
    pub fn learn(&mut self, r: &Request) {
        // What was answered to credentials is not for others (RFC 9111 §3.5).
        if r.route.depth > 0 || r.route.method != Method::Get || r.head.parsed.has(HeaderId::Authorization) {
            return;
        }
        let key = key(r);
        let links = if r.resp.status == 200 && is_public(&r.resp) { links(&r.resp) } else { Vec::new() };
        let have = self.recent.get(&key).or_else(|| self.older.get(&key));
        // The usual case writes nothing: a page has the links that it had before.
        if have.is_some_and(|have| have.iter().eq(links.iter())) || (have.is_none() && links.is_empty()) {
            return;
        }
        // Out of both halves: what is forgotten would come back from the older one.
        self.older.remove(&key);
        if let Some(old) = self.recent.remove(&key) {
            self.bytes -= cost(&key, &old);
        }
        let links: Links = links.into();
        // A page with endless links must not push out all others.
        if !links.is_empty() && cost(&key, &links) <= LEARNED_ENTRY_BYTES_MAX {
            self.put(key, links);
        }
    }

    fn put(&mut self, key: Box<[u8]>, links: Links) {
        let cost = cost(&key, &links);
        // Two halves in place of an order of use: a hit moves an entry at most once per half.
        if self.bytes + cost > LEARNED_BYTES_MAX / 2 {
            self.older = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += cost;
        self.recent.insert(key, links);
    }
}

/// What an entry takes, with the tables around it.
fn cost(key: &[u8], links: &[Box<[u8]>]) -> usize {
    key.len() + links.iter().map(|link| link.len() + 16).sum::<usize>() + 64
}

/// One user's page must not tell another which files it needs.
fn is_public(resp: &Response) -> bool {
    let named = |name: &'static [u8]| {
        resp.headers.iter().filter(move |(have, value)| have.eq_ignore_ascii_case(name) && !value.is_empty())
    };
    let is_private = |value: &[u8]| {
        let mut words = value.split(|&b| b == b',').map(|word| word.trim_ascii().to_ascii_lowercase());
        words.any(|word| word.starts_with(b"private") || word == b"no-store")
    };
    named(b"Set-Cookie").next().is_none() && !named(b"Cache-Control").any(|(_, value)| is_private(value))
}

/// Links that a browser can act on before it has the page (RFC 8297 §2).
fn links(resp: &Response) -> Vec<Box<[u8]>> {
    let named = resp.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"Link"));
    let is_hint = |value: &[u8]| {
        let value = value.to_ascii_lowercase();
        // A loose look, since it is only a hint: a link too many costs its bytes.
        // `preload` and `preconnect` are what browsers act on before the page is there.
        [&b"preload"[..], b"preconnect"].iter().any(|rel| memchr::memmem::find(&value, rel).is_some())
    };
    named
        .filter(|(_, value)| is_hint(value))
        .map(|(_, value)| (&**value).into())
        .take(HINT_LINKS_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(fields: &[(&'static str, &'static str)]) -> Response {
        let mut resp = Response::default();
        fields.iter().for_each(|(name, value)| resp.add(*name, *value));
        resp
    }

    #[test]
    fn pages_of_one_user_teach_nothing() {
        let check = |fields: &[(&'static str, &'static str)], want| {
            assert_eq!(is_public(&response(fields)), want, "{fields:?}");
        };
        check(&[], true);
        check(&[("Cache-Control", "max-age=5, public")], true);
        check(&[("set-cookie", "a=b")], false);
        check(&[("cache-control", "max-age=5, Private")], false);
        check(&[("Cache-Control", "private=\"x\"")], false);
        check(&[("Cache-Control", "No-Store")], false);
    }

    #[test]
    fn only_links_to_what_is_needed_at_once() {
        let resp = response(&[
            ("Link", "</a.css>; rel=preload; as=style"),
            ("Link", "</next>; rel=next"),
            ("link", "<https://cdn>; rel=\"PRECONNECT\""),
        ]);
        let got: Vec<_> =
            links(&resp).iter().map(|link| String::from_utf8_lossy(link).into_owned()).collect();
        assert_eq!(got, ["</a.css>; rel=preload; as=style", "<https://cdn>; rel=\"PRECONNECT\""]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut learned = Learned::default();
        let link: Links = vec![Box::from(&[b'x'; 100][..])].into();
        for n in 0..200_000u32 {
            learned.put(n.to_string().into_bytes().into(), link.clone());
        }
        let bytes =
            |map: &HashMap<Box<[u8]>, Links>| map.iter().map(|(key, links)| cost(key, links)).sum::<usize>();
        assert!(bytes(&learned.recent) + bytes(&learned.older) <= LEARNED_BYTES_MAX);
        assert!(learned.recent.contains_key(&b"199999"[..]));
    }
}
