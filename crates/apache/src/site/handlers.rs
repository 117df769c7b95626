//! `SetHandler "proxy:unix:/run/php.sock|fcgi://localhost"`: how PHP runs beside Apache. Each such handler becomes a location that
//! requests are led to.

use super::build::{block, statement};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

/// The line that tells a handler's location, in the block `apache_site`.
pub const HANDLER: &str = "BriskHandler";

const PARAMETERS: [(&str, &str); 17] = [
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("PATH_INFO", "$fastcgi_path_info"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
];

/// Handlers that ask FastCGI, each once, with the address that Brisk asks.
fn all<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for node in nodes {
        for inner in all(node.children.iter().flatten()) {
            if !found.contains(&inner) {
                found.push(inner);
            }
        }
        if node.is("SetHandler") || node.is("AddHandler") {
            let name = String::from_utf8_lossy(&node.words().next().unwrap_or_default()).into_owned();
            if let Some(address) = address(&name)
                && !found.iter().any(|(known, _)| *known == name)
            {
                found.push((name, address));
            }
        }
    }
    found
}

/// What `fastcgi_pass` takes for a handler: `proxy:unix:/path|fcgi://any/`, `proxy:fcgi://host:port`.
fn address(handler: &str) -> Option<String> {
    let target = handler.strip_prefix("proxy:")?;
    if handler.contains('$') {
        return None;
    }
    if let Some(socket) = target.strip_prefix("unix:") {
        let (path, url) = socket.split_once('|')?;
        return (path.starts_with('/') && url.starts_with("fcgi://")).then(|| format!("unix:{path}"));
    }
    let host = target.strip_prefix("fcgi://")?.trim_end_matches('/');
    if host.is_empty() || host.contains('/') {
        return None;
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Some(if has_port { host.to_string() } else { format!("{host}:8000") })
}

/// A location's name: the same in all hosts.
fn name(handler: &str) -> String {
    let hash = handler
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("@apache_handler_{hash:016x}")
}

/// The lines that tell which location a handler is.
pub(super) fn lines<'n>(
    mut nodes: impl Iterator<Item = &'n Node>,
    span: &dyn Fn(u32) -> Span,
) -> Vec<Directive> {
    let Some(first) = nodes.next() else { return Vec::new() };
    let at = span(first.line);
    let line = |(handler, _): (String, String)| statement(at, HANDLER, [name(&handler), handler]);
    all(std::iter::once(first).chain(nodes)).into_iter().map(line).collect()
}

/// Adds the locations of the handlers that a host's lines name.
pub(super) fn locations(sites: &[&Vec<Node>], at: Span, out: &mut Vec<Directive>) {
    for (handler, address) in all(sites.iter().flat_map(|nodes| nodes.iter())) {
        let mut inner = vec![
            statement(at, "fastcgi_split_path_info", ["^(.+?\\.[^/]+)(/.*)$"]),
            statement(at, "fastcgi_pass", [address]),
        ];
        inner.extend(PARAMETERS.iter().map(|(name, value)| statement(at, "fastcgi_param", [name, value])));
        out.push(block(at, "location", [name(&handler)], inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_handlers() {
        for (handler, wanted) in [
            ("proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost", Some("unix:/run/php/php8.2-fpm.sock")),
            ("proxy:fcgi://127.0.0.1:9000", Some("127.0.0.1:9000")),
            ("proxy:fcgi://127.0.0.1:9000/", Some("127.0.0.1:9000")),
            ("proxy:fcgi://localhost", Some("localhost:8000")),
            ("proxy:unix:/run/x|http://localhost", None),
            ("proxy:http://localhost", None),
            ("application/x-httpd-php", None),
        ] {
            assert_eq!(address(handler).as_deref(), wanted, "{handler}");
        }
    }
}
