//! Connections that are passed on as they are: CPU per request on connections that are kept, per connection, and per 10 MiB,
//! against nginx's `stream` and HAProxy in TCP mode.

use std::io;
use std::path::Path;

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer};
use crate::conf::Conf;
use crate::lab::{LARGE_BYTES, Lab};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

/// What nginx must load for `stream`: Debian's has it beside the program, others have it in it.
pub(super) fn modules() -> Vec<&'static str> {
    const STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";
    if Path::new(STREAM).exists() { vec![STREAM] } else { Vec::new() }
}

/// A case: its name, the file, connections, how they are made, and by how many bytes a response is counted.
const CASES: [(&str, &str, usize, Tls, Option<usize>); 3] = [
    ("stream 100 B, 64 connections", "/small.txt", 64, Tls::Off, None),
    ("stream 100 B, a connection each", "/small.txt", 64, Tls::OffEach, None),
    ("stream 10 MiB, 8 connections", "/large.bin", 8, Tls::Off, Some(LARGE_BYTES)),
];

/// The back end is Brisk with a file: what it costs is not counted, and it runs on the generator's core.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let back_end = Spec::new("back end", Program::Brisk, Conf::default()).unpinned().prepare(lab)?.start()?;
    let conf = Conf::default().streamed(back_end.address.port());
    let specs = [
        brisk(conf.clone()),
        nginx(Conf { modules: modules(), ..conf.clone() }),
        Spec::new("haproxy", Program::Haproxy, conf),
    ];
    let servers: Vec<Prepared> = specs.iter().map(|spec| spec.prepare(lab)).collect::<io::Result<_>>()?;
    let cases: Vec<Case<'_>> = CASES
        .iter()
        .flat_map(|&(_, path, connections, tls, unit_bytes)| {
            servers.iter().map(move |server| Case {
                server,
                requests: vec![Request::path(path)],
                connections,
                unit_bytes,
                tls,
                streams: None,
            })
        })
        .collect();
    let mut samples = interleave(lab, &cases)?.into_iter();
    let mut findings = Findings::default();
    for (case, ..) in CASES {
        let names = servers.iter().map(|server| server.name.clone());
        let measured: Vec<Measured> =
            names.zip(samples.by_ref()).map(|(server, samples)| Measured { server, samples }).collect();
        measured.iter().for_each(|one| findings.add(case, one));
        let Some(ours) = named(&measured, "brisk") else { continue };
        for name in ["nginx usual", "haproxy"] {
            if let Some(peer) = named(&measured, name) {
                findings.checks.push(ours_over_peer(format!("{case}: ours / {name}"), ours, peer, 1.0));
            }
        }
    }
    Ok(findings)
}
