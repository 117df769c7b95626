//! What happens to a request, kept for somebody who asks why: `brisk why`.
//!
//! Only a process that was made for it traces. It serves one client, the program itself, and calls [`begin`] before it reads its
//! configuration. Plans then hold a [`Step`](steps) around each handler and filter, and whatever a request tells its error log is
//! kept as a [`Note`]. In every other process plans hold no such steps, and the places that tell more ask the flag that they ask
//! for debugging ([`may_debug`](crate::log::may_debug)) and nothing else.

pub(crate) mod steps;
pub(crate) mod told;

use crate::conf::ids::{LocationId, ServerId};
use crate::request::route::{Phase, Route};
use brisk_conf::Span;
use brisk_host::log::LogLevel;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use told::say;

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server was chosen, and why.
    Server,
    /// The location was chosen, and why.
    Location,
    /// A location that was not chosen, and why. [`Note::location`] is that one.
    Candidate,
    /// A rule was asked: of `rewrite`, of `access`, of a file of a folder.
    Rule {
        /// It has changed or decided something.
        applies: bool,
    },
    /// A file of a folder holds for the request.
    Text,
    /// A handler has decided.
    Step(Decision),
    /// The request ends with this status; `error_page` may have a page for it.
    Refused(u16),
    /// What `error_page` and its kin have put in the place of an error.
    Page,
    /// A field was added to the answer.
    Field,
    /// A message for the error log.
    Message(LogLevel),
    /// A handler was not carried out, because it would do more than answer.
    LeftOut,
}

/// What a handler has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: others are asked.
    Next,
    /// Access is granted.
    Allowed,
    /// The answer is complete, with this status.
    Done(u16),
    /// The request ends with this status.
    Status(u16),
    /// It goes on elsewhere, inside of the server.
    Elsewhere,
    /// The connection is closed without an answer.
    Close,
}

/// Which text has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// None that is known.
    Unknown,
    /// These bytes of the configuration.
    Span(Span),
    /// The directive with this place among those of these names that hold in the location.
    Nth(&'static [&'static str], usize),
    /// A line of a file beside those that are served, from 1.
    Line(Arc<str>, u32),
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Note {
    /// What it is about.
    pub kind: Kind,
    /// Where in its course the request was.
    pub phase: Phase,
    /// 0: what the client asked for; more: a subrequest.
    pub depth: u8,
    /// The server at that time.
    pub server: ServerId,
    /// The location at that time.
    pub location: LocationId,
    /// The module that did it; empty: the core.
    pub module: &'static str,
    /// What happened, in words.
    pub text: String,
    /// Which text has said so.
    pub source: Source,
}

impl Note {
    /// A note of the core.
    pub(crate) fn new(route: &Route, kind: Kind, text: String) -> Note {
        Note {
            kind,
            phase: route.cursor.phase,
            depth: route.depth,
            server: route.server,
            location: route.loc,
            module: "",
            text,
            source: Source::Unknown,
        }
    }
}

/// What a process has that traces.
struct Trace {
    /// Whether a module's handlers may be carried out.
    runs: fn(&str) -> bool,
    notes: Mutex<Vec<Note>>,
    /// Where the blocks of locations stand.
    blocks: Mutex<HashMap<LocationId, Span>>,
}

static TRACE: OnceLock<Trace> = OnceLock::new();

/// From now on this process traces. Before its configuration is built. `runs`: of which modules handlers are carried out; those of
/// others are left out.
pub fn begin(runs: fn(&str) -> bool) {
    let _ = TRACE.set(Trace { runs, notes: Mutex::default(), blocks: Mutex::default() });
}

/// Whether this process traces.
pub fn is_on() -> bool {
    TRACE.get().is_some()
}

/// Whether handlers of a module are carried out.
fn runs(module: &str) -> bool {
    TRACE.get().is_none_or(|trace| (trace.runs)(module))
}

/// Keeps a note.
pub(crate) fn keep(note: Note) {
    if let Some(trace) = TRACE.get() {
        trace.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

/// Keeps where the block of a location stands.
pub(crate) fn keep_block(id: LocationId, span: Span) {
    if let Some(trace) = TRACE.get() {
        trace.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(id, span);
    }
}

/// All notes since the last call.
pub fn take() -> Vec<Note> {
    let take =
        |trace: &Trace| std::mem::take(&mut *trace.notes.lock().unwrap_or_else(PoisonError::into_inner));
    TRACE.get().map(take).unwrap_or_default()
}

/// Where the block of a location stands; `None`: it was compiled after the start, or is none of this configuration.
pub fn block(id: LocationId) -> Option<Span> {
    TRACE.get()?.blocks.lock().unwrap_or_else(PoisonError::into_inner).get(&id).copied()
}
