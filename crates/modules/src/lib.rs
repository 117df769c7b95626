//! nginx's modules, one file each. A module is its file and its line in [`MODULES`]; nothing else names it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod addition;
mod address;
pub mod api;
mod auth_basic;
pub mod auth_jwt;
mod auth_request;
mod autoindex;
mod browser;
pub mod cache;
mod changing;
mod charset;
#[cfg(test)]
mod check;
mod coding;
mod compress_static;
mod computed;
#[cfg(test)]
mod core_tests;
mod dashboard;
mod dav;
pub mod db;
mod dictionary;
mod directory;
mod directory_overrides;
mod empty_gif;
mod flv;
mod forwarded;
pub mod fuzz;
mod gate;
mod gateway;
mod geo;
mod geoip2;
mod grpc;
mod headers;
mod hide_files;
pub mod htaccess;
mod image;
mod index;
mod limit_conn;
mod limit_req;
mod limiting;
mod limits;
mod log;
mod map;
mod media_types;
mod memcached;
#[cfg(test)]
mod messages_tests;
mod metrics;
mod mirror;
mod mp4;
pub mod otel;
mod overload;
mod own_handler;
mod own_page;
pub mod php;
mod proxy;
mod random_index;
mod realip;
pub mod reference;
mod referer;
mod rewrite;
mod secret;
mod secure_link;
mod slice;
mod split_clients;
mod ssi;
mod ssl;
mod static_files;
pub mod stream;
mod stub_status;
mod sub_filter;
pub mod supervise;
mod try_files;
pub mod upstream;
mod userid;
mod waiting;

use brisk_server::module::Module;

/// All modules, core first. What runs when is decided by phases and stages, and within a phase by this order: as in
/// nginx, the client's address is found (`realip`) before its requests are counted (`limit_req`), and counted before
/// they take a place (`limit_conn`).
pub static MODULES: &[&Module] = &[
    &brisk_server::core::MAIN,
    &brisk_server::core::HTTP,
    &brisk_server::core::HTTP2,
    &brisk_server::core::HTTP3,
    // Before all that ask for the client's address, which the files of folders do.
    &realip::MODULE,
    // Before all that count requests or decide about them: the files may say something else of it.
    &directory_overrides::MODULE,
    &geo::MODULE,
    &geoip2::MODULE,
    &access::MODULE,
    &api::MODULE,
    &addition::MODULE,
    &auth_basic::MODULE,
    &auth_jwt::MODULE,
    &auth_request::MODULE,
    &autoindex::MODULE,
    &browser::MODULE,
    &cache::PROXY_MODULE,
    &cache::FASTCGI_MODULE,
    &cache::SCGI_MODULE,
    &cache::UWSGI_MODULE,
    &charset::MODULE,
    &empty_gif::MODULE,
    &flv::MODULE,
    &mp4::MODULE,
    &gateway::fastcgi::MODULE,
    &gateway::scgi::MODULE,
    &gateway::uwsgi::MODULE,
    &dashboard::MODULE,
    &dav::MODULE,
    &dictionary::MODULE,
    &coding::gzip::MODULE,
    &coding::precompressed::MODULE,
    &coding::gunzip::MODULE,
    &coding::brotli::MODULE,
    &coding::zstd::MODULE,
    &compress_static::MODULE,
    &grpc::MODULE,
    &headers::MODULE,
    &hide_files::MODULE,
    &image::MODULE,
    &index::MODULE,
    &overload::MODULE,
    &limit_req::MODULE,
    &limit_conn::MODULE,
    &log::MODULE,
    &map::MODULE,
    &memcached::MODULE,
    &metrics::MODULE,
    &php::MODULE,
    &proxy::MODULE,
    &referer::MODULE,
    &random_index::MODULE,
    &rewrite::MODULE,
    // Behind it, whose handler comes after its own.
    &otel::MODULE,
    &secure_link::MODULE,
    &split_clients::MODULE,
    &ssi::MODULE,
    &ssl::MODULE,
    &ssl::peer::PROXY_MODULE,
    &ssl::peer::UWSGI_MODULE,
    &ssl::peer::GRPC_MODULE,
    &stub_status::MODULE,
    &sub_filter::MODULE,
    &supervise::MODULE,
    &try_files::MODULE,
    &directory_overrides::AGAIN,
    &mirror::MODULE,
    &userid::MODULE,
    &upstream::MODULE,
    &upstream::vars::MODULE,
    &static_files::MODULE,
    &slice::MODULE,
    &stream::MODULE,
];
