//! nginx's modules, one file each. A module is its file and its line in [`MODULES`]; nothing else names it.
#![forbid(unsafe_code)]

mod access;
mod autoindex;
mod charset;
#[cfg(test)]
mod check;
mod cidr;
mod coding;
mod compress_static;
mod computed;
mod geo;
mod directory;
mod empty_gif;
mod headers;
mod index;
mod log;
mod map;
mod referer;
mod media_types;
mod random_index;
pub mod reference;
mod rewrite;
mod secure_link;
mod split_clients;
mod static_files;
mod try_files;
mod userid;

use brisk_server::module::Module;

/// All modules, core first. The order is that of documentation; what runs when is decided by phases and stages.
pub static MODULES: &[&Module] = &[
    &brisk_server::core::MAIN,
    &brisk_server::core::HTTP,
    &geo::MODULE,
    &access::MODULE,
    &autoindex::MODULE,
    &charset::MODULE,
    &empty_gif::MODULE,
    &coding::gzip::MODULE,
    &coding::precompressed::MODULE,
    &coding::gunzip::MODULE,
    &coding::brotli::MODULE,
    &coding::zstd::MODULE,
    &compress_static::MODULE,
    &headers::MODULE,
    &index::MODULE,
    &log::MODULE,
    &map::MODULE,
    &referer::MODULE,
    &random_index::MODULE,
    &rewrite::MODULE,
    &secure_link::MODULE,
    &split_clients::MODULE,
    &try_files::MODULE,
    &userid::MODULE,
    &static_files::MODULE,
];
