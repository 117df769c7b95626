//! Limits that are no option, each with its unit in its name.

use std::time::Duration;

/// While an answer is waited for it is looked for so often, between keys.
pub(crate) const ANSWER_LOOK_TIME: Duration = Duration::from_millis(50);
/// An answer that takes longer is told of.
pub(crate) const ANSWER_TIME_USUAL: Duration = Duration::from_secs(2);
/// Rates are of this time at least: two answers of one moment would give any.
pub(crate) const APART_MIN_MS: f64 = 100.0;
/// Seconds of the course of requests that are kept: no terminal has more columns.
pub(crate) const COURSE_SECS_MAX: usize = 600;
/// A name gets so many columns before a column of numbers is left out.
pub(crate) const NAME_COLUMNS_MIN: usize = 18;
