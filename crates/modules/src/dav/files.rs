//! What the methods do to files. Everything here waits for the disk: it runs on the pool of threads.
//!
//! Whatever is looked at, made or removed is named within an opened folder, and links there are never followed: a folder
//! that becomes a link meanwhile leads no work elsewhere. New content gets its name by a rename, when it is complete.

mod tree;

use brisk_net::file::{Symlinks, open_guarded};
use brisk_server::core::LogLevel;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where something is or is to be.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without slashes at the end, and without two in a row.
    path: PathBuf,
    /// The URI ends with a slash.
    pub is_collection: bool,
    symlinks: Symlinks,
}

/// What a request has done.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// Something is at the request's URI that was not there.
    Created,
    /// A collection is where `Destination` says.
    Moved,
    /// Nothing that the client does not know.
    Replaced,
}

/// Why nothing, or not everything, was done.
#[derive(Debug)]
pub struct Fault {
    pub status: u16,
    pub level: LogLevel,
    pub text: String,
}

/// What COPY and MOVE are about.
pub struct Copying {
    pub from: Place,
    pub to: Place,
    pub overwrites: bool,
    /// `Depth: 0`: a collection without what is in it.
    pub shallow: bool,
    /// Rights of folders that are made on the way.
    pub access: u32,
}

type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub fn busy() -> Fault {
        let text = "the queue of the thread pool is full".to_string();
        Fault { status: 503, level: LogLevel::Error, text }
    }

    fn said(status: u16, text: String) -> Fault {
        Fault { status, level: LogLevel::Error, text }
    }

    /// What a system call's failing means; `missing` if a name on the way is not there.
    fn of(error: Errno, missing: u16, call: &str, path: &Path) -> Fault {
        let (status, level) = match error {
            Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG => (missing, LogLevel::Error),
            Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::MLINK => (403, LogLevel::Error),
            // A call's name and a path, as nginx logs it: people look for these texts.
            Errno::EXIST => (405, LogLevel::Error),
            Errno::NOSPC | Errno::DQUOT => (507, LogLevel::Crit),
            _ => (500, LogLevel::Crit),
        };
        let why = brisk_conf::os_text(&error.into());
        Fault { status, level, text: format!("{call}() \"{}\" failed ({why})", path.display()) }
    }
}

/// `Fault::of` for errors of the standard library.
fn fault(error: &io::Error, missing: u16, call: &str, path: &Path) -> Fault {
    // What has no number, such as a file that ended early, is told as a fault of the disk.
    Fault::of(Errno::from_io_error(error).unwrap_or(Errno::IO), missing, call, path)
}

impl Place {
    /// A place by its path, whose end says whether it is a collection.
    pub fn new(bytes: &[u8], symlinks: Symlinks) -> Place {
        let mut path = Vec::with_capacity(bytes.len());
        // Two slashes in a row would make a component that is no name.
        for &byte in bytes {
            if byte != b'/' || !path.ends_with(b"/") {
                path.push(byte);
            }
        }
        let is_collection = path.ends_with(b"/");
        if is_collection {
            path.pop();
        }
        Place { path: OsString::from_vec(path).into(), is_collection, symlinks }
    }

    /// Whether both are the same.
    pub fn is(&self, other: &Place) -> bool {
        self.path == other.path
    }

    /// Whether the other one is below this one.
    pub fn holds(&self, other: &Place) -> bool {
        // By components: `/ab` is not below `/a`.
        other.path != self.path && other.path.starts_with(&self.path)
    }

    fn name(&self) -> &OsStr {
        // The root has no name; what is done with it fails by itself.
        self.path.file_name().unwrap_or(OsStr::new("/"))
    }

    /// The folder that it is in; with `create` it and those above it are made where they are not there.
    fn folder(&self, create: Option<Mode>) -> rustix::io::Result<OwnedFd> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        open_folder(parent, self.symlinks, create)
    }

    /// What is there itself, be it a link. A collection's URI names nothing but a folder.
    fn look(&self, folder: &OwnedFd) -> rustix::io::Result<Stat> {
        let stat = rustix::fs::statat(folder, self.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        if self.is_collection && !is_folder(&stat) { Err(Errno::NOTDIR) } else { Ok(stat) }
    }
}

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// A folder, opened by the location's rule for links.
fn open_folder(path: &Path, symlinks: Symlinks, create: Option<Mode>) -> rustix::io::Result<OwnedFd> {
    // Only a place to work in: reading it is not asked for.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match symlinks {
        Symlinks::Follow => rustix::fs::open(path, flags, Mode::empty()),
        _ => {
            // Its slash makes the last name one of a folder that is looked at as the others are.
            let mut bytes = path.as_os_str().as_bytes().to_vec();
            bytes.push(b'/');
            let result = open_guarded(Path::new(OsStr::from_bytes(&bytes)), symlinks);
            result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    };
    let (Err(Errno::NOENT), Some(mode)) = (&opened, create) else { return opened };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return opened };
    let parent = open_folder(parent, symlinks, create)?;
    match rustix::fs::mkdirat(&parent, name, mode) {
        Ok(()) => {
            // The process' umask is not what the configuration says.
            rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?;
        }
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    // By the folder that was just looked at, and no link: another one may have been put there meanwhile.
    rustix::fs::openat(&parent, name, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Rights of a folder: who may read it may search it.
fn folder_mode(access: u32) -> Mode {
    Mode::from_raw_mode(access | (access & 0o444) >> 2)
}

/// A name in a folder that nothing else has: content stands there until it is complete.
fn passing_name() -> OsString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".brisk-dav-{}-{number}", std::process::id()).into()
}

/// Gives a complete file its place.
pub fn put(from: &Path, to: &Place, access: u32, modified: Option<i64>, create: bool) -> Result<Done> {
    // RFC 4918 §9.7.1: 409 where the collection is missing.
    let folder = to
        .folder(create.then(|| folder_mode(access)))
        .map_err(|error| Fault::of(error, 409, "open", to.path.parent().unwrap_or(&to.path)))?;
    let name = to.name();
    // What a link leads to counts here, since a link to a folder serves as one.
    let done = match rustix::fs::statat(&folder, name, AtFlags::empty()) {
        Ok(stat) if is_folder(&stat) => {
            let why = brisk_conf::os_text(&Errno::ISDIR.into());
            return Err(Fault::said(409, format!("\"{}\" could not be created ({why})", to.path.display())));
        }
        Ok(_) => Done::Replaced,
        Err(_) => Done::Created,
    };
    let source = File::options().write(true).open(from).map_err(|error| fault(&error, 500, "open", from))?;
    // Before it has its name: no reader sees it with other rights.
    let rights = rustix::fs::fchmod(&source, Mode::from_raw_mode(access));
    rights.map_err(|error| Fault::of(error, 500, "chmod", from))?;
    if let Some(seconds) = modified {
        let times = Timestamps { last_access: time(seconds, 0), last_modification: time(seconds, 0) };
        rustix::fs::futimens(&source, &times).map_err(|error| Fault::of(error, 500, "utimes", from))?;
    }
    match rustix::fs::renameat(rustix::fs::CWD, from, &folder, name) {
        Ok(()) => Ok(done),
        // Another disk.
        Err(Errno::XDEV) => {
            let rights = Rights { mode: Mode::from_raw_mode(access), modified: modified.map(|at| (at, 0)) };
            let source = open_source(rustix::fs::CWD, from.as_os_str(), false, from)?;
            copy_file(source, (&folder, name), &rights, true, &to.path)?;
            Ok(done)
        }
        Err(error) => Err(Fault::of(error, 409, "rename", &to.path)),
    }
}

fn time(seconds: i64, nanoseconds: i64) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ }
}

/// What a copy is like.
struct Rights {
    mode: Mode,
    /// Seconds and nanoseconds since 1970.
    modified: Option<(i64, i64)>,
}

impl Rights {
    /// Of a copy the bits for set-user-id are left out: they would run as another user.
    fn of(stat: &Stat) -> Rights {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        Rights { mode, modified: Some((stat.st_mtime, stat.st_mtime_nsec as i64)) }
    }
}

/// A regular file to copy; `links` says whether its name may be one of a link. `path` is for messages.
fn open_source(folder: impl std::os::fd::AsFd, name: &OsStr, links: bool, path: &Path) -> Result<File> {
    // A pipe without a writer must not hold a thread up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = if links { flags } else { flags | OFlags::NOFOLLOW };
    let failed = |call: &'static str| move |error: Errno| Fault::of(error, 404, call, path);
    let source = rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(failed("open"))?;
    // By the descriptor: the name may be another file's by now.
    let stat = rustix::fs::fstat(&source).map_err(failed("fstat"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Fault::said(403, format!("\"{}\" is not a regular file", path.display())));
    }
    Ok(source.into())
}

/// Copies a file's content under a passing name, and gives it its own when it is complete. `path` is for messages.
fn copy_file(
    mut source: File,
    (folder, to): (&OwnedFd, &OsStr),
    rights: &Rights,
    overwrites: bool,
    path: &Path,
) -> Result<()> {
    let failed = |call: &'static str| move |error: Errno| Fault::of(error, 409, call, path);
    // In the destination's own folder, so that the last step is a rename within one file system.
    let passing = passing_name();
    // EXCL and NOFOLLOW: a name that somebody has put there first, be it a link to a file elsewhere, is never written through.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(
        rustix::fs::openat(folder, &passing, flags, Mode::RUSR | Mode::WUSR).map_err(failed("open"))?,
    );
    let result = io::copy(&mut source, &mut copy)
        .map_err(|error| fault(&error, 500, "write", path))
        // By the descriptor: no other file can be meant.
        .and_then(|_| rustix::fs::fchmod(&copy, rights.mode).map_err(failed("chmod")))
        .and_then(|()| set_time(&copy, rights).map_err(failed("utimes")))
        .and_then(|()| {
            rename((folder, &passing), (folder, to), overwrites).map_err(|error| not_over(error, path))
        });
    if result.is_err() {
        // What was written so far is not the client's file.
        let _ = rustix::fs::unlinkat(folder, &passing, AtFlags::empty());
    }
    result
}

fn set_time(file: impl std::os::fd::AsFd, rights: &Rights) -> rustix::io::Result<()> {
    let Some((seconds, nanoseconds)) = rights.modified else { return Ok(()) };
    let at = time(seconds, nanoseconds);
    rustix::fs::futimens(file, &Timestamps { last_access: at, last_modification: at })
}

/// Renames; over what is there only if that is wanted, also if it has come since the look.
fn rename(
    (folder, from): (&OwnedFd, &OsStr),
    (to_folder, to): (&OwnedFd, &OsStr),
    overwrites: bool,
) -> rustix::io::Result<()> {
    if overwrites {
        // Atomic: readers see the old file or the new one.
        return rustix::fs::renameat(folder, from, to_folder, to);
    }
    match rustix::fs::renameat_with(folder, from, to_folder, to, RenameFlags::NOREPLACE) {
        // File systems that cannot do it.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(folder, from, to_folder, to),
        done => done,
    }
}

fn not_over(error: Errno, path: &Path) -> Fault {
    match error {
        Errno::EXIST => exists(path),
        error => Fault::of(error, 409, "rename", path),
    }
}

fn exists(path: &Path) -> Fault {
    // 412, as RFC 4918 §9.8.5 has it for `Overwrite: F`.
    let why = brisk_conf::os_text(&Errno::EXIST.into());
    Fault::said(412, format!("\"{}\" could not be created ({why})", path.display()))
}

/// Removes a file, or a folder with all that is in it.
pub fn delete(place: &Place, depth: Option<super::Depth>) -> Result<Done> {
    use super::Depth::{One, Zero};
    let failed = |error: Errno| {
        // A file named with a slash is nobody's collection: 409, as in nginx.
        let missing = if error == Errno::NOTDIR { 409 } else { 404 };
        Fault::of(error, missing, "lstat", &place.path)
    };
    let folder = place.folder(None).map_err(failed)?;
    // Without following a link: it is the link that is removed.
    let stat = place.look(&folder).map_err(failed)?;
    if is_folder(&stat) && !place.is_collection {
        let why = brisk_conf::os_text(&Errno::ISDIR.into());
        return Err(Fault::said(409, format!("DELETE \"{}\" failed ({why})", place.path.display())));
    }
    match (place.is_collection, depth) {
        (true, Some(Zero | One)) => {
            return Err(Fault::said(400, "\"Depth\" header must be infinity".into()));
        }
        (false, Some(One)) => {
            return Err(Fault::said(400, "\"Depth\" header must be 0 or infinity".into()));
        }
        _ => {}
    }
    remove(place, &folder, &stat)?;
    Ok(Done::Replaced)
}

fn remove(place: &Place, folder: &OwnedFd, stat: &Stat) -> Result<()> {
    if is_folder(stat) {
        return tree::remove(folder, place.name(), &place.path);
    }
    // It was a file when it was looked at; a folder by now is an error, and stays.
    rustix::fs::unlinkat(folder, place.name(), AtFlags::empty())
        .map_err(|error| Fault::of(error, 404, "unlink", &place.path))
}

/// Makes a folder.
pub fn make_collection(place: &Place, access: u32) -> Result<Done> {
    let failed = |error: Errno| Fault::of(error, 409, "mkdir", &place.path);
    let folder = place.folder(None).map_err(failed)?;
    let mode = folder_mode(access);
    rustix::fs::mkdirat(&folder, place.name(), mode).map_err(failed)?;
    // `mkdir` is subject to the umask, the configuration's rights are not.
    rustix::fs::chmodat(&folder, place.name(), mode, AtFlags::empty()).map_err(failed)?;
    Ok(Done::Created)
}

/// Both ends of a copy or move, looked at.
struct Ends {
    from: OwnedFd,
    source: Stat,
    to: OwnedFd,
    /// What is at the destination.
    there: Option<Stat>,
}

fn ends(copying: &Copying, create: Option<Mode>) -> Result<Ends> {
    let Copying { from, to, overwrites, .. } = copying;
    let lost = |place: &'static str, path: &Path| {
        let path = path.to_path_buf();
        move |error| Fault::of(error, 404, place, &path)
    };
    // The source first: nothing is made for one that is not there.
    let source_folder = from.folder(None).map_err(lost("lstat", &from.path))?;
    let source = from.look(&source_folder).map_err(lost("lstat", &from.path))?;
    // RFC 4918 §9.8.5: 409 where the destination's collection is missing.
    let to_folder = to.folder(create).map_err(|error| Fault::of(error, 409, "open", &to.path))?;
    // The link itself and not its target: it is what would be replaced.
    let there = match rustix::fs::statat(&to_folder, to.name(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(Fault::of(error, 404, "lstat", &to.path)),
    };
    if let Some(there) = &there {
        if is_folder(there) && !to.is_collection {
            let text = format!("\"{}\" is a collection", to.path.display());
            return Err(Fault::said(409, text));
        }
        if !overwrites {
            return Err(exists(&to.path));
        }
    }
    // What is copied is told by the URI: a folder without its slash is not meant.
    if is_folder(&source) && !from.is_collection {
        return Err(Fault::said(400, format!("\"{}\" is collection", from.path.display())));
    }
    let ends = Ends { from: source_folder, source, to: to_folder, there };
    if is_folder(&ends.source) && ends.hold_each_other()? {
        let (from, to) = (from.path.display(), to.path.display());
        return Err(Fault::said(
            403,
            format!("\"{from}\" and \"{to}\" are the same, or one is in the other, by another name"),
        ));
    }
    Ok(ends)
}

impl Ends {
    /// Whether the destination is the source. Links, and file systems without regard to case, give a folder other names.
    fn are_one(&self) -> bool {
        self.there.as_ref().is_some_and(|there| is_same(there, &self.source))
    }

    /// Whether one of the two lies in the other, whatever their names say: the destination would be removed with the source in it, or the source
    /// copied into itself without end.
    fn hold_each_other(&self) -> Result<bool> {
        if self.are_one() {
            return Ok(false);
        }
        let holds = |outer: &Stat, folder: &OwnedFd| {
            is_below(folder, outer).map_err(|error| Fault::of(error, 404, "lstat", Path::new("..")))
        };
        Ok(holds(&self.source, &self.to)?
            || self.there.as_ref().map_or(Ok(false), |there| holds(there, &self.from))?)
    }
}

fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Whether a folder is another one, or lies in it.
fn is_below(folder: &OwnedFd, outer: &Stat) -> rustix::io::Result<bool> {
    let mut at = rustix::io::dup(folder)?;
    let mut stat = rustix::fs::fstat(&at)?;
    loop {
        if is_same(&stat, outer) {
            return Ok(true);
        }
        at =
            rustix::fs::openat(&at, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let above = rustix::fs::fstat(&at)?;
        // The root is its own parent.
        if is_same(&above, &stat) {
            return Ok(false);
        }
        stat = above;
    }
}

/// COPY.
pub fn copy(copying: &Copying) -> Result<Done> {
    let ends = ends(copying, None)?;
    let (from, to) = ((&ends.from, copying.from.name()), (&ends.to, copying.to.name()));
    if !is_folder(&ends.source) {
        // A link is followed as it is for GET: only where the location allows links.
        let links = copying.from.symlinks == Symlinks::Follow;
        let source = open_source(from.0, from.1, links, &copying.from.path)?;
        // Of what was opened, not of the link.
        let stat = rustix::fs::fstat(&source);
        let stat = stat.map_err(|error| Fault::of(error, 404, "fstat", &copying.from.path))?;
        copy_file(source, to, &Rights::of(&stat), copying.overwrites, &copying.to.path)?;
        return Ok(Done::Replaced);
    }
    if ends.are_one() {
        let text = format!("\"{}\" is the source by another name", copying.to.path.display());
        return Err(Fault::said(403, text));
    }
    if let Some(there) = &ends.there {
        remove(&copying.to, &ends.to, there)?;
    }
    tree::copy(from, to, &ends.source, copying.shallow, &copying.to.path)?;
    Ok(Done::Moved)
}

/// MOVE.
pub fn move_to(copying: &Copying) -> Result<Done> {
    let is_file = !copying.from.is_collection;
    // As nginx has it: folders are made for files that are moved, and for those alone.
    let ends = ends(copying, is_file.then(|| folder_mode(copying.access)))?;
    let (from, to) = ((&ends.from, copying.from.name()), (&ends.to, copying.to.name()));
    let is_folder = is_folder(&ends.source);
    if let Some(there) = ends.there.as_ref().filter(|_| is_folder && !ends.are_one()) {
        remove(&copying.to, &ends.to, there)?;
    }
    let done = if is_folder { Done::Moved } else { Done::Replaced };
    match rename(from, to, copying.overwrites) {
        Ok(()) => return Ok(done),
        Err(Errno::XDEV) => {}
        Err(error) => return Err(not_over(error, &copying.to.path)),
    }
    // Another disk.
    if is_folder {
        tree::copy(from, to, &ends.source, false, &copying.to.path)?;
    } else {
        let source = open_source(from.0, from.1, false, &copying.from.path)?;
        copy_file(source, to, &Rights::of(&ends.source), copying.overwrites, &copying.to.path)?;
    }
    // Only when the copy is complete: whatever fails before leaves the source.
    remove(&copying.from, &ends.from, &ends.source)?;
    Ok(done)
}
