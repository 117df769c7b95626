//! What a running server does, in a terminal: the picture of `brisk top`.
//!
//! Pure but for [`live`]: [`Sample`] is what a `dashboard` location says, [`Model`] makes rates and tables of two of them,
//! [`Screen`] is what a person has chosen by keys, and [`draw`](fn@draw) puts both into any terminal, a real one or a buffer.

#![forbid(unsafe_code)]

mod draw;
mod limits;
mod live;
mod model;
mod numbers;
mod screen;
mod tables;

pub use draw::{draw, text};
pub use live::live;
pub use model::{Model, Sample, Summary};
pub use screen::{Act, Key, Screen};
pub use tables::{Cell, Column, Mood, Row, Table, View};
