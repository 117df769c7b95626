//! The command line of `brisk bench page`.

use super::load::{Browser, Page, load};
use super::{advice, har, report, waterfall};
use crate::cli::{ClientOption, url as url_of};
use crate::client::{Common, Fields, Options, Url, block_on};
use brisk_load::cli::args::{count, text};
use brisk_load::cli::main_of;
use brisk_load::output::{self, OutFile};
use brisk_load::system;
use lexopt::prelude::*;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

const HELP: &str = "\
Fetches a page with everything that it is made of, as a browser does, and says what would make it faster.

      --har FILE         writes a HAR file
      --svg FILE         writes the waterfall as SVG
      --html FILE        writes a report in one file: waterfall, figures, advice
      --json             print JSON
  -c, --connections N    HTTP/1.1 connections per origin [6]
  -H, --header LINE      sent with every request
      --http1.1          HTTP/1.1 alone
      --http2            HTTP/2 alone
  -k, --insecure         take any certificate
      --timeout TIME     limit of each request [30s]
  -h, --help             this text

Scripts are not run: what they fetch is not seen. Exit code: 1 if the page itself did not come.
";

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

/// Runs `brisk bench page ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    main_of("brisk bench page", parse(args), |args| Ok(i32::from(!carry_out(&args)?)))
}

fn parse(args: &[String]) -> Result<Option<Args>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options { body_max: 32 << 20, ..Options::default() };
    let mut browser = Browser { connections: 6, fields: Fields::default() };
    let (mut url, mut har, mut svg, mut html, mut json) = (None, None, None, None, false);
    let wrong = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(wrong)? {
        if let Some(option) = ClientOption::of(&arg) {
            option.take(&mut parser, &mut options, &mut browser.fields)?;
            continue;
        }
        match arg {
            Long("har") => har = Some(text(&mut parser)?),
            Long("svg") => svg = Some(text(&mut parser)?),
            Long("html") => html = Some(text(&mut parser)?),
            Long("json") => json = true,
            Short('c') | Long("connections") => {
                browser.connections = count(&text(&mut parser)?, 256)?;
            }
            Short('h') | Long("help") => {
                output::print(format_args!("usage: brisk bench page [options] URL\n\n{HELP}"));
                return Ok(None);
            }
            Value(value) if url.is_none() => url = Some(value.string().map_err(wrong)?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let url = url.ok_or("no URL given; --help shows the usage")?;
    let url = url_of(&url)?;
    let command = std::iter::once("brisk bench page").chain(args.iter().map(String::as_str));
    let command = command.collect::<Vec<_>>().join(" ");
    Ok(Some(Args { command, url, options, browser, har, svg, html, json }))
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
