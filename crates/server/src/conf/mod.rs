//! From directives to an immutable [`Snapshot`].
//!
//! Blocks are resolved from the outside in. Each starts with its parent's module configurations (shared until it
//! changes one), carries out its simple directives, then enters its inner blocks. When a block that serves requests
//! is complete, its modules compile it into a [`Plan`](crate::plan::Plan) and the configurations are dropped.

mod block;
mod cx;
mod snapshot;

pub use block::{Confs, build};
pub use cx::{Cx, Global, Written, invalid_parameter, invalid_value};
pub use snapshot::{
    Listen, ListenId, LocalListen, Location, LocationId, LogId, LogTarget, Prefix, Server, ServerId, Snapshot,
};

use crate::module::Module;

/// The modules of a program, core modules first.
pub type Modules = &'static [&'static Module];

/// Paths and names a configuration is resolved against.
#[derive(Clone, Debug)]
pub struct Environment {
    /// `-p`: relative paths of logs, roots and the pid file start here. Ends with a slash.
    pub prefix: String,
    /// The main file's folder: relative `include`s start here. Ends with a slash.
    pub conf_prefix: String,
    /// `-e`: where errors go until `error_log` says otherwise.
    pub error_log: String,
    /// The host's name, lower case.
    pub hostname: String,
    /// `-t`: nothing is bound or started; checks that need the running system are done by the program.
    pub test: bool,
}

impl Environment {
    /// A path of the configuration, made absolute.
    pub fn full(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_string() } else { format!("{}{path}", self.prefix) }
    }
}
