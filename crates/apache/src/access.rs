//! Access rules: `Require` with its sections, and what Apache 2.2 had in its place.
//!
//! Nothing here grants by omission: a rule that cannot be judged stops the request.

mod compat;
mod methods;
mod require;

pub use compat::{Compat, Order, Satisfy};
pub use methods::Methods;
pub use require::{Merging, Reader, Requirements, Section, Verdict};

#[cfg(test)]
mod tests;
