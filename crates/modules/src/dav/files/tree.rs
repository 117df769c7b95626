//! Folders with all that is in them: removed, and copied. Neither leaves the tree: every name is opened within its folder,
//! and what is a link is not entered.

use super::{Fault, Result, Rights, copy_file, is_folder, open_source, set_time};
use crate::limits::DAV_DEPTH_MAX;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

fn open(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    // NOFOLLOW and a descriptor of the parent: a folder that is replaced by a link between two steps is an
    // error, not a way out of the tree.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// The names in a folder, read before any is worked on: what comes meanwhile is not seen.
fn names(folder: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    // All at once: a folder that is changed while it is read may give names twice.
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

fn too_deep(path: &Path) -> Fault {
    Fault::said(500, format!("\"{}\" has more than {DAV_DEPTH_MAX} folders in each other", path.display()))
}

/// Removes a folder. What cannot be removed ends it: the rest stays.
pub fn remove(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
    remove_at(folder, name, path, 0)
}

fn remove_at(folder: &OwnedFd, name: &OsStr, path: &Path, depth: usize) -> Result<()> {
    // Folders are entered by recursion: each takes a descriptor and some of the stack.
    if depth > DAV_DEPTH_MAX {
        return Err(too_deep(path));
    }
    let failed = |call: &'static str| move |error: Errno| Fault::of(error, 404, call, path);
    let inner = open(folder, name).map_err(failed("open"))?;
    for name in names(&inner).map_err(failed("readdir"))? {
        let path = path.join(&name);
        // Tried as a file first: most entries are, and it saves a stat(2) for each.
        match rustix::fs::unlinkat(&inner, &name, AtFlags::empty()) {
            // Another request has removed it meanwhile.
            Ok(()) | Err(Errno::NOENT) => {}
            // Linux says EISDIR, POSIX and some file systems EPERM.
            Err(Errno::ISDIR | Errno::PERM) if is_folder_at(&inner, &name) => {
                remove_at(&inner, &name, &path, depth + 1)?;
            }
            Err(error) => return Err(Fault::of(error, 404, "unlink", &path)),
        }
    }
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR).map_err(failed("rmdir"))
}

fn is_folder_at(folder: &OwnedFd, name: &OsStr) -> bool {
    // Not through a link: a link to a folder is removed as what it is.
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_folder(&stat))
}

/// Copies a folder to a name that is free. Links, sockets and the like are left out, as nginx does.
pub fn copy(
    (folder, from): (&OwnedFd, &OsStr),
    (to_folder, to): (&OwnedFd, &OsStr),
    source: &Stat,
    shallow: bool,
    path: &Path,
) -> Result<()> {
    let mut work = Work { made: None, shallow };
    work.copy((folder, from), (to_folder, to), source, path, 0)
}

struct Work {
    /// Device and number of the first folder that was made: it is not copied into itself, wherever it lies.
    made: Option<(u64, u64)>,
    shallow: bool,
}

impl Work {
    fn copy(
        &mut self,
        (folder, from): (&OwnedFd, &OsStr),
        (to_folder, to): (&OwnedFd, &OsStr),
        source: &Stat,
        path: &Path,
        depth: usize,
    ) -> Result<()> {
        if depth > DAV_DEPTH_MAX {
            return Err(too_deep(path));
        }
        // Each level holds two descriptors and a frame of the stack.
        let failed = |call: &'static str| move |error: Errno| Fault::of(error, 409, call, path);
        // With the owner's rights alone while it is filled; the source's rights are set when all is in it, or a
        // folder that may not be written could not be filled.
        rustix::fs::mkdirat(to_folder, to, Mode::RWXU).map_err(failed("mkdir"))?;
        let made = open(to_folder, to).map_err(failed("open"))?;
        let stat = rustix::fs::fstat(&made).map_err(failed("fstat"))?;
        self.made.get_or_insert((stat.st_dev, stat.st_ino));
        let inner = open(folder, from).map_err(failed("open"))?;
        let names = if self.shallow { Vec::new() } else { names(&inner).map_err(failed("readdir"))? };
        for name in names {
            let path = path.join(OsStr::from_bytes(name.as_bytes()));
            let stat = match rustix::fs::statat(&inner, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed since the names were read: the copy is of what is there.
                Err(Errno::NOENT) => continue,
                stat => stat.map_err(|error| Fault::of(error, 409, "lstat", &path))?,
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if self.made == Some((stat.st_dev, stat.st_ino)) => {}
                FileType::Directory => self.copy((&inner, &name), (&made, &name), &stat, &path, depth + 1)?,
                FileType::RegularFile => {
                    let source = open_source(&inner, &name, false, &path)?;
                    copy_file(source, (&made, &name), &Rights::of(&stat), true, &path)?;
                }
                // A socket or a device has no content that could be copied.
                _ => {}
            }
        }
        // Last: writing into the folder would change its time again.
        let rights = Rights::of(source);
        rustix::fs::fchmod(&made, rights.mode).map_err(failed("chmod"))?;
        set_time(&made, &rights).map_err(failed("utimes"))
    }
}
