//! The thread's cache of files: open descriptors, small contents, and the knowledge that something is missing.
//!
//! An entry is used as long as its [`Watch`] is up; see [`brisk_net::watch`] for what that proves. Because some changes are
//! not reported by the kernel, an entry that is in use is also compared with the file itself once in each second. Where a
//! path cannot be watched nothing is kept and every request looks at the file.
//!
//! It belongs to one thread, and so does each open file; only the watcher is shared. It never waits for the disk:
//! what is not in the kernel's caches is [`Cold`].

use crate::counters::Counters;
use crate::limits::{
    FILE_DESCRIPTORS_MAX, FILE_ENTRIES_MAX, FILE_MEMORY_BYTES_MAX, SMALL_FILE_BYTES_MAX, TEXT_FILE_BYTES_MAX,
};
use crate::shared::Shared;
use brisk_conf::os_text;
use brisk_net::file::{self, Info, Kind, Symlinks};
use brisk_net::tally::Part;
use brisk_net::watch::{Watch, Watcher, Writing};
use brisk_net::{Content, blocking, clock};
use hashbrown::{HashMap, HashSet};
use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// An open regular file.
pub struct OpenFile {
    /// What `fstat` said of it.
    pub info: Info,
    /// Of a file that is too large for memory: sendfile(2) needs it. Its number counts against [`FILE_DESCRIPTORS_MAX`].
    pub fd: Option<OwnedFd>,
    /// Its bytes, if they are kept in memory.
    /// Of a cold file they are read by a thread of the pool, hence `Arc`.
    pub content: Option<Arc<Content>>,
}

impl OpenFile {
    /// Its bytes, if they are in memory.
    pub fn bytes(&self) -> Option<&Arc<[u8]>> {
        self.content.as_deref().map(|content| &**content)
    }
}

/// What is at a path.
#[derive(Clone)]
pub enum Found {
    /// A file.
    File(Rc<OpenFile>),
    /// A directory, or (from [`Files::stat`]) anything whose kind is in the info.
    /// Files without the right to read them, and what is no file. A handler decides what that means.
    Other(Info),
    /// There is none that can be opened, and why.
    Missing(Rc<io::Error>),
}

impl Found {
    /// What `fstat` told; `None` if there is nothing.
    pub fn info(&self) -> Option<&Info> {
        match self {
            Found::File(file) => Some(&file.info),
            Found::Other(info) => Some(info),
            Found::Missing(_) => None,
        }
    }

    /// Whether a second look has found the same. The times of a file do not tell of all writes through a memory map, so
    /// contents that are kept are compared.
    fn is_as(&self, other: &Found) -> bool {
        match (self, other) {
            (Found::File(one), Found::File(other)) => one.info == other.info && one.content == other.content,
            (Found::Other(one), Found::Other(other)) => one == other,
            (Found::Missing(one), Found::Missing(other)) => one.raw_os_error() == other.raw_os_error(),
            _ => false,
        }
    }

    /// False for failures that are ours or pass by themselves: no descriptors, no memory.
    fn is_lasting(&self) -> bool {
        // What the path and its permissions decide, so that a watch tells when it changes. EMFILE or ENOMEM would be remembered after their cause
        // has gone.
        const LASTING: [i32; 5] = [2, 13, 20, 36, 40]; // ENOENT EACCES ENOTDIR ENAMETOOLONG ELOOP
        match self {
            Found::Missing(error) => error.raw_os_error().is_some_and(|code| LASTING.contains(&code)),
            _ => true,
        }
    }
}

/// How to look.
/// Part of the key: one path may be known by several looks, each with what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Look {
    Open,
    /// As `Open`, of a file that is read as a whole to act on its text.
    Text,
    Stat,
}

/// What is asked for. The path as it is written: `PathBuf` would take `/file/` for `/file`.
/// Two looks at one path are two entries: opening needs the right to read, and a file that is only looked at costs no
/// descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    look: Look,
    symlinks: Symlinks,
    path: OsString,
}

/// The answer is not in memory: fetch it on the pool ([`fetch`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cold(pub Wanted);

/// It could not be told without waiting for the disk.
/// No call here may block the thread. What would is left to the pool.
struct MustWait;

struct Entry {
    watch: Watch,
    /// What it counts against the bound, so that it is given back exactly.
    bytes: usize,
}

/// What was found at a path.
struct Known {
    wanted: Wanted,
    found: Found,
    /// The second (since 1970) in which it was last compared with the file.
    /// Other changes are reported; this bounds how long an unreported one can go unnoticed to a second.
    compared: Cell<i64>,
}

/// What was found, by what was wanted: thousands of paths are kept once each.
struct ByWanted(Rc<Known>);

impl std::borrow::Borrow<Wanted> for ByWanted {
    fn borrow(&self) -> &Wanted {
        &self.0.wanted
    }
}

impl Hash for ByWanted {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.wanted.hash(state);
    }
}

impl PartialEq for ByWanted {
    fn eq(&self, other: &ByWanted) -> bool {
        self.0.wanted == other.0.wanted
    }
}

impl Eq for ByWanted {}

/// What an answer depends on.
#[derive(Clone)]
pub struct Dep {
    watch: Watch,
    /// `None`: it is no file.
    /// Weak: an answer that is kept must not keep a file's content or descriptor that the cache has dropped.
    known: Option<Weak<Known>>,
    /// Where those are counted who get what it is of.
    pub(crate) counted: Option<Arc<Part>>,
}

impl From<Watch> for Dep {
    fn from(watch: Watch) -> Dep {
        Dep { watch, known: None, counted: None }
    }
}

impl Dep {
    /// Of what is stored elsewhere, where requests that get it are counted. Who gets it as a prepared answer never asks there: that is counted where
    /// it is given.
    pub fn stored(watch: Watch, counted: Arc<Part>) -> Dep {
        Dep { watch, known: None, counted: Some(counted) }
    }

    /// Whether nothing was reported about it.
    pub fn is_up(&self) -> bool {
        self.watch.is_up()
    }
}

/// See the module's head.
pub struct Files {
    shared: Arc<Shared>,
    /// Whose thread's.
    index: usize,
    entries: RefCell<HashMap<ByWanted, Entry>>,
    /// Asked for once: only what is asked for again is worth a watch.
    /// Watching costs a place in the kernel's tables, of which a user has a limited number
    /// (`fs.inotify.max_user_watches`). Hashes only: what was asked for once is not worth its path. A collision costs
    /// a watch too early.
    once: RefCell<HashSet<u64>>,
    /// Both kept in step with the entries: a figure that drifts would end in a cache that keeps nothing.
    bytes: Cell<usize>,
    descriptors: Cell<usize>,
    hasher: hashbrown::DefaultHashBuilder,
    /// Whether events were drained since the last request was read.
    synced: Cell<bool>,
}

impl Files {
    /// For thread `index`.
    pub fn new(shared: Arc<Shared>, index: usize) -> Files {
        Files {
            shared,
            index,
            entries: RefCell::default(),
            once: RefCell::default(),
            bytes: Cell::new(0),
            descriptors: Cell::new(0),
            hasher: hashbrown::DefaultHashBuilder::default(),
            synced: Cell::new(false),
        }
    }

    /// A request was read, or the disk was asked: what is known of files must be confirmed before it is used.
    pub fn must_confirm(&self) {
        self.synced.set(false);
    }

    /// Takes the kernel's news of changed files, once for all requests read before.
    #[inline]
    pub fn sync(&self) {
        // The order counts: what is drained now was queued before, so it covers all changes up to the requests that
        // were read before.
        if !self.synced.replace(true)
            && let Some(watcher) = &self.shared.watcher
        {
            watcher.sync();
        }
    }

    /// Opens a file for serving. `deps` gets what the answer depends on; `None` there means "cannot be told".
    pub fn open(&self, path: &Path, symlinks: Symlinks, deps: &mut Deps<'_>) -> Result<Found, Cold> {
        self.look(Look::Open, path, symlinks, deps)
    }

    /// As [`Files::open`], with the whole text of files up to [`TEXT_FILE_BYTES_MAX`]. Who writes to it is
    /// [followed](Files::writing).
    pub fn read(&self, path: &Path, symlinks: Symlinks, deps: &mut Deps<'_>) -> Result<Found, Cold> {
        self.look(Look::Text, path, symlinks, deps)
    }

    /// What is known of who writes at this moment to a file that was [read](Files::read) twice at least.
    pub fn writing(&self, path: &Path) -> Writing {
        let Some(watcher) = &self.shared.watcher else { return Writing::Unknown };
        watcher.sync();
        watcher.writing(path)
    }

    /// What is at a path, without needing the right to read it.
    pub fn stat(&self, path: &Path, symlinks: Symlinks, deps: &mut Deps<'_>) -> Result<Found, Cold> {
        self.look(Look::Stat, path, symlinks, deps)
    }

    fn look(&self, look: Look, path: &Path, symlinks: Symlinks, deps: &mut Deps<'_>) -> Result<Found, Cold> {
        let key = Wanted { look, symlinks, path: path.as_os_str().to_owned() };
        // What the pool has found comes first: the cache may have nothing, and the disk might be cold once more.
        // `fetched` is small, a handful of files at most.
        if let Some((_, found)) = deps.fetched.iter().find(|(have, _)| *have == key) {
            // Found for this request only: it was looked at before any watch.
            deps.pure = false;
            return Ok(found.clone());
        }
        self.sync();
        // The flag first, which is a load; the second look costs a system call per second and file.
        if let Some((ByWanted(known), entry)) = self.entries.borrow().get_key_value(&key)
            && entry.watch.is_up()
            && is_current(known, &entry.watch)
        {
            deps.list.push(Dep {
                watch: entry.watch.clone(),
                known: Some(Rc::downgrade(known)),
                counted: None,
            });
            self.counters().file_hits.up();
            return Ok(known.found.clone());
        }
        self.counters().file_misses.up();
        // Dropped before the disk is asked: if that must wait, the entry must not answer for others meanwhile.
        self.drop_entry(&key);
        // What the disk says now must not be mixed with what was known before: an index file that has just gone, and
        // the old text of the one that took its place. Whatever is taken from the cache next is confirmed anew.
        self.must_confirm();
        // Whether everything is in the kernel's caches, before anything that could block.
        let Ok(found) = look_warm(look, path, symlinks) else { return Err(Cold(key)) };
        // A failure that passes must not be remembered, whatever the watch says.
        if !found.is_lasting() || !self.worth_watching(&key, deps.asks_again || !deps.fetched.is_empty()) {
            deps.pure = false;
            return Ok(found);
        }
        // Too many watches, or a file system that reports nothing: every request looks.
        let watch = |w: &Arc<Watcher>| match look {
            Look::Text => w.watch_writers(path),
            Look::Open | Look::Stat => w.watch(path),
            // Where the watch fails, nothing is kept. An answer is never older than its file, whatever the
            // kernel can do.
        };
        let Some(Ok(watch)) = self.shared.watcher.as_ref().map(watch) else {
            self.counters().file_unwatched.up();
            deps.pure = false;
            return Ok(found);
        };
        // In this order: what changes between the first look and the watch would go unnoticed.
        // Looked at again, now that changes are noticed.
        let Ok(found) = look_warm(look, path, symlinks) else { return Err(Cold(key)) };
        let known = Known { wanted: key, found: found.clone(), compared: Cell::new(clock::now().unix_secs) };
        let known = Rc::new(known);
        deps.list.push(Dep { watch: watch.clone(), known: Some(Rc::downgrade(&known)), counted: None });
        self.keep(known, watch);
        Ok(found)
    }

    /// Whether what an answer depends on is as it was. To be asked after [`Files::sync`].
    #[inline]
    pub fn holds(&self, dep: &Dep) -> bool {
        dep.watch.is_up()
            && dep
                .known
                .as_ref()
                .is_none_or(|known| known.upgrade().is_some_and(|known| is_current(&known, &dep.watch)))
    }

    /// Whether it is asked for again. `begins_anew`: by a request that has waited, and asks a second time for what it has asked before.
    /// Such a request has nothing watched: the first one in a folder waits for most names that are not there, and for what its files come to.
    fn worth_watching(&self, key: &Wanted, begins_anew: bool) -> bool {
        let mut once = self.once.borrow_mut();
        let hash = self.hasher.hash_one(key);
        if begins_anew && once.contains(&hash) {
            return false;
        }
        // The second time. A scan of many files, each once, watches none of them.
        // A folder full of files that are asked for once (a crawler) must not use up the kernel's watches.
        if once.remove(&hash) {
            return true;
        }
        // Bounded by forgetting all: what is in use comes back with its next two requests.
        if once.len() >= FILE_ENTRIES_MAX {
            once.clear();
        }
        once.insert(hash);
        false
    }

    fn keep(&self, known: Rc<Known>, watch: Watch) {
        let bytes = match &known.found {
            Found::File(file) => file.content.as_ref().map_or(0, |c| c.len()),
            _ => 0,
        };
        let descriptors = usize::from(matches!(&known.found, Found::File(file) if file.fd.is_some()));
        let full = self.entries.borrow().len() >= FILE_ENTRIES_MAX
            || self.bytes.get() + bytes > FILE_MEMORY_BYTES_MAX
            // Three bounds: small files cost memory, large ones descriptors, missing ones neither, but a place.
            || self.descriptors.get() + descriptors > FILE_DESCRIPTORS_MAX;
        // Before it is entered, so the bounds hold at every moment.
        if full {
            self.make_room();
        }
        self.bytes.set(self.bytes.get() + bytes);
        self.descriptors.set(self.descriptors.get() + descriptors);
        let old = self.entries.borrow_mut().insert(ByWanted(known), Entry { watch, bytes });
        debug_assert!(old.is_none(), "what was outdated was dropped before the disk was asked");
        self.publish();
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }

    /// Tells whoever watches what is held.
    fn publish(&self) {
        let counters = self.counters();
        counters.file_entries.set(self.entries.borrow().len() as u64);
        counters.file_bytes.set(self.bytes.get() as u64);
        counters.file_descriptors.set(self.descriptors.get() as u64);
    }

    /// Drops what is outdated, and half of the rest: what is in use comes back at once.
    fn make_room(&self) {
        let mut turn = false;
        self.entries.borrow_mut().retain(|ByWanted(known), entry| {
            // Every second one, without an order of use: a hit then writes nothing.
            turn = !turn;
            let stay = turn && entry.watch.is_up();
            if !stay {
                self.forget(known, entry);
            }
            stay
        });
    }

    fn forget(&self, known: &Known, entry: &Entry) {
        self.bytes.set(self.bytes.get() - entry.bytes);
        if matches!(&known.found, Found::File(file) if file.fd.is_some()) {
            self.descriptors.set(self.descriptors.get() - 1);
        }
    }

    fn drop_entry(&self, key: &Wanted) {
        if let Some((ByWanted(known), entry)) = self.entries.borrow_mut().remove_entry(key) {
            self.forget(&known, &entry);
            // It was in use until it changed: watch it again at once.
            self.once.borrow_mut().insert(self.hasher.hash_one(key));
        }
    }
}

/// What looking at files leaves behind in a request.
pub struct Deps<'a> {
    /// What has been depended on so far.
    pub list: &'a mut Vec<Dep>,
    /// Files that were opened on the pool for this request.
    pub fetched: &'a [(Wanted, Found)],
    /// The request may have asked for the same before.
    pub asks_again: bool,
    /// Set to false if the answer cannot be kept.
    pub pure: bool,
}

/// Whether a file is as it was known, by a look at it in each second in which it is asked for: nothing tells of writes
/// through a shared memory map, by io_submit(2), or of a mount. If it is not, all that depends on the watch is outdated.
#[inline]
fn is_current(known: &Known, watch: &Watch) -> bool {
    let now = clock::now().unix_secs;
    known.compared.get() == now || compare(known, watch, now)
}

#[cold]
fn compare(known: &Known, watch: &Watch, now: i64) -> bool {
    let Wanted { look, symlinks, path } = &known.wanted;
    // What is not in the kernel's caches is fetched as if it had never been known.
    // Warm only: a look per second must not wait for a disk either.
    let Ok(found) = look_warm(*look, Path::new(path), *symlinks) else { return false };
    let is_same = known.found.is_as(&found);
    if is_same {
        known.compared.set(now);
    } else {
        // All threads share the flag, so prepared answers of others fall with it.
        watch.entry.lower();
    }
    is_same
}

fn look_warm(look: Look, path: &Path, symlinks: Symlinks) -> Result<Found, MustWait> {
    let opened = match (look, symlinks) {
        (Look::Open | Look::Text, Symlinks::Follow) => file::open_warm(path),
        (Look::Stat, Symlinks::Follow) => file::locate_warm(path),
        // Going through the path step by step could wait at each: only if the whole is known to be in memory.
        _ => match file::locate_warm(path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
            _ => file::open_guarded(path, symlinks),
        },
    };
    match opened {
        Ok(fd) => examine(look, fd, true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(MustWait),
        Err(error) => Ok(Found::Missing(Rc::new(error))),
    }
}

/// What an open descriptor is; reads a small file's content.
fn examine(look: Look, fd: OwnedFd, warm: bool) -> Result<Found, MustWait> {
    let info = match file::info(&fd) {
        Ok(info) => info,
        Err(error) => return Ok(Found::Missing(Rc::new(error))),
    };
    if look == Look::Stat || info.kind != Kind::File {
        return Ok(Found::Other(info));
        // A small file is read as a whole now, and then answered from memory without a system call.
    }
    let kept_bytes_max = if look == Look::Text { TEXT_FILE_BYTES_MAX } else { SMALL_FILE_BYTES_MAX };
    if info.size > kept_bytes_max {
        return Ok(Found::File(Rc::new(OpenFile { info, fd: Some(fd), content: None })));
    }
    // By the size that fstat told. A file that grows while it is read is cut there, and the next look finds
    // another size.
    let mut content = vec![0; info.size as usize];
    let mut filled = 0;
    while filled < content.len() {
        let read = if warm { file::read_warm } else { file::read_cold };
        match read(&fd, &mut content[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(MustWait),
            Err(error) => return Ok(Found::Missing(Rc::new(error))),
        }
    }
    // Shorter than a moment ago: the size that counts is what could be read.
    content.truncate(filled);
    let info = Info { size: filled as u64, ..info };
    let content = Content::from(content);
    if look == Look::Open {
        content.stands_in(fd, 0);
    }
    Ok(Found::File(Rc::new(OpenFile { info, fd: None, content: Some(Arc::new(content)) })))
}

/// Fetches on the pool what was [`Cold`].
pub async fn fetch(wanted: Wanted) -> Found {
    enum Sendable {
        File(Info, Option<OwnedFd>, Option<Arc<Content>>),
        Other(Info),
        Missing(io::Error),
    }
    let job = blocking::run(move || {
        // By its own path step by step where links are refused; that may wait, which the pool is for.
        let Wanted { look, symlinks, path } = wanted;
        let opened = match (look, symlinks) {
            (Look::Stat, Symlinks::Follow) => file::locate(Path::new(&path)),
            _ => file::open_guarded(Path::new(&path), symlinks),
        };
        let found = match opened {
            Ok(fd) => examine(look, fd, false).unwrap_or_else(|MustWait| {
                Found::Missing(Rc::new(io::Error::from(io::ErrorKind::WouldBlock)))
            }),
            Err(error) => Found::Missing(Rc::new(error)),
        };
        match found {
            Found::File(file) => match Rc::try_unwrap(file) {
                // Its `Rc` was made in this job, so there is one owner.
                Ok(file) => Sendable::File(file.info, file.fd, file.content),
                Err(_) => unreachable!("nobody else has seen it"),
            },
            Found::Other(info) => Sendable::Other(info),
            Found::Missing(error) => Sendable::Missing(
                Rc::try_unwrap(error).unwrap_or_else(|shared| io::Error::from(shared.kind())),
            ),
        }
    });
    let done = match job {
        Ok(job) => job.await,
        Err(blocking::QueueFull) => {
            Sendable::Missing(io::Error::other("the queue of the thread pool is full"))
        }
    };
    match done {
        Sendable::File(info, fd, content) => Found::File(Rc::new(OpenFile { info, fd, content })),
        Sendable::Other(info) => Found::Other(info),
        Sendable::Missing(error) => Found::Missing(Rc::new(error)),
    }
}

/// nginx's form of the reason why a file could not be opened.
pub fn reason(error: &io::Error) -> String {
    os_text(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::task::{Context, Poll, Waker};

    /// What is cold must give the same answer as what is warm: looking needs no right to read.
    #[test]
    fn what_is_fetched_is_not_opened_for_a_look() {
        let path = std::env::temp_dir().join(format!("brisk-fetch-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let _socket = UnixListener::bind(&path).unwrap();
        let fetch = |look| {
            let wanted = Wanted { look, symlinks: Symlinks::Follow, path: path.clone().into() };
            let mut fetching = std::pin::pin!(fetch(wanted));
            let mut cx = Context::from_waker(Waker::noop());
            loop {
                match fetching.as_mut().poll(&mut cx) {
                    Poll::Ready(found) => return found,
                    Poll::Pending => std::thread::yield_now(),
                }
            }
        };
        // ENXIO: a socket cannot be opened.
        assert!(matches!(fetch(Look::Open), Found::Missing(error) if error.raw_os_error() == Some(6)));
        assert!(matches!(fetch(Look::Stat), Found::Other(info) if info.kind == Kind::Other));
        std::fs::remove_file(&path).unwrap();
    }
}
