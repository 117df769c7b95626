//! The folder of compressed files: names, the job that fills it, its limit.

use crate::coding::encoder::{Encoder, Op, Params};
pub use crate::limits::SOURCE_BYTES_MAX;
use crate::limits::{BEST_LEVEL_BYTES_MAX, PENDING_FILES_MAX};
use brisk_conf::os_text;
use brisk_http::negotiate::Coding;
use brisk_net::file::{self, Info};
use brisk_net::replace::replace;
use brisk_net::{background, clock};
use brisk_server::core::LogLevel;
use brisk_server::log::logs_of;
use brisk_server::request::Request;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A variant must save at least this part of the file: one in 16.
/// What saves less is not worth another file, and a client's time.
const GAIN: u64 = 16;
/// Variants made within this time are not dropped for others: a folder too small for what is in use would be filled anew
/// for ever.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// No folder holds as much.
const UNKNOWN: u64 = u64::MAX;
/// How long nothing is tried after a failure or in a full folder.
const PAUSE_MS: u64 = 10_000;

/// A file in a certain state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
    info: Info,
}

impl Source {
    pub fn new(path: &Path, info: &Info) -> Source {
        Source { path: path.to_owned(), info: *info }
    }

    /// What all variants of all states of the file have in common.
    fn stem(&self) -> String {
        // Of the path alone: it is how older states are found, to be dropped.
        format!("{:016x}", fnv1a(self.path.as_os_str().as_bytes()))
    }

    /// The name of a variant. Where two paths have the same stem the rest still tells them apart: device and inode
    /// say which file it is, time and size in which state.
    fn name(&self, coding: Coding) -> String {
        let Info { device, inode, mtime, mtime_nsec, size, .. } = self.info;
        format!("{}-{device:x}.{inode:x}-{mtime:x}.{mtime_nsec:x}-{size:x}.{}", self.stem(), coding.name())
    }
}

/// A hash that is the same in every process (FNV-1a).
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// One cache folder.
pub struct Store {
    folder: PathBuf,
    bytes_max: u64,
    /// Names of variants that wait to be made.
    pending: Mutex<HashSet<String>>,
    /// Monotonic time before which nothing is tried.
    paused_until_ms: AtomicU64,
    /// At least the bytes that the folder holds; [`UNKNOWN`] before it was looked at.
    used: AtomicU64,
}

impl Store {
    pub fn new(folder: PathBuf, bytes_max: u64) -> Arc<Store> {
        Arc::new(Store {
            folder,
            bytes_max,
            pending: Mutex::default(),
            paused_until_ms: AtomicU64::new(0),
            used: AtomicU64::new(UNKNOWN),
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a variant is, if there is one.
    pub fn path(&self, source: &Source, coding: Coding) -> PathBuf {
        // Folders by two digits, so that none has all the files.
        let stem = source.stem();
        self.folder.join(&stem[..2]).join(source.name(coding))
    }

    /// Has a variant made, unless that is under way.
    pub fn request(self: &Arc<Store>, source: Source, coding: Coding, r: &Request) {
        if clock::mono_ms() < self.paused_until_ms.load(Ordering::Relaxed) {
            return;
        }
        let name = source.name(coding);
        {
            let mut pending = self.pending();
            if pending.len() >= PENDING_FILES_MAX || !pending.insert(name.clone()) {
                return;
            }
        }
        // What the job needs: the request may be over before it begins.
        let (store, key) = (self.clone(), name.clone());
        let logs = logs_of(r);
        let started = background::run(move || {
            if let Err(error) = store.make(&source, coding) {
                store.pause();
                let (path, why) = (store.folder.display(), os_text(&error));
                logs.write(LogLevel::Error, format_args!("compress_static in \"{path}\" failed ({why})"));
            }
            store.pending().remove(&key);
        });
        // Too much waits already: the next request asks again.
        if !started {
            self.pending().remove(&name);
        }
    }

    fn pending(&self) -> MutexGuard<'_, HashSet<String>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause(&self) {
        // A fresh clock: the job's own thread has no event loop that moves it.
        self.paused_until_ms.store(clock::refresh().mono_ms + PAUSE_MS, Ordering::Relaxed);
    }

    /// Makes a variant. Runs on the background thread, hence never twice at a time.
    fn make(&self, source: &Source, coding: Coding) -> io::Result<()> {
        let path = self.path(source, coding);
        let Some(folder) = path.parent() else { return Ok(()) };
        // Another process may have made it, or an earlier job of this one.
        if path.exists() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // What the file's former states left behind goes first.
        drop_others(folder, &source.stem(), &source.name(Coding::Gzip))?;
        // Before the work is done, and for what it comes to.
        if !self.has_room(room(0))? {
            self.pause();
            return Ok(());
        }
        let Some(coded) = compress(source, coding)? else { return Ok(()) };
        let bytes = room(coded.len() as u64);
        if !self.has_room(bytes)? {
            self.pause();
            return Ok(());
        }
        // While one server follows another both may write.
        replace(&path, &coded, 0o600)?;
        self.used.store(self.used.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
        Ok(())
    }

    /// Whether so many bytes more are within the limit, if need be after others were dropped.
    fn has_room(&self, bytes: u64) -> io::Result<bool> {
        let fits = self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.bytes_max;
        Ok(fits || self.make_room(bytes)?)
    }

    /// Drops variants until there is room for so many bytes; false if those that are left are too young to be dropped.
    fn make_room(&self, wanted: u64) -> io::Result<bool> {
        let mut variants = Vec::new();
        let mut sum = 0;
        for folder in fs::read_dir(&self.folder)?.flatten() {
            // What has no name of ours is somebody else's: the path may be a mistake.
            if !is_folder_name(folder.file_name().as_bytes()) || !folder.file_type().is_ok_and(|t| t.is_dir())
            {
                continue;
            }
            let Ok(files) = fs::read_dir(folder.path()) else { continue };
            for file in files.flatten() {
                let Ok(metadata) = file.metadata() else { continue };
                if !metadata.is_file() || !is_own(folder.file_name().as_bytes(), file.file_name().as_bytes())
                {
                    continue;
                }
                let bytes = room(metadata.len());
                sum += bytes;
                variants.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), bytes, file.path()));
            }
        }
        if sum.saturating_add(wanted) > self.bytes_max {
            variants.sort_unstable();
            let old = SystemTime::now().checked_sub(KEPT_FOR).unwrap_or(SystemTime::UNIX_EPOCH);
            for (_, bytes, path) in variants.into_iter().take_while(|(made, ..)| *made < old) {
                if sum.saturating_add(wanted) <= self.bytes_max / 10 * 9 {
                    break;
                }
                // (An answer that is being sent from it keeps it until it is sent.)
                fs::remove_file(path)?;
                sum -= bytes;
            }
        }
        self.used.store(sum, Ordering::Relaxed);
        Ok(sum.saturating_add(wanted) <= self.bytes_max)
    }
}

/// Two digits, as [`Store::path`] names folders.
fn is_folder_name(name: &[u8]) -> bool {
    name.len() == 2 && name.iter().all(is_digit)
}

/// As `{:x}` writes them: no capitals.
fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Whether a file in this folder has a name that [`Source::name`] makes, or that of a draft of such a file.
fn is_own(folder: &[u8], name: &[u8]) -> bool {
    let name = variant_of_draft(name).unwrap_or(name);
    let Some((state, coding)) = split_last(name, b'.') else { return false };
    let mut parts = state.split(|&byte| byte == b'-');
    let mut next = || parts.next().unwrap_or_default();
    let (stem, file, time, size) = (next(), next(), next(), next());
    let is_number = |part: &[u8]| (1..=16).contains(&part.len()) && part.iter().all(is_digit);
    let is_pair =
        |part: &[u8]| split_last(part, b'.').is_some_and(|(one, two)| is_number(one) && is_number(two));
    Coding::ALL.iter().any(|known| known.name().as_bytes() == coding)
        && stem.len() == 16
        && is_number(stem)
        && stem.starts_with(folder)
        && is_pair(file)
        && is_pair(time)
        && is_number(size)
        && parts.next().is_none()
}

/// The name of the variant whose draft this is: `.NAME.PROCESS-NUMBER.new` ([`brisk_net::replace::draft_of`]).
fn variant_of_draft(name: &[u8]) -> Option<&[u8]> {
    let (name, writer) = split_last(name.strip_prefix(b".")?.strip_suffix(b".new")?, b'.')?;
    let (process, number) = split_last(writer, b'-')?;
    let is_decimal = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    (is_decimal(process) && is_decimal(number)).then_some(name)
}

fn split_last(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memrchr(at, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// What a file takes; an empty one takes room too, if only in its folder.
fn room(length: u64) -> u64 {
    length.max(512)
}

/// Drops variants of a file's other states: same stem, another rest.
fn drop_others(folder: &Path, stem: &str, name: &str) -> io::Result<()> {
    let state = name.rsplit_once('.').map_or(name, |(state, _)| state);
    let own = &stem.as_bytes()[..2];
    for entry in fs::read_dir(folder)?.flatten() {
        let have = entry.file_name();
        let have = have.as_bytes();
        if !is_own(own, have) {
            continue;
        }
        let is_other = have.starts_with(stem.as_bytes()) && !have.starts_with(format!("{state}.").as_bytes());
        // Left behind by a process that was killed; while one server follows another both may write.
        let is_left = have.starts_with(b".")
            && entry
                .metadata()
                .and_then(|m| m.modified())
                .is_ok_and(|made| made.elapsed().is_ok_and(|age| age > KEPT_FOR));
        if is_other || is_left {
            fs::remove_file(folder.join(OsStr::from_bytes(have)))?;
        }
    }
    Ok(())
}

/// The compressed file, empty if that is no gain. `None`: the file is no longer what it was.
/// Read and looked at again: it may have been written to while it was read.
fn compress(source: &Source, coding: Coding) -> io::Result<Option<Vec<u8>>> {
    let same = |info: Info| {
        let Info { device, inode, mtime, mtime_nsec, ctime, ctime_nsec, size, .. } = source.info;
        (info.device, info.inode, info.mtime, info.mtime_nsec) == (device, inode, mtime, mtime_nsec)
            && (info.ctime, info.ctime_nsec, info.size) == (ctime, ctime_nsec, size)
    };
    // It may have gone, or be readable no longer: whoever asks for it will be told.
    let Ok(fd) = file::open(&source.path) else { return Ok(None) };
    if !same(file::info(&fd)?) {
        return Ok(None);
    }
    let mut plain = Vec::with_capacity(source.info.size as usize);
    let file = File::from(fd);
    io::Read::read_to_end(&mut io::Read::take(&file, SOURCE_BYTES_MAX + 1), &mut plain)?;
    let metadata = file.metadata()?;
    // One byte more than the limit was asked for, so that a file that grows is seen.
    let is_whole = plain.len() as u64 == source.info.size && metadata.len() == source.info.size;
    if !is_whole
        || (metadata.ctime(), metadata.ctime_nsec()) != (source.info.ctime, i64::from(source.info.ctime_nsec))
    {
        return Ok(None);
    }
    let mut encoder = Encoder::take(params(coding, source.info.size))?;
    let mut coded = Vec::new();
    encoder.encode(&plain, Op::Finish, &mut coded)?;
    if coded.len() as u64 > source.info.size - source.info.size / GAIN {
        // An empty one is stored, so that the work is not done again for every request.
        coded.clear();
    }
    Ok(Some(coded))
}

fn params(coding: Coding, size: u64) -> Params {
    let best = size <= BEST_LEVEL_BYTES_MAX;
    let (level, window) = match coding {
        Coding::Br => (if best { 11 } else { 9 }, 22),
        Coding::Zstd => (if best { 19 } else { 12 }, 0),
        Coding::Gzip => (9, 15),
    };
    Params { coding, level, window }.for_length(Some(size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::encoder::tests::{decode, text};

    /// A folder that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("brisk-compress-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn write(&self, name: &str, content: &[u8]) -> Source {
            let path = self.0.join(name);
            fs::write(&path, content).unwrap();
            Source::new(&path, &file::stat(&path).unwrap())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn files(store: &Store) -> usize {
        let Ok(folders) = fs::read_dir(&store.folder) else { return 0 };
        folders.flatten().map(|folder| fs::read_dir(folder.path()).unwrap().count()).sum()
    }

    #[test]
    fn variants_are_the_file_compressed() {
        let folder = Folder::new("variants");
        let store = Store::new(folder.0.join("cache"), 1 << 20);
        let text = text(20_000);
        let source = folder.write("a.html", &text);
        for coding in Coding::ALL {
            store.make(&source, coding).unwrap();
            let coded = fs::read(store.path(&source, coding)).unwrap();
            assert!(decode(coding, &coded) == text, "{coding:?}");
        }
        assert_eq!(files(&store), 3);
    }

    #[test]
    fn what_gains_nothing_is_remembered_as_empty() {
        let folder = Folder::new("noise");
        let store = Store::new(folder.0.join("cache"), 1 << 20);
        let mut seed = 1u64;
        let noise = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        });
        let source = folder.write("noise", &noise.take(5000).collect::<Vec<u8>>());
        store.make(&source, Coding::Br).unwrap();
        assert_eq!(fs::read(store.path(&source, Coding::Br)).unwrap(), b"");
    }

    #[test]
    fn a_changed_file_gets_another_variant_and_loses_the_old_one() {
        let folder = Folder::new("changes");
        let store = Store::new(folder.0.join("cache"), 1 << 20);
        let before = folder.write("a.html", &text(9_000));
        store.make(&before, Coding::Br).unwrap();
        store.make(&before, Coding::Gzip).unwrap();
        let after = folder.write("a.html", &text(10_000));
        assert_ne!(store.path(&before, Coding::Br), store.path(&after, Coding::Br));
        // What is asked for with an outdated idea of the file is not made.
        fs::remove_file(store.path(&before, Coding::Br)).unwrap();
        store.make(&before, Coding::Br).unwrap();
        assert!(!store.path(&before, Coding::Br).exists());
        store.make(&after, Coding::Br).unwrap();
        assert_eq!(files(&store), 1);
        // A file that is gone leaves all quiet.
        fs::remove_file(&after.path).unwrap();
        store.make(&after, Coding::Gzip).unwrap();
        assert_eq!(files(&store), 1);
    }

    #[test]
    fn a_full_folder_drops_the_oldest_but_nothing_young() {
        let folder = Folder::new("full");
        let store = Store::new(folder.0.join("cache"), 6000);
        let sources: Vec<_> = (0..8).map(|n| folder.write(&format!("{n}"), &text(5000 + n))).collect();
        let made = |source: &Source| store.path(source, Coding::Gzip).exists();
        for source in &sources {
            store.make(source, Coding::Gzip).unwrap();
        }
        let young = sources.iter().filter(|source| made(source)).count();
        assert!((1..8).contains(&young), "{young}");
        assert!(!made(&sources[7]));
        let bytes = |source: &Source| fs::metadata(store.path(source, Coding::Gzip)).map_or(0, |m| m.len());
        assert!(sources.iter().map(bytes).sum::<u64>() <= 6000);
        let long_ago = SystemTime::now() - KEPT_FOR * 2;
        File::options()
            .write(true)
            .open(store.path(&sources[0], Coding::Gzip))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        store.make(&sources[7], Coding::Gzip).unwrap();
        assert!(!made(&sources[0]) && made(&sources[7]));
    }

    /// The path may be a mistake, and then the files in it are somebody's.
    #[test]
    fn files_of_others_are_left_alone() {
        let folder = Folder::new("others");
        let store = Store::new(folder.0.clone(), 3000);
        let source = folder.write("a.html", &text(5000));
        let stem = source.stem();
        let ours = store.path(&source, Coding::Br);
        let name = ours.file_name().unwrap().to_str().unwrap().to_string();
        let sub = &stem[..2];
        let other_sub = if sub == "ab" { "cd" } else { "ab" };
        let long_ago = SystemTime::now() - KEPT_FOR * 2;
        let old = |path: String| {
            let path = folder.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, [b'x'; 2000]).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
            path
        };
        let theirs = [
            "documents/letter.txt".to_string(),
            format!("documents/{name}"),
            format!("{other_sub}/{name}"),
            format!("{sub}/letter.txt"),
            format!("{sub}/.htaccess"),
            format!("{sub}/.letter.1-0.new"),
            format!("{sub}/{stem}"),
            format!("{sub}/{stem}.br"),
            format!("{sub}/{stem}-1.2-3.4-5.txt"),
            format!("{sub}/{stem}-1.2-3.4-5-6.br"),
            format!("{sub}/{}", name.to_uppercase()),
        ]
        .map(old);
        fs::create_dir_all(folder.0.join(format!("{sub}/.git"))).unwrap();
        let own = [format!("{sub}/{stem}-1.2-3.4-5.br"), format!("{sub}/.{name}.12-3.new")].map(old);
        store.make(&source, Coding::Br).unwrap();
        assert!(store.make_room(3000).is_ok());
        for path in theirs {
            assert!(path.exists(), "{}", path.display());
        }
        for path in own {
            assert!(!path.exists(), "{}", path.display());
        }
        assert!(ours.exists(), "too young to be dropped");
    }

    #[test]
    fn a_folder_that_cannot_be_is_an_error() {
        let store = Store::new("/proc/nowhere".into(), 1 << 20);
        let folder = Folder::new("error");
        assert!(store.make(&folder.write("a", &text(1000)), Coding::Gzip).is_err());
    }
}
