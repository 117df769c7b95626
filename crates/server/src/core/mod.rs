//! The two core modules: the process (`main`, `events`) and HTTP (`http`, `server`, `location`).

pub(crate) mod http2;
pub(crate) mod http3;
pub(crate) mod http_conf;
pub(crate) mod http_rows;
pub mod listen;
pub(crate) mod location_rows;
pub(crate) mod main_rows;
pub mod resolver;
pub mod server_names;
pub(crate) mod simple;
pub(crate) mod type_map;
pub(crate) mod types;

pub use crate::log::{LogLevel, LogTo};
pub use crate::memory::limit::MemoryLimit;
pub use brisk_host::main_conf::{CpuAffinity, MainConf, Processes};
pub use brisk_host::temp_file::TempPath;
pub use http_conf::{
    AliasOf, BodyFile, Charset, CoreConf, ErrorPage, Http2Conf, Http3Conf, IfModifiedSince, LimitExcept,
    LingeringClose, PageTarget, Rate, Root, Satisfy, ServerTokens, Symlinks,
};
pub use http2::HTTP2;
pub use http3::HTTP3;
pub use type_map::TypeMap;

use crate::module::Module;

/// `ngx_core_module`, `ngx_events_module`, `ngx_event_core_module` and their kin.
/// It has no `install`: nothing of the process is asked for by a request.
pub static MAIN: Module = Module {
    name: "core",
    rows: main_rows::ROWS,
    conf: || std::sync::Arc::new(MainConf::default()),
    ..Module::EMPTY
};

/// `ngx_http_core_module`.
pub static HTTP: Module = Module {
    name: "http_core",
    rows: &http_rows::ROWS,
    variables: crate::vars::builtin::VARIABLES,
    conf: || std::sync::Arc::new(CoreConf::default()),
    // Runs for every block, also where no row of this module stands: the default error log is made there.
    finish: Some(location_rows::finish),
    install: Some(crate::filters::install),
    ..Module::EMPTY
};
