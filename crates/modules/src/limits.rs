//! What `limit_req` and `limit_conn` share: their words, keys and outcomes, and zones cut into parts with a lock each.

use brisk_conf::{Diag, Span};
use brisk_server::conf::Cx;
use brisk_server::core::LogLevel;
use brisk_server::metrics::{Counter, Scrape};
use brisk_server::request::Request;
use brisk_server::rlog;
use brisk_server::vars::Template;
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A part has at least this much memory; smaller zones have fewer parts.
const PART_BYTES_MIN: u64 = 64 << 10;
const PARTS_MAX: u64 = 16;

/// A zone's state in parts: threads seldom meet, and each lock is held for a look-up only.
pub struct Parts<T> {
    parts: Box<[Mutex<T>]>,
    hasher: DefaultHashBuilder,
}

impl<T> Parts<T> {
    /// `make` gets the bytes that a part may take.
    pub fn new(bytes: u64, make: impl Fn(usize) -> T) -> Parts<T> {
        let count = (bytes / PART_BYTES_MIN).clamp(1, PARTS_MAX);
        let each = usize::try_from(bytes / count).unwrap_or(usize::MAX);
        Parts {
            parts: (0..count).map(|_| Mutex::new(make(each))).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The part that a key belongs to, and the key's hash.
    pub fn of(&self, key: &[u8]) -> (MutexGuard<'_, T>, u64) {
        let hash = self.hasher.hash_one(key);
        // The hash table uses the low bits and the topmost seven: these here lie between.
        let part = &self.parts[(hash >> 40) as usize % self.parts.len()];
        (part.lock().unwrap_or_else(PoisonError::into_inner), hash)
    }
}

/// A zone that a limit names. It may be declared further down in `http`.
#[derive(Clone)]
pub struct ZoneRef {
    pub name: Box<str>,
    pub span: Span,
}

impl ZoneRef {
    /// What the module has noted of the zone's declaration, once all of `http` has been read.
    pub fn declared<T: Clone + 'static>(&self, cx: &Cx<'_, '_>, module: &'static str) -> Result<T, Diag> {
        let found = cx.global.named.get(&(module, self.name.to_string()));
        found.and_then(|found| found.downcast_ref::<T>()).cloned().ok_or_else(|| {
            Diag::emerg(self.span, format!("zero size shared memory zone \"{}\"", self.name))
                .help(format!("declare it in http: {module}_zone KEY zone={}:10m …", self.name))
                .once()
        })
    }

    /// What a request is counted under, if it is.
    pub fn key(&self, key: &Template, r: &Request, module: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let (key, name) = (key.eval(r), &self.name);
        if key.len() > bytes_max {
            let what = format_args!("the key of {module}_zone \"{name}\"");
            rlog!(r, Error, "the value of {what} is more than {bytes_max} bytes");
            return None;
        }
        (!key.is_empty()).then_some(key)
    }
}

/// The levels of messages about refused requests.
pub const LEVELS: [(&str, LogLevel); 4] = [
    (LogLevel::Info.as_str(), LogLevel::Info),
    (LogLevel::Notice.as_str(), LogLevel::Notice),
    (LogLevel::Warn.as_str(), LogLevel::Warn),
    (LogLevel::Error.as_str(), LogLevel::Error),
];

/// What a limit has done to a request, once for it and its subrequests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Delayed,
    Rejected,
    DelayedDryRun,
    RejectedDryRun,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Passed => "PASSED",
            Outcome::Delayed => "DELAYED",
            Outcome::Rejected => "REJECTED",
            Outcome::DelayedDryRun => "DELAYED_DRY_RUN",
            Outcome::RejectedDryRun => "REJECTED_DRY_RUN",
        }
    }
}

/// How often a zone has said what, for whoever watches.
#[derive(Default)]
pub struct Outcomes([Counter; 5]);

impl Outcomes {
    pub fn note(&self, outcome: Outcome) {
        self.0[outcome as usize].add(1);
    }

    /// Tells the numbers of these outcomes under their names.
    pub fn tell(
        &self,
        to: &mut Scrape,
        (name, help): (&'static str, &'static str),
        zone: &str,
        outcomes: &[Outcome],
    ) {
        for &outcome in outcomes {
            let labels = [("zone", zone), ("outcome", &outcome.as_str().to_ascii_lowercase())];
            to.counter(name, help, &labels, self.0[outcome as usize].get());
        }
    }
}
