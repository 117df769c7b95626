//! Programs that are started while other threads of the test have files open.
//!
//! A child has copies of all descriptors until it executes its program, also of those that are closed then. A file that another
//! thread has written meanwhile is not closed as long: whoever waits for the end of its writing, as the server does with
//! `.htaccess`, waits for the child. So no child begins while a file is written by [`write`], nor the other way round.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock};

/// Shared by those who write, and taken alone by who starts a child.
static DESCRIPTORS: RwLock<()> = RwLock::new(());

/// Starts a program; it executes when this returns.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let _alone = DESCRIPTORS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Runs a program to its end, without input, and takes what it prints.
pub fn output(command: &mut Command) -> io::Result<Output> {
    spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?.wait_with_output()
}

/// Writes a file in its place; nobody has it open for writing when this returns.
///
/// # Panics
/// If that fails.
pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    let _shared = DESCRIPTORS.read().unwrap_or_else(PoisonError::into_inner);
    std::fs::write(path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// What is told of a file when `write` has returned.
    #[test]
    fn a_file_is_closed_when_it_is_written_whoever_starts_children() {
        let dir = TempDir::new();
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        inotify::add_watch(&events, dir.path(), WatchFlags::CLOSE_WRITE).expect("our own folder");
        let is_over = AtomicBool::new(false);
        let unclosed = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        output(&mut Command::new("true")).expect("a program that does nothing");
                    }
                });
            }
            let is_closed = || {
                write(&dir.path().join("file"), "text");
                let mut room = [std::mem::MaybeUninit::uninit(); 1024];
                let mut reader = inotify::Reader::new(&events, &mut room);
                reader.next().is_ok_and(|event| event.events().contains(ReadFlags::CLOSE_WRITE))
            };
            let unclosed = (0..200).filter(|_| !is_closed()).count();
            is_over.store(true, Ordering::Relaxed);
            unclosed
        });
        assert_eq!(unclosed, 0);
    }
}
