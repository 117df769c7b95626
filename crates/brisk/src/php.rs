//! `brisk php`: how PHP pools stand, and other processes in the place of theirs.
//!
//! A pool master answers for itself, on a socket beside the one for requests; it does so while all its workers are busy.

mod ask;
mod check;
mod precompile;

use crate::config::{self, Paths};
use crate::control;
use crate::pools::Program;
use crate::site::Site;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_modules::php::{PoolSpec, Pools};
use brisk_net::connect::unix_at_once;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `brisk php`.
pub const PHP: Entry = Entry { name: "php", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// How long a pool master may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Shows PHP pools, and replaces their processes
#[derive(Debug, Parser)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Args {
    #[command(flatten)]
    site: Site,
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Show the workers, what they do, and how many requests wait
    Status {
        /// This pool alone
        #[arg(value_name = "POOL")]
        pool: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say which of a pool's caches are too small, with figures; the exit code is 1 if any is
    Check {
        /// This pool alone
        #[arg(value_name = "POOL")]
        pool: Option<String>,
    },
    /// Compile all scripts below a folder into a pool's OPcache, as before a deploy
    Precompile {
        /// The folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The pool; not needed where there is one
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,
    },
    /// Replace a pool's processes, as after a change of its code; no request is lost
    Reload {
        /// The pool
        #[arg(value_name = "POOL")]
        pool: String,
    },
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(&args).map(|(text, is_good)| {
            output::print(text);
            i32::from(!is_good)
        })),
        Err(code) => code,
    }
}

/// What is to be told, and whether all is well.
fn run(args: &Args) -> Result<(String, bool), String> {
    let paths = args.site.paths();
    match &args.order {
        Order::Status { pool, json } => Ok((status(&paths, pool.as_deref(), *json)?, true)),
        Order::Check { pool } => {
            let pools = pools(&paths, pool.as_deref())?;
            let told = pools.iter().map(|pool| check::check(pool)).collect::<Result<Vec<_>, String>>()?;
            let is_good = told.iter().all(|(_, is_found)| !is_found);
            Ok((told.into_iter().map(|(text, _)| text).collect(), is_good))
        }
        Order::Precompile { folder, pool } => match pools(&paths, pool.as_deref())?.as_slice() {
            [pool] => precompile::precompile(pool, folder),
            many => {
                let names: Vec<&str> = many.iter().map(|pool| pool.settings.pool.as_str()).collect();
                Err(format!("there are several pools, name one with --pool: {}", names.join(", ")))
            }
        },
        Order::Reload { pool } => match control::reload_php(&control::pid_path(&paths), pool)? {
            Some(answer) => Ok((format!("pool {pool}: {answer} serves\n"), true)),
            None => Err("no server runs".into()),
        },
    }
}

fn status(paths: &Paths, pool: Option<&str>, json: bool) -> Result<String, String> {
    let pools = pools(paths, pool)?;
    let answers = pools.iter().map(|pool| ask(pool)).collect::<Result<Vec<Value>, String>>()?;
    if json {
        let all: Map<String, Value> =
            pools.iter().map(|pool| pool.settings.pool.clone()).zip(answers).collect();
        return Ok(format!("{:#}\n", Value::Object(all)));
    }
    Ok(answers.iter().map(text).collect::<Vec<_>>().join("\n"))
}

/// The pools that the configuration declares.
fn pools(paths: &Paths, wanted: Option<&str>) -> Result<Vec<Arc<PoolSpec>>, String> {
    let outcome = config::load(paths);
    let Some(loaded) = &outcome.loaded else {
        let messages: Vec<String> = outcome.messages().map(|(_, text)| text).collect();
        return Err(messages.join("\n"));
    };
    let all = loaded.snap.data::<Pools>().map(|pools| pools.0.clone()).unwrap_or_default();
    let found: Vec<Arc<PoolSpec>> =
        all.into_iter().filter(|pool| wanted.is_none_or(|name| pool.settings.pool == name)).collect();
    match (found.is_empty(), wanted) {
        (false, _) => Ok(found),
        (true, Some(name)) => Err(format!("{} declares no php_pool \"{name}\"", paths.conf)),
        (true, None) => Err(format!("{} declares no php_pool", paths.conf)),
    }
}

fn ask(pool: &PoolSpec) -> Result<Value, String> {
    let name = &pool.settings.pool;
    if let Some(program) = Program::find(&pool.settings).ok().filter(|program| !program.takes_orders()) {
        return Err(format!(
            "pool {name} is run by {program}, which cannot be asked; its own status page can (pm.status_path)"
        ));
    }
    let mut answer = Vec::new();
    let asked = unix_at_once(&pool.control).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.write_all(b"status\n")?;
        stream.read_to_end(&mut answer)
    });
    asked.map_err(|error| {
        format!(
            "pool {name} does not answer ({}): does the server run, and the pool, as its error log says?",
            brisk_conf::os_text(&error)
        )
    })?;
    // It has names of files and URIs, which may be of any bytes.
    serde_json::from_str(&String::from_utf8_lossy(&answer))
        .map_err(|error| format!("pool {name} answers what is no JSON ({error})"))
}

/// What a person reads.
fn text(status: &Value) -> String {
    let word = |value: &Value, name: &str| match &value[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let of = |name: &str| word(status, name);
    let mut out = format!(
        "pool {} ({}, PHP {}, process {}): {} of {} workers, {} busy, {} idle; {} connections wait\n",
        of("pool"),
        of("process manager"),
        of("php"),
        of("master"),
        of("total processes"),
        of("max children"),
        of("active processes"),
        of("idle processes"),
        of("listen queue"),
    );
    if of("process manager") == "auto" && status["wanted"].as_u64().is_some_and(|wanted| wanted > 0) {
        let _ = writeln!(out, "at most {} workers now: {}", of("wanted"), of("why"));
    }
    let _ = writeln!(
        out,
        "{} requests in {} s; at most {} busy at once, the limit reached {} times; {} slow, {} ended for their time, {} crashes, {} restarts, {} given up before PHP",
        of("accepted conn"),
        of("start since"),
        of("max active processes"),
        of("max children reached"),
        of("slow requests"),
        of("timeouts"),
        of("crashes"),
        of("restarts"),
        of("gone clients"),
    );
    for process in status["processes"].as_array().into_iter().flatten() {
        let of = |name: &str| word(process, name);
        let seconds = process["request duration"].as_f64().unwrap_or(0.0) / 1e6;
        let _ = writeln!(
            out,
            "  {:>7} {:<15} {:>8} requests, {seconds:>9.3} s {} {} {}",
            of("pid"),
            of("state"),
            of("requests"),
            of("request method"),
            of("request uri"),
            of("script"),
        );
    }
    out
}
