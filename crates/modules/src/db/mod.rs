//! Databases behind `stream`: `mysql_check` and `pgsql_check` ask servers for their roles, and tell a [`brisk_db::Cluster`], which sessions
//! look at. What follows from the answers is decided there, without I/O.

mod check;
mod link;
mod mysql;
mod pgsql;
mod round;
pub mod status;

pub use check::{Check, Kind};
pub use round::Rounds;
