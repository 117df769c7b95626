//! Memory: what each connection holds, and how much the process may hold.

mod account;
mod budget;
pub mod limit;

pub use account::{Account, Charge, take_grown};
pub use budget::{Budget, Level, Look};
