//! From directives to an immutable [`Snapshot`].
//!
//! Blocks are resolved from the outside in. Each starts with its parent's module configurations (shared until it
//! changes one), carries out its simple directives, then enters its inner blocks. When a block that serves requests
//! is complete, its modules compile it into a [`Plan`](crate::plan::Plan) and the configurations are dropped.

pub(crate) mod block;
pub(crate) mod compiling;
pub(crate) mod confs;
pub(crate) mod cx;
pub(crate) mod entrance;
pub(crate) mod environment;
mod idle;
pub(crate) mod ids;
pub(crate) mod late;
pub(crate) mod listen_spec;
pub(crate) mod snapshot;
pub(crate) mod zones;

pub use crate::module::Modules;
pub use block::build;
pub use brisk_host::log::{LogId, LogTarget};
pub use brisk_host::snapshot::Socket;
pub use compiling::Rule;
pub use confs::Confs;
pub use cx::{Cx, Global, Rows, Written, invalid_parameter, invalid_value};
pub use entrance::Entrance;
pub use environment::{Environment, Places};
pub use ids::{ListenId, LocationId, ServerId};
pub use late::{Compiled, Ground, Text, compile};
pub use snapshot::{HostKey, Late, Listen, LocalListen, Location, Prefix, Server, Snapshot};
