//! Reading directories for `autoindex` and `random_index`, on the pool of threads.

use brisk_conf::os_text;
use brisk_net::blocking;
use brisk_server::request::Request;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What could not be done, with nginx's name of the call.
pub struct Failure {
    call: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl Failure {
    fn new(call: &'static str, path: &Path, error: io::Error) -> Failure {
        Failure { call, path: path.to_owned(), error }
    }

    /// Logs it and says which status the client gets.
    pub fn report(&self, r: &Request) -> u16 {
        let (status, is_crit) = match self.error.raw_os_error() {
            // Within a folder that could be opened every failure is one of the disk.
            _ if self.call != "opendir()" => (500, true),
            Some(2 | 20 | 36) => (404, false), // ENOENT, ENOTDIR, ENAMETOOLONG
            Some(13) => (403, false),          // EACCES
            _ => (500, true),
        };
        let (call, path, why) = (self.call, self.path.display(), os_text(&self.error));
        if is_crit {
            brisk_server::rlog!(r, Crit, "{call} \"{path}\" failed ({why})");
        } else {
            brisk_server::rlog!(r, Error, "{call} \"{path}\" failed ({why})");
        }
        status
    }
}

/// The directory that the request's path names; its final slash is for the messages only.
pub fn named_by(path: &Path) -> PathBuf {
    // The root alone is its slash.
    match path.as_os_str().as_bytes() {
        [rest @ .., b'/'] if !rest.is_empty() => std::ffi::OsStr::from_bytes(rest).into(),
        _ => path.into(),
    }
}

/// Runs `job` where it may wait for the disk.
pub async fn on_pool<T: Send + 'static>(
    path: PathBuf,
    job: impl FnOnce(&Path) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    // For the message: the job takes the path along.
    let shown = path.clone();
    match blocking::run(move || job(&path)) {
        Ok(done) => done.await,
        Err(blocking::QueueFull) => {
            Err(Failure::new("opendir()", &shown, io::Error::other("the queue of the thread pool is full")))
        }
    }
}

/// Calls `visit` for each entry whose name begins with no dot.
pub fn each(path: &Path, mut visit: impl FnMut(&DirEntry) -> Result<(), Failure>) -> Result<(), Failure> {
    let entries = fs::read_dir(path).map_err(|error| Failure::new("opendir()", path, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Failure::new("readdir()", path, error))?;
        // nginx's rule for both modules: such names are hidden by custom.
        if !entry.file_name().as_bytes().starts_with(b".") {
            visit(&entry)?;
        }
    }
    Ok(())
}

/// What an entry is; for a link whose target cannot be reached, the link.
pub fn metadata(entry: &DirEntry) -> Result<Metadata, Failure> {
    let path = entry.path();
    match fs::metadata(&path) {
        Ok(metadata) => Ok(metadata),
        // ENOENT, ELOOP
        // A link that leads nowhere is still an entry.
        Err(error) if matches!(error.raw_os_error(), Some(2 | 40)) => {
            fs::symlink_metadata(&path).map_err(|error| Failure::new("lstat()", &path, error))
        }
        Err(error) => Err(Failure::new("stat()", &path, error)),
    }
}

impl Failure {
    /// The right to look at one entry is missing: it can be left out.
    pub fn is_denied(&self) -> bool {
        self.error.kind() == io::ErrorKind::PermissionDenied
    }
}
