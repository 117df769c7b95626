//! `brisk doctor`: what slows a site down, as far as its configuration tells, and what limits it under a load. Changes nothing.

pub mod files;
pub mod measure;

use brisk_cli::terminal;
use brisk_cli::{Call, Entry};
use brisk_load::cli::args;
use brisk_load::output;
use brisk_load::url::Url;
use brisk_tune::audit::{self, Finding, Weight};
use brisk_tune::diagnosis::{Diagnosis, diagnose};
use clap::{CommandFactory as _, Parser, ValueHint};
use files::{Read, Wanted};
use measure::Load;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// `brisk doctor`.
pub const DOCTOR: Entry =
    Entry { name: "doctor", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Places of one finding that are shown; `--json` has all.
const PLACES_SHOWN: usize = 3;

/// Says what limits a site under a load, and what in its configuration slows it down
#[derive(Debug, Parser)]
#[command(
    after_help = "With a URL it asks for that page as so many users would, looks at the web server, PHP's pools, the database and the \
    machine meanwhile, and says in one sentence which of them is the limit. Run it where the site runs, as a user who may see its \
    processes.\n\n\
    Reads the web server's configuration (in nginx's language), php.ini, PHP-FPM's pools, MariaDB's option files and the kernel's \
    settings, and looks for about seventy things that cost speed, or that show one visitor what was made for another. Changes nothing, \
    and sends nothing without a URL."
)]
struct Args {
    /// The page to ask for; without one nothing is sent
    #[arg(value_name = "URL", value_parser = given)]
    url: Option<Url>,
    /// How many users ask for it at a time
    #[arg(short, long, value_name = "N", value_parser = args::connections, requires = "url", default_value = "10")]
    users: usize,
    /// How long they do
    #[arg(short, long, value_name = "TIME", value_parser = args::some_time, requires = "url", default_value = "8s")]
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
    /// List what is looked for, and read nothing
    #[arg(long)]
    checks: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn given(text: &str) -> Result<Url, String> {
    Url::given(text).map_err(|error| error.to_string())
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(args).map(|text| {
            output::print(text);
            0
        })),
        Err(code) => code,
    }
}

fn run(args: Args) -> Result<String, String> {
    let Args { url, users, duration: time, server, php_ini, fpm, mysql, checks, json } = args;
    if checks {
        return Ok(if json { format!("{:#}\n", all_checks()) } else { list() });
    }
    let read = files::read(&Wanted { server, php_ini, fpm, mysql })?;
    let findings = audit::audit(&read.site);
    let measured = url.map(|url| measure::measure(&Load { url, users, time }, &read)).transpose()?;
    let found = measured.as_ref().map(diagnose);
    if json {
        let mut all = as_json(&read, &findings);
        if let Some(found) = &found {
            all["limit"] = limit(found);
            let parts = found.budget;
            all["budget"] = json!({
                "queue_us": parts.queue, "cpu_us": parts.cpu, "run_queue_us": parts.run_queue,
                "blocked_us": parts.blocked, "rest_us": parts.rest,
            });
        }
        return Ok(format!("{all:#}\n"));
    }
    Ok(found.as_ref().map_or_else(String::new, said) + &text(&read, &findings))
}

fn as_json(read: &Read, findings: &[Finding]) -> Value {
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
fn said(found: &Diagnosis) -> String {
    let columns = terminal::columns();
    let mut out = terminal::wrap(&found.sentence, columns, 0);
    for line in &found.evidence {
        out += &terminal::wrap(&format!("- {line}"), columns, 2);
    }
    let parts = found.budget;
    let wall = parts.queue + parts.cpu + parts.run_queue + parts.blocked + parts.rest;
    let named = [
        ("waiting for a process", parts.queue),
        ("on a CPU", parts.cpu),
        ("waiting for a CPU", parts.run_queue),
        ("PHP waiting for others", parts.blocked),
        ("network and the rest", parts.rest),
    ];
    let times: Vec<String> = named
        .iter()
        .filter(|(_, part)| *part >= wall / 100.0)
        .map(|(name, part)| format!("{name} {:.1} ms", part / 1e3))
        .collect();
    out +=
        &terminal::wrap(&format!("A response took {:.1} ms: {}.", wall / 1e3, times.join(", ")), columns, 0);
    if let Some(gain) = found.gain_max {
        out += &terminal::wrap(
            &format!("Mending this alone gains {gain:.1} times the rate at most."),
            columns,
            0,
        );
    }
    out + "\n"
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
