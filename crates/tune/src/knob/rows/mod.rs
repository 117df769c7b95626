//! The rows.

mod database;
mod forms;
mod pages;
mod php;
mod server;

use super::row::Knob;

/// All knobs, those first that change most where they matter.
pub fn rows() -> impl Iterator<Item = &'static Knob> {
    [php::ROWS, pages::ROWS, server::ROWS, database::ROWS].into_iter().flatten()
}
