//! Apache's configuration language and what its directives mean, without I/O and clock.
//!
//! - [`access`]: `Require`, `Order`, `Allow`, `Deny`.
//! - [`conditional`]: `<IfModule>` and its relatives, `Define`.
//! - [`decision`]: what access rules and logging in come to.
//! - [`directives`]: all of them, and where they may stand.
//! - [`syntax`]: lines, words and sections of Apache's files.
//! - [`expr`]: expressions (`<If>`, `Require expr`, `Header … expr=`), as Apache's documentation calls `ap_expr`.
//! - [`headers`], [`expires`], [`redirect`], [`setenv`], [`options`]: single directives and their relatives.
//! - [`rewrite`]: `RewriteRule` and `RewriteCond`, per server and per directory.
//! - [`spelling`]: names that were meant by one that is not there.
//! - [`site`]: the server's own files, and what virtual hosts are in Brisk's language.
//!
//! What decides knows its line ([`Origin`]), and tells it where [`Facts::is_asked_why`].
//!
//! The program that uses this crate knows the request, the file system and regular expressions; it implements [`Facts`] and
//! [`Patterns`]. This crate knows neither Brisk's configuration nor its requests.
//!
//! Semantics are those of Apache 2.4.68. Whatever is not understood is an error, which a server must answer with 500.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod access;
pub mod conditional;
pub mod decision;
pub mod digest;
pub mod directives;
pub mod escape;
pub mod expires;
pub mod expr;
mod facts;
pub mod fuzz;
pub mod glob;
pub mod headers;
pub mod limits;
pub mod modules;
pub mod negotiation;
pub mod network;
pub mod options;
mod origin;
pub mod overrides;
mod pattern;
pub mod ranges;
pub mod redirect;
pub mod rewrite;
pub mod setenv;
pub mod site;
pub mod spelling;
pub mod syntax;
mod work;

pub use facts::{EnvChange, Facts, FileTest, Measure, Stop, Value, Variable};
pub use origin::Origin;
pub use pattern::{Captures, Pattern, Patterns};
pub use work::Work;

#[cfg(test)]
mod testing;
