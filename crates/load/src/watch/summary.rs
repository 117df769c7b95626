//! What a watch comes to: figures per request.

use std::fmt;
use std::time::Duration;

use super::pools::{self, DatabaseSummary, PoolSummary};
use super::proc::{Disk, Machine};
use super::{Sample, Watched};

/// One tier during the counted part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TierSummary {
    /// What the report calls it.
    pub name: String,
    /// CPU per response, in microseconds.
    pub cpu_us_per_response: f64,
    /// CPUs in use, in the mean.
    pub cores: f64,
    /// The share of its time that the busiest thread was on a CPU.
    pub busiest_share: f64,
    /// How long its threads waited for a CPU, relative to how long they had one.
    pub waited_share: f64,
    /// Context switches per response.
    pub switches_per_response: f64,
    /// The most memory that it had, in bytes (PSS).
    pub pss_max: u64,
    /// Processes, at most.
    pub processes: u32,
    /// Threads, at most.
    pub threads: u32,
    /// Connections that waited to be accepted, at most.
    pub queued_max: u32,
    /// What is known of its workers.
    pub pool: Option<PoolSummary>,
    /// What it says of itself, if it is a database.
    pub database: Option<DatabaseSummary>,
}

impl TierSummary {
    /// Memory per process, in bytes.
    pub fn pss_per_process(&self) -> f64 {
        self.pss_max as f64 / f64::from(self.processes.max(1))
    }
}

/// One tier in a stretch of a run, however short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierStretch {
    /// On a CPU, in nanoseconds.
    pub cpu_ns: f64,
    /// CPUs in use, in the mean.
    pub cpus: f64,
    /// Memory at its end, in bytes (PSS).
    pub pss: f64,
    /// Context switches. They are looked at less often than the rest; between looks they are taken for even, too.
    pub switches: f64,
}

/// The machine in such a stretch; between looks what it counts is taken for even.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineStretch {
    /// The share of time in which somebody waited for a CPU, for memory, for a disk (PSI).
    pub pressure: [f64; 3],
    /// Listen drops, segments sent again, resets and failed connects, in this order.
    pub troubles: [f64; 4],
}

/// The machine during the counted part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MachineSummary {
    /// CPUs.
    pub cpus: usize,
    /// The share of all CPUs that was at work.
    pub busy_share: f64,
    /// The share of all CPUs that other guests of the same host took.
    pub steal_share: f64,
    /// The share of time in which somebody waited for a CPU, for memory, for a disk (PSI).
    pub pressure: [f64; 3],
    /// Connections that found a listener's queue full.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections reset by this machine.
    pub resets: u64,
    /// Connections that could not be made.
    pub failed_connects: u64,
    /// The share of time that the busiest disk had something to do.
    pub disk_busy_share: f64,
    /// How long its reads and writes took, in the mean, in milliseconds.
    pub disk_await_ms: f64,
}

impl Watched {
    /// The samples at or around the two moments.
    fn around(&self, from: Duration, to: Duration) -> Option<(usize, usize)> {
        let first = self.samples.iter().rposition(|sample| sample.at <= from).unwrap_or(0);
        let last = self.samples.iter().position(|sample| sample.at >= to);
        let last = last.unwrap_or(self.samples.len().checked_sub(1)?);
        (last > first).then_some((first, last))
    }

    /// What a tier did between two moments of the watch; between looks it is taken for even. `None`: nobody looked then.
    pub fn stretch(&self, tier: usize, from: Duration, to: Duration) -> Option<TierStretch> {
        let seconds = to.checked_sub(from)?.as_secs_f64();
        let of = |what: fn(&super::Usage) -> u64| {
            move |sample: &Sample| Some(what(sample.tiers.get(tier)?) as f64)
        };
        let all = |_: &Sample, _: &Sample| true;
        let cpu_ns = self.grown(from, to, all, of(|usage| usage.cpu_ns))?;
        let pss = self.value(to, all, of(|usage| usage.pss))?;
        // Only what has changed has been looked at.
        let count = of(|usage| usage.switches);
        let changed = |before: &Sample, sample: &Sample| count(before) != count(sample);
        let switches = self.grown(from, to, changed, count).unwrap_or(0.0);
        (seconds > 0.0).then(|| TierStretch { cpu_ns, cpus: cpu_ns / 1e9 / seconds, pss, switches })
    }

    /// What the machine counted between two moments of the watch. `None`: nobody looked then.
    pub fn machine_stretch(&self, from: Duration, to: Duration) -> Option<MachineStretch> {
        let us = to.checked_sub(from).filter(|width| !width.is_zero())?.as_secs_f64() * 1e6;
        let of = |what: &dyn Fn(&Machine) -> u64| {
            self.grown(from, to, |_, _| true, |sample| Some(what(&sample.machine) as f64))
        };
        // The kernel adds up what was waited now and then: a look may see more than the time since the last one.
        let pressure =
            |index: usize| of(&|machine| machine.pressure_us[index]).map(|waited| (waited / us).min(1.0));
        Some(MachineStretch {
            pressure: [pressure(0)?, pressure(1)?, pressure(2)?],
            troubles: [
                of(&|machine| machine.listen_drops)?,
                of(&|machine| machine.retransmits)?,
                of(&|machine| machine.resets)?,
                of(&|machine| machine.failed_connects)?,
            ],
        })
    }

    fn grown(
        &self,
        from: Duration,
        to: Duration,
        counts: impl Fn(&Sample, &Sample) -> bool,
        what: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        Some(self.value(to, &counts, &what)? - self.value(from, &counts, &what)?)
    }

    /// A figure at a moment, from the looks around it that count: each is asked about with its predecessor.
    fn value(
        &self,
        at: Duration,
        counts: impl Fn(&Sample, &Sample) -> bool,
        what: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let next = self.samples.partition_point(|sample| sample.at < at);
        let counts = |index: &usize| *index == 0 || counts(&self.samples[index - 1], &self.samples[*index]);
        let before = self.samples.get((0..next).rev().find(counts).unwrap_or(0))?;
        let after = self.samples.get((next..self.samples.len()).find(counts)?)?;
        let whole = after.at.saturating_sub(before.at).as_secs_f64();
        let part = if whole > 0.0 { at.saturating_sub(before.at).as_secs_f64() / whole } else { 1.0 };
        let (low, high) = (what(before)?, what(after)?);
        Some(low + (high - low) * part)
    }

    /// Figures of the part between two moments of the watch, in which there were so many responses.
    pub fn summary(
        &self,
        from: Duration,
        to: Duration,
        responses: u64,
    ) -> (Vec<TierSummary>, MachineSummary) {
        let Some((first, last)) = self.around(from, to) else { return Default::default() };
        let (begin, end) = (&self.samples[first], &self.samples[last]);
        let seconds = end.at.saturating_sub(begin.at).as_secs_f64().max(1e-9);
        // Samples are not taken at the very moments: what lies between them is taken for evenly spread.
        let responses = responses.max(1) as f64 * seconds / (to.saturating_sub(from)).as_secs_f64().max(1e-9);
        let part = &self.samples[first..=last];
        let tiers = self.names.iter().enumerate().map(|(index, name)| {
            let (a, b) = (&begin.tiers[index], &end.tiers[index]);
            let ran = (b.cpu_ns - a.cpu_ns) as f64;
            let of =
                |what: fn(&super::Usage) -> u64| part.iter().map(|sample| what(&sample.tiers[index])).max();
            let mut tier = TierSummary {
                name: name.clone(),
                cpu_us_per_response: ran / 1e3 / responses,
                cores: ran / 1e9 / seconds,
                busiest_share: busiest(part, index),
                waited_share: (b.waited_ns - a.waited_ns) as f64 / ran.max(1.0),
                switches_per_response: b.switches.saturating_sub(a.switches) as f64 / responses,
                pss_max: of(|usage| usage.pss).unwrap_or(0),
                processes: of(|usage| u64::from(usage.processes)).unwrap_or(0) as u32,
                threads: of(|usage| u64::from(usage.threads)).unwrap_or(0) as u32,
                queued_max: queued(part, index),
                database: pools::database(part, index),
                pool: None,
            };
            let is_pool = self.pools.get(index).copied().unwrap_or(false);
            tier.pool = pools::pool(part, index, is_pool, &tier);
            tier
        });
        (tiers.collect(), machine(begin, end, seconds))
    }
}

fn queued(part: &[Sample], index: usize) -> u32 {
    let looks = part.iter().filter_map(|sample| sample.connections.get(index));
    looks.map(|connections| connections.queued).max().unwrap_or(0)
}

/// The busiest disk: the share of time that it had something to do, and how long its reads and writes took, in milliseconds.
fn disk(begin: &Sample, end: &Sample, seconds: f64) -> (f64, f64) {
    let of = |now: &Disk| {
        let then = begin.disks.iter().find(|then| then.name == now.name)?;
        let busy = now.busy_ms.saturating_sub(then.busy_ms) as f64 / 1e3 / seconds;
        let answers = now.answers.saturating_sub(then.answers).max(1);
        Some((busy.min(1.0), now.taken_ms.saturating_sub(then.taken_ms) as f64 / answers as f64))
    };
    end.disks.iter().filter_map(of).max_by(|left, right| left.0.total_cmp(&right.0)).unwrap_or_default()
}

fn busiest(part: &[Sample], index: usize) -> f64 {
    // The first sample's is of the time before.
    let busy: u64 = part.iter().skip(1).map(|sample| sample.tiers[index].busiest_ns).sum();
    let time = part.last().map_or(0.0, |last| last.at.saturating_sub(part[0].at).as_secs_f64());
    busy as f64 / 1e9 / time.max(1e-9)
}

fn machine(begin: &Sample, end: &Sample, seconds: f64) -> MachineSummary {
    let (a, b) = (&begin.machine, &end.machine);
    let all = b.all_ticks.saturating_sub(a.all_ticks).max(1) as f64;
    let pressure = |index: usize| {
        (b.pressure_us[index].saturating_sub(a.pressure_us[index]) as f64 / 1e6 / seconds).min(1.0)
    };
    let (disk_busy_share, disk_await_ms) = disk(begin, end, seconds);
    MachineSummary {
        disk_busy_share,
        disk_await_ms,
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        busy_share: b.busy_ticks.saturating_sub(a.busy_ticks) as f64 / all,
        steal_share: b.steal_ticks.saturating_sub(a.steal_ticks) as f64 / all,
        pressure: [pressure(0), pressure(1), pressure(2)],
        listen_drops: b.listen_drops.saturating_sub(a.listen_drops),
        retransmits: b.retransmits.saturating_sub(a.retransmits),
        resets: b.resets.saturating_sub(a.resets),
        failed_connects: b.failed_connects.saturating_sub(a.failed_connects),
    }
}

impl fmt::Display for MachineSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CPUs {:.0} % busy; waited for CPU {:.0} %, memory {:.0} %, disk {:.0} % of the time; \
             busiest disk {:.0} % busy; listen drops {}, sent again {}, resets {}, failed connects {}",
            self.busy_share * 100.0,
            self.pressure[0] * 100.0,
            self.pressure[1] * 100.0,
            self.pressure[2] * 100.0,
            self.disk_busy_share * 100.0,
            self.listen_drops,
            self.retransmits,
            self.resets,
            self.failed_connects,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::proc::{Machine, Usage};
    use super::super::{Connections, Inside};
    use super::*;
    use std::time::Instant;

    fn watched() -> Watched {
        let sample = |second: u64| Sample {
            at: Duration::from_secs(second),
            tiers: vec![Usage {
                cpu_ns: second * 500_000_000,
                busiest_ns: 400_000_000,
                switches: second * 2000,
                pss: 1 << 20,
                processes: 4,
                ..Usage::default()
            }],
            inside: vec![Inside::Unknown],
            connections: vec![Connections { queued: second as u32, accepted: None }],
            disks: vec![Disk {
                name: "vda".to_owned(),
                answers: second * 10,
                taken_ms: second * 80,
                busy_ms: second * 700,
            }],
            machine: Machine {
                busy_ticks: second * 150,
                all_ticks: second * 200,
                listen_drops: second * 3,
                pressure_us: [second * 250_000, 0, 0],
                ..Machine::default()
            },
        };
        Watched {
            names: vec!["server".to_owned()],
            pools: vec![false],
            origin: Instant::now(),
            samples: (0..=10).map(sample).collect(),
        }
    }

    #[test]
    fn figures_are_those_of_the_part_that_counts() {
        let (tiers, machine) = watched().summary(Duration::from_secs(2), Duration::from_secs(8), 60_000);
        assert!((tiers[0].cpu_us_per_response - 50.0).abs() < 1e-6 && (tiers[0].cores - 0.5).abs() < 1e-9);
        assert!((tiers[0].busiest_share - 0.4).abs() < 1e-9);
        assert!((tiers[0].switches_per_response - 0.2).abs() < 1e-9);
        assert!((machine.busy_share - 0.75).abs() < 1e-9 && machine.listen_drops == 18);
        assert!((machine.pressure[0] - 0.25).abs() < 1e-9);
        assert!((machine.disk_busy_share - 0.7).abs() < 1e-9 && (machine.disk_await_ms - 8.0).abs() < 1e-9);
        assert_eq!((tiers[0].queued_max, &tiers[0].pool, &tiers[0].database), (8, &None, &None));
        // Moments between samples: the figures are the same.
        let (tiers, _) = watched().summary(Duration::from_millis(2500), Duration::from_millis(7500), 50_000);
        assert!((tiers[0].cpu_us_per_response - 50.0).abs() < 1e-6);
    }

    /// Half a CPU all the time: so it is in any stretch, looked at or not.
    #[test]
    fn stretches_lie_between_looks() {
        let (watched, ms) = (watched(), Duration::from_millis);
        for (from, to) in [(0, 10_000), (2000, 3000), (2100, 2200), (9950, 10_000)] {
            let found = watched.stretch(0, ms(from), ms(to)).unwrap();
            assert!((found.cpus - 0.5).abs() < 1e-9 && (found.pss - 1_048_576.0).abs() < 1.0, "{found:?}");
            assert!((found.cpu_ns - (to - from) as f64 * 5e5).abs() < 1.0, "{found:?}");
            assert!((found.switches - (to - from) as f64 * 2.0).abs() < 1e-6, "{found:?}");
            let machine = watched.machine_stretch(ms(from), ms(to)).unwrap();
            assert!((machine.pressure[0] - 0.25).abs() < 1e-9 && machine.pressure[1] == 0.0, "{machine:?}");
            assert!((machine.troubles[0] - (to - from) as f64 * 3e-3).abs() < 1e-9, "{machine:?}");
        }
        // More than all of the time is none that anybody can wait.
        let mut late = watched.clone();
        late.samples[5].machine.pressure_us = [9_000_000; 3];
        let looked = late.machine_stretch(ms(4000), ms(5000)).unwrap();
        let (_, whole) = late.summary(ms(4000), ms(5000), 1);
        assert_eq!((looked.pressure, whole.pressure), ([1.0; 3], [1.0; 3]));
        assert_eq!(watched.stretch(0, ms(9000), ms(10_001)), None);
        assert_eq!(watched.stretch(1, ms(1000), ms(2000)), None);
        assert_eq!(watched.stretch(0, ms(1000), ms(1000)), None);
        assert_eq!(watched.machine_stretch(ms(9000), ms(10_001)), None);
        // Where switches are not looked at each time, they are spread over the time since the last look.
        let mut seldom = watched;
        seldom.samples.iter_mut().for_each(|sample| {
            let count = &mut sample.tiers[0].switches;
            *count -= *count % 10_000;
        });
        let switches = |from, to| seldom.stretch(0, ms(from), ms(to)).unwrap().switches;
        assert!(
            (switches(2000, 3000) - 2000.0).abs() < 1e-6 && (switches(0, 10_000) - 20_000.0).abs() < 1e-6
        );
    }

    #[test]
    fn a_watch_that_saw_nothing_says_nothing() {
        let empty = Watched {
            names: vec!["x".to_owned()],
            pools: vec![false],
            origin: Instant::now(),
            samples: Vec::new(),
        };
        assert!(empty.summary(Duration::ZERO, Duration::from_secs(1), 5).0.is_empty());
    }
}
