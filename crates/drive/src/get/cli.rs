//! The command line of `brisk get`.

use super::show::{self, Wire};
use crate::cli::{ClientArgs, url as url_of};
use crate::client::{
    Client, Common, Exchange, Failure, Fields, Options, Request, block_on, decode, is_redirect,
};
use crate::limits::{GET_REDIRECTS_MAX, TICKET_TIME_MAX};
use brisk_cli::Entry;
use brisk_load::cli::{FORM, WRONG_USAGE, body_of, read};
use brisk_load::jar::Jar;
use brisk_load::output::{self, OutFile};
use brisk_net::sleep;
use clap::{CommandFactory as _, Parser};
use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::rc::Rc;
use std::time::Duration;

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

/// `brisk get`.
pub const GET: Entry = Entry {
    name: "get",
    define: CommandLine::command,
    run: |call| {
        read(call, CommandLine::args, |args| {
            block_on(async move { go(&args).await }).map_err(|error| error.to_string())?.map(|()| 0)
        })
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Shows one exchange as it was on the wire.
#[derive(Debug, Parser)]
#[command(after_help = "Shown are look-up, connect, TLS, heads, chunks and frames, with their times.\n\n\
    Exit code: 0 an answer came, 1 none came, or wrong usage.")]
struct CommandLine {
    /// What is asked; a name alone means http://NAME
    #[arg(value_name = "URL", required = true)]
    url: String,
    /// Follow redirects, ten at most
    #[arg(short = 'L', long)]
    location: bool,
    /// Method [default: GET; POST with a body]
    #[arg(short = 'X', long, visible_alias = "request", value_name = "NAME")]
    method: Option<String>,
    /// Cookies, e.g. "a=1; b=2"; with -L those that answers set go along, too
    #[arg(short = 'b', long, value_name = "TEXT")]
    cookie: Option<String>,
    /// Request body (makes it a POST); @FILE takes it from a file
    #[arg(long, visible_alias = "data", value_name = "TEXT")]
    body: Option<String>,
    /// curl's letter for data: it has one meaning here, and says which.
    #[arg(short, hide = true, value_name = "TIME", value_parser = no_duration)]
    duration: Option<Duration>,
    /// HEAD
    #[arg(short = 'I', long)]
    head: bool,
    #[command(flatten)]
    client: ClientArgs,
    /// The body as it came: codings are not undone, nothing is left out
    #[arg(long)]
    raw: bool,
    /// JSON is indented, text is cut to a screenful (default on a terminal)
    #[arg(long)]
    pretty: bool,
    /// Nothing but the body
    #[arg(long)]
    only_body: bool,
    /// With -3: ask twice, the second time on a new connection and with its first packets (0-RTT); the second is shown
    #[arg(long = "0rtt", requires = "http3")]
    early: bool,
    /// HTTP/2 frames and sizes of chunks (default: a summary)
    #[arg(long)]
    frames: bool,
    /// The body goes into a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

impl CommandLine {
    /// What is to be done. The error says what is wrong with the command line.
    fn args(self) -> Result<Args, String> {
        let body = self.body.as_deref().map(body_of).transpose()?;
        // A name alone means what it means to a browser's address bar, a development server included.
        let url = if self.url.contains("://") { self.url } else { format!("http://{}", self.url) };
        let url = url_of(&url)?;
        let jar = self.cookie.map(|text| {
            let mut jar = Jar::default();
            text.split(';').for_each(|pair| jar.set(&url, &format!("{}; Path=/", pair.trim())));
            jar
        });
        let usual = match (self.head, &body) {
            (true, _) => "HEAD",
            (false, Some(_)) => "POST",
            (false, None) => "GET",
        };
        let request = Request {
            method: self.method.unwrap_or_else(|| usual.to_owned()),
            url,
            fields: with_defaults(self.client.fields(), body.is_some()),
            body: body.unwrap_or_default(),
        };
        if let Some(fault) = request.fault() {
            return Err(fault);
        }
        if self.early && !request.may_be_early() {
            return Err("--0rtt is for GET, HEAD and OPTIONS: others could be carried out twice".to_owned());
        }
        let early = self.early;
        let options = self.client.options(Options { keep_alive: true, early, ..Options::default() });
        if options.timeout > Duration::from_hours(1) {
            return Err("--timeout is an hour at most".to_owned());
        }
        Ok(Args {
            request,
            options,
            follow: self.location,
            raw: self.raw,
            pretty: self.pretty || !self.raw && std::io::stdout().is_terminal(),
            only_body: self.only_body,
            frames: self.frames,
            output: self.output,
            jar,
        })
    }
}

fn no_duration(_: &str) -> Result<Duration, String> {
    Err("that is how long a load lasts; a body is --data, or --body".to_owned())
}

/// What is sent unless it was given; an empty value leaves a field out.
fn with_defaults(given: Fields, has_body: bool) -> Fields {
    let mut defaults =
        vec![("User-Agent", "brisk"), ("Accept", "*/*"), ("Accept-Encoding", decode::ACCEPT_ENCODING)];
    if has_body {
        defaults.push(("Content-Type", FORM));
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
    if args.options.early {
        // For the session: servers give it behind the handshake, mostly ahead of the first answer.
        let first = client.exchange(&request).await;
        first.map_err(|failure| explain(&request, &wire.take(), &failure, args))?;
        sleep(TICKET_TIME_MAX).await;
        client.close();
        wire.take();
    }
    for _ in 0..=GET_REDIRECTS_MAX {
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
    Err(format!("more than {GET_REDIRECTS_MAX} redirects"))
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
    if !is_redirect(exchange.status) {
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
