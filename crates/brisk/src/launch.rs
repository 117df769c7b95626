//! From the command line to a running server: load, open, bind, go into the background, supervise.

use crate::background::{self, Caller, Detached};
use crate::claim;
use crate::config::{self, Loaded, Outcome, Paths};
use crate::pools::Pools;
use crate::programs::Programs;
use crate::sockets::{self, Sockets};
use crate::{alone, host, master, refusal, systemd, takeover, title, upgrade};
use brisk_conf::Diag;
use brisk_load::output;
use brisk_net::{fault, sys};
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::log::LogFile;
use brisk_server::quic::secret;

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

/// Makes the file that `-e` names: nginx has it from the start, whatever the configuration names.
fn early_log(paths: &Paths) -> Result<(), Diag> {
    let target @ LogTarget::File(_) = paths.error_target() else { return Ok(()) };
    LogFile::open(&target).map(drop).map_err(|e| {
        let (path, why) = (&paths.env.error_log, brisk_conf::os_text(&e));
        let help = refusal::file_remedy(path, &e);
        Diag::global(format!("open() \"{path}\" failed ({why})")).help(format!("-e names this file; {help}"))
    })
}

/// The sockets that are open already: those of the program that this one replaces (`upgraded` names them), of systemd, and of a
/// worker that has lost its master, which is returned too.
fn inherited(
    paths: &Paths,
    snap: &Snapshot,
    upgraded: Option<&str>,
) -> Result<(Sockets, Option<Box<takeover::Taken>>), String> {
    let mut open = Sockets::default();
    let mut orphan = None;
    if let Some(numbers) = upgraded {
        open.inherit(sockets::inherited(numbers));
        if let Some(bytes) = upgrade::secret() {
            secret::inherit(bytes);
        }
        fault::step("successor");
    } else if paths.inline.is_none() {
        orphan = takeover::at_start(&snap.main.pid)?;
    }
    open.inherit(systemd::sockets());
    if let Some(orphan) = &mut orphan {
        open.inherit(std::mem::take(&mut orphan.sockets));
        // Before a worker is forked: packets of the orphan's connections are understood by its successor.
        if let Ok(bytes) = orphan.secret.as_slice().try_into() {
            secret::inherit(bytes);
        }
    }
    Ok((open, orphan))
}

fn begin(paths: &Paths, loaded: Loaded) -> Result<i32, String> {
    let Loaded { snap, bundle, sources } = loaded;
    let told = |diag: Diag| refusal::without_level(&diag, &sources);
    early_log(paths).map_err(told)?;
    if snap.main.user.is_some() && !rustix::process::geteuid().is_root() {
        let text = "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored";
        warn(paths, text);
    }
    for warning in host::make_folders(&snap).map_err(told)? {
        warn(paths, &warning);
    }
    snap.temp_folders.iter().for_each(|folder| brisk_server::temp_file::remove_stale(folder));
    let logs = claim::logs(paths, &snap).map_err(told)?;
    let upgraded = std::env::var("NGINX").ok();
    let (mut open, orphan) = inherited(paths, &snap, upgraded.as_deref())?;
    let fresh = open.prepare(&snap).map_err(told)?;
    let detached = snap.main.daemon && paths.inline.is_none();
    if paths.inline.is_none() {
        title::take();
    }
    let mut caller = Caller::default();
    if detached && upgraded.is_none() {
        match background::detach()? {
            Detached::First(waiting) => {
                drop(orphan);
                waiting.wait()?;
                // They are the server's now, which also removes what it has made.
                open.adopt(fresh);
                return Ok(0);
            }
            Detached::Daemon(waits) => caller = waits,
        }
    }
    let wanted: Vec<_> = snap.sockets.iter().map(|l| l.address.clone()).collect();
    open.commit(&wanted, fresh);
    // What is bound here is the daemon's alone.
    let children = Pools::default().prepare(&snap).and_then(|pools| Ok((pools, Programs::prepare(&snap)?)));
    let (pools, programs) = match children.map_err(told) {
        Ok(children) => children,
        Err(message) => {
            open.close(upgraded.is_none() && orphan.is_none());
            return if caller.failed(&message) { Ok(1) } else { Err(message) };
        }
    };
    // The texts are not needed while the server runs.
    drop(sources);
    if detached {
        background::lead_errors(&snap.core, &logs);
    }
    let paths = Paths { detached, ..paths.clone() };
    title::master(&paths.conf);
    let ran = if snap.main.master_process {
        let start = master::Start { snap, bundle, logs, sockets: open, orphan, pools, programs };
        master::run(&paths, start, caller.clone())
    } else {
        alone::run(&paths, snap, logs, open, &caller, orphan.map(|orphan| *orphan))
    };
    // In the background there is a process that has a terminal to say it on.
    ran.or_else(|message| if caller.failed(&message) { Ok(1) } else { Err(message) })
}
