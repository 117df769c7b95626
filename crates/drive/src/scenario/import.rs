//! `brisk bench import`: scenarios made of what others have written.

pub mod har;
pub mod jmx;
pub mod locust;
mod written;

use super::replay;
use brisk_cli::Entry;
use brisk_load::cli::WRONG_USAGE;
use brisk_load::cli::args::number;
use brisk_load::output;
use clap::{CommandFactory as _, Parser};
use std::path::Path;
use written::toml_text;

/// `brisk bench import`.
pub const IMPORT: Entry = Entry {
    name: "import",
    define: CommandLine::command,
    run: |call| match call.parse() {
        Ok(line) => convert(&line).map_or_else(|error| call.refuse(error), |()| 0),
        Err(code) => code,
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Makes a scenario of JMeter's test plan, a HAR file, an access log or a locustfile.
#[derive(Debug, Parser)]
struct CommandLine {
    /// What is read
    #[arg(value_name = "FILE", required = true)]
    file: String,
    /// Target of the scenario; an access log needs it
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Speed of a replay: 2 is twice as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::<f64>)]
    speed: f64,
    /// A property of JMeter's plan: ${__P(NAME)} is VALUE
    #[arg(short = 'J', long = "property", value_name = "NAME=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Where it goes [default: it is printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

/// `NAME=VALUE`, as `-J` of JMeter has it.
pub(super) fn property(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn convert(line: &CommandLine) -> Result<(), String> {
    let CommandLine { file, target, speed, properties, output } = line;
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let source = String::from_utf8_lossy(&bytes);
    let kind = Path::new(file).extension().unwrap_or_default();
    let scenario = if kind == "jmx" || source.trim_start().starts_with('<') {
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        let made = jmx::convert(&source, folder, target.as_deref(), properties);
        let made = made.map_err(|error| format!("{file}:{error}"))?;
        made.notes.iter().for_each(|note| output::note(format_args!("{file}:{note}")));
        made.text
    } else if kind == "py" {
        locust::convert(&source, target.as_deref()).map_err(|error| format!("{file}:{error}"))?
    } else if source.trim_start().starts_with('{') {
        let scenario =
            har::convert(&source, target.as_deref()).map_err(|error| format!("{file}: {error}"))?;
        let left_out = scenario.lines().filter(|line| line.starts_with(har::LEFT_OUT_STEP));
        left_out.for_each(|line| output::note(format_args!("{file}: {}", line.trim_start_matches("# "))));
        scenario
    } else {
        log(file, &source, target.as_deref(), *speed)?
    };
    match output {
        None => output::print(scenario),
        Some(path) => {
            std::fs::write(path, scenario).map_err(|error| format!("cannot write {path}: {error}"))?;
        }
    }
    Ok(())
}

fn log(file: &str, source: &str, target: Option<&str>, speed: f64) -> Result<String, String> {
    let log = replay::read(source, 5_000_000);
    let Some(last) = log.entries.last() else {
        return Err(format!(
            "{file}: neither a HAR file, nor a locustfile, nor an access log in the common or combined format"
        ));
    };
    if log.other_methods + log.broken > 0 {
        output::note(format_args!(
            "{file}: {} lines of other methods than GET and HEAD and {} that are not understood will be left out",
            log.other_methods, log.broken
        ));
    }
    // A log does not say which server it is of, and nobody is to load another by mistake.
    let target = target.ok_or_else(|| {
        format!("{file}: an access log does not say where its server is: give --target http://host:port")
    })?;
    let path = std::fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(format!(
        "# {} requests in {:.0} s.\ntarget = {}\n\n[replay]\nlog = {}\nspeed = {speed:?}\n",
        log.entries.len(),
        last.at.as_secs_f64(),
        toml_text(target),
        toml_text(&path.to_string_lossy())
    ))
}
