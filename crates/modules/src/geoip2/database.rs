//! One database: read as a whole, looked up without I/O, and read again when the file has changed.

use brisk_net::{blocking, sleep};
use brisk_server::core::LogLevel;
use brisk_server::log::ErrorLogs;
use brisk_server::service::{Service, Work};
use maxminddb::{PathElement, Reader};
use serde::de::{Deserialize, Deserializer, Visitor};
use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// A part of the way to a value: a name in a map, or a number in an array.
pub struct Element {
    /// (Both are tried: names in maps may be numbers.)
    name: Box<str>,
    /// From the end if it is negative.
    index: Option<i64>,
}

impl Element {
    pub fn new(text: &str) -> Element {
        Element { name: text.into(), index: text.parse().ok() }
    }

    fn as_name(&self) -> PathElement<'_> {
        PathElement::Key(&self.name)
    }

    fn as_index(&self) -> PathElement<'_> {
        match self.index {
            Some(index @ 0..) => PathElement::Index(usize::try_from(index).unwrap_or(usize::MAX)),
            Some(index) => PathElement::IndexFromEnd(usize::try_from(-(index + 1)).unwrap_or(usize::MAX)),
            None => self.as_name(),
        }
    }
}

/// What tells one state of a file from another.
/// A second is too coarse: two databases may be written within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    modified: (i64, i64),
    bytes: u64,
}

/// The database as it was read last.
pub struct Known {
    pub reader: Reader<Arc<[u8]>>,
    bytes: Arc<[u8]>,
    /// `None`: it came with the configuration; the file may have changed since.
    stamp: Option<Stamp>,
    /// Seconds since 1970.
    pub last_change: u64,
}

/// See the module's head.
pub struct Database {
    /// Named again with each look: a link may lead to another file by then.
    path: String,
    reload: Option<Duration>,
    /// Seconds since 1970.
    last_check: AtomicU64,
    /// Held for as long as the pointer is copied.
    known: RwLock<Arc<Known>>,
}

impl Database {
    /// The error says what is wrong with the bytes.
    pub fn new(path: String, bytes: Arc<[u8]>, reload: Option<Duration>) -> Result<Database, String> {
        let now = now();
        let known = Known::read(bytes, None, now)?;
        Ok(Database { path, reload, last_check: now.into(), known: RwLock::new(Arc::new(known)) })
    }

    /// When the file was looked at last, in seconds since 1970.
    pub fn last_check(&self) -> u64 {
        self.last_check.load(Ordering::Relaxed)
    }

    pub fn known(&self) -> Arc<Known> {
        // A thread that panicked cannot have left it half-written: the pointer is replaced as a whole.
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, known: Known) {
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    /// Appends the value at the end of a path for an address; false if there is none, or if it is no single value.
    pub fn find(&self, address: IpAddr, path: &[Element], out: &mut Vec<u8>) -> bool {
        // The pointer is copied, so a reload in the middle of a look-up leaves the old database alive until this one is done.
        let known = self.known();
        let Ok(found) = known.reader.lookup(address) else { return false };
        let value = |path: &[PathElement<'_>]| found.decode_path::<Scalar>(path).ok().flatten();
        // Which of the two a number is shows only when it is tried.
        let by_index: Vec<_> = path.iter().map(Element::as_index).collect();
        let scalar = value(&by_index).or_else(|| {
            let has_numbers = path.iter().any(|element| element.index.is_some());
            has_numbers.then(|| value(&path.iter().map(Element::as_name).collect::<Vec<_>>())).flatten()
        });
        if let Some(Scalar(text)) = &scalar {
            out.extend_from_slice(text);
        }
        scalar.is_some()
    }

    /// Looks at the file, and takes over what it holds if that is another database. `None`: nothing has changed.
    fn check(&self) -> Result<Option<Known>, String> {
        let before = self.known();
        // Also if the look fails: the variable says when it was tried.
        self.last_check.store(now(), Ordering::Relaxed);
        let failed = |call: &str, error: std::io::Error| {
            format!("{call}() \"{}\" failed ({})", self.path, brisk_conf::os_text(&error))
        };
        // Through links, as the configuration reads it.
        let meta = std::fs::metadata(&self.path).map_err(|error| failed("stat", error))?;
        let stamp = Stamp {
            file: (meta.dev(), meta.ino()),
            modified: (meta.mtime(), meta.mtime_nsec()),
            bytes: meta.len(),
        };
        // File, time and size: `mv` of a new file changes the first, `cp` over the old one the others.
        if before.stamp == Some(stamp) {
            return Ok(None);
        }
        let bytes: Arc<[u8]> = std::fs::read(&self.path).map_err(|error| failed("open", error))?.into();
        // The same bytes under another time are no change: the variable would say that there is news.
        let change = if bytes == before.bytes { before.last_change } else { meta.mtime().max(0) as u64 };
        // One copy in memory of what is the same.
        let bytes = if bytes == before.bytes { before.bytes.clone() } else { bytes };
        Known::read(bytes, Some(stamp), change)
            .map(Some)
            .map_err(|error| format!("MMDB_open(\"{}\") failed - {error}", self.path))
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl Known {
    fn read(bytes: Arc<[u8]>, stamp: Option<Stamp>, change: u64) -> Result<Known, String> {
        let reader = Reader::from_source(bytes.clone()).map_err(|error| error.to_string())?;
        Ok(Known { reader, bytes, stamp, last_change: change })
    }
}

impl Service for Database {
    fn start(self: Arc<Self>, work: &Work) {
        let Some(interval) = self.reload else { return };
        let logs = ErrorLogs::main(&work.live);
        work.spawn(async move {
            loop {
                // First the pause: the file was read with the configuration a moment ago.
                sleep(interval).await;
                let database = self.clone();
                // The pool is full: the next interval will do.
                let Ok(job) = blocking::run(move || database.check()) else { continue };
                match job.await {
                    Ok(Some(known)) => {
                        let is_new = known.last_change != self.known().last_change;
                        self.set(known);
                        if is_new {
                            logs.write(LogLevel::Info, format_args!("Reload MMDB \"{}\"", self.path));
                        }
                    }
                    Ok(None) => {}
                    // What was read before stays in force.
                    Err(error) => logs.write(LogLevel::Error, format_args!("{error}")),
                }
            }
        });
    }
}

/// A value that is no map or array, as text.
struct Scalar(Vec<u8>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar, E> {
        // As nginx's usual module shows these types, so that maps written for it go on working.
        Ok(Scalar(if value { b"1".to_vec() } else { b"0".to_vec() }))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string().into_bytes()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar(value.to_string().into_bytes()))
    }

    // As the usual module shows what has no number in C.
    fn visit_u128<E>(self, value: u128) -> Result<Scalar, E> {
        Ok(Scalar(format!("0x{value:032x}").into_bytes()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(format!("{value:.5}").into_bytes()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Scalar, E> {
        Ok(Scalar(value.as_bytes().to_vec()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Scalar, E> {
        Ok(Scalar(value.to_vec()))
    }
}
