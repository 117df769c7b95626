//! Databases behind `stream`: `pgsql_check` asks servers for their roles, and tells a [`brisk_db::Cluster`], which sessions
//! look at. What follows from the answers is decided there, without I/O.

mod check;
mod link;
mod pgsql;
mod round;
pub mod status;

pub use check::{Check, Kind};
pub use round::Rounds;
