//! `state`: the servers of a group in a file, so that what was changed while the server ran is still there later.
//!
//! The file is read by the parser of configurations, and written by the server alone. It is read once, when a
//! group is made: a reload keeps the servers that the group has.

use super::server::{self, Place};
use brisk_balance::{Admin, Endpoint, ServerSpec};
use brisk_conf::{NoFiles, SourceMap};
use brisk_net::replace::replace;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// The servers in a file. One that is not there yet has none; lines that are none are left out.
pub(super) fn read(path: &str) -> Vec<ServerSpec> {
    std::fs::read(path).map(parse).unwrap_or_default()
}

fn parse(text: Vec<u8>) -> Vec<ServerSpec> {
    let mut sources = SourceMap::default();
    let file = sources.add("state", text);
    // No includes: the file is data.
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut Vec::new());
    let servers = tree.iter().filter(|line| line.name() == "server" && !line.args.is_empty());
    servers.filter_map(|line| spec(line.args.iter().map(brisk_conf::Token::str))).collect()
}

/// One server from its words; `None` if they are not understood.
fn spec<'t>(mut words: impl Iterator<Item = &'t str>) -> Option<ServerSpec> {
    let address = words.next()?;
    let mut spec = ServerSpec::new(address, Vec::new());
    let mut resolve = false;
    for word in words {
        let (name, text) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "weight" => spec.weight = text.parse().ok().filter(|&weight: &u32| weight > 0)?,
            "max_conns" => spec.max_conns = text.parse().ok()?,
            "max_fails" => spec.max_fails = text.parse().ok()?,
            "fail_timeout" => {
                spec.fail_timeout_secs = brisk_conf::value::parse_time(text.as_bytes(), true)?;
            }
            "slow_start" => spec.slow_start_ms = brisk_conf::value::parse_time(text.as_bytes(), false)?,
            "route" => spec.route = Some(text.into()),
            "service" => spec.service = Some(text.into()),
            "backup" => spec.backup = true,
            "down" => spec.admin = Admin::Down,
            "drain" => spec.admin = Admin::Drain,
            "resolve" => resolve = true,
            _ => return None,
        }
    }
    place(&mut spec, resolve).then_some(spec)
}

/// Fills in where a server is; false if it has neither an address nor a name to be looked up.
pub fn place(spec: &mut ServerSpec, resolve: bool) -> bool {
    let Ok(place) = server::place(&spec.server) else { return false };
    match place {
        Place::Unix(path) => spec.endpoints = vec![Endpoint::Unix(path)],
        Place::Ip(ip, port) => spec.endpoints = vec![Endpoint::Ip(SocketAddr::new(ip, port.unwrap_or(80)))],
        Place::Name(host, _) if resolve => spec.host = Some(host.into()),
        Place::Name(..) => return false,
    }
    true
}

/// Writes the servers; the file is replaced as a whole.
pub(super) fn write(path: &Path, servers: &[ServerSpec]) -> io::Result<()> {
    let mut text = String::new();
    for spec in servers {
        line(&mut text, spec);
    }
    // Cut down by the umask. A rename, so that a server that dies leaves either state.
    replace(path, text.as_bytes(), 0o666)
}

fn line(out: &mut String, spec: &ServerSpec) {
    // Writing to a string cannot fail.
    let _ = write!(out, "server {}", spec.server);
    let plain = ServerSpec::new("", Vec::new());
    let numbers = [
        ("weight", u64::from(spec.weight), u64::from(plain.weight), ""),
        ("max_conns", u64::from(spec.max_conns), u64::from(plain.max_conns), ""),
        ("max_fails", u64::from(spec.max_fails), u64::from(plain.max_fails), ""),
        ("fail_timeout", spec.fail_timeout_secs, plain.fail_timeout_secs, "s"),
        ("slow_start", spec.slow_start_ms, plain.slow_start_ms, "ms"),
    ];
    // Only what differs from the default: the file is read by people, too.
    for (name, value, _, unit) in numbers.into_iter().filter(|(_, value, default, _)| value != default) {
        let _ = write!(out, " {name}={value}{unit}");
    }
    for (name, text) in [("route", &spec.route), ("service", &spec.service)] {
        if let Some(text) = text {
            let _ = write!(out, " {name}={text}");
        }
    }
    let flags = [
        ("backup", spec.backup),
        ("down", spec.admin == Admin::Down),
        ("drain", spec.admin == Admin::Drain),
        ("resolve", spec.host.is_some()),
    ];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        let _ = write!(out, " {name}");
    }
    out.push_str(";\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let lines = [
            "server 127.0.0.1:81;\n",
            "server 127.0.0.1:82 weight=5 max_conns=7 max_fails=0 fail_timeout=30s slow_start=1500ms route=a backup down;\n",
            "server unix:/tmp/s drain;\n",
            "server a.example service=http resolve;\n",
        ];
        let specs = parse(lines.concat().into_bytes());
        assert_eq!(specs.len(), 4);
        let mut out = String::new();
        specs.iter().for_each(|spec| line(&mut out, spec));
        assert_eq!(out, lines.concat());
        assert!(parse(b"server; server a.example; server x weight=0; listen 80; server".to_vec()).is_empty());
    }
}
