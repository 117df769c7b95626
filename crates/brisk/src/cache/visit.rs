//! `brisk cache warm` and `why`: pages are asked for as any client asks.

use super::Outcome;
use brisk_cachepolicy::Refusal;
use brisk_drive::client::{Client, Common, Exchange, Fields, Options, Request, Url, block_on};
use brisk_load::output;
use std::fmt::Write as _;
use std::time::Duration;

/// How long a server may take for a whole page.
const TIMEOUT: Duration = Duration::from_mins(1);

/// What the command line says.
struct Visit {
    urls: Vec<String>,
    fields: Fields,
    insecure: bool,
}

fn parse(args: &[&str]) -> Result<Visit, String> {
    let mut visit = Visit { urls: Vec::new(), fields: Fields::default(), insecure: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "-f" => {
                let file = args.next().ok_or("option \"-f\" needs a file with a URL per line")?;
                let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
                let lines =
                    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                visit.urls.extend(lines.map(String::from));
            }
            "-k" => visit.insecure = true,
            "-H" => {
                let field = args.next().and_then(|line| line.split_once(':'));
                let (name, value) = field.ok_or("option \"-H\" needs \"NAME: VALUE\"")?;
                visit.fields.push(name.trim(), value.trim());
            }
            option if option.starts_with('-') => return Err(format!("unknown option \"{option}\"")),
            url => visit.urls.push(url.to_string()),
        }
    }
    Ok(visit)
}

impl Visit {
    /// Asks for one page after the other; `seen` is told of each, with the reason if it did not come.
    fn run(self, mut seen: impl FnMut(&str, Result<Exchange, String>) + 'static) -> Result<(), String> {
        let options =
            Options { insecure: self.insecure, timeout: TIMEOUT, body_max: 0, ..Options::default() };
        let done = block_on(async move {
            let client = Client::new(&Common::new(options)?);
            for url in &self.urls {
                let result = self.ask(&client, url).await;
                seen(url, result);
            }
            Ok(())
        });
        done.map_err(|error| error.to_string())?
    }

    async fn ask(&self, client: &Client, url: &str) -> Result<Exchange, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let request = Request { fields: self.fields.clone(), ..Request::get(url) };
        if let Some(fault) = request.fault() {
            return Err(fault);
        }
        client.exchange(&request).await.map_err(|failure| failure.to_string())
    }
}

/// What became of the pages so far.
#[derive(Default)]
struct Tally {
    count: usize,
    failed: usize,
}

pub fn warm(args: &[&str]) -> Outcome {
    let visit = parse(args)?;
    let tally = std::rc::Rc::new(std::cell::RefCell::new(Tally::default()));
    let told = tally.clone();
    visit.run(move |url, result| {
        let mut tally = told.borrow_mut();
        tally.count += 1;
        // As they come: a list of pages may be long.
        match result {
            Ok(page) => {
                tally.failed += usize::from(page.status >= 400);
                output::line(format_args!("{} {url}", page.status));
            }
            Err(why) => {
                tally.failed += 1;
                output::note(format_args!("brisk cache: {url}: {why}"));
            }
        }
    })?;
    let Tally { count, failed } = *tally.borrow();
    if failed > 0 {
        output::note(format_args!("brisk cache: {failed} of {count} pages failed"));
    }
    Ok((String::new(), i32::from(failed > 0)))
}

/// What every reason's word means.
const REASONS: &[Refusal] = &[
    Refusal::Method,
    Refusal::RequestNoStore,
    Refusal::Authorization,
    Refusal::Status,
    Refusal::NoStore,
    Refusal::NoCache,
    Refusal::Private,
    Refusal::SetCookie,
    Refusal::VaryStar,
    Refusal::VaryLong,
    Refusal::Expired,
    Refusal::NoLifetime,
    Refusal::NotUnderstood,
    Refusal::PartialContent,
];

fn explain(word: &str) -> String {
    let refusal = REASONS.iter().find(|refusal| refusal.word() == word);
    match (word, refusal) {
        (_, Some(refusal)) => refusal.text().into(),
        ("no-cache-rule", _) => "a condition of proxy_no_cache (or its kin) holds".into(),
        ("unbuffered", _) => "the answer is not buffered (proxy_buffering off, X-Accel-Buffering: no)".into(),
        ("min-uses-or-lock", _) => {
            "it was not asked for often enough, or another request is asking for it".into()
        }
        _ => word.into(),
    }
}

pub fn why(args: &[&str]) -> Outcome {
    let mut visit = parse(args)?;
    if visit.urls.len() != 1 {
        return Err("why takes one URL".into());
    }
    // Only asked from the same machine does the server say it; the field's name keeps prepared answers out. It stands
    // first, whatever else is to be sent.
    visit.fields.0.insert(0, ("Pragma".into(), "brisk-cache-status".into()));
    let answer = std::rc::Rc::new(std::cell::RefCell::new(None));
    let told = answer.clone();
    visit.run(move |url, result| {
        told.replace(Some(result.map(|page| report(url, &page)).map_err(|why| format!("{url}: {why}"))));
    })?;
    let text = answer.take().unwrap_or_else(|| Err("no answer".into()))?;
    Ok((text, 0))
}

fn report(url: &str, page: &Exchange) -> String {
    let mut out = format!("{} {url}\n", page.status);
    match page.fields.all("cache-status").filter(|value| value.starts_with("brisk")).last() {
        Some(status) => out.push_str(&sentences(status)),
        None => out.push_str("no cache was asked: the location has none, or the server is another one\n"),
    }
    out
}

/// What a member of `Cache-Status` comes to.
fn sentences(status: &str) -> String {
    // The key stands last: it may contain anything.
    let (known, key) = status.split_once("; key=").map_or((status, None), |(known, key)| (known, Some(key)));
    let parts: Vec<&str> = known.split("; ").collect();
    let parameter = |name: &str| parts.iter().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let has = |part: &str| parts.contains(&part);
    let mut out = format!("{known}\n");
    for (name, value) in [("cache", parameter("zone")), ("key", key)] {
        if let Some(value) = value {
            let _ = writeln!(out, "{name}: {}", unquoted(value));
        }
    }
    out.push_str(match parameter("fwd") {
        None => "it was answered from the cache",
        Some("bypass") => "the cache was bypassed: a condition of proxy_cache_bypass (or its kin) holds",
        Some("method") => "requests with this method are passed by the cache",
        Some("vary-miss") => "the cache has it for other fields of requests only (Vary)",
        Some("request") => "it was in the cache, but the request wants a newer one",
        Some("stale") => "it was in the cache, but had expired",
        Some("partial") => "only another part of it was in the cache",
        Some(_) => "it was not in the cache",
    });
    if parameter("fwd-status") == Some("304") {
        out.push_str(", and is still valid");
    } else if has("stored") {
        out.push_str(", and is stored now");
    }
    out.push('\n');
    if let Some(word) = parameter("detail") {
        let _ = writeln!(out, "not stored: {}", explain(word));
    }
    let ttl: Option<i64> = parameter("ttl").and_then(|ttl| ttl.parse().ok());
    let _ = match ttl {
        None => Ok(()),
        Some(ttl) if ttl < 0 => writeln!(out, "expired {} seconds ago", ttl.unsigned_abs()),
        Some(ttl) => writeln!(out, "fresh for {ttl} more seconds"),
    };
    out
}

/// A string of structured fields as it is meant (RFC 9651 §3.3.3).
fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    inner.replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_sentence() {
        for refusal in REASONS {
            assert_eq!(explain(refusal.word()), refusal.text());
        }
        assert_eq!(explain("foo"), "foo");
    }

    #[test]
    fn members_are_explained() {
        let check = |status: &str, want: &[&str]| {
            let text = sentences(status);
            assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), want, "{status}");
        };
        check("brisk; hit; ttl=5", &["it was answered from the cache", "fresh for 5 more seconds"]);
        check("brisk; hit; ttl=-50", &["it was answered from the cache", "expired 50 seconds ago"]);
        check("brisk; fwd=uri-miss; fwd-status=200; stored", &["it was not in the cache, and is stored now"]);
        check(
            "brisk; fwd=bypass; fwd-status=200; stored; zone=\"one\"; key=\"/a; b\\\"\"",
            &[
                "cache: one",
                "key: /a; b\"",
                "the cache was bypassed: a condition of proxy_cache_bypass (or its kin) holds, and is stored now",
            ],
        );
        check(
            "brisk; fwd=stale; fwd-status=304; stored",
            &["it was in the cache, but had expired, and is still valid"],
        );
        check(
            "brisk; fwd=method; detail=method",
            &[
                "requests with this method are passed by the cache",
                "not stored: the method is not one of those that are cached",
            ],
        );
    }
}
