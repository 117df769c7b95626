//! `pm auto`: how many workers a pool is to have, found while it runs.
//!
//! The number is the smallest one that serves within 1.2 % of the most requests per second that were seen. While requests wait, it is climbed
//! to in steps of two fifths, each of which must have served more than the one before; then the gap below it is narrowed. Such steps keep
//! what is tried below 1.5 times the best number. A search begins early where workers hardly do anything but wait, and a step that has
//! plainly brought nearly all that it could, beside what workers served on the way, is followed by the next one early: where pages wait,
//! the way from one worker per processor is long. What was seen for a moment only never decides which number is the best. A climb ends at
//! once where more workers cannot help: the processors are full, memory is short, or the limit is reached. How long requests take says
//! nothing: in a pool that is too large they wait for each other, and a pool that grows for that reason grows without end. What counts is
//! which part of its time a worker neither runs nor waits for a processor.
//!
//! While nothing waits, the pool shrinks to the most requests that were served at once lately.

use crate::limits::{
    SIZE_BLOCKED_CHANGE, SIZE_EARLY_BLOCKED, SIZE_EARLY_YIELD, SIZE_GAIN_CLIMB, SIZE_GAIN_PLAIN,
    SIZE_IDLE_MS, SIZE_LOSS, SIZE_MEMORY_MS, SIZE_MEMORY_PRESSURE_PERCENT, SIZE_PLAINLY_BLOCKED,
    SIZE_PROBE_MS, SIZE_SETTLE_MS_MAX, SIZE_SHRINK_MS, SIZE_STALL_MS, SIZE_STEP,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// What the number depends on besides the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Processors that may be used.
    pub cores: u32,
    /// The most workers (`max_children`).
    pub most: u32,
}

/// What has happened in a pool since the last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// How long that is.
    pub window_ms: u64,
    /// Requests that were answered.
    pub completed: u64,
    /// How long workers were busy with requests, all together.
    pub wall_us: u64,
    /// How long they ran.
    pub cpu_us: u64,
    /// How long they were able to run, and waited for a processor.
    pub runnable_us: u64,
    /// For how long of the window at least one request waited for a worker.
    pub waited_ms: u64,
    /// The most requests that workers had at once.
    pub busy_peak: u32,
    /// Memory at the end of the window.
    pub memory: Memory,
}

/// Memory of the machine or the group of processes, as it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// What one more worker takes, in bytes; 0: not known.
    pub worker_bytes: u64,
    /// What is left, in bytes.
    pub available_bytes: u64,
    /// The share of time in which something waited for memory (PSI, `some avg10`), in percent.
    pub pressure_percent: f64,
}

impl Memory {
    /// The worse of two moments.
    fn worst(self, other: Memory) -> Memory {
        Memory {
            worker_bytes: self.worker_bytes.max(other.worker_bytes),
            available_bytes: self.available_bytes.min(other.available_bytes),
            pressure_percent: self.pressure_percent.max(other.pressure_percent),
        }
    }
}

/// Memory at its worst moment within the last second or two. What requests hold comes and goes: a look between two of them sees
/// room that the next ones take.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryLately {
    begun_ms: u64,
    /// Since then, and in the time before.
    parts: [Option<Memory>; 2],
}

impl MemoryLately {
    fn note(&mut self, now_ms: u64, memory: Memory) {
        if now_ms.saturating_sub(self.begun_ms) >= SIZE_MEMORY_MS {
            *self = MemoryLately { begun_ms: now_ms, parts: [None, self.parts[0]] };
        }
        self.parts[0] = Some(self.parts[0].map_or(memory, |worst| worst.worst(memory)));
    }

    fn worst(&self, now: Memory) -> Memory {
        self.parts.iter().flatten().fold(now, |worst, part| worst.worst(*part))
    }
}

/// Why the number is what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The pool has just begun.
    Start,
    /// No request waits: so many at once were the most lately.
    Enough(u32),
    /// Requests wait, and more workers are tried; the part of their time in which they were blocked.
    Trying(f64),
    /// A smaller number is tried: it may do as well.
    Narrowing,
    /// The number that was looked for: requests per second with it.
    Best(f64),
    /// The processors are full: CPU time of a request in milliseconds, and its blocked part.
    Processors(f64, f64),
    /// `max_children`.
    Limit,
    /// Memory would be short: bytes of a worker, and what is left.
    Memory(u64, u64),
    /// The machine is short of memory already: how much of the time something waits for it, in percent.
    Pressure(f64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        match self {
            Why::Start => write!(f, "the pool begins with one per processor"),
            Why::Enough(peak) => write!(f, "no request waits; at most {peak} were served at once lately"),
            Why::Trying(blocked) => {
                write!(
                    f,
                    "requests wait, workers are blocked for {:.0} % of their time: more are tried",
                    blocked * 100.0
                )
            }
            Why::Narrowing => write!(f, "the best number was passed: smaller ones are tried"),
            Why::Best(rate) => write!(f, "the smallest number that serves the most, {rate:.0} requests/s"),
            Why::Processors(cpu_ms, blocked) => write!(
                f,
                "the processors are full: a request runs for {cpu_ms:.1} ms and is blocked for {:.0} % of its time",
                blocked * 100.0
            ),
            Why::Limit => write!(f, "max_children is reached"),
            Why::Memory(worker, left) => {
                write!(
                    f,
                    "more would not fit into memory: a worker has {} MiB, {} MiB are left",
                    mib(*worker),
                    mib(*left)
                )
            }
            Why::Pressure(percent) => {
                write!(f, "the machine waits for memory {percent:.0} % of the time: no more are started")
            }
        }
    }
}

/// Where the search stands.
#[derive(Clone, Debug, PartialEq)]
enum Search {
    /// No request has waited; it begins when some do.
    Unneeded,
    /// It has ended, and begins again after a while, or when the part of their time in which workers are blocked is another one.
    Over { since_ms: u64, blocked: f64 },
    /// Each number is greater than the one before. Whether it is better is looked at twice if it is not plain.
    Climbing { is_second_look: bool },
    /// Between a number that is too small and one that does; the second is measured again first.
    Narrowing { short: u32, enough: u32, is_measured: bool },
}

/// Samples that are added up until they can be judged.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    sum: Sample,
}

impl Window {
    fn add(&mut self, more: &Sample) {
        let sum = &mut self.sum;
        sum.window_ms += more.window_ms;
        sum.completed += more.completed;
        sum.wall_us += more.wall_us;
        sum.cpu_us += more.cpu_us;
        sum.runnable_us += more.runnable_us;
        sum.waited_ms += more.waited_ms;
        sum.busy_peak = sum.busy_peak.max(more.busy_peak);
    }
}

impl Sample {
    fn rate(&self) -> f64 {
        self.completed as f64 * 1000.0 / self.window_ms.max(1) as f64
    }

    /// Requests waited nearly all the time: a greater number of workers would have been used.
    fn is_backlogged(&self) -> bool {
        self.waited_ms * 10 >= self.window_ms * 8
    }

    /// The part of its time in which a request, left alone by others, would be blocked.
    fn blocked(&self) -> f64 {
        let free = self.wall_us.saturating_sub(self.runnable_us) as f64;
        if free <= 0.0 { 0.0 } else { (1.0 - self.cpu_us as f64 / free).clamp(0.0, 1.0) }
    }

    /// More workers would only wait for processors: these are full, or, where others use them too, enough workers wait for one.
    /// Workers that are often blocked come and go at the processors, so more of them must wait until none is idle.
    fn fills_processors(&self, cores: u32) -> bool {
        let window_us = self.window_ms.max(1) as f64 * 1000.0;
        let cores = f64::from(cores);
        let runnable = (self.cpu_us + self.runnable_us) as f64 / window_us;
        self.cpu_us as f64 / window_us >= cores * 0.98 || runnable >= cores * (0.98 + 4.0 * self.blocked())
    }
}

/// What a number of workers served.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// Requests per second.
    rate: f64,
    /// Few requests were seen: chance can make it look better than numbers that were looked at for long.
    is_early: bool,
}

/// The next smaller number that was tried.
#[derive(Clone, Copy, Debug)]
struct Before {
    size: u32,
    tried: Tried,
    /// The requests per second that it would have served with workers as good as those of all smaller numbers in the mean: chance is smaller in it.
    usual: f64,
}

/// See the module's head. It reads no clock: times are milliseconds of one monotonic clock.
#[derive(Clone, Debug)]
pub struct Sizer {
    bounds: Bounds,
    size: u32,
    why: Why,
    search: Search,
    /// What was seen by number of workers, in this search.
    tried: BTreeMap<u32, Tried>,
    window: Window,
    memory: MemoryLately,
    /// Until then requests of the time before the last change end.
    settles_until_ms: u64,
    /// The most requests at once, by the time when that was.
    peaks: VecDeque<(u64, u32)>,
    shrunk_at_ms: u64,
}

impl Sizer {
    /// A pool with one worker per processor.
    pub fn new(bounds: Bounds) -> Sizer {
        let bounds = Bounds { cores: bounds.cores.max(1), most: bounds.most.max(1) };
        Sizer {
            bounds,
            size: bounds.cores.min(bounds.most),
            why: Why::Start,
            search: Search::Unneeded,
            tried: BTreeMap::new(),
            window: Window::default(),
            memory: MemoryLately::default(),
            settles_until_ms: 0,
            peaks: VecDeque::new(),
            shrunk_at_ms: 0,
        }
    }

    /// The same pool after a reload: what was found is kept as far as the bounds allow.
    pub fn rebound(&mut self, bounds: Bounds) {
        self.bounds = Bounds { cores: bounds.cores.max(1), most: bounds.most.max(1) };
        self.size = self.size.clamp(self.least(), self.bounds.most);
    }

    /// How many workers there are to be.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Why so many.
    pub fn why(&self) -> Why {
        self.why
    }

    fn least(&self) -> u32 {
        self.bounds.cores.min(self.bounds.most)
    }

    /// Takes what has happened since the last call; gives the number of workers from now on.
    pub fn observe(&mut self, now_ms: u64, sample: &Sample) -> u32 {
        self.note_peak(now_ms, sample.busy_peak);
        self.memory.note(now_ms, sample.memory);
        if now_ms < self.settles_until_ms {
            return self.size;
        }
        self.window.add(sample);
        if !self.is_full() && !self.has_paid() {
            return self.size;
        }
        let is_stalled = self.is_stalled();
        let mut seen = std::mem::take(&mut self.window).sum;
        seen.memory = self.memory.worst(sample.memory);
        if is_stalled {
            self.unblock(now_ms, &seen);
        } else if seen.is_backlogged() && seen.completed > 0 {
            self.judge(now_ms, &seen);
        } else {
            self.rest(now_ms);
        }
        self.size
    }

    /// Whether enough was seen: numbers that are near each other need more than those that are not.
    fn is_full(&self) -> bool {
        let Sample { window_ms, completed, .. } = self.window.sum;
        let (requests, shortest_ms, longest_ms) = match self.search {
            Search::Unneeded | Search::Over { .. } => (50, 250, 1000),
            Search::Climbing { is_second_look: false } => (200, 250, 1500),
            Search::Climbing { is_second_look: true } => (400, 500, 2500),
            Search::Narrowing { .. } => (800, 500, 2500),
        };
        // A site that answers two requests per second is watched for longer.
        let is_long = window_ms >= longest_ms && completed >= 20 || window_ms >= 4 * longest_ms;
        let is_idle = self.window.sum.waited_ms == 0 && window_ms >= 1000;
        // A search begins without a comparison: that workers are blocked while requests wait is soon seen.
        let is_blocked = self.search == Search::Unneeded && self.is_plainly_blocked(2);
        window_ms >= shortest_ms && completed >= requests
            || is_long
            || is_idle
            || is_blocked
            || self.is_stalled()
    }

    /// Requests wait, workers do hardly anything but wait, too, and each has answered so many requests: the pages of a site that takes its
    /// time.
    fn is_plainly_blocked(&self, answered: u32) -> bool {
        let sum = &self.window.sum;
        sum.window_ms >= 250
            && sum.completed >= u64::from(answered * self.size)
            && sum.is_backlogged()
            && sum.blocked() >= SIZE_PLAINLY_BLOCKED
    }

    /// Whether the last step of a climb has brought so nearly all that it could that more need not be seen. Only of work that waits: where
    /// workers run, one too many is found out by a small difference.
    fn has_paid(&self) -> bool {
        let sum = &self.window.sum;
        let is_seen = sum.window_ms >= 250 && sum.completed >= 50
            || sum.window_ms >= 1000 && sum.completed >= 20
            || self.is_plainly_blocked(3);
        matches!(self.search, Search::Climbing { .. }) && is_seen && self.pays(sum)
    }

    /// Whether the workers of the last step serve nearly as much as those before them, each.
    fn pays(&self, seen: &Sample) -> bool {
        let is_plain = self.before().is_none_or(|before| {
            seen.rate() / before.usual - 1.0
                >= SIZE_EARLY_YIELD * (f64::from(self.size) / f64::from(before.size) - 1.0)
        });
        is_plain && seen.is_backlogged() && seen.blocked() >= SIZE_EARLY_BLOCKED
    }

    /// The next smaller number that was tried.
    fn before(&self) -> Option<Before> {
        let below = self.tried.range(..self.size);
        let (sizes, rates) =
            below.clone().fold((0, 0.0), |(sizes, rates), (size, tried)| (sizes + size, rates + tried.rate));
        let (size, tried) = below.last()?;
        Some(Before { size: *size, tried: *tried, usual: rates / f64::from(sizes) * f64::from(*size) })
    }

    /// All workers have requests that take long, and others wait: there is nothing to compare.
    fn is_stalled(&self) -> bool {
        let sum = &self.window.sum;
        sum.completed == 0 && sum.window_ms >= SIZE_STALL_MS && sum.is_backlogged()
    }

    fn note_peak(&mut self, now_ms: u64, peak: u32) {
        while self.peaks.front().is_some_and(|(at_ms, _)| at_ms + SIZE_IDLE_MS < now_ms) {
            self.peaks.pop_front();
        }
        // Smaller ones before a greater one are never the most again.
        while self.peaks.back().is_some_and(|(_, have)| *have <= peak) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now_ms, peak));
    }

    /// No request waits for long: there are enough workers, perhaps too many.
    fn rest(&mut self, now_ms: u64) {
        self.search = Search::Unneeded;
        let peak = self.peaks.front().map_or(0, |(_, peak)| *peak);
        self.why = Why::Enough(peak);
        let wanted = peak.max(self.least());
        if wanted < self.size && now_ms >= self.shrunk_at_ms + SIZE_SHRINK_MS {
            self.shrunk_at_ms = now_ms;
            self.size = wanted.max(self.size - (self.size / 4).max(1));
        }
    }

    /// Requests have waited all the time.
    fn judge(&mut self, now_ms: u64, seen: &Sample) {
        match self.search {
            Search::Over { blocked, .. } if (seen.blocked() - blocked).abs() >= SIZE_BLOCKED_CHANGE => {
                // Some of what was seen is of the work before.
                self.tried.clear();
                self.search = Search::Climbing { is_second_look: false };
            }
            Search::Over { since_ms, .. } if now_ms < since_ms + SIZE_PROBE_MS => {}
            Search::Unneeded | Search::Over { .. } => {
                self.tried.clear();
                self.climb(now_ms, seen, false);
            }
            Search::Climbing { is_second_look } => self.climb(now_ms, seen, is_second_look),
            Search::Narrowing { short, enough, is_measured } => {
                self.narrow(now_ms, seen, (short, enough, is_measured));
            }
        }
    }

    /// Requests wait for workers that answer nothing: more are made unless something speaks against it. What they are good for is seen
    /// when they answer.
    fn unblock(&mut self, now_ms: u64, seen: &Sample) {
        let next =
            (self.size + (f64::from(self.size) * SIZE_STEP) as u32).max(self.size + 1).min(self.bounds.most);
        match self.obstacle(seen, next) {
            Some(why) => self.why = why,
            None => {
                self.why = Why::Trying(seen.blocked());
                self.tried.clear();
                self.search = Search::Climbing { is_second_look: false };
                self.change(now_ms, next, &Sample::default());
            }
        }
    }

    fn climb(&mut self, now_ms: u64, seen: &Sample, is_second_look: bool) {
        let before = self.before();
        let gain = before.map_or(1.0, |before| {
            let is_lucky = is_second_look && before.tried.is_early && before.usual < before.tried.rate;
            seen.rate() / if is_lucky { before.usual } else { before.tried.rate } - 1.0
        });
        let pays = self.pays(seen);
        self.tried.insert(self.size, Tried { rate: seen.rate(), is_early: pays });
        if gain < SIZE_GAIN_PLAIN && !is_second_look && !pays {
            self.search = Search::Climbing { is_second_look: true };
            return;
        }
        // Where workers that were added served less than those before, the best number is near: the step is shorter.
        let yields =
            before.map_or(1.0, |before| gain / (f64::from(self.size) / f64::from(before.size) - 1.0));
        let yields = if pays { 1.0 } else { yields };
        let step = (f64::from(self.size) * SIZE_STEP * yields.clamp(0.2, 1.0)) as u32;
        let has_gained = gain >= SIZE_GAIN_CLIMB || pays;
        let next = (self.size + step.max(1)).min(self.bounds.most);
        let (next, obstacle) = match self.obstacle(seen, next) {
            // While an answer is on its way and the next request comes, one more runs. Where the server and its clients are on the same
            // processors, full ones do not tell whether there are such gaps.
            Some(Why::Processors(..)) if self.size == self.bounds.cores => (self.size + 1, None),
            obstacle => (next, obstacle),
        };
        if has_gained && obstacle.is_none() {
            self.why = Why::Trying(seen.blocked());
            self.search = Search::Climbing { is_second_look: false };
            self.change(now_ms, next, seen);
            return;
        }
        self.tried.insert(self.size, Tried { rate: seen.rate(), is_early: false });
        let long = self.tried.iter().filter(|(_, tried)| !tried.is_early);
        let least = long.clone().map(|(_, tried)| tried.rate).fold(0.0, f64::max) * (1.0 - SIZE_LOSS);
        let enough = long.clone().find(|(_, tried)| tried.rate >= least).map_or(self.size, |(size, _)| *size);
        let short = self.tried.range(..enough).rev().find(|(_, tried)| tried.rate < least);
        // Where the search began with a number that does, that may be too large by now.
        let first = self.tried.first_key_value().map_or(enough, |(size, _)| *size);
        let short = short.map_or(first / 2, |(size, _)| *size).max(self.least() - 1);
        self.why = obstacle.unwrap_or(Why::Narrowing);
        self.search = Search::Narrowing { short, enough, is_measured: false };
        if is_narrow(short, enough) {
            self.end(now_ms, enough, seen);
        } else {
            self.change(now_ms, enough, seen);
        }
    }

    /// Why there may not be more workers.
    fn obstacle(&self, seen: &Sample, next: u32) -> Option<Why> {
        if next <= self.size {
            return Some(Why::Limit);
        }
        if let Some(why) = self.lack_of_memory(&seen.memory, next) {
            return Some(why);
        }
        let cpu_ms = seen.cpu_us as f64 / 1000.0 / seen.completed.max(1) as f64;
        seen.fills_processors(self.bounds.cores).then(|| Why::Processors(cpu_ms, seen.blocked()))
    }

    /// Why there is no memory for so many workers.
    fn lack_of_memory(&self, memory: &Memory, next: u32) -> Option<Why> {
        if memory.pressure_percent > SIZE_MEMORY_PRESSURE_PERCENT {
            return Some(Why::Pressure(memory.pressure_percent));
        }
        // A fifth of what is left is left to others.
        let room = memory.available_bytes / 5 * 4;
        if memory.worker_bytes > 0 && u64::from(next - self.size) * memory.worker_bytes > room {
            return Some(Why::Memory(memory.worker_bytes, memory.available_bytes));
        }
        None
    }

    fn narrow(&mut self, now_ms: u64, seen: &Sample, (short, enough, is_measured): (u32, u32, bool)) {
        let (mut short, mut enough) = (short, enough);
        if !is_measured {
            // What the others are compared with was measured in a hurry.
            self.tried.insert(enough, Tried { rate: seen.rate(), is_early: false });
        } else if seen.rate() >= self.rate_of(enough) * (1.0 - SIZE_LOSS) {
            // The rate to be reached stays that of the first: small losses do not add up.
            let rate = self.rate_of(enough).max(seen.rate());
            self.tried.insert(self.size, Tried { rate, is_early: false });
            enough = self.size;
        } else {
            short = self.size;
        }
        if is_narrow(short, enough) {
            self.end(now_ms, enough, seen);
            return;
        }
        self.search = Search::Narrowing { short, enough, is_measured: true };
        let middle = (f64::from(short.max(1)) * f64::from(enough)).sqrt().round() as u32;
        if !matches!(self.why, Why::Processors(..) | Why::Limit | Why::Memory(..) | Why::Pressure(_)) {
            self.why = Why::Narrowing;
        }
        self.change(now_ms, middle.clamp(short + 1, enough - 1), seen);
    }

    /// What a number served; 0: it was not tried.
    fn rate_of(&self, size: u32) -> f64 {
        self.tried.get(&size).map_or(0.0, |tried| tried.rate)
    }

    fn end(&mut self, now_ms: u64, size: u32, seen: &Sample) {
        let rate = self.tried.get(&size).map_or_else(|| seen.rate(), |tried| tried.rate);
        if self.why == Why::Narrowing || matches!(self.why, Why::Trying(_)) {
            self.why = Why::Best(rate);
        }
        self.search = Search::Over { since_ms: now_ms, blocked: seen.blocked() };
        self.change(now_ms, size, seen);
    }

    /// Another number from now on; it is measured when the requests before it have ended. Where memory is short the number stays, also
    /// where a greater one was tried before that began.
    fn change(&mut self, now_ms: u64, size: u32, seen: &Sample) {
        if size == self.size {
            return;
        }
        if size > self.size
            && let Some(why) = self.lack_of_memory(&seen.memory, size)
        {
            self.why = why;
            self.search = Search::Over { since_ms: now_ms, blocked: seen.blocked() };
            return;
        }
        self.size = size;
        let request_ms = seen.wall_us / 1000 / seen.completed.max(1);
        self.settles_until_ms = now_ms + (request_ms * 3 / 2).clamp(50, SIZE_SETTLE_MS_MAX);
    }
}

/// Whether nothing worth trying is between the two.
fn is_narrow(short: u32, enough: u32) -> bool {
    enough <= short + 1 || enough - short <= enough / 16
}

#[cfg(test)]
mod tests;
