//! What it costs to be watched: the access log, and the numbers of requests.

use std::io;

use super::{Findings, Measured, brisk, ours_over_peer};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::Prepared;

const CONNECTIONS: usize = 64;
/// What a request may cost, relative to one that leaves no trace.
const LOGGED_MAX: f64 = 1.08;
const RECORDED_MAX: f64 = 1.02;

/// A file of 100 bytes without anything, with a line in the log, with numbers recorded, with both.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let site = "location = /metrics { metrics; }\n".to_owned();
    let variants = [
        ("plain", Conf::default(), None),
        ("access log", Conf { access_log: true, ..Conf::default() }, Some(LOGGED_MAX)),
        ("metrics", Conf { site: site.clone(), ..Conf::default() }, Some(RECORDED_MAX)),
        ("access log and metrics", Conf { access_log: true, site, ..Conf::default() }, None),
    ];
    let servers: Vec<Prepared> =
        variants.iter().map(|(_, conf, _)| brisk(conf.clone()).prepare(lab)).collect::<io::Result<_>>()?;
    let cases: Vec<Case<'_>> = servers
        .iter()
        .map(|server| Case {
            server,
            requests: vec![Request::path("/small.txt")],
            connections: CONNECTIONS,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        })
        .collect();
    let measured: Vec<Measured> = interleave(lab, &cases)?
        .into_iter()
        .map(|samples| Measured { server: "brisk".to_owned(), samples })
        .collect();
    let mut findings = Findings::default();
    for ((case, _, at_most), one) in variants.iter().zip(&measured) {
        findings.add(case, one);
        if let Some(at_most) = at_most {
            let what = format!("{case} / plain (peer: ours, plain)");
            findings.checks.push(ours_over_peer(what, one, &measured[0], *at_most));
        }
    }
    Ok(findings)
}
