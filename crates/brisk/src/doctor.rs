//! `brisk doctor`: what slows a site down, as far as its configuration tells. Reads files and changes nothing.

mod files;

use brisk_cli::terminal;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_tune::audit::{self, Finding, Weight};
use clap::{CommandFactory as _, Parser, ValueHint};
use files::{Read, Wanted};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// `brisk doctor`.
pub const DOCTOR: Entry =
    Entry { name: "doctor", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Places of one finding that are shown; `--json` has all.
const PLACES_SHOWN: usize = 3;

/// Finds in a site's configuration what slows it down, and says what to write instead
///
/// Reads the web server's configuration (in nginx's language), php.ini, PHP-FPM's pools, MariaDB's option files and the kernel's
/// settings, and looks for about seventy things that cost speed, or that show one visitor what was made for another. Changes nothing
/// and sends nothing. What depends on the load, such as the number of PHP processes, is for a measurement: brisk bench --watch.
#[derive(Debug, Parser)]
struct Args {
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
    let Args { server, php_ini, fpm, mysql, checks, json } = args;
    if checks {
        return Ok(if json { format!("{:#}\n", all_checks()) } else { list() });
    }
    let read = files::read(&Wanted { server, php_ini, fpm, mysql })?;
    let findings = audit::audit(&read.site);
    Ok(if json { format!("{:#}\n", as_json(&read, &findings)) } else { text(&read, &findings) })
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
