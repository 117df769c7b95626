//! The variables of requests, and templates that become targets.

pub mod builtin;
pub(crate) mod target;
pub(crate) mod transport;

pub use brisk_host::vars::{
    Context, Eval, Names, Part, Reads, Spelled, Store, Template, Value, VarId, VariableGet, is_set,
};
pub use target::{Target, append_part};

use crate::purity::Declared;
use crate::regex::Captures;
use crate::request::Request;
use brisk_host::log::LogLevel;
use std::cell::RefCell;
use std::fmt;

/// The variables of a configuration of HTTP.
pub type Table = brisk_host::vars::Table<Request>;
/// A built-in variable of requests, as a row.
pub type Variable = brisk_host::vars::Variable<Request>;
/// What a variable of requests is.
pub type Kind = brisk_host::vars::Kind<Request>;

impl Context for Request {
    fn table(&self) -> &Table {
        &self.snap().vars
    }

    fn store(&self) -> &Store {
        &self.state.shared.vars
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.state.captures
    }

    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        crate::log::request(self, level, message);
    }

    fn note_anything(&self) {
        self.note(Declared::ANYTHING);
    }

    fn warns_of_uninitialized(&self) -> bool {
        self.core().uninitialized_variable_warn
    }
}

impl Request {
    /// See [`Context::var`].
    pub fn var(&self, id: VarId, out: &mut Vec<u8>) -> bool {
        Context::var(self, id, out)
    }

    /// See [`Context::var_named`].
    pub fn var_named(&self, name: &str, out: &mut Vec<u8>) -> bool {
        Context::var_named(self, name, out)
    }

    /// See [`Context::var_value`].
    pub fn var_value(&self, id: VarId) -> Value {
        Context::var_value(self, id)
    }
}

#[cfg(test)]
pub(crate) mod tests;
