//! `brisk db`: how databases behind `stream` stand, through the API of a running server.

use crate::endpoint::{self, Address};
use crate::site::Site;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// `brisk db`.
pub const DB: Entry = Entry { name: "db", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Looks at databases that sessions are passed to
#[derive(Debug, Parser)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "ADDRESS is unix:/path/of/socket[:/location] or http://host:port/location; without it, a location with \
        \"api\" is looked for in the configuration, one on a Unix socket first."
)]
struct Args {
    #[command(flatten)]
    site: Site,
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Roles, lag, sessions, and what is read where; the exit code is 1 if nobody takes the writes of some upstream
    Status {
        /// This upstream alone
        #[arg(value_name = "UPSTREAM")]
        upstream: Option<String>,
        /// Where the API is [default: what the configuration has]
        #[arg(long, value_name = "ADDRESS", value_parser = endpoint::api_address)]
        api: Option<Address>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(&args)),
        Err(code) => code,
    }
}

fn run(args: &Args) -> Result<i32, String> {
    let Order::Status { upstream, api, json } = &args.order;
    let api = match api {
        Some(api) => api.clone(),
        None => {
            let paths = args.site.paths();
            let found = endpoint::configured(&paths, &|directive| directive.name() == "api");
            found.into_iter().next().ok_or_else(|| {
                format!("no location with \"api\" in {}; say where the API is with --api", paths.conf)
            })?
        }
    };
    let Value::Object(all) = api.call("GET", "/9/databases", &Value::Null)? else {
        return Err("the API's answer is no list of databases".into());
    };
    let all: Map<String, Value> =
        all.into_iter().filter(|(name, _)| upstream.as_ref().is_none_or(|wanted| wanted == name)).collect();
    match upstream {
        Some(name) if all.is_empty() => return Err(format!("no databases in upstream \"{name}\"")),
        None if all.is_empty() => return Err("no upstream has mysql_check or pgsql_check".into()),
        _ => {}
    }
    let code = i32::from(all.values().any(|cluster| cluster["primary"].is_null()));
    if *json {
        output::line(format_args!("{:#}", Value::Object(all)));
    } else {
        let text: String =
            all.iter().map(|(name, cluster)| text(name, cluster)).collect::<Vec<_>>().join("\n");
        output::print(output::visible(&text));
    }
    Ok(code)
}

/// A value as a word; `-` stands for none.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a person reads of one cluster.
fn text(name: &str, cluster: &Value) -> String {
    let primary = match &cluster["primary"] {
        Value::Null => format!("NO PRIMARY: {}", word(&cluster["trouble"])),
        primary => format!("primary {}", word(primary)),
    };
    let mut out = format!("{name}: {primary}\n");
    let _ = writeln!(
        out,
        "  {:<24} {:<10} {:<6} {:>8} {:>8}  POSITION",
        "SERVER", "ROLE", "READS", "LAG", "ACTIVE"
    );
    for server in cluster["servers"].as_array().into_iter().flatten() {
        let lag =
            server["lag_ms"].as_u64().map_or("-".into(), |ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
        let reads = if server["reads"] == true { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "  {:<24} {:<10} {reads:<6} {lag:>8} {:>8}  {}",
            word(&server["server"]),
            word(&server["role"]),
            word(&server["connections"]),
            word(&server["position"]),
        );
        for why in [&server["trouble"], &server["why"]] {
            if let Some(why) = why.as_str() {
                let _ = writeln!(out, "      {why}");
                break;
            }
        }
    }
    let of = |part: &str, name: &str| word(&cluster[part][name]);
    let _ = writeln!(
        out,
        "  sessions: {} open, {} in all, {} without a server, {} moved",
        of("sessions", "open"),
        of("sessions", "total"),
        of("sessions", "failed"),
        of("sessions", "moved")
    );
    statements(&mut out, cluster);
    out
}

/// What became of statements, where they are looked at one by one.
fn statements(out: &mut String, cluster: &Value) {
    let of = |part: &str, name: &str| word(&cluster[part][name]);
    let is_split = ["writes", "replica_reads", "primary_reads"]
        .iter()
        .any(|name| cluster["statements"][name].as_u64().is_some_and(|count| count > 0));
    if !is_split {
        return;
    }
    let share = cluster["statements"]["replica_share"]
        .as_f64()
        .map(|share| format!(" ({:.1} % of reads)", share * 100.0));
    let _ = writeln!(
        out,
        "  statements: {} writes, {} reads at replicas{}, {} at the primary ({} for want of a replica that is near enough)",
        of("statements", "writes"),
        of("statements", "replica_reads"),
        share.unwrap_or_default(),
        of("statements", "primary_reads"),
        of("statements", "late_reads")
    );
    if cluster["statements"]["prepared"].as_u64().is_some_and(|count| count > 0) {
        let _ = writeln!(
            out,
            "  prepared statements: {}, {} times prepared at a further server",
            of("statements", "prepared"),
            of("statements", "prepared_again")
        );
    }
    let _ = writeln!(
        out,
        "  connections: {} idle, {} made, {} used again",
        of("pool", "idle"),
        of("pool", "made"),
        of("pool", "reused")
    );
    let pinned = cluster["pinned"].as_object().into_iter().flatten();
    let pinned = pinned.filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0));
    let pinned: Vec<String> =
        pinned.map(|(why, count)| format!("{count} {}", why.replace('_', " "))).collect();
    if !pinned.is_empty() {
        let _ = writeln!(out, "  kept on their connection by: {}", pinned.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_person_reads_who_is_what_and_why() {
        let cluster = json!({
            "primary": null, "trouble": "several servers take writes",
            "servers": [
                { "server": "10.0.0.1:3306", "role": "contender", "reads": false, "why": "several primaries", "lag_ms": null,
                  "position": "0-1-7", "connections": 0 },
                { "server": "10.0.0.2:3306", "role": "replica", "reads": true, "why": null, "lag_ms": 1250, "position": null,
                  "connections": 3 },
            ],
            "sessions": { "open": 3, "total": 9, "failed": 1, "moved": 2 },
            "statements": { "writes": 1, "replica_reads": 3, "primary_reads": 1, "late_reads": 0, "replica_share": 0.75,
                "prepared": 4, "prepared_again": 2 },
            "pool": { "idle": 0, "made": 4, "reused": 5 },
            "pinned": { "transaction": 2, "user_variable": 0 },
        });
        let text = text("db", &cluster);
        for part in [
            "db: NO PRIMARY: several servers take writes\n",
            "10.0.0.1:3306            contender  no            -        0  0-1-7\n      several primaries\n",
            "10.0.0.2:3306            replica    yes       1.2 s        3  -\n",
            "3 open, 9 in all, 1 without a server, 2 moved",
            "3 reads at replicas (75.0 % of reads)",
            "prepared statements: 4, 2 times prepared at a further server\n",
            "kept on their connection by: 2 transaction\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    }
}
