//! The command line of `brisk probe`.

use super::history::{self, Look};
use crate::cli::{ClientOption, url};
use crate::client::{
    Client, Common, Exchange, Failure, Fields, Options, Request, Url, block_on, decode, unless_interrupted,
};
use brisk_load::cli::args::{self, text};
use brisk_load::cli::main_of;
use brisk_load::output;
use brisk_load::system;
use brisk_net::sleep;
use lexopt::prelude::*;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

const HELP: &str = "\
Looks at pages again and again, keeps what it saw, and tells when something is wrong.

      --every TIME       time between looks [60s]
      --count N          so many rounds [1]
      --for TIME         so long instead
      --store FILE       the history [brisk-probe.jsonl]; \"-\" keeps none
      --keep TIME        what is older is dropped from it at the start, e.g. 720h
      --slower TIME      a page that takes longer is wrong
      --contains TEXT    a page without this text is wrong
      --fails N          looks in a row that must be wrong before there is an alert [1]
      --webhook URL      JSON is posted there when an alert begins and when it is over
      --show             print the history's chart, and look at nothing
  -H, --header LINE      sent with every request
  -k, --insecure         take any certificate
      --http1.1          HTTP/1.1 alone
      --http2            HTTP/2 alone
      --timeout TIME     limit of each look [30s]
  -h, --help             this text

A status of 400 and more, and no answer, are wrong. Exit code: 0 all is well, 3 there was an alert, 2 wrong usage, 1 else.
";

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

/// Runs `brisk probe ARGS`; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    main_of("brisk probe", parse(args), |args| Ok(if carry_out(&args)? { 0 } else { 3 }))
}

fn parse(args: &[String]) -> Result<Option<Args>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let mut found = Args {
        urls: Vec::new(),
        every: Duration::from_mins(1),
        rounds: 1,
        length: LONGEST,
        store: Some("brisk-probe.jsonl".to_owned()),
        keep: None,
        slower: None,
        contains: None,
        fails: 1,
        webhook: None,
        fields: Fields::default(),
        options: Options { body_max: 8 << 20, keep_alive: false, ..Options::default() },
        show: false,
    };
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        if let Some(option) = ClientOption::of(&arg) {
            option.take(&mut parser, &mut found.options, &mut found.fields)?;
            continue;
        }
        match arg {
            Long("every") => {
                found.every = args::duration(&text(&mut parser)?)?.max(Duration::from_millis(100));
            }
            Long("count") => found.rounds = args::count(&text(&mut parser)?, 100_000_000)? as u64,
            Long("for") => (found.length, found.rounds) = (args::duration(&text(&mut parser)?)?, u64::MAX),
            Long("store") => found.store = Some(text(&mut parser)?).filter(|path| path != "-"),
            Long("keep") => found.keep = Some(args::duration(&text(&mut parser)?)?),
            Long("slower") => found.slower = Some(args::duration(&text(&mut parser)?)?),
            Long("contains") => found.contains = Some(text(&mut parser)?),
            Long("fails") => found.fails = args::count(&text(&mut parser)?, 1000)? as u32,
            Long("webhook") => found.webhook = Some(url(&text(&mut parser)?)?),
            Long("show") => found.show = true,
            Short('h') | Long("help") => {
                output::print(format_args!("usage: brisk probe [options] URL...\n\n{HELP}"));
                return Ok(None);
            }
            Value(value) => found.urls.push(url(&value.string().map_err(|error| error.to_string())?)?),
            other => return Err(other.unexpected().to_string()),
        }
    }
    if found.urls.is_empty() && !found.show {
        return Err("no URL given; --help shows the usage".to_owned());
    }
    Ok(Some(found))
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

fn carry_out(args: &Args) -> Result<bool, String> {
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
        return Ok(true);
    }
    system::catch_interrupts().map_err(|error| error.to_string())?;
    if let Some(path) = &args.store {
        keep(path, &[])?;
    }
    let args = args.clone();
    block_on(async move { watch(&args).await }).map_err(|error| error.to_string())?
}

fn keep(path: &str, looks: &[Look]) -> Result<(), String> {
    history::append(path, looks).map_err(|error| format!("cannot write {path}: {error}"))
}

/// Looks until the end; whether no alert came.
async fn watch(args: &Args) -> Result<bool, String> {
    let common = Common::new(args.options.clone())?;
    let began = Instant::now();
    let mut wrong: HashMap<&Url, u32> = HashMap::new();
    let mut all_well = true;
    let mut round = 0;
    let goes_on = || !system::interrupted() && !output::is_closed();
    while round < args.rounds && began.elapsed() < args.length && goes_on() {
        let mut looks = Vec::new();
        for url in &args.urls {
            let Some(look) = unless_interrupted(look(&common, url, args)).await else { break };
            let wrong = wrong.entry(url).or_default();
            let before = *wrong;
            *wrong = if look.wrong.is_some() { before + 1 } else { 0 };
            let (begins, ends) = (*wrong == args.fails, *wrong == 0 && before >= args.fails);
            output::line(output::visible(&line(&look)));
            all_well &= !begins;
            if begins || ends {
                tell(&common, args, &look, begins).await;
            }
            looks.push(look);
        }
        if let Some(path) = &args.store {
            keep(path, &looks)?;
        }
        round += 1;
        let next = args.every.saturating_mul(u32::try_from(round).unwrap_or(u32::MAX)).min(args.length);
        while round < args.rounds && began.elapsed() < next && goes_on() {
            sleep(next.saturating_sub(began.elapsed()).min(Duration::from_millis(100))).await;
        }
    }
    Ok(all_well)
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
