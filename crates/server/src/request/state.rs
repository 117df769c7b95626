//! What modules and variables keep for a request: all of it, by how long it lives.
//!
//! | where | what | until |
//! |---|---|---|
//! | [`State::visit`] | a handler's own place and notes | the request is redirected inside the server |
//! | [`State::own`] | what variables and log lines tell of it | it is answered; prepared answers keep it |
//! | [`Shared::values`], [`Shared::vars`] | what subrequests have in common with it | the last of them is answered |
//! | [`State::captures`] | the groups of the last match | it is answered |

use brisk_host::peer::Peer;
use brisk_host::regex::Captures;
use brisk_host::vars::{Store, emptied};
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::mem::take;
use std::rc::Rc;

/// Values of modules, at most one of each type.
#[derive(Clone, Default)]
pub struct Values(RefCell<Vec<Rc<dyn Any>>>);

impl Values {
    /// The value of a type, if there is one.
    pub fn get<T: 'static>(&self) -> Option<Rc<T>> {
        self.0.borrow().iter().find(|value| value.is::<T>())?.clone().downcast().ok()
    }

    /// The value of a type, made on first use.
    pub fn get_or<T: 'static>(&self, make: impl FnOnce() -> T) -> Rc<T> {
        self.get().unwrap_or_else(|| {
            let value = Rc::new(make());
            self.0.borrow_mut().push(value.clone());
            value
        })
    }

    /// The same for one who changes it.
    ///
    /// # Panics
    /// If somebody else holds the value.
    pub fn get_mut<T: Default + 'static>(&mut self) -> &mut T {
        let values = self.0.get_mut();
        let at = values.iter().position(|value| value.is::<T>()).unwrap_or_else(|| {
            values.push(Rc::new(T::default()));
            values.len() - 1
        });
        let value = Rc::get_mut(&mut values[at]).and_then(|value| value.downcast_mut());
        value.expect("found by type, and a value that is changed is held by nobody else")
    }

    /// Adds values that were kept of another request.
    pub(crate) fn extend(&mut self, others: &Values) {
        self.0.get_mut().extend(others.0.borrow().iter().cloned());
    }

    pub(crate) fn clear(&mut self) {
        self.0.get_mut().clear();
    }

    /// None, in the memory of these.
    fn renewed(self) -> Values {
        Values(emptied(self.0.into_inner()).into())
    }
}

/// Who sent a request, where a trusted proxy has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    pub peer: Peer,
    /// `$remote_addr` as text: it is in every log line.
    pub text: Box<[u8]>,
}

impl Sender {
    pub fn new(peer: Peer) -> Sender {
        Sender { peer, text: peer.to_string().into_bytes().into() }
    }
}

/// What a client's request and its subrequests have in common. It also survives internal redirects.
#[derive(Default)]
pub struct Shared {
    pub(crate) sender: OnceCell<Sender>,
    /// `$request_id`.
    pub(crate) id: OnceCell<[u8; 32]>,
    /// Values of modules.
    pub values: Values,
    /// Values of variables.
    pub vars: Store,
}

impl Shared {
    /// Made anew in its place, if the subrequests are over as well.
    fn renewed(used: &mut Rc<Shared>) -> Rc<Shared> {
        match Rc::get_mut(used) {
            Some(own) => {
                let (values, vars) = (take(&mut own.values).renewed(), take(&mut own.vars).renewed());
                *own = Shared { values, vars, ..Shared::default() };
            }
            None => return Rc::default(),
        }
        used.clone()
    }
}

/// See the module's head.
#[derive(Default)]
pub struct State {
    /// Values of modules, until the request is redirected inside the server.
    pub visit: Values,
    /// Values of modules, until the request is answered.
    pub own: Values,
    pub shared: Rc<Shared>,
    pub captures: RefCell<Captures>,
}

impl State {
    /// A new one in the memory of this one.
    pub(super) fn renewed(&mut self) -> State {
        State {
            visit: take(&mut self.visit).renewed(),
            own: take(&mut self.own).renewed(),
            shared: Shared::renewed(&mut self.shared),
            captures: self.captures.take().renewed().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type_until_it_is_cleared() {
        let mut values = Values::default();
        assert_eq!(values.get::<u8>(), None);
        assert_eq!((*values.get_or(|| 1u8), *values.get_or(|| 2u8), *values.get_or(|| 3u16)), (1, 1, 3));
        *values.get_mut::<u8>() += 4;
        let mut others = Values::default();
        others.extend(&values);
        values.clear();
        assert_eq!((values.get::<u8>(), others.get::<u8>().as_deref()), (None, Some(&5)));
        assert_eq!(*values.get_mut::<u8>(), 0);
    }

    #[test]
    fn nothing_of_a_request_outlives_it_but_memory() {
        let mut state = State::default();
        let subrequest = state.shared.clone();
        state.visit.get_or(|| 1u8);
        state.own.get_or(|| 2u8);
        state.shared.values.get_or(|| 3u8);
        state.shared.vars.fail();
        let mut next = state.renewed();
        let values = [&next.visit, &next.own, &next.shared.values].map(Values::get::<u8>);
        assert!(values.iter().all(Option::is_none) && !next.shared.vars.have_failed());
        assert!(subrequest.values.get::<u8>().is_some() && subrequest.vars.have_failed());
        next.shared.values.get_or(|| 4u8);
        let after = next.renewed();
        assert!(Rc::ptr_eq(&next.shared, &after.shared) && after.shared.values.get::<u8>().is_none());
    }
}
