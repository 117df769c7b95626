//! Rules about the repository itself, as tests (`tests/`): a rule that no test runs is a wish.
//!
//! This library holds what they look with: the files of the repository, Rust source without its comments and strings,
//! and what cargo knows of the packages.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod imports;
pub mod packages;
pub mod source;
pub mod tree;
