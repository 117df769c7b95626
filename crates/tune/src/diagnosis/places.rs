//! Where requests are at a time: in a queue, on a CPU, at the database, on the way. The place where most of them are is what limits, and the
//! evidence of that place says why. What was not seen there is not named.

use super::figures::{Peer, SlowQuery, WaitFigures};
use super::workers::{At, HUNGRY, Workers};
use super::{
    BLOCKED, Budget, Diagnosis, FULL, MOST, Measured, Role, TierFigures, found, gain, percent, used,
};

/// A generator that wants a CPU for this share of the time is full; it may share its CPU.
const GENERATOR_HUNGRY: f64 = 0.9;
/// One that is ready and has no CPU for this share of the time shares it with others, and is full, whatever it does in the rest.
const GENERATOR_KEPT_WAITING: f64 = 0.5;
/// What of a response's time a generator may wait for a CPU before it notices it.
const LATE: f64 = 0.3;
/// A queue that was full at this share of the looks is more often so between them.
const SEEN_FULL: f64 = 0.02;
/// A share of requests that a full generator may have, answered and not yet read, before it is what limits.
const UNREAD: f64 = 0.25;
/// A table that is looked through for a few rows; smaller ones cost nothing.
const SCANNED_ROWS: u64 = 1000;
/// A document of so many bytes is a heavy one: a tenth of what a whole page has in the median, with all of its images (HTTP Archive).
const HEAVY_BYTES: f64 = 200e3;
/// PHP compiles so many bytes of source in a microsecond: what is read of files bounds what is compiled.
const COMPILED_BYTES_PER_US: f64 = 30.0;
/// Somebody waits for memory in this share of the time.
const SHORT_OF_MEMORY: f64 = 0.3;
/// Pages that come back from swap in a second: fewer are those that nobody misses.
const SWAPPED_IN: f64 = 100.0;
/// After so long the kernel tries a connection again that was dropped, in microseconds.
const RETRY_US: f64 = 1e6;
/// Traffic of fewer requests at a time says nothing.
const TRAFFIC: f64 = 0.05;
/// Of requests that come one by one, each may lose so much time on the way, in microseconds: users are as far away, and a busy machine takes as
/// long to run the generator.
const WAY_US: f64 = 50e3;

/// A place where a request can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Its connection is being made.
    Connecting,
    /// It waits for a worker.
    Queue,
    /// A worker of PHP is at this.
    Worker(At),
    /// The web server has it.
    Server,
    /// On the way, there or back.
    Way,
}

/// Requests at a time, by place.
struct Places {
    all: f64,
    by_place: Vec<(Place, f64)>,
}

impl Places {
    fn largest(&self) -> Option<(Place, f64)> {
        self.by_place.iter().copied().max_by(|left, right| left.1.total_cmp(&right.1))
    }

    fn at(&self, wanted: Place) -> f64 {
        self.by_place.iter().filter(|(place, _)| *place == wanted).map(|(_, count)| count).sum()
    }

    fn share(&self, count: f64) -> f64 {
        count / self.all.max(1e-9)
    }
}

fn places(m: &Measured, workers: &Workers<'_>) -> Option<Places> {
    let (front, seen) = m.tiers.iter().find_map(|tier| Some((tier, tier.waits.as_ref()?)))?;
    let (requests, queue) = workers.asked(m, seen);
    let inside = workers.sum(WaitFigures::busy) + queue;
    let all = if m.around.is_attached {
        requests.unwrap_or(0.0).max(inside) + seen.answers
    } else if m.around.has_pauses {
        // Little's law. What waits in the generator for a free user is not under way.
        (m.rate * m.wall_us / 1e6).min(m.users as f64).max(requests.unwrap_or(0.0)).max(inside)
    } else {
        m.users as f64
    };
    let connecting = (m.rate * m.around.connect_us / 1e6).min(all);
    // The server answers others' requests too; those at PHP's workers are surely there.
    let held = requests.unwrap_or((all - connecting).max(0.0)).max(inside).min(all);
    let server = if front.role == Role::Php { 0.0 } else { (held - inside).max(0.0) };
    let way = (all - connecting - held.max(inside)).max(0.0);
    let mut by_place = vec![
        (Place::Connecting, connecting),
        (Place::Queue, queue),
        (Place::Server, server),
        (Place::Way, way),
    ];
    by_place.extend(workers.at().map(|(at, count)| (Place::Worker(at), count)));
    Some(Places { all, by_place })
}

/// Whether memory is what limits: where processes are ended for want of it, there are errors.
pub(super) fn memory(m: &Measured) -> Option<Diagnosis> {
    let workers = Workers::of(m);
    let places = places(m, &workers)?;
    Seen { m, workers, places, count: 0.0 }.memory()
}

/// What limits, if it was seen where requests are.
pub(super) fn diagnose(m: &Measured) -> Option<Diagnosis> {
    let workers = Workers::of(m);
    let places = places(m, &workers)?;
    if (m.around.is_attached || m.around.has_pauses) && places.all < TRAFFIC {
        return nothing_limits(&places);
    }
    let (place, count) = places.largest()?;
    let seen = Seen { m, workers, places, count };
    let is_queue_full = m
        .tiers
        .iter()
        .filter_map(|tier| tier.waits.as_ref())
        .any(|waits| waits.queue_full_share >= SEEN_FULL);
    let backlog = seen.short_backlog().filter(|_| is_queue_full);
    let first = backlog.or_else(|| seen.hungry_generator()).or_else(|| seen.memory());
    let mut diagnosis = first.or_else(|| match place {
        Place::Connecting => seen.connecting(),
        Place::Queue => seen.queue(),
        Place::Worker(at) => seen.worker(at),
        Place::Server => seen.server(),
        Place::Way => seen.way(),
    })?;
    diagnosis.evidence.extend(seen.shown());
    Some(diagnosis)
}

fn nothing_limits(places: &Places) -> Option<Diagnosis> {
    found(
        "unknown",
        "nothing-full",
        "There is no traffic to speak of: nothing limits.".to_owned(),
        vec![format!("{:.2} requests at a time", places.all)],
        None,
    )
}

/// Where the time of a mean response went.
pub(super) fn budget(m: &Measured) -> Option<Budget> {
    let workers = Workers::of(m);
    let places = places(m, &workers)?;
    // Little's law; without a rate the shares hold as well, of one second.
    let wall = if m.wall_us > 0.0 { m.wall_us } else { 1e6 };
    // Sums of nothing are negative zeros.
    let part = |count: f64| places.share(count) * wall + 0.0;
    let at = |at: At| part(places.at(Place::Worker(at)));
    let running = at(At::Running) + server_running(m, part(places.at(Place::Server)));
    // The scheduler knows how much of it was spent waiting for a CPU.
    let (ran, waited): (f64, f64) = m
        .tiers
        .iter()
        .filter(|tier| tier.role != Role::Database)
        .map(|tier| (tier.cores, tier.cores * tier.waited_share))
        .fold((0.0, 0.0), |(ran, waited), (more, longer)| (ran + more, waited + longer));
    let ready = running * waited / (ran + waited).max(1e-9);
    let mut budget = Budget {
        queue: part(places.at(Place::Queue)),
        cpu: running - ready,
        run_queue: ready,
        database: at(At::Database),
        disk: at(At::File) + at(At::Memory),
        network: part(places.at(Place::Way)) + part(places.at(Place::Connecting)) + at(At::Client),
        blocked: at(At::Lock) + at(At::Others) + at(At::Sleep) + at(At::Other),
        rest: 0.0,
    };
    let sum = budget.sum();
    if sum > wall {
        budget.scale(wall / sum);
    }
    budget.rest = (wall - budget.sum()).max(0.0);
    Some(budget)
}

/// Of the time that the server has a request, what its threads run, or are ready to.
fn server_running(m: &Measured, at_server: f64) -> f64 {
    let waits = m.tiers.iter().find(|tier| tier.role == Role::Server).and_then(|tier| tier.waits.as_ref());
    waits.map_or(0.0, |waits| at_server * waits.busiest)
}

/// What was seen, for the sentences about it.
struct Seen<'a> {
    m: &'a Measured,
    workers: Workers<'a>,
    places: Places,
    /// Requests at the place that limits.
    count: f64,
}

impl Seen<'_> {
    /// What mending the place gains at most, with what waits for it.
    fn gain(&self) -> Option<f64> {
        let queue =
            if self.workers.sum(WaitFigures::busy) > 0.0 { self.places.at(Place::Queue) } else { 0.0 };
        let count = self.count.max(queue);
        Some(gain(self.places.share(count)))
    }

    fn of_all(&self, count: f64) -> String {
        format!("{count:.1} of {:.1} requests", self.places.all)
    }

    /// Where requests are, as evidence.
    fn shown(&self) -> Vec<String> {
        let name = |place: Place| match place {
            Place::Connecting => "being connected",
            Place::Queue => "waiting for a PHP process",
            Place::Server => "at the web server",
            Place::Way => "on the way",
            Place::Worker(At::Running) => "on a CPU in PHP, or ready for one",
            Place::Worker(At::Database) => "in PHP, waiting for the database",
            Place::Worker(At::File) => "in PHP, waiting for files",
            Place::Worker(At::Memory) => "in PHP, waiting for memory",
            Place::Worker(At::Lock) => "in PHP, waiting for a locked file",
            Place::Worker(At::Others) => "in PHP, waiting for other services",
            Place::Worker(At::Sleep) => "in PHP, pausing",
            Place::Worker(At::Client) => "in PHP, waiting for their answer to be taken",
            Place::Worker(At::Other) => "in PHP, waiting for something else",
        };
        let mut all = self.places.by_place.clone();
        all.sort_by(|left, right| right.1.total_cmp(&left.1));
        let parts: Vec<String> = all
            .iter()
            .filter(|(_, count)| self.places.share(*count) >= 0.02)
            .map(|(place, count)| format!("{count:.1} {}", name(*place)))
            .collect();
        let mut lines = vec![format!("of {:.1} requests at a time: {}", self.places.all, parts.join(", "))];
        let tiers = self.m.tiers.iter().map(|tier| format!("{} {:.2}", tier.name, tier.cores));
        lines.push(format!(
            "CPUs in use: {}, the generator {:.2}; the machine's {} are {} busy",
            tiers.collect::<Vec<_>>().join(", "),
            self.m.generator_cores,
            self.m.cpus,
            percent(self.m.busy_share)
        ));
        lines
    }

    /// A generator that wants a CPU all the time, with answers that wait for it: what users would see is not known.
    fn hungry_generator(&self) -> Option<Diagnosis> {
        let m = self.m;
        let wants = m.generator_share + m.around.generator_waited_share;
        let way = self.places.at(Place::Way);
        let is_late = m.around.generator_late_us >= m.wall_us * LATE && m.wall_us > 0.0;
        let is_kept_waiting = m.around.generator_waited_share >= GENERATOR_KEPT_WAITING;
        let is_hungry = wants >= GENERATOR_HUNGRY || is_kept_waiting || is_late;
        if m.around.is_attached || !is_hungry || self.places.share(way) < UNREAD {
            return None;
        }
        let sentence = format!(
            "The load generator is the limit: it wants a CPU {} of the time, waits {:.1} ms for one, and {} are not at the site.",
            percent(wants.min(1.0)),
            m.around.generator_late_us / 1e3,
            self.of_all(way)
        );
        found("generator", "generator-full", sentence, Vec::new(), None)
    }

    /// Memory that is not there slows all that runs, whatever it is at.
    fn memory(&self) -> Option<Diagnosis> {
        let around = self.m.around;
        let (busy, waiting) = (self.workers.sum(WaitFigures::busy), self.workers.sum(|waits| waits.memory));
        let is_waited_for = busy > 0.0 && waiting / busy >= 0.2;
        let is_short = around.memory_pressure >= SHORT_OF_MEMORY && around.swapped_in >= SWAPPED_IN;
        if !(is_short || is_waited_for && around.swapped_in >= SWAPPED_IN) {
            return None;
        }
        let largest = self.m.tiers.iter().max_by_key(|tier| tier.memory)?;
        let evidence = vec![
            format!("{:.0} pages come back from swap in a second", around.swapped_in),
            format!("somebody waits for memory {} of the time", percent(around.memory_pressure)),
            format!("{} has {} MiB", largest.name, largest.memory >> 20),
        ];
        match (largest.role, self.workers.main()) {
            (Role::Php, Some((_, waits))) => {
                let sentence = format!(
                    "The PHP pool is too large for the memory: its {:.0} processes want more than there is, and wait for pages from swap.",
                    waits.tasks
                );
                found("php", "pool-too-large", sentence, evidence, None)
            }
            _ => {
                let sentence =
                    format!("There is too little memory: {} waits for pages from swap.", largest.name);
                found("machine", "memory-short", sentence, evidence, None)
            }
        }
    }

    fn connecting(&self) -> Option<Diagnosis> {
        self.short_backlog().or_else(|| self.slow_network())
    }

    /// A dropped connection is tried again after a second or more: whether that explains most of the time.
    fn short_backlog(&self) -> Option<Diagnosis> {
        let m = self.m;
        let responses = m.rate * m.around.seconds;
        let waits = m.tiers.iter().filter_map(|tier| tier.waits.as_ref());
        let full_share = waits.map(|waits| waits.queue_full_share).fold(0.0, f64::max);
        let is_explained = m.listen_drops as f64 * RETRY_US >= responses * m.wall_us * BLOCKED;
        let is_seen = full_share > 0.0 && m.listen_drops > 0;
        let is_connecting = is_seen && self.places.at(Place::Connecting) >= self.count;
        if m.listen_drops == 0 || !(is_explained || is_connecting) {
            return None;
        }
        let sentence = format!(
            "The listen queue is too short: {} connections found it full, and each was tried again after a second or more.",
            m.listen_drops
        );
        let mut evidence =
            vec![format!("making a connection took {:.0} ms per response", m.around.connect_us / 1e3)];
        if full_share > 0.0 {
            evidence.push(format!("the queue was seen full {} of the time", percent(full_share)));
        }
        found("machine", "backlog-small", sentence, evidence, self.gain())
    }

    /// Requests wait for a worker: what the workers are at decides.
    fn queue(&self) -> Option<Diagnosis> {
        let busy = self.workers.sum(WaitFigures::busy);
        let at = self.workers.at().into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
        let (at, count) = at.filter(|(_, count)| *count > 0.0)?;
        let is_most = count >= busy * BLOCKED;
        let saturated = match at {
            _ if !is_most => None,
            // More workers want the same CPUs, the same lock, the same disk.
            At::Running if self.wants_more_cpu(count) => self.worker(at),
            At::Lock | At::File | At::Memory => self.worker(at),
            At::Database => self.full_database(),
            _ => None,
        };
        saturated.or_else(|| self.small_pool(busy))
    }

    /// As many workers are ready to run as there are CPUs, or they wait longer for one than they have it.
    fn wants_more_cpu(&self, running: f64) -> bool {
        let waited = self.workers.main().map_or(0.0, |(tier, _)| tier.waited_share);
        running >= self.m.cpus as f64 * HUNGRY || waited >= 1.0
    }

    fn small_pool(&self, busy: f64) -> Option<Diagnosis> {
        let m = self.m;
        let (tier, waits) = self.workers.main()?;
        let queue = self.places.at(Place::Queue);
        let (total, full) = tier
            .pool
            .map_or((waits.tasks, waits.taken_share()), |pool| (f64::from(pool.total), pool.full_share));
        let waited = if m.wall_us > 0.0 {
            let waited = self.places.share(queue) * m.wall_us / 1e3;
            format!("requests wait {waited:.0} ms of {:.0} ms for one", m.wall_us / 1e3)
        } else {
            format!("{} wait for one", self.of_all(queue))
        };
        let sentence = format!(
            "The PHP pool is too small: {busy:.0} of {total:.0} processes busy {} of the time, {waited}; the CPUs are {} busy.",
            percent(full),
            percent(m.busy_share)
        );
        let mut evidence = Vec::new();
        if let Some(peer) = waits.peers.iter().max_by(|left, right| left.count.total_cmp(&right.count)) {
            evidence.push(format!("of busy processes {:.1} wait for {}", peer.count, peer.name));
        }
        // As many processes as requests; each needs as much CPU as now.
        let cores = used(m).max(0.01);
        let room = (self.places.all / busy.max(1e-9)).min(m.cpus as f64 / cores);
        found("php", "pool-too-small", sentence, evidence, Some(room.clamp(1.0, 20.0)))
    }

    fn worker(&self, at: At) -> Option<Diagnosis> {
        match at {
            At::Running => self.php_cpu(),
            At::Database => self.full_database().or_else(|| self.slow_database()),
            At::File => self.slow_disk("PHP"),
            At::Lock => self.locked_file(),
            At::Others => self.slow_service(),
            At::Client => self.slow_network(),
            At::Sleep => self.application_waits("pauses by itself (sleep)"),
            At::Memory => {
                self.application_waits("waits for pages of its memory that must be read from a disk")
            }
            At::Other => self.application_waits("waits for a program that it has started, or for a lock"),
        }
    }

    /// Others have the CPUs, and those that are seen want them.
    fn others_have_the_cpus(&self, tier: &TierFigures) -> Option<Diagnosis> {
        let m = self.m;
        if m.busy_share < FULL || tier.waited_share < 0.5 || used(m) >= m.cpus as f64 * 0.4 {
            return None;
        }
        let sentence = format!(
            "The machine is busy with others: {} of its CPUs are at work, {:.2} of {} for this site.",
            percent(m.busy_share),
            used(m),
            m.cpus
        );
        found("machine", "machine-busy-with-others", sentence, Vec::new(), None)
    }

    fn php_cpu(&self) -> Option<Diagnosis> {
        let (tier, waits) = self.workers.main()?;
        if let Some(others) = self.others_have_the_cpus(tier) {
            return Some(others);
        }
        let compiling = waits.read_bytes / COMPILED_BYTES_PER_US;
        if waits.shares_code == Some(false) && tier.cpu_us > 0.0 && compiling >= tier.cpu_us * 0.2 {
            let sentence = format!(
                "OPcache is off: PHP reads and compiles {:.0} kB of source for each response, on a CPU for {:.1} ms of it.",
                waits.read_bytes / 1e3,
                tier.cpu_us / 1e3
            );
            let evidence = vec![format!("the processes of {} share no memory for compiled code", tier.name)];
            return found("php", "opcache-off", sentence, evidence, self.gain());
        }
        let running = self.places.at(Place::Worker(At::Running));
        if self.wants_more_cpu(running) {
            let sentence = format!(
                "The CPU that PHP needs is the limit: {running:.1} of its processes want one of {} CPUs at a time.",
                self.m.cpus
            );
            let evidence = vec![format!("{:.1} ms of CPU per response", tier.cpu_us / 1e3)];
            return found("php", "php-cpu", sentence, evidence, self.gain());
        }
        let sentence = format!(
            "Nothing is full. The page itself takes {:.1} ms on a CPU in PHP: make the application do less, or keep its pages.",
            tier.cpu_us / 1e3
        );
        found("application", "application-cpu", sentence, Vec::new(), None)
    }

    /// The database, if something of it is full.
    fn full_database(&self) -> Option<Diagnosis> {
        let m = self.m;
        let locks = super::database(m).filter(|found| found.cause == "database-locks");
        if locks.is_some() {
            return locks;
        }
        if let Some(scan) = self.scan() {
            return Some(scan);
        }
        let tier = m.tiers.iter().find(|tier| tier.role == Role::Database)?;
        if let Some(queries) = tier.queries.filter(|queries| queries.disk_pending >= 0.5) {
            let sentence = format!(
                "The database waits for the disk: {:.1} of its reads and writes at a time.",
                queries.disk_pending
            );
            let memory =
                format!("{} of the pages that it wants are in its memory", percent(queries.memory_hits));
            return found("disk", "disk-busy", sentence, vec![memory], self.gain());
        }
        if let Some(found) = super::database(m) {
            return Some(found);
        }
        // What it wants of the CPUs, whoever else wants them.
        let wants = tier.cores * (1.0 + tier.waited_share);
        let evidence = || {
            [vec![format!("{:.1} ms of its CPU per response", tier.cpu_us / 1e3)], self.queries()].concat()
        };
        if tier.cores >= used(m) * MOST && wants >= m.cpus as f64 * HUNGRY {
            let sentence =
                format!("The database's CPU is the limit: it wants {wants:.1} of {} CPUs at a time.", m.cpus);
            return found("database", "database-cpu", sentence, evidence(), self.gain());
        }
        if tier.busiest_share * (1.0 + tier.waited_share) >= FULL {
            let sentence = format!(
                "One thread of {} is the limit: it is on a CPU, or wants one, all the time.",
                tier.name
            );
            return found("database", "database-one-thread", sentence, evidence(), self.gain());
        }
        None
    }

    /// A query without an index, if it is what the database is at.
    fn scan(&self) -> Option<Diagnosis> {
        let is_scan = |query: &&SlowQuery| {
            let plan = query.plan.as_ref();
            query.share >= BLOCKED && plan.is_some_and(|plan| plan.is_scan && plan.rows >= SCANNED_ROWS)
        };
        let query = self.m.slow.iter().find(is_scan)?;
        let plan = query.plan.as_ref()?;
        let sentence = format!(
            "The database looks through all of table {} ({} rows) for a query: an index is missing.",
            plan.table, plan.rows
        );
        let mut evidence = self.queries();
        if plan.has_temporary || plan.has_sort {
            evidence.push("EXPLAIN says that it sorts, or makes a temporary table".to_owned());
        }
        found("database", "database-missing-index", sentence, evidence, self.gain())
    }

    fn queries(&self) -> Vec<String> {
        let line = |query: &SlowQuery| {
            let plan = query.plan.as_ref().map_or(String::new(), |plan| {
                let how = if plan.is_scan { "no index, " } else { "" };
                format!(" ({how}{} rows of {})", plan.rows, plan.table)
            });
            format!("{} of running queries: {}{plan}", percent(query.share), query.text)
        };
        let mut lines: Vec<String> = self.m.slow.iter().take(3).map(line).collect();
        if self.m.disk_tables > 0 {
            lines.push(format!("{} temporary tables were made on a disk", self.m.disk_tables));
        }
        lines
    }

    fn slow_database(&self) -> Option<Diagnosis> {
        let sentence = format!(
            "Nothing is full. PHP waits for the database: {} are there, which is not full itself.",
            self.of_all(self.count)
        );
        found("application", "application-waits", sentence, self.queries(), None)
    }

    fn slow_disk(&self, who: &str) -> Option<Diagnosis> {
        let m = self.m;
        if m.disk_busy_share >= FULL {
            let sentence = format!(
                "The disk is the limit: it has something to do {} of the time, and {who} waits for it.",
                percent(m.disk_busy_share)
            );
            let evidence = vec![format!("{:.1} ms per read or write", m.disk_await_ms)];
            return found("disk", "disk-busy", sentence, evidence, self.gain());
        }
        let sentence = format!(
            "Files are slow: {who} waits for them with {}, and no disk of this machine is full (a network file system, or a limit).",
            self.of_all(self.count)
        );
        let evidence =
            vec![format!("the busiest disk has something to do {} of the time", percent(m.disk_busy_share))];
        found("disk", "disk-slow", sentence, evidence, self.gain())
    }

    fn locked_file(&self) -> Option<Diagnosis> {
        let (_, waits) = self.workers.main()?;
        let is_session = waits.lock_file.rsplit('/').next().is_some_and(|name| name.starts_with("sess_"));
        let sentence = format!(
            "Requests wait for each other: {:.1} PHP processes wait for the same locked file{}.",
            self.workers.sum(|waits| waits.lock),
            if is_session { ", a session" } else { "" }
        );
        let folder = waits.lock_file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let evidence = vec![
            format!("the file is in {folder}"),
            "more processes would wait as well; session_write_close() as soon as the session is read lets others in".to_owned(),
        ];
        found(
            "application",
            if is_session { "session-lock" } else { "file-lock" },
            sentence,
            evidence,
            self.gain(),
        )
    }

    fn slow_service(&self) -> Option<Diagnosis> {
        let (_, waits) = self.workers.main()?;
        let peer = waits.most_waited_for()?;
        let sentence = format!(
            "Nothing here is full. PHP waits for {}: {} are there.",
            peer.name,
            self.of_all(self.workers.sum(WaitFigures::others))
        );
        let each: Vec<String> =
            waits.peers.iter().map(|peer| format!("{:.1} wait for {}", peer.count, peer.name)).collect();
        found("application", "service-slow", sentence, each, self.gain())
    }

    fn application_waits(&self, what: &str) -> Option<Diagnosis> {
        let sentence = format!("Nothing is full. The page itself {what}: {} do.", self.of_all(self.count));
        found("application", "application-waits", sentence, Vec::new(), None)
    }

    fn server_waits(&self, peer: &Peer) -> Option<Diagnosis> {
        let sentence =
            format!("The web server waits for {}: {:.1} requests are there.", peer.name, peer.count);
        found("application", "service-slow", sentence, Vec::new(), self.gain())
    }

    /// The server has most requests, and no worker of PHP does.
    fn server(&self) -> Option<Diagnosis> {
        let m = self.m;
        let tier = m.tiers.iter().find(|tier| tier.role == Role::Server)?;
        let waits = tier.waits.as_ref()?;
        let is_most = |peer: &&Peer| peer.count >= self.count * BLOCKED;
        if let Some(peer) = waits.most_waited_for().filter(is_most) {
            return self.server_waits(peer);
        }
        if waits.file > waits.running && waits.file >= BLOCKED {
            return self.slow_disk("the web server");
        }
        if waits.busiest < HUNGRY {
            // It computes nothing and has many connections to one address: of these the kernel's clocks do not say more.
            if let Some(peer) = waits.may_wait_for().filter(|peer| is_most(&peer)) {
                return self.server_waits(&peer);
            }
            let sentence = format!(
                "It cannot be told: the web server has {}, and is at nothing that can be seen.",
                self.of_all(self.count)
            );
            return found("unknown", "nothing-full", sentence, Vec::new(), None);
        }
        if let Some(others) = self.others_have_the_cpus(tier) {
            return Some(others);
        }
        let evidence = vec![format!("{:.2} ms of its CPU per response", tier.cpu_us / 1e3)];
        let is_one = waits.running < 1.3 && m.busy_share < FULL && m.cpus > 1;
        if is_one {
            let sentence = format!(
                "One thread of {} is the limit: it wants a CPU {} of the time while the machine is {} busy.",
                tier.name,
                percent(waits.busiest),
                percent(m.busy_share)
            );
            return found("server", "server-one-thread", sentence, evidence, self.gain());
        }
        let sentence = format!(
            "The web server's CPU is the limit: it has {}, and its threads want {:.1} of {} CPUs at a time.",
            self.of_all(self.count),
            waits.running,
            m.cpus
        );
        found("server", "server-cpu", sentence, evidence, self.gain())
    }

    /// Nobody here has most of the requests.
    fn way(&self) -> Option<Diagnosis> {
        let m = self.m;
        if let Some(found) = self.short_backlog() {
            return Some(found);
        }
        let is_transfer = m.around.transfer_us >= m.wall_us * BLOCKED && m.wall_us > 0.0;
        if is_transfer && m.around.bytes >= HEAVY_BYTES {
            let sentence = format!(
                "The page is heavy: its {:.0} kB take {:.0} of {:.0} ms on the way; nothing here is full.",
                m.around.bytes / 1e3,
                m.around.transfer_us / 1e3,
                m.wall_us / 1e3
            );
            return found("network", "page-weight", sentence, Vec::new(), self.gain());
        }
        self.slow_network()
    }

    fn slow_network(&self) -> Option<Diagnosis> {
        // Fewer than one at a time: none waits for another.
        if self.m.around.has_pauses && self.places.all < 1.0 {
            if self.places.share(self.count) * self.m.wall_us < WAY_US {
                return nothing_limits(&self.places);
            }
            // A server that must wait for a CPU before it reads a request leaves it on the way.
            let waits_as_long = |tier: &&TierFigures| tier.cores * tier.waited_share >= BLOCKED * self.count;
            let front = self.m.tiers.iter().find(|tier| tier.waits.is_some()).filter(waits_as_long);
            if let Some(others) = front.and_then(|tier| self.others_have_the_cpus(tier)) {
                return Some(others);
            }
        }
        let sentence = format!(
            "The network is the limit: {} are on the way, and nothing here is full.",
            self.of_all(self.count)
        );
        found("network", "network-slow", sentence, Vec::new(), self.gain())
    }
}

#[cfg(test)]
mod tests;
