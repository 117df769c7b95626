//! Variables and templates: names are resolved when the configuration is built, values when they are asked for.
//!
//! What values are computed of is a [`Context`]: a request, a session. Each protocol has a [`Table`] of its own, so that reading
//! a variable is a call of a known function.

mod spelled;
mod table;
mod template;
pub mod values;

pub use spelled::Spelled;
use table::Found;
pub use table::{Assign, Get, Kind, Names, Reads, Source, Table, Var, VarId, Variable, VariableGet};
pub use template::{Part, Template, is_set};

use crate::log::LogLevel;
use crate::regex::Captures;
use std::cell::{Cell, RefCell};
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

    /// Notes that a value was read of which nobody has said what it depends on.
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
}

/// A variable's value in one request or session; `None` is "not found".
pub type Value = Option<Rc<[u8]>>;

/// Memory for a next use: nothing of what was in it can be reached.
pub fn emptied<T>(mut used: Vec<T>) -> Vec<T> {
    used.clear();
    used
}

/// Values that a request or session has set or computed.
#[derive(Default)]
pub struct Store {
    values: RefCell<Vec<(VarId, Value)>>,
    /// Being computed right now: a variable that refers to itself ends here.
    busy: RefCell<Vec<VarId>>,
    /// A regular expression came to no decision, so that values may be wrong.
    failed: Cell<bool>,
}

impl Store {
    /// A new one in the memory of this one.
    #[must_use]
    pub fn renewed(self) -> Store {
        let (values, busy) = (emptied(self.values.into_inner()), emptied(self.busy.into_inner()));
        Store { values: values.into(), busy: busy.into(), ..Store::default() }
    }

    /// Notes that what a value or a decision hangs on could not be found out. The request is not to go on with it: it
    /// ends with 500 at the next step of its phases, and before anything is sent for it.
    pub fn fail(&self) {
        self.failed.set(true);
    }

    /// Whether that has happened.
    pub fn have_failed(&self) -> bool {
        self.failed.get()
    }

    /// The same, and takes note that the failure is being answered.
    pub fn take_failure(&self) -> bool {
        self.failed.replace(false)
    }

    /// True if nothing was set or computed.
    pub fn is_empty(&self) -> bool {
        self.values.borrow().is_empty()
    }

    pub fn get(&self, id: VarId) -> Option<Value> {
        self.values.borrow().iter().find(|(have, _)| *have == id).map(|(_, value)| value.clone())
    }

    pub fn set(&self, id: VarId, value: Value) {
        let mut values = self.values.borrow_mut();
        match values.iter_mut().find(|(have, _)| *have == id) {
            Some(slot) => slot.1 = value,
            None => values.push((id, value)),
        }
    }

    pub fn forget(&self, id: VarId) {
        self.values.borrow_mut().retain(|(have, _)| *have != id);
    }
}
