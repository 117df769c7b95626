//! The command line of `brisk bench page`.

use super::load::{Browser, Page, load};
use super::{advice, har, report, waterfall};
use crate::cli::{ClientArgs, url as url_of};
use crate::client::{Common, Options, Url, block_on};
use brisk_cli::Entry;
use brisk_load::cli::args::count;
use brisk_load::cli::{WRONG_USAGE, read};
use brisk_load::output::{self, OutFile};
use brisk_load::system;
use clap::{CommandFactory as _, Parser};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

/// `brisk bench page`.
pub const PAGE: Entry = Entry {
    name: "page",
    define: CommandLine::command,
    run: |call| {
        let command = call.line();
        read(call, |line: CommandLine| line.args(command), |args| Ok(i32::from(!carry_out(&args)?)))
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Fetches a page as a browser does, and says how to make it faster.
#[derive(Debug, Parser)]
#[command(
    after_help = "Scripts are not run: what they fetch is not seen.\n\nExit code: 1 if the page itself did not come."
)]
struct CommandLine {
    /// The page
    #[arg(value_name = "URL", required = true, value_parser = url_of)]
    url: Url,
    /// Write a HAR file
    #[arg(long, value_name = "FILE")]
    har: Option<String>,
    /// Write the waterfall as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// A report in one file: waterfall, figures, advice
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// HTTP/1.1 connections per origin
    #[arg(short, long, value_name = "N", default_value = "6", value_parser = connections)]
    connections: usize,
    #[command(flatten)]
    client: ClientArgs,
}

impl CommandLine {
    fn args(self, command: String) -> Result<Args, String> {
        Ok(Args {
            command,
            url: self.url,
            options: self.client.options(Options { body_max: 32 << 20, ..Options::default() }),
            browser: Browser { connections: self.connections, fields: self.client.fields() },
            har: self.har,
            svg: self.svg,
            html: self.html,
            json: self.json,
        })
    }
}

fn connections(text: &str) -> Result<usize, String> {
    count(text, 256)
}

struct Args {
    /// As it was given.
    command: String,
    url: Url,
    options: Options,
    browser: Browser,
    har: Option<String>,
    svg: Option<String>,
    html: Option<String>,
    json: bool,
}

fn carry_out(args: &Args) -> Result<bool, String> {
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let open = |path: &Option<String>| path.as_ref().map(|path| OutFile::open(path.as_ref())).transpose();
    let (har, svg, html) = (open(&args.har)?, open(&args.svg)?, open(&args.html)?);
    let (url, browser, options) = (args.url.clone(), args.browser.clone(), args.options.clone());
    let page = block_on(async move { Ok::<Page, String>(load(Common::new(options)?, url, browser).await) });
    let page = page.map_err(|error| error.to_string())??;
    let har = har.map_or(Ok(()), |file| file.put(&format!("{:#}\n", har::har(&page))));
    let svg = svg.map_or(Ok(()), |file| file.put(&waterfall::svg(&page)));
    let report = || report::html(&page, &args.command, &args.url.to_string(), system::interrupted());
    let html = html.map_or(Ok(()), |file| file.put(&report()));
    if args.json {
        output::line(format_args!("{:#}", summary(&page)));
    } else {
        output::print(output::visible(&shown(&page)));
    }
    har.and(svg).and(html)?;
    Ok(page.document().is_some_and(|document| document.result.is_ok() && document.status() < 400))
}

fn shown(page: &Page) -> String {
    let width = if std::io::stdout().is_terminal() {
        rustix::termios::tcgetwinsize(std::io::stdout()).map_or(100, |size| usize::from(size.ws_col))
    } else {
        100
    };
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let mut out = waterfall::text(page, width);
    let _ = write!(
        out,
        "\n{} requests, {:.1} kB; can paint after {:.1} ms, everything after {:.1} ms\n",
        page.entries.len(),
        page.bytes() as f64 / 1e3,
        ms(page.can_paint()),
        ms(page.loaded())
    );
    for failure in page.entries.iter().filter_map(|entry| Some((entry, entry.result.as_ref().err()?))) {
        let _ = writeln!(out, "failed: {}: {}", failure.0.request.url, failure.1);
    }
    if system::interrupted() {
        out += "ended early: not everything has come\n";
    }
    if page.left_out > 0 {
        let _ = writeln!(out, "{} more resources were left out", page.left_out);
    }
    let advice = advice::advice(page);
    for piece in &advice {
        let _ = writeln!(out, "{}: {}", piece.about, piece.text);
    }
    if advice.is_empty() {
        out += "nothing to advise\n";
    }
    out
}

fn summary(page: &Page) -> Json {
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let entries: Vec<Json> = page
        .entries
        .iter()
        .map(|entry| {
            json!({
                "url": entry.request.url.to_string(), "kind": entry.kind.name(), "blocks": entry.blocks, "status": entry.status(),
                "bytes": entry.bytes(), "begun_ms": ms(entry.begun), "done_ms": ms(entry.done),
                "version": entry.result.as_ref().map_or("", |exchange| exchange.version),
                "reused": entry.result.as_ref().is_ok_and(|exchange| exchange.reused),
                "error": entry.result.as_ref().err().map(ToString::to_string),
            })
        })
        .collect();
    let advice: Vec<Json> =
        advice::advice(page).iter().map(|a| json!({ "about": a.about, "text": a.text })).collect();
    json!({ "requests": page.entries.len(), "bytes": page.bytes(), "can_paint_ms": ms(page.can_paint()),
        "loaded_ms": ms(page.loaded()), "entries": entries, "advice": advice })
}
