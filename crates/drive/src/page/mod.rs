//! `brisk bench page`: a page with all that it is made of, fetched as a browser does.
//!
//! | module | owns |
//! |---|---|
//! | [`html`], [`css`], [`script`], [`images`] | what refers to what |
//! | [`load`] | fetching: connections, order, redirects |
//! | [`waterfall`], [`har`], [`advice`], [`report`] | what comes of it |

pub mod advice;
pub mod cli;
pub mod css;
pub mod har;
pub mod html;
mod images;
pub mod load;
pub mod report;
mod script;
#[cfg(test)]
mod tests;
pub mod waterfall;
