//! What load generators cost: CPU per request of `brisk bench` and its peers, all on the same server.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use brisk_load::output;
use brisk_load::rng::Rng;

use super::{CPU_UNIT, Findings, Measured, named, nginx, ours_over_peer};
use crate::cli;
use crate::conf::Conf;
use crate::floor;
use crate::lab::{LOAD_CPU, Lab, SERVER_CPU};
use crate::results::{Check, Target};
use crate::rounds::{Sample, Samples};
use crate::server::{Server, free_port};
use crate::stats::{Summary, median};

/// [`crate::least::ask`], which looks at nothing that comes: nobody can cost less over epoll and TCP.
const LEAST: &str = "floor";
/// Connections of the cases over HTTP/1.1.
const CONNECTIONS: [usize; 4] = [1, 10, 100, 1000];
/// Connections of the case over HTTP/2, and requests at a time on each.
const HTTP2: (usize, usize) = (16, 16);
/// What ours may cost relative to a peer: with so many connections, or over HTTP/2.
const TARGETS: [(&str, Option<usize>, f64); 4] =
    [("wrk", Some(100), 0.9), ("oha", Some(100), 0.5), (LEAST, Some(100), 1.3), ("h2load", None, 0.8)];
/// Rounds, and the seconds of one measurement, unless others are asked for: five minutes for all generators and cases.
const USUAL: (usize, f64) = (5, 2.0);
/// The kernel's clock ticks per second, in which it says what children have used.
const TICKS: f64 = 100.0;

/// One load.
struct Ask<'a> {
    url: &'a str,
    seconds: f64,
    connections: usize,
    /// Requests at a time over HTTP/2; `None`: HTTP/1.1.
    streams: Option<usize>,
}

/// One generator.
struct Tool {
    name: &'static str,
    /// The command and its arguments; `None`: it cannot do that.
    command: fn(&Ask<'_>) -> Option<Vec<String>>,
    /// How many good responses it says it had.
    parse: fn(&str) -> Option<f64>,
}

fn words(text: &str, url: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).chain([url.to_owned()]).collect()
}

/// The first number behind `before`, which ends at anything but a digit or point.
fn number_after(text: &str, before: &str) -> Option<f64> {
    let rest = text.split_once(before)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number that stands before `after`.
fn number_before(text: &str, after: &str) -> Option<f64> {
    text.split_once(after)?.0.split_whitespace().next_back()?.parse().ok()
}

const TOOLS: [Tool; 7] = [
    Tool {
        name: "brisk",
        command: |ask| {
            let (seconds, connections) = (ask.seconds, ask.connections);
            let streams = ask.streams.map_or(String::new(), |streams| format!(" -m {streams}"));
            Some(words(
                &format!("brisk bench -q --json -t 1 -c {connections} -d {seconds}{streams}"),
                ask.url,
            ))
        },
        parse: |text| number_after(text, "\"responses\":"),
    },
    Tool {
        name: "wrk",
        command: |ask| {
            // It wants whole seconds.
            let (seconds, connections) = (ask.seconds.ceil(), ask.connections);
            let plain = ask.streams.is_none();
            plain.then(|| words(&format!("wrk -t1 -c{connections} -d{seconds}s"), ask.url))
        },
        parse: |text| number_before(text, " requests in "),
    },
    Tool {
        name: "ab",
        command: |ask| {
            let (seconds, connections) = (ask.seconds.ceil(), ask.connections);
            let plain = ask.streams.is_none();
            plain.then(|| words(&format!("ab -q -k -t {seconds} -n 100000000 -c {connections}"), ask.url))
        },
        parse: |text| number_after(text, "Complete requests:"),
    },
    Tool {
        name: "h2load",
        command: |ask| {
            let (seconds, connections) = (ask.seconds.ceil(), ask.connections);
            let kind = ask.streams.map_or("--h1".to_owned(), |streams| format!("-m{streams}"));
            Some(words(&format!("h2load -t1 {kind} -c{connections} -D{seconds}"), ask.url))
        },
        parse: |text| number_before(text, " 2xx"),
    },
    Tool {
        name: "oha",
        command: |ask| {
            let (seconds, connections) = (ask.seconds, ask.connections);
            let kind = ask.streams.map_or(String::new(), |streams| format!(" --http2 -p {streams}"));
            let base = format!("oha --no-tui --output-format json -z {seconds}s -c {connections}{kind}");
            Some(words(&base, ask.url))
        },
        parse: |text| number_after(text, "\"200\":"),
    },
    Tool {
        name: LEAST,
        command: |ask| {
            let (seconds, connections) = (ask.seconds, ask.connections);
            let plain = ask.streams.is_none();
            plain.then(|| words(&format!("{LEAST} ask {connections} {seconds}"), ask.url))
        },
        parse: |text| number_after(text, "answers:"),
    },
    Tool {
        name: "k6",
        command: |ask| {
            let (seconds, connections) = (ask.seconds, ask.connections);
            let base =
                format!("k6 run --quiet --no-usage-report --vus {connections} --duration {seconds}s -e");
            let plain = ask.streams.is_none();
            plain.then(|| {
                let mut all = words(&base, &format!("URL={}", ask.url));
                all.push(K6_SCRIPT.to_owned());
                all
            })
        },
        parse: |text| {
            // As many dots as the column is wide.
            number_after(text.split_once("http_reqs.")?.1, ":")
        },
    },
];

/// A file in the lab's folder.
const K6_SCRIPT: &str = "k6.js";

/// What the generators' own processes have used up to now, and those that they waited for, in ticks.
fn children_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // utime, stime, cutime, cstime are fields 14 to 17; the name in parentheses may hold spaces.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(13).take(2));
    fields.map_or(0, |fields| fields.filter_map(|field| field.parse::<u64>().ok()).sum())
}

/// In `own`, where scripts/setup.sh puts what Debian does not have, or in the folders of `path`.
fn find(name: &str, own: &Path, path: &OsStr) -> Option<PathBuf> {
    let mut places = std::iter::once(own.to_owned()).chain(std::env::split_paths(path));
    let place = places.find_map(|folder| Some(folder.join(name)).filter(|place| place.is_file()))?;
    std::path::absolute(place).ok()
}

impl Tool {
    /// Where it is, if it is there.
    fn program(&self, lab: &Lab) -> Option<String> {
        if self.name == "brisk" {
            return Some(lab.options.brisk.display().to_string());
        }
        if self.name == LEAST {
            return Some(std::env::current_exe().ok()?.display().to_string());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let place = find(self.name, &cli::target_dir().join("tools/bin"), &path)?;
        Some(place.display().to_string())
    }

    fn measure(
        &self,
        program: &str,
        ask: &Ask<'_>,
        server: &Server,
        lab: &Lab,
    ) -> io::Result<Option<Sample>> {
        let Some(args) = (self.command)(ask) else { return Ok(None) };
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &std::process::id().to_string(), &LOAD_CPU.to_string(), program]);
        command.args(&args[1..]).current_dir(&lab.docroot);
        let served = server.thread_cpu();
        let (before, begun) = (children_ticks(), Instant::now());
        let output = command.output()?;
        let (ticks, elapsed) = (children_ticks() - before, begun.elapsed().as_secs_f64());
        let account = crate::process::between(&served, &server.thread_cpu());
        let text = String::from_utf8_lossy(&output.stdout);
        let responses = (self.parse)(&text).filter(|&responses| responses > 0.0).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("{} says: {text}{errors}", self.name))
        })?;
        Ok(Some(Sample {
            cpu_us: ticks as f64 * 1e6 / TICKS / responses,
            beside_us: 0.0,
            rate: responses / elapsed,
            server_share: account.ran_ns as f64 / 1e9 / elapsed,
            waited_share: account.waited_ns as f64 / 1e9 / elapsed,
        }))
    }
}

/// `brisk bench`, wrk, ab, h2load, the floor, and oha and k6 where they are installed.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    std::fs::write(
        lab.docroot.join(K6_SCRIPT),
        "import http from 'k6/http';\nexport const options = { discardResponseBodies: true };\n\
         export default function () { http.get(__ENV.URL); }\n",
    )?;
    let tools: Vec<(&Tool, String)> =
        TOOLS.iter().filter_map(|tool| tool.program(lab).map(|program| (tool, program))).collect();
    let plain = nginx(Conf::default()).prepare(lab)?.start()?;
    let http2 = nginx(Conf { http2: true, ..Conf::default() }).prepare(lab)?.start()?;
    let mut cases: Vec<(usize, Option<usize>)> = CONNECTIONS.map(|connections| (connections, None)).to_vec();
    cases.push((HTTP2.0, Some(HTTP2.1)));
    let mut work: Vec<(usize, usize)> =
        (0..cases.len()).flat_map(|case| (0..tools.len()).map(move |tool| (case, tool))).collect();
    let mut samples: Vec<Vec<Samples>> = vec![vec![Vec::new(); tools.len()]; cases.len()];
    let mut rng = Rng::from_clock();
    let is_given = |option: &str| lab.options.given.contains(option) || lab.options.given.contains("--quick");
    let rounds = if is_given("--rounds") { lab.options.rounds } else { USUAL.0 };
    let seconds = if is_given("--secs") { lab.options.measure.as_secs_f64() } else { USUAL.1 };
    for round in 1..=rounds {
        output::note(format_args!(
            "  round {round} of {rounds}: {} generators, {} cases",
            tools.len(),
            cases.len()
        ));
        rng.shuffle(&mut work);
        for &(case, tool) in &work {
            let (connections, streams) = cases[case];
            let server = if streams.is_some() { &http2 } else { &plain };
            let url = format!("http://{}/small.txt", server.address);
            let ask = Ask { url: &url, seconds, connections, streams };
            samples[case][tool].extend(tools[tool].0.measure(&tools[tool].1, &ask, server, lab)?);
        }
    }
    let mut findings = Findings::default();
    for (case, tools_samples) in cases.iter().zip(samples) {
        conclude(*case, &tools, tools_samples, &mut findings);
    }
    findings.checks.extend(tenth(lab)?);
    Ok(findings)
}

/// Whether `brisk bench compare` finds a real difference of a tenth within 20 pairs on this machine: between two servers
/// that differ in how much they work for each response. `None`: all pairs were spoilt.
fn tenth(lab: &Lab) -> io::Result<Option<Check>> {
    /// What each response costs, beside the few microseconds of its reads and writes.
    const WORK: Duration = Duration::from_micros(40);
    const STEPS: usize = 2_000_000;
    let begun = Instant::now();
    floor::work(STEPS);
    let steps = (WORK.as_secs_f64() / begun.elapsed().as_secs_f64() * STEPS as f64) as usize;
    let (program, port) = (std::env::current_exe()?, free_port()?);
    let command = |steps: usize| format!("exec {} floor {port} 100 {SERVER_CPU} {steps}", program.display());
    output::note(format_args!("  compare: two servers, one with a tenth less work"));
    let output = Command::new(&lab.options.brisk)
        .args("bench compare --json --by cpu --pairs 20 -d 500ms -w 100ms -c 16 --cpu".split(' '))
        .args([&LOAD_CPU.to_string(), "--url", &format!("http://127.0.0.1:{port}/")])
        .args([command(steps), command(steps * 89 / 100)])
        .output()?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))?;
    let of = |name: &str| found[name].as_f64();
    let (Some(ratio), Some(low), Some(high)) = (of("ratio"), of("low"), of("high")) else {
        output::note(format_args!("  compare: all pairs were spoilt: the machine must be quieter"));
        return Ok(None);
    };
    let costs: Vec<[f64; 2]> = serde_json::from_value(found["costs"].clone()).unwrap_or_default();
    let side = |index: usize| median(&costs.iter().map(|pair| pair[index]).collect::<Vec<_>>());
    Ok(Some(Check {
        what: "`brisk bench compare`: B does a tenth less, found \"faster\" within 20 pairs".to_owned(),
        ours: side(1),
        peer: Some(side(0)),
        unit: CPU_UNIT.to_owned(),
        figure: Summary { median: ratio, low, high, count: costs.len() },
        // Faster is what the whole interval says.
        target: Target::AtMost(1.0),
    }))
}

fn conclude(
    (connections, streams): (usize, Option<usize>),
    tools: &[(&Tool, String)],
    samples: Vec<Samples>,
    findings: &mut Findings,
) {
    let case = match streams {
        None => format!("{connections} connections"),
        Some(streams) => format!("HTTP/2, {connections} connections, {streams} at a time"),
    };
    let measured: Vec<Measured> = tools
        .iter()
        .zip(samples)
        .filter(|(_, samples)| !samples.is_empty())
        .map(|((tool, _), samples)| Measured { server: tool.name.to_owned(), samples })
        .collect();
    measured.iter().for_each(|one| findings.add(&case, one));
    let Some(ours) = named(&measured, "brisk") else { return };
    for (name, at, at_most) in TARGETS {
        let is_due = if streams.is_some() { at.is_none() } else { at == Some(connections) };
        if let Some(peer) = named(&measured, name).filter(|_| is_due) {
            findings.checks.push(ours_over_peer(format!("{case}: ours / {name}"), ours, peer, at_most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_setup_come_before_those_in_path() {
        let folder = std::env::temp_dir().join(format!("brisk-bench-tools-{}", std::process::id()));
        let (own, other) = (folder.join("own"), folder.join("other"));
        for (place, names) in [(&own, &["a"][..]), (&other, &["a", "b"])] {
            std::fs::create_dir_all(place).unwrap();
            names.iter().for_each(|name| std::fs::write(place.join(name), "").unwrap());
        }
        let look = |name: &str| find(name, &own, other.as_os_str());
        let found = [look("a"), look("b"), look("c"), find("b", &own, OsStr::new(""))];
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [Some(own.join("a")), Some(other.join("b")), None, None]);
    }

    #[test]
    fn what_the_peers_print() {
        let check = |name: &str, text: &str, want: f64| {
            let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
            assert_eq!((tool.parse)(text), Some(want), "{name}");
        };
        check("brisk", "{\"non_2xx\":0,\"responses\":1234,\"responses_per_second\":5.0}", 1234.0);
        check("wrk", "  1 threads\n  24869 requests in 3.01s, 8.02MB read\n", 24869.0);
        check("ab", "Complete requests:      5000\nFailed requests:        0\n", 5000.0);
        check("h2load", "status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx\n", 20000.0);
        check("oha", "\"statusCodeDistribution\": {\n    \"200\": 77\n", 77.0);
        check("k6", "    http_req_failed: 0\n    http_reqs....................: 9876   1972.9/s\n", 9876.0);
        check("k6", "    http_reqs......................: 7319   7315.9/s\n", 7319.0);
    }
}
