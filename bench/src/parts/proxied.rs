//! Requests that are passed on: CPU per request of the server in between, against nginx and HAProxy.

use std::io;

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer};
use crate::conf::Conf;
use crate::lab::{Lab, SMALL_BYTES};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

/// What looks at nothing that it passes on: nobody can cost less over epoll and TCP.
const LEAST: &str = "floor";
/// What ours may cost on top of that.
const OVER_LEAST_MAX: f64 = 1.3;
const CONNECTIONS: [usize; 2] = [64, 128];

/// 100 bytes. The back end is the floor's server: what it costs is not counted, and it runs on the generator's core.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let floor = Program::Floor { body_bytes: SMALL_BYTES };
    let back_end = Spec::new("back end", floor, Conf::default()).unpinned().prepare(lab)?.start()?;
    let conf = Conf::default().proxied(back_end.address.port());
    let least = Program::Forward { back_end: back_end.address.port() };
    let specs = [
        brisk(conf.clone()),
        nginx(conf.clone()),
        Spec::new("haproxy", Program::Haproxy, conf),
        Spec::new(LEAST, least, Conf::default()),
    ];
    let servers: Vec<Prepared> = specs.iter().map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
    let cases: Vec<Case<'_>> = CONNECTIONS
        .iter()
        .flat_map(|&connections| {
            servers.iter().map(move |server| Case {
                server,
                requests: vec![Request::path("/small.txt")],
                connections,
                unit_bytes: None,
                tls: Tls::Off,
                streams: None,
            })
        })
        .collect();
    let mut samples = interleave(lab, &cases)?.into_iter();
    let mut findings = Findings::default();
    for connections in CONNECTIONS {
        let case = format!("proxied 100 B, {connections} connections");
        let names = servers.iter().map(|server| server.name.clone());
        let measured: Vec<Measured> =
            names.zip(samples.by_ref()).map(|(server, samples)| Measured { server, samples }).collect();
        measured.iter().for_each(|one| findings.add(&case, one));
        let Some(ours) = named(&measured, "brisk") else { continue };
        for (name, at_most) in [("nginx usual", 0.65), ("haproxy", 1.0), (LEAST, OVER_LEAST_MAX)] {
            if let Some(peer) = named(&measured, name) {
                findings.checks.push(ours_over_peer(format!("{case}: ours / {name}"), ours, peer, at_most));
            }
        }
    }
    Ok(findings)
}
