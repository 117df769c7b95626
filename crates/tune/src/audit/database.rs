//! MariaDB's and MySQL's option files.

use super::check::{Check, Seen, Tier, Weight};
use super::php::children;
use crate::edit::DATABASE_SECTIONS;
use crate::ini::{Entry, bytes, flag};
use crate::site::Site;

fn set<'a>(site: &'a Site, name: &str) -> Option<&'a Entry> {
    site.database.get_in(DATABASE_SECTIONS, name)
}

fn text(entry: &Entry) -> String {
    if entry.value.is_empty() { entry.name.clone() } else { format!("{} = {}", entry.name, entry.value) }
}

fn set_if(site: &Site, name: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    let bad = set(site, name).filter(|entry| is_bad(&entry.value));
    bad.map(|entry| Seen::at(&entry.place, text(entry))).into_iter().collect()
}

/// The same, and the default of MariaDB 10.11 where nothing is said.
fn set_or_default(site: &Site, name: &str, default: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    if site.database.is_empty() {
        return Vec::new();
    }
    match set(site, name) {
        Some(_) => set_if(site, name, is_bad),
        None if is_bad(default) => vec![Seen::nowhere(format!("{name} = {default} (the default)"))],
        None => Vec::new(),
    }
}

fn below(least: u64) -> impl Fn(&str) -> bool {
    move |value| bytes(value).is_some_and(|have| have < least)
}

fn small_pool(site: &Site) -> Vec<Seen> {
    set_or_default(site, "innodb_buffer_pool_size", "128M", below((128 << 20) + 1))
}

fn large_pool(site: &Site) -> Vec<Seen> {
    let memory = site.machine.memory;
    set_if(site, "innodb_buffer_pool_size", |value| {
        memory > 0 && bytes(value).is_some_and(|have| have > memory / 10 * 8)
    })
}

fn small_log(site: &Site) -> Vec<Seen> {
    set_or_default(site, "innodb_log_file_size", "96M", below(256 << 20))
}

fn few_connections(site: &Site) -> Vec<Seen> {
    let children = children(site);
    if site.database.is_empty() || children == 0 {
        return Vec::new();
    }
    let entry = set(site, "max_connections");
    let limit = entry.map_or(Some(151), |entry| entry.value.parse::<u64>().ok());
    match limit.filter(|limit| *limit < children) {
        None => Vec::new(),
        Some(limit) => {
            let what = format!("max_connections = {limit}, {children} PHP processes of all pools");
            vec![
                entry.map_or_else(
                    || Seen::nowhere(what.clone()),
                    |entry| Seen::at(&entry.place, what.clone()),
                ),
            ]
        }
    }
}

fn query_cache(site: &Site) -> Vec<Seen> {
    let sized = set(site, "query_cache_size").is_none_or(|entry| bytes(&entry.value) != Some(0));
    let on = set_if(site, "query_cache_type", |value| flag(value) != Some(false));
    if sized { on } else { Vec::new() }
}

fn temporary_tables(site: &Site) -> Vec<Seen> {
    let mut seen = set_if(site, "tmp_table_size", below(16 << 20));
    seen.extend(set_if(site, "max_heap_table_size", below(16 << 20)));
    seen
}

fn names_are_resolved(site: &Site) -> Vec<Seen> {
    let is_remote = set(site, "bind-address")
        .is_some_and(|entry| !matches!(&*entry.value, "127.0.0.1" | "::1" | "localhost"));
    let is_skipped = set(site, "skip-name-resolve")
        .is_some_and(|entry| entry.value.is_empty() || flag(&entry.value) == Some(true));
    if !is_remote || is_skipped {
        return Vec::new();
    }
    set(site, "bind-address")
        .map(|entry| Seen::at(&entry.place, format!("{} without skip-name-resolve", text(entry))))
        .into_iter()
        .collect()
}

fn few_threads(site: &Site) -> Vec<Seen> {
    set_if(site, "thread_cache_size", |value| value.parse().is_ok_and(|count: u64| count < 8))
}

fn few_tables(site: &Site) -> Vec<Seen> {
    set_if(site, "table_open_cache", |value| value.parse().is_ok_and(|count: u64| count < 1000))
}

fn double_buffering(site: &Site) -> Vec<Seen> {
    set_if(site, "innodb_flush_method", |value| value.eq_ignore_ascii_case("fsync"))
}

fn general_log(site: &Site) -> Vec<Seen> {
    set_if(site, "general_log", |value| flag(value) != Some(false))
}

fn no_slow_log(site: &Site) -> Vec<Seen> {
    let is_on = ["slow_query_log", "log_slow_query"]
        .iter()
        .any(|name| set(site, name).is_some_and(|entry| flag(&entry.value) != Some(false)));
    if site.database.is_empty() || is_on {
        return Vec::new();
    }
    vec![Seen::nowhere("slow_query_log is off (the default)")]
}

fn loses_commits(site: &Site) -> Vec<Seen> {
    set_if(site, "innodb_flush_log_at_trx_commit", |value| value.trim() != "1")
}

fn no_doublewrite(site: &Site) -> Vec<Seen> {
    set_if(site, "innodb_doublewrite", |value| flag(value) == Some(false))
}

const fn row(
    slug: &'static str,
    weight: Weight,
    why: &'static str,
    line: &'static str,
    look: fn(&Site) -> Vec<Seen>,
) -> Check {
    Check { slug, tier: Tier::Database, weight, why, gain: None, line, look }
}

#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    row("database-loses-commits", Weight::Danger, "A power failure loses what was committed in the last second: an order, a payment.",
        "innodb_flush_log_at_trx_commit = 1", loses_commits),
    row("database-no-doublewrite", Weight::Danger, "A power failure in the middle of a write leaves a page that cannot be read again.",
        "innodb_doublewrite = 1", no_doublewrite),
    Check { gain: Some("9.1 ms → 2.6 ms from 8 MB to 512 MB (docs/cookbook/innodb-buffer-pool.md)"), ..row("database-pool-small", Weight::Large, "Tables that do not fit into it are read from the disk again and again.",
        "innodb_buffer_pool_size = the size of the data, at most 70 % of a machine of its own", small_pool) },
    row("database-pool-large", Weight::Danger, "With connections and the rest of the machine beside it, it swaps or is killed.",
        "innodb_buffer_pool_size at most 70 % of the memory", large_pool),
    row("database-log-small", Weight::Small, "Writes wait while changed pages are flushed to make room in the log.",
        "innodb_log_file_size = 512M", small_log),
    row("database-connections-few", Weight::Danger, "When all PHP processes work, the last ones get \"Too many connections\".",
        "max_connections above the sum of pm.max_children", few_connections),
    row("database-query-cache", Weight::Large, "One lock for all queries: the more CPUs, the more they wait for it.",
        "query_cache_type = 0; query_cache_size = 0", query_cache),
    row("database-temporary-tables", Weight::Small, "Sorting and grouping go to the disk.",
        "tmp_table_size = 64M; max_heap_table_size = 64M", temporary_tables),
    row("database-names-resolved", Weight::Small, "Each new connection asks the name server for the client's name.",
        "skip-name-resolve", names_are_resolved),
    row("database-threads-few", Weight::Small, "A thread is made for each connection, and PHP makes one for each request.",
        "thread_cache_size = 100", few_threads),
    row("database-tables-few", Weight::Small, "Tables are closed and opened again between queries.",
        "table_open_cache = 2000", few_tables),
    row("database-buffered-twice", Weight::Small, "Each page is in the database's memory and in the kernel's.",
        "innodb_flush_method = O_DIRECT", double_buffering),
    row("database-general-log", Weight::Large, "Every query is written to a file.",
        "general_log = 0", general_log),
    row("database-slow-log-off", Weight::Sight, "Nobody can see which queries are slow.",
        "slow_query_log = 1; long_query_time = 0.5", no_slow_log),
];
