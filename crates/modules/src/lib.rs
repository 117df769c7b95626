//! nginx's modules, one file each. A module is its file and its line in [`MODULES`]; nothing else names it.
#![forbid(unsafe_code)]

mod access;
mod addition;
mod auth_basic;
mod auth_request;
mod autoindex;
mod browser;
mod charset;
#[cfg(test)]
mod check;
mod cidr;
mod coding;
mod compress_static;
mod computed;
#[cfg(test)]
mod core_tests;
mod directory;
mod empty_gif;
pub mod fuzz;
mod geo;
mod headers;
mod image;
mod index;
mod limit_conn;
mod limit_req;
mod limits;
mod log;
mod map;
mod media_types;
mod random_index;
mod realip;
pub mod reference;
mod referer;
mod rewrite;
mod secret;
mod secure_link;
mod split_clients;
mod ssi;
mod static_files;
mod stub_status;
mod sub_filter;
mod try_files;
mod userid;

use brisk_server::module::Module;

/// All modules, core first. What runs when is decided by phases and stages, and within a phase by this order: as in
/// nginx, the client's address is found (`realip`) before its requests are counted (`limit_req`), and counted before
/// they take a place (`limit_conn`).
pub static MODULES: &[&Module] = &[
    &brisk_server::core::MAIN,
    &brisk_server::core::HTTP,
    &geo::MODULE,
    &access::MODULE,
    &addition::MODULE,
    &auth_basic::MODULE,
    &auth_request::MODULE,
    &autoindex::MODULE,
    &browser::MODULE,
    &charset::MODULE,
    &empty_gif::MODULE,
    &coding::gzip::MODULE,
    &coding::precompressed::MODULE,
    &coding::gunzip::MODULE,
    &coding::brotli::MODULE,
    &coding::zstd::MODULE,
    &compress_static::MODULE,
    &headers::MODULE,
    &image::MODULE,
    &index::MODULE,
    &realip::MODULE,
    &limit_req::MODULE,
    &limit_conn::MODULE,
    &log::MODULE,
    &map::MODULE,
    &referer::MODULE,
    &random_index::MODULE,
    &rewrite::MODULE,
    &secure_link::MODULE,
    &split_clients::MODULE,
    &ssi::MODULE,
    &stub_status::MODULE,
    &sub_filter::MODULE,
    &try_files::MODULE,
    &userid::MODULE,
    &static_files::MODULE,
];
