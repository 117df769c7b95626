//! nginx's modules, one file each. A module is its file and its line in [`MODULES`]; nothing else names it.
#![forbid(unsafe_code)]

#[cfg(test)]
mod check;
mod cidr;
mod computed;
mod geo;
mod headers;
mod index;
mod log;
mod map;
mod referer;
mod rewrite;
mod secure_link;
mod split_clients;
mod static_files;
#[cfg(test)]
mod testing;
mod try_files;
mod userid;

use brisk_server::module::Module;

/// All modules, core first. The order is that of documentation; what runs when is decided by phases and stages.
pub static MODULES: &[&Module] = &[
    &brisk_server::core::MAIN,
    &brisk_server::core::HTTP,
    &geo::MODULE,
    &headers::MODULE,
    &index::MODULE,
    &log::MODULE,
    &map::MODULE,
    &referer::MODULE,
    &rewrite::MODULE,
    &secure_link::MODULE,
    &split_clients::MODULE,
    &try_files::MODULE,
    &userid::MODULE,
    &static_files::MODULE,
];
