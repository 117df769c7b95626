//! What would make a page faster, each with its evidence.

use super::html::Kind;
use super::load::{Entry, Page};
use crate::caching;
use std::collections::BTreeMap;
use std::time::Duration;

/// A first byte later than this is the application's time, not the network's.
const SLOW_FIRST_BYTE: Duration = Duration::from_millis(500);
const HEAVY_PAGE_BYTES: u64 = 2_000_000;
const HEAVY_ENTRY_BYTES: u64 = 500_000;
/// What is served unchanged for less than an hour is hardly cached.
const SHORT_LIFETIME_SECS: u64 = 3600;

/// One piece of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What it is about.
    pub about: &'static str,
    /// What was seen, and what to do.
    pub text: String,
}

/// Everything that can be said.
pub fn advice(page: &Page) -> Vec<Advice> {
    let rules: [fn(&Page) -> Option<Advice>; 8] =
        [failures, first_byte, redirects, blocking, compression, caching_headers, connections, weight];
    rules.iter().filter_map(|rule| rule(page)).collect()
}

fn say(about: &'static str, text: String) -> Option<Advice> {
    Some(Advice { about, text })
}

/// A few names of many.
fn names<'a>(entries: &[&'a Entry]) -> String {
    let mut list: Vec<&'a str> = entries.iter().take(5).map(|entry| entry.request.url.file_name()).collect();
    if entries.len() > 5 {
        list.push("…");
    }
    list.join(", ")
}

fn answered(page: &Page) -> impl Iterator<Item = &Entry> {
    page.entries.iter().filter(|entry| entry.result.is_ok() && entry.status() < 400 && !entry.is_redirect())
}

fn failures(page: &Page) -> Option<Advice> {
    let failed: Vec<&Entry> =
        page.entries.iter().filter(|entry| entry.result.is_err() || entry.status() >= 400).collect();
    if failed.is_empty() {
        return None;
    }
    say("failures", format!("{} of {} requests failed: {}", failed.len(), page.entries.len(), names(&failed)))
}

/// "1 script", "2 scripts".
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn first_byte(page: &Page) -> Option<Advice> {
    let document = page.document()?;
    let phases = &document.result.as_ref().ok()?.phases;
    let wait = phases.first_byte?.saturating_sub(phases.sent?);
    if wait < SLOW_FIRST_BYTE {
        return None;
    }
    say(
        "server",
        format!(
            "the document's first byte took {:.0} ms: the application is slow; a cache in front of it would not wait for it",
            wait.as_secs_f64() * 1e3
        ),
    )
}

fn redirects(page: &Page) -> Option<Advice> {
    let hops: Vec<&Entry> = page.entries.iter().filter(|entry| entry.is_redirect()).collect();
    if hops.is_empty() {
        return None;
    }
    let time: Duration = hops.iter().map(|entry| entry.took()).sum();
    say(
        "redirects",
        format!(
            "{} took {:.0} ms: refer to where they lead",
            counted(hops.len(), "redirect"),
            time.as_secs_f64() * 1e3
        ),
    )
}

fn blocking(page: &Page) -> Option<Advice> {
    let scripts: Vec<&Entry> =
        page.entries.iter().filter(|entry| entry.blocks && entry.kind == Kind::Script).collect();
    let styles = page.entries.iter().filter(|entry| entry.blocks && entry.kind == Kind::Style).count();
    if scripts.is_empty() && styles < 4 {
        return None;
    }
    let document = page.document().map_or(Duration::ZERO, |entry| entry.done);
    let after = page.can_paint().saturating_sub(document).as_secs_f64() * 1e3;
    let digits = usize::from(after < 10.0);
    say(
        "render-blocking",
        format!(
            "nothing is painted until {after:.digits$} ms after the document, for {} in the head without async or defer ({}) and {}",
            counted(scripts.len(), "script"),
            names(&scripts),
            counted(styles, "style sheet")
        ),
    )
}

fn compression(page: &Page) -> Option<Advice> {
    let saved =
        |entry: &Entry| entry.plain_bytes.saturating_sub(entry.gzip_bytes.unwrap_or(entry.plain_bytes));
    let plain: Vec<&Entry> = answered(page).filter(|entry| saved(entry) > 500).collect();
    if plain.is_empty() {
        return None;
    }
    let sum: u64 = plain.iter().map(|entry| saved(entry)).sum();
    say(
        "compression",
        format!(
            "{} texts came uncompressed; gzip would save {:.1} kB of {:.1}: {}",
            plain.len(),
            sum as f64 / 1e3,
            page.bytes() as f64 / 1e3,
            names(&plain)
        ),
    )
}

fn caching_headers(page: &Page) -> Option<Advice> {
    let short = |entry: &&Entry| {
        let Ok(exchange) = &entry.result else { return false };
        let verdict = caching::judge(exchange.status, &exchange.fields);
        entry.kind != Kind::Document
            && (verdict.is_guess || verdict.browser.is_none_or(|seconds| seconds < SHORT_LIFETIME_SECS))
    };
    let entries: Vec<&Entry> = answered(page).filter(short).collect();
    if entries.is_empty() {
        return None;
    }
    say(
        "caching",
        format!(
            "{} resources have no lifetime or one below an hour: send Cache-Control: max-age with names that change with the content ({})",
            entries.len(),
            names(&entries)
        ),
    )
}

fn connections(page: &Page) -> Option<Advice> {
    let mut fresh: BTreeMap<String, (usize, usize, bool)> = BTreeMap::new();
    for entry in &page.entries {
        let Ok(exchange) = &entry.result else { continue };
        let origin = &entry.request.url.origin;
        let count = fresh.entry(format!("{}://{}", origin.scheme(), origin.authority())).or_default();
        count.0 += 1;
        count.1 += usize::from(!exchange.reused);
        count.2 |= exchange.version == "HTTP/2";
    }
    let mut parts = Vec::new();
    for (origin, (requests, connections, h2)) in &fresh {
        if *requests > 6 && connections == requests {
            parts.push(format!("{origin} closes after each of {requests} requests: turn keep-alive on"));
        } else if *requests > 6 && !h2 && origin.starts_with("https") {
            parts.push(format!(
                "{origin} took {connections} connections for {requests} requests over HTTP/1.1: offer HTTP/2"
            ));
        }
    }
    if fresh.len() > 8 {
        parts.push(format!("{} origins: each costs a look-up, a connection and a handshake", fresh.len()));
    }
    if parts.is_empty() { None } else { say("connections", parts.join("; ")) }
}

fn weight(page: &Page) -> Option<Advice> {
    let heavy: Vec<&Entry> = page.entries.iter().filter(|entry| entry.bytes() > HEAVY_ENTRY_BYTES).collect();
    if page.bytes() < HEAVY_PAGE_BYTES && heavy.is_empty() {
        return None;
    }
    let images: u64 = page.entries.iter().filter(|entry| entry.kind == Kind::Image).map(Entry::bytes).sum();
    // Where none is heavy by itself, the first ones are where to begin.
    let mut heaviest: Vec<&Entry> = page.entries.iter().collect();
    heaviest.sort_by_key(|entry| std::cmp::Reverse(entry.bytes()));
    heaviest.truncate(heavy.len().max(3));
    say(
        "weight",
        format!(
            "{:.2} MB in {} requests, {:.2} MB of them images; heaviest: {}",
            page.bytes() as f64 / 1e6,
            page.entries.len(),
            images as f64 / 1e6,
            names(&heaviest)
        ),
    )
}
