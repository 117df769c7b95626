//! The outside world: event loop, sockets, timers, files, file watching, processes.
//!
//! One [`Loop`] per thread owns that thread's sockets, timers and tasks; nothing in it is locked. Threads reach
//! each other through a [`Mailbox`]. No protocol and no configuration is known here. System calls that need
//! `unsafe` live in [`sys`] alone.
#![warn(missing_docs)]

pub mod background;
pub mod blocking;
pub mod clock;
pub mod connect;
mod content;
mod event_loop;
mod failure;
pub mod fault;
pub mod file;
mod io;
mod limits;
pub mod listen;
mod mailbox;
mod pipe;
pub mod replace;
mod source;
mod stream;
#[allow(unsafe_code)]
pub mod sys;
pub mod tally;
mod task;
mod timer;
mod timers;
mod tls;
pub mod udp;
pub mod watch;

pub use content::{Content, Slice};
pub use event_loop::{Driver, Loop};
pub use failure::{Activity, Cause, Failure, Origin, Retry, Scope};
pub use io::Io;
pub use mailbox::{Mailbox, TaskId};
pub use pipe::Pipe;
pub use source::Ready;
pub use stream::Stream;
pub use task::{one_turn, spawn};
pub use timer::{Deadline, Sleep, TimedOut, Timeout, sleep, sleep_until, timeout};
pub use tls::{Handshakes, Tls, TlsError, handshakes as tls_handshakes, kernel_seals};
