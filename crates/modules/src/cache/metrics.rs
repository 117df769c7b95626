//! Numbers of caches.

use super::path;
use brisk_server::metrics::Scrape;

/// Of every cache of the configuration that is in force.
pub fn metrics(to: &mut Scrape) {
    let snap = to.snap();
    // By zone, since several locations share one.
    for (zone, cache) in path::live(&snap.zones) {
        let stats = cache.stats();
        let labels = [("zone", zone)];
        let gauges: [(&'static str, &'static str, f64); 7] = [
            ("brisk_cache_entries", "Stored answers.", stats.entries as f64),
            ("brisk_cache_disk_bytes", "Bytes of stored answers on disk.", stats.disk_bytes as f64),
            ("brisk_cache_memory_bytes", "Bytes of stored answers in memory.", stats.memory_bytes as f64),
            (
                "brisk_cache_tag_bytes",
                "Bytes of tags of stored answers in memory; brisk_cache_memory_bytes contains them.",
                stats.tag_bytes as f64,
            ),
            ("brisk_cache_index_bytes", "Bytes of memory of the index.", stats.index_bytes as f64),
            (
                "brisk_cache_loading",
                "1 until the names of all stored answers have been read from the disk; their sizes follow.",
                f64::from(u8::from(stats.loading)),
            ),
            ("brisk_cache_purges", "Purges of many that are in force.", stats.purges as f64),
        ];
        for (name, help, value) in gauges {
            to.gauge(name, help, &labels, value);
        }
        let counters: [(&'static str, &'static str, u64); 5] = [
            ("brisk_cache_hits_total", "Requests answered from the cache.", stats.hits),
            ("brisk_cache_misses_total", "Requests for what was not stored.", stats.misses),
            ("brisk_cache_stored_total", "Answers that were stored.", stats.stored),
            (
                "brisk_cache_tags_dropped_total",
                "Tags of stored answers that were too many or too long: a purge by them leaves the answer.",
                stats.tags_dropped,
            ),
            ("brisk_cache_evicted_total", "Entries removed for want of room.", stats.evicted),
        ];
        for (name, help, value) in counters {
            to.counter(name, help, &labels, value);
        }
    }
}
