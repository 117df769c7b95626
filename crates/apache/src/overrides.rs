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

use crate::syntax::Node;
pub use allow::{Allow, Reads};
pub use compile::{Compiler, OUTPUT_FILTERS};
pub use sections::{Rank, Scope, ScopedSettings};
pub use settings::{
    Auth, Document, Ending, ErrorDocument, Etag, EtagChange, LogMessage, Mime, PathInfo, PhpSetting,
    RewriteOptions, Rewriting, Said, Settings,
};
pub use types::FileType;

/// Lines in which files of users that begin with no slash are in a folder: `ServerRoot`.
pub fn rooted(nodes: Vec<Node>, root: &str) -> Vec<Node> {
    let whole = |mut node: Node| {
        if let Some(children) = node.children.take() {
            node.children = Some(rooted(children, root));
        } else if node.is("AuthUserFile") || node.is("AuthGroupFile") {
            let path = node.words().next().unwrap_or_default();
            if !path.is_empty() && !path.starts_with(b"/") && node.words().count() == 1 {
                node.args = quoted(&[root.trim_end_matches('/').as_bytes(), b"/", &path].concat());
            }
        }
        node
    };
    nodes.into_iter().map(whole).collect()
}

/// A word of Apache's language that is read as this text.
pub(crate) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests;
