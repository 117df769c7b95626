//! What `ps` calls the server's processes, as nginx's are called.

use brisk_net::sys::ProcessTitle;
use std::ffi::OsString;
use std::sync::{Mutex, OnceLock, PoisonError};

static TITLE: OnceLock<Mutex<Option<ProcessTitle>>> = OnceLock::new();
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Before there are other threads: titles take the place of the arguments.
pub fn take() {
    ARGUMENTS.get_or_init(|| std::env::args_os().collect());
    TITLE.get_or_init(|| Mutex::new(ProcessTitle::take()));
}

/// What this program was called with.
pub fn arguments() -> Vec<OsString> {
    ARGUMENTS.get().cloned().unwrap_or_else(|| std::env::args_os().collect())
}

pub fn master(conf: &str) {
    set(&format!("brisk: master {conf}"));
}

pub fn worker() {
    set("brisk: worker");
}

/// The process that reads a configuration for the master.
pub fn reader() {
    set("brisk: reading the configuration");
}

/// The master of this worker was killed.
pub fn orphan() {
    set("brisk: worker without a master");
}

pub fn ending() {
    set("brisk: worker is shutting down");
}

/// Without a title taken (`brisk serve`, no `/proc`) the command line stays.
fn set(text: &str) {
    let title = TITLE.get().map(|title| title.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(Some(title)) = title.as_deref() {
        title.set(text);
    }
}
