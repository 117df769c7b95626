//! What a configuration says of the process as a whole: typed, immutable. Protocols have their own parts beside it.

use crate::log::target::{LogTarget, LogTo};
use crate::main_conf::MainConf;
use crate::service::Service;
use crate::tls::allowed::Allowed;
use crate::vars::{Names, Template};
use crate::zone::Zone;
use brisk_conf::{Context, Diag, Span};
use brisk_net::listen::{Address, Options};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

/// Index of a listening socket in the part of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenId(pub u32);

/// A socket that the configuration wants.
#[derive(Clone, Debug)]
pub struct Socket {
    /// What is listened on.
    pub address: Address,
    /// How.
    pub options: Options,
    /// Where it is asked for first.
    pub span: Span,
}

/// What a protocol has made of its part of a configuration.
pub struct Finished {
    /// The sockets that it needs.
    pub sockets: Vec<Socket>,
    /// For [`Snapshot::data`].
    pub data: Arc<dyn Any + Send + Sync>,
    /// Some error log of it wants messages of level debug.
    pub debugs: bool,
}

/// A protocol's part of a configuration while that is built.
pub trait Part: Any {
    /// The blocks that belong to the protocol: what stands there names its variables.
    fn contexts(&self) -> Context;

    /// The variables that the protocol's directives may name.
    fn names(&mut self) -> &mut dyn Names;

    /// Variables that are used and that nothing defines, with the place of their first use.
    fn undefined(&self) -> Vec<(String, Option<Span>)>;

    /// All names that could be meant.
    fn known(&self) -> Vec<String>;

    /// Which files these names come to, that its directives have said are read while connections are served. Relative ones begin
    /// at `prefix`.
    fn allowed(&mut self, names: &[Template], prefix: &str) -> Allowed;

    /// The configuration is read. Errors are appended to `diags`.
    fn finish(self: Box<Self>, diags: &mut Vec<Diag>) -> Finished;
}

/// See the module's head.
pub struct Snapshot {
    /// Directives of `main` and `events`.
    pub main: Arc<MainConf>,
    /// The main level's error logs.
    pub error_log: Arc<[LogTo]>,
    /// Sockets of all protocols.
    pub sockets: Vec<Socket>,
    /// Logs, by [`LogId`](crate::log::LogId).
    pub logs: Vec<LogTarget>,
    /// Where each of them was named first; `None`: it is a default.
    pub log_places: Vec<Option<Span>>,
    /// Folders that workers write into.
    pub folders: Vec<PathBuf>,
    /// Those of them that temporary files are in.
    pub temp_folders: Vec<PathBuf>,
    /// Shared memory by name, which a reload keeps.
    pub zones: Vec<Arc<Zone>>,
    /// What goes on while this configuration is live.
    pub services: Vec<Arc<dyn Service>>,
    /// What modules and protocols look up by type: [`Snapshot::data`].
    pub data: Vec<Arc<dyn Any + Send + Sync>>,
    /// The machine's name.
    pub hostname: Arc<str>,
    /// What relative paths are below.
    pub prefix: Arc<str>,
    /// Where the default folders for temporary files are; ends with a slash.
    pub state_folder: Arc<str>,
    /// Some error log wants messages of level debug, or everything about some clients.
    pub debugs: bool,
    /// A directive asks how long requests have been waiting for the event loop.
    pub measures_lag: bool,
    /// Workers need CAP_NET_RAW, whatever user they are.
    pub uses_raw_sockets: bool,
}

impl Snapshot {
    /// What a module or protocol has put into [`Snapshot::data`].
    pub fn data<T: Any>(&self) -> Option<&T> {
        self.data.iter().find_map(|value| value.downcast_ref())
    }

    /// The same, to be kept.
    pub fn shared_data<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.data.iter().find_map(|value| value.clone().downcast().ok())
    }

    /// Without sockets, logs, zones, services and data, for what outlives the configuration.
    #[must_use]
    pub fn reduced(&self) -> Snapshot {
        Snapshot {
            main: self.main.clone(),
            error_log: self.error_log.clone(),
            sockets: Vec::new(),
            logs: Vec::new(),
            log_places: Vec::new(),
            folders: Vec::new(),
            temp_folders: Vec::new(),
            zones: Vec::new(),
            services: Vec::new(),
            data: Vec::new(),
            hostname: self.hostname.clone(),
            prefix: self.prefix.clone(),
            state_folder: self.state_folder.clone(),
            debugs: self.debugs,
            measures_lag: self.measures_lag,
            uses_raw_sockets: self.uses_raw_sockets,
        }
    }
}
