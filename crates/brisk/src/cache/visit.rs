//! `brisk cache warm` and `why`: pages are asked for as any client asks.

use super::Outcome;
use brisk_cachepolicy::Refusal;
use brisk_drive::client::{Client, Common, Exchange, Fields, Options, Request, Url, block_on};
use brisk_load::output;
use clap::{Args, ValueHint};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take for a whole page.
const TIMEOUT: Duration = Duration::from_mins(1);

/// How pages are asked for.
#[derive(Clone, Debug, Args)]
struct How {
    /// Further header line: cookies, or the Host of a server that is asked by its address
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Take any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
}

/// `brisk cache warm`.
#[derive(Clone, Debug, Args)]
pub struct Pages {
    /// The pages
    #[arg(value_name = "URL", required_unless_present = "files")]
    urls: Vec<String>,
    /// A file with further URLs, one per line
    #[arg(short = 'f', long = "urls", value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// `brisk cache why`.
#[derive(Clone, Debug, Args)]
pub struct Page {
    /// The page
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    how: How,
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or("write \"NAME: VALUE\"")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Pages that are to be asked for.
struct Visit {
    urls: Vec<String>,
    fields: Fields,
    insecure: bool,
}

impl Visit {
    fn new(urls: Vec<String>, how: &How) -> Visit {
        let mut fields = Fields::default();
        how.headers.iter().for_each(|(name, value)| fields.push(name, value));
        Visit { urls, fields, insecure: how.insecure }
    }

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

pub fn warm(pages: &Pages, as_json: bool) -> Outcome {
    let mut urls = Vec::new();
    for file in &pages.files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        urls.extend(lines.map(String::from));
    }
    urls.extend(pages.urls.iter().cloned());
    let tally = std::rc::Rc::new(std::cell::RefCell::new(Tally::default()));
    let told = tally.clone();
    Visit::new(urls, &pages.how).run(move |url, result| {
        let mut tally = told.borrow_mut();
        tally.count += 1;
        // As they come: a list of pages may be long.
        match (result, as_json) {
            (Ok(page), false) => {
                tally.failed += usize::from(page.status >= 400);
                output::line(format_args!("{} {url}", page.status));
            }
            (Ok(page), true) => {
                tally.failed += usize::from(page.status >= 400);
                output::line(json!({ "url": url, "status": page.status }));
            }
            (Err(why), as_json) => {
                tally.failed += 1;
                output::note(format_args!("brisk cache: {url}: {why}"));
                if as_json {
                    output::line(json!({ "url": url, "error": why }));
                }
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

pub fn why(page: &Page, as_json: bool) -> Outcome {
    let mut visit = Visit::new(vec![page.url.clone()], &page.how);
    // Only asked from the same machine does the server say it; the field's name keeps prepared answers out. It stands
    // first, whatever else is to be sent.
    visit.fields.0.insert(0, ("Pragma".into(), "brisk-cache-status".into()));
    let answer = std::rc::Rc::new(std::cell::RefCell::new(None));
    let told = answer.clone();
    let report = if as_json { report_json } else { report };
    visit.run(move |url, result| {
        told.replace(Some(result.map(|page| report(url, &page)).map_err(|why| format!("{url}: {why}"))));
    })?;
    let text = answer.take().unwrap_or_else(|| Err("no answer".into()))?;
    Ok((text, 0))
}

/// What the server says of the page.
fn status_of(page: &Exchange) -> Option<&str> {
    page.fields.all("cache-status").filter(|value| value.starts_with("brisk")).last()
}

fn report(url: &str, page: &Exchange) -> String {
    let mut out = format!("{} {url}\n", page.status);
    match status_of(page) {
        Some(status) => out.push_str(&sentences(status)),
        None => out.push_str("no cache was asked: the location has none, or the server is another one\n"),
    }
    out
}

fn report_json(url: &str, page: &Exchange) -> String {
    let status = status_of(page);
    let sentences: Vec<String> = status
        .map(|status| sentences(status).lines().skip(1).map(String::from).collect())
        .unwrap_or_default();
    format!(
        "{:#}\n",
        json!({ "url": url, "status": page.status, "cache_status": status, "explained": sentences })
    )
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
