//! A request as it was before a step worked on it.
//!
//! A step that waits is asked again from its beginning (a file comes from the disk, a password is checked, another request is asked), and
//! files that were replaced are judged anew. Both begin with what was there before: what was said in between is said by nobody any more, and
//! a rule that has set a variable must not find it set.

use super::carried::{Carried, Present, Said};
use brisk_server::request::{Request, Route};
use std::rc::Rc;

/// The steps that change what is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What the host's own files do before there is a location.
    Lead,
    /// Who may come in.
    Access,
    /// Rules, before there is content.
    Fixups,
    /// Who may get what `try_files` has found.
    AccessBehind,
    /// The handler of that.
    FixupsBehind,
}

/// How a request was at some time. Copies share what it holds.
#[derive(Clone)]
pub struct Before {
    route: Rc<Route>,
    said: Rc<Said>,
    present: Option<Present>,
}

/// What is kept for a visit.
#[derive(Default)]
struct Slot {
    /// The step that is at work, and what it began with.
    begun: Option<(Step, Before)>,
    /// See [`Before::unjudged`].
    unjudged: Option<Before>,
}

impl Before {
    /// How it is now.
    pub fn of(r: &Request) -> Before {
        let said = Carried::of(r).borrow().said.clone();
        Before { route: Rc::new(r.route.clone()), said, present: Present::of(r) }
    }

    /// What a visit that is judged anew begins with: the route where the rules were asked first, and what was said before the files were
    /// judged. `None`: the rules were not asked yet.
    pub fn unjudged(r: &Request) -> Option<Before> {
        r.state.visit.get::<Slot>()?.unjudged.clone()
    }

    /// The path that the request was for.
    pub fn uri(&self) -> &[u8] {
        &self.route.uri
    }

    /// Puts a request back.
    pub fn restore(&self, r: &mut Request) {
        let Before { route, said, present } = self;
        r.route = route.as_ref().clone();
        Carried::of(r).borrow_mut().said = said.clone();
        match present {
            Some(present) => present.clone().keep(r),
            None => Present::forget(r),
        }
    }
}

/// To be called by a step before it changes anything. If it was begun before in this visit, it has waited: then all is as it was.
pub fn begin(r: &mut Request, step: Step) {
    let earlier = r.state.visit.get_mut::<Slot>().begun.take();
    let before = match &earlier {
        Some((begun, before)) if *begun == step => {
            before.restore(r);
            before.clone()
        }
        _ => Before::of(r),
    };
    let slot = r.state.visit.get_mut::<Slot>();
    if step == Step::Fixups && slot.unjudged.is_none() {
        // Between the two steps other modules may have changed the route, which stays: they are not asked again.
        let judged = earlier.filter(|(begun, _)| *begun == Step::Access);
        let judged = judged.map_or_else(|| before.clone(), |(_, before)| before);
        slot.unjudged = Some(Before { route: before.route.clone(), ..judged });
    }
    slot.begun = Some((step, before));
}
