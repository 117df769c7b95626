//! `SetHandler "proxy:unix:/run/php.sock|fcgi://localhost"`: how PHP runs beside Apache. Each such handler becomes a location that
//! requests are led to.

use super::build::{block, statement};
use crate::syntax::Node;
use brisk_conf::{Directive, Span};

/// The line that tells a handler's location, in the block `apache_site`.
pub const HANDLER: &str = "BriskHandler";

/// The line of an `apache_site` in a location which says that its content is a back end's, whatever the back end speaks.
pub const BACK_END: &str = "BriskBackEnd";

/// What an application is told. The script is the file that was judged, wherever an alias has led to it.
const PARAMETERS: [(&str, &str); 21] = [
    ("SCRIPT_FILENAME", "$apache_script_filename"),
    ("SCRIPT_NAME", "$apache_script_name"),
    ("PATH_INFO", "$apache_path_info"),
    // What follows is about the request alone.
    ("REDIRECT_STATUS", "200"),
    ("HTTPS", "$https"),
    ("REMOTE_PORT", "$remote_port"),
    // Applications look for a server whose habits they know: these are the habits.
    ("SERVER_SOFTWARE", "Apache"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    // An alias whose location this one is inside of has no part in it.
    ("DOCUMENT_ROOT", "$apache_document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
];

/// How many of them, the first, are about the script.
const OF_PLACE: usize = 3;

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

/// The address and the script's path of a URL that asks FastCGI: `fcgi://host:port/path/$1`, `unix:/socket|fcgi://any/path/$1`. `None`:
/// it is another URL.
pub(super) fn script(url: &str) -> Option<Result<(String, String), String>> {
    let (socket, target) = match url.strip_prefix("unix:").and_then(|rest| rest.split_once('|')) {
        Some((socket, target)) => (Some(socket), target),
        None => (None, url),
    };
    let rest = target.strip_prefix("fcgi://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let known = address(&match socket {
        Some(socket) => format!("proxy:unix:{socket}|fcgi://localhost"),
        None => format!("proxy:fcgi://{host}"),
    });
    let known = known.filter(|_| !host.contains('$'));
    Some(known.map(|known| (known, path.to_string())).ok_or_else(|| {
        format!(
            "'{url}': the address of FastCGI must stand in the line itself, a socket's with its whole path"
        )
    }))
}

/// What stands in a location that asks FastCGI for a script whose path the location's pattern has made. As in Apache, the script is a
/// back end's: no file of this server is judged for it.
pub(super) fn asking(at: Span, address: &str, script: &str, timeout_secs: Option<u64>) -> Vec<Directive> {
    let mut inner = vec![
        block(at, "apache_site", [""; 0], vec![statement(at, BACK_END, [""; 0])]),
        statement(at, "fastcgi_pass", [address]),
        statement(at, "fastcgi_split_path_info", ["^(.+?\\.php)(/.*)$"]),
        statement(at, "fastcgi_param", ["SCRIPT_FILENAME", script]),
        statement(at, "fastcgi_param", ["SCRIPT_NAME", "$fastcgi_script_name"]),
        statement(at, "fastcgi_param", ["PATH_INFO", "$fastcgi_path_info", "if_not_empty"]),
    ];
    inner.extend(parameters(at, &PARAMETERS[OF_PLACE..]));
    inner.extend(timeout_secs.map(|seconds| statement(at, "fastcgi_read_timeout", [format!("{seconds}s")])));
    inner
}

/// A location's name: the same in all hosts.
fn name(handler: &str) -> String {
    let hash = handler
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("@apache_handler_{hash:016x}")
}

/// Handlers of mod_php that lines name, by `SetHandler`, `AddHandler`, or as a type.
fn of_php<'n>(nodes: impl Iterator<Item = &'n Node>, found: &mut Vec<String>) {
    for node in nodes {
        of_php(node.children.iter().flatten(), found);
        if ["SetHandler", "AddHandler", "AddType", "ForceType"].iter().any(|name| node.is(name)) {
            let name = node.words().next().unwrap_or_default();
            let name = String::from_utf8_lossy(&name).to_ascii_lowercase();
            let is_type = name.starts_with("application/x-httpd-php") && !name.ends_with("-source");
            let is_script = name.starts_with("php") && name.ends_with("-script");
            if (is_type || is_script) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
}

/// The location and the pool in the place of mod_php.
const PHP: &str = "@apache_php";
const POOL: &str = "apache";

/// The pool of processes in the place of mod_php.
pub(super) fn pool(at: Span) -> Directive {
    block(at, "php_pool", [POOL], Vec::new())
}

/// The lines that tell that mod_php's handlers are the pool's.
pub(super) fn lines_of_php(nodes: &[&Node], span: &dyn Fn(u32) -> Span) -> Vec<Directive> {
    let mut found = Vec::new();
    of_php(nodes.iter().copied(), &mut found);
    let at = span(nodes.first().map_or(1, |node| node.line));
    found.iter().map(|name| statement(at, HANDLER, [PHP, name])).collect()
}

/// The location that runs PHP.
pub(super) fn location_of_php(at: Span) -> Directive {
    let mut inner = vec![statement(at, "php_pass", [POOL])];
    inner.extend(parameters(at, &PARAMETERS));
    block(at, "location", [PHP], inner)
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

fn parameters<'p>(at: Span, list: &'p [(&'p str, &'p str)]) -> impl Iterator<Item = Directive> + 'p {
    list.iter().map(move |(name, value)| statement(at, "fastcgi_param", [name, value]))
}

/// Adds the locations of the handlers that a host's lines name.
pub(super) fn locations(sites: &[&Vec<Node>], at: Span, out: &mut Vec<Directive>) {
    for (handler, address) in all(sites.iter().flat_map(|nodes| nodes.iter())) {
        let mut inner = vec![statement(at, "fastcgi_pass", [address])];
        inner.extend(parameters(at, &PARAMETERS));
        out.push(block(at, "location", [name(&handler)], inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_behind_addresses() {
        let known = |address: &str, path: &str| Some((address.to_string(), path.to_string()));
        for (url, wanted) in [
            ("fcgi://127.0.0.1:9000/srv/$1", known("127.0.0.1:9000", "/srv/$1")),
            ("fcgi://php/", known("php:8000", "/")),
            ("fcgi://php:9000", known("php:9000", "")),
            ("unix:/run/p.sock|fcgi://localhost/srv/$1", known("unix:/run/p.sock", "/srv/$1")),
            ("fcgi://$1/srv", None),
            ("fcgi://h:9000$1", None),
            ("unix:p.sock|fcgi://localhost/", None),
            ("unix:/run/$1|fcgi://localhost/", None),
        ] {
            assert_eq!(script(url).expect(url).ok(), wanted, "{url}");
        }
        assert!(script("http://a/").is_none() && script("unix:/a|http://b/").is_none());
    }

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
