//! `ngx_http_ssl_module`: HTTPS.
//!
//! The directives are gathered per block; when a `server` is complete, [`build`] makes of them what the server crate shakes
//! hands by. Without `ssl_certificate` nothing is made.

pub(crate) mod build;
mod command;
mod conf;
pub(crate) mod peer;
pub(crate) mod rows;
#[cfg(test)]
mod tests;
pub(crate) mod variables;

use brisk_server::module::Module;
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "ssl",
    rows: rows::ROWS,
    variables: variables::VARIABLES,
    conf: || Arc::new(conf::Conf::default()),
    finish: Some(build::finish),
    ..Module::EMPTY
};
