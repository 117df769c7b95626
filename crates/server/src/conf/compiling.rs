//! What a location that is compiled after the start is compiled into, and by which rule.

use super::confs::Confs;
use crate::module::Row;
use crate::server_name::Name;
use brisk_conf::Directive;

/// A block into which more may be compiled: what it says, and the names of its server.
pub struct Block {
    pub(super) confs: Confs,
    pub(super) names: Vec<Name>,
}

impl Block {
    pub(super) fn new(confs: Confs, names: Option<Vec<Name>>) -> Block {
        Block { confs, names: names.unwrap_or_default() }
    }
}

/// Which directives may be compiled.
#[derive(Clone, Copy)]
pub struct Rule<'a> {
    /// Whether this one may stand there.
    /// By a function and not by a list: what may stand in a file depends on its classes and on the
    /// directive's words.
    pub allows: &'a (dyn Fn(&Row, &Directive) -> bool + Sync),
    /// What the message about another one says can be done.
    pub help: &'a str,
}

/// What holds while a location is compiled.
pub(super) struct Compiling<'a> {
    pub(super) rule: Rule<'a>,
    /// How much there was of each thing that is made at a start only.
    /// Compared after each directive, so the error names the one that has added something.
    pub(super) before: Vec<usize>,
}
