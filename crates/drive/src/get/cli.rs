//! The command line of `brisk get`.

use super::show::{self, Wire};
use crate::cli::{ClientOption, url as url_of};
use crate::client::{Client, Common, Exchange, Failure, Fields, Options, Request, block_on, decode};
use brisk_load::cli::args::{duration, text};
use brisk_load::cli::main_of;
use brisk_load::jar::Jar;
use brisk_load::output::{self, OutFile};
use lexopt::prelude::*;
use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::Duration;

const HELP: &str = "\
Shows one exchange as it was on the wire: look-up, connect, TLS, heads, chunks, frames, times.

  -L, --location         follow redirects, ten at most
  -X, --request NAME     method
  -H, --header LINE      further header line; \"Name:\" leaves one out that would be sent
  -b, --cookie TEXT      cookies, e.g. a=1; b=2; with -L those that answers set go along, too
  -d, --data TEXT        body (makes it a POST); @FILE takes it from a file
  -k, --insecure         take any certificate
      --http1.1          HTTP/1.1 alone
      --http2            HTTP/2 alone: by ALPN, or without TLS by prior knowledge
  -I, --head             HEAD
      --raw              the body as it came: codings are not undone, nothing is left out
      --pretty           JSON is indented, text is cut to a screenful (default on a terminal)
      --body             nothing but the body
      --frames           HTTP/2 frames and sizes of chunks (default: a summary)
  -o, --output FILE      the body goes into a file
  -m, --max-time TIME    limit of the whole [30s]; also --timeout
  -h, --help             this text

Exit code: 0 an answer came, 1 none came, 2 wrong usage.
";

/// Redirects followed at most.
const REDIRECTS_MAX: usize = 10;

/// What the command line asks for.
pub(super) struct Args {
    pub request: Request,
    pub options: Options,
    pub follow: bool,
    pub raw: bool,
    pub pretty: bool,
    pub only_body: bool,
    pub frames: bool,
    pub output: Option<String>,
    /// Cookies are sent, and kept from one redirect to the next.
    pub jar: Option<Jar>,
}

/// Runs `brisk get ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    main_of("brisk get", parse(args), |args| {
        block_on(async move { go(&args).await }).map_err(|error| error.to_string())?.map(|()| 0)
    })
}

fn parse(args: &[String]) -> Result<Option<Args>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut url, mut method, mut head) = (None, None, false);
    let mut fields = Fields::default();
    let mut body: Option<Vec<u8>> = None;
    let mut cookies: Option<String> = None;
    let mut options = Options { keep_alive: true, ..Options::default() };
    let (mut follow, mut raw, mut only_body, mut frames) = (false, false, false, false);
    let mut pretty = std::io::stdout().is_terminal();
    let mut output = None;
    let wrong = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(wrong)? {
        if let Some(option) = ClientOption::of(&arg) {
            option.take(&mut parser, &mut options, &mut fields)?;
            continue;
        }
        match arg {
            Short('L') | Long("location") => follow = true,
            Short('X') | Long("request") => method = Some(text(&mut parser)?),
            Short('b') | Long("cookie") => cookies = Some(text(&mut parser)?),
            Short('d') | Long("data") => body = Some(data(&text(&mut parser)?)?),
            Short('I') | Long("head") => head = true,
            Long("raw") => (raw, pretty) = (true, false),
            Long("pretty") => pretty = true,
            Long("body") => only_body = true,
            Long("frames") => frames = true,
            Short('o') | Long("output") => output = Some(text(&mut parser)?),
            Short('m') | Long("max-time") => options.timeout = duration(&text(&mut parser)?)?,
            Short('h') | Long("help") => {
                output::print(format_args!("usage: brisk get [options] URL\n\n{HELP}"));
                return Ok(None);
            }
            Value(value) if url.is_none() => url = Some(value.string().map_err(wrong)?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    let url = url.ok_or("no URL given; --help shows the usage")?;
    // A name alone means what it means to a browser's address bar, a development server included.
    let url = if url.contains("://") { url } else { format!("http://{url}") };
    let url = url_of(&url)?;
    let jar = cookies.map(|text| {
        let mut jar = Jar::default();
        text.split(';').for_each(|pair| jar.set(&url, &format!("{}; Path=/", pair.trim())));
        jar
    });
    let method = method.unwrap_or_else(|| {
        if head {
            "HEAD"
        } else if body.is_some() {
            "POST"
        } else {
            "GET"
        }
        .to_owned()
    });
    let request = Request {
        method,
        url,
        fields: with_defaults(fields, body.is_some()),
        body: body.unwrap_or_default(),
    };
    if let Some(fault) = request.fault() {
        return Err(fault);
    }
    if options.timeout > Duration::from_hours(1) {
        return Err("--max-time is an hour at most".to_owned());
    }
    Ok(Some(Args { request, options, follow, raw, pretty, only_body, frames, output, jar }))
}

fn data(text: &str) -> Result<Vec<u8>, String> {
    match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}")),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// What is sent unless it was given; an empty value leaves a field out.
fn with_defaults(given: Fields, has_body: bool) -> Fields {
    let mut defaults =
        vec![("User-Agent", "brisk"), ("Accept", "*/*"), ("Accept-Encoding", decode::ACCEPT_ENCODING)];
    if has_body {
        defaults.push(("Content-Type", "application/x-www-form-urlencoded"));
    }
    let mut fields = Fields::default();
    for (name, value) in defaults {
        if given.get(name).is_none() {
            fields.push(name, value);
        }
    }
    fields.0.extend(given.0.into_iter().filter(|(_, value)| !value.is_empty()));
    fields
}

async fn go(args: &Args) -> Result<(), String> {
    let file = args.output.as_ref().map(|path| OutFile::open(path.as_ref())).transpose()?;
    let common = Common::new(args.options.clone())?;
    let wire = Rc::new(RefCell::new(Wire::default()));
    let seen = Rc::clone(&wire);
    let client = Client::new(&common).watched(Rc::new(move |note| seen.borrow_mut().note(&note)));
    let mut request = args.request.clone();
    let mut jar = args.jar.clone();
    for _ in 0..=REDIRECTS_MAX {
        let asked = jar.as_ref().map_or_else(|| request.clone(), |jar| request.with_cookies(jar));
        let result = client.exchange(&asked).await;
        let wire = wire.take();
        let exchange = result.map_err(|failure: Failure| explain(&request, &wire, &failure, args))?;
        if let Some(jar) = &mut jar {
            exchange.fill(jar, &request);
        }
        let next = if args.follow { redirect(&request, &exchange)? } else { None };
        let is_last = next.is_none();
        output::write(&show::exchange(&asked, &exchange, &wire, args, is_last));
        if is_last {
            return deliver(&exchange, args, file);
        }
        request = next.unwrap_or(request);
    }
    Err(format!("more than {REDIRECTS_MAX} redirects"))
}

/// A failure with what had been seen until then.
fn explain(request: &Request, wire: &Wire, failure: &Failure, args: &Args) -> String {
    if !args.only_body {
        output::write(&show::sent(wire));
    }
    format!("{}: {failure}", request.url)
}

/// The request that a redirect asks for (RFC 9110 §15.4).
fn redirect(request: &Request, exchange: &Exchange) -> Result<Option<Request>, String> {
    if !matches!(exchange.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = exchange.fields.get("location") else { return Ok(None) };
    let url = request.url.join(location).ok_or(format!("cannot follow a redirect to \"{location}\""))?;
    let mut next = Request { url, ..request.clone() };
    let becomes_get =
        exchange.status == 303 || (matches!(exchange.status, 301 | 302) && request.method == "POST");
    if becomes_get && request.method != "HEAD" {
        "GET".clone_into(&mut next.method);
        next.body = Vec::new();
        next.fields.0.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    if next.url.origin != request.url.origin {
        // What was meant for one server is no other's business.
        let private =
            |name: &str| ["authorization", "cookie", "host"].contains(&name.to_ascii_lowercase().as_str());
        next.fields.0.retain(|(name, _)| !private(name));
    }
    Ok(Some(next))
}

/// The body, to where it was asked for.
fn deliver(exchange: &Exchange, args: &Args, file: Option<OutFile>) -> Result<(), String> {
    if exchange.body_bytes > exchange.body.len() as u64 {
        output::note(format_args!(
            "brisk get: only the first {} bytes of the body were kept",
            exchange.body.len()
        ));
    }
    let body = show::body(exchange, args)?;
    match file {
        Some(file) => file.fill(|file| file.write_all(&body)),
        None => {
            output::write(&body);
            Ok(())
        }
    }
}
