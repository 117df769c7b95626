//! Small files over HTTP/2: CPU per request against the peers.

use std::io;

use super::{Findings, Measured, best, brisk, named, nginx_setups, ours_over_peer};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

/// Connections, requests at a time on each, and what ours may cost relative to h2o and to nginx in its best set-up.
const CASES: [(usize, usize, f64, f64); 2] = [(16, 16, 0.85, 0.2), (64, 1, 0.9, 0.62)];

/// Brisk, every set-up of nginx, and h2o.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let conf = Conf { http2: true, ..Conf::default() };
    let h2o = Spec::new("h2o", Program::H2o, conf.clone());
    let specs = [brisk(conf.clone())].into_iter().chain(nginx_setups(&conf)).chain([h2o]);
    let servers: Vec<Prepared> = specs.map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
    let mut cases = Vec::new();
    for &(connections, streams, ..) in &CASES {
        cases.extend(servers.iter().map(|server| Case {
            server,
            requests: vec![Request::path("/small.txt")],
            connections,
            unit_bytes: None,
            tls: Tls::Off,
            streams: Some(streams),
        }));
    }
    let mut samples = interleave(lab, &cases)?.into_iter();
    let mut findings = Findings::default();
    for (connections, streams, to_h2o, to_nginx) in CASES {
        let case = format!("{connections} connections, {streams} at a time");
        let names = servers.iter().map(|server| server.name.clone());
        let measured: Vec<Measured> =
            names.zip(samples.by_ref()).map(|(server, samples)| Measured { server, samples }).collect();
        measured.iter().for_each(|one| findings.add(&case, one));
        let Some(ours) = named(&measured, "brisk") else { continue };
        for (name, peer, at_most) in
            [("h2o", named(&measured, "h2o"), to_h2o), ("nginx best", best(&measured, "nginx"), to_nginx)]
        {
            if let Some(peer) = peer {
                findings.checks.push(ours_over_peer(format!("{case}: ours / {name}"), ours, peer, at_most));
            }
        }
    }
    Ok(findings)
}
