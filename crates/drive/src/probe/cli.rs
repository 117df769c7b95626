//! The command line of `brisk probe`.

use super::history::{self, Look};
use crate::cli::{ClientArgs, url};
use crate::client::{
    Client, Common, Exchange, Failure, Fields, Options, Request, Url, block_on, decode, unless_interrupted,
};
use brisk_cli::Entry;
use brisk_load::cli::{BROKEN_PROMISE, NO_RESULT, WRONG_USAGE, args, read};
use brisk_load::output;
use brisk_load::system;
use brisk_net::sleep;
use clap::{CommandFactory as _, Parser};
use std::future::{Future as _, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

/// Nothing runs without an end.
const LONGEST: Duration = Duration::from_hours(24 * 366);

#[derive(Clone)]
struct Args {
    urls: Vec<Url>,
    every: Duration,
    rounds: u64,
    length: Duration,
    store: Option<String>,
    keep: Option<Duration>,
    slower: Option<Duration>,
    contains: Option<String>,
    fails: u32,
    webhook: Option<Url>,
    fields: Fields,
    options: Options,
    show: bool,
}

/// `brisk probe`.
pub const PROBE: Entry = Entry {
    name: "probe",
    define: CommandLine::command,
    run: |call| read(call, CommandLine::args, |args| Ok(carry_out(&args)?.exit_code())),
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Asks for pages again and again, and tells when one fails.
#[derive(Debug, Parser)]
#[command(after_help = "A status of 400 and more, and no answer, are wrong.\n\n\
    Exit code: 0 all is well, 3 there was an alert, 2 it was ended before anything was seen, 1 wrong usage and all else.")]
struct CommandLine {
    /// The pages
    #[arg(value_name = "URL", value_parser = url)]
    urls: Vec<Url>,
    /// Time between two rounds
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = args::duration)]
    every: Duration,
    /// Number of rounds [default: 1]
    #[arg(long, value_name = "N", value_parser = rounds, conflicts_with = "length")]
    count: Option<u64>,
    /// Go on for this time instead
    #[arg(long = "for", value_name = "TIME", value_parser = args::some_time)]
    length: Option<Duration>,
    /// The history; "-" keeps none
    #[arg(long, value_name = "FILE", default_value = "brisk-probe.jsonl")]
    store: String,
    /// Drop older entries from the history at the start, e.g. 720h
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    keep: Option<Duration>,
    /// A page that takes longer fails
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    slower: Option<Duration>,
    /// A page without this text fails
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Failures in a row before there is an alert
    #[arg(long, value_name = "N", default_value = "1", value_parser = fails)]
    fails: u32,
    /// JSON is posted there when an alert begins and when it is over
    #[arg(long, value_name = "URL", value_parser = url)]
    webhook: Option<Url>,
    /// Print the history's chart, and ask for no page
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    client: ClientArgs,
}

impl CommandLine {
    /// What is to be done. The error says what is wrong with the command line.
    fn args(self) -> Result<Args, String> {
        if self.urls.is_empty() && !self.show {
            return Err("no URL given; --help shows the usage".to_owned());
        }
        let rounds = if self.length.is_some() { u64::MAX } else { self.count.unwrap_or(1) };
        Ok(Args {
            urls: self.urls,
            every: self.every.max(Duration::from_millis(100)),
            rounds,
            length: self.length.unwrap_or(LONGEST),
            store: Some(self.store).filter(|path| path != "-"),
            keep: self.keep,
            slower: self.slower,
            contains: self.contains,
            fails: self.fails,
            webhook: self.webhook,
            fields: self.client.fields(),
            options: self.client.options(Options {
                body_max: 8 << 20,
                keep_alive: false,
                ..Options::default()
            }),
            show: self.show,
        })
    }
}

fn rounds(text: &str) -> Result<u64, String> {
    args::count(text, 100_000_000).map(|count| count as u64)
}

fn fails(text: &str) -> Result<u32, String> {
    args::count(text, 1000).map(|count| count as u32)
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

/// What all looks together have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// There was no look.
    Nothing,
    /// No alert came.
    Well,
    /// One came at least.
    Alert,
}

impl Seen {
    fn exit_code(self) -> i32 {
        match self {
            Self::Nothing => NO_RESULT,
            Self::Well => 0,
            Self::Alert => BROKEN_PROMISE,
        }
    }
}

fn carry_out(args: &Args) -> Result<Seen, String> {
    if let (Some(path), Some(keep)) = (&args.store, args.keep) {
        history::forget(path, now_ms() - keep.as_millis() as i64)
            .map_err(|error| format!("{path}: {error}"))?;
    }
    if args.show {
        let path = args.store.as_deref().ok_or("--show needs a history")?;
        let looks = history::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        output::print(if looks.is_empty() {
            "the history is empty\n".to_owned()
        } else {
            history::chart(&looks)
        });
        return Ok(Seen::Well);
    }
    system::catch_interrupts().map_err(|error| error.to_string())?;
    if let Some(path) = &args.store {
        keep(path, &[])?;
    }
    let args = args.clone();
    block_on(watch(args)).map_err(|error| error.to_string())?
}

fn keep(path: &str, looks: &[Look]) -> Result<(), String> {
    history::append(path, looks).map_err(|error| format!("cannot write {path}: {error}"))
}

/// Looks until the end. Each page has its own clock: one that hangs delays no other.
async fn watch(args: Args) -> Result<Seen, String> {
    let common = Common::new(args.options.clone())?;
    let (args, began) = (Rc::new(args), Instant::now());
    let mut pages: Vec<_> = args
        .urls
        .iter()
        .map(|url| Some(Box::pin(watch_page(Rc::clone(&common), Rc::clone(&args), url.clone(), began))))
        .collect();
    let mut all = Seen::Nothing;
    poll_fn(move |cx| {
        for page in &mut pages {
            let Some(future) = page else { continue };
            match future.as_mut().poll(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(seen)) => {
                    all = all.max(seen);
                    *page = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        if pages.iter().all(Option::is_none) { Poll::Ready(Ok(all)) } else { Poll::Pending }
    })
    .await
}

/// Looks at one page until the end.
async fn watch_page(common: Rc<Common>, args: Rc<Args>, url: Url, began: Instant) -> Result<Seen, String> {
    let (mut wrong, mut seen, mut rounds) = (0, Seen::Nothing, 0);
    let goes_on = || !system::interrupted() && !output::is_closed();
    let mut next = Duration::ZERO;
    while rounds < args.rounds && began.elapsed() < args.length && goes_on() {
        let Some(look) = unless_interrupted(look(&common, &url, &args)).await else { break };
        let before = wrong;
        wrong = if look.wrong.is_some() { before + 1 } else { 0 };
        let (begins, ends) = (wrong == args.fails, wrong == 0 && before >= args.fails);
        output::line(output::visible(&line(&look)));
        seen = seen.max(if begins { Seen::Alert } else { Seen::Well });
        if let Some(path) = &args.store {
            keep(path, std::slice::from_ref(&look))?;
        }
        if begins || ends {
            tell(&common, &args, &look, begins).await;
        }
        rounds += 1;
        // A look that took longer than the time between two misses those that were due meanwhile.
        while next <= began.elapsed() {
            next += args.every;
        }
        let until = next.min(args.length);
        while rounds < args.rounds && began.elapsed() < until && goes_on() {
            sleep(until.saturating_sub(began.elapsed()).min(Duration::from_millis(100))).await;
        }
    }
    Ok(seen)
}

async fn look(common: &Rc<Common>, url: &Url, args: &Args) -> Look {
    let mut request = Request::get(url.clone());
    request.fields = args.fields.clone();
    for (name, value) in
        [("User-Agent", "brisk probe"), ("Accept", "*/*"), ("Accept-Encoding", decode::ACCEPT_ENCODING)]
    {
        if request.fields.get(name).is_none() {
            request.fields.push(name, value);
        }
    }
    let at = now_ms();
    let began = Instant::now();
    // A new client each time: what a visitor waits for is the whole way.
    let result = Client::new(common).exchange(&request).await;
    let took = began.elapsed();
    let wrong = judge(&result, took, args);
    let exchange = result.ok();
    let first_byte = exchange.as_ref().and_then(|exchange| exchange.phases.first_byte).unwrap_or(took);
    let ms = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    Look {
        at,
        url: url.to_string(),
        status: exchange.as_ref().map_or(0, |exchange| exchange.status),
        ms: ms(took),
        first_byte_ms: ms(first_byte),
        bytes: exchange.as_ref().map_or(0, |exchange| exchange.body_bytes),
        wrong,
    }
}

fn judge(result: &Result<Exchange, Failure>, took: Duration, args: &Args) -> Option<String> {
    let exchange = match result {
        Ok(exchange) => exchange,
        Err(failure) => return Some(failure.to_string()),
    };
    if exchange.status >= 400 {
        return Some(format!("status {}", exchange.status));
    }
    if let Some(limit) = args.slower.filter(|limit| took > *limit) {
        return Some(format!(
            "{:.0} ms, more than {:.0}",
            took.as_secs_f64() * 1e3,
            limit.as_secs_f64() * 1e3
        ));
    }
    let text = args.contains.as_ref()?;
    let coding = exchange.fields.get("content-encoding").unwrap_or_default();
    let body = decode::decode(&exchange.body, coding, 64 << 20).ok().flatten().unwrap_or_default();
    memchr::memmem::find(&body, text.as_bytes()).is_none().then(|| format!("without \"{text}\""))
}

fn line(look: &Look) -> String {
    let date = crate::dates::rfc3339(look.at);
    let wrong = look.wrong.as_ref().map_or(String::new(), |wrong| format!("  WRONG: {wrong}"));
    format!("{date} {:>3} {:>9.1} ms {:>9} B {}{wrong}", look.status, look.ms, look.bytes, look.url)
}

/// Posts an alert, or its end. That nobody takes it is told, and nothing else can be done.
async fn tell(common: &Rc<Common>, args: &Args, look: &Look, begins: bool) {
    let Some(url) = &args.webhook else { return };
    let state = if begins { "wrong" } else { "well" };
    let text = match &look.wrong {
        Some(wrong) => format!("{}: {wrong}", look.url),
        None => format!("{} is well again", look.url),
    };
    let body = serde_json::json!({ "state": state, "text": text, "url": look.url, "status": look.status, "ms": look.ms,
        "at": crate::dates::rfc3339(look.at), "wrong": look.wrong });
    let mut request = Request::get(url.clone());
    "POST".clone_into(&mut request.method);
    request.fields.push("Content-Type", "application/json");
    request.fields.push("User-Agent", "brisk probe");
    request.body = body.to_string().into_bytes();
    match Client::new(common).exchange(&request).await {
        Ok(exchange) if exchange.status < 400 => {}
        Ok(exchange) => output::note(format_args!("brisk probe: the webhook answers {}", exchange.status)),
        Err(failure) => output::note(format_args!("brisk probe: the webhook does not answer: {failure}")),
    }
}
