//! What came of runs, for people and for programs.

mod environment;
mod html;
mod json;
mod model;
mod page;
mod resources;
mod tables;
mod text;
mod truth;

pub use crate::days::{days, per_day};
pub use environment::Environment;
pub use html::{counted, html, sections, series_charts, tiles};
pub use json::json;
pub use model::{QUANTILES, Report, RunReport, Verdict, lost_share};
pub use page::{Body, Section, Tile, fragment, page};
pub use resources::{Beside, Resources};
pub use tables::{csv, label, prometheus, raw};
pub use text::text;
pub use truth::{Invalid, Moved, late};
