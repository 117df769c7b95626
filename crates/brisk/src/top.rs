//! `brisk top`: what a running server does, in the terminal, by what a location with `dashboard` says.

use crate::config::Paths;
use crate::endpoint::{self, Address};
use crate::site::Site;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_top::{Model, Sample, Screen, View};
use clap::{CommandFactory as _, Parser};
use serde_json::Value;
use std::io::IsTerminal as _;
use std::thread::sleep;
use std::time::Duration;

/// `brisk top`.
pub const TOP: Entry = Entry { name: "top", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Of the picture where there is no terminal; COLUMNS and LINES say otherwise.
const TEXT_SIZE: (u16, u16) = (120, 60);

/// Shows what a running server does: requests, times, the costliest URLs and clients, back ends, PHP pools, caches, and the slowest requests in flight
#[derive(Debug, Parser)]
#[command(
    after_help = "The configuration must have a location with \"dashboard\". ADDRESS is unix:/path/of/socket:/location or \
    http://host:port/location; without it, that location is looked for in the configuration, one on a Unix socket first. URLs and clients \
    are counted only while somebody looks: the first picture has none.\n\n\
    Keys: 1 to 8 and the arrows choose the table, f the slowest requests in flight, s and r its order, / filters by name, p pauses, q ends. NO_COLOR is obeyed."
)]
struct Args {
    #[command(flatten)]
    site: Site,
    /// Where the dashboard is [default: what the configuration has]
    #[arg(long, value_name = "ADDRESS", value_parser = address_of)]
    dashboard: Option<Address>,
    /// A field of each request, as a login needs it: -H "Authorization: Basic WORD"
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = field_of)]
    headers: Vec<String>,
    /// The table that is shown first
    #[arg(long, value_name = "TABLE", default_value = "urls", value_parser = view_of)]
    view: View,
    /// Show only rows whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Seconds between two updates
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print the tables once, as text; the default where the output is no terminal
    #[arg(long)]
    once: bool,
    /// Print all numbers as JSON, once
    #[arg(long)]
    json: bool,
}

fn address_of(text: &str) -> Result<Address, String> {
    Address::parse(text, "/dashboard").ok_or_else(|| format!("invalid address \"{text}\""))
}

fn field_of(text: &str) -> Result<String, String> {
    let is_field =
        text.split_once(':').is_some_and(|(name, _)| !name.is_empty()) && !text.contains(['\r', '\n', '\0']);
    if is_field { Ok(text.to_string()) } else { Err("a field is \"NAME: VALUE\"".into()) }
}

fn view_of(text: &str) -> Result<View, String> {
    let names = View::ALL.map(View::name).join(", ");
    View::ALL.into_iter().find(|view| view.name() == text).ok_or_else(|| format!("it is one of {names}"))
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => run(&args).map_or_else(
            |message| {
                output::note(format_args!("brisk top: {message}"));
                1
            },
            |()| 0,
        ),
        Err(code) => code,
    }
}

fn run(args: &Args) -> Result<(), String> {
    let address = match &args.dashboard {
        Some(address) => address.clone(),
        None => configured(&args.site.paths())?,
    };
    let headers = args.headers.clone();
    let ask = move |since: Option<i64>| {
        let since = since.map_or_else(String::new, |secs| format!("&since={secs}"));
        address.call_with("GET", &format!("?data{since}"), &headers, &Value::Null)
    };
    let every = Duration::from_secs(args.interval);
    let screen = Screen { view: args.view, filter: args.filter.clone(), ..Screen::default() };
    if args.json {
        output::print(format!("{:#}\n", ask(None)?));
        return Ok(());
    }
    if args.once || !std::io::stdout().is_terminal() {
        let mut model = Model::new(Sample::new(ask(None)?)?);
        // Rates are of two looks.
        sleep(every);
        model.next(Sample::new(ask(model.since())?)?);
        let size = |name: &str, default| {
            std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
        };
        let (width, height) = (size("COLUMNS", TEXT_SIZE.0), size("LINES", TEXT_SIZE.1));
        let text = brisk_top::text(&model, &screen, width, height).map_err(|error| error.to_string())?;
        output::print(text);
        return Ok(());
    }
    let first = Sample::new(ask(None)?)?;
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    brisk_top::live(first, screen, every, has_colour, move |since| Sample::new(ask(since)?))
        .map_err(|error| format!("the terminal: {}", brisk_conf::os_text(&error)))
}

/// The dashboard that the configuration has.
fn configured(paths: &Paths) -> Result<Address, String> {
    let found = endpoint::configured(paths, &|directive| directive.name() == "dashboard");
    found.into_iter().next().ok_or_else(|| {
        format!(
            "no location with \"dashboard\" that can be asked without TLS in {}; write \"location /dashboard {{ dashboard; }}\", or say \
             where it is with --dashboard",
            paths.conf
        )
    })
}
