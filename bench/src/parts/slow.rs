//! A slow back end and 50 users: what stands between them decides how many are served.

use std::io;

use super::{Findings, brisk, nginx, plain_row};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave, rates};
use crate::server::{Prepared, Program, Spec};
use crate::stats::median;
use brisk_load::output;

const USERS: usize = 50;
/// A page as applications make them.
const PAGE_BYTES: usize = 100 * 1024;
const WORKERS: usize = 5;
const WORK_MS: u64 = 50;

/// Pages per second: straight from the back end, through a server, from its cache, and the same with buffers that hold the
/// page.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let slow = Program::Slow { body_bytes: PAGE_BYTES, workers: WORKERS, work_ms: WORK_MS };
    let direct = Spec::new("back end", slow, Conf::default()).unpinned().prepare(lab)?;
    let back_end = direct.start()?;
    let port = back_end.address.port();
    let buffers = "proxy_buffers 16 16k; proxy_buffer_size 16k; proxy_busy_buffers_size 32k;";
    let confs = [
        ("proxied", Conf::default().proxied(port)),
        ("cached", Conf::default().cached(port)),
        ("cached, larger buffers", Conf::default().cached(port).with_location(buffers)),
    ];
    let mut setups: Vec<(&str, &str, Prepared)> = Vec::new();
    // A second one: the first is asked by the others.
    let slow = Spec::new("direct", slow, Conf::default()).unpinned().prepare(lab)?;
    setups.push(("direct", "back end", slow));
    for (case, conf) in confs {
        setups.push((case, "brisk", brisk(conf.clone()).prepare(lab)?));
        setups.push((case, "nginx usual", nginx(conf).prepare(lab)?));
    }
    let cases: Vec<Case<'_>> = setups
        .iter()
        .map(|(_, _, server)| Case {
            server,
            requests: vec![Request::path("/small.txt")],
            connections: USERS,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        })
        .collect();
    let mut findings = Findings::default();
    for ((case, server, _), samples) in setups.iter().zip(interleave(lab, &cases)?) {
        let pages = rates(&samples);
        output::note(format_args!("  {case}, {server}: {:.1} pages/s", median(&pages)));
        let case = format!("{case}, {USERS} users");
        findings.rows.push(plain_row(&case, server, &rates(&samples), "pages/s"));
    }
    Ok(findings)
}
