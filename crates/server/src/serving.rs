//! A protocol, as what lies below it sees it: by types that threads, configurations and responses hold for it and never look
//! into.

/// The types that a protocol gives. They are named where everything is known (`thread.rs`).
/// Without it a snapshot would have to know requests, and requests know the snapshot: a circle of all files.
pub trait Served: Sized + 'static {
    /// What a location does with its requests.
    type Plan: Send + Sync;
    /// The variables of a configuration.
    type Vars: Send + Sync;
    /// What a part of the program adds to configurations.
    type Module: Sync;
    /// What is kept for later requests of the thread.
    type Request;
    /// A request that waits in its connection's table entry.
    type Parked;
    /// What leaves at the end of a wake-up.
    type Burst: Default;
    /// What `early_hints_learn` has learned.
    type Learned: Default;
    /// Answers that are given again.
    type Prepared: Default;
    /// What makes fields behind a body.
    type Trailers: ?Sized;
    /// What is kept of a configuration so that parts of it can be compiled after the start.
    type Ground: Send + Sync;
    /// What was compiled since.
    type Late;
    /// What a thread has of QUIC.
    type Quic: Default;
}

/// HTTP, the one protocol of this crate.
pub enum Http {}
