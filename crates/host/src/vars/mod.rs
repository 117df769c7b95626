//! Variables and templates: names are resolved when the configuration is built, values when they are asked for.
//!
//! What values are computed of is a [`Context`]: a request, a session. Each protocol has a [`Table`] of its own, so that reading
//! a variable is a call of a known function.

mod context;
mod spelled;
mod store;
mod table;
mod template;
pub mod values;

pub use context::{Context, Eval};
pub use spelled::Spelled;
pub use store::{Store, Value};
pub use table::{
    Assign, Get, Kind, LateNumbers, Names, Reads, Source, Table, Var, VarId, Variable, VariableGet,
};
pub use template::{Part, Template, is_set};
