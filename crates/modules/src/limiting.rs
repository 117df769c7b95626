//! What `limit_req` and `limit_conn` share: their words, keys and outcomes, and zones cut into parts with a lock each.

use crate::limits::{ZONE_PART_BYTES_MIN, ZONE_PARTS_MAX};
use brisk_conf::{Diag, Directive, Span};
use brisk_server::conf::Cx;
use brisk_server::core::LogLevel;
use brisk_server::metrics::{Counter, Scrape};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use brisk_server::vars::{Context, Template, Variable};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A zone's state in parts: threads seldom meet, and each lock is held for a look-up only.
pub struct Parts<T> {
    /// More than one only if each has room for some keys: a zone's size is a limit on the sum, and parts cannot lend
    /// each other room.
    parts: Box<[Mutex<T>]>,
    hasher: DefaultHashBuilder,
}

impl<T> Parts<T> {
    /// `make` gets the bytes that a part may take.
    pub fn new(bytes: u64, make: impl Fn(usize) -> T) -> Parts<T> {
        let count = (bytes / ZONE_PART_BYTES_MIN).clamp(1, ZONE_PARTS_MAX);
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

/// One of a block's limits: a zone, and what its module wants of it.
pub trait Limit: Clone + Send + Sync + 'static {
    /// The module, whose directives begin with it.
    const MODULE: &'static str;
    /// What the module notes of a zone's declaration.
    type Declared: Clone + 'static;

    /// The zone, as the directive names it.
    fn zone(&self) -> &ZoneRef;

    /// What is known of the zone: set when the block is complete.
    fn declared(&mut self) -> &mut Option<Self::Declared>;
}

/// The configuration of either module in one block.
#[derive(Clone)]
pub struct Conf<L> {
    /// In the order in which they are written; each zone once.
    pub limits: Vec<L>,
    /// Of messages about refused requests.
    pub level: LogLevel,
    /// Of refused requests.
    pub status: u16,
    /// Requests are only counted and logged.
    pub dry_run: bool,
}

impl<L> Default for Conf<L> {
    fn default() -> Conf<L> {
        Conf { limits: Vec::new(), level: LogLevel::Error, status: 503, dry_run: false }
    }
}

impl<L: Limit> ModuleConf for Conf<L> {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// The module of one kind of limits.
pub const fn module<L: Limit>(
    rows: &'static [Row],
    variables: &'static [Variable],
    install: fn(&Cx<'_, '_>, &mut Plan),
    metrics: fn(&mut Scrape),
) -> Module {
    Module {
        name: L::MODULE,
        rows,
        variables,
        conf: || Arc::new(Conf::<L>::default()),
        finish: Some(finish::<L>),
        install: Some(install),
        metrics: Some(metrics),
        idle_by_default: true,
        ..Module::EMPTY
    }
}

/// Adds a directive's limit to the block's. The block's first replaces what is inherited.
pub fn add<L: Limit>(cx: &mut Cx<'_, '_>, d: &Directive, limit: L) -> Result<(), Diag> {
    let is_first = cx.first;
    let conf = cx.conf::<Conf<L>>();
    if is_first {
        conf.limits.clear();
    }
    if conf.limits.iter().any(|have| have.zone().name == limit.zone().name) {
        return Err(Diag::reason(d.span, "is duplicate"));
    }
    conf.limits.push(limit);
    Ok(())
}

/// Finds the zones of this block's own limits: by now all are declared.
pub fn finish<L: Limit>(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let mut limits = cx.conf_of::<Conf<L>>().limits.clone();
    // Limits that are inherited have been found in the block that they come from.
    if limits.iter_mut().all(|limit| limit.declared().is_some()) {
        return Ok(());
    }
    for limit in &mut limits {
        if limit.declared().is_none() {
            *limit.declared() = Some(limit.zone().declared(cx, L::MODULE)?);
        }
    }
    cx.conf::<Conf<L>>().limits = limits;
    Ok(())
}

/// The error for a directive without a zone.
pub fn no_zone(d: &Directive) -> Diag {
    let help = if d.name().ends_with("_zone") {
        "write zone=NAME:SIZE, such as zone=one:10m"
    } else {
        "write zone=NAME"
    };
    Diag::emerg(d.span, format!("\"{}\" must have \"zone\" parameter", d.name())).help(help)
}

/// The rows about what is done with refused requests: `…_log_level`, `…_status`, `…_dry_run`.
macro_rules! refusal_rows {
    ($prefix:literal, $limit:ty, $contexts:expr, $level:literal, $dry_run:literal) => {
        [
            brisk_server::directive::directive(concat!($prefix, "_log_level"))
                .doc($level)
                .in_($contexts)
                .takes_one_of(&crate::limiting::LEVELS)
                .default("error")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_log_level warn;"))
                .set(|cx, d| {
                    let level = brisk_conf::value::choice(d.arg(0), &crate::limiting::LEVELS)?;
                    cx.conf::<crate::limiting::Conf<$limit>>().level = level;
                    Ok(())
                }),
            brisk_server::directive::directive(concat!($prefix, "_status"))
                .doc("The status of refused requests.")
                .in_(brisk_conf::Context::HSL)
                .takes_number()
                .range(400, 599)
                .unit("status code")
                .default("503")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_status 429;"))
                .sets(|cx, status| cx.conf::<crate::limiting::Conf<$limit>>().status = status as u16),
            brisk_server::directive::directive(concat!($prefix, "_dry_run"))
                .doc($dry_run)
                .in_($contexts)
                .takes_flag()
                .default("off")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_dry_run on;"))
                .sets(|cx, on| cx.conf::<crate::limiting::Conf<$limit>>().dry_run = on),
        ]
    };
}
pub(crate) use refusal_rows;

/// Whose zones are meant: those of `http` and `stream` are not the same, even of one name.
pub fn owner(cx: &Cx<'_, '_>, module: &'static str) -> &'static str {
    if crate::stream::part::is_in_stream(cx.block) { SESSIONS } else { module }
}

/// The zones of sessions. Of the limits only `limit_conn` is in `stream`.
pub const SESSIONS: &str = "limit_conn of stream";

/// A zone that a limit names. It may be declared further down in `http`.
#[derive(Clone)]
pub struct ZoneRef {
    pub name: Box<str>,
    pub span: Span,
}

impl ZoneRef {
    /// What the module has noted of the zone's declaration, once all of `http` has been read.
    pub fn declared<T: Clone + 'static>(&self, cx: &Cx<'_, '_>, module: &'static str) -> Result<T, Diag> {
        let found = cx.global.named.get(&(owner(cx, module), self.name.to_string()));
        found.and_then(|found| found.downcast_ref::<T>()).cloned().ok_or_else(|| {
            Diag::emerg(self.span, format!("zero size shared memory zone \"{}\"", self.name))
                .help(format!(
                    "declare it in the same http or stream: {module}_zone KEY zone={}:10m …",
                    self.name
                ))
                .once()
        })
    }

    /// What a request is counted under, if it is.
    pub fn key<C: Context>(&self, key: &Template, of: &C, module: &str, bytes_max: usize) -> Option<Vec<u8>> {
        let (key, name) = (key.eval(of), &self.name);
        // As in nginx: not counted, so not limited, either. The line says so.
        if key.len() > bytes_max {
            let what = format_args!("the key of {module}_zone \"{name}\"");
            of.log(LogLevel::Error, format_args!("the value of {what} is more than {bytes_max} bytes"));
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
