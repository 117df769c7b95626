//! How evenly two workers share connections.

use std::io;

use brisk_load::engine;
use brisk_load::output;
use brisk_load::plan::Stop;

use super::{Findings, absolute, brisk, nginx, plain_row};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::process::threads_between;
use crate::results::Target;
use crate::rounds::{Request, plan};
use crate::server::{Server, Spec};

const CONNECTIONS: usize = 200;
const WORKERS: usize = 2;
/// The same number on each connection, so that a worker's CPU follows its connections and not
/// the luck of its core.
const REQUESTS_PER_CONNECTION: u64 = 1000;
const UNIT: &str = "busiest / mean";

/// Brisk and nginx; every round makes its connections anew.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let conf = || Conf { workers: WORKERS, ..Conf::default() };
    let unpinned = |spec: Spec| Spec { pinned: false, ..spec };
    let servers =
        [unpinned(brisk(conf())).prepare(lab)?.start()?, unpinned(nginx(conf())).prepare(lab)?.start()?];
    let mut shares = [const { Vec::new() }; 2];
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  round {round} of {}", lab.options.rounds));
        for (server, shares) in servers.iter().zip(&mut shares) {
            shares.push(busiest_over_mean(server)?);
        }
    }
    let [ours, peer] = shares;
    let case = format!("{CONNECTIONS} connections, {WORKERS} workers");
    Ok(Findings {
        checks: vec![absolute(&case, &ours, &peer, UNIT, Target::AtMost(1.2))],
        rows: vec![plain_row(&case, "brisk", &ours, UNIT), plain_row(&case, "nginx", &peer, UNIT)],
        ..Findings::default()
    })
}

fn busiest_over_mean(server: &Server) -> io::Result<f64> {
    let before = server.thread_cpu();
    let stop = Stop::RequestsPerConnection(REQUESTS_PER_CONNECTION);
    let stats = engine::run(plan(server, &[Request::path("/small.txt")], CONNECTIONS, stop))?.stats;
    let threads: Vec<u64> =
        threads_between(&before, &server.thread_cpu()).into_iter().map(|thread| thread.ran_ns).collect();
    if stats.errors() > 0 || stats.non_2xx() > 0 {
        let what = format!("{}: {} errors, {} not 2xx", server.name, stats.errors(), stats.non_2xx());
        return Err(io::Error::other(what));
    }
    let busiest = threads.iter().copied().max().unwrap_or(0) as f64;
    let total = threads.iter().sum::<u64>() as f64;
    Ok(busiest / (total / WORKERS as f64))
}
