//! Supervision of child processes: one mechanism for every kind of them.
//!
//! A kind (the server's workers, a pool's master, a user's command) is a [`Policy`]. The processes of one kind that stand for
//! each other are a [`Family`], which decides what is to be done and when: start one, give one up, kill one. It makes no system
//! call and reads no clock; its caller starts and kills processes and says what has become of them. [`Orders`] keeps what a
//! process was told to do and has not answered yet. [`Child`] starts a program: as another user, with limits, with its output as
//! lines. The server's workers are forked by the server itself, which has the same program.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod child;
mod family;
mod limits;
mod orders;

pub use child::{Child, Output};
pub use family::{Backoff, Due, Family, Gone, Member, Pid, Policy, State};
pub use orders::{Order, Orders};
