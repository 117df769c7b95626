//! `brisk php precompile`: scripts are compiled into a pool's OPcache before they are asked for.

use super::ask::ask;
use brisk_modules::php::PoolSpec;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Compiles all scripts below a folder; gives what is to be told, and whether all of them were taken.
pub fn precompile(pool: &PoolSpec, folder: &Path) -> Result<(String, bool), String> {
    let name = &pool.settings.pool;
    let folder = folder.canonicalize().map_err(|error| {
        format!("\"{}\" cannot be read ({})", folder.display(), brisk_conf::os_text(&error))
    })?;
    let mut scripts = Vec::new();
    find(&folder, &mut scripts).map_err(|error| {
        format!("\"{}\" cannot be read ({})", folder.display(), brisk_conf::os_text(&error))
    })?;
    scripts.sort();
    let (mut count, mut out) = (0, String::new());
    for script in &scripts {
        let Some(path) = script.to_str() else { continue };
        let answer = String::from_utf8_lossy(&ask(pool, "compile", path)?).into_owned();
        if answer == "compiled" {
            count += 1;
        } else {
            let why = answer
                .lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .unwrap_or("it has an error, see the error log");
            let _ = writeln!(out, "{path}: {why}");
        }
    }
    let _ = writeln!(out, "pool {name}: {count} of {} scripts are compiled", scripts.len());
    Ok((out, count == scripts.len()))
}

/// Scripts below a folder, but for hidden folders. Links are not followed: they may lead in circles.
fn find(folder: &Path, scripts: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if kind.is_dir() && !is_hidden {
            find(&path, scripts)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "php") {
            scripts.push(path);
        }
    }
    Ok(())
}
