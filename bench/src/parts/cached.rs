//! Answers that are stored: CPU per request of a cache that is warm, against nginx and Varnish.

use std::io;

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer};
use crate::conf::Conf;
use crate::lab::{Lab, SMALL_BYTES};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

const CONNECTIONS: usize = 64;

/// An answer's size, and what our cost may be relative to nginx's and Varnish's.
const SIZES: [(&str, usize, f64, f64); 2] =
    [("100 B", SMALL_BYTES, 0.5, 0.5), ("20 KB", 20 * 1024, 0.8, 0.5)];

/// The back end is asked once per server; what follows are hits.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let mut findings = Findings::default();
    for (size, body_bytes, of_nginx, of_varnish) in SIZES {
        let floor = Program::Floor { body_bytes };
        let back_end = Spec::new("back end", floor, Conf::default()).unpinned().prepare(lab)?.start()?;
        let conf = Conf::default().cached(back_end.address.port());
        let specs = [brisk(conf.clone()), nginx(conf.clone()), Spec::new("varnish", Program::Varnish, conf)];
        let servers: Vec<Prepared> = specs.iter().map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
        let case = |server| Case {
            server,
            requests: vec![Request::path("/small.txt")],
            connections: CONNECTIONS,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        };
        let cases: Vec<Case<'_>> = servers.iter().map(case).collect();
        let samples = interleave(lab, &cases)?;
        let names = servers.iter().map(|server| server.name.clone());
        let measured: Vec<Measured> =
            names.zip(samples).map(|(server, samples)| Measured { server, samples }).collect();
        let case = format!("cache hit {size}, {CONNECTIONS} connections");
        measured.iter().for_each(|one| findings.add(&case, one));
        let Some(ours) = named(&measured, "brisk") else { continue };
        for (name, at_most) in [("nginx usual", of_nginx), ("varnish", of_varnish)] {
            if let Some(peer) = named(&measured, name) {
                findings.checks.push(ours_over_peer(format!("{case}: ours / {name}"), ours, peer, at_most));
            }
        }
    }
    Ok(findings)
}
