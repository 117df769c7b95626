//! What serves, whatever is served: threads, logs, memory, patterns, numbers. It knows no HTTP; protocols are built on it.
#![forbid(unsafe_code)]

pub mod base64;
pub mod counters;
pub mod limits;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod names;
pub mod regex;
pub mod temp_file;
pub mod text;
pub mod vars;
