//! The command line: which parts, how long, where to.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use brisk_load::output;
use brisk_load::system;
use lexopt::prelude::*;

use crate::floor;
use crate::lab::{Lab, Options};
use crate::machine::Environment;
use crate::parts::{ALL, Definition};
use crate::results::{self, Part};
use crate::rounds::WAITED_SHARE_MAX;
use crate::{least, markdown, server, slow};

const HELP: &str = "\
brisk-benches: measures whole servers and holds them against our targets

usage: brisk-benches [options] all|PART...

      --brisk PATH    Brisk's binary; without it, it is built and target/release/brisk is used
      --nginx PATH    nginx's binary [/usr/sbin/nginx]
      --h2o PATH      h2o's binary [/usr/bin/h2o]
      --haproxy PATH  HAProxy's binary [/usr/sbin/haproxy]
      --varnish PATH  Varnish's binary [/usr/sbin/varnishd]
      --rounds N      rounds of each part [9]
      --secs S        length of one measurement [3]
      --quick         3 rounds of 1 second, to try things out (too few for honest intervals)
      --out DIR       where benchmarks.md and benchmarks.json are [docs]
  -h, --help          this text

parts:
";

/// Runs the program.
pub fn main(args: Vec<String>) -> io::Result<()> {
    // Entries for the harness's own use: it starts its servers through itself.
    match args.split_first() {
        Some((first, rest)) if first == "exec" => return server::exec(rest),
        Some((first, rest)) if first == "floor" => return floor_from(rest),
        Some((first, rest)) if first == "forward" => return forward_from(rest),
        Some((first, rest)) if first == "ask" => return ask_from(rest),
        Some((first, rest)) if first == "slow-server" => return slow_from(rest),
        _ => {}
    }
    let Some((options, parts)) = parse(args).map_err(|error| io::Error::other(error.to_string()))? else {
        output::print(HELP);
        for part in ALL {
            output::line(format_args!("  {:<9} {}", part.name, part.about));
        }
        return Ok(());
    };
    if std::thread::available_parallelism()?.get() < 2 {
        return Err(io::Error::other("the server and the generator need a core each"));
    }
    // Servers inherit this: 10,000 connections and more.
    system::raise_open_files(12_000)?;
    parts.iter().try_for_each(|part| run(part, &options))
}

/// Runs one part and writes its results beside those of the others.
fn run(definition: &Definition, options: &Options) -> io::Result<()> {
    output::note(format_args!("{}:", definition.name));
    let mut environment = Environment::read(options);
    let lab = Lab::new(options.clone())?;
    let findings = (definition.run)(&lab)?;
    environment.add_waiting(findings.waited_share);
    if findings.waited_share > WAITED_SHARE_MAX {
        output::note(format_args!(
            "  others kept server or generator waiting for a core for {:.0} % of the time: \
             run this again on a quiet machine",
            findings.waited_share * 100.0
        ));
    }
    let part = Part {
        name: definition.name.to_owned(),
        about: definition.about.to_owned(),
        command: format!("cargo run --release -p brisk-benches -- {}{}", definition.name, options.given),
        environment,
        checks: findings.checks,
        rows: findings.rows,
    };
    for check in &part.checks {
        let verdict = check.target.judge(check.figure).text();
        output::note(format_args!(
            "  {}: {:.3} ({}) {verdict}",
            check.what,
            check.figure.median,
            check.target.text()
        ));
    }
    let json = options.out.join("benchmarks.json");
    let mut parts = results::load(&json)?;
    let names: Vec<&str> = ALL.iter().map(|part| part.name).collect();
    results::merge(&mut parts, part, &names);
    fs::create_dir_all(&options.out)?;
    fs::write(&json, results::render(&parts))?;
    fs::write(options.out.join("benchmarks.md"), markdown::render(&parts))
}

fn parse(args: Vec<String>) -> Result<Option<(Options, Vec<&'static Definition>)>, lexopt::Error> {
    let mut options = Options {
        brisk: PathBuf::new(),
        nginx: "/usr/sbin/nginx".into(),
        h2o: "/usr/bin/h2o".into(),
        haproxy: "/usr/sbin/haproxy".into(),
        varnish: "/usr/sbin/varnishd".into(),
        rounds: 9,
        measure: Duration::from_secs(3),
        warmup: Duration::from_millis(300),
        out: root().join("docs"),
        given: String::new(),
    };
    let mut parts: Vec<&Definition> = Vec::new();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("brisk") => {
                let given = parser.value()?;
                options.given.extend([" --brisk ", &given.to_string_lossy()]);
                options.brisk = absolute(given)?;
            }
            Long("nginx") => options.nginx = absolute(parser.value()?)?,
            Long("varnish") => options.varnish = absolute(parser.value()?)?,
            Long("haproxy") => options.haproxy = absolute(parser.value()?)?,
            Long("h2o") => options.h2o = absolute(parser.value()?)?,
            Long("rounds") => {
                options.rounds = parser.value()?.parse::<usize>()?.max(1);
                options.given.extend([" --rounds ", &options.rounds.to_string()]);
            }
            Long("secs") => {
                options.measure = Duration::from_secs_f64(parser.value()?.parse::<f64>()?.clamp(0.1, 600.0));
                options.given.extend([" --secs ", &options.measure.as_secs_f64().to_string()]);
            }
            Long("quick") => {
                (options.rounds, options.measure) = (3, Duration::from_secs(1));
                options.given += " --quick";
            }
            Long("out") => options.out = absolute(parser.value()?)?,
            Short('h') | Long("help") => return Ok(None),
            Value(name) if name == "all" => parts.extend(ALL),
            Value(name) => match ALL.iter().find(|part| name == part.name) {
                Some(part) => parts.push(part),
                None => return Err(format!("no part {}; --help lists them", name.display()).into()),
            },
            other => return Err(other.unexpected()),
        }
    }
    if parts.is_empty() {
        return Ok(None);
    }
    if options.brisk.as_os_str().is_empty() {
        options.brisk = build_brisk().map_err(|error| error.to_string())?;
    }
    Ok(Some((options, parts)))
}

/// Programs are started in folders of their own: there a path means the same as here.
fn absolute(given: OsString) -> Result<PathBuf, lexopt::Error> {
    std::path::absolute(&given).map_err(|error| format!("{}: {error}", given.display()).into())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where builds are, and what scripts/setup.sh has built.
pub fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds Brisk, so that `make bench` never measures yesterday's.
fn build_brisk() -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(root()).args(["build", "--release", "-p", "brisk"]);
    if !build.status()?.success() {
        return Err(io::Error::other("cargo build --release -p brisk failed"));
    }
    std::path::absolute(target_dir().join("release/brisk"))
}

fn floor_from(args: &[String]) -> io::Result<()> {
    let number = |index: usize| args.get(index).and_then(|arg| arg.parse::<usize>().ok());
    match (number(0).and_then(|port| u16::try_from(port).ok()), number(1)) {
        (Some(port), Some(body_bytes)) => {
            let (cpu, work) = (number(2), number(3).unwrap_or(0));
            floor::serve(floor::Options { port, body_bytes, cpu, work })
        }
        _ => Err(io::Error::other("usage: floor PORT BODY_BYTES [CPU [WORK]]")),
    }
}

fn forward_from(args: &[String]) -> io::Result<()> {
    let ports: Vec<u16> = args.iter().map_while(|arg| arg.parse().ok()).collect();
    let [port, back_end] = ports[..] else { return Err(io::Error::other("usage: forward PORT BACK_END")) };
    least::forward(port, back_end)
}

fn ask_from(args: &[String]) -> io::Result<()> {
    let usage = || io::Error::other("usage: ask CONNECTIONS SECONDS http://127.0.0.1:PORT/PATH");
    let [connections, seconds, url] = args else { return Err(usage()) };
    let (port, path) = url
        .strip_prefix("http://127.0.0.1:")
        .and_then(|rest| rest.split_at_checked(rest.find('/')?))
        .ok_or_else(usage)?;
    let duration = Duration::from_secs_f64(seconds.parse().map_err(|_| usage())?);
    let port = port.parse().map_err(|_| usage())?;
    let answers = least::ask(port, path, connections.parse().map_err(|_| usage())?, duration)?;
    output::line(format_args!("answers: {answers}"));
    Ok(())
}

fn slow_from(args: &[String]) -> io::Result<()> {
    let numbers: Vec<u64> = args.iter().map_while(|arg| arg.parse().ok()).collect();
    let [port, body_bytes, workers, work_ms] = numbers[..] else {
        return Err(io::Error::other("usage: slow-server PORT BODY_BYTES WORKERS WORK_MS"));
    };
    slow::serve(slow::Options {
        port: u16::try_from(port).map_err(io::Error::other)?,
        body_bytes: body_bytes as usize,
        workers: workers as usize,
        work: Duration::from_millis(work_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_from_any_folder() {
        let args = "--brisk a/brisk --nginx b --h2o ./c --haproxy ../d --varnish e/f --out g load";
        let (options, parts) = parse(args.split(' ').map(str::to_owned).collect()).unwrap().unwrap();
        let here = std::env::current_dir().unwrap();
        let Options { brisk, nginx, h2o, haproxy, varnish, out, given, .. } = options;
        assert_eq!(brisk, here.join("a/brisk"));
        for path in [nginx, h2o, haproxy, varnish, out] {
            assert!(path.is_absolute(), "{}", path.display());
        }
        // The command that repeats the part is the one that was given.
        assert_eq!((given.as_str(), parts[0].name), (" --brisk a/brisk", "load"));
    }
}
