//! The nginx configuration language, free of I/O and of any directive's meaning.
//!
//! Text goes in, a tree of [`Directive`]s with source spans comes out ([`parse`]); `include` is expanded
//! through a [`Loader`] that the caller supplies, so that the same code reads a disk, a bundle handed over by
//! the master, or a fuzzer's bytes. What directives exist is data: each is a [`Row`], and [`check`](row::check)
//! compares a directive with its row. Nothing here knows a module.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod braces;
pub mod cidr;
pub mod diag;
mod excerpt;
mod foreign;
pub mod fuzz;
pub mod hints;
mod include;
mod lexer;
mod limits;
pub mod nginx;
mod parser;
pub mod row;
pub mod source;
pub mod takes;
pub mod value;

pub use diag::{Diag, Level, settle};
pub use excerpt::escape_controls;
pub use include::{Loader, NoFiles, os_text};
pub use parser::{Directive, Token, parse};
pub use row::{Applies, Arity, Context, Default, Inherit, Risk, Row};
pub use source::{FileId, SourceMap, Span};
