//! The command line: which parts, how long, where to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_load::system;
use clap::{Command, CommandFactory as _, Parser};

use crate::floor;
use crate::lab::{Lab, Options};
use crate::machine::Environment;
use crate::parts::{ALL, Definition};
use crate::results::{self, Part};
use crate::rounds::WAITED_SHARE_MAX;
use crate::{flood, least, markdown, server, slow};

/// `brisk-benches`.
const BENCHES: Entry = Entry { name: "brisk-benches", define, run: carry_out, inner: &[], usage_code: 1 };

/// Measures whole servers and holds them against our targets.
#[derive(Parser)]
struct Args {
    /// What is measured; without any, all parts are listed
    #[arg(value_name = "all|PART")]
    parts: Vec<String>,
    /// Brisk's binary [default: it is built, target/release/brisk]
    #[arg(long, value_name = "PATH")]
    brisk: Option<String>,
    /// nginx's binary; --out must be given with another
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/nginx", value_parser = absolute, requires = "out")]
    nginx: PathBuf,
    /// h2o's binary; --out must be given with another
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/h2o", value_parser = absolute, requires = "out")]
    h2o: PathBuf,
    /// HAProxy's binary; --out must be given with another
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/haproxy", value_parser = absolute, requires = "out")]
    haproxy: PathBuf,
    /// Varnish's binary; --out must be given with another
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/varnishd", value_parser = absolute, requires = "out")]
    varnish: PathBuf,
    /// Apache's binary; --out must be given with another
    #[arg(long, value_name = "PATH", default_value = "/usr/sbin/apache2", value_parser = absolute, requires = "out")]
    apache: PathBuf,
    /// Rounds of each part [default: 9]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Length of one measurement, in seconds [default: 3]
    #[arg(long, value_name = "S")]
    secs: Option<f64>,
    /// 3 rounds of 1 second, to try things out (too few for honest intervals)
    #[arg(long, conflicts_with_all = ["rounds", "secs"])]
    quick: bool,
    /// Where benchmarks.md and benchmarks.json are [default: docs, which are of the packages' programs]
    #[arg(long, value_name = "DIR", value_parser = absolute)]
    out: Option<PathBuf>,
}

fn define() -> Command {
    let parts = ALL.iter().map(|part| format!("  {:<9} {}\n", part.name, part.about));
    Args::command().after_help(format!("Parts:\n{}", parts.collect::<String>()))
}

/// Runs the program.
pub fn main(args: Vec<String>) -> io::Result<()> {
    // Entries for the harness's own use: it starts its servers through itself.
    match args.split_first() {
        Some((first, rest)) if first == "exec" => return server::exec(rest),
        Some((first, rest)) if first == "floor" => return floor_from(rest),
        Some((first, rest)) if first == "forward" => return between_from(least::forward, rest),
        Some((first, rest)) if first == "sessions" => return between_from(least::sessions, rest),
        Some((first, rest)) if first == "ask" => return ask_from(rest),
        Some((first, rest)) if first == "responder" => return respond_from(rest),
        Some((first, rest)) if first == "slow-server" => return slow_from(rest),
        Some((first, rest)) if first == "flood" => return flood_from(rest),
        _ => {}
    }
    match BENCHES.main(BENCHES.name, &args) {
        0 => Ok(()),
        code => process::exit(code),
    }
}

fn carry_out(call: &Call<'_>) -> i32 {
    let args: Args = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if args.parts.is_empty() {
        return call.show_help();
    }
    let measured = args
        .options()
        .map_err(|error| error.to_string())
        .and_then(|(options, parts)| measure(&options, &parts).map_err(|error| error.to_string()));
    call.carry_out(measured.map(|()| 0))
}

fn measure(options: &Options, parts: &[&'static Definition]) -> io::Result<()> {
    if std::thread::available_parallelism()?.get() < 2 {
        return Err(io::Error::other("the server and the generator need a core each"));
    }
    // Servers inherit this: 10,000 connections and more.
    system::raise_open_files(12_000)?;
    parts.iter().try_for_each(|part| run(part, options))
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

impl Args {
    /// How is measured, and which parts.
    fn options(self) -> io::Result<(Options, Vec<&'static Definition>)> {
        let mut parts: Vec<&Definition> = Vec::new();
        for name in &self.parts {
            match ALL.iter().find(|part| name == part.name) {
                _ if name == "all" => parts.extend(ALL),
                Some(part) => parts.push(part),
                None => return Err(io::Error::other(format!("no part {name}; --help lists them"))),
            }
        }
        let given = self.given();
        let (rounds, secs) =
            if self.quick { (3, 1.0) } else { (self.rounds.unwrap_or(9), self.secs.unwrap_or(3.0)) };
        let options = Options {
            brisk: match &self.brisk {
                Some(path) => absolute(path).map_err(io::Error::other)?,
                None => build_brisk()?,
            },
            nginx: self.nginx,
            h2o: self.h2o,
            haproxy: self.haproxy,
            varnish: self.varnish,
            apache: self.apache,
            rounds: rounds.max(1),
            measure: Duration::from_secs_f64(secs.clamp(0.1, 600.0)),
            warmup: Duration::from_millis(300),
            out: self.out.unwrap_or_else(|| root().join("docs")),
            given,
        };
        Ok((options, parts))
    }

    /// The options as given, for the command that repeats a part.
    fn given(&self) -> String {
        let mut given = String::new();
        if let Some(brisk) = &self.brisk {
            given.extend([" --brisk ", brisk]);
        }
        let peers = |args: &Args| {
            [&args.nginx, &args.h2o, &args.haproxy, &args.varnish, &args.apache].map(PathBuf::clone)
        };
        let usual = peers(&Args::parse_from([BENCHES.name]));
        let names = ["nginx", "h2o", "haproxy", "varnish", "apache"];
        for ((name, path), usual) in names.into_iter().zip(peers(self)).zip(usual) {
            if path != usual {
                given.extend([" --", name, " ", &path.to_string_lossy()]);
            }
        }
        if let Some(out) = &self.out {
            given.extend([" --out ", &out.to_string_lossy()]);
        }
        if let Some(rounds) = self.rounds {
            given.extend([" --rounds ", &rounds.to_string()]);
        }
        if let Some(secs) = self.secs {
            given.extend([" --secs ", &secs.to_string()]);
        }
        if self.quick {
            given += " --quick";
        }
        given
    }
}

/// Programs are started in folders of their own: there a path means the same as here.
fn absolute(given: &str) -> Result<PathBuf, String> {
    std::path::absolute(given).map_err(|error| format!("{given}: {error}"))
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
    let mut build = process::Command::new(cargo);
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

fn between_from(serve: fn(u16, u16) -> io::Result<()>, args: &[String]) -> io::Result<()> {
    let ports: Vec<u16> = args.iter().map_while(|arg| arg.parse().ok()).collect();
    let [port, back_end] = ports[..] else {
        return Err(io::Error::other("usage: forward|sessions PORT BACK_END"));
    };
    serve(port, back_end)
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

fn respond_from(args: &[String]) -> io::Result<()> {
    match args {
        [] => least::respond_here(),
        [socket, processes] => {
            least::respond(Path::new(socket), processes.parse().map_err(io::Error::other)?)
        }
        _ => Err(io::Error::other("usage: responder [SOCKET PROCESSES]")),
    }
}

fn flood_from(args: &[String]) -> io::Result<()> {
    let usage = || io::Error::other("usage: flood PORT PACKETS_PER_SECOND");
    let [port, rate] = args else { return Err(usage()) };
    flood::send(port.parse().map_err(|_| usage())?, rate.parse().map_err(|_| usage())?)
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
        let args = Args::try_parse_from(std::iter::once("brisk-benches").chain(args.split(' '))).unwrap();
        let (options, parts) = args.options().unwrap();
        let here = std::env::current_dir().unwrap();
        let Options { brisk, nginx, h2o, haproxy, varnish, out, given, .. } = options;
        assert_eq!(brisk, here.join("a/brisk"));
        for path in [nginx, h2o, haproxy, varnish, out] {
            assert!(path.is_absolute(), "{}", path.display());
        }
        // The command that repeats the part is the one that was given.
        let expected = format!(
            " --brisk a/brisk --nginx {0}/b --h2o {0}/./c --haproxy {1}/d --varnish {0}/e/f --out {0}/g",
            here.display(),
            here.join("..").display()
        );
        assert_eq!((given.replace("/./", "/"), parts[0].name), (expected.replace("/./", "/"), "load"));
    }

    /// An older build of Brisk in a peer's place must not become a row of docs/benchmarks.md.
    #[test]
    fn what_other_programs_do_is_written_elsewhere() {
        for peer in ["--nginx", "--h2o", "--haproxy", "--varnish", "--apache"] {
            let parse = |more: &[&str]| {
                Args::try_parse_from([&["brisk-benches", peer, "a", "load"][..], more].concat())
            };
            let error = parse(&[]).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("--out"), "{error}");
            assert!(parse(&["--out", "b"]).is_ok());
        }
    }
}
