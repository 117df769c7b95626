//! `brisk log`: what a running server keeps of its error log in memory (`error_log memory:SIZE`).

use crate::control;
use crate::site::Site;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_server::log::MEMORY_LOG;
use clap::{CommandFactory as _, Parser};
use rustix::fs::{SeekFrom, seek};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;

/// `brisk log`.
pub const LOG: Entry = Entry { name: "log", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Prints the error log that a running server keeps in memory.
#[derive(Debug, Parser)]
#[command(
    after_help = "The server keeps one where the configuration has error_log memory:SIZE. The oldest lines come first.\n\n\
    It may be called by root and by the user of the master."
)]
struct Args {
    #[command(flatten)]
    site: Site,
    /// Print a JSON object per line: time, level, pid, tid, connection, message
    #[arg(long)]
    json: bool,
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => print(&args).map_or_else(
            |message| {
                output::note(format_args!("brisk: {message}"));
                1
            },
            |()| 0,
        ),
        Err(code) => code,
    }
}

fn print(args: &Args) -> Result<(), String> {
    let failed = |what: &str, error: &io::Error| format!("{what} failed ({})", brisk_conf::os_text(error));
    let pid_path = control::pid_path(&args.site.paths());
    let pid = fs::read_to_string(&pid_path).map_err(|e| failed(&format!("open() \"{pid_path}\""), &e))?;
    let folder = format!("/proc/{}/fd", pid.trim());
    let list = fs::read_dir(&folder).map_err(|e| failed(&format!("opendir() \"{folder}\""), &e))?;
    let mut logs = BTreeSet::new();
    for entry in list.filter_map(Result::ok) {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        if !link.to_string_lossy().starts_with(&format!("/memfd:{MEMORY_LOG}")) {
            continue;
        }
        let log = File::open(entry.path())
            .map_err(|e| failed(&format!("open() {}", entry.path().display()), &e))?;
        let inode = log.metadata().map_err(|e| failed("fstat()", &e))?.ino();
        // A log may have several descriptors.
        if logs.insert(inode) {
            copy(&log, args.json).map_err(|e| failed("reading the log", &e))?;
        }
    }
    if logs.is_empty() {
        return Err(
            "the server keeps no error log in memory; write for example: error_log memory:1m debug;".into()
        );
    }
    Ok(())
}

/// Prints the lines behind the hole in front, without the one that the hole has cut.
fn copy(log: &File, as_json: bool) -> io::Result<()> {
    let start = match seek(log, SeekFrom::Data(0)) {
        Ok(start) => start,
        // Nothing was written yet.
        Err(rustix::io::Errno::NXIO) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut lines = BufReader::new(log);
    let mut line = Vec::new();
    let mut is_cut = start > 0;
    while !output::is_closed() && lines.read_until(b'\n', &mut line)? > 0 {
        is_cut |= line.first() == Some(&0);
        if !std::mem::take(&mut is_cut) {
            if as_json {
                output::line(parsed(&String::from_utf8_lossy(&line)));
            } else {
                output::write(&line);
            }
        }
        line.clear();
    }
    Ok(())
}

/// A line of the error log: `2026/01/02 03:04:05 [error] 12#34: *56 what happened`. What is none is a message alone.
fn parsed(line: &str) -> Value {
    let line = line.trim_end_matches('\n');
    let parts = || {
        let (time, rest) = line.split_once(" [")?;
        let (level, rest) = rest.split_once("] ")?;
        let (ids, message) = rest.split_once(": ")?;
        let (pid, tid) = ids.split_once('#')?;
        let (pid, tid): (u64, u64) = (pid.parse().ok()?, tid.parse().ok()?);
        let numbered = message.strip_prefix('*').and_then(|rest| rest.split_once(' '));
        let connection = numbered.and_then(|(number, text)| Some((number.parse::<u64>().ok()?, text)));
        let (number, message) = connection.map_or((None, message), |(number, text)| (Some(number), text));
        Some(
            json!({ "time": time, "level": level, "pid": pid, "tid": tid, "connection": number, "message": message }),
        )
    };
    parts().unwrap_or_else(|| json!({ "message": line }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_objects() {
        let check = |line: &str, want: Value| assert_eq!(parsed(line), want, "{line}");
        check(
            "2026/01/02 03:04:05 [error] 12#34: *56 open() failed: no\n",
            json!({ "time": "2026/01/02 03:04:05", "level": "error", "pid": 12, "tid": 34, "connection": 56,
                "message": "open() failed: no" }),
        );
        check(
            "2026/01/02 03:04:05 [notice] 12#34: started",
            json!({ "time": "2026/01/02 03:04:05", "level": "notice", "pid": 12, "tid": 34, "connection": null,
                "message": "started" }),
        );
        check("odd", json!({ "message": "odd" }));
    }
}
