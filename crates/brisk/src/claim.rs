//! What a configuration needs from the system: logs, sockets, its pid file.

use crate::config::Paths;
use crate::refusal;
use crate::sockets::{self, Sockets};
use brisk_conf::{Diag, SourceMap};
use brisk_load::output;
use brisk_net::fault;
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::log::LogFile;
use brisk_server::thread::open_logs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Opens all logs of a configuration. The default error log may fail: a message says so, and the server starts without it.
pub fn logs(paths: &Paths, snap: &Snapshot) -> Result<Vec<Arc<LogFile>>, Diag> {
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
    Ok((logs(paths, snap)?, sockets.prepare(snap)?))
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
    let room = fault::room(Path::new(path));
    room.and_then(|()| file.write_all(format!("{pid}\n").as_bytes())).map_err(|error| {
        let _ = std::fs::remove_file(path);
        failed("write", &error)
    })
}
