//! TLS: CPU per request on kept connections, with a handshake for each request, and for a large file.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use brisk_tls::issue::{Issued, Wish};

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer};
use crate::conf::Conf;
use crate::lab::{LARGE_BYTES, Lab};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::Prepared;

/// A kind of load, and what we may cost at most relative to nginx.
struct Kind {
    what: &'static str,
    path: &'static str,
    connections: usize,
    tls: Tls,
    unit_bytes: Option<usize>,
    at_most: f64,
}

const KINDS: [Kind; 4] = [
    Kind {
        what: "TLS, 100 B, 64 kept connections",
        path: "/small.txt",
        connections: 64,
        tls: Tls::KeepAlive,
        unit_bytes: None,
        at_most: 0.72,
    },
    Kind {
        what: "TLS, full handshake and 100 B",
        path: "/small.txt",
        connections: 16,
        tls: Tls::Full,
        unit_bytes: None,
        at_most: 0.45,
    },
    Kind {
        what: "TLS, resumed handshake and 100 B",
        path: "/small.txt",
        // The client keeps eight tickets: with more connections the faster server would shake hands in full more often.
        connections: 8,
        tls: Tls::Resumed,
        unit_bytes: None,
        at_most: 0.5,
    },
    Kind {
        what: "TLS, 10 MiB, 8 connections",
        path: "/large.bin",
        connections: 8,
        tls: Tls::KeepAlive,
        unit_bytes: Some(LARGE_BYTES),
        at_most: 0.8,
    },
];

/// A folder with a certificate and its key.
pub(super) fn certificate(lab: &Lab) -> io::Result<PathBuf> {
    let folder = lab.server_dir("certificate")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
    let wish = Wish {
        common_name: "localhost",
        names: &["localhost"],
        authority: false,
        not_before: now - 3600,
        not_after: now + 86_400,
    };
    let issued = Issued::new(&wish, None).ok_or_else(|| io::Error::other("no randomness"))?;
    fs::write(folder.join("a.crt"), issued.certificate_pem())?;
    fs::write(folder.join("a.key"), issued.key_pem())?;
    Ok(folder)
}

/// Brisk and nginx, each as it is by default.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let folder = certificate(lab)?;
    let conf = Conf { tls: Some(folder), ..Conf::default() };
    let servers: Vec<Prepared> = vec![brisk(conf.clone()).prepare(lab)?, nginx(conf).prepare(lab)?];
    let case = |kind: &Kind, server| Case {
        server,
        requests: vec![Request::path(kind.path)],
        connections: kind.connections,
        unit_bytes: kind.unit_bytes,
        tls: kind.tls,
        streams: None,
    };
    let cases: Vec<Case<'_>> =
        KINDS.iter().flat_map(|kind| servers.iter().map(|server| case(kind, server))).collect();
    let mut samples = interleave(lab, &cases)?.into_iter();
    let mut findings = Findings::default();
    for kind in &KINDS {
        let names = servers.iter().map(|server| server.name.clone());
        let measured: Vec<Measured> =
            names.zip(samples.by_ref()).map(|(server, samples)| Measured { server, samples }).collect();
        for one in &measured {
            findings.add(kind.what, one);
        }
        if let (Some(ours), Some(peer)) = (named(&measured, "brisk"), named(&measured, "nginx usual")) {
            findings.checks.push(ours_over_peer(
                format!("{}: ours / nginx", kind.what),
                ours,
                peer,
                kind.at_most,
            ));
        }
    }
    Ok(findings)
}
