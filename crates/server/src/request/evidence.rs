//! What an answer depends on, as far as it was found out on the request's way: see [`purity`](crate::purity).

use crate::files::{Dep, Found, Wanted};
use crate::purity::Declared;
use std::cell::Cell;

/// See the module's head.
pub struct Evidence {
    /// What the answer has been found to depend on so far, and what was done on its way.
    // A cell, since it is noted wherever the request is read.
    pub(crate) declared: Cell<Declared>,
    /// The last second (since 1970) in which the answer is the same; what the clock writes into it does not make it
    /// impure, only short-lived.
    pub(crate) same_until: Cell<i64>,
    /// Files and directories that were looked at.
    pub deps: Vec<Dep>,
    /// Files fetched by the pool for this request.
    /// In the request and not only in the cache: a handler that is asked again finds the same file that made
    /// it wait.
    pub fetched: Vec<(Wanted, Found)>,
    /// What is asked for now may have been asked for by this very request, which has waited for something else than files meanwhile.
    pub asks_again: bool,
}

impl Evidence {
    /// Before anything was found out. It is no `Default`: handlers cannot make a request forget what was recorded.
    pub(super) fn none() -> Evidence {
        Evidence {
            declared: Cell::new(Declared::RECORDED),
            same_until: Cell::new(i64::MAX),
            deps: Vec::new(),
            fetched: Vec::new(),
            asks_again: false,
        }
    }

    /// Makes it anew in its place.
    #[inline]
    pub(super) fn renew(&mut self) {
        let Evidence { declared, same_until, deps, fetched, asks_again } = self;
        declared.set(Declared::RECORDED);
        same_until.set(i64::MAX);
        deps.clear();
        fetched.clear();
        *asks_again = false;
    }
}
