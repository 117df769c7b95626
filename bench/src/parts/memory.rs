//! Memory of a started server: what its processes occupy together, shared pages counted once (PSS). The sum of their
//! resident sets, which counts a page again in each process that maps it, stands beside it.

use std::io;
use std::time::Duration;

use super::{Findings, absolute, brisk, nginx, plain_row};
use crate::conf::{Conf, Vhosts};
use crate::lab::Lab;
use crate::process::Memory;
use crate::results::Target;
use brisk_load::output;

/// What a server gets to put away what only its start needed.
const SETTLING: Duration = Duration::from_secs(1);
const MIB: f64 = 1024.0 * 1024.0;

/// Ten thousand servers, each with a root of its own.
pub fn many() -> Conf {
    Conf { vhosts: Some(Vhosts { count: 10_000, own_roots: true }), ..Conf::default() }
}

/// One site, then ten thousand.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let mut findings = Findings::default();
    for (case, conf, at_most) in
        [("one site", Conf::default(), 10.0), ("10,000 virtual hosts", many(), 200.0)]
    {
        let specs = [brisk(conf.clone()), nginx(conf)];
        let mut memory = [const { Vec::<Memory>::new() }; 2];
        for round in 1..=lab.options.rounds {
            output::note(format_args!("  {case}: round {round} of {}", lab.options.rounds));
            for (spec, memory) in specs.iter().zip(&mut memory) {
                let server = spec.prepare(lab)?.start()?;
                std::thread::sleep(SETTLING);
                memory.push(server.memory());
            }
        }
        let [ours, peer] = memory;
        let rss = |memory: &[Memory]| memory.iter().map(|memory| memory.rss / MIB).collect::<Vec<_>>();
        let pss = |memory: &[Memory]| memory.iter().map(|memory| memory.pss / MIB).collect::<Vec<_>>();
        findings.checks.push(absolute(case, &pss(&ours), &pss(&peer), "MiB PSS", Target::AtMost(at_most)));
        for (server, memory) in [("brisk", &ours), ("nginx", &peer)] {
            findings.rows.push(plain_row(case, server, &rss(memory), "MiB RSS, all processes"));
            findings.rows.push(plain_row(case, server, &pss(memory), "MiB PSS, all processes"));
        }
    }
    Ok(findings)
}
