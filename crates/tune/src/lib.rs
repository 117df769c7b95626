//! What slows a site down, as far as its configuration and a measurement tell.
//!
//! A [`Site`](site::Site) is made of text that others have read; [`audit`](audit::audit) finds what costs speed in it and says
//! for each finding where it stands, why it matters, what it gained where it was measured, and the line to write;
//! [`diagnose`](diagnosis::diagnose) says of a run and what was seen beside it which tier was the limit. [`knob`] holds the settings
//! that can be changed and [`edit`] changes them by place, [`search`](search::search) finds better values from pairs of measurements, and
//! a [`Journal`](journal::Journal) says how all of it is taken back; [`patch`] shows what was changed, and a
//! [`Guard`](guard::Guard) says when a change that was proved must go after all. No I/O and no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod audit;
pub mod diagnosis;
pub mod edit;
pub mod guard;
pub mod ini;
pub mod journal;
pub mod knob;
mod limits;
pub mod patch;
pub mod search;
pub mod site;
