//! `brisk doctor`: what slows a site down, as far as its configuration tells, and what limits it under a load. Changes nothing.

pub mod database;
pub mod files;
pub mod measure;
mod page;
mod traffic_log;

use crate::tune::running::{self, Named};
use crate::tune::site;
use brisk_cli::terminal;
use brisk_cli::{Call, Entry};
use brisk_load::arrivals::Rate;
use brisk_load::cli::args;
use brisk_load::output::{self, OutFile};
use brisk_load::url::{Place, Url};
use brisk_tune::audit::{self, Finding, Weight};
use brisk_tune::diagnosis::figures::SlowQuery;
use brisk_tune::diagnosis::{Diagnosis, Measured, TierFigures, diagnose};
use clap::{CommandFactory as _, Parser, ValueHint};
use files::{Read, Wanted};
use measure::{Asks, Load};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `brisk doctor`.
pub const DOCTOR: Entry =
    Entry { name: "doctor", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Places of one finding that are shown; `--json` has all.
const PLACES_SHOWN: usize = 3;

/// Says what limits a site under a load, and what in its configuration slows it down
#[derive(Debug, Parser)]
#[command(
    after_help = "With a URL it asks for that page as so many users would, looks at the web server, PHP's processes, the database and the \
    machine meanwhile, and says in one sentence which of them is the limit. With the file of a scenario its users ask. With --attach \
    nothing is sent: it looks at the traffic that is there. Run it where the site runs, as root or as a user who may see its processes.\n\n\
    Reads the web server's configuration (in nginx's language), php.ini, PHP-FPM's pools, MariaDB's option files and the kernel's \
    settings, and looks for about seventy things that cost speed, or that show one visitor what was made for another. Changes nothing, \
    and sends nothing without a URL."
)]
struct Args {
    /// The page to ask for, or the file of a scenario; without one nothing is sent
    #[arg(value_name = "URL|SCENARIO", value_parser = given)]
    target: Option<Target>,
    /// Send nothing: look at others' traffic to the site at this URL
    #[arg(long, requires = "target", conflicts_with_all = ["users", "rate"])]
    attach: bool,
    /// How many users ask at a time [default: 10, or the scenario's]
    #[arg(short, long, value_name = "N", value_parser = args::connections, requires = "target")]
    users: Option<usize>,
    /// Requests per second, however slow the answers are
    #[arg(short, long, value_name = "RATE", value_parser = args::rate, requires = "target")]
    rate: Option<Rate>,
    /// How long the load lasts
    #[arg(short, long, value_name = "TIME", value_parser = args::some_time, requires = "target", default_value = "8s")]
    duration: Duration,
    /// The web server's configuration [default: Brisk's own if there is one, else /etc/nginx/nginx.conf]
    #[arg(long = "site", value_name = "FILE", value_hint = ValueHint::FilePath)]
    server: Option<String>,
    /// php.ini [default: PHP-FPM's of the newest version in /etc/php, with its conf.d]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    php_ini: Vec<String>,
    /// Files with PHP-FPM's pools [default: pool.d of the same version]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    fpm: Vec<String>,
    /// MariaDB's or MySQL's option files [default: /etc/mysql/my.cnf]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    mysql: Vec<String>,
    /// An option file with the user and the password that ask the database [default: ~/.my.cnf, else root at its socket]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "target")]
    mysql_login: Option<String>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE", value_parser = args::report_file, value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// List all checks, and read nothing
    #[arg(long)]
    checks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is asked.
#[derive(Clone, Debug)]
enum Target {
    Page(Url),
    Scenario(String),
}

fn given(text: &str) -> Result<Target, String> {
    if !text.contains("://") && Path::new(text).is_file() {
        return Ok(Target::Scenario(text.to_owned()));
    }
    Url::given(text).map(Target::Page).map_err(|error| error.to_string())
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(args, &call.line()).map(|text| {
            output::print(text);
            0
        })),
        Err(code) => code,
    }
}

/// What was found out.
struct Report<'a> {
    read: &'a Read,
    findings: &'a [Finding],
    measured: Option<(&'a Measured, Diagnosis)>,
}

fn run(args: Args, command: &str) -> Result<String, String> {
    if args.checks {
        return Ok(if args.json { format!("{:#}\n", all_checks()) } else { list() });
    }
    let page = args.html.as_deref().map(OutFile::open).transpose()?;
    let load = load(&args)?;
    let read = files_of(&args, load.as_ref())?;
    let findings = audit::audit(&read.site);
    let measured = load.map(|load| measure::measure(&load, &read)).transpose()?;
    let found = measured.as_ref().map(|measured| (measured, diagnose(measured)));
    let report = Report { read: &read, findings: &findings, measured: found };
    let value = as_json(&report);
    page.map_or(Ok(()), |file| file.put(&page::html(&value, command)))?;
    if args.json {
        return Ok(format!("{value:#}\n"));
    }
    let said = report.measured.as_ref().map_or_else(String::new, |(measured, found)| said(measured, found));
    Ok(said + &text(&read, &findings))
}

/// What is to be measured.
fn load(args: &Args) -> Result<Option<Load>, String> {
    let asks = match (&args.target, args.attach) {
        (None, _) => return Ok(None),
        (Some(Target::Page(url)), true) => Asks::Others(url.clone()),
        (Some(Target::Page(url)), false) => Asks::Page(url.clone(), args.rate),
        (Some(Target::Scenario(_)), true) => {
            return Err("--attach sends nothing: give it the site's URL".to_owned());
        }
        (Some(Target::Scenario(_)), false) if args.rate.is_some() => {
            return Err("a scenario has users: --users, not --rate".to_owned());
        }
        (Some(Target::Scenario(file)), false) => Asks::Scenario(file.clone()),
    };
    Ok(Some(Load { asks, users: args.users, time: args.duration, login: args.mysql_login.clone() }))
}

/// The site's files: those that are named, else those that the programs have read that answer there, else the usual ones.
fn files_of(args: &Args, load: Option<&Load>) -> Result<Read, String> {
    let mut wanted = Wanted {
        server: args.server.clone(),
        php_ini: args.php_ini.clone(),
        fpm: args.fpm.clone(),
        mysql: args.mysql.clone(),
    };
    let Some(load) = load else { return files::read(&wanted) };
    let running = match (load.url()?.origin.place, &wanted.server) {
        (Place::Name(_, port), None) => running::server(port),
        _ => None,
    };
    if let Some(Named::Server(file)) = &running {
        wanted.server = Some(file.clone());
    }
    site::of_running(running.as_ref(), wanted)
}

fn as_json(report: &Report<'_>) -> Value {
    let Report { read, findings, measured } = report;
    let mut all = audit_json(read, findings);
    if let Some((measured, found)) = measured {
        all["limit"] = limit(found);
        let parts = found.budget.parts().map(|(name, part)| (format!("{name}_us"), json!(part)));
        all["budget"] = Value::Object(parts.into_iter().collect());
        all["load"] = json!({
            "attached": measured.around.is_attached, "users": measured.users, "rate": measured.rate, "wall_us": measured.wall_us,
            "errors": measured.error_share, "cpus": measured.cpus, "busy": measured.busy_share,
        });
        let tier = |tier: &TierFigures| {
            json!({
                "name": tier.name, "role": tier.role.name(), "cores": tier.cores, "cpu_us": tier.cpu_us,
                "memory_mib": tier.memory >> 20,
            })
        };
        all["tiers"] = measured.tiers.iter().map(tier).collect();
        let query = |query: &SlowQuery| {
            let plan = query.plan.as_ref().map(|plan| {
                json!({
                    "table": plan.table, "rows": plan.rows, "scan": plan.is_scan, "temporary": plan.has_temporary,
                    "sort": plan.has_sort,
                })
            });
            json!({ "query": query.text, "share": query.share, "plan": plan })
        };
        all["queries"] = measured.slow.iter().map(query).collect();
    }
    all
}

fn audit_json(read: &Read, findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        let seen = finding.seen.iter().map(|seen| {
            let (file, line) = seen.place.as_ref().map(|place| (&place.file, place.line)).unzip();
            json!({ "file": file, "line": line, "what": seen.what })
        });
        json!({
            "slug": finding.check.slug,
            "tier": finding.check.tier.name(),
            "weight": finding.check.weight.name(),
            "why": finding.check.why,
            "gain": finding.check.gain,
            "line": finding.check.line,
            "seen": seen.collect::<Vec<_>>(),
        })
    };
    json!({
        "files": read.files,
        "missing": read.missing,
        "checks": audit::checks().count(),
        "audit": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// The diagnosis in JSON.
pub fn limit(found: &Diagnosis) -> Value {
    json!({
        "tier": found.tier,
        "cause": found.cause,
        "sentence": found.sentence,
        "evidence": found.evidence,
        "gain_max": found.gain_max,
    })
}

/// What limits, for people.
fn said(measured: &Measured, found: &Diagnosis) -> String {
    let columns = terminal::columns();
    let mut out = terminal::wrap(&found.sentence, columns, 0);
    for line in &found.evidence {
        out += &terminal::wrap(&format!("- {line}"), columns, 2);
    }
    out += &terminal::wrap(&times(measured, found), columns, 0);
    if let Some(gain) = found.gain_max {
        out += &terminal::wrap(
            &format!("Mending this alone gains {gain:.1} times the rate at most."),
            columns,
            0,
        );
    }
    out + "\n"
}

/// What the parts of the wall time are called.
fn part_name(part: &str) -> &'static str {
    match part {
        "queue" => "waiting for a PHP process",
        "cpu" => "on a CPU",
        "run_queue" => "waiting for a CPU",
        "database" => "waiting for the database",
        "disk" => "waiting for files or memory",
        "network" => "on the way",
        "blocked" => "waiting for others",
        _ => "the rest",
    }
}

/// Where the time went, in one sentence.
fn times(measured: &Measured, found: &Diagnosis) -> String {
    let wall = found.budget.sum().max(1e-9);
    let is_known = measured.wall_us > 0.0;
    let shown = |(name, part): (&'static str, f64)| {
        let text =
            if is_known { format!("{:.1} ms", part / 1e3) } else { format!("{:.0} %", part / wall * 100.0) };
        (part >= wall / 100.0).then(|| format!("{} {text}", part_name(name)))
    };
    let times: Vec<String> = found.budget.parts().into_iter().filter_map(shown).collect();
    if is_known {
        format!("A response took {:.1} ms: {}.", wall / 1e3, times.join(", "))
    } else {
        format!("Of a response's time: {}.", times.join(", "))
    }
}

fn all_checks() -> Value {
    let check = |check: &audit::Check| {
        json!({
            "slug": check.slug,
            "tier": check.tier.name(),
            "weight": check.weight.name(),
            "why": check.why,
            "gain": check.gain,
            "line": check.line,
        })
    };
    Value::Array(audit::checks().map(check).collect())
}

fn list() -> String {
    let mut out = String::new();
    for check in audit::checks() {
        let _ = writeln!(out, "{} ({}, {})", check.slug, check.tier.name(), check.weight.name());
        out += &terminal::wrap(check.why, terminal::columns(), 4);
        let _ = writeln!(out, "    Write: {}\n", check.line);
    }
    out
}

fn title(weight: Weight) -> &'static str {
    match weight {
        Weight::Danger => "Dangerous, before any tuning",
        Weight::Large => "Worth most",
        Weight::Small => "Worth less, or on some sites only",
        Weight::Sight => "To see what limits the site",
    }
}

fn text(read: &Read, findings: &[Finding]) -> String {
    let (columns, color) = (terminal::columns(), terminal::has_color(&std::io::stdout()));
    let bold = |text: &str| if color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() };
    let mut out = terminal::wrap(&format!("Read: {}", shown(&read.files)), columns, 0);
    if !read.missing.is_empty() {
        out += &terminal::wrap(&format!("Not there: {}", read.missing.join(", ")), columns, 0);
    }
    let mut last = None;
    for finding in findings {
        let check = finding.check;
        if last.replace(check.weight) != Some(check.weight) {
            let _ = write!(out, "\n{}\n", bold(title(check.weight)));
        }
        let _ = writeln!(out, "\n  {} ({})", bold(check.slug), check.tier.name());
        for seen in finding.seen.iter().take(PLACES_SHOWN) {
            let place = seen.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
            out += &terminal::wrap(&format!("{place}{}", seen.what), columns, 4);
        }
        if finding.seen.len() > PLACES_SHOWN {
            let _ =
                writeln!(out, "    and {} more places (--json has all)", finding.seen.len() - PLACES_SHOWN);
        }
        out += &terminal::wrap(check.why, columns, 4);
        if let Some(gain) = check.gain {
            out += &terminal::wrap(&format!("Measured: {gain}."), columns, 4);
        }
        let _ = writeln!(out, "    Write: {}", check.line);
    }
    let count = match findings.len() {
        0 => "Nothing found".to_string(),
        1 => "One finding".to_string(),
        many => format!("{many} findings"),
    };
    let _ = write!(out, "\n{count}, {} things were looked for.\n", audit::checks().count());
    out
}

/// The first files, and how many more.
fn shown(files: &[String]) -> String {
    const SHOWN: usize = 6;
    match files.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more files", files[..SHOWN].join(", ")),
        _ if files.is_empty() => "no configuration".to_string(),
        _ => files.join(", "),
    }
}
