//! From the command line to a running server: load, open, bind, go into the background, supervise.

use crate::background::{self, Caller, Detached};
use crate::config::{self, Loaded, Outcome, Paths};
use crate::sockets::{self, Sockets};
use crate::{alone, host, master, refusal, systemd, title};
use brisk_conf::{Diag, SourceMap};
use brisk_load::output;
use brisk_net::sys;
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::core::MainConf;
use brisk_server::log::LogFile;
use brisk_server::thread::open_logs;
use std::io::{self, Write as _};
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
        // The text was made by `brisk serve`, not written by the user: places in it would not help.
        let problems = outcome.diags.iter().filter(|d| d.is_error());
        problems.for_each(|d| {
            output::note(format_args!("brisk serve: {}", brisk_conf::escape_controls(&d.message)));
        });
        return;
    }
    // What only does nothing is for `-t` to tell.
    for (level, text) in outcome.messages().filter(|(level, _)| *level < brisk_conf::Level::Notice) {
        output::note(format_args!("brisk: {text}"));
        if level <= brisk_conf::Level::Error {
            early(paths, &text);
        }
    }
}

fn warn(paths: &Paths, message: &str) {
    output::note(format_args!("brisk: [warn] {message}"));
    early(paths, &format!("[warn] {message}"));
}

fn complain(paths: &Paths, message: &str) {
    if paths.inline.is_some() {
        output::note(format_args!("brisk serve: {message}"));
        return;
    }
    output::note(format_args!("brisk: [emerg] {message}"));
    early(paths, &format!("[emerg] {message}"));
}

fn early(paths: &Paths, text: &str) {
    let target = paths.error_target();
    if matches!(target, LogTarget::Stderr) {
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

/// Opens all logs of a configuration. The default error log may fail: a message says so, and the server starts without it.
fn logs_of(paths: &Paths, snap: &Snapshot) -> Result<Vec<Arc<LogFile>>, Diag> {
    let usual = paths.env.error_log.is_empty().then(|| format!("{}error.log", paths.env.places.logs));
    let open = |target: &LogTarget| match (LogFile::open(target), target) {
        (Err(error), LogTarget::File(path)) if usual.as_ref() == Some(path) => {
            let why = brisk_conf::os_text(&error);
            output::note(format_args!(
                "brisk: [alert] could not open error log file: open() \"{path}\" failed ({why})"
            ));
            LogFile::open(&LogTarget::File("/dev/null".into()))
        }
        (opened, _) => opened,
    };
    open_logs(&snap.logs, open).map_err(|(target, error)| {
        let index = snap.logs.iter().position(|have| *have == target).unwrap_or_default();
        refusal::log(snap, index, &error)
    })
}

/// What a new configuration of a running server needs from the system beside its folders: logs and sockets.
pub fn claim(
    paths: &Paths,
    snap: &Snapshot,
    sockets: &Sockets,
) -> Result<(Vec<Arc<LogFile>>, sockets::Fresh), Diag> {
    Ok((logs_of(paths, snap)?, sockets.prepare(snap)?))
}

fn begin(paths: &Paths, loaded: Loaded) -> Result<i32, String> {
    let Loaded { snap, bundle, sources } = loaded;
    let told = |diag: Diag| refusal::without_level(&diag, &sources);
    // nginx has this file from the start, whatever the configuration names.
    if let target @ LogTarget::File(_) = paths.error_target() {
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
        let text = "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored";
        warn(paths, text);
    }
    for warning in host::make_folders(&snap).map_err(told)? {
        warn(paths, &warning);
    }
    snap.temp_folders.iter().for_each(|folder| brisk_server::temp_file::remove_stale(folder));
    let logs = logs_of(paths, &snap).map_err(told)?;
    let mut open = Sockets::default();
    let upgraded = std::env::var("NGINX").ok();
    if let Some(numbers) = &upgraded {
        open.inherit(sockets::inherited(numbers));
    }
    open.inherit(systemd::sockets());
    let fresh = open.prepare(&snap).map_err(told)?;
    let detached = snap.main.daemon && paths.inline.is_none();
    if paths.inline.is_none() {
        title::take();
    }
    let mut caller = Caller::default();
    if detached && upgraded.is_none() {
        match background::detach()? {
            Detached::First(waiting) => {
                // They are the server's now, which also removes what it has made.
                open.adopt(fresh);
                return waiting.wait().map(|()| 0);
            }
            Detached::Daemon(waits) => caller = waits,
        }
    }
    let wanted: Vec<_> = snap.listens.iter().map(|l| l.address.clone()).collect();
    open.commit(&wanted, fresh);
    // The texts are not needed while the server runs.
    drop(sources);
    if detached {
        background::lead_errors(&snap.core, &logs);
    }
    let paths = Paths { detached, ..paths.clone() };
    title::master(&paths.conf);
    let ran = if snap.main.master_process {
        master::run(&paths, snap, bundle, logs, open, caller.clone())
    } else {
        alone::run(&paths, snap, logs, open, &caller)
    };
    // In the background there is a process that has a terminal to say it on.
    ran.or_else(|message| if caller.failed(&message) { Ok(1) } else { Err(message) })
}

/// The pid file's path.
pub fn pid_file(paths: &Paths, main: &MainConf) -> String {
    if main.pid.is_empty() { format!("{}brisk.pid", paths.env.places.run) } else { main.pid.clone() }
}

/// Writes the pid file. One that cannot be written as a whole is not left behind.
pub fn write_pid(path: &str) -> Result<(), String> {
    let pid = rustix::process::getpid().as_raw_nonzero();
    let failed = |call: &str, error: &io::Error| {
        let diag = Diag::global(format!("{call}() \"{path}\" failed ({})", brisk_conf::os_text(error)));
        let help = format!(
            "the process id is to be written there (\"pid\" names the file): {}",
            refusal::file_remedy(path, error)
        );
        refusal::without_level(&diag.help(help), &SourceMap::default())
    };
    let mut file = std::fs::File::create(path).map_err(|error| failed("open", &error))?;
    file.write_all(format!("{pid}\n").as_bytes()).map_err(|error| {
        let _ = std::fs::remove_file(path);
        failed("write", &error)
    })
}
