//! `brisk cache`: what is stored, and why a page is not.
//!
//! Entries are files: the commands work on the folders that the configuration names, whether a server runs or not. Removing a
//! file is a purge that a server notices within a second; one that runs is told besides, so that it is a purge at once.

mod visit;

use crate::config::Paths;
use crate::site::Site;
use crate::{config, control};
use brisk_cache::disk::{self, Seen, Want};
use brisk_cache::format::Header;
use brisk_cache::{Pattern, Purge};
use brisk_cli::{Call, Entry};
use brisk_load::output;
use clap::{CommandFactory as _, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// `brisk cache`.
pub const CACHE: Entry = Entry { name: "cache", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Looks into caches: what is stored, and why a page is not.
#[derive(Debug, Parser)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit code: 0; 1 after an error, if nothing was there to be purged, or if one of the pages did not come."
)]
struct Args {
    #[command(flatten)]
    site: Site,
    /// This cache alone
    #[arg(long, value_name = "NAME", global = true, display_order = 901)]
    zone: Option<String>,
    /// Print JSON
    #[arg(long, global = true, display_order = 901)]
    json: bool,
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// What is stored: cache, status, seconds left, bytes, key
    List {
        /// This key, or all that begin so
        #[arg(value_name = "KEY|KEY*", default_value = "*", hide_default_value = true)]
        key: String,
    },
    /// Entries and bytes of each cache
    Stats,
    /// Remove one entry, or all that have something in common
    Purge(What),
    /// Ask for pages, so that they are stored
    Warm(visit::Pages),
    /// Whether a page is stored, in which cache and under what key, and why not
    Why(visit::Page),
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// The entry with this key, or all whose keys begin so
    #[arg(value_name = "KEY|KEY*")]
    key: Option<String>,
    /// All with this tag (Surrogate-Key, Cache-Tag, X-LiteSpeed-Tag)
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
}

impl What {
    fn purge(&self) -> Purge {
        match (&self.key, &self.tag) {
            (Some(key), _) => pattern(key),
            (None, Some(tag)) => Purge::Many(Pattern::Tag(tag.as_bytes().into())),
            (None, None) => Purge::Many(Pattern::All),
        }
    }
}

/// A cache of the configuration.
struct Zone {
    name: String,
    folder: PathBuf,
    levels: Vec<u8>,
}

/// What a command prints, and its exit code.
type Outcome = Result<(String, i32), String>;

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => call.carry_out(run(&args).map(|(text, code)| {
            output::print(text);
            code
        })),
        Err(code) => code,
    }
}

fn run(args: &Args) -> Outcome {
    let zones = |paths: &Paths| zones(paths, args.zone.as_deref());
    match &args.order {
        Order::List { key } => {
            let found = list(&zones(&args.site.paths())?, &pattern(key));
            Ok((
                if args.json {
                    json_line(&found.iter().map(Stored::json).collect())
                } else {
                    found.iter().map(Stored::line).collect()
                },
                0,
            ))
        }
        Order::Stats => {
            let all = stats(&zones(&args.site.paths())?);
            let heading = String::from("cache\tentries\tfresh\tbytes\tfolder\n");
            Ok((
                if args.json {
                    json_line(&all.iter().map(Figures::json).collect())
                } else {
                    all.iter().fold(heading, |out, zone| out + &zone.line())
                },
                0,
            ))
        }
        Order::Purge(what) => {
            let paths = args.site.paths();
            let count = carry_out(&paths, &zones(&paths)?, &what.purge());
            let text = if args.json {
                json_line(&json!({ "removed": count }))
            } else {
                format!("{count} removed\n")
            };
            Ok((text, i32::from(count == 0)))
        }
        Order::Warm(pages) => visit::warm(pages, args.json),
        Order::Why(page) => visit::why(page, args.json),
    }
}

fn json_line(value: &Value) -> String {
    format!("{value:#}\n")
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

/// What `list` tells of an entry.
struct Stored {
    zone: String,
    status: u16,
    ttl: i64,
    bytes: u64,
    key: String,
}

impl Stored {
    fn line(&self) -> String {
        let Stored { zone, status, ttl, bytes, key } = self;
        format!("{zone}\t{status}\t{ttl}\t{bytes}\t{}\n", key.escape_debug())
    }

    fn json(&self) -> Value {
        json!({ "cache": self.zone, "status": self.status, "ttl": self.ttl, "bytes": self.bytes, "key": self.key })
    }
}

fn list(zones: &[Zone], wanted: &Purge) -> Vec<Stored> {
    let now = disk::unix_now();
    let mut found = Vec::new();
    for zone in zones {
        each(zone, |_, header| {
            if wanted.matches(&header.meta) {
                found.push(Stored {
                    zone: zone.name.clone(),
                    status: header.meta.status,
                    ttl: header.meta.terms.ttl(now),
                    bytes: header.body_bytes,
                    key: String::from_utf8_lossy(&header.meta.key).into_owned(),
                });
            }
        });
    }
    found
}

/// What `stats` tells of a cache.
struct Figures {
    zone: String,
    entries: u64,
    fresh: u64,
    bytes: u64,
    folder: String,
}

impl Figures {
    fn line(&self) -> String {
        let Figures { zone, entries, fresh, bytes, folder } = self;
        format!("{zone}\t{entries}\t{fresh}\t{bytes}\t{folder}\n")
    }

    fn json(&self) -> Value {
        json!({ "cache": self.zone, "entries": self.entries, "fresh": self.fresh, "bytes": self.bytes, "folder": self.folder })
    }
}

fn stats(zones: &[Zone]) -> Vec<Figures> {
    let now = disk::unix_now();
    let of = |zone: &Zone| {
        let (mut entries, mut fresh, mut bytes) = (0, 0, 0);
        each(zone, |_, header| {
            entries += 1;
            fresh += u64::from(header.meta.terms.ttl(now) >= 0);
            bytes += header.body_bytes + u64::from(header.bytes);
        });
        Figures { zone: zone.name.clone(), entries, fresh, bytes, folder: zone.folder.display().to_string() }
    };
    zones.iter().map(of).collect()
}

/// Removes what matches: from the disk, and from the memory of a server that runs.
fn carry_out(paths: &Paths, zones: &[Zone], purge: &Purge) -> u64 {
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
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
        let parse = |line: &str| Args::try_parse_from(line.split(' '));
        assert!(
            parse("cache why").is_err() && parse("cache warm -f").is_err() && parse("cache purge").is_err()
        );
        assert!(parse("cache purge --all x").is_err() && parse("cache frob").is_err());
        assert!(parse("cache why -H a http://a/").unwrap_err().to_string().contains("NAME: VALUE"));
        let run = |line: &str| run(&parse(line).unwrap());
        assert!(run("cache why ftp://a/").is_err());
        assert!(run("cache -c /nonexistent/brisk.conf list").is_err());
        assert!(run("cache list -c /nonexistent/brisk.conf").is_err());
    }
}
