//! Sweeps.
pub mod slo;
pub mod steady;
pub mod usl;
