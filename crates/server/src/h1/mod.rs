//! HTTP/1.x connections (RFC 9112).
//!
//! The [driver](crate::driver) hands over what has come. [`hot`] answers what can be answered at once, for all readable
//! connections together. A request that waits for a back end, and for
//! nothing else, is [`parked`] in the connection's entry. Whatever else must wait (a slow client,
//! a body, a cold file, a large response) is handed to a task ([`serve`]), which gives the connection back when it is answered.

pub(crate) mod body;
pub(crate) mod head;
pub(crate) mod hot;
pub(crate) mod intake;
pub(crate) mod parked;
pub(crate) mod send;
pub(crate) mod serve;

pub use body::BodyReader;
pub(crate) use hot::requests;
pub(crate) use serve::{gone, timed_out};
