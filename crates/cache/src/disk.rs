//! What is done to files: blocking calls, for the pool and the housekeeping thread.

use crate::digest::Digest;
use crate::format::{self, FormatError, HEADER_BYTES_MAX, Header, PREFIX_BYTES};
use crate::limits::SCAN_THREADS_MAX;
use crate::object::{Body, Identity, Object};
use brisk_net::{Content, file};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Files that are handed on at once.
const BATCH: usize = 256;
/// Bytes of a file that are read first: most headers, and small bodies whole.
const FIRST_READ_BYTES: usize = 16 * 1024;

/// Why a file could not be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// It could not be read.
    Io(io::Error),
    /// It is no entry, or a broken one.
    Format(FormatError),
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Io(error)
    }
}

impl From<FormatError> for LoadError {
    fn from(error: FormatError) -> LoadError {
        LoadError::Format(error)
    }
}

/// Reads an entry; `None` if there is no file. A body up to `body_max` bytes is read and checked; of a larger one the
/// open file is kept.
pub fn load(path: &Path, digest: Digest, body_max: u64) -> Result<Option<Object>, LoadError> {
    let fd = match file::open(path) {
        Ok(fd) => fd,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let info = file::info(&fd)?;
    if info.kind != file::Kind::File {
        return Err(FormatError::Foreign.into());
    }
    let mut bytes = vec![0; FIRST_READ_BYTES.min(usize::try_from(info.size).unwrap_or(usize::MAX))];
    read_exact(&fd, &mut bytes, 0)?;
    if bytes.len() < PREFIX_BYTES {
        return Err(FormatError::Length.into());
    }
    let header_bytes = format::header_bytes(&bytes)?;
    if header_bytes > bytes.len() {
        extend(&fd, &mut bytes, header_bytes, info.size)?;
    }
    let Header { meta, bytes: header_bytes, body_bytes, body_crc } = format::decode(&bytes)?;
    if u64::from(header_bytes) + body_bytes != info.size {
        return Err(FormatError::Length.into());
    }
    let body = if body_bytes <= body_max {
        extend(&fd, &mut bytes, info.size as usize, info.size)?;
        let body = &bytes[header_bytes as usize..];
        if crc32fast::hash(body) != body_crc {
            return Err(FormatError::Damaged.into());
        }
        let body = Content::new(body.into());
        body.stands_in(fd, u64::from(header_bytes));
        Body::Memory(Arc::new(body))
    } else {
        Body::File { fd: Arc::new(fd), offset: u64::from(header_bytes), len: body_bytes }
    };
    let object = Object::new(digest, meta, body, header_bytes, body_crc);
    let _ = object.identity.set((info.device, info.inode));
    Ok(Some(object))
}

fn extend(fd: &OwnedFd, bytes: &mut Vec<u8>, to: usize, size: u64) -> Result<(), LoadError> {
    if to as u64 > size {
        return Err(FormatError::Length.into());
    }
    let from = bytes.len().min(to);
    bytes.resize(to, 0);
    Ok(read_exact(fd, &mut bytes[from..], from as u64)?)
}

fn read_exact(fd: &OwnedFd, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file::read_cold(fd, buf, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buf = &mut buf[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// Only the header, for a look through all files.
pub fn read_header(path: &Path) -> Result<Option<Header>, LoadError> {
    let fd = match file::open(path) {
        Ok(fd) => fd,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let size = file::info(&fd)?.size;
    let mut bytes = vec![0; 4096.min(usize::try_from(size).unwrap_or(usize::MAX))];
    read_exact(&fd, &mut bytes, 0)?;
    let header_bytes = format::header_bytes(&bytes)?;
    debug_assert!(header_bytes <= HEADER_BYTES_MAX);
    if header_bytes > bytes.len() {
        extend(&fd, &mut bytes, header_bytes, size)?;
    }
    Ok(Some(format::decode(&bytes)?))
}

/// Whether an error means that the file is not there.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A file that is being written, beside the place that it will take.
pub struct Temp {
    /// The file.
    pub fd: Arc<OwnedFd>,
    path: PathBuf,
    target: PathBuf,
    is_placed: bool,
}

impl Temp {
    /// Makes the folders on the way too.
    pub fn create(target: &Path) -> io::Result<Temp> {
        let path = temp_path(target);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let fd = match open() {
            Err(Errno::NOENT) => {
                let folder = target.parent().unwrap_or(target);
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                open()?
            }
            done => done?,
        };
        Ok(Temp { fd: Arc::new(fd), path, target: target.to_owned(), is_placed: false })
    }

    /// Gives it its name: from now on it is the entry.
    pub fn place(mut self) -> io::Result<Identity> {
        let info = file::info(&*self.fd)?;
        fs::rename(&self.path, &self.target)?;
        self.is_placed = true;
        Ok((info.device, info.inode))
    }

    /// As [`Temp::place`]; the body, which begins at `offset`, stands in the file from now on.
    pub fn place_of(self, body: &Content, offset: usize) -> io::Result<Identity> {
        let fd = self.fd.clone();
        let identity = self.place()?;
        body.stands_in(fd, offset as u64);
        Ok(identity)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `NAME.0123456789`: what the loader removes if a process dies.
fn temp_path(target: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(100_003));
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{number:010}"));
    target.with_file_name(name)
}

/// Writes a whole entry, which has no place yet.
pub fn write(target: &Path, header: &[u8], body: &[u8]) -> io::Result<Temp> {
    let temp = Temp::create(target)?;
    file::write_cold(&*temp.fd, header, 0)?;
    file::write_cold(&*temp.fd, body, header.len() as u64)?;
    Ok(temp)
}

/// Writes another header in place of an entry's, if it is still the same file.
pub fn rewrite_header(target: &Path, identity: Identity, header: &[u8]) -> io::Result<bool> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = match rustix::fs::open(target, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let info = file::info(&fd)?;
    if (info.device, info.inode) != identity {
        return Ok(false);
    }
    file::write_cold(&fd, header, 0)?;
    Ok(true)
}

/// Copies the body of `from` behind another header into a new file, which has no place yet.
pub fn copy_with_header(
    target: &Path,
    header: &[u8],
    from: &OwnedFd,
    mut offset: u64,
    mut len: u64,
) -> io::Result<Temp> {
    let temp = Temp::create(target)?;
    file::write_cold(&*temp.fd, header, 0)?;
    let mut at = header.len() as u64;
    let mut buf = vec![0; 256 * 1024];
    while len > 0 {
        let want = buf.len().min(usize::try_from(len).unwrap_or(usize::MAX));
        read_exact(from, &mut buf[..want], offset)?;
        file::write_cold(&*temp.fd, &buf[..want], at)?;
        (offset, at, len) = (offset + want as u64, at + want as u64, len - want as u64);
    }
    Ok(temp)
}

/// A piece of a body that is put together.
pub enum Source {
    /// This part of memory.
    Memory(Arc<Content>, Range<usize>),
    /// This part of a file.
    File {
        /// The file.
        fd: Arc<OwnedFd>,
        /// Where the piece begins.
        offset: u64,
        /// Bytes of the piece.
        len: u64,
    },
}

impl Source {
    /// A part of a stored body.
    pub fn of(body: &Body, range: Range<u64>) -> Source {
        match body {
            Body::Memory(bytes) => Source::Memory(bytes.clone(), range.start as usize..range.end as usize),
            Body::File { fd, offset, .. } => {
                Source::File { fd: fd.clone(), offset: offset + range.start, len: range.end - range.start }
            }
        }
    }
}

/// Writes pieces one after the other into a new file, behind the room for a header. Gives the body's checksum too.
pub fn put_together(target: &Path, header_bytes: u64, sources: &[Source]) -> io::Result<(Temp, u32)> {
    let temp = Temp::create(target)?;
    let mut crc = crc32fast::Hasher::new();
    let mut at = header_bytes;
    let mut write = |bytes: &[u8]| {
        file::write_cold(&*temp.fd, bytes, at)?;
        crc.update(bytes);
        at += bytes.len() as u64;
        Ok::<_, io::Error>(())
    };
    for source in sources {
        match source {
            Source::Memory(bytes, range) => write(&bytes[range.clone()])?,
            Source::File { fd, offset, len } => {
                let (mut offset, mut len) = (*offset, *len);
                let mut buf = vec![0; 256 * 1024];
                while len > 0 {
                    let want = buf.len().min(usize::try_from(len).unwrap_or(usize::MAX));
                    read_exact(fd, &mut buf[..want], offset)?;
                    write(&buf[..want])?;
                    (offset, len) = (offset + want as u64, len - want as u64);
                }
            }
        }
    }
    Ok((temp, crc.finalize()))
}

/// Removes a file; it may be gone already.
pub fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Bytes that are free for users on the folder's file system.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// What is wanted to be known of the files below a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// What folders say of themselves: a third of the work, and a fraction of what must be read if nothing is in the
    /// kernel's caches.
    Names,
    /// Each file is looked at. Left-over temporary files older than `temp_age_s` are removed.
    Sizes {
        /// In seconds.
        temp_age_s: i64,
    },
}

/// A file that was found.
pub struct Seen {
    /// The key's digest, which is the file's name.
    pub digest: Digest,
    /// `None`: it was not asked for.
    pub bytes: Option<u64>,
}

/// Walks through all entries below a folder; `visit` returns false to stop.
pub fn scan(folder: &Path, levels: usize, want: Want, visit: &mut dyn FnMut(Seen) -> bool) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    scan_folder(&fd, levels, want, visit)?;
    Ok(())
}

/// As [`scan`], with several threads at once where there are folders to share out: a million entries are there in seconds.
pub fn scan_quickly(
    folder: &Path,
    levels: usize,
    want: Want,
    visit: &(dyn Fn(&mut [Seen]) -> bool + Sync),
) -> io::Result<()> {
    if levels == 0 {
        return scan_batched(folder, levels, want, visit);
    }
    let mut inner: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if is_missing(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    inner.retain(|path| path.is_dir());
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        while let Some(path) = inner.get(next.fetch_add(1, Ordering::Relaxed)) {
            scan_batched(path, levels - 1, want, visit)?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(SCAN_THREADS_MAX);
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().filter_map(|other| other.join().ok()).fold(own, io::Result::and)
    })
}

fn scan_batched(
    folder: &Path,
    levels: usize,
    want: Want,
    visit: &dyn Fn(&mut [Seen]) -> bool,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    let done = scan(folder, levels, want, &mut |seen| {
        batch.push(seen);
        if batch.len() < BATCH {
            return true;
        }
        let goes_on = visit(&mut batch);
        batch.clear();
        goes_on
    });
    visit(&mut batch);
    done
}

/// False: stopped.
fn scan_folder(
    folder: &OwnedFd,
    levels: usize,
    want: Want,
    visit: &mut dyn FnMut(Seen) -> bool,
) -> io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        if levels > 0 {
            if !matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            // It may be gone, or be none of ours.
            let Ok(inner) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { continue };
            if !scan_folder(&inner, levels - 1, want, visit)? {
                return Ok(false);
            }
            continue;
        }
        match Digest::parse(name.to_bytes()) {
            Some(digest) => {
                if let Some(seen) = look(folder, name, digest, entry.file_type(), want)
                    && !visit(seen)
                {
                    return Ok(false);
                }
            }
            None => remove_left_over(folder, name, want),
        }
    }
    Ok(true)
}

/// `None`: it is no file, or gone.
fn look(folder: &OwnedFd, name: &CStr, digest: Digest, kind: FileType, want: Want) -> Option<Seen> {
    // Some file systems do not say what it is.
    if want == Want::Names && kind != FileType::Unknown {
        return (kind == FileType::RegularFile).then_some(Seen { digest, bytes: None });
    }
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then_some(Seen { digest, bytes: Some(stat.st_size as u64) })
}

fn remove_left_over(folder: &OwnedFd, name: &CStr, want: Want) {
    let Want::Sizes { temp_age_s } = want else { return };
    if is_temp(name.to_bytes())
        && let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        && unix_now() - stat.st_mtime > temp_age_s
    {
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

fn is_temp(name: &[u8]) -> bool {
    let Some((digest, rest)) = name.split_at_checked(32) else { return false };
    Digest::parse(digest).is_some()
        && rest.len() == 11
        && rest[0] == b'.'
        && rest[1..].iter().all(u8::is_ascii_digit)
}

/// The present time in seconds since 1970.
pub fn unix_now() -> i64 {
    (unix_now_ms() / 1000) as i64
}

/// Milliseconds since 1970.
pub fn unix_now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::format::{Meta, encode, tests::meta};

    /// A folder that goes with the test.
    pub(crate) struct Folder(pub PathBuf);

    impl Folder {
        pub(crate) fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("brisk-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn entry(folder: &Path, key: &[u8], body: &[u8]) -> (PathBuf, Digest, Meta) {
        let digest = Digest::of(key);
        let path = digest.path(folder, &[1, 2]);
        let meta = meta(key);
        let header = encode(&meta, body.len() as u64, crc32fast::hash(body)).unwrap();
        write(&path, &header, body).unwrap().place().unwrap();
        (path, digest, meta)
    }

    #[test]
    fn entries_come_back_from_the_disk() {
        let folder = Folder::new("disk");
        for body in [&b""[..], b"hello", &vec![7; 100_000]] {
            let (path, digest, meta) = entry(&folder.0, b"k", body);
            let object = load(&path, digest, 200_000).unwrap().unwrap();
            assert_eq!(object.meta, meta);
            assert!(matches!(&object.body, Body::Memory(have) if ****have == *body));
            let object = load(&path, digest, 0).unwrap().unwrap();
            let Body::File { fd, offset, len } = object.body else {
                assert!(body.is_empty());
                continue;
            };
            let mut have = vec![0; len as usize];
            read_exact(&fd, &mut have, offset).unwrap();
            assert_eq!(have, body);
        }
        assert!(load(&folder.0.join("none"), Digest::of(b""), 0).unwrap().is_none());
    }

    /// Whatever part of a file a killed process has written: it is no entry.
    #[test]
    fn no_half_entry_is_ever_one() {
        let folder = Folder::new("half");
        let (path, digest, _) = entry(&folder.0, b"k", b"hello world");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert!(load(&path, digest, 100).is_err(), "{len} bytes");
            assert!(load(&path, digest, 0).is_err(), "{len} bytes");
        }
        fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert!(load(&path, digest, 100).is_err());
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(matches!(load(&path, digest, 100), Err(LoadError::Format(FormatError::Damaged))));
        fs::write(&path, &whole).unwrap();
        assert!(load(&path, digest, 100).unwrap().is_some());
    }

    #[test]
    fn a_temporary_file_goes_unless_it_is_placed() {
        let folder = Folder::new("temp");
        let target = Digest::of(b"k").path(&folder.0, &[]);
        drop(Temp::create(&target).unwrap());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
        let temp = Temp::create(&target).unwrap();
        let name = temp.path.file_name().unwrap().to_owned();
        assert!(is_temp(name.as_encoded_bytes()), "{name:?}");
        temp.place().unwrap();
        assert!(target.exists());
    }

    #[test]
    fn headers_are_rewritten_only_in_the_same_file() {
        let folder = Folder::new("rewrite");
        let (path, digest, meta) = entry(&folder.0, b"k", b"body");
        let object = load(&path, digest, 100).unwrap().unwrap();
        let identity = *object.identity.get().unwrap();
        let newer = Meta { status: 201, ..meta };
        let header = format::encode_in(&newer, 4, object.body_crc, object.header_bytes as usize).unwrap();
        assert!(!rewrite_header(&path, (identity.0, identity.1 + 1), &header).unwrap());
        assert!(rewrite_header(&path, identity, &header).unwrap());
        assert_eq!(load(&path, digest, 100).unwrap().unwrap().meta.status, 201);
        assert!(!rewrite_header(&folder.0.join("none"), identity, &header).unwrap());
        let file = file::open(&path).unwrap();
        let header = encode(&newer, 4, object.body_crc).unwrap();
        copy_with_header(&path, &header, &file, u64::from(object.header_bytes), 4).unwrap().place().unwrap();
        assert!(
            matches!(load(&path, digest, 100).unwrap().unwrap().body, Body::Memory(b) if ***b == *b"body")
        );
    }

    #[test]
    fn a_scan_finds_entries_and_removes_what_was_left_behind() {
        let folder = Folder::new("scan");
        let mut want: Vec<Digest> = (0..20u8).map(|n| entry(&folder.0, &[n], b"x").1).collect();
        let (path, ..) = entry(&folder.0, b"y", b"y");
        fs::rename(&path, temp_path(&path)).unwrap();
        fs::write(path.with_file_name("foreign"), "x").unwrap();
        let find = |what: Want| {
            let mut found = Vec::new();
            let mut visit = |seen: Seen| {
                assert_eq!(seen.bytes.is_some_and(|bytes| bytes > 100), what != Want::Names);
                found.push(seen.digest);
                true
            };
            scan(&folder.0, 2, what, &mut visit).unwrap();
            found.sort();
            found
        };
        let sizes = |temp_age_s| Want::Sizes { temp_age_s };
        want.sort();
        assert_eq!(find(sizes(100)), want);
        for what in [Want::Names, sizes(100)] {
            let quick = std::sync::Mutex::new(Vec::new());
            let visit = |found: &mut [Seen]| {
                quick.lock().unwrap().extend(found.iter().map(|seen| seen.digest));
                true
            };
            scan_quickly(&folder.0, 2, what, &visit).unwrap();
            let mut quick = quick.into_inner().unwrap();
            quick.sort();
            assert_eq!(quick, want);
        }
        let inside = || fs::read_dir(path.parent().unwrap()).unwrap().count();
        let before = inside();
        assert_eq!(find(Want::Names), want);
        assert_eq!(inside(), before);
        assert_eq!(find(sizes(-10)), want);
        assert_eq!(inside(), before - 1);
        scan(&folder.0.join("none"), 2, Want::Names, &mut |_| true).unwrap();
    }
}
