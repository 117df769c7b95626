//! What others may see of a request while it waits: what for, at which back end, and, once a task has it, what it is.
//!
//! It is made with the request's memory and used again with it, and threads list it then, not for each request. A request that is
//! answered at once writes nothing here; one that waits stores what for. The text is copied where a task is made anyway, whether
//! or not somebody looks: who opens a dashboard because something hangs wants what began before that.

use super::route::Phase;
use crate::limits::TOPS_NAME_BYTES_MAX;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For the rest of its head.
    Head,
    /// For its body.
    Body,
    /// For what a handler of this phase wants.
    Phase(Phase),
    /// For a file that is not in memory.
    Disk,
    /// For the address of a back end.
    Resolver,
    /// For a place at a back end, or a process of a PHP pool.
    Queue,
    /// For a connection to a back end.
    Connecting,
    /// For the first byte of a back end's answer.
    Answer,
    /// For the client to take the answer, or for more of it.
    Sending,
    /// For nothing in particular: both sides talk through it.
    Tunnel,
}

impl Waits {
    /// As pages name it.
    pub fn name(self) -> &'static str {
        match self {
            Waits::Head => "reading head",
            Waits::Body | Waits::Phase(Phase::EarlyBody) => "reading body",
            Waits::Phase(Phase::PostRead | Phase::ServerRewrite | Phase::FindConfig | Phase::Rewrite) => {
                "rewrite"
            }
            Waits::Phase(Phase::PreAccess) => "limits",
            Waits::Phase(Phase::Access) => "access",
            Waits::Phase(Phase::PreContent | Phase::Content) => "content",
            Waits::Phase(Phase::Filters) => "filters",
            Waits::Disk => "disk",
            Waits::Resolver => "resolving",
            Waits::Queue => "queue",
            Waits::Connecting => "connecting",
            Waits::Answer => "first byte",
            Waits::Sending => "sending",
            Waits::Tunnel => "tunnel",
        }
    }
}

/// What a request is called, by where it begins in a text.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub method: &'a [u8],
    pub host: &'a [u8],
    /// Without arguments, which may be secrets.
    pub path: &'a [u8],
    pub client: &'a [u8],
}

impl<'a> Names<'a> {
    fn all(self) -> [&'a [u8]; 4] {
        [self.method, self.host, self.path, self.client]
    }
}

/// See the module's head.
pub struct Flight {
    waits: Cell<Waits>,
    /// It is the question what goes on, which is no part of the answer.
    is_look: Cell<bool>,
    /// When its first byte came (monotonic, in microseconds), once a task has it.
    in_task_since_us: Cell<Option<u64>>,
    /// Its names, one behind the other, and where each ends.
    text: RefCell<Vec<u8>>,
    ends: Cell<[usize; 4]>,
    /// The back end that is being asked, as messages name it.
    upstream: RefCell<Option<Rc<dyn fmt::Display>>>,
}

impl Flight {
    pub(super) fn new() -> Flight {
        Flight {
            waits: Cell::new(Waits::Head),
            is_look: Cell::default(),
            in_task_since_us: Cell::default(),
            text: RefCell::default(),
            ends: Cell::default(),
            upstream: RefCell::default(),
        }
    }

    /// Makes it another request's, in its place.
    #[inline]
    pub(super) fn renew(&self) {
        let Flight { waits, is_look, in_task_since_us, text: _, ends: _, upstream } = self;
        waits.set(Waits::Head);
        is_look.set(false);
        in_task_since_us.set(None);
        upstream.take();
    }

    /// What it waits for from here on.
    #[inline]
    pub fn waits_for(&self, what: Waits) {
        self.waits.set(what);
    }

    /// What it waits for.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.get()
    }

    /// It asks what goes on, and is not told of itself.
    pub fn is_look(&self) {
        self.is_look.set(true);
    }

    /// A back end is being asked.
    pub fn asks(&self, upstream: Rc<dyn fmt::Display>) {
        self.upstream.replace(Some(upstream));
    }

    /// The back end that is being asked.
    pub fn upstream(&self) -> Option<String> {
        Some(self.upstream.borrow().as_ref()?.to_string())
    }

    /// A task has the request: nobody else can look at it.
    pub(crate) fn enters_task(&self, since_us: u64, names: Names<'_>) {
        let mut text = self.text.borrow_mut();
        text.clear();
        let ends = names.all().map(|name| {
            text.extend_from_slice(&name[..name.len().min(TOPS_NAME_BYTES_MAX)]);
            text.len()
        });
        self.ends.set(ends);
        self.in_task_since_us.set(Some(since_us));
    }

    /// When the request's first byte came, if a task has it and it is to be told of.
    pub(crate) fn told_since_us(&self) -> Option<u64> {
        self.in_task_since_us.get().filter(|_| !self.is_look.get())
    }

    /// Looks at its names, which are those of the last request in a task.
    pub(crate) fn with_names<T>(&self, look: impl FnOnce(Names<'_>) -> T) -> T {
        let (text, [method, host, path, client]) = (self.text.borrow(), self.ends.get());
        look(Names {
            method: &text[..method],
            host: &text[method..host],
            path: &text[host..path],
            client: &text[path..client],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_request_that_a_task_has_and_short() {
        let flight = Flight::new();
        assert_eq!(flight.told_since_us(), None);
        let long = vec![b'x'; 10_000];
        flight.enters_task(7, Names { method: b"GET", host: b"", path: &long, client: b"::1" });
        flight.asks(Rc::new("http://b"));
        flight.waits_for(Waits::Queue);
        assert_eq!((flight.told_since_us(), flight.waits().name()), (Some(7), "queue"));
        flight.with_names(|names| {
            assert_eq!((names.method, names.host, names.client), (&b"GET"[..], &b""[..], &b"::1"[..]));
            assert_eq!(names.path.len(), TOPS_NAME_BYTES_MAX);
        });
        flight.renew();
        assert_eq!((flight.told_since_us(), flight.upstream()), (None, None));
        flight.enters_task(8, Names { method: b"PUT", host: b"h", path: b"/", client: b"c" });
        flight.with_names(|names| assert_eq!(names.all(), [&b"PUT"[..], b"h", b"/", b"c"]));
        flight.is_look();
        assert_eq!(flight.told_since_us(), None);
    }
}
