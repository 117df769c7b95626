//! What an idle connection costs in memory.

use std::io;
use std::time::Duration;

use brisk_load::engine::{self, Run};
use brisk_load::output;
use brisk_load::plan::{Plan, Stop};

use super::{Findings, absolute, brisk, nginx, plain_row};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::results::Target;
use crate::rounds::{Request, plan};
use crate::server::{Server, Spec};

const CONNECTIONS: usize = 10_000;
/// So many are there before the first look: the code and the tables that connections need at all are no connection's cost.
const FIRST: usize = 200;
const UNIT: &str = "KiB/connection";
/// How long the opening may take.
const OPENING_MAX: Duration = Duration::from_mins(1);
/// What a server gets to put its buffers away.
const SETTLING: Duration = Duration::from_secs(1);

/// Brisk and nginx in turn; each round on a fresh server.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let specs = [brisk(Conf::default()), nginx(Conf::default())];
    let mut growth = [const { Vec::new() }; 2];
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  round {round} of {}", lab.options.rounds));
        for (spec, growth) in specs.iter().zip(&mut growth) {
            growth.push(grow(lab, spec)?);
        }
    }
    let [ours, peer] = growth;
    Ok(Findings {
        checks: vec![absolute("growth per idle connection", &ours, &peer, UNIT, Target::AtMost(0.75))],
        rows: vec![
            plain_row("10,000 idle connections", "brisk", &ours, UNIT),
            plain_row("10,000 idle connections", "nginx", &peer, UNIT),
        ],
        ..Findings::default()
    })
}

/// Growth of the proportional set size per connection, in KiB.
fn grow(lab: &Lab, spec: &Spec) -> io::Result<f64> {
    let server = spec.prepare(lab)?.start()?;
    // Brisk gives its start's code back half a second after it: what of it serves connections must be back before the first look.
    std::thread::sleep(SETTLING);
    let first = open(&server, FIRST)?;
    let before = server.memory().pss;
    let all = open(&server, CONNECTIONS)?;
    let full = server.memory().pss;
    for (run, count) in [(all, CONNECTIONS), (first, FIRST)] {
        let progress = run.progress();
        run.stop();
        let closed = run.join()?.stats.closes;
        if progress.responses != count as u64 || progress.errors + closed > 0 {
            let what = format!("{}: {progress:?}, {closed} closed: not {count} idle connections", spec.name);
            return Err(io::Error::other(what));
        }
    }
    Ok((full - before) / 1024.0 / CONNECTIONS as f64)
}

/// So many connections that have asked once, and stay.
fn open(server: &Server, count: usize) -> io::Result<Run> {
    let base = plan(server, &[Request::path("/small.txt")], count, Stop::Told);
    let run = engine::start(Plan::idle(base.sites, count))?;
    run.wait_settled(OPENING_MAX);
    std::thread::sleep(SETTLING);
    Ok(run)
}
