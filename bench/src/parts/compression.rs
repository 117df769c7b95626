//! Content codings: what it costs to compress, and what it does not where that was done before.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{Findings, Measured, brisk, named, nginx, ours_over_peer, peer_over_ours};
use crate::conf::Conf;
use crate::lab::Lab;
use crate::rounds::{Case, Request, Tls, interleave};
use crate::server::Prepared;

const CONNECTIONS: usize = 32;
/// Where Debian puts nginx's module for Brotli.
const BROTLI: &str = "/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so";

/// A way to get the page, for both servers or one.
struct Way {
    what: &'static str,
    codings: &'static str,
    /// Directives of the location.
    brisk: &'static str,
    nginx: Option<&'static str>,
    module: Option<&'static str>,
}

/// A field that is another one each time: the answer cannot be kept.
const GZIP_EACH: &str = "gzip on; gzip_comp_level 6; add_header X-Request $request_id;";
const GZIP_FILE: &str = "gzip on; gzip_comp_level 6;";
const BROTLI_EACH: &str = "brotli on; brotli_comp_level 6; add_header X-Request $request_id;";

const WAYS: &[Way] = &[
    Way {
        what: "gzip, each request",
        codings: "gzip",
        brisk: GZIP_EACH,
        nginx: Some(GZIP_EACH),
        module: None,
    },
    Way { what: "gzip, a file", codings: "gzip", brisk: GZIP_FILE, nginx: Some(GZIP_FILE), module: None },
    Way {
        what: "br, each request",
        codings: "br",
        brisk: BROTLI_EACH,
        nginx: Some(BROTLI_EACH),
        module: Some(BROTLI),
    },
    Way {
        what: "gzip_static",
        codings: "gzip",
        brisk: "gzip_static on;",
        nginx: Some("gzip_static on;"),
        module: None,
    },
    Way {
        what: "compress_static",
        codings: "gzip, br, zstd",
        brisk: "compress_static auto; compress_static_path compressed;",
        nginx: None,
        module: None,
    },
];

/// Each way, with Brisk and with nginx.
pub fn run(lab: &Lab) -> io::Result<Findings> {
    let page = lab.docroot.join("page.html");
    let done = Command::new("gzip").args(["-9", "--keep", "--force"]).arg(&page).status()?;
    if !done.success() {
        return Err(io::Error::other("gzip failed"));
    }
    let mut servers: Vec<(&Way, Prepared)> = Vec::new();
    for way in WAYS {
        let conf = |directives: &str| Conf {
            site: format!("location = /page.html {{ {directives} }}\n"),
            ..Conf::default()
        };
        servers.push((way, brisk(conf(way.brisk)).prepare(lab)?));
        let has_module = way.module.is_none_or(|module| Path::new(module).exists());
        if let Some(directives) = way.nginx.filter(|_| has_module) {
            let conf = Conf { modules: way.module.into_iter().collect(), ..conf(directives) };
            servers.push((way, nginx(conf).prepare(lab)?));
        }
    }
    let cases: Vec<Case<'_>> = servers
        .iter()
        .map(|(way, server)| Case {
            server,
            requests: vec![Request::path("/page.html").accepting(way.codings)],
            connections: CONNECTIONS,
            unit_bytes: None,
            tls: Tls::Off,
            streams: None,
        })
        .collect();
    let samples = interleave(lab, &cases)?;
    let measured: Vec<(&Way, Measured)> = servers
        .iter()
        .zip(samples)
        .map(|((way, server), samples)| (*way, Measured { server: server.name.clone(), samples }))
        .collect();
    Ok(conclude(measured))
}

fn conclude(measured: Vec<(&Way, Measured)>) -> Findings {
    let mut findings = Findings::default();
    let mut by_way: Vec<(&str, Vec<Measured>)> = WAYS.iter().map(|way| (way.what, Vec::new())).collect();
    for (way, one) in measured {
        findings.add(way.what, &one);
        if let Some((_, list)) = by_way.iter_mut().find(|(what, _)| *what == way.what) {
            list.push(one);
        }
    }
    let of = |what: &str, server: &str| {
        let (_, list) = by_way.iter().find(|(have, _)| *have == what)?;
        named(list, server)
    };
    for (what, _) in &by_way {
        if let (Some(ours), Some(peer)) = (of(what, "brisk"), of(what, "nginx usual")) {
            findings.checks.push(ours_over_peer(format!("{what}: ours / nginx"), ours, peer, 1.0));
        }
    }
    if let (Some(ours), Some(peer)) = (of("compress_static", "brisk"), of("gzip, a file", "nginx usual")) {
        let what = "nginx's gzip / our compress_static".to_owned();
        findings.checks.push(peer_over_ours(what, ours, peer, 10.0));
    }
    findings
}
