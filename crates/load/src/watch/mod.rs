//! Resources beside the load, on the same time axis: what each tier (server, PHP, database …) used, and what the machine
//! had to say. Works for any software: only the kernel is asked.

mod others;
pub mod proc;
mod summary;

pub use others::{Look, Others};
pub use summary::{MachineStretch, MachineSummary, TierStretch, TierSummary, Verdict, limit};

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proc::{Account, Machine, Usage};

/// How often tiers are looked at beside a run.
pub const EVERY: Duration = Duration::from_millis(250);
/// How often memory and context switches are looked at: reading them costs the watched process time too.
const DEEP_EVERY: Duration = Duration::from_secs(1);

/// How a tier's processes are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// This process and all below it.
    Tree(u32),
    /// Workers of a PHP-FPM pool.
    Pool(String),
    /// Processes of this command name.
    Command(String),
    /// Processes of a control group.
    Group(PathBuf),
    /// Whoever listens on this TCP port, and all below it.
    Port(u16),
}

/// One tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// What the report calls it.
    pub name: String,
    /// Its processes.
    pub who: Who,
}

/// Reads `server=4711,php=pool:www,db=mariadbd,app=cgroup:/system.slice/app.service,edge=port:443`.
pub fn parse(text: &str) -> Result<Vec<Tier>, String> {
    let tier = |part: &str| {
        let bad = || {
            format!(
                "\"{part}\" is not name=PID, name=pool:POOL, name=cgroup:PATH, name=port:N or name=COMMAND"
            )
        };
        let (name, who) = part.split_once('=').ok_or_else(bad)?;
        if name.is_empty() || who.is_empty() {
            return Err(bad());
        }
        let who = match who.split_once(':') {
            Some(("pool", pool)) => Who::Pool(pool.to_owned()),
            Some(("cgroup", path)) => Who::Group(proc::group_folder(path)),
            Some(("port", port)) => Who::Port(port.parse().map_err(|_| bad())?),
            Some(("command", command)) => Who::Command(command.to_owned()),
            _ => who.parse().map_or_else(|_| Who::Command(who.to_owned()), Who::Tree),
        };
        Ok(Tier { name: name.to_owned(), who })
    };
    text.split(',').map(|part| tier(part.trim())).collect()
}

impl Who {
    /// Its processes, now.
    pub fn processes(&self) -> Vec<u32> {
        match self {
            Self::Tree(pid) => proc::tree(*pid),
            Self::Pool(pool) => proc::with_title(&format!("php-fpm: pool {pool}")),
            Self::Command(name) => proc::with_command(name),
            Self::Group(path) => proc::in_group(path),
            Self::Port(port) => {
                let mut all: Vec<u32> = proc::listening_on(*port).into_iter().flat_map(proc::tree).collect();
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }
}

/// One look.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When, from the watch's start.
    pub at: Duration,
    /// By tier.
    pub tiers: Vec<Usage>,
    /// The machine.
    pub machine: Machine,
}

/// All looks of a watch.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The tiers' names.
    pub names: Vec<String>,
    /// When the watch began.
    pub origin: Instant,
    /// In their order.
    pub samples: Vec<Sample>,
}

/// A watch under way. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    names: Vec<String>,
    origin: Instant,
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<Sample>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at the tiers every `interval`. A tier without a process is an error.
    pub fn start(tiers: &[Tier], interval: Duration) -> io::Result<Self> {
        for tier in tiers {
            let missing = match tier.who {
                Who::Tree(pid) => !PathBuf::from(format!("/proc/{pid}")).exists(),
                _ => tier.who.processes().is_empty(),
            };
            if missing {
                let text = format!("no process to watch for \"{}\" ({:?})", tier.name, tier.who);
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
        }
        let origin = Instant::now();
        let (stop, samples) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let work = {
            let (stop, samples, tiers) = (Arc::clone(&stop), Arc::clone(&samples), tiers.to_vec());
            move || watch(&tiers, interval, origin, &stop, &samples)
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(work)?;
        let names = tiers.iter().map(|tier| tier.name.clone()).collect();
        Ok(Self { names, origin, stop, samples, thread: Some(thread) })
    }

    /// What was seen so far.
    pub fn so_far(&self) -> Watched {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Watched { names: self.names.clone(), origin: self.origin, samples }
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

fn watch(
    tiers: &[Tier],
    interval: Duration,
    origin: Instant,
    stop: &AtomicBool,
    samples: &Mutex<Vec<Sample>>,
) {
    let mut accounts: Vec<Account> = tiers.iter().map(|_| Account::default()).collect();
    let mut deep_at = Duration::ZERO;
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let at = origin.elapsed();
        let deeply = is_last || at >= deep_at;
        if deeply {
            deep_at = at + DEEP_EVERY;
        }
        let looks = tiers.iter().zip(&mut accounts);
        let tiers = looks.map(|(tier, account)| account.look(&tier.who.processes(), deeply)).collect();
        let sample = Sample { at, tiers, machine: proc::machine() };
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        if is_last {
            return;
        }
        std::thread::park_timeout(interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers() {
        let read =
            |text: &str| parse(text).map(|tiers| tiers.into_iter().map(|tier| tier.who).collect::<Vec<_>>());
        let want = vec![
            Who::Tree(4711),
            Who::Pool("www".to_owned()),
            Who::Command("mariadbd".to_owned()),
            Who::Group("/sys/fs/cgroup/a.slice".into()),
            Who::Port(443),
        ];
        assert_eq!(read("server=4711,php=pool:www,db=mariadbd,g=cgroup:/a.slice,e=port:443"), Ok(want));
        for bad in ["", "x", "=1", "x=", "x=port:y"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_watch_sees_work() {
        let own = Tier { name: "own".to_owned(), who: Who::Tree(std::process::id()) };
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

    #[test]
    fn who_is_not_there_is_said() {
        let nobody = Tier { name: "db".to_owned(), who: Who::Command("no-such-command".to_owned()) };
        let error = Watch::start(&[nobody], Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("db"), "{error}");
    }
}
