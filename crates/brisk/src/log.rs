//! `brisk log`: what a running server keeps of its error log in memory (`error_log memory:SIZE`).

use crate::cli::Options;
use crate::config::Paths;
use crate::control;
use brisk_load::output;
use brisk_server::log::MEMORY_LOG;
use rustix::fs::{SeekFrom, seek};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;

const HELP: &str = "\
Usage: brisk log [-p prefix] [-c filename]

Prints what the running server of this configuration keeps of its error log in memory (error_log memory:SIZE), oldest
lines first. It may be called by root and by the user of the master.
";

/// Runs the command; gives the exit code.
pub fn main(args: &[String]) -> i32 {
    match options(args).ok_or_else(|| HELP.trim_end().to_string()).and_then(|options| print(&options)) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("brisk: {message}");
            1
        }
    }
}

fn options(args: &[String]) -> Option<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-p" => options.prefix = Some(args.next()?.clone()),
            "-c" => options.conf = Some(args.next()?.clone()),
            _ => return None,
        }
    }
    Some(options)
}

fn print(options: &Options) -> Result<(), String> {
    let failed = |what: &str, error: &io::Error| format!("{what} failed ({})", brisk_conf::os_text(error));
    let pid_path = control::pid_path(&Paths::new(options));
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
            copy(&log).map_err(|e| failed("reading the log", &e))?;
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
fn copy(log: &File) -> io::Result<()> {
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
            output::write(&line);
        }
        line.clear();
    }
    Ok(())
}
