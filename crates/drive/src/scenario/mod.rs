//! Scenarios: users of several kinds who take steps, think, remember what they were told, and are checked.
//!
//! | module | owns |
//! |---|---|
//! | [`keys`] | every key of a scenario file with its doc: the reader, its remedies and the JSON Schema are made of it |
//! | [`read`] | TOML to a [`Scenario`](model::Scenario), with file, line and remedy for what is wrong |
//! | [`model`] | what a scenario is |
//! | [`template`], [`extract`], [`data`] | values: put in, taken out, from CSV |
//! | [`run`], [`replay`] | users at work; a log played again |
//! | [`course`], [`tally`], [`line`](line::Line) | what was seen, over time and by step; the figures of one sum |
//! | [`threshold`] | whether it is good enough |
//! | [`import`] | scenarios made of HAR files, access logs and locustfiles |

pub mod cli;
pub mod course;
pub mod data;
pub mod extract;
pub mod import;
pub mod keys;
pub mod line;
pub mod model;
pub mod read;
pub mod replay;
mod report;
pub mod run;
pub mod tally;
pub mod template;
#[cfg(test)]
mod tests;
pub mod threshold;
mod values;
