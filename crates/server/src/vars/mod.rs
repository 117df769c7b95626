//! Variables and templates: names are resolved when the configuration is built, values when they are asked for.

pub mod builtin;
mod table;
mod template;

pub use table::{Get, Kind, Source, Table, VarId, Variable};
pub use template::{Part, Template};

use crate::request::Request;
use std::cell::RefCell;
use std::rc::Rc;

/// A value computed by a module's own code (`map`, `geo`, `split_clients`).
pub trait Eval: Send + Sync {
    /// Appends the value to `out`; false means "not found", which templates show as nothing.
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool;
}

/// A variable's value in one request; `None` is "not found".
pub type Value = Option<Rc<[u8]>>;

/// Values that a request has set or computed.
#[derive(Default)]
pub struct Store {
    values: RefCell<Vec<(VarId, Value)>>,
    /// Being computed right now: a variable that refers to itself ends here.
    busy: RefCell<Vec<VarId>>,
}

impl Store {
    pub fn clear(&mut self) {
        self.values.get_mut().clear();
        self.busy.get_mut().clear();
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
            Kind::Source(source) => source.append(self, out),
            Kind::Slot => {
                crate::rlog!(self, Warn, "using uninitialized \"{}\" variable", var.name);
                self.vars.set(id, Some(Rc::from(&b""[..])));
                true
            }
            Kind::Eval { eval, volatile } => {
                if self.vars.busy.borrow().contains(&id) {
                    crate::rlog!(self, Error, "cycle while evaluating variable \"{}\"", var.name);
                    return false;
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
