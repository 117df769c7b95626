//! `brisk cache`: what is stored, and why a page is not.
//!
//! Entries are files: the commands work on the folders that the configuration names, whether a server runs or not. Removing a
//! file is a purge that a server notices within a second; one that runs is told besides, so that it is a purge at once.

mod visit;

use crate::cli::Options;
use crate::config::Paths;
use crate::{config, control};
use brisk_cache::disk::{self, Seen, Want};
use brisk_cache::format::Header;
use brisk_cache::{Pattern, Purge};
use brisk_load::output;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HELP: &str = "\
Usage: brisk cache [-c FILE] [-p PREFIX] [--zone NAME] COMMAND
  list [KEY*]        what is stored: status, seconds left, bytes, key
  stats              entries and bytes of each cache
  purge KEY|KEY*     remove one entry, or all whose keys begin so
  purge --tag TAG    remove all with this tag (Surrogate-Key, Cache-Tag, X-LiteSpeed-Tag)
  purge --all        remove everything
  warm [-f FILE] URL...   ask for these pages, so that they are stored; -f: a file with a URL per line
  why URL            whether a page is stored, in which cache and under what key, and why not

warm and why take also
  -k                 any certificate is good
  -H \"NAME: VALUE\"   a field of the request: cookies, or the Host of a server that is asked by its address

Exit code: 0; 1 after an error, if nothing was there to be purged, or if one of the pages did not come.
";

/// A cache of the configuration.
struct Zone {
    name: String,
    folder: PathBuf,
    levels: Vec<u8>,
}

/// What a command prints, and its exit code.
type Outcome = Result<(String, i32), String>;

/// Runs a command; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    match run(args) {
        Ok((text, code)) => {
            output::print(text);
            code
        }
        Err(message) => {
            output::note(format_args!("brisk cache: {message}"));
            1
        }
    }
}

fn run(args: &[String]) -> Outcome {
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
            None | Some("-h" | "--help") => return Ok((HELP.into(), 0)),
            Some(command) => break command.to_string(),
        }
    };
    let rest: Vec<&str> = args.map(String::as_str).collect();
    match command.as_str() {
        "warm" => return visit::warm(&rest),
        "why" => return visit::why(&rest),
        _ => {}
    }
    let paths = Paths::new(&options);
    let zones = zones(&paths, zone.as_deref())?;
    let orders = |purge: Purge| Ok(carry_out(&paths, &zones, &purge));
    match (command.as_str(), rest.as_slice()) {
        ("list", []) => Ok((list(&zones, &pattern("*")), 0)),
        ("list", [text]) => Ok((list(&zones, &pattern(text)), 0)),
        ("stats", []) => Ok((stats(&zones), 0)),
        ("purge", ["--all"]) => orders(Purge::Many(Pattern::All)),
        ("purge", ["--tag", tag]) => orders(Purge::Many(Pattern::Tag(tag.as_bytes().into()))),
        ("purge", [text]) if !text.starts_with("--") => orders(pattern(text)),
        _ => Err(format!("unknown command\n{HELP}")),
    }
}

/// `KEY`, or `KEY*` for all that begin so.
fn pattern(text: &str) -> Purge {
    match text.strip_suffix('*') {
        Some(prefix) => Purge::Many(Pattern::Prefix(prefix.as_bytes().into())),
        None => Purge::Key(text.as_bytes().into()),
    }
}

/// The caches that the configuration declares.
fn zones(paths: &Paths, wanted: Option<&str>) -> Result<Vec<Zone>, String> {
    let outcome = config::load(paths);
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

fn list(zones: &[Zone], wanted: &Purge) -> String {
    let now = disk::unix_now();
    let mut out = String::new();
    for zone in zones {
        each(zone, |_, header| {
            if wanted.matches(&header.meta) {
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

/// Removes what matches: from the disk, and from the memory of a server that runs.
fn carry_out(paths: &Paths, zones: &[Zone], purge: &Purge) -> (String, i32) {
    let mut count = 0;
    for zone in zones {
        each(zone, |path, header| {
            if purge.matches(&header.meta) && disk::remove(path).unwrap_or(false) {
                count += 1;
            }
        });
    }
    let pid_path = control::pid_path(paths);
    for zone in zones {
        match control::purge(&pid_path, &zone.name, purge) {
            Ok(unwritten) => count += unwritten.unwrap_or(0),
            Err(why) => {
                output::note(format_args!(
                    "brisk cache: the server could not be told ({why}): it may give out what it has in memory for up to a second"
                ));
                break;
            }
        }
    }
    (format!("{count} removed\n"), i32::from(count == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
        let run = |line: &str| run(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert!(run("why").is_err() && run("warm -f").is_err());
        assert!(run("-h").unwrap().0.contains("purge --tag"));
        assert!(run("why -H a http://a/").unwrap_err().contains("NAME: VALUE"));
        assert!(run("why ftp://a/").is_err() && run("warm -x http://a/").is_err());
        assert!(run("-c /nonexistent/brisk.conf list").is_err());
    }
}
