//! `<Proxy balancer://name>`: a group of back ends; and `<Proxy *>`, which may only grant.

use super::build::{block, statement};
use super::draft::{Balancers, Done, Target, Translator};
use super::handlers;
use super::host::{literal, word};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

const PREFIX: &str = "apache_balancer_";

impl Balancers {
    /// The groups as `upstream`s.
    pub fn directives(&self, span: &dyn Fn(u32) -> Span) -> Vec<Directive> {
        let group = |(name, (line, inner)): (&String, &(u32, Vec<Directive>))| {
            block(span(*line), "upstream", [format!("{PREFIX}{name}")], inner.clone())
        };
        self.defined.iter().map(group).collect()
    }

    /// Groups that lines ask and nothing defines, and those that are defined twice.
    pub fn mistakes(&self) -> Vec<(u32, String)> {
        let missing = self.asked.iter().filter(|(name, _)| !self.defined.contains_key(*name));
        let missing = missing.map(|(name, line)| (*line, format!("there is no <Proxy balancer://{name}>")));
        let twice = self.conflicts.iter().map(|name| {
            let line = self.defined.get(name).map_or(1, |(line, _)| *line);
            (
                line,
                format!(
                    "<Proxy balancer://{name}> is there twice: Brisk has one group of a name for all hosts"
                ),
            )
        });
        missing.chain(twice).collect()
    }
}

/// Whether a URL leads to a group.
pub(super) fn is_group(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| rest.starts_with(PREFIX))
}

/// Name and path of `balancer://name/path`. `None`: it is another URL.
pub(super) fn parts(
    this: &mut Translator<'_, '_>,
    url: &str,
    line: u32,
) -> Result<Option<(String, String)>, String> {
    let Some(rest) = url.strip_prefix("balancer://") else { return Ok(None) };
    let (name, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let name = group(name)?;
    this.balancers.asked.entry(name.clone()).or_insert(line);
    Ok(Some((name, path.to_string())))
}

/// What a group is to those that ask it, when all groups are known.
pub(super) fn target(this: &Translator<'_, '_>, name: &str, path: &str, timeout_secs: Option<u64>) -> Target {
    if this.balancers.of_scripts.contains(name) {
        return Target::Script { address: format!("{PREFIX}{name}"), path: path.to_string(), timeout_secs };
    }
    Target::Proxy { url: format!("http://{PREFIX}{name}{path}"), timeout_secs }
}

fn group(name: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(format!("'{name}' is no name of a balancer"))
}

/// A `<Proxy>` section.
pub(super) fn line(this: &mut Translator<'_, '_>, name: &str, node: &Node) -> Done {
    let children = node.children.as_ref().filter(|_| name == "proxy")?;
    Some(section(this, node, children))
}

fn section(this: &mut Translator<'_, '_>, node: &Node, children: &[Node]) -> Result<(), String> {
    let target = word(node, 0)?;
    let Some(name) = target.strip_prefix("balancer://") else {
        return match children.iter().find(|inner| !grants(inner) || closes(inner, children)) {
            None => Ok(()),
            // What only grants changes nothing.
            Some(other) => {
                Err(format!("Brisk does not support {} here (yet): put it into a <Location>", other.name))
            }
        };
    };
    if let Some(closed) = children.iter().find(|inner| closes(inner, children)) {
        return Err(format!("{} without Allow refuses everybody: put it into a <Location>", closed.name));
    }
    let name = group(name.trim_end_matches('/'))?;
    let (mut inner, mut protocols) = (Vec::new(), Vec::new());
    let mut method = None;
    for line in children.iter().filter(|inner| !grants(inner)) {
        match line.name.to_ascii_lowercase().as_str() {
            "balancermember" => {
                let (protocol, args) = member(line).map_err(|text| format!("BalancerMember: {text}"))?;
                protocols.push(protocol);
                inner.push(statement(this.span(line.line), "server", args));
            }
            "proxyset" => {
                for word in line.words() {
                    if let Some(found) = setting(&String::from_utf8_lossy(&word))? {
                        method = Some(statement(this.span(line.line), found, [""; 0]));
                    }
                }
            }
            _ => return Err(format!("Brisk does not support {} here (yet)", line.name)),
        }
    }
    if inner.is_empty() {
        return Err("a balancer needs a BalancerMember".into());
    }
    protocols.dedup();
    match protocols.as_slice() {
        [Protocol::Http] => {}
        [Protocol::FastCgi] => _ = this.balancers.of_scripts.insert(name.clone()),
        _ => return Err("Brisk supports members that speak one protocol only".into()),
    }
    inner.splice(..0, method);
    if this.balancers.defined.insert(name.clone(), (node.line, inner)).is_some() {
        this.balancers.conflicts.insert(name);
    }
    Ok(())
}

/// `Order allow,deny` refuses clients that no `Allow` names (mod_access_compat).
fn closes(line: &Node, siblings: &[Node]) -> bool {
    let is_allow_first = line.words().next().is_some_and(|word| word.eq_ignore_ascii_case(b"allow,deny"));
    line.is("Order") && is_allow_first && !siblings.iter().any(|other| other.is("Allow") && grants(other))
}

/// Lines that only say that everybody may come in; of `Order` that is for [`closes`] to tell.
fn grants(node: &Node) -> bool {
    let words: Vec<String> =
        node.words().map(|word| String::from_utf8_lossy(&word).to_ascii_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match node.name.to_ascii_lowercase().as_str() {
        "require" => words == ["all", "granted"],
        "allow" => words == ["from", "all"],
        // Of `Order deny,allow` without a `Deny` nothing is left, and with `Allow from all` of the other neither.
        "order" => matches!(words.as_slice(), ["deny,allow" | "allow,deny"]),
        "adddefaultcharset" => words == ["off"],
        _ => false,
    }
}

/// `ProxySet`: the method of choice as Brisk calls it.
fn setting(text: &str) -> Result<Option<&'static str>, String> {
    match text.split_once('=') {
        Some(("lbmethod", "byrequests" | "bytraffic")) => Ok(None),
        Some(("lbmethod", "bybusyness")) => Ok(Some("least_conn")),
        Some(("timeout" | "maxattempts" | "nofailover" | "failonstatus", _)) | None => {
            Err(format!("Brisk does not support ProxySet {text} (yet)"))
        }
        Some((name, _)) => Err(format!("Brisk does not support ProxySet {name} (yet)")),
    }
}

/// What a member speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http,
    FastCgi,
}

/// A member's protocol and address: `http://host:port`, `fcgi://host:port`, `unix:/socket|http://any`, `unix:/socket|fcgi://any`.
fn address(url: &str) -> Result<(Protocol, String), String> {
    let with_path =
        || format!("'{url}': Brisk supports members without a path only: put it behind balancer://NAME");
    if let Some(script) = handlers::script(url) {
        let (address, path) = script?;
        return if matches!(path.as_str(), "" | "/") {
            Ok((Protocol::FastCgi, address))
        } else {
            Err(with_path())
        };
    }
    if let Some((socket, path)) = of_socket(url) {
        let is_whole = matches!(path, "" | "/");
        return if is_whole { Ok((Protocol::Http, format!("unix:{socket}"))) } else { Err(with_path()) };
    }
    let host = url
        .strip_prefix("http://")
        .ok_or_else(|| format!("Brisk does not support '{url}' (yet): http:// and fcgi:// only"))?;
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.is_empty() || host.contains('/') {
        return Err(with_path());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok((Protocol::Http, if has_port { host.to_string() } else { format!("{host}:80") }))
}

/// Socket and path of `unix:/socket|http://any/path`. `None`: it is another URL.
pub(super) fn of_socket(url: &str) -> Option<(&str, &str)> {
    let (socket, target) = url.strip_prefix("unix:").filter(|rest| rest.starts_with('/'))?.split_once('|')?;
    // (Apache wants no more of the host than the scheme.)
    let rest = target.strip_prefix("http:")?;
    let host = rest.strip_prefix("//").unwrap_or(rest);
    Some((socket, &host[host.find('/').unwrap_or(host.len())..]))
}

/// The protocol of a `BalancerMember`, and the arguments of `server` for it.
fn member(node: &Node) -> Result<(Protocol, Vec<String>), String> {
    let (protocol, address) = address(&literal(word(node, 0)?)?)?;
    let mut args = vec![address];
    for word in node.words().skip(1) {
        let word = String::from_utf8_lossy(&word).into_owned();
        match word.split_once('=') {
            Some(("loadfactor", weight)) => {
                let weight: u32 =
                    weight.parse().map_err(|_| format!("'{word}': Brisk supports whole numbers only"))?;
                args.push(format!("weight={weight}"));
            }
            Some(("status", "+H")) => args.push("backup".into()),
            Some(("status", "+D")) => args.push("down".into()),
            Some(("retry", seconds)) if seconds.parse::<u32>().is_ok() => {
                args.push(format!("fail_timeout={seconds}s"));
            }
            // A route only counts where clients stay with a member, which is refused.
            Some(("route" | "keepalive" | "max" | "smax" | "ttl" | "disablereuse" | "enablereuse", _)) => {}
            _ => return Err(format!("Brisk does not support the parameter '{word}' (yet)")),
        }
    }
    Ok((protocol, args))
}
