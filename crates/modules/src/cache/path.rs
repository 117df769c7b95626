//! `*_cache_path`: caches by name, each with its folder. A reload keeps a cache that is declared as before.
//!
//! A cache belongs to the process, not to a configuration: it stands in a zone, which reloads keep. What a
//! configuration says of it (`Declared`) is compared, and only changed settings are handed to it.

use super::prefix::PREFIXES;
use crate::limits::PATH_ZONE_BYTES_MIN;
use brisk_cache::{Cache, Pace, Settings};
use brisk_conf::{Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::LogLevel;
use brisk_server::log::ErrorLogs;
use brisk_server::request::Request;
use brisk_server::service::{Service, Work};
use brisk_server::vars::Template;
use brisk_server::zone;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Under which caches are found, whatever the prefix that declared them.
const MODULE: &str = "cache";
/// nginx's share of a zone per entry.
const ENTRY_BYTES: u64 = 128;
/// `memory=` unless it is given. nginx has no such parameter: there the kernel's page cache is all.
const MEMORY_BYTES: u64 = 64 << 20;

/// A declared cache.
pub struct Declared {
    /// The name of its zone.
    pub name: Box<str>,
    folder: Box<Path>,
    levels: Box<[u8]>,
    settings: Settings,
    zone: Arc<zone::Zone>,
}

#[derive(Default)]
struct Cell(OnceLock<Arc<Cache>>);

impl Declared {
    /// The cache; made by the first call in this process.
    /// What it needs of threads and files is there by then.
    pub fn cache(&self) -> &Arc<Cache> {
        let cell: &Cell = self.zone.state();
        // Not when the configuration is read: `-t` must not touch the folder, and a configuration that is
        // refused leaves no loader running.
        cell.0.get_or_init(|| {
            let cache = Cache::new(&self.folder, &self.levels, self.settings.clone());
            cache.start();
            cache
        })
    }
}

/// The caches that are in use, by name.
pub fn live(zones: &[Arc<zone::Zone>]) -> impl Iterator<Item = (&str, &Arc<Cache>)> {
    let own = zones.iter().filter(|zone| zone.module == MODULE);
    // One that was never used has no file open and nothing to tell.
    own.filter_map(|zone| Some((&*zone.name, zone.state::<Cell>().0.get()?)))
}

impl Service for Declared {
    fn start(self: Arc<Self>, work: &Work) {
        let cache = self.cache();
        // A cache that was just made has them.
        if *cache.settings() != self.settings {
            cache.configure(self.settings.clone());
        }
        // Of the present configuration: one that a reload has closed must not be written to.
        let logs = ErrorLogs::main(&work.live);
        cache.set_report(Arc::new(move |text: &str| logs.write(LogLevel::Crit, format_args!("{text}"))));
    }
}

/// The caches of a location.
pub enum Zones {
    /// One for all requests.
    One(Arc<Declared>),
    /// Chosen by name, per request.
    /// All of them are known before the start: a request can choose a cache, not make one.
    Any(Arc<Template>, HashMap<Box<str>, Arc<Declared>>),
}

impl Zones {
    /// The cache for a request. `Ok(None)`: none; the error is a name that is not declared.
    pub fn choose(&self, r: &Request) -> Result<Option<&Arc<Declared>>, String> {
        match self {
            Zones::One(declared) => Ok(Some(declared)),
            Zones::Any(name, all) => {
                let name = name.eval(r);
                if name.is_empty() || name == b"off" {
                    // Both words of a variable that wants none: `off` as it is written, and nothing as a
                    // `map` gives it.
                    return Ok(None);
                }
                let name = String::from_utf8_lossy(&name);
                all.get(&*name).map(Some).ok_or_else(|| name.to_string())
            }
        }
    }
}

/// The cache of this name, if one is declared.
pub fn find(cx: &Cx<'_, '_>, name: &str) -> Option<Arc<Declared>> {
    // By name in the whole configuration, in whatever order its files are read.
    cx.global.named.get(&(MODULE, name.to_string()))?.downcast_ref::<Arc<Declared>>().cloned()
}

/// All caches, by name.
pub fn all(cx: &Cx<'_, '_>) -> HashMap<Box<str>, Arc<Declared>> {
    let own = cx.global.named.iter().filter(|((module, _), _)| *module == MODULE);
    own.filter_map(|((_, name), value)| {
        Some((name.as_str().into(), value.downcast_ref::<Arc<Declared>>()?.clone()))
    })
    .collect()
}

/// What the parameters say so far.
struct Draft {
    levels: Vec<u8>,
    zone: Option<(String, u64, Token)>,
    settings: Settings,
    loader: Pace,
    loader_is_set: bool,
    manager: Pace,
    purger: Option<Pace>,
    purger_pace: Pace,
}

impl Draft {
    fn new() -> Draft {
        let pace = |files, sleep_ms, threshold_ms| Pace {
            files,
            sleep: Duration::from_millis(sleep_ms),
            threshold: Duration::from_millis(threshold_ms),
        };
        Draft {
            levels: Vec::new(),
            zone: None,
            settings: Settings {
                bytes_max: None,
                entries_max: 0,
                inactive: Duration::from_mins(10),
                min_free: 0,
                memory_bytes_max: MEMORY_BYTES as usize,
                loader: None,
                manager: None,
                purger: None,
            },
            // nginx's defaults.
            loader: pace(100, 50, 200),
            loader_is_set: false,
            manager: pace(100, 50, 200),
            purger: None,
            purger_pace: pace(10, 50, 50),
        }
    }

    fn parameter(&mut self, token: &Token) -> Result<(), Diag> {
        let (name, text) = split(token)?;
        let inner = Token { value: text.as_bytes().into(), span: token.span, quoted: false };
        let named =
            |what: &str| Diag::emerg(token.span, format!("invalid {what} value \"{}\"", token.text()));
        match name {
            "levels" => self.levels = levels(text).ok_or_else(|| bad_levels(token))?,
            "keys_zone" => self.zone = Some(keys_zone(text, token)?),
            // Read and checked for nginx's configurations; temporary files lie beside their entries here, so
            // there is nothing to choose.
            "use_temp_path" => drop(value::choice(&inner, &[("on", ()), ("off", ())]).map_err(|_| {
                Diag::emerg(
                    token.span,
                    format!("invalid use_temp_path value \"{text}\", it must be \"on\" or \"off\""),
                )
            })?),
            "inactive" => {
                self.settings.inactive =
                    Duration::from_secs(value::seconds(&inner).map_err(|_| named("inactive"))?);
            }
            "max_size" => {
                self.settings.bytes_max = Some(value::offset(&inner).map_err(|_| named("max_size"))?);
            }
            "min_free" => self.settings.min_free = value::offset(&inner).map_err(|_| named("min_free"))?,
            "memory" => {
                self.settings.memory_bytes_max = value::offset(&inner).map_err(|_| named("memory"))? as usize;
            }
            "purger" => {
                let on =
                    value::choice(&inner, &[("on", true), ("off", false)]).map_err(|_| named("purger"))?;
                // Whether, not how: the pace may be given by parameters further on.
                self.purger = on.then_some(self.purger_pace);
            }
            _ => return self.pace(name, &inner, token),
        }
        Ok(())
    }

    /// `loader_files` and its kin.
    fn pace(&mut self, name: &str, inner: &Token, token: &Token) -> Result<(), Diag> {
        // One place for nine parameters.
        let Some((who, what)) = name.split_once('_') else { return Err(invalid_parameter(token)) };
        let pace = match who {
            "loader" => {
                self.loader_is_set = true;
                &mut self.loader
            }
            "manager" => &mut self.manager,
            "purger" => &mut self.purger_pace,
            _ => return Err(invalid_parameter(token)),
        };
        let bad = |_| Diag::emerg(token.span, format!("invalid {name} value \"{}\"", token.text()));
        match what {
            "files" => pace.files = value::number(inner).map_err(bad)? as usize,
            "sleep" => pace.sleep = value::msec(inner).map_err(bad)?,
            "threshold" => pace.threshold = value::msec(inner).map_err(bad)?,
            _ => return Err(invalid_parameter(token)),
        }
        Ok(())
    }
}

/// `1:2`: one to three levels of one or two digits.
fn levels(text: &str) -> Option<Vec<u8>> {
    let levels: Option<Vec<u8>> =
        // The folders' names are ends of the MD5: longer ones would make as many folders as files.
        text.split(':').map(|level| level.parse().ok().filter(|l| matches!(l, 1 | 2))).collect();
    levels.filter(|levels| (1..=3).contains(&levels.len()))
}

fn bad_levels(token: &Token) -> Diag {
    Diag::emerg(token.span, format!("invalid \"levels\" \"{}\"", token.text()))
        .help("write one to three numbers, each 1 or 2: levels=1:2")
}

fn keys_zone(text: &str, token: &Token) -> Result<(String, u64, Token), Diag> {
    let bad = || {
        Diag::emerg(token.span, format!("invalid keys zone size \"{}\"", token.text()))
            .help("write keys_zone=NAME:SIZE, for example keys_zone=one:10m")
    };
    let (name, size) = text.split_once(':').ok_or_else(bad)?;
    let size = Token { value: size.as_bytes().into(), span: token.span, quoted: false };
    // A zone that is too small holds no entry: nginx refuses it as well.
    let bytes = value::size(&size).ok().filter(|bytes| *bytes >= PATH_ZONE_BYTES_MIN).ok_or_else(bad)?;
    if name.is_empty() {
        return Err(bad());
    }
    Ok((name.to_string(), bytes, token.clone()))
}

/// `*_cache_path`.
pub fn declare<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mut draft = Draft::new();
    for token in &d.args[1..] {
        draft.parameter(token)?;
    }
    let Some((name, bytes, token)) = draft.zone.take() else {
        return Err(Diag::emerg(
            d.span,
            format!("\"{}_cache_path\" must have \"keys_zone\" parameter", PREFIXES[P]),
        )
        .help("write keys_zone=NAME:SIZE, for example keys_zone=one:10m"));
    };
    // Names are one space for all four prefixes: `proxy_cache a` may use what `fastcgi_cache_path` declares.
    if find(cx, &name).is_some() {
        return Err(Diag::emerg(token.span, format!("duplicate zone \"{name}\""))
            .help("the caches of all protocols share their names: give one of them another"));
    }
    let folder = cx.full_path(d.arg(0).str());
    let folder = Path::new(folder.trim_end_matches('/'));
    // Two caches in one folder would take each other's files for entries, and each would remove what the other
    // has over its limit.
    if let Some(other) = all(cx).values().find(|other| *other.folder == *folder) {
        let text = format!("the path \"{}\" is used by zone \"{}\" already", folder.display(), other.name);
        return Err(Diag::emerg(d.arg(0).span, text).help("give each cache a folder of its own"));
    }
    draft.settings.entries_max = (bytes / ENTRY_BYTES) as usize;
    // Loading only reads names here, so it has no pauses unless they are asked for.
    draft.settings.loader = draft.loader_is_set.then_some(draft.loader);
    draft.settings.manager = Some(draft.manager);
    draft.settings.purger = draft.purger.map(|_| Some(draft.purger_pace));
    // What makes another cache of it: under other levels its files would not be found.
    let text = format!("{} {:?}", folder.display(), draft.levels);
    let meaning = Token { value: text.into_bytes().into(), span: d.arg(0).span, quoted: false };
    // Made before workers start, for their user.
    cx.writes_into(folder);
    // Its size is no part of its meaning: a reload that changes it keeps what is stored.
    let zone =
        cx.global.add_zone(MODULE, (name.clone(), 0), &token, &meaning, |_| Arc::new(Cell::default()))?;
    let declared = Arc::new(Declared {
        name: name.as_str().into(),
        folder: folder.into(),
        levels: draft.levels.into(),
        settings: draft.settings,
        zone,
    });
    cx.global.services.push(declared.clone());
    cx.global.named.insert((MODULE, name), Arc::new(declared));
    Ok(())
}

/// A parameter NAME=VALUE.
fn split(token: &Token) -> Result<(&str, &str), Diag> {
    token.str().split_once('=').ok_or_else(|| invalid_parameter(token))
}
