//! Which virtual host listens where, as Apache chooses: by address first, then by name.

use super::draft::{Listen, Translator};
use crate::syntax::{Mistake, Node};
use std::net::IpAddr;

/// A `listen` of Brisk's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its argument.
    pub text: String,
    /// As Apache shows it: `*:80`.
    pub shown: String,
    pub is_https: bool,
    pub line: u32,
}

/// Where each host listens.
pub(super) struct Plan {
    pub main: Vec<Wanted>,
    pub hosts: Vec<Vec<Wanted>>,
}

/// Whose protocol is `https` unless `Listen` names another.
const HTTPS: u16 = 443;

/// One address of a `<VirtualHost>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    ip: Option<IpAddr>,
    port: Option<u16>,
}

impl Listen {
    /// `Listen [address:]port [protocol]`.
    pub fn parse(node: &Node) -> Result<Listen, String> {
        let word = super::host::word(node, 0)?;
        let (host, port) = split(&word);
        let port = port.ok_or("Port must be specified")?;
        let address = match host {
            None | Some("*") => None,
            Some(host) => Some(host.parse().map_err(|_| format!("'{host}' is no address"))?),
        };
        let protocol = node.words().nth(1).map(|word| word.to_ascii_lowercase());
        let is_https = protocol.map_or(port == HTTPS, |protocol| protocol == b"https");
        Ok(Listen { address, port, is_https, line: node.line })
    }
}

/// An address and a port, where both are given: `[::1]:80`, `*:80`, `80`.
fn split(text: &str) -> (Option<&str>, Option<u16>) {
    if let Ok(port) = text.parse() {
        return (None, Some(port));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').unwrap_or((rest, ""));
        return (Some(host), behind.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match text.rsplit_once(':') {
        Some((host, "*")) => (Some(host), None),
        Some((host, port)) if port.parse::<u16>().is_ok() => (Some(host), port.parse().ok()),
        _ => (Some(text), None),
    }
}

fn addresses(this: &mut Translator<'_, '_>, node: &Node) -> Vec<Address> {
    let mut out = Vec::new();
    for word in node.words() {
        let word = String::from_utf8_lossy(&word).into_owned();
        let (host, port) = split(&word);
        match host {
            None | Some("*" | "_default_") => out.push(Address { ip: None, port }),
            Some(host) => match host.parse() {
                Ok(ip) => out.push(Address { ip: Some(ip), port }),
                Err(_) => match this.files.addresses(host) {
                    Ok(found) => out.extend(found.into_iter().map(|ip| Address { ip: Some(ip), port })),
                    Err(why) => this.mistakes.push(Mistake {
                        line: node.line,
                        text: format!(
                            "<VirtualHost>: the host {host} cannot be looked up ({why}): write its address"
                        ),
                    }),
                },
            },
        }
    }
    out
}

/// Where each of the hosts listens, and where the main server does.
pub(super) fn plan<'n>(this: &mut Translator<'_, '_>, hosts: impl Iterator<Item = &'n Node>) -> Plan {
    let mut listens = this.listens.clone();
    let is_included = this.files.arguments().is_included;
    let both = this.files.arguments().has_ipv6;
    let mut plan = Plan { main: Vec::new(), hosts: Vec::new() };
    let mut all = Vec::new();
    for node in hosts {
        let addresses = addresses(this, node);
        if is_included {
            let own = |address: &Address| {
                let port = address.port?;
                Some(Listen { address: address.ip, port, is_https: port == HTTPS, line: node.line })
            };
            listens = addresses.iter().filter_map(own).collect();
        }
        let mut wanted: Vec<Wanted> = Vec::new();
        for (listen, address) in listens.iter().flat_map(|l| addresses.iter().map(move |a| (l, a))) {
            let is_port = address.port.is_none_or(|port| port == listen.port);
            let ip = match (listen.address, address.ip) {
                _ if !is_port => continue,
                (None, ip) => ip,
                (Some(ip), None) => Some(ip),
                (Some(ip), Some(other)) if ip == other => Some(ip),
                _ => continue,
            };
            add(&mut wanted, Listen { address: ip, line: node.line, ..*listen }, both);
        }
        plan.hosts.push(wanted);
        all.extend(addresses);
    }
    for listen in &listens {
        let is_taken = |address: &Address| {
            address.port.is_none_or(|port| port == listen.port)
                && (address.ip.is_none() || address.ip == listen.address)
        };
        if !all.iter().any(is_taken) {
            add(&mut plan.main, *listen, both);
        }
    }
    plan
}

fn add(wanted: &mut Vec<Wanted>, listen: Listen, both: bool) {
    let Listen { address: ip, port, is_https, line } = listen;
    let mut push = |text: String, shown: String| {
        if !wanted.iter().any(|have| have.text == text) {
            wanted.push(Wanted { text, shown, is_https, line });
        }
    };
    match ip {
        None => {
            push(format!("{port}"), format!("*:{port}"));
            if both {
                push(format!("[::]:{port}"), format!("*:{port}"));
            }
        }
        Some(IpAddr::V4(ip)) => push(format!("{ip}:{port}"), format!("{ip}:{port}")),
        Some(IpAddr::V6(ip)) => push(format!("[{ip}]:{port}"), format!("[{ip}]:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports() {
        for (text, host, port) in [
            ("80", None, Some(80)),
            ("*:80", Some("*"), Some(80)),
            ("1.2.3.4:*", Some("1.2.3.4"), None),
            ("1.2.3.4", Some("1.2.3.4"), None),
            ("[::1]:443", Some("::1"), Some(443)),
            ("[::]", Some("::"), None),
            ("_default_:443", Some("_default_"), Some(443)),
        ] {
            assert_eq!(split(text), (host, port), "{text}");
        }
    }
}
