//! Directives of `http`, `server` and `location` that set one thing.

mod accepted;
mod connections;
mod files;
mod requests;
mod responses;
mod sites;

use crate::module::{Row, joined, rows_in};

// The order has no meaning: rows are found by name.
const TABLES: &[&[Row]] =
    &[sites::ROWS, requests::ROWS, responses::ROWS, connections::ROWS, files::ROWS, accepted::ROWS];

/// The rows of the core.
pub static ROWS: [Row; rows_in(TABLES)] = joined(TABLES);
