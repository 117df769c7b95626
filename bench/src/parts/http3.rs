//! HTTP/3 beside our own HTTP/2: CPU per request, of a large file, of handshakes; memory of idle connections; goodput.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use brisk_load::arrivals::Rate;
use brisk_load::engine;
use brisk_load::output;
use brisk_load::plan::{Plan, Stop, Version};
use serde_json::Value;

use super::tls::certificate;
use super::{Findings, Measured, absolute, brisk, ours_over_peer, plain_row};
use crate::conf::Conf;
use crate::flood::Flood;
use crate::lab::{LARGE_BYTES, LOAD_CPU, Lab};
use crate::results::Target;
use crate::rounds::{Case, Request, Tls, interleave, plan};
use crate::server::{Prepared, Server};

/// A kind of load, over HTTP/3 and over what it is compared with, and what it may cost at most relative to that.
struct Kind {
    what: &'static str,
    path: &'static str,
    connections: usize,
    unit_bytes: Option<usize>,
    quic: Tls,
    tcp: Tls,
    at_most: f64,
}

// What small requests may cost was set beside HTTP/2 without TLS: 2.6 µs where that has 0.8, and 9 where it has 5.1.
const KINDS: [Kind; 4] = [
    Kind {
        what: "100 B, 16 connections, 16 at a time",
        path: "/small.txt",
        connections: 16,
        unit_bytes: None,
        quic: Tls::Streams(Version::H3, 16),
        tcp: Tls::Streams(Version::H2, 16),
        at_most: 3.25,
    },
    Kind {
        what: "100 B, 64 connections, one at a time",
        path: "/small.txt",
        connections: 64,
        unit_bytes: None,
        quic: Tls::Streams(Version::H3, 1),
        tcp: Tls::Streams(Version::H2, 1),
        at_most: 1.8,
    },
    Kind {
        what: "10 MiB, 8 connections",
        path: "/large.bin",
        connections: 8,
        unit_bytes: Some(LARGE_BYTES),
        quic: Tls::Streams(Version::H3, 1),
        tcp: Tls::Streams(Version::H2, 1),
        at_most: 1.8,
    },
    Kind {
        what: "full handshake and 100 B",
        path: "/small.txt",
        connections: 16,
        unit_bytes: None,
        quic: Tls::Quic,
        tcp: Tls::Full,
        at_most: 2.0,
    },
];

const IDLE_CONNECTIONS: usize = 2000;
const IDLE_KIB_MAX: f64 = 32.0;
/// How long the opening may take, and what the server gets to put its buffers away.
const OPENING_MAX: Duration = Duration::from_mins(1);
const SETTLING: Duration = Duration::from_secs(1);

/// First packets per second of clients that never go on, and by how much the others' 99th percentile may be longer then.
const FLOOD_RATE: u32 = 50_000;
const FLOOD_AT_MOST: f64 = 2.0;
/// What the server's memory may grow by meanwhile, in MiB: the handshakes that are let begin before addresses are validated.
const FLOOD_MIB_MAX: f64 = 8.0;
/// The others: so many connections, and requests per second on all of them.
const FLOODED_CONNECTIONS: usize = 16;
const FLOODED_RATE: f64 = 500.0;
/// Fewer answers have no 99th percentile.
const FLOODED_TIME_MIN: Duration = Duration::from_secs(10);

/// Goodput relative to HTTP/2 by the script's cases.
const GOODPUT: [(&str, f64); 3] = [("loopback", 0.7), ("20 ms", 1.0), ("policer", 0.8)];

/// Brisk alone: nothing else that is packaged here serves HTTP/3.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let folder = Some(certificate(lab)?);
    let conf = Conf { tls: folder, http2: true, http3: true, ..Conf::default() };
    let server = brisk(conf).prepare(lab)?;
    let mut findings = Findings::default();
    costs(lab, &server, &mut findings)?;
    let mut growth = Vec::new();
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  idle connections: round {round} of {}", lab.options.rounds));
        growth.push(grow(&server)?);
    }
    let unit = "KiB/connection";
    let what = format!("{IDLE_CONNECTIONS} idle connections");
    findings.checks.push(absolute(&what, &growth, &[], unit, Target::AtMost(IDLE_KIB_MAX)));
    findings.rows.push(plain_row(&what, "brisk, HTTP/3", &growth, unit));
    flooded(lab, &server, &mut findings)?;
    if rustix::process::geteuid().is_root() {
        goodput(lab, &mut findings)?;
    } else {
        output::note("  goodput is left out: its network takes root's rights");
    }
    Ok(findings)
}

fn costs(lab: &Lab, server: &Prepared, findings: &mut Findings) -> io::Result<()> {
    let case = |kind: &Kind, tls| Case {
        server,
        requests: vec![Request::path(kind.path)],
        connections: kind.connections,
        unit_bytes: kind.unit_bytes,
        tls,
        streams: None,
    };
    let cases: Vec<Case<'_>> =
        KINDS.iter().flat_map(|kind| [case(kind, kind.quic), case(kind, kind.tcp)]).collect();
    let mut samples = interleave(lab, &cases)?.into_iter();
    for kind in &KINDS {
        let tcp = if kind.tcp == Tls::Full { "brisk, HTTP/1.1" } else { "brisk, HTTP/2" };
        let named = |server: &str, samples| Measured { server: server.to_owned(), samples };
        let (Some(ours), Some(peer)) = (samples.next(), samples.next()) else { break };
        let (ours, peer) = (named("brisk, HTTP/3", ours), named(tcp, peer));
        findings.add(kind.what, &ours);
        findings.add(kind.what, &peer);
        let what = format!("{}: HTTP/3 / {tcp} (TLS)", kind.what);
        findings.checks.push(ours_over_peer(what, &ours, &peer, kind.at_most));
    }
    Ok(())
}

/// Growth of the proportional set size per connection, in KiB.
fn grow(server: &Prepared) -> io::Result<f64> {
    let server = server.start()?;
    let empty = server.memory().pss;
    let base = plan(&server, &[Request::path("/small.txt")], IDLE_CONNECTIONS, Stop::Told);
    let idle = Plan::idle(base.sites, IDLE_CONNECTIONS);
    let run = engine::start(Tls::Streams(Version::H3, 1).apply(idle)?)?;
    let settled = run.wait_settled(OPENING_MAX);
    std::thread::sleep(SETTLING);
    let progress = run.progress();
    let full = server.memory().pss;
    run.stop();
    run.join()?;
    if !settled || progress.responses != IDLE_CONNECTIONS as u64 || progress.errors > 0 {
        return Err(io::Error::other(format!("{progress:?}: not {IDLE_CONNECTIONS} idle connections")));
    }
    Ok((full - empty) / 1024.0 / IDLE_CONNECTIONS as f64)
}

/// What clients notice of a flood of first packets, and what it takes in memory. It is compared with the same flood to a socket that
/// nobody reads, since sending it takes time of the generator's core in both cases.
fn flooded(lab: &Lab, prepared: &Prepared, findings: &mut Findings) -> io::Result<()> {
    let elsewhere = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&elsewhere, 1)?;
    let elsewhere = elsewhere.local_addr()?.port();
    let (mut calm, mut beside, mut under, mut growth) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  flood: round {round} of {}", lab.options.rounds));
        let server = prepared.start()?;
        calm.push(tail_ms(lab, &server)?);
        let flood = Flood::begin(elsewhere, FLOOD_RATE)?;
        beside.push(tail_ms(lab, &server)?);
        drop(flood);
        let before = server.memory().pss;
        let flood = Flood::begin(server.address.port(), FLOOD_RATE)?;
        under.push(tail_ms(lab, &server)?);
        growth.push((server.memory().pss - before) / 1024.0 / 1024.0);
        drop(flood);
    }
    let case = format!("99th percentile at {FLOODED_RATE} requests/s");
    for (what, values) in [
        ("alone", &calm),
        ("50,000 first packets/s to a socket that nobody reads", &beside),
        ("50,000 first packets/s to the server", &under),
    ] {
        findings.rows.push(plain_row(&format!("{case}: {what}"), "brisk, HTTP/3", values, "ms"));
    }
    let ratios: Vec<f64> = under.iter().zip(&beside).map(|(under, beside)| under / beside).collect();
    let what = "99th percentile under a flood of first packets / with the flood elsewhere";
    findings.checks.push(absolute(what, &ratios, &[], "times", Target::AtMost(FLOOD_AT_MOST)));
    let what = "memory that the flood takes";
    findings.checks.push(absolute(what, &growth, &[], "MiB", Target::AtMost(FLOOD_MIB_MAX)));
    Ok(())
}

/// The 99th percentile of what the server takes, in milliseconds.
fn tail_ms(lab: &Lab, server: &Server) -> io::Result<f64> {
    let time = lab.options.measure.max(FLOODED_TIME_MIN);
    let base = plan(server, &[Request::path("/small.txt")], FLOODED_CONNECTIONS, Stop::After(time));
    let base = Tls::Streams(Version::H3, 1).apply(base)?;
    let rate = Some(Rate::constant(FLOODED_RATE));
    let stats = engine::run(Plan { cpus: vec![LOAD_CPU], rate, warmup: lab.options.warmup, ..base })?.stats;
    if stats.errors() > 0 || stats.non_2xx() > 0 {
        return Err(io::Error::other(format!("{} errors, {} not 2xx", stats.errors(), stats.non_2xx())));
    }
    Ok(stats.service.quantile(0.99) as f64 / 1e6)
}

fn goodput(lab: &Lab, findings: &mut Findings) -> io::Result<()> {
    let (rounds, seconds) =
        (lab.options.rounds.to_string(), lab.options.measure.as_secs().max(2).to_string());
    output::note("  goodput, by scripts/http3_goodput.py");
    let done = Command::new("python3")
        .arg("scripts/http3_goodput.py")
        .arg(&lab.options.brisk)
        .args(["--json", "--rounds", &rounds, "--seconds", &seconds])
        .output()?;
    let found: Value = serde_json::from_slice(&done.stdout).map_err(|error| {
        io::Error::other(format!(
            "scripts/http3_goodput.py: {error}: {}",
            String::from_utf8_lossy(&done.stderr)
        ))
    })?;
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    for case in found.as_array().into_iter().flatten() {
        let name = case["case"].as_str().unwrap_or_default();
        for (server, key) in
            [("brisk, HTTP/2", "http2_mb_per_second"), ("brisk, HTTP/3", "http3_mb_per_second")]
        {
            findings.rows.push(plain_row(&format!("goodput: {name}"), server, &numbers(&case[key]), "MB/s"));
        }
        if let Some((_, at_least)) = GOODPUT.iter().find(|(of, _)| name.starts_with(of)) {
            let what = format!("goodput, {name}: HTTP/3 / HTTP/2");
            let ratios = numbers(&case["ratios"]);
            findings.checks.push(absolute(&what, &ratios, &[], "times", Target::AtLeast(*at_least)));
        }
    }
    Ok(())
}
