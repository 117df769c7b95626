//! Temporary files, for what is too large for memory. They are made, written and removed by the pool: the loop never
//! waits for a disk.

use crate::limits::{TEMP_LEVELS_MAX, TEMP_NAMES_MAX};
use brisk_conf::os_text;
use brisk_net::{blocking, file};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The sticky bit means nothing on files. It marks those that are not for others: unlike what is kept they may go when the
/// process that made them is gone.
const PASSING: Mode = Mode::SVTX;

/// A folder for temporary files with the lengths of its levels of subfolders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempPath {
    /// The folder.
    pub path: String,
    /// How many characters of a file's name each level of folders takes.
    pub levels: Vec<u8>,
}

impl TempPath {
    /// The default of `client_body_temp_path`.
    pub fn client_body(state: &str) -> TempPath {
        TempPath { path: format!("{state}client_body_temp"), levels: Vec::new() }
    }
}

/// What becomes of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is removed at once: the file goes with its descriptor, whatever happens to the process.
    Unlinked,
    /// It is removed with its [`TempFile`].
    Removed,
    /// It stays for others.
    Kept,
}

/// A file of our own that only its user may read.
pub struct TempFile {
    /// `None` only while it is dropped.
    fd: Option<Arc<OwnedFd>>,
    path: PathBuf,
    len: u64,
    fate: Fate,
}

/// What could not be done, in nginx's words.
#[derive(Debug)]
pub struct TempError(String);

impl TempError {
    fn new(call: &str, path: &Path, error: &io::Error) -> TempError {
        TempError(format!("{call}() \"{}\" failed ({})", path.display(), os_text(error)))
    }
}

impl TempError {
    /// For errors of [`TempFile::read`].
    pub fn reading(file: &TempFile) -> impl FnOnce(io::Error) -> TempError {
        |error| TempError::new("pread", &file.path, &error)
    }
}

impl fmt::Display for TempError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TempError {}

impl TempFile {
    /// Makes an empty file, on the pool.
    pub async fn create(place: &TempPath, fate: Fate) -> Result<TempFile, TempError> {
        let place = place.clone();
        let (fd, path) = on_pool(move || create(&place, fate)).await??;
        Ok(TempFile { fd: Some(Arc::new(fd)), path, len: 0, fate })
    }

    /// Writes at the end. Gives the buffer back, emptied.
    pub async fn append(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>, TempError> {
        let (fd, at) = (self.shared(), self.len);
        let job = move || {
            let result = file::write_cold(&*fd, &bytes, at);
            (bytes, result)
        };
        let result;
        (bytes, result) = on_pool(job).await?;
        result.map_err(|error| TempError::new("pwrite", &self.path, &error))?;
        self.len += bytes.len() as u64;
        bytes.clear();
        Ok(bytes)
    }

    /// Up to `max` bytes from `offset`; none at the end.
    pub async fn read(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut buf =
            vec![0; max.min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX))];
        if buf.is_empty() {
            return Ok(buf);
        }
        let fd = self.shared();
        let count = match file::read_warm(&*fd, &mut buf, offset) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let job = move || {
                    let result = file::read_cold(&*fd, &mut buf, offset);
                    (buf, result)
                };
                let result;
                (buf, result) = on_pool(job).await.map_err(io::Error::other)?;
                result?
            }
            done => done?,
        };
        buf.truncate(count);
        Ok(buf)
    }

    fn shared(&self) -> Arc<OwnedFd> {
        self.fd.clone().expect("not being dropped")
    }

    /// The descriptor, for `sendfile`.
    pub fn fd(&self) -> &OwnedFd {
        self.fd.as_ref().expect("not being dropped")
    }

    /// The name it has, or had.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let fd = self.fd.take();
        let name = (self.fate == Fate::Removed).then(|| std::mem::take(&mut self.path));
        // The last close of a large file without a name frees its blocks, which takes time.
        let job = {
            let name = name.clone();
            move || {
                if let Some(name) = name {
                    let _ = std::fs::remove_file(name);
                }
                drop(fd);
            }
        };
        if blocking::run(job).is_err()
            && let Some(name) = name
        {
            let _ = std::fs::remove_file(name);
        }
    }
}

async fn on_pool<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T, TempError> {
    match blocking::run(job) {
        Ok(done) => Ok(done.await),
        Err(blocking::QueueFull) => Err(TempError("the queue of the thread pool is full".into())),
    }
}

fn create(place: &TempPath, fate: Fate) -> Result<(OwnedFd, PathBuf), TempError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR | if fate == Fate::Kept { Mode::empty() } else { PASSING };
    let mut tries = 0;
    loop {
        let path = file_path(place, next_number());
        let open = || rustix::fs::open(&path, flags, mode);
        let opened = match open() {
            // Folders of levels are made when they are first needed.
            Err(Errno::NOENT) => {
                let folder = path.parent().unwrap_or(&path);
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.map_err(|error| TempError::new("mkdir", folder, &error))?;
                open()
            }
            done => done,
        };
        tries += 1;
        match opened {
            Ok(fd) => {
                match fate {
                    Fate::Unlinked => drop(std::fs::remove_file(&path)),
                    // Held as long as the file is open: see `remove_stale`.
                    Fate::Removed => drop(rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared)),
                    Fate::Kept => {}
                }
                return Ok((fd, path));
            }
            Err(Errno::EXIST) if tries < TEMP_NAMES_MAX => {}
            Err(error) => return Err(TempError::new("open", &path, &error.into())),
        }
    }
}

/// Removes what a killed process has left in a folder for temporary files: files of our kind that no process holds.
pub fn remove_stale(folder: &Path) {
    remove_stale_below(folder, TEMP_LEVELS_MAX);
}

fn remove_stale_below(folder: &Path, levels: usize) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_number = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        match (entry.file_type(), name.len()) {
            (Ok(kind), 1..=3) if kind.is_dir() && is_number && levels > 0 => {
                remove_stale_below(&entry.path(), levels - 1);
            }
            (Ok(kind), 10) if kind.is_file() && is_number && is_stale(&entry.path()) => {
                let _ = std::fs::remove_file(entry.path());
            }
            _ => {}
        }
    }
}

fn is_stale(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else { return false };
    rustix::fs::fstat(&fd).is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(PASSING))
        && rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// As nginx: ten digits, the last ones of which name the folders of the levels.
fn file_path(place: &TempPath, number: u32) -> PathBuf {
    let name = format!("{number:010}");
    let mut path = PathBuf::from(&place.path);
    let mut end = name.len();
    for &level in &place.levels {
        path.push(&name[end - usize::from(level)..end]);
        end -= usize::from(level);
    }
    path.push(name);
    path
}

/// Numbers of a process follow each other; where they begin is chance, so that processes rarely meet.
fn next_number() -> u32 {
    static START: OnceLock<u32> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let start = START.get_or_init(|| {
        let mut bytes = [0; 4];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        u32::from_ne_bytes(bytes)
    });
    start.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Waits for a future of this file where there is no event loop: in tools and tests.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn place(name: &str, levels: &[u8]) -> TempPath {
        let path = std::env::temp_dir().join(format!("brisk-temp-{}-{name}", std::process::id()));
        TempPath { path: path.to_string_lossy().into_owned(), levels: levels.to_vec() }
    }

    #[test]
    fn names_as_in_nginx() {
        let at = |levels: &[u8]| {
            let place = TempPath { path: "/spool".into(), levels: levels.to_vec() };
            file_path(&place, 123_457).to_string_lossy().into_owned()
        };
        assert_eq!(at(&[]), "/spool/0000123457");
        assert_eq!(at(&[1, 2]), "/spool/7/45/0000123457");
        assert_eq!(at(&[3, 3, 3]), "/spool/457/123/000/0000123457");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let place = place("read", &[1, 2]);
        let mut file = wait(TempFile::create(&place, Fate::Kept)).unwrap();
        assert_eq!(std::fs::read_dir(&place.path).unwrap().count(), 1);
        let buffer = wait(file.append(b"hello, ".to_vec())).unwrap();
        assert!(buffer.is_empty());
        wait(file.append(b"world".to_vec())).unwrap();
        assert_eq!((file.len(), std::fs::read(file.path()).unwrap()), (12, b"hello, world".to_vec()));
        assert_eq!(std::fs::metadata(file.path()).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(std::fs::metadata(file.path().parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(wait(file.read(7, 100)).unwrap(), b"world");
        assert_eq!(wait(file.read(3, 2)).unwrap(), b"lo");
        assert_eq!(wait(file.read(12, 2)).unwrap(), b"");
        std::fs::remove_dir_all(&place.path).unwrap();
    }

    #[test]
    fn names_go_as_they_should() {
        let place = place("fates", &[]);
        let create = |fate| wait(TempFile::create(&place, fate)).unwrap();
        let (kept, removed, unlinked) = (create(Fate::Kept), create(Fate::Removed), create(Fate::Unlinked));
        let paths = [&kept, &removed, &unlinked].map(|file| file.path().to_owned());
        assert_eq!(paths.each_ref().map(|path| path.exists()), [true, true, false]);
        drop((kept, removed, unlinked));
        blocking::settle(std::time::Duration::from_secs(30));
        assert_eq!(paths.map(|path| path.exists()), [true, false, false]);
        std::fs::remove_dir_all(&place.path).unwrap();
    }

    #[test]
    fn failures_are_told_in_nginx_words() {
        let full = OFlags::RDWR | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/full", full, Mode::empty()).unwrap();
        let mut file =
            TempFile { fd: Some(Arc::new(fd)), path: "/dev/full".into(), len: 0, fate: Fate::Kept };
        let error = wait(file.append(b"x".to_vec())).unwrap_err().to_string();
        assert_eq!(error, "pwrite() \"/dev/full\" failed (28: No space left on device)");
        let nowhere = TempPath { path: "/dev/null/body".into(), levels: Vec::new() };
        let error = wait(TempFile::create(&nowhere, Fate::Unlinked)).err().unwrap().to_string();
        assert!(error.starts_with("open() \"/dev/null/body/"), "{error}");
        assert!(error.ends_with("failed (20: Not a directory)"), "{error}");
    }
}
