//! Folders that go with their owner.

use crate::children;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A fresh folder that everyone may enter (workers run as `nobody` where tests run as root).
#[derive(Debug)]
pub struct TempDir {
    path: PathBuf,
}

impl TempDir {
    /// # Panics
    /// If it cannot be made.
    pub fn new() -> TempDir {
        TempDir::below(&std::env::temp_dir())
    }

    /// A folder in memory, if there is room for `bytes`, for what writes much: databases.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn in_memory(bytes: u64) -> TempDir {
        let memory = Path::new("/dev/shm");
        let has_room = rustix::fs::statvfs(memory).is_ok_and(|at| at.f_bavail * at.f_frsize >= bytes)
            && rustix::fs::access(memory, rustix::fs::Access::WRITE_OK).is_ok();
        if has_room { TempDir::below(memory) } else { TempDir::new() }
    }

    fn below(folder: &Path) -> TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        let path = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("brisk-test-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => break path,
                // Of a process that had this number before, and was killed.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own folder");
        TempDir { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file below it, with the folders on the way; gives its path.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        }
        children::write(&path, content);
        path
    }
}

impl Default for TempDir {
    fn default() -> TempDir {
        TempDir::new()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // What is left of a failed test is for its author to look at.
        if std::env::var_os("BRISK_TEST_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
