//! One event-loop thread: its connections, caches and present configuration. What is done with them is in
//! [`thread`](crate::thread).
//!
//! All of it belongs to one thread: `RefCell` and `Cell`, no locks. No cell may stay borrowed while a handler or a
//! destructor runs, since those come back here.

use crate::connection::Connection;
use crate::files::Files;
use crate::live::Live;
use crate::request::flight::Flight;
use crate::serving::{Http, Served};
use crate::shared::{Seat, Shared};
use brisk_host::peer::Cut;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// What a connection is doing.
pub(crate) enum State<S: Served = Http> {
    /// Between requests: nothing but this entry. Ends at the deadline.
    Idle,
    /// A task works on it; it can be ended from here.
    Busy(Rc<Cut>),
    /// A request waits; `None` while it is being asked.
    Parked(Option<Box<S::Parked>>),
}

/// What is to be done about a key that the loop has told of.
pub(crate) enum Awake<S: Served = Http> {
    /// There is something to be read.
    Idle(u32, Rc<Connection>),
    /// The request that waits is to be asked again.
    Parked(u32, Rc<Connection>, Box<S::Parked>),
    /// The connection is gone, or a task's.
    Nobody,
}

pub(crate) struct Slot<S: Served = Http> {
    pub conn: Rc<Connection>,
    pub state: State<S>,
    /// When an idle connection is closed (monotonic). Moved by a store; the timer that is set may be earlier.
    pub deadline_ms: u64,
    /// The timer that is set fires at this time or earlier.
    pub timer_ms: u64,
    /// The driver's last turn that has read from it.
    /// An event for the same connection in the same turn is left alone: what was there for the first one has been
    /// read then.
    pub turn: u64,
}

/// See the module's head.
pub struct Thread<S: Served = Http> {
    /// What serves whatever is served.
    pub host: Rc<brisk_host::thread::Thread>,
    /// What all threads have in common.
    pub shared: Arc<Shared>,
    pub(crate) seat: Rc<Seat>,
    /// Files that are open or known to be missing.
    pub files: Files,
    pub(crate) live: RefCell<Rc<Live<S>>>,
    /// Each with the number of connections that its place has had, which is part of the key: an event for one that is
    /// gone finds another number.
    pub(crate) slots: RefCell<Vec<(u32, Option<Slot<S>>)>>,
    pub(crate) free: RefCell<Vec<u32>>,
    /// Requests that are over, for those that come: a new one costs its buffers' allocations.
    // Boxed: they are handed around between the table, tasks and subrequests.
    #[allow(clippy::vec_box)]
    pub(crate) requests: RefCell<Vec<Box<S::Request>>>,
    /// What each of this thread's requests waits for, by what outlives its turns.
    pub(crate) flights: RefCell<Vec<Weak<Flight>>>,
    /// `early_hints_learn`.
    pub(crate) learned: RefCell<S::Learned>,
    /// Where all connections of a turn are read to, [`ARENA_BYTES`](crate::limits::ARENA_BYTES) long.
    pub(crate) arena: RefCell<Vec<u8>>,
    /// Counts the driver's turns, from 1.
    pub(crate) turn: Cell<u64>,
    /// Output of the connection whose turn it is.
    pub(crate) out: RefCell<Vec<u8>>,
    /// What leaves at the end of the turn: see [`Burst`](crate::h1::parked::Burst).
    pub(crate) burst: RefCell<S::Burst>,
    /// HTTP/2: a response as it is put together, room for large reads, and connections with something to send.
    pub(crate) block: RefCell<Vec<u8>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// HTTP/3: what was read of a stream.
    pub(crate) block_in: RefCell<Vec<u8>>,
    pub(crate) dirty: RefCell<Vec<u32>>,
    pub(crate) quic: S::Quic,
    pub(crate) date: Cell<(i64, [u8; 29])>,
    /// Subrequests that nobody waits for.
    pub(crate) aside: Cell<u32>,
}

impl<S: Served> Deref for Thread<S> {
    type Target = Rc<brisk_host::thread::Thread>;

    fn deref(&self) -> &Rc<brisk_host::thread::Thread> {
        &self.host
    }
}
