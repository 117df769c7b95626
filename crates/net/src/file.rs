//! Files that are served: opened without blocking the loop, regular files only.

use crate::fault;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Before the pool looks at a path by other means than those of this module: where tests have it stall.
pub fn before_cold(path: &Path) {
    fault::cold_path(path);
}

/// What `fstat` tells, as far as HTTP cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// What it is.
    pub kind: Kind,
    /// Bytes.
    pub size: u64,
    /// Modification time in seconds since 1970.
    pub mtime: i64,
    /// The rest of `mtime`, in nanoseconds.
    pub mtime_nsec: u32,
    /// When content or attributes were last changed, in seconds since 1970.
    pub ctime: i64,
    /// The rest of `ctime`, in nanoseconds.
    pub ctime_nsec: u32,
    /// Its number in its file system.
    pub inode: u64,
    /// Its file system.
    pub device: u64,
    /// Type and rights, as `st_mode`.
    pub mode: u32,
    /// The owner's user id.
    pub owner: u32,
}

/// Kinds of what a path leads to, as far as a server makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A socket, device or pipe: never served.
    Other,
}

impl From<rustix::fs::Stat> for Info {
    fn from(stat: rustix::fs::Stat) -> Info {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        Info {
            kind,
            size: stat.st_size as u64,
            mtime: stat.st_mtime,
            mtime_nsec: stat.st_mtime_nsec as u32,
            ctime: stat.st_ctime,
            ctime_nsec: stat.st_ctime_nsec as u32,
            inode: stat.st_ino,
            device: stat.st_dev,
            mode: stat.st_mode,
            owner: stat.st_uid,
        }
    }
}

/// Set once `openat2` turned out not to work here (old kernel, seccomp).
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

fn flags() -> OFlags {
    // NONBLOCK: opening a pipe must not wait for a writer.
    OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY
}

/// A walk within the kernel's caches also fails when a directory on the way is changed meanwhile: that passes.
const WARM_TRIES: usize = 4;

/// Opens if that needs no disk access; `WouldBlock` otherwise. Where the kernel cannot tell, just opens.
pub fn open_warm(path: &Path) -> io::Result<OwnedFd> {
    warm(path, flags()).unwrap_or_else(|| open(path))
}

/// Finds what is at a path without opening it for reading (`O_PATH`), if that needs no disk access.
pub fn locate_warm(path: &Path) -> io::Result<OwnedFd> {
    warm(path, OFlags::PATH | OFlags::CLOEXEC).unwrap_or_else(|| locate(path))
}

/// Opens an existing file for appending, if that needs no disk access; `WouldBlock` otherwise, and where the kernel
/// cannot tell.
pub fn append_warm(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    warm(path, flags).unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
}

/// Opens within the kernel's caches; `None` if the kernel does not know how.
fn warm(path: &Path, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    if let Err(error) = fault::warm_path(path) {
        return Some(Err(error));
    }
    if NO_OPENAT2.load(Ordering::Relaxed) {
        return None;
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(fd) => return Some(Ok(fd)),
            Err(Errno::AGAIN) if tries < WARM_TRIES => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {
                NO_OPENAT2.store(true, Ordering::Relaxed);
                return None;
            }
            Err(error) => return Some(Err(error.into())),
        }
    }
}

/// Finds what is at a path, waiting for the disk if need be: call it on the pool.
pub fn locate(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens, waiting for the disk if need be: call it on the pool.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    fault::cold_path(path);
    Ok(rustix::fs::open(path, flags(), Mode::empty())?)
}

/// How far symbolic links are followed (`disable_symlinks`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symlinks {
    /// Always.
    Follow,
    /// No component after the first `from` bytes of the path may be a link.
    Refuse {
        /// Bytes of the path's beginning that may be links.
        from: usize,
    },
    /// A link is followed if it and its target have the same owner.
    SameOwner {
        /// Bytes of the path's beginning that may be any links.
        from: usize,
    },
}

/// Opens component by component, refusing links as told. Error `ELOOP` (or `EMLINK`-like refusals) for a link.
pub fn open_guarded(path: &Path, symlinks: Symlinks) -> io::Result<OwnedFd> {
    use std::os::unix::ffi::OsStrExt as _;
    let (from, owner) = match symlinks {
        Symlinks::Follow => return open(path),
        Symlinks::Refuse { from } => (from, false),
        Symlinks::SameOwner { from } => (from, true),
    };
    fault::cold_path(path);
    let bytes = path.as_os_str().as_bytes();
    let from = from.min(bytes.len());
    let start =
        if from == 0 { Path::new("/") } else { Path::new(std::ffi::OsStr::from_bytes(&bytes[..from])) };
    let search = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let mut at = rustix::fs::open(start, search, Mode::empty())?;
    // A path with a final slash names a directory: it is opened once more as itself.
    let has_slash = bytes.ends_with(b"/");
    let mut rest = bytes[from..].split(|&b| b == b'/').filter(|s| !s.is_empty()).peekable();
    if rest.peek().is_none() {
        return open(path);
    }
    while let Some(name) = rest.next() {
        let is_last = rest.peek().is_none() && !has_slash;
        let want = if is_last { flags() } else { search };
        let name = Path::new(std::ffi::OsStr::from_bytes(name));
        at = if owner {
            let fd = rustix::fs::openat(&at, name, want, Mode::empty())?;
            // Between the two calls the name may have become another thing, so the owners must agree even if it is
            // no link now.
            let link = rustix::fs::statat(&at, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
            if rustix::fs::fstat(&fd)?.st_uid != link.st_uid {
                return Err(Errno::LOOP.into());
            }
            fd
        } else {
            rustix::fs::openat(&at, name, want | OFlags::NOFOLLOW, Mode::empty())?
        };
    }
    if has_slash {
        return Ok(rustix::fs::openat(&at, ".", flags(), Mode::empty())?);
    }
    Ok(at)
}

/// What `fstat` says of an open file.
pub fn info(fd: impl AsFd) -> io::Result<Info> {
    Ok(rustix::fs::fstat(fd)?.into())
}

/// `stat`, following links.
pub fn stat(path: &Path) -> io::Result<Info> {
    Ok(rustix::fs::stat(path)?.into())
}

/// Reads at an offset if the pages are in memory; `WouldBlock` otherwise.
pub fn read_warm(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    fault::warm_read(&fd)?;
    match rustix::io::preadv2(&fd, &mut [io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => Ok(count),
        // Some file systems do not know the flag; then reading is all one can do.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(rustix::io::pread(fd, buf, offset)?),
        Err(error) => Err(error.into()),
    }
}

/// As [`read_warm`], but an error where the file system cannot say whether it would wait.
pub fn read_at_once(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    fault::warm_read(&fd)?;
    Ok(rustix::io::preadv2(&fd, &mut [io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT)?)
}

/// Reads at an offset, waiting for the disk if need be: call it on the pool.
pub fn read_cold(fd: impl AsFd, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    fault::cold_read(&fd);
    Ok(rustix::io::pread(fd, buf, offset)?)
}

/// Writes everything at an offset, waiting for the disk if need be: call it on the pool.
pub fn write_cold(fd: impl AsFd, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    fault::cold_write(&fd)?;
    while !bytes.is_empty() {
        match rustix::io::pwrite(&fd, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_refused_behind_what_is_trusted() {
        let base = std::env::temp_dir().join(format!("brisk-links-{}", std::process::id()));
        let base = {
            fs::create_dir_all(base.join("dir")).unwrap();
            fs::canonicalize(base).unwrap()
        };
        fs::write(base.join("dir/file"), "x").unwrap();
        symlink("dir", base.join("link")).unwrap();
        symlink("file", base.join("dir/name")).unwrap();
        let code = |path: &str, symlinks: Symlinks| {
            open_guarded(&base.join(path), symlinks).err().map(|error| error.raw_os_error().unwrap())
        };
        const ELOOP: Option<i32> = Some(40);
        const ENOTDIR: Option<i32> = Some(20);
        let refuse = Symlinks::Refuse { from: 0 };
        let trust_link = Symlinks::Refuse { from: base.join("link").as_os_str().len() };
        assert_eq!(code("dir/file", refuse), None);
        assert_eq!(code("dir/", refuse), None);
        assert_eq!(code("dir/name", refuse), ELOOP);
        assert_eq!(code("link/file", refuse), ENOTDIR);
        assert_eq!(code("link/file", trust_link), None);
        assert_eq!(code("link/name", trust_link), ELOOP);
        assert_eq!(code("dir/file/", refuse), ENOTDIR);
        let owner = Symlinks::SameOwner { from: 0 };
        assert_eq!(code("link/name", owner), None);
        assert_eq!(code("dir/name/", owner), ENOTDIR);
        fs::remove_dir_all(&base).unwrap();
    }
}
