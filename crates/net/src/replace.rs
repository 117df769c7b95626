//! Files that are replaced as a whole: a reader finds the old content or the new one, whenever the power fails and however many
//! write at the same time.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A hidden name in the folder of `path` that no other writer uses, of this process or another one: what is written there gets its
/// place by a rename.
pub fn draft_of(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}.new", std::process::id()));
    path.with_file_name(name)
}

/// Writes `bytes` to the disk and gives them the name `path`. Waits for the disk: call it on the pool. `mode` is reduced by the
/// umask. Who replaces the same file from several threads orders the calls.
///
/// # Errors
/// Those of the system. The file is as it was then, and no draft is left.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let draft = draft_of(path);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_data()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_writers_leave_one_whole_file() {
        let folder = std::env::temp_dir().join(format!("brisk-replace-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("state");
        std::thread::scope(|scope| {
            for letter in [b'a', b'b', b'c', b'd'] {
                let path = &path;
                scope.spawn(move || {
                    (0..20).for_each(|_| replace(path, &vec![letter; 100_000], 0o600).unwrap());
                });
            }
        });
        let text = fs::read(&path).unwrap();
        assert!(text.len() == 100_000 && text.iter().all(|byte| *byte == text[0]));
        // What cannot get its place leaves nothing behind.
        fs::create_dir(folder.join("taken")).unwrap();
        assert!(replace(&folder.join("taken"), b"x", 0o600).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
