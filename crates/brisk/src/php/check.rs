//! `brisk php check`: what of a running pool's caches is too small.

use super::ask::ask;
use brisk_modules::php::PoolSpec;
use brisk_php::{Caches, Fill, megabytes};
use serde_json::Value;
use std::fmt::Write as _;

/// How a pool's caches stand, and what is to be changed; true if anything is.
pub fn check(pool: &PoolSpec) -> Result<(String, bool), String> {
    let name = &pool.settings.pool;
    let told = ask(pool, "state", "")?;
    let value: Value = serde_json::from_slice(&told).map_err(|_| {
        format!("pool {name} does not tell how its caches stand: only pool masters of \"make php\" do (\"brisk php status\")")
    })?;
    let caches = caches(&value);
    let mut out = format!("pool {name}\n");
    let looks = caches.hits + caches.misses;
    if caches.has_opcache {
        let share = (caches.hits * 1000).checked_div(looks).unwrap_or(0);
        let _ = writeln!(
            out,
            "  OPcache   {} of {} ({} %), {} wasted; {} of {} names; strings {} of {}; {}.{} % hits, {} restarts",
            megabytes(caches.memory.used),
            megabytes(caches.memory.size),
            caches.memory.percent(),
            megabytes(caches.wasted),
            caches.keys.used,
            caches.keys.size,
            megabytes(caches.strings.used),
            megabytes(caches.strings.size),
            share / 10,
            share % 10,
            caches.restarts,
        );
    }
    let _ = writeln!(
        out,
        "  paths     {} of {} in one worker",
        megabytes(caches.realpath.used),
        megabytes(caches.realpath.size)
    );
    if caches.apcu.size > 0 {
        let _ =
            writeln!(out, "  APCu      {} of {}", megabytes(caches.apcu.used), megabytes(caches.apcu.size));
    }
    let findings = caches.findings();
    for finding in &findings {
        let _ = writeln!(out, "  ! {}\n      {}", finding.seen, finding.line);
    }
    if findings.is_empty() {
        out.push_str("  nothing is too small\n");
    }
    Ok((out, !findings.is_empty()))
}

fn caches(value: &Value) -> Caches {
    let opcache = &value["opcache"];
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let of = |part: &str, name: &str| number(&opcache[part][name]);
    let used = of("memory_usage", "used_memory");
    let wasted = of("memory_usage", "wasted_memory");
    let statistics = |name: &str| of("opcache_statistics", name);
    let apcu = &value["apcu"];
    let apcu_size = number(&apcu["num_seg"]) * number(&apcu["seg_size"]);
    Caches {
        has_opcache: opcache["opcache_enabled"].as_bool().unwrap_or(false),
        memory: Fill { used: used + wasted, size: used + wasted + of("memory_usage", "free_memory") },
        wasted,
        keys: Fill { used: statistics("num_cached_keys"), size: statistics("max_cached_keys") },
        strings: Fill {
            used: of("interned_strings_usage", "used_memory"),
            size: of("interned_strings_usage", "buffer_size"),
        },
        restarts: statistics("oom_restarts") + statistics("hash_restarts"),
        hits: statistics("hits"),
        misses: statistics("misses"),
        realpath: Fill {
            used: number(&value["realpath_used"]),
            size: ini_bytes(value["ini"]["realpath_cache_size"].as_str().unwrap_or_default()),
        },
        apcu: Fill { used: apcu_size.saturating_sub(number(&apcu["avail_mem"])), size: apcu_size },
        has_open_basedir: value["ini"]["open_basedir"].as_str().is_some_and(|paths| !paths.is_empty()),
    }
}

/// A size as php.ini writes it, `4096K`.
fn ini_bytes(text: &str) -> u64 {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => 1,
    };
    digits.parse::<u64>().unwrap_or(0).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_tells() {
        let told = serde_json::json!({
            "opcache": {
                "opcache_enabled": true,
                "memory_usage": { "used_memory": 10, "free_memory": 80, "wasted_memory": 10 },
                "interned_strings_usage": { "buffer_size": 8, "used_memory": 4 },
                "opcache_statistics": { "num_cached_keys": 5, "max_cached_keys": 9, "hits": 7, "misses": 1, "oom_restarts": 1, "hash_restarts": 2 },
            },
            "realpath_used": 100, "apcu": false, "ini": { "realpath_cache_size": "4096K", "open_basedir": "" },
        });
        let want = Caches {
            has_opcache: true,
            memory: Fill { used: 20, size: 100 },
            wasted: 10,
            keys: Fill { used: 5, size: 9 },
            strings: Fill { used: 4, size: 8 },
            restarts: 3,
            hits: 7,
            misses: 1,
            realpath: Fill { used: 100, size: 4 << 20 },
            ..Caches::default()
        };
        assert_eq!(caches(&told), want);
        assert!(!caches(&serde_json::json!({ "opcache": false })).has_opcache);
        assert_eq!((ini_bytes("16M"), ini_bytes("7"), ini_bytes("")), (16 << 20, 7, 0));
    }
}
