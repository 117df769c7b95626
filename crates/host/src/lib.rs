//! What serves, whatever is served: threads, logs, memory, patterns, numbers. It knows no HTTP; protocols are built on it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
pub mod base64;
pub mod counters;
pub mod limits;
pub mod live;
pub mod log;
pub mod main_conf;
pub mod memory;
pub mod metrics;
pub mod module;
pub mod names;
pub mod news;
pub mod peer;
pub mod protocol;
pub mod regex;
pub mod server_name;
pub mod service;
pub mod snapshot;
pub mod temp_file;
pub mod text;
pub mod thread;
pub mod threads;
pub mod tls;
pub mod vars;
pub mod zone;
