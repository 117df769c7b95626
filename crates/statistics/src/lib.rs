//! What measurements are judged by: intervals of small samples, and repeatable random numbers. It knows nothing of what is measured.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod rng;
pub mod sample;
