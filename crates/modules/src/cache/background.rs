//! An expired answer is brought up to date while its clients get the old one.

use super::fetch::{self, Question};
use super::lookup::Lookup;
use super::note::{Note, Status};
use brisk_cachepolicy::cache_status::Forwarded;
use brisk_server::request::Request;
use brisk_server::subrequest::Again;

/// Asks the back end in a task of its own, with a copy of the request that no client waits for.
pub fn start(lookup: &Lookup, r: &Request, question: Question) {
    let mut copy = Again::of(r).request();
    let note = Note::of(&copy);
    // The copy has no key yet: it does not pass through the handler that makes it.
    note.key.replace(lookup.note.key.borrow().clone());
    note.set(Status::Expired);
    note.forwarded.set(Some(Forwarded::Stale));
    // A note of its own: what the client's request tells of itself must not change behind it.
    let lookup = Lookup { note, ..lookup.clone() };
    brisk_net::spawn(async move {
        // Whatever it answers: what can be stored has been.
        let _ = fetch::ask(lookup, &mut copy, question).await;
    });
}
