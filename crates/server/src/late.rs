//! Locations that are compiled while requests are served: what is kept of them, how they are made and swapped.
//!
//! A handler that knows of more directives for its location gives them to [`enter`]. They are compiled on the pool, once for all
//! threads, and kept in the [`Store`] of the configuration until others take their place under the same name or the
//! configuration goes. Requests that have entered a location keep it; when the last of them has gone, so does its memory.

use crate::conf::compiling::Rule;
use crate::conf::entrance::Entrance;
use crate::conf::ids::LocationId;
use crate::conf::late::{Text, compile};
use crate::conf::snapshot::Snapshot;
use crate::flow::Flow;
use crate::live::Live;
use crate::module::Row;
use crate::request::Request;
use crate::rlog;
use brisk_conf::Directive;
use brisk_net::blocking::{QueueFull, Serial};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use kept::Kept;

/// What becomes of a location whose directives cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Requests get what was compiled last under this name; the status 500 if there is nothing.
    Keep,
    /// Requests get the status 500 until the directives can be compiled.
    Close,
}

/// Whether a directive, which has this row, may stand in what is compiled.
pub type Allows = dyn Fn(&Row, &Directive) -> bool + Send + Sync;

/// Which location with which directives.
#[derive(Clone)]
pub struct Wanted {
    /// The location that is extended.
    pub into: LocationId,
    /// What the directives are kept by: others of the same name take their place.
    pub name: Box<[u8]>,
    /// Each inside of the one before.
    pub texts: Vec<Text>,
    /// Which directives may stand there.
    pub allows: Arc<Allows>,
    /// What can be done about others.
    pub help: Arc<str>,
    /// What becomes of requests if it fails.
    /// Whether a mistake closes a folder or keeps what was there depends on what the file is for: rules of
    /// access must not be lost.
    pub on_failure: OnFailure,
}

/// What became of directives.
#[derive(Clone)]
enum Outcome {
    Open(Arc<Entrance>),
    Closed,
}

impl Outcome {
    fn flow(self) -> Flow {
        match self {
            Outcome::Open(entrance) => Flow::Enter(entrance),
            Outcome::Closed => Flow::Status(500),
        }
    }

    fn retire(&self) {
        if let Outcome::Open(entrance) = self {
            entrance.retire();
        }
    }
}

/// What was compiled for one configuration, for all threads.
#[derive(Default)]
pub struct Store {
    /// The lock is held for a look-up or a swap, never while something is compiled.
    kept: Mutex<Kept<Outcome>>,
    /// Compiling is done by one thread of the pool at a time: a change that a thousand requests find is compiled once.
    line: Serial,
}

/// What compiling has to say to the error log.
#[derive(Default)]
struct Told {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Store {
    // Shared by all threads of one configuration: what one has compiled the others find.
    fn of(live: &Live) -> Option<Arc<Store>> {
        let ground = live.snap.ground.as_ref()?;
        Some(live.root().late.get_or_init(|| ground.shared()).clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept<Outcome>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of these very directives, if they were compiled.
    fn find(&self, wanted: &Wanted) -> Option<Outcome> {
        self.lock().find(wanted.into, &wanted.name, &wanted.texts)
    }

    /// Compiles directives and puts what they become in the place of what is there.
    fn make(&self, snap: &Snapshot, wanted: Wanted) -> (Outcome, Told) {
        // Another request has had it compiled while this one waited in line.
        if let Some(outcome) = self.find(&wanted) {
            return (outcome, Told::default());
        }
        let rule = Rule { allows: &*wanted.allows, help: &wanted.help };
        let (made, told) = match compile(snap, wanted.into, &wanted.texts, rule) {
            Ok(compiled) => {
                let told = Told { errors: Vec::new(), warnings: compiled.warnings };
                (Some(Outcome::Open(Arc::new(Entrance::new(compiled.snap)))), told)
            }
            Err(errors) => (None, Told { errors, warnings: Vec::new() }),
        };
        (self.swap(wanted, made), told)
    }

    /// Gives a name its new outcome. Answers that were prepared with the old one are not given any more.
    fn swap(&self, wanted: Wanted, made: Option<Outcome>) -> Outcome {
        let mut kept = self.lock();
        // Old and new are swapped under one lock, so no request sees neither.
        let old = kept.take(wanted.into, &wanted.name);
        let outcome = match (made, old) {
            (Some(made), old) => {
                if let Some(old) = old {
                    old.retire();
                }
                made
            }
            (None, Some(old)) if wanted.on_failure == OnFailure::Keep => old,
            (None, old) => {
                if let Some(old) = old {
                    // Prepared answers of the closed folder fall with it.
                    old.retire();
                }
                Outcome::Closed
            }
        };
        // What had to make room is as good as gone: its answers must not be given out either.
        for dropped in kept.put(wanted.into, wanted.name, wanted.texts, outcome.clone(), 0) {
            dropped.retire();
        }
        outcome
    }
}

/// Leads a request into its location with these directives, which are compiled first if they are new. To be returned by a
/// handler of the preaccess phase that stands before all others; the request goes on with the rewrite phase.
pub fn enter(r: &Request, wanted: Wanted) -> Flow {
    // No block has asked to be extended, so a handler has asked where it must not.
    let Some(store) = Store::of(&r.live) else {
        rlog!(r, Alert, "no location of this configuration can be extended");
        return Flow::Status(500);
    };
    match store.find(&wanted) {
        Some(outcome) => outcome.flow(),
        None => Flow::Wait(Box::new(move |r| Box::pin(make(r, store, wanted)))),
    }
}

async fn make(r: &mut Request, store: Arc<Store>, wanted: Wanted) -> Flow {
    let (snap, maker) = (r.live.snap.clone(), store.clone());
    let job = match store.line.ask(move || maker.make(&snap, wanted)) {
        Ok(job) => job,
        // 503 and not 500: it is about now, not about the file.
        Err(QueueFull) => {
            rlog!(r, Error, "the queue of the thread pool is full");
            return Flow::Status(503);
        }
    };
    let (outcome, told) = job.await;
    for warning in told.warnings {
        rlog!(r, Warn, "{warning}");
    }
    for error in told.errors {
        rlog!(r, Error, "{error}");
    }
    outcome.flow()
}

mod kept;

#[cfg(test)]
mod tests;
