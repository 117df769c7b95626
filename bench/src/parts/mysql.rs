//! Sessions with a database: CPU per query of what stands between, against HAProxy in TCP mode and nginx's `stream`, by sysbench; and
//! sessions as short as PHP's, for which the databases' CPU counts, too.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use brisk_load::system;
use serde_json::Value;

use super::stream::modules;
use super::{Findings, Measured, brisk, named, nginx, ours_over_peer, plain_row};
use crate::conf::{Conf, Splitting};
use crate::lab::{LOAD_CPU, Lab};
use crate::mariadb::{self, Databases, LOAD, PROBE, SYSBENCH};
use crate::mysql::Session;
use crate::process::between;
use crate::results::{Check, Target};
use crate::rounds::{Sample, Samples, interleave_with, rates};
use crate::server::{Prepared, Program, Server, Spec, free_port, present};
use crate::stats::{Summary, median};

/// Connections of sysbench.
const THREADS: usize = 16;
/// Queries before each measurement.
const FIRST_EVENTS: usize = 1000;
/// Clients of short sessions, and connections that are kept for them.
const CLIENTS: usize = 8;
const POOL: usize = 16;
const QUERY: &str = "SELECT c FROM sbtest1 WHERE id = 5000";
/// How long Brisk may take to know servers and accounts.
const KNOWN_MAX: Duration = Duration::from_secs(30);
/// Fewer of the reads at replicas: what was measured is not splitting.
const SPLIT_SHARE_MIN: f64 = 0.9;

const DIRECT: &str = "direct";
const SPLIT: &str = "brisk split";
const ONE_POOL: &str = "brisk pool";
const LEAST: &str = "floor";
const DATABASES_UNIT: &str = "µs CPU/request of the databases";

/// A test of sysbench: its name here, its arguments, and whether each of its statements can be seen to be a read.
const TESTS: [(&str, &[&str], bool); 4] = [
    ("point selects", &["oltp_point_select", "--db-ps-mode=disable"], true),
    ("point selects, prepared", &["oltp_point_select", "--db-ps-mode=auto"], false),
    ("read only", &["oltp_read_only", "--skip-trx=on", "--db-ps-mode=disable"], true),
    ("read only, prepared", &["oltp_read_only", "--skip-trx=on", "--db-ps-mode=auto"], false),
];

/// A way to the databases.
struct Way {
    name: String,
    /// What stands between.
    server: Option<Prepared>,
    /// Where a server that splits tells what it knows, and how many servers it has.
    splits: Option<(u16, usize)>,
}

/// A way that is open.
struct Open {
    server: Option<Server>,
    port: u16,
}

/// The databases, and all ways to them.
struct Places<'l> {
    lab: &'l Lab,
    databases: Databases,
    sysbench: PathBuf,
    password: PathBuf,
}

/// See the module's head.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let places = Places::new(lab)?;
    let mut findings = Findings::default();
    places.queries(&mut findings)?;
    places.sessions(&mut findings)?;
    Ok(findings)
}

impl<'l> Places<'l> {
    fn new(lab: &'l Lab) -> io::Result<Places<'l>> {
        let sysbench = present(Path::new(SYSBENCH))?;
        let databases = Databases::start(lab)?;
        let password = lab.server_dir("probe")?.join("password");
        fs::write(&password, format!("{PROBE}\n"))?;
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600))?;
        let places = Places { lab, databases, sysbench, password };
        places.sysbench(places.databases.primary(), &["oltp_read_only"], "prepare")?;
        places.databases.catch_up()?;
        Ok(places)
    }

    /// Straight to the primary.
    fn direct() -> Way {
        Way { name: DIRECT.to_owned(), server: None, splits: None }
    }

    /// Through a server that passes sessions on as they are.
    fn whole(&self) -> io::Result<Vec<Way>> {
        let conf = Conf::default().streamed(self.databases.primary());
        let specs = [
            brisk(conf.clone()),
            nginx(Conf { modules: modules(), ..conf.clone() }),
            Spec::new("haproxy", Program::Haproxy, conf),
        ];
        let way = |spec: &Spec| {
            Ok(Way { name: spec.name.clone(), server: Some(spec.prepare(self.lab)?), splits: None })
        };
        specs.iter().map(way).collect()
    }

    /// Through Brisk, which knows so many of the servers.
    fn split(&self, name: &str, servers: usize, pool: usize) -> io::Result<Way> {
        let api = free_port()?;
        let servers: Vec<u16> = self.databases.ports().into_iter().take(servers).collect();
        let splits = Some((api, servers.len()));
        let conf =
            Conf::default().split(Splitting { servers, probe: (PROBE, self.password.clone()), api, pool });
        let server = Spec::new(name, Program::Brisk, conf).prepare(self.lab)?;
        Ok(Way { name: name.to_owned(), server: Some(server), splits })
    }

    fn open(&self, way: &Way) -> io::Result<Open> {
        let Some(prepared) = &way.server else {
            return Ok(Open { server: None, port: self.databases.primary() });
        };
        let server = prepared.start()?;
        if let Some((api, servers)) = way.splits {
            await_known(api, servers)?;
        }
        Ok(Open { port: server.address.port(), server: Some(server) })
    }

    /// What sysbench prints.
    fn sysbench(&self, port: u16, test: &[&str], what: &str) -> io::Result<String> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), &LOAD_CPU.to_string()]).arg(&self.sysbench);
        command.args(["--mysql-host=127.0.0.1", &format!("--mysql-port={port}")]);
        command.args(["user", "password", "db"].map(|name| format!("--mysql-{name}={LOAD}")));
        let output = command.args(test).args(what.split(' ')).output()?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(io::Error::other(format!("sysbench {} {what}: {text}", test.join(" "))))
    }
}

/// Waits until Brisk has asked all servers, and knows their accounts.
fn await_known(api: u16, servers: usize) -> io::Result<()> {
    let end = Instant::now() + KNOWN_MAX;
    loop {
        let status = status(api)?;
        let read_from = status["servers"].as_array().into_iter().flatten();
        let read_from = read_from.filter(|server| server["reads"] == true).count();
        if read_from == servers && status["accounts"].as_u64() > Some(0) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(io::Error::other(format!("Brisk does not know its databases: {status}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the API says of the databases.
fn status(api: u16) -> io::Result<Value> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, api))?;
    socket.set_read_timeout(Some(KNOWN_MAX))?;
    socket.write_all(b"GET /api/9/databases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let all: Value = serde_json::from_str(body).map_err(io::Error::other)?;
    Ok(all["db"].clone())
}

/// Reads that replicas have answered.
fn replica_reads(way: &Way) -> io::Result<u64> {
    let Some((api, _)) = way.splits else { return Ok(0) };
    status(api)?["statements"]["replica_reads"]
        .as_u64()
        .ok_or_else(|| io::Error::other("Brisk does not say how many reads were split"))
}

impl Places<'_> {
    fn queries(&self, findings: &mut Findings) -> io::Result<()> {
        let mut ways = vec![Places::direct()];
        ways.extend(self.whole()?);
        ways.push(self.split(SPLIT, self.databases.ports().len(), 0)?);
        let count = TESTS.len() * ways.len();
        let shares: Vec<RefCell<Vec<f64>>> = (0..count).map(|_| RefCell::default()).collect();
        let samples = interleave_with(self.lab, count, |index| {
            let (test, way) = (&TESTS[index / ways.len()], &ways[index % ways.len()]);
            let (sample, share) = self.query(way, test.1)?;
            if way.splits.is_some() && test.2 && share < SPLIT_SHARE_MIN {
                let share = share * 100.0;
                return Err(io::Error::other(format!("{}: only {share:.1} % at replicas", test.0)));
            }
            shares[index].borrow_mut().push(share * 100.0);
            Ok(sample)
        })?;
        let mut samples = samples.into_iter().zip(shares);
        for (case, ..) in TESTS {
            let of_case: Vec<(Samples, Vec<f64>)> =
                samples.by_ref().take(ways.len()).map(|(one, shares)| (one, shares.into_inner())).collect();
            if let Some((_, shares)) = of_case.last() {
                findings.rows.push(plain_row(case, SPLIT, shares, "% of queries at replicas"));
            }
            let of_case = of_case.into_iter().map(|(samples, _)| samples).collect();
            let measured = add(findings, case, &ways, of_case, THREADS, "µs per query");
            let pairs = [("brisk", "haproxy", 1.0), ("brisk", "nginx usual", 1.0), (SPLIT, "haproxy", 1.6)];
            for (ours, peer, at_most) in pairs {
                compare(findings, case, &measured, (ours, peer), at_most);
            }
        }
        Ok(())
    }

    /// CPU of what stands between, and the share of queries that replicas have answered.
    fn query(&self, way: &Way, test: &[&str]) -> io::Result<(Sample, f64)> {
        let open = self.open(way)?;
        let threads = format!("--threads={THREADS}");
        self.sysbench(open.port, test, &format!("{threads} --time=0 --events={FIRST_EVENTS} run"))?;
        let seconds = self.lab.options.measure.as_secs_f64().ceil();
        let reads = replica_reads(way)?;
        let cpu = || open.server.as_ref().map(Server::thread_cpu).unwrap_or_default();
        let (before, begun) = (cpu(), Instant::now());
        let text = self.sysbench(open.port, test, &format!("{threads} --time={seconds} run"))?;
        let (account, elapsed) = (between(&before, &cpu()), begun.elapsed().as_secs_f64());
        let reads = replica_reads(way)? - reads;
        let (queries, seconds) = parse(&text)
            .filter(|(queries, _)| *queries > 0.0)
            .ok_or_else(|| io::Error::other(format!("{}: sysbench says {text}", way.name)))?;
        let sample = Sample {
            cpu_us: account.ran_ns as f64 / 1e3 / queries,
            beside_us: 0.0,
            rate: queries / seconds,
            server_share: account.ran_ns as f64 / 1e9 / elapsed,
            // sysbench and the databases share a core: how long they wait for each other says nothing.
            waited_share: account.waited_ns as f64 / 1e9 / elapsed,
        };
        Ok((sample, reads as f64 / queries))
    }

    fn sessions(&self, findings: &mut Findings) -> io::Result<()> {
        let mut ways = vec![Places::direct()];
        ways.extend(self.whole()?);
        ways.push(self.split(SPLIT, 1, 0)?);
        ways.push(self.split(ONE_POOL, 1, POOL)?);
        ways.push(self.split("brisk pool, replicas", self.databases.ports().len(), POOL)?);
        let least = Program::Sessions { back_end: self.databases.primary() };
        let least = Spec::new(LEAST, least, Conf::default()).prepare(self.lab)?;
        ways.push(Way { name: LEAST.to_owned(), server: Some(least), splits: None });
        let samples = interleave_with(self.lab, ways.len(), |index| self.session(&ways[index]))?;
        let case = "sessions of one query";
        let measured = add(findings, case, &ways, samples, CLIENTS, "µs per session");
        compare(findings, case, &measured, (ONE_POOL, DIRECT), 1.0);
        compare(findings, case, &measured, (ONE_POOL, LEAST), 1.15);
        compare(findings, case, &measured, (LEAST, DIRECT), 1.0);
        for one in &measured {
            findings.rows.push(plain_row(case, &one.server, &beside(one), DATABASES_UNIT));
        }
        if let (Some(ours), Some(peer)) = (named(&measured, ONE_POOL), named(&measured, DIRECT)) {
            let (ours, peer) = (beside(ours), beside(peer));
            findings.checks.push(Check {
                what: format!("{case}: {ONE_POOL} / {DIRECT}, the databases alone"),
                ours: median(&ours),
                peer: Some(median(&peer)),
                unit: DATABASES_UNIT.to_owned(),
                figure: Summary::of_ratio(&ours, &peer),
                target: Target::AtMost(1.0),
            });
        }
        Ok(())
    }

    /// CPU of all that works for a session.
    fn session(&self, way: &Way) -> io::Result<Sample> {
        let open = self.open(way)?;
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|_| scope.spawn(|| client(open.port, &stop, &done))).collect();
            std::thread::sleep(self.lab.options.warmup);
            let cpu = || {
                let server = open.server.as_ref().map(Server::thread_cpu).unwrap_or_default();
                (server, self.databases.thread_cpu())
            };
            let (before, first, begun) = (cpu(), done.load(Ordering::Relaxed), Instant::now());
            std::thread::sleep(self.lab.options.measure);
            let (after, last, elapsed) = (cpu(), done.load(Ordering::Relaxed), begun.elapsed());
            stop.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().map_err(|_| io::Error::other("a client has panicked"))??;
            }
            if last == first {
                return Err(io::Error::other(format!("{}: no session: not a measurement", way.name)));
            }
            let (server, databases) = (between(&before.0, &after.0), between(&before.1, &after.1));
            let (count, seconds) = ((last - first) as f64, elapsed.as_secs_f64());
            Ok(Sample {
                cpu_us: (server.ran_ns + databases.ran_ns) as f64 / 1e3 / count,
                beside_us: databases.ran_ns as f64 / 1e3 / count,
                rate: count / seconds,
                server_share: server.ran_ns as f64 / 1e9 / seconds,
                waited_share: server.waited_ns as f64 / 1e9 / seconds,
            })
        })
    }
}

/// Connects, logs in, asks and leaves, again and again.
fn client(port: u16, stop: &AtomicBool, done: &AtomicU64) -> io::Result<()> {
    system::pin_to_cpu(LOAD_CPU)?;
    let account = mariadb::account();
    while !stop.load(Ordering::Relaxed) {
        let mut session = Session::open(port, &account)?;
        session.ask(QUERY)?;
        session.leave()?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Adds what all ways have cost in one case, and how long one has taken on so many connections.
fn add(
    findings: &mut Findings,
    case: &str,
    ways: &[Way],
    samples: Vec<Samples>,
    connections: usize,
    unit: &str,
) -> Vec<Measured> {
    let names = ways.iter().map(|way| way.name.clone());
    let measured: Vec<Measured> =
        names.zip(samples).map(|(server, samples)| Measured { server, samples }).collect();
    for one in &measured {
        let times: Vec<f64> =
            rates(&one.samples).iter().map(|rate| connections as f64 * 1e6 / rate).collect();
        findings.rows.push(plain_row(case, &one.server, &times, unit));
        // Straight to the primary no CPU is lost on the way.
        if one.cpu().iter().any(|cpu| *cpu > 0.0) {
            findings.add(case, one);
        }
    }
    measured
}

/// What a session has cost the databases, round by round.
fn beside(measured: &Measured) -> Vec<f64> {
    measured.samples.iter().map(|sample| sample.beside_us).collect()
}

fn compare(
    findings: &mut Findings,
    case: &str,
    measured: &[Measured],
    (ours, peer): (&str, &str),
    at_most: f64,
) {
    if let (Some(one), Some(other)) = (named(measured, ours), named(measured, peer)) {
        findings.checks.push(ours_over_peer(format!("{case}: {ours} / {peer}"), one, other, at_most));
    }
}

/// Queries and seconds, as sysbench prints them.
fn parse(text: &str) -> Option<(f64, f64)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
        line.split_whitespace().next()?.trim_end_matches('s').parse::<f64>().ok()
    };
    Some((field("queries:")?, field("total time:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysbench_prints() {
        let text = "SQL statistics:\n    queries performed:\n        read:                            30338\n\
                    \x20   transactions:                        30338  (15127.85 per sec.)\n\
                    \x20   queries:                             30338  (15127.85 per sec.)\n\n\
                    General statistics:\n    total time:                          2.0041s\n";
        assert_eq!(parse(text), Some((30_338.0, 2.0041)));
        assert_eq!(parse("FATAL: unable to connect"), None);
    }
}
