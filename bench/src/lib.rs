//! Benchmarks of whole servers: see [`docs/benchmarks.md`](../docs/benchmarks.md).
#![forbid(unsafe_code)]

pub mod floor;
