//! From the command line to a running server: load, open, bind, go into the background, supervise.

use crate::config::{self, Loaded, Outcome, Paths};
use crate::sockets::{self, Sockets};
use crate::{alone, host, master, refusal, systemd};
use brisk_conf::{Diag, SourceMap};
use brisk_net::sys;
use brisk_server::conf::Snapshot;
use brisk_server::core::MainConf;
use brisk_server::log::LogFile;
use brisk_server::thread::open_logs;
use brisk_server::worker::Socket;
use rustix::fd::AsFd as _;
use std::io;
use std::sync::Arc;

/// Runs the server; gives the exit code when it has ended.
pub fn run(paths: &Paths) -> i32 {
    sys::load_time_zone();
    sys::ignore_signal(libc::SIGPIPE);
    let outcome = config::load(paths);
    show(paths, &outcome);
    let Outcome { loaded, diags, sources } = outcome;
    drop((diags, sources));
    let Some(loaded) = loaded else { return 1 };
    match begin(paths, loaded) {
        Ok(code) => code,
        Err(message) => {
            complain(paths, &message);
            1
        }
    }
}

/// Messages go to the terminal and to the early error log.
fn show(paths: &Paths, outcome: &Outcome) {
    if paths.inline.is_some() {
        // Nobody has written that text: where in it something stands helps nobody.
        let problems = outcome.diags.iter().filter(|d| d.is_error());
        problems.for_each(|d| eprintln!("brisk serve: {}", brisk_conf::escape_controls(&d.message)));
        return;
    }
    // What only does nothing is for `-t` to tell.
    for (level, text) in outcome.messages().filter(|(level, _)| *level < brisk_conf::Level::Notice) {
        eprintln!("brisk: {text}");
        if level <= brisk_conf::Level::Error {
            early(paths, &text);
        }
    }
}

fn complain(paths: &Paths, message: &str) {
    if paths.inline.is_some() {
        eprintln!("brisk serve: {message}");
        return;
    }
    eprintln!("brisk: [emerg] {message}");
    early(paths, &format!("[emerg] {message}"));
}

fn early(paths: &Paths, text: &str) {
    let target = paths.error_target();
    if matches!(target, brisk_server::conf::LogTarget::Stderr) {
        return;
    }
    if let Ok(fd) = LogFile::open(&target) {
        let secs = brisk_net::clock::refresh().unix_secs;
        let pid = rustix::process::getpid().as_raw_nonzero();
        let stamp = brisk_server::log::stamp(secs);
        let first = text.lines().next().unwrap_or_default();
        let (level, message) = first.split_once("] ").unwrap_or(("[emerg", first));
        LogFile::new(target, fd).write(format!("{stamp} {level}] {pid}#{pid}: {message}\n").as_bytes());
    }
}

/// Opens all logs of a configuration.
fn logs_of(snap: &Snapshot) -> Result<Vec<Arc<LogFile>>, Diag> {
    open_logs(&snap.logs, LogFile::open).map_err(|(target, error)| {
        let index = snap.logs.iter().position(|have| *have == target).unwrap_or_default();
        refusal::log(snap, index, &error)
    })
}

/// What a new configuration of a running server needs from the system: folders, logs, sockets.
pub fn claim(snap: &Snapshot, sockets: &Sockets) -> Result<(Vec<Arc<LogFile>>, Vec<Socket>), Diag> {
    host::make_folders(snap)?;
    Ok((logs_of(snap)?, sockets.prepare(snap)?))
}

fn begin(paths: &Paths, loaded: Loaded) -> Result<i32, String> {
    let Loaded { snap, bundle, sources } = loaded;
    let told = |diag: Diag| refusal::without_level(&diag, &sources);
    // nginx has this file from the start, whatever the configuration names.
    if let target @ brisk_server::conf::LogTarget::File(_) = paths.error_target() {
        LogFile::open(&target).map_err(|e| {
            let (path, why) = (&paths.env.error_log, brisk_conf::os_text(&e));
            let help = refusal::file_remedy(path, &e);
            told(
                Diag::global(format!("open() \"{path}\" failed ({why})"))
                    .help(format!("-e names this file; {help}")),
            )
        })?;
    }
    if snap.main.user.is_some() && !rustix::process::geteuid().is_root() {
        eprintln!(
            "brisk: [warn] the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored"
        );
    }
    host::make_folders(&snap).map_err(told)?;
    snap.temp_folders.iter().for_each(|folder| brisk_server::temp_file::remove_stale(folder));
    let logs = logs_of(&snap).map_err(told)?;
    let mut open = Sockets::default();
    let upgraded = std::env::var("NGINX").ok();
    if let Some(numbers) = &upgraded {
        open.inherit(sockets::inherited(numbers));
    }
    open.inherit(systemd::sockets());
    let fresh = open.prepare(&snap).map_err(told)?;
    let wanted: Vec<_> = snap.listens.iter().map(|l| l.address.clone()).collect();
    open.commit(&wanted, fresh);
    // The texts are not needed while the server runs.
    drop(sources);
    if snap.main.daemon && upgraded.is_none() && paths.inline.is_none() {
        go_into_background()?;
    }
    if snap.main.master_process {
        master::run(paths, snap, bundle, logs, open)
    } else {
        Ok(alone::run(paths, snap, logs, open))
    }
}

fn go_into_background() -> Result<(), String> {
    let fail = |error: io::Error| format!("going into the background failed ({error})");
    if let sys::Fork::Parent(_) = sys::fork().map_err(fail)? {
        sys::exit_now(0);
    }
    sys::new_session().map_err(fail)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(fail)?;
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
        sys::replace_fd(null.as_fd(), stream).map_err(fail)?;
        let _ = sys::set_cloexec(stream, false);
    }
    Ok(())
}

/// The pid file's path.
pub fn pid_file(paths: &Paths, main: &MainConf) -> String {
    if main.pid.is_empty() { format!("{}logs/brisk.pid", paths.env.prefix) } else { main.pid.clone() }
}

pub fn write_pid(path: &str) -> Result<(), String> {
    let pid = rustix::process::getpid().as_raw_nonzero();
    std::fs::write(path, format!("{pid}\n")).map_err(|error| {
        let diag = Diag::global(format!("open() \"{path}\" failed ({})", brisk_conf::os_text(&error)));
        let help = format!(
            "the process id is to be written there (\"pid\" names the file): {}",
            refusal::file_remedy(path, &error)
        );
        refusal::without_level(&diag.help(help), &SourceMap::default())
    })
}
