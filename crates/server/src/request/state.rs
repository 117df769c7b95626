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
use brisk_host::vars::Store;
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::io::Write as _;
use std::rc::Rc;

/// Values of modules, at most one of each type.
#[derive(Clone, Default)]
/// A list: a request has two or three, and comparing types is quicker than a hash.
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

    /// Keeps a value in place of another one of its type.
    pub fn put<T: 'static>(&self, value: T) {
        let mut values = self.0.borrow_mut();
        values.retain(|value| !value.is::<T>());
        values.push(Rc::new(value));
    }

    /// Adds values that were kept of another request.
    pub(crate) fn extend(&mut self, others: &Values) {
        self.0.get_mut().extend(others.0.borrow().iter().cloned());
    }

    pub(crate) fn clear(&mut self) {
        self.0.get_mut().clear();
    }
}

/// Values of handlers, at most one of each type. Nobody else can hold one, so the handler may change it.
/// Boxed and not shared: a handler may keep what it goes on changing.
#[derive(Default)]
pub struct Visit(Vec<Box<dyn Any>>);

impl Visit {
    /// The value of a type, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.iter().find_map(|value| value.downcast_ref())
    }

    /// The value of a type, made on first use.
    pub fn get_mut<T: Default + 'static>(&mut self) -> &mut T {
        let at = self.0.iter().position(|value| value.is::<T>()).unwrap_or_else(|| {
            self.0.push(Box::<T>::default());
            self.0.len() - 1
        });
        self.0[at].downcast_mut().expect("found by type")
    }

    /// Forgets all: the visit ends, or begins anew.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Who sent a request, where a trusted proxy has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The address, and the port if it was told.
    pub peer: Peer,
    /// `$remote_addr` as text: it is in every log line.
    pub text: Box<[u8]>,
}

impl Sender {
    /// With the text made of the address.
    pub fn new(peer: Peer) -> Sender {
        Sender { peer, text: peer.to_string().into_bytes().into() }
    }
}

/// What a client's request and its subrequests have in common. It also survives internal redirects.
/// A subrequest of a subrequest has it in common with the first request as well.
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
    /// `$request_id`: one for a request and all that is asked for it, so that logs of back ends can be put together.
    pub(crate) fn id(&self) -> &[u8; 32] {
        self.id.get_or_init(|| {
            let mut bytes = [0u8; 16];
            // The kernel's generator only fails before it is seeded, at boot.
            let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
            let mut text = [0u8; 32];
            let _ = write!(&mut text[..], "{:032x}", u128::from_be_bytes(bytes));
            text
        })
    }

    /// For a request that is only to find out how it would be answered. It is judged as if the client had sent it, so it knows who has
    /// sent the first one, and nothing of what that has computed, counted or been told; and nothing of its own is kept for that one, whose
    /// access may hang on it.
    pub(crate) fn of_look_up(&self) -> Shared {
        let id = OnceCell::from(*self.id());
        let Shared { sender, id: _, values: _, vars: _ } = self;
        Shared { sender: sender.clone(), id, values: Values::default(), vars: Store::default() }
    }

    /// For a copy that runs beside the request and that nobody waits for. It begins with all that is known of the request. What it computes
    /// is about its own URI, and comes while the request may still be judged, so it is not kept for that.
    pub(crate) fn of_copy(&self) -> Shared {
        let id = OnceCell::from(*self.id());
        let Shared { sender, id: _, values, vars } = self;
        Shared { sender: sender.clone(), id, values: values.clone(), vars: vars.copy() }
    }

    /// Makes it anew in its place.
    fn renew(&mut self) {
        let Shared { sender, id, values, vars } = self;
        sender.take();
        id.take();
        values.clear();
        vars.clear();
    }
}

/// See the module's head.
pub struct State {
    /// Values of modules, until the request is redirected inside the server.
    pub visit: Visit,
    /// Values of modules, until the request is answered.
    pub own: Values,
    /// What the request has in common with its subrequests.
    pub shared: Rc<Shared>,
    /// Groups of the last regular expression that matched: `$1` … `$9`.
    pub captures: RefCell<Captures>,
}

impl State {
    /// Before anybody has kept anything.
    pub(super) fn none() -> State {
        State {
            visit: Visit::default(),
            own: Values::default(),
            shared: Rc::default(),
            captures: RefCell::default(),
        }
    }

    /// Makes it anew in its place.
    pub(super) fn renew(&mut self) {
        let State { visit, own, shared, captures } = self;
        visit.clear();
        own.clear();
        // Usually nobody else has it: then its memory stays.
        match Rc::get_mut(shared) {
            Some(shared) => shared.renew(),
            // A subrequest goes on with it.
            None => *shared = Rc::default(),
        }
        captures.get_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_host::vars::VarId;

    #[test]
    fn there_is_one_value_of_each_type_until_it_is_cleared() {
        let values = Values::default();
        assert_eq!(values.get::<u8>(), None);
        assert_eq!((*values.get_or(|| 1u8), *values.get_or(|| 2u8), *values.get_or(|| 3u16)), (1, 1, 3));
        let mut others = Values::default();
        others.extend(&values);
        assert_eq!(others.get::<u8>().as_deref(), Some(&1));
        others.put(4u8);
        assert_eq!((others.get::<u8>().as_deref(), values.get::<u8>().as_deref()), (Some(&4), Some(&1)));
        let mut visit = Visit::default();
        *visit.get_mut::<u8>() += 4;
        assert_eq!((visit.get::<u8>(), visit.get::<u16>()), (Some(&4), None));
        visit.clear();
        assert_eq!(*visit.get_mut::<u8>(), 0);
    }

    #[test]
    fn look_ups_and_copies_leave_nothing_behind() {
        let first = Shared::default();
        let (known, later) = (VarId(1), VarId(2));
        first.vars.set(known, Some(Rc::from(&b"first"[..])));
        first.values.get_or(|| 1u8);
        let (look_up, copy) = (first.of_look_up(), first.of_copy());
        assert!(look_up.vars.is_empty() && look_up.values.get::<u8>().is_none());
        assert!(copy.vars.get(known).is_some() && copy.values.get::<u8>().as_deref() == Some(&1));
        for other in [&look_up, &copy] {
            assert_eq!(other.id(), first.id());
            other.vars.set(known, None);
            other.vars.set(later, None);
            other.vars.fail();
            other.values.get_or(|| 2u16);
        }
        assert!(first.vars.get(known).flatten().is_some() && first.vars.get(later).is_none());
        assert!(!first.vars.have_failed() && first.values.get::<u16>().is_none());
    }

    #[test]
    fn nothing_of_a_request_outlives_it_but_memory() {
        let mut state = State::none();
        let subrequest = state.shared.clone();
        *state.visit.get_mut::<u8>() = 1;
        state.own.get_or(|| 2u8);
        state.shared.values.get_or(|| 3u8);
        state.shared.vars.fail();
        state.renew();
        let mut next = state;
        let values = [&next.own, &next.shared.values].map(Values::get::<u8>);
        assert!(
            next.visit.get::<u8>().is_none()
                && values.iter().all(Option::is_none)
                && !next.shared.vars.have_failed()
        );
        assert!(subrequest.values.get::<u8>().is_some() && subrequest.vars.have_failed());
        next.shared.values.get_or(|| 4u8);
        let memory = Rc::as_ptr(&next.shared);
        next.renew();
        let after = next;
        assert!(Rc::as_ptr(&after.shared) == memory && after.shared.values.get::<u8>().is_none());
    }
}
