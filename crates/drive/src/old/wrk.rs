//! `wrk`: its flags and report. Lua scripts are refused: `brisk bench run` has scenarios.

use super::options::{self, flag, number, option};
use super::run;
use brisk_cli::getopt::{self, Given, Long};
use brisk_cli::{Call, Entry};
use brisk_load::engine::Outcome;
use brisk_load::output;
use brisk_load::plan::{Plan, RequestOptions, Stop, Url, sites};
use brisk_load::stats::ErrorKind;
use brisk_tls::Versions;
use clap::Command;
use std::fmt::Write as _;
use std::time::Duration;

/// `wrk`.
pub const WRK: Entry = Entry { name: "wrk", define: definition, run: main, inner: &[], usage_code: 1 };

/// wrk's options.
fn definition() -> Command {
    options::definition(
        "wrk's flags and report, with the load of brisk bench",
        "wrk <options> <url>",
        vec![
            option("connections", "N", "Connections to keep open").short('c'),
            option("duration", "T", "Duration of test").short('d'),
            option("threads", "N", "Number of threads to use").short('t'),
            option("header", "H", "Add header to request").short('H'),
            flag("latency", "Print latency statistics").short('L'),
            option("timeout", "T", "Socket/request timeout").short('T'),
            flag("version", "Print version details").short('v'),
            flag("help", "Print this").short('h'),
            option("script", "S", "Not supported: Lua scripts; brisk bench run has scenarios").short('s').hide(true),
        ],
    )
    .after_help(
        "\n\n  Numeric arguments may include a SI unit (1k, 1M, 1G)\n  Time arguments may include a time unit (2s, 2m, 2h)",
    )
}

/// wrk looks at each thread's rate ten times a second.
const SAMPLE: Duration = Duration::from_millis(100);

struct Options {
    connections: usize,
    threads: usize,
    duration: Duration,
    timeout: Duration,
    latency: bool,
    headers: Vec<String>,
    url: String,
}

fn main(call: &Call<'_>) -> i32 {
    let options = match parse(call.args) {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Usage) => return call.show_help(),
        Ok(Parsed::Version) => {
            output::line(format_args!("wrk, by brisk {}", env!("CARGO_PKG_VERSION")));
            return 0;
        }
        Err(error) => {
            output::note(error);
            call.hint_help();
            return 1;
        }
    };
    match carry_out(&options) {
        Ok(()) => 0,
        Err(error) => {
            output::note(error);
            1
        }
    }
}

/// What a command line comes to.
enum Parsed {
    Run(Options),
    Usage,
    Version,
}

fn parse(args: &[String]) -> Result<Parsed, String> {
    let mut options = Options {
        connections: 10,
        threads: 2,
        duration: Duration::from_secs(10),
        timeout: Duration::from_secs(2),
        latency: false,
        headers: Vec::new(),
        url: String::new(),
    };
    for given in getopt::read(&definition(), args, Long::Whole).map_err(|fault| fault.to_string())? {
        match given {
            Given::Word(word) if options.url.is_empty() => options.url = word,
            Given::Word(word) => return Err(format!("more than one URL: {word}")),
            Given::Option(name, text) => match name.as_str() {
                "latency" => options.latency = true,
                "help" => return Ok(Parsed::Usage),
                "version" => return Ok(Parsed::Version),
                "connections" => options.connections = count(&text, "-c")?,
                "threads" => options.threads = count(&text, "-t")?,
                "duration" => options.duration = time(&text, "-d")?,
                "timeout" => options.timeout = time(&text, "--timeout")?,
                "header" => options.headers.push(text),
                _ => {
                    return Err(format!(
                        "-s {text}: Lua scripts are not run: write a scenario for brisk bench run instead"
                    ));
                }
            },
        }
    }
    if options.url.is_empty() {
        return Err("no URL given".to_owned());
    }
    if options.connections < options.threads {
        return Err("number of connections must be >= threads".to_owned());
    }
    Ok(Parsed::Run(options))
}

/// A number with an SI unit.
fn count(text: &str, option: &str) -> Result<usize, String> {
    let (digits, scale) = match text.chars().last() {
        Some('k' | 'K') => (&text[..text.len() - 1], 1000),
        Some('m' | 'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    Ok(number(digits, option, 1, 1_000_000 / scale)? as usize * scale as usize)
}

fn time(text: &str, option: &str) -> Result<Duration, String> {
    let (digits, scale) = match text.chars().last() {
        Some('s' | 'S') => (&text[..text.len() - 1], 1),
        Some('m' | 'M') => (&text[..text.len() - 1], 60),
        Some('h' | 'H') => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    Ok(Duration::from_secs(number(digits, option, 1, 86_400 / scale)? * scale))
}

fn carry_out(options: &Options) -> Result<(), String> {
    let url = Url::parse(&options.url).map_err(|error| error.to_string())?;
    let request = RequestOptions {
        headers: options.headers.clone(),
        secure: url.origin.secure,
        ..RequestOptions::default()
    };
    request.check().map_err(|error| error.to_string())?;
    let sites = sites(std::slice::from_ref(&url), &request).map_err(|error| error.to_string())?;
    let mut plan = Plan::new(sites, options.connections, Stop::After(options.duration));
    plan.threads = options.threads;
    plan.timeout = options.timeout;
    plan.series = Some(SAMPLE);
    plan.opening_max = options.connections;
    if url.origin.secure {
        plan.tls = Some(run::tls(url.origin.host(), Versions::default(), true)?);
    }
    output::line(format_args!("Running {} test @ {}", duration(options.duration), options.url));
    output::line(format_args!("  {} threads and {} connections", options.threads, options.connections));
    let (outcome, _) = run::run(plan, None, |_| true).map_err(|error| error.to_string())?;
    let stats = &outcome.stats;
    if stats.responses() == 0 && stats.errors_of(ErrorKind::Refused) > 0 {
        return Err(format!("unable to connect to {} Connection refused", url.origin.authority()));
    }
    output::print(report(&outcome, options));
    Ok(())
}

/// wrk's report.
fn report(outcome: &Outcome, options: &Options) -> String {
    let (stats, seconds) = (&outcome.stats, outcome.elapsed.as_secs_f64());
    let mut out = String::from("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n");
    let latency = &stats.latency_of_all();
    let (mean, deviation) = (latency.mean(), latency.deviation());
    let below = |value: f64| if value < 0.0 { 0.0 } else { latency.share_up_to(value as u64) };
    let within = 100.0 * (below(mean + deviation) - below(mean - deviation));
    let figures = [mean / 1e3, deviation / 1e3, latency.max() as f64 / 1e3];
    row(&mut out, "Latency", figures, within, micros);
    // Per thread; the last slice may be a short one.
    let whole = outcome.whole_slices().filter(|slice| slice.width >= SAMPLE);
    let threads = options.threads as f64;
    let rates: Vec<f64> =
        whole.map(|slice| slice.responses() as f64 / slice.width.as_secs_f64() / threads).collect();
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let deviation =
        (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
    let inside = rates.iter().filter(|rate| (*rate - mean).abs() <= deviation).count() as f64;
    let most = rates.iter().copied().fold(0.0, f64::max);
    row(&mut out, "Req/Sec", [mean, deviation, most], 100.0 * inside / count, metric);
    if options.latency {
        out += "  Latency Distribution\n";
        for percent in [50.0, 75.0, 90.0, 99.0] {
            let time = micros(latency.quantile(percent / 100.0) as f64 / 1e3);
            let _ = writeln!(out, "{percent:>7.0}%{}", padded(&time, 10).trim_end());
        }
    }
    // What came after the end has a latency, but no part in the rates.
    let requests = stats.responses_in_time();
    let (time, bytes) = (duration_of(seconds), binary(stats.bytes_in_time() as f64));
    let _ = writeln!(out, "  {requests} requests in {time}, {bytes}B read");
    errors(&mut out, outcome);
    let seconds = seconds.max(1e-9);
    let _ = writeln!(out, "Requests/sec: {:>9.2}", requests as f64 / seconds);
    let _ = writeln!(out, "Transfer/sec: {:>10}B", binary(stats.bytes_in_time() as f64 / seconds));
    out
}

fn errors(out: &mut String, outcome: &Outcome) {
    use ErrorKind::{
        Closed, Connect, ConnectTimeout, Dns, Protocol, Read, Refused, Reset, Stream, Timeout, Tls,
        Truncated, Write,
    };
    let stats = &outcome.stats;
    let of = |kinds: &[ErrorKind]| kinds.iter().map(|&kind| stats.errors_of(kind)).sum::<u64>();
    let connect = of(&[Dns, Connect, Refused, ConnectTimeout, Tls]);
    let read = of(&[Read, Reset, Closed, Truncated, Protocol, Stream]);
    let (write, timeout) = (of(&[Write]), of(&[Timeout]));
    if connect + read + write + timeout > 0 {
        let _ = writeln!(
            out,
            "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
        );
    }
    let refused = stats.responses() - stats.by_class[2] - stats.by_class[3];
    if refused > 0 {
        let _ = writeln!(out, "  Non-2xx or 3xx responses: {refused}");
    }
}

fn row(out: &mut String, name: &str, figures: [f64; 3], within: f64, unit: fn(f64) -> String) {
    let _ = write!(out, "    {name:<10}");
    for (figure, width) in figures.into_iter().zip([8, 10, 9]) {
        *out += &padded(&unit(figure), width);
    }
    let _ = writeln!(out, "{within:>8.2}%");
}

/// Right-aligned so that numbers line up whatever their unit: letters at the end hang over into two columns.
fn padded(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).take_while(char::is_ascii_alphabetic).count();
    let width = width - (2 - letters);
    format!("{text:>width$.width$}{}", &"  "[letters..])
}

/// A unit is taken as soon as its number is at least 0.85.
fn scaled(mut amount: f64, scale: f64, base: &'static str, units: &[&'static str]) -> String {
    let mut unit = base;
    for next in units {
        if amount < scale * 0.85 {
            break;
        }
        amount /= scale;
        unit = next;
    }
    format!("{amount:.2}{unit}")
}

fn micros(micros: f64) -> String {
    if micros >= 1e6 { duration_of(micros / 1e6) } else { scaled(micros, 1000.0, "us", &["ms"]) }
}

fn duration_of(seconds: f64) -> String {
    scaled(seconds, 60.0, "s", &["m", "h"])
}

/// Without decimals, as the first line has it.
fn duration(time: Duration) -> String {
    let text = duration_of(time.as_secs_f64());
    let unit = text.chars().last().unwrap_or('s');
    let number: f64 = text.trim_end_matches(unit).parse().unwrap_or(0.0);
    format!("{number:.0}{unit}")
}

fn metric(number: f64) -> String {
    scaled(number, 1000.0, "", &["k", "M", "G", "T", "P"])
}

fn binary(bytes: f64) -> String {
    scaled(bytes, 1024.0, "", &["K", "M", "G", "T", "P"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<Options, String> {
        parse(&super::super::words(line)).map(|parsed| match parsed {
            Parsed::Run(options) => options,
            _ => panic!("{line}"),
        })
    }

    #[test]
    fn the_command_of_the_manual() {
        let options = check("-t2 -c64 -d10s --latency http://a/").unwrap();
        assert_eq!((options.threads, options.connections, options.latency), (2, 64, true));
        assert_eq!(check("-t 1 -c 1k --duration=2m http://a/").unwrap().connections, 1000);
        for (line, part) in [
            ("-s x.lua http://a/", "Lua"),
            ("--script=x.lua http://a/", "Lua"),
            ("-t 4 -c 2 http://a/", ">= threads"),
            ("-x http://a/", "'x'"),
            ("-c2", "no URL"),
            ("-d 0s http://a/", "-d"),
            ("-d 999h http://a/", "-d"),
        ] {
            let error = check(line).err().unwrap();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn numbers_line_up_whatever_their_unit() {
        assert_eq!(micros(177.0), "177.00us");
        assert_eq!(micros(930.0), "0.93ms");
        assert_eq!(micros(2.5e6), "2.50s");
        assert_eq!(metric(20_860.0), "20.86k");
        assert_eq!(binary(14_321_000.0), "13.66M");
        assert_eq!(duration(Duration::from_mins(2)), "2m");
        assert_eq!(
            (padded("1.02ms", 8), padded("20.86k", 8), padded("3.00", 8)),
            ("  1.02ms".into(), " 20.86k ".into(), "  3.00  ".into())
        );
    }
}
