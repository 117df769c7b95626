//! A page with all that it is made of, fetched as a browser does.

pub mod css;
pub mod html;
