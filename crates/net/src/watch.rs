//! Coherent caching: knowing that a path still leads to the same, unchanged file without asking the disk.
//!
//! The kernel queues an inotify event before the call that changes a file returns. So whoever drains the queue
//! ([`Watcher::sync`]) *after* a request was read, and finds a [`Flag`] still up, may serve what was cached under
//! it: any change that finished before the request came in has lowered the flag.
//!
//! Each component of a path is watched in its directory, symbolic links included, and the watch is set *before*
//! the component is looked at, so that no change falls between. What inotify cannot see is refused
//! ([`Unwatchable`]) and must be revalidated by the caller: network file systems, FUSE, overlays, directories that
//! may be searched but not read.
//!
//! A regular file is watched itself, beside its directory. The kernel tells a directory only what is done by the name that
//! the writer opened: it hears nothing if that was a hard link elsewhere, a name that is gone (`O_TMPFILE` and linkat(2), link
//! and unlink), or another mount of the file. That costs 2.2 µs and 104 bytes for each file (kernel 6.18), and one of
//! `fs.inotify.max_user_watches`. Not reported at all are writes through a shared memory map, by io_submit(2) (Linux AIO) and by
//! polled io_uring, and a mount over a watched path: callers that keep things for long look for themselves now and then.

mod names;
#[cfg(test)]
mod tests;

use crate::limits::{EVENTS_PER_SYNC_MAX, LINKS_MAX, WATCHES_SWEPT_MAX};
use names::Names;
use rustix::fs::FileType;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::Hash;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Registrations between two sweeps for flags that are not held any more.
const SWEEP_EVERY: usize = 4096;

/// File systems whose changes inotify reports completely (for local changes: there are no others).
const COHERENT: [u64; 10] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
];

/// How many flags of this process were lowered so far.
static LOWERED: AtomicU64 = AtomicU64::new(0);

/// A number that grows with each flag that is lowered: as long as it is the same, flags that were up are up. Valid as of the last
/// [`Watcher::sync`]; to be read before the flags are.
#[inline]
pub fn lowered() -> u64 {
    LOWERED.load(Ordering::Acquire)
}

/// Up while what it stands for is unchanged.
#[derive(Debug)]
pub struct Flag(AtomicBool);

impl Flag {
    /// A flag that is lowered by its owner's hand alone, for what is no file.
    pub fn raised() -> Arc<Flag> {
        Arc::new(Flag(AtomicBool::new(true)))
    }

    /// Valid as of the last [`Watcher::sync`].
    #[inline]
    pub fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Something may have changed.
    pub fn lower(&self) {
        self.0.store(false, Ordering::Release);
        LOWERED.fetch_add(1, Ordering::Release);
    }
}

/// What is known of who writes to a file in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Nothing: its folder was not watched then, or nothing was written.
    Unknown,
    /// Something was written to it, and who did has not closed it yet.
    Open,
    /// Who wrote to it last has closed it.
    Closed,
    /// It has got its name by a rename, and nothing was written to it since: it is as whole as it was by its other name.
    Renamed,
}

/// This path cannot be watched; the error says why (`None`: its file system does not report changes).
#[derive(Debug)]
pub struct Unwatchable(pub Option<io::Error>);

/// Both flags must be up: one for the way to the directory, one for the name in it.
#[derive(Clone, Debug)]
pub struct Watch {
    /// For the way to the directory.
    pub directory: Arc<Flag>,
    /// For the name in it.
    pub entry: Arc<Flag>,
}

impl Watch {
    /// Whether nothing has changed as of the last [`Watcher::sync`].
    #[inline]
    pub fn is_up(&self) -> bool {
        self.directory.is_up() && self.entry.is_up()
    }
}

#[derive(Clone)]
struct Directory {
    flag: Arc<Flag>,
    wd: i32,
    /// Where links on the way lead to another path than the one that is asked for.
    real: Option<Box<Path>>,
    /// What its watch reports.
    events: Events,
}

/// What the watch of a folder reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Events {
    /// Names that come, go or change what they stand for. Files have watches of their own: a log in the folder costs nothing.
    Names,
    /// The same, and writes to files in it.
    Writes,
}

#[derive(Default)]
struct State {
    /// By the path asked for.
    directories: HashMap<Box<Path>, Directory>,
    /// By watch descriptor. Each watch that is not given back has its entry here.
    names: HashMap<i32, Names>,
    registrations: usize,
    /// Names whose writers are followed, in whatever watched directory.
    followed: HashSet<OsString>,
    /// What is known of them, by watch descriptor and name; [`Writing::Unknown`] is left out.
    writing: HashMap<(i32, OsString), Writing>,
}

/// The process's one inotify instance, shared by its threads.
pub struct Watcher {
    fd: OwnedFd,
    state: Mutex<State>,
}

impl Watcher {
    /// With no path yet. The error is inotify's: there are too many instances, say.
    pub fn new() -> io::Result<Watcher> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        Ok(Watcher { fd, state: Mutex::default() })
    }

    /// Readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all queued events and lowers the flags they concern.
    ///
    /// The lock is held across reading and lowering: a second thread that finds the queue empty must not go on
    /// before the first has lowered what it read.
    pub fn sync(&self) {
        let mut state = self.lock();
        let mut buf = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.fd, &mut buf);
        for _ in 0..EVENTS_PER_SYNC_MAX {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    state.apply(event.wd(), event.events(), name);
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
        // Someone writes faster than is read here, and requests wait. What has not been read is still to come; until
        // then nothing is believed.
        state.distrust();
    }

    /// Takes everything for changed: something may have happened that the kernel does not report, such as a mount.
    pub fn distrust(&self) {
        self.lock().distrust();
    }

    /// Watches the way to `path` (absolute) and the entry itself, which need not exist.
    ///
    /// Call this first and look at the file afterwards. Events that are still queued can only lower the new flags
    /// too early, never too late.
    pub fn watch(&self, path: &Path) -> Result<Watch, Unwatchable> {
        self.watch_in(path, Events::Names)
    }

    /// The same; the watch of the file's folder reports `events`.
    fn watch_in(&self, path: &Path, events: Events) -> Result<Watch, Unwatchable> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Unwatchable(None));
        };
        let mut state = self.lock();
        state.registrations += 1;
        if state.registrations.is_multiple_of(SWEEP_EVERY) {
            self.sweep(&mut state, WATCHES_SWEPT_MAX);
        }
        let directory = match state.directories.get(parent) {
            Some(known) if known.flag.is_up() && known.events >= events => known.clone(),
            _ => {
                let flag = Flag::raised();
                let (wd, real) = self.walk(&mut state, Path::new("/"), parent, &flag, Some(events))?;
                // The kernel tells by the directory's own watch when it is gone.
                state.note(wd, OsStr::new(""), &flag);
                let real = (real != parent).then(|| real.into());
                let directory = Directory { flag, wd, real, events };
                state.directories.insert(parent.into(), directory.clone());
                directory
            }
        };
        let entry = Flag::raised();
        state.note(directory.wd, name, &entry);
        let real = directory.real.as_deref().unwrap_or(parent);
        let mut last = real.join(name);
        if let Ok(target) = std::fs::read_link(&last) {
            let (wd, end) = self.walk(&mut state, real, &target, &entry, None)?;
            // A folder: without a name here its watch would never be given back.
            if wd >= 0 {
                state.note(wd, OsStr::new(""), &entry);
            }
            last = end;
        }
        if is_regular(&last) {
            let wd = self.add_file(&last)?;
            state.note(wd, OsStr::new(""), &entry);
        }
        Ok(Watch { directory: directory.flag, entry })
    }

    /// As [`Watcher::watch`], for a text that decides who may come in: [`Watcher::writing`] tells whether it is whole.
    pub fn watch_writers(&self, path: &Path) -> Result<Watch, Unwatchable> {
        if let Some(name) = path.file_name() {
            let mut state = self.lock();
            if !state.followed.contains(name) {
                state.followed.insert(name.to_owned());
            }
        }
        self.watch_in(path, Events::Writes)
    }

    /// What is known of who writes to a file that [`Watcher::watch_writers`] was asked for. What was written before the last
    /// [`Watcher::sync`] counts.
    pub fn writing(&self, path: &Path) -> Writing {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Writing::Unknown };
        let state = self.lock();
        let has_writes = |known: &&Directory| known.flag.is_up() && known.events == Events::Writes;
        let Some(directory) = state.directories.get(parent).filter(has_writes) else {
            return Writing::Unknown;
        };
        state.writing.get(&(directory.wd, name.to_owned())).copied().unwrap_or(Writing::Unknown)
    }

    /// Registers `flag` under every component of `path`, starting in `from`; returns the last directory's watch and
    /// its real path. With `events` the path names a directory, whose own watch reports them.
    fn walk(
        &self,
        state: &mut State,
        from: &Path,
        path: &Path,
        flag: &Arc<Flag>,
        events: Option<Events>,
    ) -> Result<(i32, PathBuf), Unwatchable> {
        let mut at = from.to_owned();
        let mut todo: VecDeque<OsString> = steps(path, &mut at);
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let wd = self.add(&at, Events::Names)?;
            state.note(wd, &name, flag);
            let next = at.join(&name);
            match std::fs::read_link(&next) {
                Ok(target) => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Unwatchable(Some(Errno::LOOP.into())));
                    }
                    for step in steps(&target, &mut at).into_iter().rev() {
                        todo.push_front(step);
                    }
                }
                Err(_) => at = next,
            }
        }
        match self.add(&at, events.unwrap_or(Events::Names)) {
            Ok(wd) => Ok((wd, at)),
            // The last component is a file (a link's target), or does not exist yet.
            Err(_) if events.is_none() => Ok((-1, at)),
            Err(error) => Err(error),
        }
    }

    fn add(&self, directory: &Path, events: Events) -> Result<i32, Unwatchable> {
        let mut mask = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::MASK_ADD
            | WatchFlags::ONLYDIR;
        if events == Events::Writes {
            mask |= WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE;
        }
        self.add_mask(directory, mask)
    }

    /// Watches a file itself, by whatever name it is changed.
    fn add_file(&self, file: &Path) -> Result<i32, Unwatchable> {
        self.add_mask(file, WatchFlags::ATTRIB | WatchFlags::MODIFY | WatchFlags::MASK_ADD)
    }

    fn add_mask(&self, path: &Path, mask: WatchFlags) -> Result<i32, Unwatchable> {
        let found = rustix::fs::statfs(path).map_err(|e| Unwatchable(Some(e.into())))?;
        if !COHERENT.contains(&(found.f_type as u64 & 0xffff_ffff)) {
            return Err(Unwatchable(None));
        }
        inotify::add_watch(&self.fd, path, mask).map_err(|e| Unwatchable(Some(e.into())))
    }

    /// Forgets flags that only this registry holds, and at most `max` watches without any: the kernel queues an event for each that
    /// is given back, and more than it has room for would have everything taken for changed.
    fn sweep(&self, state: &mut State, max: usize) {
        state.directories.retain(|_, d| d.flag.is_up() && Arc::strong_count(&d.flag) > 1);
        let mut empty = Vec::new();
        for (&wd, names) in &mut state.names {
            if !names.retain_held() {
                empty.push(wd);
            }
        }
        let used: HashSet<i32> = state.directories.values().map(|d| d.wd).collect();
        let gone: HashSet<i32> = empty.into_iter().filter(|wd| !used.contains(wd)).take(max).collect();
        state.writing.retain(|(wd, _), _| !gone.contains(wd));
        for wd in gone {
            state.names.remove(&wd);
            let _ = inotify::remove_watch(&self.fd, wd);
        }
        shrink(&mut state.names);
        shrink(&mut state.directories);
        shrink(&mut state.writing);
    }
}

/// Gives back what a table took when far more was watched.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(2 * table.len());
    }
}

/// Whether there is a regular file at a path (no link).
fn is_regular(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file())
}

/// The steps of a path from `at`, which becomes `/` for an absolute one.
fn steps(path: &Path, at: &mut PathBuf) -> VecDeque<OsString> {
    let mut out = VecDeque::new();
    for component in path.components() {
        match component {
            Component::RootDir => *at = PathBuf::from("/"),
            Component::Normal(name) => out.push_back(name.to_owned()),
            Component::ParentDir => out.push_back(OsString::from("..")),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

impl State {
    fn note(&mut self, wd: i32, name: &OsStr, flag: &Arc<Flag>) {
        self.names.entry(wd).or_default().add(name, flag);
    }

    /// Lowers all flags.
    fn distrust(&mut self) {
        self.names.values_mut().for_each(Names::lower_all);
        self.writing.clear();
    }

    /// Notes what an event tells of a file's writers.
    fn follow(&mut self, wd: i32, events: ReadFlags, name: &OsStr) {
        if !self.followed.contains(name) {
            return;
        }
        let key = (wd, name.to_owned());
        if events.contains(ReadFlags::MODIFY) {
            self.writing.insert(key, Writing::Open);
        } else if events.contains(ReadFlags::CLOSE_WRITE) {
            self.writing.insert(key, Writing::Closed);
        } else if events.contains(ReadFlags::MOVED_TO) {
            self.writing.insert(key, Writing::Renamed);
        } else if !events.contains(ReadFlags::ATTRIB) {
            self.writing.remove(&key);
        }
    }

    fn apply(&mut self, wd: i32, events: ReadFlags, name: Option<&OsStr>) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            self.distrust();
            return;
        }
        if events.contains(ReadFlags::IGNORED) {
            // The watch is gone and its number may come back for another directory. One that was given back has no names any more:
            // thousands of such events come at once, so they cost nothing.
            if let Some(mut names) = self.names.remove(&wd) {
                self.writing.retain(|(known, _), _| *known != wd);
                names.lower_all();
            }
            return;
        }
        // Events of a watch that was given back may be left: nothing would ever take away what they told.
        if let Some(name) = name.filter(|_| self.names.contains_key(&wd)) {
            self.follow(wd, events, name);
        }
        // It changes nothing: what was written was told of before.
        if events == ReadFlags::CLOSE_WRITE {
            return;
        }
        let Some(names) = self.names.get_mut(&wd) else { return };
        match name {
            Some(name) => names.lower(name),
            None => names.lower_all(),
        }
    }
}
