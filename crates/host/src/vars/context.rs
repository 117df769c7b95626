//! What variables are computed of, and how one is read.

use super::store::{Store, Value};
use super::table::{Found, Kind, Reads, Source, Table, VarId};
use super::template::Template;
use crate::log::level::LogLevel;
use crate::regex::captures::Captures;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// What variables are computed of.
pub trait Context: Sized + 'static {
    /// The variables of the configuration that applies.
    fn table(&self) -> &Table<Self>;

    /// Values that were set or computed.
    fn store(&self) -> &Store;

    /// The groups of the last match.
    fn captures(&self) -> &RefCell<Captures>;

    /// Writes to the error log.
    fn log(&self, level: LogLevel, message: fmt::Arguments<'_>);

    /// Notes that a value was read of which it is not known what it depends on.
    fn note_anything(&self);

    /// `uninitialized_variable_warn`.
    fn warns_of_uninitialized(&self) -> bool;

    /// Appends a variable's value; false if it is not found.
    fn var(&self, id: VarId, out: &mut Vec<u8>) -> bool {
        if let Some(value) = self.store().get(id) {
            return append(value, out);
        }
        let var = self.table().get(id);
        match &var.kind {
            Kind::Source(source) => {
                if var.reads == Reads::Anything {
                    self.note_anything();
                }
                let start = out.len();
                let found = source.append(self, out);
                if matches!(source, Source::Once(_)) {
                    self.store().set(id, found.then(|| Rc::from(&out[start..])));
                }
                found
            }
            Kind::Assigned => {
                if self.warns_of_uninitialized() {
                    self.log(LogLevel::Warn, format_args!("using uninitialized \"{}\" variable", var.name));
                }
                self.store().set(id, Some(Rc::from(&b""[..])));
                true
            }
            Kind::Slot => false,
            Kind::Eval { eval, volatile } => {
                if self.store().busy.borrow().contains(&id) {
                    let text = format_args!("cycle while evaluating variable \"{}\"", var.name);
                    self.log(LogLevel::Error, text);
                    return false;
                }
                if eval.reads() == Reads::Anything {
                    self.note_anything();
                }
                self.store().busy.borrow_mut().push(id);
                let start = out.len();
                let found = eval.eval(self, out);
                self.store().busy.borrow_mut().pop();
                if !volatile {
                    self.store().set(id, found.then(|| Rc::from(&out[start..])));
                }
                found
            }
            Kind::Undefined => false,
        }
    }

    /// As [`Context::var`], by name: for names that come up while requests are answered, as in SSI. What the
    /// configuration does not mention is computed each time.
    fn var_named(&self, name: &str, out: &mut Vec<u8>) -> bool {
        match self.table().find(name) {
            Found::Id(id) => self.var(id, out),
            Found::Source(source) => {
                self.note_anything();
                source.append(self, out)
            }
            Found::Nothing => false,
        }
    }

    /// A variable's value of its own; `None` if it is not found.
    fn var_value(&self, id: VarId) -> Value {
        let mut out = Vec::new();
        self.var(id, &mut out).then(|| Rc::from(out))
    }
}

fn append(value: Value, out: &mut Vec<u8>) -> bool {
    match value {
        Some(value) => {
            out.extend_from_slice(&value);
            true
        }
        None => false,
    }
}

/// A value computed by a module's own code (`map`, `geo`, `split_clients`).
pub trait Eval<C>: Send + Sync {
    /// Appends the value to `out`; false means "not found", which templates show as nothing.
    fn eval(&self, of: &C, out: &mut Vec<u8>) -> bool;

    /// All values that there can be, where the configuration lists them.
    fn values(&self) -> Option<Vec<Template>> {
        None
    }

    /// What the value depends on.
    fn reads(&self) -> Reads {
        Reads::default()
    }

    /// The texts that the value is made of, as far as the configuration tells them.
    fn sources(&self) -> Vec<&Template> {
        Vec::new()
    }
}
