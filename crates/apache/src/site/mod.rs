//! Apache's own configuration files: read with all that they include, and told in Brisk's language.
//!
//! [`Files`] reads `httpd.conf`, resolves conditions, macros and includes, and remembers where each line stands. [`translate`] makes
//! directives of Brisk of what is about the machine and its virtual hosts: sockets, names, logs, TLS, aliases. What is about requests
//! (`<Directory>`, `<Location>`, `Require`, `Header` …) keeps its own language: it becomes the lines of one block `apache_site`,
//! from which a server makes [`Settings`](crate::overrides::Settings) by the same code as of `.htaccess`.
//!
//! Lines are numbered through all files, so that a line's number tells its file too.

mod balancer;
mod build;
mod draft;
mod envvars;
mod files;
mod handlers;
mod host;
mod listen;
mod locations;
mod logs;
mod mapping;
mod network;
mod proxied;
mod remote;
mod tls;
mod translate;
mod users;

pub use build::{node_of, statement};
pub use envvars::exports;
pub use files::{Arguments, Files, plain};
pub use handlers::{BACK_END, HANDLER};
pub use proxied::PROXY_HANDLER;
pub use translate::{DEFINE, ENV, MODULES, ROOT, Translated, support, translate};

#[cfg(test)]
mod tests;
