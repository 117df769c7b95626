//! Which back end gets a request: the state of the servers of one upstream, and nginx's ways to choose among them.
//!
//! Nothing here opens a connection or reads a clock: times are passed in. A [`Group`] is shared by all threads of the
//! process behind one short lock, so that `max_conns`, weights and failures are exact, whichever thread serves the request.
//! Requests for which no server has a place wait in a [`Line`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod budget;
mod checks;
mod group;
mod hash;
mod lease;
mod least;
mod limits;
mod line;
mod method;
mod peer;
mod random;
mod round_robin;
mod select;
mod sessions;
mod set;
mod status;

pub use checks::{Check, CheckId, Health};
pub use group::{Group, Resolved};
pub use lease::{Lease, Outcome, Seat, Times};
pub use line::{Line, Origin, Room, Verdict};
pub use method::{LeastTime, Measure, Method, Until};
pub use peer::{Admin, Endpoint, PeerId, PeerInfo, ServerSpec, Stats};
pub use select::{Ask, Selection};
pub use sessions::Sessions;
pub use status::{Change, NoSuchServer, PeerState, PeerStatus, ServerStatus};

#[cfg(test)]
mod tests;
