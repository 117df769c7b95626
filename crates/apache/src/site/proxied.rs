//! The flag P of rules: back ends whose URLs are known with the request only.

use super::build::{block, statement};
use super::handlers::HANDLER;
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

/// The location that asks the back end of a rule.
const LOCATION: &str = "@apache_proxy";

/// What rules with the flag P are called among the handlers of a site.
pub const PROXY_HANDLER: &str = "proxy-server";

/// What rules with the flag P ask.
#[derive(Default)]
struct Asked {
    is_any: bool,
    /// Hosts with their schemes that stand in the rules themselves: they are looked up when the configuration is read.
    hosts: Vec<String>,
}

impl Asked {
    fn of(nodes: &[&Node]) -> Asked {
        let mut asked = Asked::default();
        nodes.iter().for_each(|node| asked.add(node));
        asked
    }

    fn add(&mut self, node: &Node) {
        node.children.iter().flatten().for_each(|inner| self.add(inner));
        if !node.is("RewriteRule") {
            return;
        }
        let words: Vec<String> =
            node.words().map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
        let [_, target, flags] = words.as_slice() else { return };
        let mut flags = flags.trim_matches(['[', ']']).split(',').map(str::trim);
        if !flags.any(|flag| flag.eq_ignore_ascii_case("P") || flag.eq_ignore_ascii_case("proxy")) {
            return;
        }
        self.is_any = true;
        let Some((scheme, rest)) = target.split_once("://") else { return };
        let end = rest.find(['/', '?', '$', '%']).unwrap_or(rest.len());
        let is_literal = !rest[end..].starts_with(['$', '%']);
        let host = format!("{scheme}://{}", &rest[..end]);
        if is_literal && end > 0 && matches!(scheme, "http" | "https") && !self.hosts.contains(&host) {
            self.hosts.push(host);
        }
    }
}

/// Whether a line has the flag.
pub(super) fn is_asked(nodes: &[&Node]) -> bool {
    Asked::of(nodes).is_any
}

/// The line that tells the rules' location.
pub(super) fn line(at: Span) -> Directive {
    statement(at, HANDLER, [LOCATION, PROXY_HANDLER])
}

/// Adds the location, and one for each host, which nothing leads to: by it the host is known.
pub(super) fn locations(nodes: &[&Node], at: Span, host: Option<&str>, out: &mut Vec<Directive>) {
    let asked = Asked::of(nodes);
    if !asked.is_any {
        return;
    }
    let inner = vec![
        statement(at, "proxy_pass", ["$apache_proxy_url"]),
        statement(at, "proxy_http_version", ["1.1"]),
        statement(at, "proxy_set_header", ["Host", host.unwrap_or("$proxy_host")]),
        statement(at, "proxy_set_header", ["X-Forwarded-For", "$proxy_add_x_forwarded_for"]),
        statement(at, "proxy_set_header", ["X-Forwarded-Host", "$http_host"]),
        statement(at, "proxy_set_header", ["X-Forwarded-Server", "$server_name"]),
    ];
    out.push(block(at, "location", [LOCATION], inner));
    for (index, host) in asked.hosts.iter().enumerate() {
        let inner = vec![statement(at, "proxy_pass", [host])];
        out.push(block(at, "location", [format!("@apache_host_{index}")], inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    #[test]
    fn hosts_of_rules() {
        let text = "RewriteRule ^a http://b:80/$1 [L,P]\n<Location /x>\nRewriteRule ^a https://c [proxy]\n</Location>\nRewriteRule (.*) http://d$1 [P]\nRewriteRule ^a http://e/ [R]";
        let nodes = syntax::read(text.as_bytes(), 8192).unwrap();
        let asked = Asked::of(&nodes.iter().collect::<Vec<_>>());
        assert!(asked.is_any);
        assert_eq!(asked.hosts, ["http://b:80", "https://c"]);
    }
}
