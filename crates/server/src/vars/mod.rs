//! Variables and templates: names are resolved when the configuration is built, values when they are asked for.

pub mod builtin;
mod spelled;
mod table;
mod template;
mod transport;

pub use spelled::Spelled;
use table::Found;
pub use table::{Depends, Get, Kind, Source, Table, VarId, Variable, VariableGet};
pub use template::{Part, Template, is_set};

use crate::request::Request;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A value computed by a module's own code (`map`, `geo`, `split_clients`).
pub trait Eval: Send + Sync {
    /// Appends the value to `out`; false means "not found", which templates show as nothing.
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool;

    /// All values that there can be, where the configuration lists them.
    fn values(&self) -> Option<Vec<Template>> {
        None
    }

    /// True if the value follows from nothing but other variables, read through [`Request::var`].
    fn is_pure(&self) -> bool {
        false
    }
}

/// A variable's value in one request; `None` is "not found".
pub type Value = Option<Rc<[u8]>>;

/// Values that a request has set or computed.
#[derive(Default)]
pub struct Store {
    values: RefCell<Vec<(VarId, Value)>>,
    /// Being computed right now: a variable that refers to itself ends here.
    busy: RefCell<Vec<VarId>>,
    /// A variable was read that follows from more than the target: the answer is for this request alone.
    impure: Cell<bool>,
    /// A regular expression came to no decision, so that values may be wrong.
    failed: Cell<bool>,
}

impl Store {
    pub fn clear(&mut self) {
        self.values.get_mut().clear();
        self.busy.get_mut().clear();
        self.impure.set(false);
        self.failed.set(false);
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
    pub(crate) fn take_failure(&self) -> bool {
        self.failed.replace(false)
    }

    /// True if nothing was set or computed.
    pub fn is_empty(&self) -> bool {
        self.values.borrow().is_empty()
    }

    /// True if nothing was read that follows from more than the target.
    pub fn are_pure(&self) -> bool {
        !self.impure.get()
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

impl Request {
    /// Appends a variable's value; false if it is not found.
    pub fn var(&self, id: VarId, out: &mut Vec<u8>) -> bool {
        if let Some(value) = self.vars.get(id) {
            return append(value, out);
        }
        let snap = self.snap();
        let var = snap.vars.get(id);
        match &var.kind {
            Kind::Source(source) => {
                if !self.follows_from_target(var.depends) {
                    self.vars.impure.set(true);
                }
                let start = out.len();
                let found = source.append(self, out);
                if matches!(source, Source::Once(_)) {
                    self.vars.set(id, found.then(|| Rc::from(&out[start..])));
                }
                found
            }
            Kind::Assigned => {
                if self.core().uninitialized_variable_warn {
                    crate::rlog!(self, Warn, "using uninitialized \"{}\" variable", var.name);
                }
                self.vars.set(id, Some(Rc::from(&b""[..])));
                true
            }
            Kind::Slot => false,
            Kind::Eval { eval, volatile } => {
                if self.vars.busy.borrow().contains(&id) {
                    crate::rlog!(self, Error, "cycle while evaluating variable \"{}\"", var.name);
                    return false;
                }
                if !eval.is_pure() {
                    self.vars.impure.set(true);
                }
                self.vars.busy.borrow_mut().push(id);
                let start = out.len();
                let found = eval.eval(self, out);
                self.vars.busy.borrow_mut().pop();
                if !volatile {
                    self.vars.set(id, found.then(|| Rc::from(&out[start..])));
                }
                found
            }
            Kind::Undefined => false,
        }
    }

    /// As [`Request::var`], by name: for names that come up while requests are answered, as in SSI. What the
    /// configuration does not mention is computed each time.
    pub fn var_named(&self, name: &str, out: &mut Vec<u8>) -> bool {
        match self.snap().vars.find(name) {
            Found::Id(id) => self.var(id, out),
            Found::Source(source) => {
                self.vars.impure.set(true);
                source.append(self, out)
            }
            Found::Nothing => false,
        }
    }

    fn follows_from_target(&self, depends: Depends) -> bool {
        match depends {
            Depends::Target => true,
            Depends::Root => self.core().root.path.is_literal(),
            Depends::Anything => false,
        }
    }

    /// A variable's value of its own; `None` if it is not found.
    pub fn var_value(&self, id: VarId) -> Value {
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

#[cfg(test)]
pub(crate) mod tests;
