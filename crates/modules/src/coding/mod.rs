//! Content codings: `ngx_http_gzip_module`, `ngx_http_gzip_static_module`, `ngx_http_gunzip_module`, and what the usual
//! third-party modules add for Brotli and Zstandard.
//!
//! One filter compresses, in the coding that the client likes best ([`filter`]); one handler serves files that are
//! compressed already ([`precompressed`]). Each coding has its directives in a file of its own.

pub mod brotli;
pub mod encoder;
mod filter;
pub mod gunzip;
pub mod gzip;
mod kept;
mod offer;
pub mod precompressed;
pub mod rules;
mod stream;
pub mod zstd;

pub use filter::{Named, offers};
pub use offer::Offer;
pub use rules::{DICTIONARY_VARY, Rules, weaken_etag};
