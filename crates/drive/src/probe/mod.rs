//! `brisk probe`: several pages at intervals, a history, alerts, a small chart.

mod cli;
mod history;

pub use cli::PROBE;
