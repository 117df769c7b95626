//! What end-to-end tests share: a server under test in a folder of its own, a raw HTTP/1.1 client that trusts
//! nothing, scenario files, load, and looks at processes.
//!
//! Tests never sleep for a fixed time: they [wait](wait::until) for a condition, with a deadline that only a broken
//! server reaches. Everything is on 127.0.0.1, each server has ports and files of its own, so tests run in parallel.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod apache;
pub mod application;
pub mod backend;
pub mod browser;
pub mod calls;
pub mod children;
pub mod client;
pub mod example;
pub mod forger;
pub mod h2;
pub mod h2_peer;
pub mod h3;
pub mod load;
pub mod mariadb;
pub mod mariadb_cluster;
pub mod otlp;
pub mod php;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod quic;
pub mod relay;
pub mod response;
pub mod scenario;
pub mod server;
pub mod temp;
pub mod tls;
pub mod unit;
pub mod unreported;
pub mod versions;
pub mod wait;

pub use apache::Apache;
pub use application::Application;
pub use backend::Backend;
pub use client::Client;
pub use example::{Example, Visitor};
pub use h2::H2Client;
pub use h2_peer::{H2Peer, H2Request};
pub use h3::H3Client;
pub use mariadb::MariaDb;
pub use mariadb_cluster::{Galera, Replicated};
pub use php::PhpFpm;
pub use postgres::Postgres;
pub use response::Response;
pub use server::{Builder, Server};
pub use temp::TempDir;
pub use tls::TlsClient;
pub use unit::Unit;
