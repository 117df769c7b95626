//! What it costs to find the location and the server.

use std::io;

use brisk_load::rng::Rng;

use super::{Findings, Measured, brisk, nginx, ours_over_peer};
use crate::conf::{Conf, Vhosts, regex_locations, vhost_name};
use crate::lab::{Lab, MANY_FILES, many_path};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::Prepared;

const CONNECTIONS: usize = 64;
const VHOSTS: usize = 10_000;
/// Routing may cost this much of the plain case.
const RATIO_MAX: f64 = 1.1;

/// One configuration and what is asked of it.
struct Variant {
    case: &'static str,
    /// Index into the configurations of [`run`].
    conf: usize,
    requests: Vec<Request>,
    /// The case that it must not cost much more than.
    compared_to: Option<&'static str>,
}

/// Plain, behind regexes, among names: each with one URI (or name) and with thousands.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let confs = [
        Conf::default(),
        Conf { site: regex_locations(200), ..Conf::default() },
        Conf { vhosts: Some(Vhosts { count: VHOSTS, own_roots: false }), ..Conf::default() },
    ];
    let variants = variants();
    let mut findings = Findings::default();
    let mut cases = Vec::new();
    let ours: Vec<Prepared> =
        confs.iter().map(|conf| brisk(conf.clone()).prepare(lab)).collect::<io::Result<_>>()?;
    let peers: Vec<Prepared> =
        confs.iter().map(|conf| nginx(conf.clone()).prepare(lab)).collect::<io::Result<_>>()?;
    for servers in [&ours, &peers] {
        cases.extend(variants.iter().map(|variant| Case {
            server: &servers[variant.conf],
            requests: variant.requests.clone(),
            connections: CONNECTIONS,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        }));
    }
    let names = cases.iter().map(|case| case.server.name.clone());
    let measured: Vec<Measured> =
        names.zip(interleave(lab, &cases)?).map(|(server, samples)| Measured { server, samples }).collect();
    for (one, variant) in measured.iter().zip(variants.iter().cycle()) {
        findings.add(variant.case, one);
    }
    for (variant, one) in variants.iter().zip(&measured) {
        let plain = variants.iter().position(|other| Some(other.case) == variant.compared_to);
        if let Some(plain) = plain {
            let what = format!("{} / {} (peer: ours, plain)", variant.case, variants[plain].case);
            findings.checks.push(ours_over_peer(what, one, &measured[plain], RATIO_MAX));
        }
    }
    Ok(findings)
}

fn variants() -> Vec<Variant> {
    let one = || vec![Request::path("/small.txt")];
    let many = || (0..MANY_FILES).map(|index| Request::path(&many_path(index))).collect::<Vec<_>>();
    let host = |index: usize| Request { host: vhost_name(index), ..Request::path("/small.txt") };
    let mut shuffled: Vec<usize> = (0..VHOSTS).collect();
    Rng::new(1).shuffle(&mut shuffled);
    let variant = |case, conf, requests, compared_to| Variant { case, conf, requests, compared_to };
    vec![
        variant("plain, one URI", 0, one(), None),
        variant("plain, 5,000 URIs", 0, many(), None),
        variant("200 regexes, one URI", 1, one(), Some("plain, one URI")),
        variant("200 regexes, 5,000 URIs", 1, many(), Some("plain, 5,000 URIs")),
        variant("10,000 hosts, one asked", 2, vec![host(VHOSTS / 2)], Some("plain, one URI")),
        variant("10,000 hosts, all asked", 2, shuffled.into_iter().map(host).collect(), None),
    ]
}
