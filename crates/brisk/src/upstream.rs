//! `brisk upstream`: servers of upstreams listed and changed through the API of a running server.

use crate::bundle::DiskLoader;
use crate::cli::Options;
use crate::config::{self, Paths};
use brisk_conf::Directive;
use brisk_http::response::{ResponseHead, parse_response};
use brisk_load::output;
use serde_json::{Map, Value};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const HELP: &str = "\
Usage: brisk upstream [-p prefix] [-c filename] [--api ADDRESS] COMMAND

Commands:
  list [UPSTREAM]                              : servers, what they do and how they are
  add UPSTREAM SERVER [PARAMETER=VALUE | backup | down | drain]...
  set UPSTREAM SERVER [PARAMETER=VALUE | up | down | drain]...
  drain UPSTREAM SERVER                        : no requests but those of its own sessions
  remove UPSTREAM SERVER

ADDRESS is unix:/path/of/socket[:/location] or http://host:port/location; without it, a location with
\"api write=on\" is looked for in the configuration, one on a Unix socket first. SERVER is an address as listed, or an id.
";

/// A server that does not answer must not hold the caller up.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The version of the API that is spoken.
const VERSION: u32 = 9;

/// Runs a command; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    match run(args) {
        Ok(()) => 0,
        Err(message) if message.is_empty() => {
            output::hint(HELP);
            1
        }
        Err(message) => {
            output::note(format_args!("brisk: {message}"));
            1
        }
    }
}

fn run(args: &[String]) -> Result<(), String> {
    let (mut options, mut api, mut words) = (Options::default(), None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("option \"{arg}\" requires a value"));
        match arg.as_str() {
            "-p" => options.prefix = Some(value()?),
            "-c" => options.conf = Some(value()?),
            "--api" => api = Some(value()?),
            "-h" | "--help" => return Err(String::new()),
            word => words.push(word),
        }
    }
    let api = match api {
        Some(text) => Address::parse(&text).ok_or_else(|| format!("invalid address \"{text}\""))?,
        None => configured(&Paths::new(&options))?,
    };
    match words.as_slice() {
        ["list"] => list(&api, None),
        ["list", upstream] => list(&api, Some(upstream)),
        ["add", upstream, server, parameters @ ..] => {
            let mut body = parameters_of(parameters)?;
            body.insert("server".into(), (*server).into());
            let made =
                api.call("POST", &format!("/http/upstreams/{upstream}/servers"), &Value::Object(body))?;
            print_server(&made);
            Ok(())
        }
        ["set", upstream, server, parameters @ ..] => change(&api, upstream, server, parameters),
        ["drain", upstream, server] => change(&api, upstream, server, &["drain"]),
        ["remove", upstream, server] => {
            let path = path_of(&api, upstream, server)?;
            api.call("DELETE", &path, &Value::Null).map(drop)
        }
        _ => Err(String::new()),
    }
}

fn change(api: &Address, upstream: &str, server: &str, parameters: &[&str]) -> Result<(), String> {
    let path = path_of(api, upstream, server)?;
    let changed = api.call("PATCH", &path, &Value::Object(parameters_of(parameters)?))?;
    print_server(&changed);
    Ok(())
}

/// `weight=2 down` as the members of a document.
fn parameters_of(words: &[&str]) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some((name @ ("fail_timeout" | "slow_start" | "route" | "service"), text)) => (name, text.into()),
            Some((name, text)) => {
                let number = text.parse::<u64>().map_err(|_| format!("invalid value in \"{word}\""))?;
                (name, number.into())
            }
            None if *word == "up" => ("down", false.into()),
            None if matches!(*word, "down" | "drain" | "backup") => (*word, true.into()),
            None => return Err(format!("invalid parameter \"{word}\"")),
        };
        members.insert(name.to_string(), value);
    }
    Ok(members)
}

/// The API's path of a server that is named by its address or number.
fn path_of(api: &Address, upstream: &str, server: &str) -> Result<String, String> {
    let list = format!("/http/upstreams/{upstream}/servers");
    let servers = api.call("GET", &list, &Value::Null)?;
    let all = servers.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it =
        |have: &&Value| have["server"] == server || server.parse().is_ok_and(|id: u64| have["id"] == id);
    let found =
        all.iter().find(is_it).ok_or_else(|| format!("no server \"{server}\" in upstream \"{upstream}\""))?;
    Ok(format!("{list}/{}", found["id"]))
}

fn list(api: &Address, upstream: Option<&str>) -> Result<(), String> {
    let all = match upstream {
        Some(name) => {
            let one = api.call("GET", &format!("/http/upstreams/{name}"), &Value::Null)?;
            Map::from_iter([(name.to_string(), one)])
        }
        None => match api.call("GET", "/http/upstreams", &Value::Null)? {
            Value::Object(all) => all,
            _ => return Err("the API's answer is no list of upstreams".into()),
        },
    };
    output::line(format_args!(
        "{:<20} {:>4} {:<28} {:<10} {:>6} {:>6} {:>10} {:>6}",
        "UPSTREAM", "ID", "SERVER", "STATE", "WEIGHT", "ACTIVE", "REQUESTS", "FAILS"
    ));
    for (name, upstream) in &all {
        for peer in upstream["peers"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let text = |name: &str| peer[name].as_str().unwrap_or_default().to_string();
            let backup = if peer["backup"] == true { " (backup)" } else { "" };
            let server = text("server") + backup;
            let line = format!(
                "{name:<20} {:>4} {server:<28} {:<10} {:>6} {:>6} {:>10} {:>6}",
                peer["id"],
                text("state"),
                peer["weight"],
                peer["active"],
                peer["requests"],
                peer["fails"]
            );
            output::line(output::visible(&line));
        }
    }
    Ok(())
}

fn print_server(server: &Value) {
    let mut words = vec![server["id"].to_string(), server["server"].as_str().unwrap_or_default().to_string()];
    for (name, value) in server.as_object().into_iter().flatten() {
        match value {
            _ if matches!(name.as_str(), "id" | "server") => {}
            Value::Bool(false) => {}
            Value::Bool(true) => words.push(name.clone()),
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => words.push(format!("{name}={text}")),
            other => words.push(format!("{name}={other}")),
        }
    }
    output::line(output::visible(&words.join(" ")));
}

/// Where the API is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Unix { socket: String, location: String },
    Tcp { host: String, location: String },
}

impl Address {
    fn parse(text: &str) -> Option<Address> {
        if let Some(rest) = text.strip_prefix("unix:") {
            let (socket, location) = rest.split_once(':').unwrap_or((rest, "/api"));
            return Some(Address::Unix {
                socket: socket.into(),
                location: location.trim_end_matches('/').into(),
            });
        }
        let rest = text.strip_prefix("http://")?;
        let (host, location) = rest.find('/').map_or((rest, "/api"), |at| rest.split_at(at));
        let host = if host.contains(':') { host.to_string() } else { format!("{host}:80") };
        Some(Address::Tcp { host, location: location.trim_end_matches('/').into() })
    }

    /// Calls the API. The error is its own words.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (host, location) = match self {
            Address::Unix { location, .. } => ("localhost", location),
            Address::Tcp { host, location } => (host.as_str(), location),
        };
        let request = format!(
            "{method} {location}/{VERSION}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = Vec::new();
        let done = match self {
            Address::Unix { socket, .. } => {
                let prepare =
                    |stream: UnixStream| stream.set_read_timeout(Some(CALL_TIMEOUT)).map(|()| stream);
                UnixStream::connect(socket)
                    .and_then(prepare)
                    .and_then(|stream| ask(stream, &request, &mut answer))
            }
            Address::Tcp { host, .. } => {
                let prepare =
                    |stream: TcpStream| stream.set_read_timeout(Some(CALL_TIMEOUT)).map(|()| stream);
                TcpStream::connect(host)
                    .and_then(prepare)
                    .and_then(|stream| ask(stream, &request, &mut answer))
            }
        };
        done.map_err(|error| format!("no answer from the API at {self:?} ({error})"))?;
        read_answer(&answer)
    }
}

fn ask(mut stream: impl Read + Write, request: &str, answer: &mut Vec<u8>) -> std::io::Result<()> {
    stream.write_all(request.as_bytes())?;
    stream.read_to_end(answer).map(drop)
}

fn read_answer(bytes: &[u8]) -> Result<Value, String> {
    let mut head = ResponseHead::default();
    let broken = || "the API's answer is broken".to_string();
    parse_response(bytes, &mut head).map_err(|_| broken())?;
    let body = bytes.get(head.len..).filter(|_| head.len > 0).ok_or_else(broken)?;
    let value: Value = serde_json::from_slice(body)
        .map_err(|_| format!("status {}: is this location an API?", head.status))?;
    match value["error"]["text"].as_str() {
        Some(text) => Err(text.to_string()),
        None if head.status >= 400 => Err(format!("status {}", head.status)),
        None => Ok(value),
    }
}

/// The API that the configuration has.
fn configured(paths: &Paths) -> Result<Address, String> {
    let (tree, ..) = config::parse(paths, &DiskLoader::new(&paths.env.conf_prefix));
    let mut found = Vec::new();
    for server in blocks(&tree, "http").iter().flat_map(|http| blocks(inner(http), "server")) {
        let Some(location) = api_location(inner(server)) else { continue };
        let listens = inner(server).iter().filter(|directive| directive.name() == "listen");
        found.extend(listens.filter_map(|listen| address(paths, listen.args.first()?.str(), &location)));
    }
    found.sort_by_key(|address| matches!(address, Address::Tcp { .. }));
    found.into_iter().next().ok_or_else(|| {
        format!("no location with \"api write=on\" in {}; say where the API is with --api", paths.conf)
    })
}

fn blocks<'d>(tree: &'d [Directive], name: &str) -> Vec<&'d Directive> {
    tree.iter().filter(|directive| directive.name() == name).collect()
}

fn inner(directive: &Directive) -> &[Directive] {
    directive.block.as_deref().unwrap_or_default()
}

/// The prefix of a location with `api write=on`.
fn api_location(block: &[Directive]) -> Option<String> {
    for location in blocks(block, "location") {
        let is_api = |directive: &Directive| {
            directive.name() == "api" && directive.args.iter().any(|arg| arg.str() == "write=on")
        };
        if inner(location).iter().any(is_api) {
            return Some(location.args.last()?.str().trim_end_matches('/').to_string());
        }
        if let Some(found) = api_location(inner(location)) {
            return Some(found);
        }
    }
    None
}

fn address(paths: &Paths, listen: &str, location: &str) -> Option<Address> {
    if let Some(socket) = listen.strip_prefix("unix:") {
        return Some(Address::Unix { socket: paths.env.full(socket), location: location.into() });
    }
    let host = match listen.rsplit_once(':') {
        Some(("*" | "0.0.0.0" | "[::]", port)) => format!("127.0.0.1:{port}"),
        Some(_) => listen.to_string(),
        None if listen.bytes().all(|b| b.is_ascii_digit()) => format!("127.0.0.1:{listen}"),
        None => format!("{listen}:80"),
    };
    Some(Address::Tcp { host, location: location.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let unix =
            |socket: &str, location: &str| Address::Unix { socket: socket.into(), location: location.into() };
        let tcp = |host: &str, location: &str| Address::Tcp { host: host.into(), location: location.into() };
        assert_eq!(Address::parse("unix:/run/x"), Some(unix("/run/x", "/api")));
        assert_eq!(Address::parse("unix:/run/x:/y/"), Some(unix("/run/x", "/y")));
        assert_eq!(Address::parse("http://a"), Some(tcp("a:80", "/api")));
        assert_eq!(Address::parse("http://a:81/b/"), Some(tcp("a:81", "/b")));
        assert_eq!(Address::parse("a:81"), None);
    }

    #[test]
    fn parameters_are_documents() {
        let text = |words: &[&str]| parameters_of(words).map(|map| Value::Object(map).to_string());
        assert_eq!(text(&["weight=2", "down"]), Ok("{\"down\":true,\"weight\":2}".into()));
        assert_eq!(text(&["up", "fail_timeout=5s"]), Ok("{\"down\":false,\"fail_timeout\":\"5s\"}".into()));
        assert!(text(&["weight=x"]).is_err() && text(&["x"]).is_err());
    }
}
