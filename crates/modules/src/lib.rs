//! nginx's modules, one file each. A module is its file and its line in [`MODULES`]; nothing else names it.
#![forbid(unsafe_code)]

#[cfg(test)]
mod check;
mod computed;
mod headers;
mod index;
mod log;
mod map;
pub mod reference;
mod rewrite;
mod static_files;
#[cfg(test)]
mod testing;
mod try_files;

use brisk_server::module::Module;

/// All modules, core first. The order is that of documentation; what runs when is decided by phases and stages.
pub static MODULES: &[&Module] = &[
    &brisk_server::core::MAIN,
    &brisk_server::core::HTTP,
    &headers::MODULE,
    &index::MODULE,
    &log::MODULE,
    &map::MODULE,
    &rewrite::MODULE,
    &try_files::MODULE,
    &static_files::MODULE,
];
