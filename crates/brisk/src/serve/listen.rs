//! Where `brisk serve` listens: what `--listen` and `--public` mean, whether it can be had, and as which URLs it is shown.

use brisk_net::listen::{self, Address, Options};
use brisk_net::sys;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Ports that are tried for the remedy when one is in use.
const SUGGESTED_PORTS: u16 = 20;

/// What cannot be done, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    what: String,
    help: String,
}

impl Problem {
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem { what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n   = help: {}", self.what, self.help)
    }
}

/// The addresses that the command line means. Without a host it is this machine alone, unless `public`.
pub fn addresses(given: &[String], public: bool, default_port: u16) -> Result<Vec<Address>, Problem> {
    let default = [default_port.to_string()];
    let given = if given.is_empty() { &default[..] } else { given };
    let mut out: Vec<Address> = Vec::new();
    for text in given {
        for address in one(text, public, default_port)? {
            if !out.contains(&address) {
                out.push(address);
            }
        }
    }
    Ok(out)
}

fn one(text: &str, public: bool, default_port: u16) -> Result<Vec<Address>, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path).map(|path| vec![Address::Unix(path)]);
    }
    let (host, port) = split(text);
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(|| {
            Problem::new(
                format!("\"{text}\" has no valid port"),
                "a port is a number from 1 to 65535: --listen 8080, --listen ADDRESS:8080",
            )
        })?,
    };
    let ips = match host {
        None if public => all(),
        None => vec![Ipv4Addr::LOCALHOST.into()],
        Some(_) if public => {
            return Err(Problem::new(
                format!("--public and \"{text}\" contradict each other"),
                "--public listens on all addresses; leave it out, or give the port alone: --public --listen 8080",
            ));
        }
        Some("*") => all(),
        Some(host) => resolve(host)?,
    };
    Ok(ips.into_iter().map(|ip| Address::Ip(SocketAddr::new(ip, port))).collect())
}

/// Host and port of what was given: `PORT`, `:PORT`, `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT`, `IPV6`.
fn split(text: &str) -> (Option<&str>, Option<&str>) {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return (None, Some(text));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return (Some(text), None);
    }
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match bracketed.map(|(host, rest)| (host, rest.strip_prefix(':'))) {
        Some(found) => (Some(found.0), found.1),
        None => match text.rsplit_once(':') {
            Some(("", port)) => (None, Some(port)),
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    }
}

/// Every address, of both families where there are both.
fn all() -> Vec<IpAddr> {
    let has_v6 = sys::interface_addresses().iter().any(IpAddr::is_ipv6);
    let v6 = has_v6.then_some(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED)].into_iter().chain(v6).collect()
}

fn resolve(host: &str) -> Result<Vec<IpAddr>, Problem> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![ip]);
    }
    let found =
        (host, 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect::<Vec<_>>());
    found.ok().filter(|ips| !ips.is_empty()).ok_or_else(|| {
        Problem::new(
            format!("no address is known for \"{host}\""),
            "write --listen PORT, --listen ADDRESS:PORT or --listen unix:PATH",
        )
    })
}

/// A relative path starts where the command was given.
fn unix(path: &str) -> Result<PathBuf, Problem> {
    const BYTES_MAX: usize = 107;
    let full = std::path::absolute(path)
        .map_err(|_| Problem::new("\"unix:\" needs a path", "write --listen unix:/run/site.sock"))?;
    if full.as_os_str().len() > BYTES_MAX {
        let why = format!("\"{}\" is too long for a socket's name", full.display());
        return Err(Problem::new(why, format!("the whole path may have {BYTES_MAX} bytes")));
    }
    Ok(full)
}

/// Looks whether an address can be had, so that the answer is about the command line.
pub fn check(address: &Address) -> Result<(), Problem> {
    match address {
        Address::Ip(ip) | Address::Udp(ip) | Address::Quic(ip, _) => {
            listen::claim(address, &Options::default()).map(drop).map_err(|error| refused(*ip, &error))
        }
        Address::Unix(path) => check_unix(path),
    }
}

fn check_unix(path: &Path) -> Result<(), Problem> {
    let shown = path.display();
    if let Ok(there) = std::fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            let why = format!("\"{shown}\" is there and is no socket");
            return Err(Problem::new(why, "give another path: --listen unix:PATH"));
        }
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            let why = format!("another server listens on \"{shown}\"");
            return Err(Problem::new(why, "end it, or give another path: --listen unix:PATH"));
        }
        // What a server that was killed has left behind.
        let _ = std::fs::remove_file(path);
    }
    match listen::claim(&Address::Unix(path.to_owned()), &Options::default()) {
        Ok(_) => {
            let _ = std::fs::remove_file(path);
            Ok(())
        }
        Err(error) => {
            let why = format!("cannot make the socket \"{shown}\" ({})", brisk_conf::os_text(&error));
            Err(Problem::new(why, "its folder must be there and writable: --listen unix:PATH"))
        }
    }
}

fn refused(address: SocketAddr, error: &io::Error) -> Problem {
    let port = address.port();
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            let by =
                crate::refusal::holder(port).map_or_else(String::new, |by| format!(": {by} listens there"));
            let next = (1..=SUGGESTED_PORTS).filter_map(|more| port.checked_add(more));
            let is_free = |port: &u16| {
                let address = Address::Ip(SocketAddr::new(address.ip(), *port));
                listen::claim(&address, &Options::default()).is_ok()
            };
            let other = next.into_iter().find(is_free).map_or_else(|| "PORT".into(), |port| port.to_string());
            Problem::new(
                format!("port {port} is in use{by}"),
                format!("choose another port: --listen {other}"),
            )
        }
        Some(libc::EACCES) => Problem::new(
            format!("port {port} is for root and for programs with CAP_NET_BIND_SERVICE"),
            "choose a port from 1024 on: --listen 8080",
        ),
        Some(libc::EADDRNOTAVAIL) => {
            let own: Vec<String> = sys::interface_addresses().iter().map(ToString::to_string).collect();
            Problem::new(
                format!("no interface of this machine has the address {}", address.ip()),
                format!("it has {}; --public listens on all of them", own.join(", ")),
            )
        }
        _ => Problem::new(
            format!("cannot listen on {address} ({})", brisk_conf::os_text(error)),
            "give another address: --listen ADDRESS:PORT",
        ),
    }
}

/// Whether only this machine reaches all of these.
pub fn is_local(addresses: &[Address]) -> bool {
    addresses.iter().all(|address| match address {
        Address::Ip(ip) | Address::Udp(ip) | Address::Quic(ip, _) => ip.ip().is_loopback(),
        Address::Unix(_) => true,
    })
}

/// The URLs under which a browser finds these addresses; for a wildcard, those of the interfaces.
pub fn urls(addresses: &[Address], scheme: &str) -> Vec<String> {
    let mut out = Vec::new();
    for address in addresses {
        match address {
            Address::Unix(path) => out.push(format!("unix:{}", path.display())),
            Address::Ip(ip) if ip.ip().is_unspecified() => {
                let same_family = |own: &IpAddr| own.is_ipv4() == ip.is_ipv4();
                // A link-local address means nothing without its interface, which URLs cannot name.
                let is_link_local =
                    |own: &IpAddr| matches!(own, IpAddr::V6(v6) if v6.is_unicast_link_local());
                let own = sys::interface_addresses().into_iter();
                out.extend(
                    own.filter(same_family)
                        .filter(|own| !is_link_local(own))
                        .map(|own| format!("{scheme}://{}/", SocketAddr::new(own, ip.port()))),
                );
            }
            Address::Ip(ip) => out.push(format!("{scheme}://{ip}/")),
            // No browser speaks datagrams to it.
            Address::Udp(_) | Address::Quic(..) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(given: &[&str], public: bool) -> String {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        match addresses(&given, public, 8080) {
            Ok(found) => found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(problem) => problem.what,
        }
    }

    #[test]
    fn loopback_unless_told() {
        let check = |given: &[&str], want: &str| assert_eq!(shown(given, false), want, "{given:?}");
        check(&[], "127.0.0.1:8080");
        check(&["9211"], "127.0.0.1:9211");
        check(&[":9211"], "127.0.0.1:9211");
        check(&["0.0.0.0:9211"], "0.0.0.0:9211");
        check(&["[::]:9211"], "[::]:9211");
        check(&["::1"], "[::1]:8080");
        check(&["[::1]"], "[::1]:8080");
        check(&["192.0.2.7"], "192.0.2.7:8080");
        check(&["192.0.2.7:1", "2", "2"], "192.0.2.7:1 127.0.0.1:2");
        check(&["unix:/run/x.sock"], "unix:/run/x.sock");
        check(&["0"], "\"0\" has no valid port");
        check(&["70000"], "\"70000\" has no valid port");
        check(&["127.0.0.1:x"], "\"127.0.0.1:x\" has no valid port");
        check(&["no-such-host.invalid:1"], "no address is known for \"no-such-host.invalid\"");
        assert!(shown(&["*:9211"], false).starts_with("0.0.0.0:9211"));
    }

    #[test]
    fn public_is_every_address() {
        assert!(shown(&[], true).starts_with("0.0.0.0:8080"));
        assert!(shown(&["9211"], true).starts_with("0.0.0.0:9211"));
        assert_eq!(shown(&["127.0.0.1:1"], true), "--public and \"127.0.0.1:1\" contradict each other");
    }

    #[test]
    fn urls_name_what_a_browser_can_open() {
        let urls = |text: &str| urls(&addresses(&[text.to_string()], false, 80).unwrap(), "http");
        assert_eq!(urls("9211"), ["http://127.0.0.1:9211/"]);
        assert_eq!(urls("[::1]:9211"), ["http://[::1]:9211/"]);
        let all = urls("0.0.0.0:9211");
        assert!(all.contains(&"http://127.0.0.1:9211/".to_string()), "{all:?}");
        assert!(!all.iter().any(|url| url.contains("0.0.0.0")), "{all:?}");
    }
}
