//! `brisk tune`: finds what limits a site, tries what could mend it on a copy of the site, and says what is proved to be better.
//!
//! | module | owns |
//! |---|---|
//! | [`wishes`] | the command line |
//! | [`goal`] | what is wanted: one primary figure and promises |
//! | [`traffic`] | the load: a page, or a scenario |
//! | [`enclosure`], [`mounts`] | namespaces in which nothing of the copy reaches the outside |
//! | [`relay`] | single services of the outside that the copy may reach |
//! | [`stack`] | the programs of the copy |
//! | [`database`] | the copy of the database |
//! | [`site`], [`running`] | which files the site has, as they are named or its processes say |
//! | [`files`] | settings, their files, and what these say at a point of the search |
//! | [`bench`] | pairs of measurements for the search of the crate `tune` |
//! | [`inside`] | the whole of it, within the enclosure |
//! | [`outcome`], [`page`] | the result for people, as text and as a page |
//! | [`apply`], [`live`], [`mark`] | the result written into the site, and proved there again |
//! | [`tier`], [`process`] | the programs of a site that runs: found, checked, told to reload |
//! | [`real`] | Brisk's own settings under real traffic |
//! | [`store`], [`replaced`], [`undo`] | the journal on the disk, files under it, the way back, and the watchdog |

mod apply;
mod bench;
mod database;
mod enclosure;
pub mod files;
mod goal;
mod inside;
mod kept;
mod live;
mod mark;
mod mounts;
mod outcome;
mod page;
mod process;
mod real;
mod relay;
mod replaced;
pub mod running;
pub mod site;
mod stack;
mod store;
pub mod tier;
pub mod traffic;
mod undo;
mod variables;
mod wishes;

use brisk_cli::{Call, Entry};
use brisk_load::cli::{BROKEN_PROMISE, NO_RESULT};
use brisk_load::output::{self, OutFile};
use brisk_load::system::{self, interrupted};
use clap::CommandFactory as _;
use enclosure::Inner;
use relay::External;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use traffic::Traffic;
use wishes::Wishes;

/// `brisk tune`.
pub const TUNE: Entry =
    Entry { name: "tune", define: Wishes::command, run: main, inner: &[undo::UNDO], usage_code: 1 };

fn main(call: &Call<'_>) -> i32 {
    let wishes: Wishes = match call.parse() {
        Ok(wishes) => wishes,
        Err(code) => return code,
    };
    match wishes.inside {
        Some(outer) => {
            let result = match inside::work(&wishes, outer, wishes.address) {
                // What it did not get in the end is of no interest then.
                Err(_) if interrupted() => Ok(inside::nothing()),
                other => other,
            };
            call.carry_out(result.map(|result| {
                output::line(result);
                0
            }))
        }
        None => call.carry_out(outside(&wishes, call)),
    }
}

/// Has the work done in an enclosure, and says what came of it; gives the exit code.
fn outside(wishes: &Wishes, call: &Call<'_>) -> Result<i32, String> {
    let page = wishes.html.as_deref().map(OutFile::open).transpose()?;
    if let Some(folder) = &wishes.patches {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("--patches {}: {error}", folder.display()))?;
    }
    system::catch_interrupts().map_err(|error| error.to_string())?;
    let mut result = match (&wishes.found, &wishes.live) {
        (Some(file), _) => found(file)?,
        (None, Some(address)) => real::tune(wishes, address)?,
        (None, None) => match on_a_copy(wishes, call)? {
            Ok(result) => result,
            // It has said why.
            Err(code) => return Ok(code),
        },
    };
    let is_found = result["final"]["outcome"] == "kept";
    let applied = (wishes.apply && is_found).then(|| apply::apply(wishes, &result));
    match &applied {
        Some(Ok(proved)) => result["applied"] = proved.clone(),
        Some(Err(why)) => result["not_applied"] = why.as_str().into(),
        None => {}
    }
    if wishes.json {
        output::line(format_args!("{result:#}"));
    } else {
        output::print(outcome::text(&result));
    }
    kept::keep(&wishes.state, &result);
    page.map_or(Ok(()), |file| file.put(&page::html(&result, &call.line())))?;
    if let Some(folder) = &wishes.patches {
        write_patches(&result, folder)?;
    }
    Ok(if matches!(applied, Some(Err(_))) { NO_RESULT } else { exit_code(&result) })
}

/// The last report of the site with this configuration, in few lines; `null` if there is none.
pub fn last_report(site: &str) -> Value {
    kept::kept(Path::new(store::FOLDER), site)
}

/// What an earlier run has printed.
fn found(file: &Path) -> Result<Value, String> {
    let failed = |why: &str| format!("--found {}: {why}", file.display());
    let text = std::fs::read(file).map_err(|error| failed(&brisk_conf::os_text(&error)))?;
    let result: Value = serde_json::from_slice(&text).map_err(|error| failed(&error.to_string()))?;
    match result["final"]["outcome"].as_str() {
        Some("kept") => Ok(result),
        _ => Err(failed("there is nothing in it that was found to be better")),
    }
}

/// Has it searched on a copy; gives the result, or the exit code of what has told its error.
fn on_a_copy(wishes: &Wishes, call: &Call<'_>) -> Result<Result<Value, i32>, String> {
    let mut args = call.args.to_vec();
    args.extend(site::options(wishes)?);
    if let Some(address) = Traffic::look_up(&wishes.target()?)? {
        args.extend(["--address".to_owned(), address.to_string()]);
    }
    let copy = database_copy(wishes)?;
    if let Some(copy) = &copy {
        args.extend(["--database-copy".to_owned(), copy.folder().display().to_string()]);
    }
    let externals: Vec<SocketAddr> =
        wishes.allow_external.iter().map(External::address).collect::<Result<_, _>>()?;
    args.extend(externals.iter().flat_map(|address| ["--external-address".to_owned(), address.to_string()]));
    let inner = Inner::start(&args)?;
    let process = inner.process();
    // The copy has its network a moment later, and says itself what it waits for in vain.
    std::thread::spawn(move || relay::start(process, externals).unwrap_or_else(output::note));
    let (text, code) = inner.finish(interrupted)?;
    if code != 0 {
        return Ok(Err(code));
    }
    serde_json::from_slice(&text).map(Ok).map_err(|_| "the copy ended without a result".to_owned())
}

/// A copy of the database, if one is wished for.
fn database_copy(wishes: &Wishes) -> Result<Option<database::Copy>, String> {
    let Some(file) = &wishes.mysql else { return Ok(None) };
    enclosure::must_be_root()?;
    let read = site::read(wishes)?;
    database::Copy::make(&database::Database::find(file, &read)?, wishes.mysql_login.as_deref()).map(Some)
}

/// One file per changed file, with its path in the name.
fn write_patches(result: &Value, folder: &Path) -> Result<(), String> {
    for patch in result["patches"].as_array().into_iter().flatten() {
        let (Some(file), Some(text)) = (patch["file"].as_str(), patch["patch"].as_str()) else { continue };
        let path = folder.join(format!("{}.patch", file.trim_start_matches('/').replace('/', "-")));
        std::fs::write(&path, text)
            .map_err(|error| format!("\"{}\" cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

fn exit_code(result: &Value) -> i32 {
    let is_broken = result["after"]["broken"].as_array().is_some_and(|broken| !broken.is_empty());
    match () {
        () if result["final"].is_null() && !has_nothing_to_try(result) => NO_RESULT,
        () if is_broken => BROKEN_PROMISE,
        () => 0,
    }
}

/// The page itself is the limit, or nothing is: that is a result.
fn has_nothing_to_try(result: &Value) -> bool {
    result["stopped"].as_str().is_some_and(|why| why.starts_with("nothing to try"))
}
