//! A cluster of databases: which server is the primary, which may be read from, and how far each has come.
//!
//! Without I/O and clock: a checker asks the servers and tells a [`Cluster`] what they have said ([`Report`]); what follows
//! from that is a [`View`], which sessions of all threads read. What is not known is neither read from nor written to.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod accounts;
pub mod attrs;
pub mod cluster;
pub mod history;
mod judge;
pub mod limits;
pub mod news;
pub mod position;
pub mod report;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod view;

pub use accounts::{Account, Accounts};
pub use attrs::Attrs;
pub use cluster::{Cluster, Terms};
pub use news::News;
pub use position::Position;
pub use report::{Galera, Replication, Report, Writes};
pub use tally::{Pin, Tally};
pub use view::{NoPrimary, Role, ServerId, ServerView, Unread, View};
