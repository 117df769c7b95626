//! The command line of `brisk bench` (and of `brisk-load`, the same as a program of its own).

pub mod args;

use std::io;
use std::time::Duration;

use crate::engine::{self, Run};
use crate::plan::{Order, Plan, RequestOptions, Stop, Url, sites};
use crate::report::Report;
use args::{duration, number, rate};
use lexopt::prelude::*;

/// After the usage line, which names the program.
const HELP: &str = "\
HTTP/1.1 load, closed loop or open

  URL                http://host[:port]/path or http://unix:/socket:/path
  -c, --connections N    connections [64]
  -t, --threads N        threads [1]
  -d, --duration TIME    how long, e.g. 500ms, 5s, 1m [5s]
  -n, --requests N       so many requests instead
  -w, --warmup TIME      part before the count starts [0s]
  -p, --pipeline N       requests in flight per connection [1]
  -r, --rate RATE        open loop: requests per second, e.g. 500, or 10..1000/60s for a ramp
  -H, --header LINE      further header line
  -X, --method NAME      method [GET]
      --body TEXT        request body
      --random           targets in random order, not in turn
      --timeout TIME     longest wait for a response [10s]
      --cpu N[,N...]     pin threads to these CPUs
      --idle             ask once per connection, then keep all open until Enter or end of input
      --json             print JSON
  -h, --help             this text
";

/// What the command line asks for.
struct Args {
    plan: Plan,
    idle: bool,
    json: bool,
}

/// Runs `program ARGS` and gives its exit code.
pub fn main(program: &str, args: &[String]) -> i32 {
    let result = parse(program, args).and_then(|args| match args {
        Some(args) => execute(args).map_err(|error| error.to_string()),
        None => Ok(()),
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{program}: {error}");
            1
        }
    }
}

fn execute(args: Args) -> io::Result<()> {
    let connections = args.plan.connections;
    let run = engine::start(args.plan)?;
    let outcome = if args.idle { idle(run, connections)? } else { run.join()? };
    let report = Report(&outcome);
    if args.json {
        println!("{}", report.to_json());
    } else {
        println!("{report}");
    }
    Ok(())
}

fn idle(run: Run, connections: usize) -> io::Result<engine::Outcome> {
    let all = run.wait_settled(Duration::from_mins(2));
    let progress = run.progress();
    eprintln!(
        "{} of {connections} connections {}; press Enter to close them",
        progress.responses,
        if all { "open" } else { "open, others failed" },
    );
    io::stdin().read_line(&mut String::new())?;
    run.stop();
    run.join()
}

fn parse(program: &str, args: &[String]) -> Result<Option<Args>, String> {
    let mut plan = Plan::new(Vec::new(), 64, Stop::After(Duration::from_secs(5)));
    let mut options = RequestOptions::default();
    let (mut urls, mut idle, mut json) = (Vec::new(), false, false);
    let mut parser = lexopt::Parser::from_args(args);
    let describe = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(describe)? {
        match arg {
            Short('c') | Long("connections") => plan.connections = number(&text(&mut parser)?)?,
            Short('t') | Long("threads") => plan.threads = number(&text(&mut parser)?)?,
            Short('d') | Long("duration") => plan.stop = Stop::After(duration(&text(&mut parser)?)?),
            Short('n') | Long("requests") => plan.stop = Stop::Requests(number(&text(&mut parser)?)?),
            Short('w') | Long("warmup") => plan.warmup = duration(&text(&mut parser)?)?,
            Short('p') | Long("pipeline") => plan.pipeline = number(&text(&mut parser)?)?,
            Short('r') | Long("rate") => plan.rate = Some(rate(&text(&mut parser)?)?),
            Short('H') | Long("header") => options.headers.push(text(&mut parser)?),
            Short('X') | Long("method") => options.method = text(&mut parser)?,
            Long("body") => options.body = text(&mut parser)?.into_bytes().into(),
            Long("random") => plan.order = Order::Random,
            Long("timeout") => plan.timeout = duration(&text(&mut parser)?)?,
            Long("cpu") => plan.cpus = text(&mut parser)?.split(',').map(number).collect::<Result<_, _>>()?,
            Long("idle") => idle = true,
            Long("json") => json = true,
            Short('h') | Long("help") => {
                print!("usage: {program} [options] URL...\n\n{HELP}");
                return Ok(None);
            }
            Value(url) => {
                let url = url.string().map_err(describe)?;
                urls.push(Url::parse(&url).map_err(|error| error.to_string())?);
            }
            other => return Err(describe(other.unexpected())),
        }
    }
    if urls.is_empty() {
        return Err("no URL given; --help shows the usage".to_owned());
    }
    plan.sites = sites(&urls, &options).map_err(|error| error.to_string())?;
    if idle {
        let base = Plan::idle(Vec::new(), plan.connections);
        plan = Plan { stop: base.stop, hold: base.hold, ..plan };
    }
    Ok(Some(Args { plan, idle, json }))
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(lexopt::ValueExt::string).map_err(|error| error.to_string())
}
