//! Judges chains of certificates, revocation lists and OCSP answers with AWS-LC's verifier, and gives OpenSSL's verdicts:
//! `$ssl_client_verify` shows them, and configurations and log readers know them.
//!
//! DER goes in, verdicts come out: no I/O, no PEM, and the time is passed in. AWS-LC's functions are called in [`sys`]
//! alone, which wraps each in a type that owns what it points to. [`trust`] adds what OpenSSL checks and AWS-LC does not,
//! and bounds the work that the certificates of a stranger can cause.
#![warn(missing_docs)]

mod limits;
pub mod ocsp;
mod refusal;
#[allow(unsafe_code)]
mod sys;
mod trust;

pub use refusal::Refusal;
pub use trust::{Chain, Purpose, Trust, is_for_host, is_issuer};
