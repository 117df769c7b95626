//! Supervision of child processes: one mechanism for every kind of them.
//!
//! A kind (the server's workers, a pool's master, a user's command) is a [`Policy`]. The processes of one kind that stand for
//! each other are a [`Family`], which decides what is to be done and when: start one, give one up, kill one. It makes no system
//! call and reads no clock; its caller starts and kills processes and says what has become of them. [`Orders`] keeps what a
//! process was told to do and has not answered yet.
#![forbid(unsafe_code)]

mod family;
mod orders;

pub use family::{Backoff, Due, Family, Gone, Member, Pid, Policy, State};
pub use orders::{Order, Orders};
