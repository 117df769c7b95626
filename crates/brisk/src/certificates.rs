//! Certificates that are replaced on disk: the master sees it, reads them — workers need not be allowed to — and hands
//! them over. Nothing else of the configuration is read again.
//!
//! Certificate and key are two files and are replaced one after the other: they are taken when they belong together, and
//! until then the old ones stay.

use crate::bundle::Bundle;
use brisk_net::watch::{Watch, Watcher};
use brisk_server::conf::Snapshot;
use brisk_server::tls::Source;
use rustix::fd::BorrowedFd;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Waited after a change, so that what belongs to it has been written too.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Files are looked at this often, because the kernel does not report all changes of them.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The certificates of the live configuration.
pub struct Certificates {
    watcher: Option<Watcher>,
    list: Vec<Watched>,
    /// When to look next.
    due: Option<Instant>,
    /// Until then the kernel is not listened to: logs in the same folder would keep the master busy.
    deaf_until: Option<Instant>,
}

struct Watched {
    source: Arc<Source>,
    /// `None`: its changes are not reported.
    watches: Option<[Watch; 2]>,
    /// What was at both paths.
    seen: [Option<Seen>; 2],
}

/// By this another file, or another content, is known.
#[derive(PartialEq, Eq)]
struct Seen {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Seen {
    fn at(path: &str) -> Option<Seen> {
        let stat = std::fs::metadata(path).ok()?;
        Some(Seen {
            file: (stat.dev(), stat.ino()),
            size: stat.size(),
            modified: (stat.mtime(), stat.mtime_nsec()),
            changed: (stat.ctime(), stat.ctime_nsec()),
        })
    }
}

impl Watched {
    fn new(source: Arc<Source>, watcher: Option<&Watcher>) -> Watched {
        let watch = |path: &str| watcher?.watch(Path::new(path)).ok();
        let watches = [watch(&source.pair.certificate), watch(&source.pair.key)];
        let watches =
            if let [Some(certificate), Some(key)] = watches { Some([certificate, key]) } else { None };
        let seen = Watched::look(&source);
        Watched { source, watches, seen }
    }

    fn look(source: &Source) -> [Option<Seen>; 2] {
        [Seen::at(&source.pair.certificate), Seen::at(&source.pair.key)]
    }

    fn may_have_changed(&self) -> bool {
        self.watches.as_ref().is_none_or(|watches| !watches.iter().all(Watch::is_up))
    }
}

/// The certificates that are read with a configuration, each once.
pub fn sources(snap: &Snapshot) -> Vec<Arc<Source>> {
    let mut seen = HashSet::new();
    let contexts = snap.servers.iter().filter_map(|server| server.tls.as_ref()?.context.as_ref());
    let all = contexts.flat_map(|context| context.sources());
    all.filter(|source| !source.pair.certificate.starts_with("data:") && seen.insert(Arc::as_ptr(source)))
        .cloned()
        .collect()
}

impl Certificates {
    /// Watches the certificates of `sources`.
    pub fn new(sources: Vec<Arc<Source>>) -> Certificates {
        let watcher = if sources.is_empty() { None } else { Watcher::new().ok() };
        // They were read before they were watched: what has changed in between is found at the first look.
        let unseen = |source| Watched { seen: [None, None], ..Watched::new(source, watcher.as_ref()) };
        let list: Vec<_> = sources.into_iter().map(unseen).collect();
        let mut certificates = Certificates { watcher, list, due: None, deaf_until: None };
        certificates.plan();
        certificates
    }

    /// Readable when something has changed near them.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let is_deaf = self.deaf_until.is_some_and(|until| Instant::now() < until);
        self.watcher.as_ref().filter(|_| !is_deaf).map(Watcher::fd)
    }

    /// When to look at [`Certificates::is_due`] and at [`Certificates::fd`] again, at the latest.
    pub fn next(&self) -> Option<Instant> {
        let deaf_until = self.deaf_until.filter(|until| *until > Instant::now());
        self.due.into_iter().chain(deaf_until).min()
    }

    /// Whether it is time for [`Certificates::changed`].
    pub fn is_due(&self) -> bool {
        self.due.is_some_and(|at| Instant::now() >= at)
    }

    /// Takes note of what the kernel reports.
    pub fn notice(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.sync();
        }
        if self.list.iter().any(|watched| watched.watches.is_some() && watched.may_have_changed()) {
            let soon = Instant::now() + SETTLE_TIME;
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
        self.deaf_until = Some(Instant::now() + SETTLE_TIME);
    }

    fn plan(&mut self) {
        self.due = (!self.list.is_empty()).then(|| Instant::now() + LOOK_INTERVAL);
    }

    /// Reads what may have changed. Gives the files that have, as they are now, and takes them into `bundle`; pairs that
    /// do not work stay as they were, and are told to `complain`.
    pub fn changed(&mut self, bundle: &mut Bundle, mut complain: impl FnMut(&str)) -> Bundle {
        let mut fresh = Bundle::default();
        for watched in &mut self.list {
            if !watched.may_have_changed() && Watched::look(&watched.source) == watched.seen {
                continue;
            }
            // Watched anew before it is read: what changes from now on is seen.
            let source = watched.source.clone();
            *watched = Watched::new(source.clone(), self.watcher.as_ref());
            let pair = &source.pair;
            let read = |path: &str| std::fs::read(path).map(Arc::<[u8]>::from);
            let (Ok(certificate), Ok(key)) = (read(&pair.certificate), read(&pair.key)) else {
                continue;
            };
            let is_same =
                |path: &str, text: &Arc<[u8]>| bundle.files.get(path).is_some_and(|have| have == text);
            if is_same(&pair.certificate, &certificate) && is_same(&pair.key, &key) {
                continue;
            }
            match source.replace(&certificate, &key) {
                Ok(()) => {
                    for (path, text) in [(&pair.certificate, certificate), (&pair.key, key)] {
                        bundle.files.insert(path.clone(), text.clone());
                        fresh.files.insert(path.clone(), text);
                    }
                }
                Err(why) => complain(&format!("{why}; the certificate in use stays")),
            }
        }
        self.plan();
        fresh
    }
}

/// Takes changed files into a configuration that is being served.
pub fn replace(snap: &Snapshot, files: &Bundle) {
    for source in sources(snap) {
        let pair = &source.pair;
        if let (Some(certificate), Some(key)) =
            (files.files.get(&pair.certificate), files.files.get(&pair.key))
        {
            // The master has tried it.
            let _ = source.replace(certificate, key);
        }
    }
}
