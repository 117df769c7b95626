//! `brisk upstream`: servers of upstreams listed and changed through the API of a running server.

use crate::config::Paths;
use crate::endpoint::{self, Address};
use crate::site::Site;
use brisk_cli::{Call, Entry};
use brisk_conf::Directive;
use brisk_load::output;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::{Map, Value};

/// `brisk upstream`.
pub const UPSTREAM: Entry =
    Entry { name: "upstream", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Shows and changes the servers of upstreams while they run.
#[derive(Debug, Parser)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "ADDRESS is unix:/path/of/socket[:/location] or http://host:port/location; without it, a location with \
        \"api write=on\" is looked for in the configuration, one on a Unix socket first.\n\n\
        SERVER is an address as listed, or an id. Where http and stream have an UPSTREAM of the same name, http/NAME or stream/NAME says which is meant."
)]
struct Args {
    #[command(flatten)]
    site: Site,
    /// Where the API is [default: what the configuration has]
    #[arg(long, value_name = "ADDRESS", global = true, display_order = 901, value_parser = endpoint::api_address)]
    api: Option<Address>,
    /// Print JSON
    #[arg(long, global = true, display_order = 901)]
    json: bool,
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// List servers, their state and their load
    List {
        /// Of this upstream alone
        upstream: Option<String>,
    },
    /// Add a server
    Add {
        #[command(flatten)]
        server: Server,
        /// weight=N, max_fails=N, fail_timeout=TIME and so on; backup, down, drain
        #[arg(value_name = "PARAMETER")]
        parameters: Vec<String>,
    },
    /// Change a server
    Set {
        #[command(flatten)]
        server: Server,
        /// weight=N, max_fails=N, fail_timeout=TIME and so on; up, down, drain
        #[arg(value_name = "PARAMETER", required = true)]
        parameters: Vec<String>,
    },
    /// Give a server only requests of sessions that it has already
    Drain {
        #[command(flatten)]
        server: Server,
    },
    /// Remove a server
    Remove {
        #[command(flatten)]
        server: Server,
    },
}

#[derive(Debug, clap::Args)]
struct Server {
    /// The upstream
    #[arg(value_name = "UPSTREAM")]
    upstream: String,
    /// Its server
    #[arg(value_name = "SERVER")]
    server: String,
}

/// The version of the API that is spoken.
const VERSION: &str = "/9";

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => run(&args).map_or_else(
            |message| {
                output::note(format_args!("brisk: {message}"));
                1
            },
            |()| 0,
        ),
        Err(code) => code,
    }
}

fn run(args: &Args) -> Result<(), String> {
    let api = match &args.api {
        Some(api) => api.clone(),
        None => configured(&args.site.paths())?,
    };
    let show = |server: &Value| {
        if args.json { output::line(format_args!("{server:#}")) } else { print_server(server) }
    };
    match &args.order {
        Order::List { upstream } => list(&api, upstream.as_deref(), args.json),
        Order::Add { server: Server { upstream, server }, parameters } => {
            let mut body = parameters_of(parameters)?;
            body.insert("server".into(), server.as_str().into());
            let path = format!("{}/servers", group_of(&api, upstream)?);
            show(&api.call("POST", &path, &Value::Object(body))?);
            Ok(())
        }
        Order::Set { server, parameters } => {
            change(&api, server, parameters_of(parameters)?).map(|server| show(&server))
        }
        Order::Drain { server } => {
            change(&api, server, parameters_of(&["drain".into()])?).map(|server| show(&server))
        }
        Order::Remove { server } => {
            let path = path_of(&api, server)?;
            api.call("DELETE", &path, &Value::Null).map(drop)
        }
    }
}

fn change(api: &Address, server: &Server, parameters: Map<String, Value>) -> Result<Value, String> {
    let path = path_of(api, server)?;
    api.call("PATCH", &path, &Value::Object(parameters))
}

/// `weight=2 down` as the members of a document.
fn parameters_of(words: &[String]) -> Result<Map<String, Value>, String> {
    let mut members = Map::new();
    for word in words {
        if word == "up" {
            // Neither of both: each stays as it is if nothing is said of it.
            members.extend(["down", "drain"].map(|flag| (flag.to_string(), false.into())));
            continue;
        }
        let (name, value) = match word.split_once('=') {
            Some((name @ ("fail_timeout" | "slow_start" | "route" | "service"), text)) => (name, text.into()),
            Some((name, text)) => {
                let number = text.parse::<u64>().map_err(|_| format!("invalid value in \"{word}\""))?;
                (name, number.into())
            }
            None if matches!(word.as_str(), "down" | "drain" | "backup") => (word.as_str(), true.into()),
            None => return Err(format!("invalid parameter \"{word}\"")),
        };
        members.insert(name.to_string(), value);
    }
    Ok(members)
}

/// The API's path of a server that is named by its address or number.
fn path_of(api: &Address, Server { upstream, server }: &Server) -> Result<String, String> {
    let list = format!("{}/servers", group_of(api, upstream)?);
    let servers = api.call("GET", &list, &Value::Null)?;
    let all = servers.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_it = |have: &&Value| {
        have["server"] == server.as_str() || server.parse().is_ok_and(|id: u64| have["id"] == id)
    };
    let found =
        all.iter().find(is_it).ok_or_else(|| format!("no server \"{server}\" in upstream \"{upstream}\""))?;
    Ok(format!("{list}/{}", found["id"]))
}

/// Whose upstreams there are, as the API and names on the command line have it.
const KINDS: [&str; 2] = ["http", "stream"];

/// The upstreams of a kind. One that the API does not have, since it is that of an older server, has none.
fn groups(api: &Address, kind: &str) -> Result<Map<String, Value>, String> {
    match api.call("GET", &format!("{VERSION}/{kind}/upstreams"), &Value::Null) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err("the API's answer is no list of upstreams".into()),
        Err(_) if kind == "stream" => Ok(Map::new()),
        Err(why) => Err(why),
    }
}

/// The API's path of an upstream.
fn group_of(api: &Address, name: &str) -> Result<String, String> {
    let path = |kind: &str, name: &str| format!("{VERSION}/{kind}/upstreams/{name}");
    let mut found = Vec::new();
    for kind in KINDS {
        if groups(api, kind)?.contains_key(name) {
            found.push(path(kind, name));
        }
    }
    let said = KINDS.iter().find_map(|kind| Some((kind, name.strip_prefix(kind)?.strip_prefix('/')?)));
    match (found.as_slice(), said) {
        ([one], _) => Ok(one.clone()),
        ([], Some((kind, name))) => Ok(path(kind, name)),
        // The API says that there is none.
        ([], None) => Ok(path(KINDS[0], name)),
        _ => Err(format!("there are two upstreams \"{name}\": write http/{name} or stream/{name}")),
    }
}

fn list(api: &Address, upstream: Option<&str>, as_json: bool) -> Result<(), String> {
    let all = match upstream {
        Some(name) => {
            let one = api.call("GET", &group_of(api, name)?, &Value::Null)?;
            Map::from_iter([(name.to_string(), one)])
        }
        None => {
            let mut all = groups(api, "http")?;
            let of_stream = groups(api, "stream")?;
            all.extend(of_stream.into_iter().map(|(name, one)| (format!("stream/{name}"), one)));
            all
        }
    };
    if as_json {
        output::line(format_args!("{:#}", Value::Object(all)));
        return Ok(());
    }
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
                // Of stream: sessions.
                peer.get("requests").unwrap_or(&peer["connections"]),
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

/// `api write=on`.
fn may_change(directive: &Directive) -> bool {
    directive.name() == "api" && directive.args.iter().any(|arg| arg.str() == "write=on")
}

/// The API that the configuration has.
fn configured(paths: &Paths) -> Result<Address, String> {
    endpoint::configured(paths, &may_change).into_iter().next().ok_or_else(|| {
        format!("no location with \"api write=on\" in {}; say where the API is with --api", paths.conf)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_documents() {
        let text = |words: &[&str]| {
            parameters_of(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
                .map(|map| Value::Object(map).to_string())
        };
        assert_eq!(text(&["weight=2", "down"]), Ok("{\"down\":true,\"weight\":2}".into()));
        assert_eq!(
            text(&["up", "fail_timeout=5s"]),
            Ok("{\"down\":false,\"drain\":false,\"fail_timeout\":\"5s\"}".into())
        );
        assert!(text(&["weight=x"]).is_err() && text(&["x"]).is_err());
    }
}
