//! HTTP/1.x connections (RFC 9112).
//!
//! A connection between requests is only an entry in its thread's table. When it becomes readable, [`hot`] reads and
//! answers what can be answered at once, for all readable connections together. A request that waits for a back end, and for
//! nothing else, is [`parked`] in the connection's entry. Whatever else must wait (a slow client,
//! a body, a cold file, a large response) is handed to a task that runs [`serve`] until the connection is idle again.

mod body;
mod head;
mod hot;
pub(crate) mod intake;
mod parked;
mod send;
pub(crate) mod serve;

pub use body::BodyReader;
pub use hot::ready;
pub(crate) use hot::{can_inline, finish, panicked};
pub(crate) use parked::{Burst, Parked, waker};
pub(crate) use send::rate_of;
pub(crate) use serve::{body_failed, close_patiently, post_action};
