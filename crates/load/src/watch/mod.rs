//! Resources beside the load, on the same time axis: what each tier (server, PHP, database …) used, and what the machine
//! had to say. Works for any software, because the kernel is asked; tiers that have a status page or a status are asked, too.

mod calls;
mod diag;
mod inside;
mod mysql;
mod others;
mod pools;
pub mod proc;
mod sockets;
mod summary;
mod tier;
mod verdict;
mod waits;

pub use inside::{Inside, Queries, Source, Workers};
pub use mysql::{Database, DatabasePlace, Session};
pub use others::{Look, Others};
pub use pools::{DatabaseSummary, PoolSummary};
pub use sockets::{Connections, Listener, listeners_of};
pub use summary::{MachineStretch, MachineSummary, TierStretch, TierSummary};
pub use tier::{Door, Tier, Which, Who, parse};
pub use verdict::{Generator, Verdict, limit};
pub use waits::{Doing, Waiting, Waits};

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use inside::Asker;
use proc::{Account, Disk, Machine, Usage};
use sockets::Tables;

/// How often tiers are looked at beside a run.
pub const EVERY: Duration = Duration::from_millis(250);
/// How often memory and context switches are looked at: reading them costs the watched process time too.
const DEEP_EVERY: Duration = Duration::from_secs(1);
/// How often tiers are asked.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often it is asked whether the first look is over.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// One look.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When, from the watch's start.
    pub at: Duration,
    /// By tier.
    pub tiers: Vec<Usage>,
    /// By tier, what it says of itself.
    pub inside: Vec<Inside>,
    /// By tier, the connections of what it listens on.
    pub connections: Vec<Connections>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// The machine.
    pub machine: Machine,
}

/// All looks of a watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The tiers' names.
    pub names: Vec<String>,
    /// Whether each is a pool, whose processes serve one connection each.
    pub pools: Vec<bool>,
    /// When the watch began.
    pub origin: Instant,
    /// In their order.
    pub samples: Vec<Sample>,
}

/// A watch under way. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    names: Vec<String>,
    pools: Vec<bool>,
    origin: Instant,
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<Sample>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at the tiers every `interval`. A tier without a process, or one that does not tell what it should, is an error.
    pub fn start(tiers: &[Tier], interval: Duration) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut looked: Vec<Looked> = Vec::new();
        for tier in tiers {
            looked.push(Looked::start(tier, &stop)?);
        }
        let origin = Instant::now();
        let samples = Arc::new(Mutex::new(Vec::new()));
        let pools = looked
            .iter()
            .map(|tier| matches!(tier.who, Some(Who::Pool(_) | Who::Listening(_, Which::Workers))))
            .collect();
        let work = {
            let (stop, samples) = (Arc::clone(&stop), Arc::clone(&samples));
            move || watch(&mut looked, interval, origin, &stop, &samples)
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(work)?;
        // What begins now lies between two looks, however short it is and however long a look takes on a busy machine.
        while lock(&samples).is_empty() && !thread.is_finished() {
            std::thread::sleep(FIRST_LOOK);
        }
        let names = tiers.iter().map(|tier| tier.name.clone()).collect();
        Ok(Self { names, pools, origin, stop, samples, thread: Some(thread) })
    }

    /// What was seen so far.
    pub fn so_far(&self) -> Watched {
        let samples = lock(&self.samples).clone();
        Watched { names: self.names.clone(), pools: self.pools.clone(), origin: self.origin, samples }
    }

    /// Ends the watch, with a last look.
    pub fn finish(mut self) -> Watched {
        self.end();
        self.so_far()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(samples: &Mutex<Vec<Sample>>) -> MutexGuard<'_, Vec<Sample>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tier that is looked at.
struct Looked {
    who: Option<Who>,
    account: Account,
    listeners: Vec<Listener>,
    /// What its source said last; a thread of its own asks, since answers may take their time.
    said: Option<Arc<Mutex<Inside>>>,
}

impl Looked {
    fn start(tier: &Tier, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot watch \"{}\": {error}", tier.name))
        };
        let (mut who, mut said) = (tier.who.clone(), None);
        if let Some(source) = &tier.source {
            let mut asker = Asker::new(source.clone());
            if let Some(pool) = asker.pool().map_err(failed)? {
                who = Some(Who::Pool(pool));
            }
            let first = asker.ask().map_err(failed)?;
            said = Some(ask_again_and_again(asker, first, stop)?);
        }
        let pids = who.as_ref().map_or_else(Vec::new, Who::processes);
        let is_missing = match &who {
            Some(Who::Tree(pid)) => !PathBuf::from(format!("/proc/{pid}")).exists(),
            // What tells of itself may be on another machine.
            _ => pids.is_empty() && said.is_none(),
        };
        if is_missing {
            let text = format!("no process to watch for \"{}\" ({who:?})", tier.name);
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(Self { who, account: Account::default(), listeners: sockets::listeners_of(&pids), said })
    }
}

/// Keeps what a source says up to date until the watch ends.
fn ask_again_and_again(
    mut asker: Asker,
    first: Inside,
    stop: &Arc<AtomicBool>,
) -> io::Result<Arc<Mutex<Inside>>> {
    let said = Arc::new(Mutex::new(first));
    let (stop, kept) = (Arc::clone(stop), Arc::downgrade(&said));
    std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(ASK_EVERY);
            let heard = asker.ask().unwrap_or(Inside::Silent);
            let Some(kept) = kept.upgrade() else { return };
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = heard;
        }
    })?;
    Ok(said)
}

fn watch(
    tiers: &mut [Looked],
    interval: Duration,
    origin: Instant,
    stop: &AtomicBool,
    samples: &Mutex<Vec<Sample>>,
) {
    let (mut deep_at, mut is_short) = (Duration::ZERO, false);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let now = origin.elapsed();
        let deeply = is_last || now >= deep_at;
        if deeply {
            deep_at = now + DEEP_EVERY;
        }
        let whole = deeply || is_short;
        let tables = Tables::read(tiers.iter().flat_map(|tier| &tier.listeners), whole);
        is_short = tables.are_short();
        let connections = tiers.iter().map(|tier| tables.of(&tier.listeners, whole)).collect();
        let said = |tier: &Looked| {
            let said = tier.said.as_ref();
            said.map_or(Inside::Unknown, |said| *said.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let inside = tiers.iter().map(said).collect();
        let processes = |tier: &Looked| tier.who.as_ref().map_or_else(Vec::new, Who::processes);
        let pids = counted_once(&tiers.iter().map(processes).collect::<Vec<_>>());
        let look = |(tier, pids): (&mut Looked, &Vec<u32>)| tier.account.look(pids, deeply);
        // The time of the CPU figures: on a busy machine the tables above may have taken as long as a short run.
        let at = origin.elapsed();
        let tiers = tiers.iter_mut().zip(&pids).map(look).collect();
        let (machine, disks) = (proc::machine(), proc::disks());
        let sample = Sample { at, tiers, inside, connections, disks, machine };
        lock(samples).push(sample);
        if is_last {
            return;
        }
        std::thread::park_timeout(interval);
    }
}

/// The processes of each tier without those of tiers within it: a server's own, where it has started the PHP that is watched, too. The first
/// process decides, since it stays: those that come and go may be seen in one tier and not yet in the other.
fn counted_once(tiers: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let begins_in = |one: &Vec<u32>, other: &Vec<u32>| one.first().is_some_and(|pid| other.contains(pid));
    let one = |pids: &Vec<u32>| {
        let within = tiers.iter().filter(|other| begins_in(other, pids) && !begins_in(pids, other));
        let taken: BTreeSet<u32> = within.flatten().copied().collect();
        pids.iter().copied().filter(|pid| !taken.contains(pid)).collect()
    };
    tiers.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_within_another_counts_once() {
        let tiers = vec![vec![1, 2, 3, 4], vec![3, 4], vec![4], vec![7], vec![], vec![7]];
        let want = vec![vec![1, 2], vec![3], vec![4], vec![7], vec![], vec![7]];
        assert_eq!(counted_once(&tiers), want);
        // A worker that was started between the two looks.
        assert_eq!(counted_once(&[vec![1, 2], vec![2, 3]]), [vec![1], vec![2, 3]]);
    }

    #[test]
    fn a_watch_sees_work() {
        let own = Tier { name: "own".to_owned(), who: Some(Who::Tree(std::process::id())), source: None };
        let watch = Watch::start(&[own], Duration::from_millis(10)).unwrap();
        let begun = Instant::now();
        while watch.so_far().samples.last().is_none_or(|sample| sample.tiers[0].cpu_ns < 20_000_000) {
            assert!(begun.elapsed().as_secs() < 20, "nothing was seen");
        }
        let watched = watch.finish();
        let from = Duration::ZERO;
        let (tiers, machine) = watched.summary(from, watched.origin.elapsed(), 100);
        assert!(tiers[0].cpu_us_per_response >= 200.0 && tiers[0].pss_max > 0 && tiers[0].processes >= 1);
        assert!(machine.busy_share > 0.0);
    }

    /// A run of half a second on a busy machine was over before the first look.
    #[test]
    fn a_watch_has_looked_before_anything_begins() {
        let own = Tier { name: "own".to_owned(), who: Some(Who::Tree(std::process::id())), source: None };
        let watch = Watch::start(&[own], Duration::from_mins(1)).unwrap();
        assert_eq!(watch.so_far().samples.len(), 1);
        let from = watch.so_far().origin.elapsed();
        let to = watch.so_far().origin.elapsed();
        let (tiers, machine) = watch.finish().summary(from, to, 1);
        assert!(tiers.len() == 1 && machine.cpus > 0, "{machine:?}");
    }

    #[test]
    fn who_is_not_there_is_said() {
        let nobody = Tier {
            name: "db".to_owned(),
            who: Some(Who::Command("no-such-command".to_owned())),
            source: None,
        };
        let error = Watch::start(&[nobody], Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("db"), "{error}");
    }
}
