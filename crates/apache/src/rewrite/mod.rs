//! `RewriteRule` and `RewriteCond`: what the rules of a server or of a directory make of a request.
//!
//! Rules are read by [`Reader`] and applied by [`per_server`] and [`per_directory`], which say what is to be done; they do
//! nothing themselves. A pass can stop because a fact is not known yet; it is begun anew then, from the same [`Target`].

mod apply;
mod context;
mod hooks;
pub mod map;
mod outcome;
mod read;
mod rule;
mod template;
mod uri;

pub use hooks::{Directory, per_directory, per_server};
pub use outcome::{Action, Cookie, Effects, Meaning, Target};
pub use read::Reader;
pub use rule::Rules;

#[cfg(test)]
mod tests;
