//! Locations that are compiled late, without sockets: what is kept, swapped, closed and freed.

use super::*;
use crate::directive::directive;
use crate::limits::LATE_TEXT_BYTES_MAX;
use crate::module::Module;
use crate::testing;
use brisk_conf::{Arity, Context};
use std::rc::Rc;
use std::sync::Weak;
use std::task::Waker;

/// Every location may be extended.
static EXTENDED: Module = Module {
    name: "extended",
    rows: &[directive("extended").in_(Context::HTTP).arity(Arity::NONE).definition().set(|_, _| Ok(()))],
    install: Some(|_, plan| plan.is_extended_later = true),
    ..Module::EMPTY
};

static MODULES: &[&Module] = &[&crate::core::MAIN, &crate::core::HTTP, &EXTENDED];

/// A request in the location of one server.
fn request() -> Request {
    let text = "events {} http { extended; server { default_type a/start; } }";
    let thread = testing::thread(MODULES, text);
    let live = thread.live.borrow().clone();
    let mut r = Request::new(thread, live);
    r.route.loc = r.snap().servers[0].root;
    r
}

fn wanted(text: &str, on_failure: OnFailure) -> Wanted {
    Wanted {
        into: LocationId(0),
        name: b"name".as_slice().into(),
        texts: vec![Text { name: "file".into(), text: text.as_bytes().into() }],
        allows: Arc::new(|row, _| row.name != "root"),
        help: "all but root".into(),
        on_failure,
    }
}

/// What becomes of a request, with whatever has to be waited for.
fn entered(r: &mut Request, text: &str, on_failure: OnFailure) -> Result<Arc<Entrance>, u16> {
    let mut flow = enter(r, wanted(text, on_failure));
    if let Flow::Wait(waiter) = flow {
        let mut waiting = waiter(r);
        let mut cx = std::task::Context::from_waker(Waker::noop());
        flow = loop {
            match waiting.as_mut().poll(&mut cx) {
                std::task::Poll::Ready(flow) => break flow,
                std::task::Poll::Pending => std::thread::yield_now(),
            }
        };
    }
    match flow {
        Flow::Enter(entrance) => Ok(entrance),
        Flow::Status(status) => Err(status),
        _ => panic!("neither led on nor refused"),
    }
}

fn media(r: &Request) -> String {
    String::from_utf8_lossy(&r.core().default_type).into_owned()
}

#[test]
fn a_location_is_swapped_alone_and_requests_keep_theirs() {
    let mut r = request();
    let start = r.snap().locations.clone();
    let one = entered(&mut r, "default_type a/one;", OnFailure::Close).unwrap();
    let again = entered(&mut r, "default_type a/one;", OnFailure::Close).unwrap();
    assert!(Arc::ptr_eq(&one, &again), "compiled once");
    assert!(r.enter_late(&one));
    assert_eq!(media(&r), "a/one");
    assert!(one.watch().is_up() && r.evidence.deps.iter().all(crate::files::Dep::is_up));
    // Another one takes its place while the request runs.
    let mut other = Request::new(r.thread.clone(), r.live.shared_root());
    let two = entered(&mut other, "default_type a/two;", OnFailure::Close).unwrap();
    assert!(other.enter_late(&two));
    assert_eq!((media(&r).as_str(), media(&other).as_str()), ("a/one", "a/two"));
    assert_ne!(r.route.loc, other.route.loc, "no number has two meanings");
    // What was prepared with the old one is not given any more; nothing else of the configuration has changed.
    assert!(!one.watch().is_up() && !r.evidence.deps.iter().all(crate::files::Dep::is_up));
    assert!(two.watch().is_up() && Arc::ptr_eq(&start, &other.snap().locations));
    r.leave_late();
    r.route.loc = r.snap().servers[0].root;
    assert_eq!((media(&r).as_str(), r.live.root.is_none()), ("a/start", true));
}

#[test]
fn what_cannot_be_compiled_keeps_or_closes_as_the_caller_chose() {
    let mut r = request();
    let bad = "no_such_directive on;";
    assert_eq!(entered(&mut r, bad, OnFailure::Keep).err(), Some(500), "there is nothing to keep");
    let good = entered(&mut r, "default_type a/good;", OnFailure::Keep).unwrap();
    let kept = entered(&mut r, bad, OnFailure::Keep).unwrap();
    assert!(Arc::ptr_eq(&good, &kept) && good.watch().is_up());
    assert_eq!(entered(&mut r, "root /etc;", OnFailure::Close).err(), Some(500));
    assert!(!good.watch().is_up());
    assert_eq!(entered(&mut r, "root /etc;", OnFailure::Close).err(), Some(500), "it stays closed");
    assert!(entered(&mut r, "default_type a/good;", OnFailure::Close).is_ok());
}

#[test]
fn memory_goes_with_the_last_request() {
    let mut r = request();
    let snapshot = |entrance: &Arc<Entrance>| Arc::downgrade(&entrance.snap);
    let one = entered(&mut r, "default_type a/one;", OnFailure::Close).unwrap();
    let old: Weak<Snapshot> = snapshot(&one);
    assert!(r.enter_late(&one));
    drop(one);
    let mut other = Request::new(r.thread.clone(), r.live.shared_root());
    let two = snapshot(&entered(&mut other, "default_type a/two;", OnFailure::Close).unwrap());
    assert!(old.upgrade().is_some(), "the request has it");
    r.leave_late();
    assert!(old.upgrade().is_none() && two.upgrade().is_some());
    // With the configuration go all that were compiled for it.
    let whole = Arc::downgrade(&r.live.snap);
    let thread = r.thread.clone();
    let next = request().live.snap.clone();
    let logs = r.live.base.logs.clone();
    drop((r, other));
    *thread.live.borrow_mut() = Rc::new(Live::new(next, logs, 2));
    thread.requests.borrow_mut().clear();
    assert!(two.upgrade().is_none() && whole.upgrade().is_none());
}

#[test]
fn what_is_kept_is_bounded() {
    let store = Store::default();
    let text = "# ".repeat(LATE_TEXT_BYTES_MAX / 16);
    for at in 0..40u8 {
        let wanted = Wanted { name: [at].as_slice().into(), ..wanted(&text, OnFailure::Close) };
        store.swap(wanted, Some(Outcome::Closed));
        let kept = store.lock();
        let (counted, held) = kept.bytes();
        assert!(held <= LATE_TEXT_BYTES_MAX);
        assert_eq!(counted, held);
    }
    assert!(
        store.find(&Wanted { name: [39].as_slice().into(), ..wanted(&text, OnFailure::Close) }).is_some()
    );
}
