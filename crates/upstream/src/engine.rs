//! What a location that passes requests on is made of: a module's protocol, and a number.
//!
//! It is given to everything that works on a request; what is done with it is in [`handler`](crate::handler).

use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers of locations.
/// From 1 on: 0 stands for connections that locations share (`Key::location`).
static IDS: AtomicUsize = AtomicUsize::new(1);

/// See the module's head.
pub struct Engine<P> {
    /// The module's part: where requests go, and in which form.
    pub protocol: P,
    /// Tells locations apart, for connections that belong to one.
    pub(crate) id: usize,
}

impl<P> Engine<P> {
    /// The engine of one more location.
    pub fn new(protocol: P) -> Engine<P> {
        Engine { protocol, id: IDS.fetch_add(1, Ordering::Relaxed) }
    }
}
