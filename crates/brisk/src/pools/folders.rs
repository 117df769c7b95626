//! Folders of code that a pool watches (`watch`): when a file in one of them changes, the pool gets new processes.
//!
//! For development, and for deploys that write files in place. The kernel reports changes (inotify); what comes within a moment is one
//! change. Folders whose names begin with a dot are left out.

use crate::limits::{WATCH_SETTLE_TIME, WATCHED_FOLDERS_MAX};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The endings of files with code and its settings. Other files (logs, caches, uploads) change all the time, and a change of one needs no
/// new processes.
const ENDS: &[&str] = &["php", "phtml", "inc", "env", "ini", "json", "twig", "xml", "yaml", "yml"];

/// See the module's head.
pub struct Folders {
    events: OwnedFd,
    /// By watch descriptor.
    paths: HashMap<i32, PathBuf>,
    /// Something has changed: when that is acted upon.
    due: Option<Instant>,
}

impl Folders {
    /// Watches folders and what is below them.
    pub fn watch<'a>(roots: impl Iterator<Item = &'a str>) -> io::Result<Folders> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut folders = Folders { events, paths: HashMap::new(), due: None };
        for root in roots {
            folders.add(Path::new(root)).map_err(|error| {
                io::Error::new(error.kind(), format!("\"{root}\" cannot be watched ({error})"))
            })?;
        }
        Ok(folders)
    }

    /// Readable when something has changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// When [`Folders::take_change`] is to be asked.
    pub fn next(&self) -> Option<Instant> {
        self.due
    }

    /// Whether code has changed, and enough time has gone by since then; true once per change.
    pub fn take_change(&mut self, now: Instant) -> bool {
        self.read(now);
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// A folder and those below it. Gives whether there is code in them.
    fn add(&mut self, folder: &Path) -> io::Result<bool> {
        if self.paths.len() >= WATCHED_FOLDERS_MAX {
            let text = format!("there are more than {WATCHED_FOLDERS_MAX} folders");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let mask = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR;
        // Before its content is read: what comes afterwards is reported.
        let id = inotify::add_watch(&self.events, folder, mask)?;
        self.paths.insert(id, folder.to_path_buf());
        let mut has_code = false;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // Links are not followed: they may lead in circles.
            if !entry.file_type()?.is_dir() {
                has_code |= is_code(&entry.file_name());
            } else if !is_hidden(&entry.file_name()) {
                has_code |= self.add(&entry.path())?;
            }
        }
        Ok(has_code)
    }

    /// Takes what the kernel reports.
    fn read(&mut self, now: Instant) {
        let mut room = [MaybeUninit::uninit(); 4096];
        let mut seen = Vec::new();
        let mut reader = inotify::Reader::new(&self.events, &mut room);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_os_string());
            seen.push((event.wd(), event.events(), name));
        }
        for (id, events, name) in seen {
            let name = name.unwrap_or_default();
            let is_change = if events.contains(ReadFlags::QUEUE_OVERFLOW) {
                true
            } else if events.contains(ReadFlags::IGNORED) {
                self.paths.remove(&id);
                false
            } else if events.contains(ReadFlags::ISDIR) {
                self.folder_changed(id, events, &name)
            } else {
                // A file is complete when it is closed or renamed, not when it is made.
                events != ReadFlags::CREATE && is_code(&name)
            };
            if is_change {
                self.due = Some(now + WATCH_SETTLE_TIME);
            }
        }
    }

    fn folder_changed(&mut self, id: i32, events: ReadFlags, name: &OsStr) -> bool {
        let Some(folder) = self.paths.get(&id).filter(|_| !is_hidden(name)) else { return false };
        let folder = folder.join(name);
        if events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
            // One that is gone again already is no change.
            return self.add(&folder).unwrap_or(false);
        }
        events.contains(ReadFlags::MOVED_FROM)
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().first() == Some(&b'.')
}

/// By its end; `.env` is one, too.
fn is_code(name: &OsStr) -> bool {
    let end = name.as_bytes().rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    ENDS.iter().any(|have| have.as_bytes().eq_ignore_ascii_case(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_testkit::TempDir;
    use std::fs;

    #[test]
    fn changes_of_code_are_told_once_and_others_are_not() {
        let dir = TempDir::new();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("src/deep")).unwrap();
        fs::create_dir_all(path("src/.git")).unwrap();
        let root = path("src").display().to_string();
        let mut folders = Folders::watch([root.as_str()].into_iter()).unwrap();
        let mut now = Instant::now();
        let mut changed = |what: &dyn Fn()| {
            what();
            now += WATCH_SETTLE_TIME;
            let early = folders.take_change(now);
            now += WATCH_SETTLE_TIME;
            (early, folders.take_change(now), folders.take_change(now))
        };
        let write = |name: &'static str| {
            let file = path(name);
            move || fs::write(&file, "x").unwrap()
        };
        let (yes, no) = ((false, true, false), (false, false, false));
        assert_eq!(changed(&write("src/a.php")), yes);
        assert_eq!(changed(&write("src/deep/b.YAML")), yes);
        assert_eq!(changed(&write("src/.env")), yes);
        assert_eq!(changed(&write("src/app.log")), no);
        assert_eq!(changed(&write("src/.git/a.php")), no);
        assert_eq!(changed(&|| fs::remove_file(path("src/a.php")).unwrap()), yes);
        // A folder is no code; what is in it when it comes, or comes later, is.
        assert_eq!(changed(&|| fs::create_dir(path("src/new")).unwrap()), no);
        assert_eq!(changed(&write("src/new/c.php")), yes);
        assert_eq!(changed(&|| fs::rename(path("src/new"), path("src/other")).unwrap()), yes);
        assert_eq!(changed(&write("src/other/c.php")), yes);
        assert!(Folders::watch(["/no/such/folder"].into_iter()).is_err());
    }
}
