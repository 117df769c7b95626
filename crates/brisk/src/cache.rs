//! `brisk cache`: what is stored, and why a page is not.
//!
//! Entries are files, and removing a file is a purge that the server notices within a second: the commands work on the
//! folders that the configuration names, whether a server runs or not.

use crate::cli::Options;
use crate::config;
use brisk_cache::disk::{self, Seen, Want};
use brisk_cache::format::Header;
use brisk_cachepolicy::Refusal;
use brisk_load::output;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HELP: &str = "\
Usage: brisk cache [-c FILE] [-p PREFIX] [--zone NAME] COMMAND
  list [KEY*]        what is stored: status, seconds left, bytes, key
  stats              entries and bytes of each cache
  purge KEY|KEY*     remove one entry, or all whose keys begin so
  purge --tag TAG    remove all with this tag (Surrogate-Key, Cache-Tag, X-LiteSpeed-Tag)
  purge --all        remove everything
  warm [-f FILE] URL...   ask for these pages, so that they are stored
  why URL            whether a page is stored, and why not
";

/// How long a server may take to answer `warm` and `why`.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A cache of the configuration.
struct Zone {
    name: String,
    folder: PathBuf,
    levels: Vec<u8>,
}

/// Runs a command; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    match run(args) {
        Ok(text) => {
            output::print(text);
            0
        }
        Err(message) => {
            output::note(format_args!("brisk cache: {message}"));
            1
        }
    }
}

fn run(args: &[String]) -> Result<String, String> {
    let mut options = Options::default();
    let mut zone = None;
    let mut args = args.iter();
    let value = |args: &mut std::slice::Iter<'_, String>, name: &str| {
        args.next().cloned().ok_or_else(|| format!("option \"{name}\" needs a value"))
    };
    let command = loop {
        match args.next().map(String::as_str) {
            Some("-c") => options.conf = Some(value(&mut args, "-c")?),
            Some("-p") => options.prefix = Some(value(&mut args, "-p")?),
            Some("--zone") => zone = Some(value(&mut args, "--zone")?),
            None | Some("-h" | "--help") => return Ok(HELP.into()),
            Some(command) => break command.to_string(),
        }
    };
    let rest: Vec<&str> = args.map(String::as_str).collect();
    match command.as_str() {
        "warm" => return warm(&rest),
        "why" => return why(&rest),
        _ => {}
    }
    let zones = zones(&options, zone.as_deref())?;
    match (command.as_str(), rest.as_slice()) {
        ("list", []) => Ok(list(&zones, "*")),
        ("list", [pattern]) => Ok(list(&zones, pattern)),
        ("stats", []) => Ok(stats(&zones)),
        ("purge", ["--all"]) => Ok(purge(&zones, |_| true)),
        ("purge", ["--tag", tag]) => Ok(purge(&zones, |header| {
            header.meta.tags.split(|&b| b == b'\n').any(|have| have == tag.as_bytes())
        })),
        ("purge", [pattern]) if !pattern.starts_with("--") => {
            Ok(purge(&zones, |header| fits(header, pattern)))
        }
        _ => Err(format!("unknown command\n{HELP}")),
    }
}

/// The caches that the configuration declares.
fn zones(options: &Options, wanted: Option<&str>) -> Result<Vec<Zone>, String> {
    let paths = config::Paths::new(options);
    let outcome = config::load(&paths);
    let Some(loaded) = &outcome.loaded else {
        let messages: Vec<String> = outcome.messages().map(|(_, text)| text).collect();
        return Err(messages.join("\n"));
    };
    let of = |zone: &std::sync::Arc<brisk_server::zone::Zone>| {
        let meaning = String::from_utf8_lossy(&zone.meaning).into_owned();
        let (folder, levels) = meaning.rsplit_once(" [")?;
        let levels =
            levels.trim_end_matches(']').split(", ").filter_map(|level| level.parse().ok()).collect();
        Some(Zone { name: zone.name.to_string(), folder: folder.into(), levels })
    };
    let caches = loaded.snap.zones.iter().filter(|zone| zone.module == "cache").filter_map(of);
    let zones: Vec<Zone> = caches.filter(|zone| wanted.is_none_or(|name| zone.name == name)).collect();
    match (zones.is_empty(), wanted) {
        (false, _) => Ok(zones),
        (true, Some(name)) => Err(format!("{} declares no cache \"{name}\"", paths.conf)),
        (true, None) => Err(format!("{} declares no cache", paths.conf)),
    }
}

/// `KEY`, or `KEY*` for all that begin so.
fn fits(header: &Header, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => header.meta.key.starts_with(prefix.as_bytes()),
        None => *header.meta.key == *pattern.as_bytes(),
    }
}

/// Goes through all entries of a cache.
fn each(zone: &Zone, mut work: impl FnMut(&Path, Header)) {
    let mut visit = |seen: Seen| {
        let path = seen.digest.path(&zone.folder, &zone.levels);
        if let Ok(Some(header)) = disk::read_header(&path) {
            work(&path, header);
        }
        true
    };
    if let Err(error) = disk::scan(&zone.folder, zone.levels.len(), Want::Names, &mut visit) {
        output::note(format_args!("brisk cache: {}: {error}", zone.folder.display()));
    }
}

fn list(zones: &[Zone], pattern: &str) -> String {
    let now = disk::unix_now();
    let mut out = String::new();
    for zone in zones {
        each(zone, |_, header| {
            if fits(&header, pattern) {
                let key = String::from_utf8_lossy(&header.meta.key).escape_debug().to_string();
                let (status, ttl, bytes) =
                    (header.meta.status, header.meta.terms.ttl(now), header.body_bytes);
                let _ = writeln!(out, "{}\t{status}\t{ttl}\t{bytes}\t{key}", zone.name);
            }
        });
    }
    out
}

fn stats(zones: &[Zone]) -> String {
    let now = disk::unix_now();
    let mut out = String::from("cache\tentries\tfresh\tbytes\tfolder\n");
    for zone in zones {
        let (mut entries, mut fresh, mut bytes) = (0, 0, 0);
        each(zone, |_, header| {
            entries += 1;
            fresh += u64::from(header.meta.terms.ttl(now) >= 0);
            bytes += header.body_bytes + u64::from(header.bytes);
        });
        let _ = writeln!(out, "{}\t{entries}\t{fresh}\t{bytes}\t{}", zone.name, zone.folder.display());
    }
    out
}

fn purge(zones: &[Zone], matches: impl Fn(&Header) -> bool) -> String {
    let mut count = 0;
    for zone in zones {
        each(zone, |path, header| {
            if matches(&header) && disk::remove(path).unwrap_or(false) {
                count += 1;
            }
        });
    }
    format!("{count} removed\n")
}

/// An answer's head.
struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

/// Asks for a page over plain HTTP.
fn get(url: &str, more: &str) -> Result<Head, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| format!("{url}: only http:// is spoken here"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let address = if authority.contains(':') { authority.to_string() } else { format!("{authority}:80") };
    let io = |error: std::io::Error| format!("{url}: {error}");
    let mut stream = TcpStream::connect(&address).map_err(io)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(io)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n{more}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(io)?;
    let mut bytes = Vec::new();
    // Read to its end, so that the whole page is stored.
    stream.read_to_end(&mut bytes).map_err(io)?;
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").ok_or_else(|| format!("{url}: no answer"))?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let field =
        |line: &str| line.split_once(':').map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_string()));
    Ok(Head { status, fields: lines.filter_map(field).collect() })
}

fn warm(args: &[&str]) -> Result<String, String> {
    let mut urls: Vec<String> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if *arg == "-f" {
            let file = args.next().ok_or("option \"-f\" needs a file with a URL per line")?;
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            urls.extend(
                text.lines()
                    .map(str::trim)
                    .filter(|l| !l.is_empty() && !l.starts_with('#'))
                    .map(String::from),
            );
        } else {
            urls.push((*arg).to_string());
        }
    }
    let mut out = String::new();
    for url in urls {
        let status = get(&url, "")?.status;
        let _ = writeln!(out, "{status} {url}");
    }
    Ok(out)
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

fn why(args: &[&str]) -> Result<String, String> {
    let [url] = args else { return Err("why takes one URL".into()) };
    // Only asked from the same machine does the server say it; the field's name keeps prepared answers out.
    let head = get(url, "Pragma: brisk-cache-status\r\n")?;
    let own =
        head.fields.iter().rev().find(|(name, value)| name == "cache-status" && value.starts_with("brisk"));
    let mut out = format!("{} {url}\n", head.status);
    let Some((_, status)) = own else {
        out.push_str("no cache was asked: the location has none, or the server is another one\n");
        return Ok(out);
    };
    let _ = writeln!(out, "{status}");
    let parameter = |name: &str| {
        status.split("; ").find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(String::from)
    };
    let is_stored = status.split("; ").any(|part| part == "stored");
    if status.contains("; hit") {
        out.push_str("it was answered from the cache\n");
    } else if is_stored {
        out.push_str("it was not in the cache, and is stored now\n");
    }
    if let Some(word) = parameter("detail") {
        let _ = writeln!(out, "not stored: {}", explain(&word));
    }
    if let Some(ttl) = parameter("ttl") {
        let _ = writeln!(out, "fresh for {ttl} more seconds");
    }
    Ok(out)
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
    fn mistakes_are_told() {
        let run = |line: &str| run(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert!(run("why").is_err() && run("warm -f").is_err());
        assert!(run("-h").unwrap().contains("purge --tag"));
        assert!(run("warm https://a/").unwrap_err().contains("only http://"));
        assert!(run("-c /nonexistent/brisk.conf list").is_err());
    }
}
