//! Whether pools of workers and databases were full: figures from all looks of the counted part.

use std::fmt;

use super::inside::{Inside, Queries, Workers};
use super::{Sample, TierSummary};

/// A pool of workers during the counted part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolSummary {
    /// Workers at work, in the mean.
    pub busy: f64,
    /// Workers in all, at most.
    pub total: u32,
    /// Requests that waited for one, in the mean.
    pub queued: f64,
    /// The same, at most.
    pub queued_max: u32,
    /// The share of looks at which no worker was free for another request.
    pub full_share: f64,
    /// How often it would have started another worker and was not allowed to.
    pub limit_hits: u64,
    /// Of the time of workers at work, the share in which they neither ran nor waited for a CPU: they waited for others.
    pub blocked_share: f64,
}

/// A database during the counted part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DatabaseSummary {
    /// Threads that carried something out, in the mean.
    pub running: f64,
    /// Transactions that waited for rows' locks, in the mean.
    pub locked: f64,
    /// Waits for locks.
    pub lock_waits: u64,
    /// Connections, at most, and how many there may be.
    pub connected: (u32, u32),
    /// Connections that were refused because there were too many.
    pub refused: u64,
    /// Of the pages that were wanted, the share that the buffer pool had; 1 if none was.
    pub buffer_hits: f64,
    /// Reads and writes that waited for the disk, in the mean.
    pub disk_pending: f64,
    /// Slow queries.
    pub slow: u64,
}

/// The workers of a tier at one look: what the kernel knows of a pool goes before what its page says, whose own request is in the way.
fn workers(sample: &Sample, tier: usize, is_pool: bool) -> Option<Workers> {
    let said = match sample.inside.get(tier)? {
        Inside::Workers(workers) => Some(*workers),
        _ => None,
    };
    let seen = sample.connections.get(tier).filter(|_| is_pool);
    let (Some(seen), Some(usage)) = (seen, sample.tiers.get(tier)) else { return said };
    let Some(accepted) = seen.accepted else { return said };
    let total = said.map_or(0, |said| said.total).max(usage.processes);
    let limit_hits = said.map_or(0, |said| said.limit_hits);
    (total > 0).then_some(Workers { busy: accepted.min(total), total, queued: seen.queued, limit_hits })
}

/// As many requests wait as workers are free: those have work, and wait for a CPU to take it.
fn is_full(look: &Workers) -> bool {
    look.busy.saturating_add(look.queued) >= look.total
}

/// The looks of a part without its outer ones: the first is of the time before and the last of the time behind, when the users have
/// gone and workers are free. Where there are no others, the last one has to do.
fn during(part: &[Sample]) -> &[Sample] {
    match part {
        [_, inner @ .., _] if !inner.is_empty() => inner,
        [_, rest @ ..] => rest,
        [] => &[],
    }
}

/// What a pool did at these looks; `tier`'s CPU figures are known already. `None`: it is none, or nobody could look into it.
pub fn pool(part: &[Sample], index: usize, is_pool: bool, tier: &TierSummary) -> Option<PoolSummary> {
    let looks = during(part).iter().filter_map(|sample| workers(sample, index, is_pool));
    let looks: Vec<Workers> = looks.filter(|look| look.total > 0).collect();
    let (first, last) = (looks.first()?, looks.last()?);
    let count = looks.len() as f64;
    let mean =
        |what: fn(&Workers) -> u32| looks.iter().map(|look| f64::from(what(look))).sum::<f64>() / count;
    let busy = mean(|look| look.busy);
    let awake = tier.cores * (1.0 + tier.waited_share);
    Some(PoolSummary {
        busy,
        total: looks.iter().map(|look| look.total).max().unwrap_or(0),
        queued: mean(|look| look.queued),
        queued_max: looks.iter().map(|look| look.queued).max().unwrap_or(0),
        full_share: looks.iter().filter(|look| is_full(look)).count() as f64 / count,
        limit_hits: last.limit_hits.saturating_sub(first.limit_hits),
        blocked_share: (1.0 - awake / busy.max(1e-9)).clamp(0.0, 1.0),
    })
}

/// What a database did at these looks. `None`: it is none, or has not answered twice.
pub fn database(part: &[Sample], index: usize) -> Option<DatabaseSummary> {
    let queries = |sample: &Sample| match sample.inside.get(index) {
        Some(Inside::Queries(queries)) => Some(*queries),
        _ => None,
    };
    let looks: Vec<Queries> = part.iter().filter_map(queries).collect();
    let [first, .., last] = &looks[..] else { return None };
    let inner: Vec<Queries> = during(part).iter().filter_map(queries).collect();
    let count = inner.len().max(1) as f64;
    let mean =
        |what: fn(&Queries) -> u32| inner.iter().map(|look| f64::from(what(look))).sum::<f64>() / count;
    let grown = |what: fn(&Queries) -> u64| what(last).saturating_sub(what(first));
    let (missed, wanted) = (grown(|look| look.disk_reads), grown(|look| look.page_requests));
    Some(DatabaseSummary {
        running: mean(|look| look.running),
        locked: mean(|look| look.locked),
        lock_waits: grown(|look| look.lock_waits),
        connected: (looks.iter().map(|look| look.connected).max().unwrap_or(0), last.connected_max),
        refused: grown(|look| look.refused),
        buffer_hits: 1.0 - missed as f64 / wanted.max(missed).max(1) as f64,
        disk_pending: mean(|look| look.disk_pending),
        slow: grown(|look| look.slow),
    })
}

impl fmt::Display for PoolSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} of {} workers busy", self.busy, self.total)?;
        write!(f, " (no one free {:.0} % of the time)", self.full_share * 100.0)?;
        if self.queued_max > 0 {
            write!(f, ", {:.1} requests waited for one (at most {})", self.queued, self.queued_max)?;
        }
        if self.busy > 0.0 {
            write!(f, "; busy ones were blocked {:.0} % of their time", self.blocked_share * 100.0)?;
        }
        if self.limit_hits > 0 {
            write!(f, "; the limit of workers was hit {} times", self.limit_hits)?;
        }
        Ok(())
    }
}

impl fmt::Display for DatabaseSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (connected, max) = self.connected;
        write!(f, "{:.1} queries at a time, {:.1} of them waiting for locks", self.running, self.locked)?;
        write!(f, ", {connected} of {max} connections, {:.2} % found in memory", self.buffer_hits * 100.0)?;
        write!(
            f,
            ", {:.1} reads and writes waiting for the disk, {} slow queries",
            self.disk_pending, self.slow
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::proc::{Machine, Usage};
    use super::super::sockets::Connections;
    use super::*;
    use std::time::Duration;

    fn sample(second: u64, inside: Inside, connections: Connections) -> Sample {
        Sample {
            at: Duration::from_secs(second),
            tiers: vec![Usage { processes: 6, ..Usage::default() }],
            inside: vec![inside],
            connections: vec![connections],
            disks: Vec::new(),
            machine: Machine::default(),
        }
    }

    fn tier() -> TierSummary {
        TierSummary { name: "php".to_owned(), cores: 0.84, waited_share: 0.0, ..TierSummary::default() }
    }

    #[test]
    fn the_kernel_knows_a_pool() {
        let look = |second, accepted, queued| {
            sample(second, Inside::Unknown, Connections { queued, accepted: Some(accepted) })
        };
        let part =
            [look(0, 0, 0), look(0, 6, 10), look(1, 6, 20), look(2, 6, 0), look(3, 3, 2), look(4, 0, 0)];
        let found = pool(&part, 0, true, &tier()).unwrap();
        assert_eq!((found.total, found.queued_max), (6, 20));
        assert!((found.busy - 5.25).abs() < 1e-9 && (found.full_share - 0.75).abs() < 1e-9, "{found:?}");
        assert!((found.blocked_share - 0.84).abs() < 1e-9, "{found:?}");
        // Two looks, one before and one behind: better than nothing.
        let found = pool(&[look(0, 0, 0), look(1, 6, 0)], 0, true, &tier()).unwrap();
        assert!((found.busy - 6.0).abs() < 1e-9, "{found:?}");
        // A program of threads is none, however many connections it has.
        assert_eq!(pool(&part, 0, false, &tier()), None);
        // Nobody counted.
        let unseen = sample(0, Inside::Unknown, Connections { queued: 3, accepted: None });
        assert_eq!(pool(&[unseen.clone(), unseen], 0, true, &tier()), None);
    }

    #[test]
    fn what_a_page_says_counts_where_the_kernel_knows_nothing() {
        let said = Inside::Workers(Workers { busy: 149, total: 150, queued: 0, limit_hits: 4 });
        let later = Inside::Workers(Workers { busy: 150, total: 150, queued: 4, limit_hits: 7 });
        let none = Connections::default();
        let part =
            [Inside::Unknown, said, Inside::Silent, later, later].map(|inside| sample(0, inside, none));
        let found = pool(&part, 0, false, &tier()).unwrap();
        assert_eq!((found.total, found.queued_max, found.limit_hits), (150, 4, 3));
        assert!((found.full_share - 0.5).abs() < 1e-9);
    }

    #[test]
    fn databases() {
        let look = |second: u64, locked, reads| {
            let queries = Queries {
                running: 8,
                locked,
                disk_reads: reads,
                page_requests: 100 * second,
                connected: 9,
                connected_max: 10,
                ..Queries::default()
            };
            sample(second, Inside::Queries(queries), Connections::default())
        };
        let found = database(&[look(0, 0, 0), look(1, 5, 5), look(1, 7, 10), look(2, 0, 20)], 0).unwrap();
        assert!((found.running - 8.0).abs() < 1e-9 && (found.locked - 6.0).abs() < 1e-9);
        assert!((found.buffer_hits - 0.9).abs() < 1e-9 && found.connected == (9, 10), "{found:?}");
        assert_eq!(database(&[look(0, 1, 1)], 0), None);
    }
}
