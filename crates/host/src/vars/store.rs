//! The values of one request or session.

use super::table::VarId;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A variable's value in one request or session; `None` is "not found".
pub type Value = Option<Rc<[u8]>>;

/// Values that a request or session has set or computed.
#[derive(Default)]
pub struct Store {
    values: RefCell<Vec<(VarId, Value)>>,
    /// Being computed right now: a variable that refers to itself ends here.
    pub(super) busy: RefCell<Vec<VarId>>,
    /// A regular expression came to no decision, so that values may be wrong.
    failed: Cell<bool>,
}

impl Store {
    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        let Store { values, busy, failed } = self;
        values.get_mut().clear();
        busy.get_mut().clear();
        failed.set(false);
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

    /// The same values for another request, which then go their own ways.
    #[must_use]
    pub fn copy(&self) -> Store {
        let Store { values, busy: _, failed: _ } = self;
        Store { values: values.clone(), ..Store::default() }
    }

    /// True if nothing was set or computed.
    pub fn is_empty(&self) -> bool {
        self.values.borrow().is_empty()
    }

    /// What was set or computed; `None` if nothing was.
    pub fn get(&self, id: VarId) -> Option<Value> {
        self.values.borrow().iter().find(|(have, _)| *have == id).map(|(_, value)| value.clone())
    }

    /// Sets a value, in place of another.
    pub fn set(&self, id: VarId, value: Value) {
        let mut values = self.values.borrow_mut();
        match values.iter_mut().find(|(have, _)| *have == id) {
            Some(slot) => slot.1 = value,
            None => values.push((id, value)),
        }
    }

    /// Removes a value, which is computed when it is asked for again.
    pub fn forget(&self, id: VarId) {
        self.values.borrow_mut().retain(|(have, _)| *have != id);
    }
}
