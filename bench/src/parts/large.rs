//! A large file: CPU per file, counted by bytes since a file takes a while.

use std::io;

use super::{Findings, brisk, nginx};
use crate::conf::Conf;
use crate::lab::{LARGE_BYTES, Lab};
use crate::results::{Check, Row, Target};
use crate::rounds::{Case, Request, Sample, Tls, interleave, rates};
use crate::server::{Prepared, Spec};
use crate::stats::{Summary, median};

const CONNECTIONS: usize = 8;
const UNIT: &str = "ms CPU/file";

/// Brisk and nginx, each with `sendfile` on and off.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let off = || Conf { sendfile: false, ..Conf::default() };
    let specs = [
        Spec { name: "brisk sendfile on".to_owned(), ..brisk(Conf::default()) },
        Spec { name: "brisk sendfile off".to_owned(), ..brisk(off()) },
        Spec { name: "nginx sendfile on".to_owned(), ..nginx(Conf::default()) },
        Spec { name: "nginx sendfile off".to_owned(), ..nginx(off()) },
    ];
    let servers: Vec<Prepared> = specs.iter().map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
    let cases: Vec<Case<'_>> = servers
        .iter()
        .map(|server| Case {
            server,
            requests: vec![Request::path("/large.bin")],
            connections: CONNECTIONS,
            unit_bytes: Some(LARGE_BYTES),
            tls: Tls::Off,
            streams: None,
        })
        .collect();
    let samples = interleave(lab, &cases)?;
    let ms: Vec<Vec<f64>> = samples.iter().map(|samples| milliseconds(samples)).collect();
    let mut findings = Findings::default();
    for ((server, samples), ms) in servers.iter().zip(&samples).zip(&ms) {
        findings.rows.push(Row {
            case: format!("10 MiB, {CONNECTIONS} connections"),
            server: server.name.clone(),
            figure: Summary::of(ms),
            unit: UNIT.to_owned(),
            rate: Some(median(&rates(samples))),
        });
    }
    findings.checks.push(Check {
        what: "10 MiB: ours / nginx, sendfile on".to_owned(),
        ours: median(&ms[0]),
        peer: Some(median(&ms[2])),
        unit: UNIT.to_owned(),
        figure: Summary::of_ratio(&ms[0], &ms[2]),
        target: Target::AtMost(1.0),
    });
    Ok(findings)
}

fn milliseconds(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.cpu_us / 1e3).collect()
}
