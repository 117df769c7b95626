//! Small and medium files and `return`: CPU per request against the floor and the peers.

use std::io;

use super::{Findings, Measured, best, brisk, named, nginx, nginx_setups, ours_over_peer, peer_over_ours};
use crate::conf::Conf;
use crate::lab::{Lab, MEDIUM_BYTES, SMALL_BYTES};
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::{Prepared, Program, Spec};

/// What nginx must cost at least, relative to ours: in its best set-up and in its usual one.
struct NginxTargets {
    best: f64,
    usual: Option<f64>,
}

/// A group of servers that are compared with each other.
struct Group {
    what: &'static str,
    path: &'static str,
    connections: Vec<usize>,
    servers: Vec<Prepared>,
    floor: Option<f64>,
    nginx: NginxTargets,
}

/// 100 bytes, the log off and on.
pub fn small(lab: &Lab) -> io::Result<Findings> {
    let group = |access_log: bool| -> io::Result<Group> {
        let conf = Conf { access_log, ..Conf::default() };
        let floor = (!access_log).then_some(SMALL_BYTES);
        Ok(Group {
            what: if access_log { "100 B, log on" } else { "100 B, log off" },
            path: "/small.txt",
            connections: vec![64, 512],
            servers: prepare_all(lab, &conf, floor)?,
            floor: floor.map(|_| 1.15),
            nginx: if access_log {
                NginxTargets { best: 1.5, usual: Some(1.7) }
            } else {
                NginxTargets { best: 1.4, usual: Some(1.6) }
            },
        })
    };
    compare(lab, &[group(false)?, group(true)?])
}

/// 10 KiB.
pub fn medium(lab: &Lab) -> io::Result<Findings> {
    let group = Group {
        what: "10 KiB",
        path: "/medium.txt",
        connections: vec![64],
        servers: prepare_all(lab, &Conf::default(), Some(MEDIUM_BYTES))?,
        floor: None,
        nginx: NginxTargets { best: 1.3, usual: None },
    };
    compare(lab, &[group])
}

/// `return 200 "ok"`.
pub fn returned(lab: &Lab) -> io::Result<Findings> {
    let site = "location = /ok { return 200 \"ok\"; }\n".to_owned();
    let conf = Conf { site, ..Conf::default() };
    let group = Group {
        what: "return",
        path: "/ok",
        connections: vec![64],
        servers: vec![brisk(conf.clone()).prepare(lab)?, nginx(conf).prepare(lab)?],
        floor: None,
        nginx: NginxTargets { best: 1.3, usual: None },
    };
    compare(lab, &[group])
}

/// Brisk, every set-up of nginx, h2o, and the floor where it has a part.
fn prepare_all(lab: &Lab, conf: &Conf, floor: Option<usize>) -> io::Result<Vec<Prepared>> {
    let floor = floor.map(|body_bytes| Spec::new("floor", Program::Floor { body_bytes }, Conf::default()));
    let h2o = Spec::new("h2o", Program::H2o, conf.clone());
    let specs = floor.into_iter().chain([brisk(conf.clone())]).chain(nginx_setups(conf)).chain([h2o]);
    specs.map(|spec| spec.prepare(lab)).collect()
}

fn compare(lab: &Lab, groups: &[Group]) -> io::Result<Findings> {
    let mut cases = Vec::new();
    for group in groups {
        for &connections in &group.connections {
            cases.extend(group.servers.iter().map(|server| Case {
                server,
                requests: vec![Request::path(group.path)],
                connections,
                unit_bytes: None,
                tls: Tls::Off,
                streams: None,
            }));
        }
    }
    let mut samples = interleave(lab, &cases)?.into_iter();
    let mut findings = Findings::default();
    for group in groups {
        for connections in &group.connections {
            let servers = group.servers.iter().map(|server| server.name.clone());
            let measured: Vec<Measured> =
                servers.zip(samples.by_ref()).map(|(server, samples)| Measured { server, samples }).collect();
            conclude(group, &format!("{}, {connections} connections", group.what), &measured, &mut findings);
        }
    }
    Ok(findings)
}

/// Holds one case of one group against its targets.
fn conclude(group: &Group, case: &str, measured: &[Measured], findings: &mut Findings) {
    for one in measured {
        findings.add(case, one);
    }
    let Some(ours) = named(measured, "brisk") else { return };
    if let (Some(at_most), Some(floor)) = (group.floor, named(measured, "floor")) {
        findings.checks.push(ours_over_peer(format!("{case}: ours / floor"), ours, floor, at_most));
    }
    if let Some(peer) = best(measured, "nginx") {
        let what = format!("{case}: nginx best ({}) / ours", peer.server.trim_start_matches("nginx "));
        findings.checks.push(peer_over_ours(what, ours, peer, group.nginx.best));
    }
    if let (Some(at_least), Some(peer)) = (group.nginx.usual, named(measured, "nginx usual")) {
        findings.checks.push(peer_over_ours(format!("{case}: nginx usual / ours"), ours, peer, at_least));
    }
}
