//! `mysql_split`: sessions with MySQL or MariaDB whose reads go to replicas.
//!
//! A client logs in here ([`opening`]), and with what it has shown its servers are opened ([`backend`]). Its commands are judged one by one
//! by `brisk_mysql`'s session, which knows no sockets, and carried out by [`serve`], with what they need of prepared statements
//! ([`statements`]). Clients may compress ([`packed`]), servers not. A client whose account is not known here is passed on to the primary as it is ([`whole`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accounts;
mod backend;
mod exchange;
mod known;
pub mod limits;
mod opening;
mod packed;
mod placing;
mod pool;
mod preamble;
mod reading;
mod serve;
mod split;
mod statements;
mod unanswered;
mod watch;
mod whole;
mod wire;

pub use accounts::Accounts;
pub use split::Split;
