//! A load on one page or of a scenario's users, or others' traffic, with the tiers of the site watched beside it.

use super::database::{self, Asked, Asker};
use super::files::Read;
use super::traffic_log::Logs;
use crate::tune::tier::address_of;
use crate::tune::traffic::{Kind, Traffic, target_of};
use brisk_load::arrivals::Rate;
use brisk_load::beside;
use brisk_load::cli::tls;
use brisk_load::plan::{Plan, RequestOptions, Stop, Version, sites};
use brisk_load::report::RunReport;
use brisk_load::system;
use brisk_load::url::{Place, Url};
use brisk_load::watch::{
    self, Doing, Door, MachineSummary, Tier, TierSummary, Waiting, Waits, Watch, Which, Who, proc,
};
use brisk_tune::diagnosis::figures::{Peer, Surroundings, WaitFigures};
use brisk_tune::diagnosis::{Measured, PoolFigures, QueryFigures, Role, TierFigures, TurnedAway};
use std::time::{Duration, Instant};

/// What runs the pools of Brisk's own: a program of its own, else PHP-FPM or php-cgi.
const POOL_PROGRAMS: &[&str] = &["brisk-php", "php-fpm", "php-cgi"];

/// What is done before the counted part.
pub const WARMUP: Duration = Duration::from_secs(1);
/// Between two looks at whether the user wants the end.
const LOOK: Duration = Duration::from_millis(50);
/// Where databases usually listen, and what their sockets are called.
const DATABASES: &[&str] = &[":3306", "mysql", "maria", ":5432", "PGSQL"];

/// What asks.
pub enum Asks {
    /// Users who ask for this page, or requests at a rate.
    Page(Url, Option<Rate>),
    /// Users of a scenario.
    Scenario(String),
    /// Nobody of ours: the traffic of the site with this address.
    Others(Url),
}

/// The load.
pub struct Load {
    pub asks: Asks,
    pub users: Option<usize>,
    pub time: Duration,
    /// The option file with which the database is asked.
    pub login: Option<String>,
}

/// Users who ask for a page where nothing else is said.
const USERS: usize = 10;

impl Load {
    /// Where the site is.
    pub fn url(&self) -> Result<Url, String> {
        match &self.asks {
            Asks::Page(url, _) | Asks::Others(url) => Ok(url.clone()),
            Asks::Scenario(file) => target_of(file),
        }
    }
}

/// The tiers that are there, with what each is for.
pub fn tiers(place: &Place, read: &Read) -> Vec<(Tier, Role)> {
    let mut all = Vec::new();
    // A pool can be found by its file and below the server: its processes count once.
    let mut seen: Vec<(Role, u32)> = Vec::new();
    let mut add = |name: &str, who: Who, role: Role| {
        let processes = who.processes();
        let is_new = !processes.iter().any(|pid| seen.contains(&(role, *pid)));
        seen.extend(processes.iter().map(|pid| (role, *pid)));
        if is_new && !processes.is_empty() {
            all.push((Tier { name: name.to_string(), who: Some(who), source: None }, role));
        }
    };
    let door = match place {
        Place::Name(_, port) => Door::Port(own_port(*port, read)),
        Place::Unix(path) => Door::Socket(path.clone()),
    };
    let at_door = |which: Which| Who::Listening(door.clone(), which);
    // The pools that Brisk runs itself are a tier of their own.
    let php = at_door(Which::Named(POOL_PROGRAMS));
    let has_php = !php.processes().is_empty();
    let server = at_door(if has_php { Which::Own } else { Which::All });
    if proc::has_library(&door.listeners(), "libphp") {
        // PHP is a part of the web server: its processes are the pool.
        let workers = at_door(Which::Workers);
        add("apache", if workers.processes().is_empty() { server } else { workers }, Role::Php);
    } else {
        add("server", server, Role::Server);
    }
    add("php", php, Role::Php);
    for pool in read.site.pools.sections() {
        if !matches!(pool, "" | "global") {
            let listen = read.site.pools.get_in(&[pool], "listen").map(|entry| address_of(&entry.value));
            let door = listen.and_then(|address| match address.rsplit_once(':') {
                _ if address.starts_with('/') => Some(Door::Socket(address.into())),
                Some((_, port)) => port.parse().ok().map(Door::Port),
                None => None,
            });
            // What cannot be told by its address has a name.
            let workers = door.map(|door| Who::Listening(door, Which::Workers));
            let workers = workers.filter(|workers| !workers.processes().is_empty());
            let who = workers.unwrap_or_else(|| Who::Pool(pool.to_string()));
            add(pool, who, Role::Php);
        }
    }
    let databases = database::processes();
    for (name, pid) in &databases {
        match &databases[..] {
            [_] => add(name, Who::Command((*name).to_string()), Role::Database),
            // Each is one of its own: who is asked by this site is seen.
            _ => add(&format!("{name} {pid}"), Who::Tree(*pid), Role::Database),
        }
    }
    all
}

/// The port of the site's own server: what listens at the asked port may be on the way to it.
fn own_port(asked: u16, read: &Read) -> u16 {
    let Some(site) = &read.site.server else { return asked };
    let listens = site.found("listen");
    let port = |args: &&[String]| {
        let first = args.first()?;
        first.rsplit_once(':').map_or(&**first, |(_, port)| port).parse::<u16>().ok()
    };
    let ports: Vec<u16> = listens.iter().filter_map(port).collect();
    let has_server = |port: &&u16| !proc::listening_on(**port).is_empty();
    match ports.iter().find(has_server) {
        Some(own) if !ports.contains(&asked) => *own,
        _ => asked,
    }
}

/// Whether the site's own server listens where it is asked, by TCP.
fn is_direct(place: &Place, read: &Read) -> bool {
    matches!(place, Place::Name(_, port) if own_port(*port, read) == *port)
}

/// What looks beside a load.
pub struct Looks {
    tiers: Vec<Tier>,
    roles: Vec<Role>,
    waits: Option<Waits>,
    asker: Option<Asker>,
    /// The server itself is asked, by TCP.
    is_direct: bool,
}

impl Looks {
    /// Begins to look at the tiers of the site that is asked there. The error says why the database cannot be asked as `login` says.
    pub fn start(place: &Place, read: &Read, login: Option<&str>) -> Result<Looks, String> {
        let mut all = tiers(place, read);
        let source = match database::login(login) {
            Ok(source) => Some(source),
            Err(why) if login.is_some() => return Err(format!("--mysql-login: {why}")),
            // It is looked at from outside.
            Err(_) => None,
        };
        let asker = source.as_ref().and_then(Asker::start);
        if let (Some(source), true) = (source, asker.is_some()) {
            let own = database::pids(&source);
            let is_it = |tier: &Tier| {
                tier.who.as_ref().is_some_and(|who| who.processes().iter().any(|pid| own.contains(pid)))
            };
            // The one that is asked is the site's; others that run here are not.
            all.retain(|(tier, role)| *role != Role::Database || own.is_empty() || is_it(tier));
            if let Some((tier, _)) = all.iter_mut().find(|(tier, _)| is_it(tier)) {
                tier.source = Some(source);
            }
        }
        let (tiers, roles): (Vec<Tier>, Vec<Role>) = all.into_iter().unzip();
        let who: Vec<Who> = tiers.iter().filter_map(|tier| tier.who.clone()).collect();
        let waits = Waits::start(&who).ok();
        Ok(Looks { tiers, roles, waits, asker, is_direct: is_direct(place, read) })
    }

    /// Has a load go on, and gives it with what was seen meanwhile. `has_pauses`: see [`Surroundings`].
    pub fn beside(
        self,
        has_pauses: bool,
        load: impl FnOnce(&[Tier]) -> Result<RunReport, String>,
    ) -> Result<(RunReport, Measured), String> {
        let (swapped, begun) = (swapped_in(), Instant::now());
        let run = load(&self.tiers)?;
        let seconds = begun.elapsed().as_secs_f64();
        let span = run.watched.as_ref().map(|beside| {
            let origin = beside.watched.origin;
            (origin + beside.from, origin + beside.to)
        });
        let mut found = figures(&run, &self.roles);
        found.around.swapped_in = swapped_in().saturating_sub(swapped) as f64 / seconds.max(1e-3);
        found.around.has_pauses = has_pauses;
        found.around.is_closed_loop = !has_pauses && self.is_direct;
        let (waiting, asked) = self.finish(span);
        complete(&mut found, &waiting, asked, run.outcome.stats.responses_in_time());
        Ok((run, found))
    }

    fn finish(self, span: Option<(Instant, Instant)>) -> (Vec<Waiting>, Asked) {
        let waits = self.waits.zip(span).map(|(waits, (from, to))| waits.finish(from, to));
        (waits.unwrap_or_default(), self.asker.map(Asker::finish).unwrap_or_default())
    }
}

/// Has the load go on, and gives what was seen. The error says why it could not be done.
pub fn measure(load: &Load, read: &Read) -> Result<Measured, String> {
    let url = load.url()?;
    let start = || Looks::start(&url.origin.place, read, load.login.as_deref());
    let Some(traffic) = traffic(load, &url) else { return attached(load.time, start()?) };
    let woken = traffic.wake(WARMUP);
    if let Kind::Scenario { .. } = traffic.kind {
        // What comes of a page's one request is seen in the run.
        woken?;
    }
    let (run, found) = start()?.beside(traffic.has_pauses(), |tiers| run(&traffic, load.time, tiers))?;
    if run.outcome.stats.responses() == 0 {
        return Err(format!("nothing was answered at {url}"));
    }
    Ok(found)
}

/// What asks; `None`: others do.
fn traffic(load: &Load, url: &Url) -> Option<Traffic> {
    let kind = match &load.asks {
        Asks::Page(_, rate) => Kind::Page { users: load.users.unwrap_or(USERS), rate: *rate },
        Asks::Scenario(file) => Kind::Scenario { file: file.clone(), users: load.users },
        Asks::Others(_) => return None,
    };
    Some(Traffic { kind, url: url.clone(), address: None })
}

fn run(traffic: &Traffic, time: Duration, tiers: &[Tier]) -> Result<RunReport, String> {
    let Kind::Page { users, rate } = traffic.kind else { return traffic.run_awake(WARMUP, time, tiers) };
    let urls = std::slice::from_ref(&traffic.url);
    let sites = sites(urls, &RequestOptions::default()).map_err(|error| error.to_string())?;
    let plan = Plan {
        tls: tls(urls, Version::H1, false)?,
        warmup: WARMUP,
        phases: true,
        rate,
        ..Plan::new(sites, users, Stop::After(time))
    };
    beside::run(&plan, tiers).map_err(|error| error.to_string())
}

/// Looks at others' traffic for so long.
fn attached(time: Duration, looks: Looks) -> Result<Measured, String> {
    if looks.tiers.is_empty() {
        return Err("no program of the site was found here: run it where the site runs, as root".to_owned());
    }
    let pids: Vec<u32> =
        looks.tiers.iter().filter_map(|tier| tier.who.as_ref()).flat_map(Who::processes).collect();
    let logs = Logs::of(&pids);
    let watch = Watch::start(&looks.tiers, watch::EVERY).map_err(|error| error.to_string())?;
    let (from, swapped) = (Instant::now(), swapped_in());
    while from.elapsed() < time && !system::interrupted() {
        std::thread::sleep(LOOK.min(time.saturating_sub(from.elapsed())));
    }
    let to = Instant::now();
    let watched = watch.finish();
    let seconds = to.duration_since(from).as_secs_f64().max(1e-3);
    let written = logs.written();
    let begun = from.saturating_duration_since(watched.origin);
    let end = to.saturating_duration_since(watched.origin);
    let (tiers, machine) = watched.summary(begun, end, written.lines.max(1));
    let mut found = of_tiers(&tiers, &machine, &looks.roles);
    found.rate = written.lines as f64 / seconds;
    found.error_share = written.errors as f64 / written.lines.max(1) as f64;
    found.around.is_attached = true;
    found.around.seconds = seconds;
    found.around.swapped_in = swapped_in().saturating_sub(swapped) as f64 / seconds;
    let (waiting, asked) = looks.finish(Some((from, to)));
    complete(&mut found, &waiting, asked, written.lines);
    // Little's law: what is under way, and how much of it there is per second.
    if found.rate > 0.0 {
        let front = found.tiers.iter().find_map(|tier| tier.waits.as_ref());
        let under_way = front.map_or(0.0, |waits| waits.requests.unwrap_or(0.0) + waits.answers);
        found.wall_us = under_way / found.rate * 1e6;
    }
    Ok(found)
}

/// Pages that have come back from swap since the machine was started.
fn swapped_in() -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("pswpin ")?.trim().parse().ok()).unwrap_or(0)
}

/// What the diagnosis is made of. `roles`: what each watched tier is for.
fn figures(run: &RunReport, roles: &[Role]) -> Measured {
    let (tiers, machine) = run.tiers().unwrap_or_default();
    let stats = &run.outcome.stats;
    let responses = stats.responses().max(1) as f64;
    let first_byte =
        if stats.first_byte.count() > 0 { stats.first_byte.mean() } else { stats.latency.mean() };
    let mut found = of_tiers(&tiers, &machine, roles);
    found.users = run.users;
    found.rate = run.throughput();
    found.wall_us = stats.latency.mean() / 1e3;
    found.error_share = stats.error_share();
    let no_room = [502, 503].iter().filter_map(|status| stats.by_status.get(status)).sum::<u64>();
    found.turned_away = TurnedAway { share: no_room as f64 / responses, mean_us: stats.refused.mean() / 1e3 };
    found.generator_share = run.generator_share();
    found.generator_cores = run.generator().cpus();
    found.around.generator_waited_share = run.generator_waited_share();
    found.around.generator_late_us =
        stats.generator_waited_ns as f64 / stats.generator_turns.max(1) as f64 / 1e3;
    found.around.connect_us = (stats.connect.sum() + stats.handshake.sum()) as f64 / responses / 1e3;
    found.around.transfer_us = (stats.latency.mean() - first_byte).max(0.0) / 1e3;
    found.around.seconds = run.seconds();
    found.around.bytes = stats.bytes as f64 / responses;
    found
}

fn of_tiers(tiers: &[TierSummary], machine: &MachineSummary, roles: &[Role]) -> Measured {
    Measured {
        cpus: machine.cpus,
        busy_share: machine.busy_share,
        disk_busy_share: machine.disk_busy_share,
        disk_await_ms: machine.disk_await_ms,
        listen_drops: machine.listen_drops,
        tiers: tiers.iter().zip(roles).map(|(tier, role)| tier_figures(tier, *role)).collect(),
        around: Surroundings { memory_pressure: machine.pressure[1], ..Surroundings::default() },
        ..Measured::default()
    }
}

/// Adds what processes were found waiting for, and what the database said.
fn complete(found: &mut Measured, waiting: &[Waiting], asked: Asked, responses: u64) {
    let names: Vec<(String, Role)> = found.tiers.iter().map(|tier| (tier.name.clone(), tier.role)).collect();
    for (tier, waiting) in found.tiers.iter_mut().zip(waiting) {
        if waiting.looks > 0 && tier.role != Role::Database {
            tier.waits = Some(wait_figures(waiting, &names, responses));
        }
        if let Some(queries) = &mut tier.queries {
            queries.locked = queries.locked.max(asked.locked);
        }
    }
    found.slow = asked.slow;
    found.disk_tables = asked.disk_tables;
}

fn wait_figures(waiting: &Waiting, names: &[(String, Role)], responses: u64) -> WaitFigures {
    let of_tier = |index: usize, count: f64| {
        let (name, role) = names.get(index).cloned().unzip();
        Peer { name: name.unwrap_or_default(), role, count }
    };
    let of_address = |name: &String, count: f64| {
        let is_database = DATABASES.iter().any(|mark| name.contains(mark));
        Peer { name: name.clone(), role: is_database.then_some(Role::Database), count }
    };
    let mut peers: Vec<Peer> = Vec::new();
    let mut locks: Vec<(&String, f64)> = Vec::new();
    for (doing, count) in &waiting.doing {
        match doing {
            Doing::Tier(index) => peers.push(of_tier(*index, *count)),
            Doing::Peer(name) => peers.push(of_address(name, *count)),
            Doing::Lock(file) => locks.push((file, *count)),
            _ => {}
        }
    }
    // An event loop waits for many at once: its connections say for whom.
    let is_loop = peers.is_empty();
    peers.extend(waiting.asks.iter().filter(|_| is_loop).map(|(name, count)| of_address(name, *count)));
    let perhaps = waiting.may_ask.iter().map(|(name, count)| of_address(name, *count)).collect();
    let locked = locks.iter().map(|(_, count)| count).sum();
    let most = locks.into_iter().max_by(|left, right| left.1.total_cmp(&right.1));
    WaitFigures {
        tasks: waiting.tasks,
        running: waiting.at(&Doing::Running),
        file: waiting.at(&Doing::File),
        memory: waiting.at(&Doing::Memory),
        lock: locked,
        lock_file: most.map_or_else(String::new, |(file, _)| file.clone()),
        sleep: waiting.at(&Doing::Sleep),
        client: waiting.at(&Doing::Client),
        other: waiting.at(&Doing::Other),
        peers,
        perhaps,
        busiest: waiting.busiest,
        full_share: waiting.full_share,
        requests: waiting.has_connections.then_some(waiting.requests),
        answers: waiting.answers,
        quiet: waiting.quiet,
        queue_full_share: waiting.queue_full_share,
        read_bytes: waiting.read_bytes as f64 / responses.max(1) as f64,
        shares_code: waiting.shares_code,
    }
}

fn tier_figures(tier: &TierSummary, role: Role) -> TierFigures {
    TierFigures {
        name: tier.name.clone(),
        role,
        cpu_us: tier.cpu_us_per_response,
        cores: tier.cores,
        busiest_share: tier.busiest_share,
        waited_share: tier.waited_share,
        memory: tier.pss_max,
        waits: None,
        pool: tier.pool.as_ref().map(|pool| PoolFigures {
            busy: pool.busy,
            total: pool.total,
            queued: pool.queued,
            full_share: pool.full_share,
            blocked_share: pool.blocked_share,
        }),
        queries: tier.database.as_ref().map(|database| QueryFigures {
            running: database.running,
            locked: database.locked,
            connected: database.connected,
            refused: database.refused,
            memory_hits: database.buffer_hits,
            disk_pending: database.disk_pending,
        }),
    }
}
