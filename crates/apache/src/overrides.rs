//! What the lines of a directory come to: a `.htaccess` file, or a section about requests in the server's own files.
//!
//! [`Compiler`] makes [`Settings`] of lines that were read by [`crate::syntax`] and resolved by [`crate::conditional`]. A directory's
//! effective settings are its own [`Settings::below`] those of the directory above. A file with a single line that is not
//! understood has no settings at all: it is an error, which a server answers with 500.

mod allow;
mod compile;
mod php;
mod sections;
mod settings;
pub mod support;
mod types;

pub use allow::Allow;
pub use compile::Compiler;
pub use sections::{Rank, Scope, ScopedSettings};
pub use settings::{
    Auth, Document, Ending, Etag, Mime, PathInfo, PhpSetting, RewriteOptions, Rewriting, Said, Settings,
};
pub use types::FileType;

#[cfg(test)]
mod tests;
