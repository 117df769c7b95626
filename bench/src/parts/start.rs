//! How soon a server serves.

use std::io;
use std::time::{Duration, Instant};

use super::memory::many;
use super::{Findings, absolute, brisk, nginx, plain_row};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::results::{Check, Row, Target};
use crate::server::{Prepared, Spec};
use brisk_load::output;

/// How often the server is asked whether it is there.
const ASK_EVERY: Duration = Duration::from_micros(200);
const UNIT: &str = "ms";

/// A server prepared once and started many times.
struct Candidate {
    prepared: Prepared,
    starts: Vec<f64>,
    tests: Vec<f64>,
}

/// One site, then ten thousand, unpinned.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let mut findings = Findings::default();
    measure(lab, &mut findings, "one site", Conf::default(), 50.0, None)?;
    measure(lab, &mut findings, "10,000 virtual hosts", many(), 400.0, Some(300.0))?;
    Ok(findings)
}

fn measure(
    lab: &Lab,
    findings: &mut Findings,
    case: &str,
    conf: Conf,
    start_ms_max: f64,
    test_ms_max: Option<f64>,
) -> io::Result<()> {
    let prepare = |spec: Spec| -> io::Result<Candidate> {
        let prepared = Spec { pinned: false, ..spec }.prepare(lab)?;
        Ok(Candidate { prepared, starts: Vec::new(), tests: Vec::new() })
    };
    let nginx = Spec { name: "nginx".to_owned(), ..nginx(conf.clone()) };
    let mut candidates = [prepare(brisk(conf))?, prepare(nginx)?];
    for round in 1..=lab.options.rounds {
        output::note(format_args!("  {case}: round {round} of {}", lab.options.rounds));
        for candidate in &mut candidates {
            candidate.round()?;
        }
    }
    let [ours, peer] = &candidates;
    let check = |what: &str, ours: &[f64], peer: &[f64], limit: f64| -> Check {
        absolute(&format!("{case}: {what}"), ours, peer, UNIT, Target::AtMost(limit))
    };
    findings.checks.push(check("start to first answer", &ours.starts, &peer.starts, start_ms_max));
    if let Some(limit) = test_ms_max {
        findings.checks.push(check("-t", &ours.tests, &peer.tests, limit));
    }
    for candidate in &candidates {
        findings.rows.extend(candidate.rows(case));
    }
    Ok(())
}

impl Candidate {
    fn round(&mut self) -> io::Result<()> {
        let start = Instant::now();
        let mut server = self.prepared.spawn()?;
        server.await_answer(ASK_EVERY)?;
        self.starts.push(start.elapsed().as_secs_f64() * 1e3);
        drop(server);
        self.tests.push(self.prepared.test_conf()?.as_secs_f64() * 1e3);
        Ok(())
    }

    fn rows(&self, case: &str) -> [Row; 2] {
        let name = &self.prepared.name;
        [
            plain_row(&format!("{case}: start to first answer"), name, &self.starts, UNIT),
            plain_row(&format!("{case}: -t"), name, &self.tests, UNIT),
        ]
    }
}
