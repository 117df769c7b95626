//! php.ini and PHP-FPM's pools.

use super::check::{Check, Seen, Tier, Weight};
use crate::ini::{Entry, bytes, flag};
use crate::site::Site;

/// What php.ini says, where there is one.
fn php<'a>(site: &'a Site, name: &str) -> Option<&'a Entry> {
    site.php.get(name)
}

fn text(entry: &Entry) -> String {
    format!("{} = {}", entry.name, entry.value)
}

/// The entry, if its value is so.
fn php_if(site: &Site, name: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    php(site, name)
        .filter(|entry| is_bad(&entry.value))
        .map(|entry| Seen::at(&entry.place, text(entry)))
        .into_iter()
        .collect()
}

/// The same, and what PHP does by default where php.ini says nothing.
fn php_or_default(site: &Site, name: &str, default: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    if site.php.is_empty() {
        return Vec::new();
    }
    match php(site, name) {
        Some(_) => php_if(site, name, is_bad),
        None if is_bad(default) => vec![Seen::nowhere(format!("{name} = {default} (PHP's default)"))],
        None => Vec::new(),
    }
}

fn below(least: u64) -> impl Fn(&str) -> bool {
    move |value| bytes(value).is_some_and(|have| have < least)
}

fn is_off(value: &str) -> bool {
    flag(value) == Some(false)
}

fn opcache_is_on(site: &Site) -> bool {
    php(site, "opcache.enable").is_none_or(|entry| !is_off(&entry.value))
}

fn if_opcache(site: &Site, seen: Vec<Seen>) -> Vec<Seen> {
    if opcache_is_on(site) { seen } else { Vec::new() }
}

fn opcache_off(site: &Site) -> Vec<Seen> {
    php_if(site, "opcache.enable", is_off)
}

fn opcache_memory(site: &Site) -> Vec<Seen> {
    // A bare number is megabytes here, unlike everywhere else in php.ini.
    let is_small = |value: &str| match value.trim().parse::<u64>() {
        Ok(megabytes) => megabytes < 128,
        Err(_) => bytes(value).is_some_and(|have| have < 128 << 20),
    };
    if_opcache(site, php_or_default(site, "opcache.memory_consumption", "128", is_small))
}

fn opcache_strings(site: &Site) -> Vec<Seen> {
    if_opcache(
        site,
        php_or_default(site, "opcache.interned_strings_buffer", "8", |value| {
            value.parse().is_ok_and(|mb: u64| mb < 16)
        }),
    )
}

fn opcache_files(site: &Site) -> Vec<Seen> {
    let is_few = |value: &str| value.parse().is_ok_and(|count: u64| count < 10_000);
    if_opcache(site, php_if(site, "opcache.max_accelerated_files", is_few))
}

fn opcache_looks(site: &Site) -> Vec<Seen> {
    let looks = php(site, "opcache.validate_timestamps").is_none_or(|entry| !is_off(&entry.value));
    let always = php_if(site, "opcache.revalidate_freq", |value| value.trim() == "0");
    if looks { if_opcache(site, always) } else { Vec::new() }
}

fn opcache_comments(site: &Site) -> Vec<Seen> {
    if_opcache(site, php_if(site, "opcache.save_comments", is_off))
}

fn xdebug(site: &Site) -> Vec<Seen> {
    let loads = |entry: &&Entry| {
        matches!(&*entry.name, "zend_extension" | "extension") && entry.value.contains("xdebug")
    };
    let is_off = php(site, "xdebug.mode").is_some_and(|entry| entry.value == "off");
    if is_off {
        return Vec::new();
    }
    site.php.entries().iter().filter(loads).map(|entry| Seen::at(&entry.place, text(entry))).collect()
}

fn realpath_cache(site: &Site) -> Vec<Seen> {
    php_if(site, "realpath_cache_size", below(1 << 20))
}

fn open_basedir(site: &Site) -> Vec<Seen> {
    let pools = site.pools.entries().iter().filter(|entry| entry.name.ends_with("[open_basedir]"));
    let ini = php(site, "open_basedir").filter(|entry| !entry.value.is_empty());
    pools.chain(ini).map(|entry| Seen::at(&entry.place, text(entry))).collect()
}

fn assertions(site: &Site) -> Vec<Seen> {
    php_if(site, "zend.assertions", |value| value.trim() == "1")
}

fn no_output_buffer(site: &Site) -> Vec<Seen> {
    php_if(site, "output_buffering", is_off)
}

fn endless_scripts(site: &Site) -> Vec<Seen> {
    php_if(site, "max_execution_time", |value| value.trim() == "0")
}

/// Pools with their names, but for `global`.
fn pools(site: &Site) -> Vec<&str> {
    site.pools.sections().into_iter().filter(|name| !matches!(*name, "" | "global")).collect()
}

fn pool<'a>(site: &'a Site, name: &str, setting: &str) -> Option<&'a Entry> {
    site.pools.get_in(&[name], setting)
}

/// In each pool, what is set so.
fn pool_if(site: &Site, setting: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    let set = pools(site).into_iter().filter_map(|name| Some((name, pool(site, name, setting)?)));
    set.filter(|(_, entry)| is_bad(&entry.value))
        .map(|(name, entry)| Seen::at(&entry.place, format!("pool {name}: {}", text(entry))))
        .collect()
}

fn pool_without(site: &Site, setting: &str, is_bad: impl Fn(&str) -> bool) -> Vec<Seen> {
    let mut seen = pool_if(site, setting, is_bad);
    let without = pools(site).into_iter().filter(|name| pool(site, name, setting).is_none());
    seen.extend(without.map(|name| Seen::nowhere(format!("pool {name}: no {setting}"))));
    seen
}

/// All pools' children together.
pub(super) fn children(site: &Site) -> u64 {
    let of = |name: &str| pool(site, name, "pm.max_children")?.value.parse::<u64>().ok();
    pools(site).into_iter().filter_map(of).sum()
}

fn few_children(site: &Site) -> Vec<Seen> {
    pool_if(site, "pm.max_children", |value| value.parse() == Ok(5u64))
}

fn children_beyond_memory(site: &Site) -> Vec<Seen> {
    /// What a child of an ordinary application takes beside shared memory.
    const CHILD_BYTES: u64 = 30 << 20;
    let all = children(site);
    let need = all.saturating_mul(CHILD_BYTES);
    let memory = site.machine.memory;
    if memory == 0 || need <= memory {
        return Vec::new();
    }
    let what =
        format!("{all} children of all pools, {} MiB at 30 MiB each, of {} MiB", need >> 20, memory >> 20);
    let first = pools(site).into_iter().find_map(|name| pool(site, name, "pm.max_children"));
    vec![first.map_or_else(|| Seen::nowhere(what.clone()), |entry| Seen::at(&entry.place, what.clone()))]
}

fn children_beyond_cpus(site: &Site) -> Vec<Seen> {
    /// So many are of use only where pages wait for 31 of 32 parts of their time.
    const PER_CPU: u64 = 32;
    let cpus = site.machine.cpus.max(1);
    let is_many = |value: &str| value.parse::<u64>().is_ok_and(|count| count > cpus.saturating_mul(PER_CPU));
    pool_if(site, "pm.max_children", is_many)
}

fn restarted_often(site: &Site) -> Vec<Seen> {
    pool_if(site, "pm.max_requests", |value| value.parse().is_ok_and(|count: u64| (1..200).contains(&count)))
}

fn no_end(site: &Site) -> Vec<Seen> {
    pool_without(site, "request_terminate_timeout", |value| matches!(value.trim(), "0" | "0s"))
}

fn no_status(site: &Site) -> Vec<Seen> {
    pool_without(site, "pm.status_path", str::is_empty)
}

fn no_slow_log(site: &Site) -> Vec<Seen> {
    pool_without(site, "request_slowlog_timeout", |value| matches!(value.trim(), "0" | "0s"))
}

fn over_tcp(site: &Site) -> Vec<Seen> {
    pool_if(site, "listen", |value| {
        let is_path = value.starts_with('/');
        let is_here =
            value.starts_with("127.") || value.starts_with("[::1]") || value.starts_with("localhost");
        !is_path && (is_here || value.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn small_backlog(site: &Site) -> Vec<Seen> {
    pool_if(site, "listen.backlog", |value| value.parse().is_ok_and(|count: i64| (0..511).contains(&count)))
}

const fn row(
    slug: &'static str,
    weight: Weight,
    why: &'static str,
    gain: Option<&'static str>,
    line: &'static str,
    look: fn(&Site) -> Vec<Seen>,
) -> Check {
    Check { slug, tier: Tier::Php, weight, why, gain, line, look }
}

#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    row("opcache-off", Weight::Large, "Every request compiles every file of the application again.",
        Some("×3.75 to ×3.87 requests/s (WordPress, docs/experiments/003.md)"), "opcache.enable = 1", opcache_off),
    row("xdebug-loaded", Weight::Large, "A debugger watches every call, and keeps the JIT off.",
        None, "remove the extension, or xdebug.mode = off", xdebug),
    row("opcache-memory", Weight::Large, "When it is full, files are compiled for each request, and the whole cache is thrown away now and then.",
        None, "opcache.memory_consumption = 256", opcache_memory),
    row("opcache-strings", Weight::Small, "Strings that have no room there are kept by each process for itself.",
        None, "opcache.interned_strings_buffer = 32", opcache_strings),
    row("opcache-files", Weight::Large, "Files beyond this number are compiled for each request.",
        None, "opcache.max_accelerated_files = 20000", opcache_files),
    row("opcache-looks-always", Weight::Small, "Each request asks the file system about each file of the application.",
        Some("half the CPU per request, where a page has many files (nginx, docs/cookbook/opcache-timestamps.md)"), "opcache.revalidate_freq = 2; or validate_timestamps = 0 with a reload at each deploy", opcache_looks),
    row("opcache-comments", Weight::Danger, "Frameworks that read annotations from comments (Doctrine, PHPUnit) break.",
        None, "opcache.save_comments = 1", opcache_comments),
    row("realpath-cache", Weight::Small, "Paths are resolved folder by folder again when the cache is full.",
        None, "realpath_cache_size = 4096K", realpath_cache),
    row("open-basedir", Weight::Small, "PHP turns its cache of paths off wherever open_basedir is set.",
        None, "separate users per pool in place of open_basedir, where that is enough", open_basedir),
    row("assertions", Weight::Small, "Assertions are carried out for every visitor.",
        None, "zend.assertions = -1", assertions),
    row("output-unbuffered", Weight::Small, "Each echo is a packet to the web server.",
        None, "output_buffering = 4096", no_output_buffer),
    row("scripts-endless", Weight::Small, "A script that loops keeps its process for ever.",
        None, "max_execution_time = 30", endless_scripts),
    row("pool-as-delivered", Weight::Large, "Five processes are what packages deliver: the sixth request waits, however idle the machine is.",
        Some("×9.8 requests/s from 2 to 20 processes, where pages wait; less where they compute (docs/cookbook/pool-size.md)"), "pm.max_children by measurement: brisk bench --watch php=pool:NAME names the pool when it is the limit", few_children),
    row("pool-beyond-memory", Weight::Danger, "When all children work, the machine swaps, and every request takes seconds.",
        None, "pm.max_children so that all pools together fit into the memory", children_beyond_memory),
    row("pool-beyond-cpus", Weight::Small, "Processes that all want a CPU, or the same rows of the database, hinder each other, and each has a connection of the database.",
        None, "pm.max_children by measurement: brisk tune tries smaller pools", children_beyond_cpus),
    row("pool-restarted-often", Weight::Small, "A process is started anew after so few requests that starting costs more than it heals.",
        None, "pm.max_requests = 1000", restarted_often),
    row("pool-without-time-limit", Weight::Large, "Requests that hang, on a database or a network, keep their processes until the pool is full.",
        None, "request_terminate_timeout = 60s", no_end),
    row("pool-over-tcp", Weight::Small, "A port of the same machine costs more CPU than a socket in the file system, and can run out of ports.",
        None, "listen = /run/php/php-fpm.sock", over_tcp),
    row("pool-backlog", Weight::Small, "Requests beyond it are refused with 502 while the pool is busy.",
        None, "listen.backlog = 4096", small_backlog),
    row("pool-status-hidden", Weight::Sight, "Nobody can see how many processes are busy and how many requests wait.",
        None, "pm.status_path = /fpm-status", no_status),
    row("pool-slow-log-off", Weight::Sight, "Nobody can see where slow requests spend their time.",
        None, "request_slowlog_timeout = 2s; slowlog = /var/log/php-fpm.slow.log", no_slow_log),
];
