//! Work that belongs to a configuration and to no request or session: looking names up again, asking back ends how they are.

use crate::live::Live;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Something that goes on in one thread while a configuration is live.
pub trait Service: Send + Sync {
    /// Starts its tasks ([`Work::spawn`]) on this thread's loop.
    fn start(self: Arc<Self>, work: &Work);
}

/// Where a service's tasks belong: they end when another configuration is live, or when the worker drains.
#[derive(Clone)]
pub struct Work {
    /// The configuration that the service belongs to.
    pub live: Rc<Live>,
    end: Rc<End>,
}

#[derive(Default)]
struct End {
    has_come: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Work {
    pub(crate) fn new(live: Rc<Live>) -> Work {
        Work { live, end: Rc::default() }
    }

    /// Starts a task that is dropped, wherever it waits, when the work ends.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        brisk_net::spawn(Until { task: Some(Box::pin(task)), end: self.end.clone() });
    }

    /// Whether another configuration is live, or the worker drains: for tasks that sessions of the time before still need.
    pub fn has_ended(&self) -> bool {
        self.end.has_come.get()
    }

    pub(crate) fn end(&self) {
        self.end.has_come.set(true);
        self.end.wakers.take().into_iter().for_each(Waker::wake);
    }
}

struct Until<F> {
    task: Option<Pin<Box<F>>>,
    end: Rc<End>,
}

impl<F: Future<Output = ()>> Future for Until<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(task) = this.task.as_mut().filter(|_| !this.end.has_come.get()) else {
            this.task = None;
            return Poll::Ready(());
        };
        if task.as_mut().poll(cx).is_ready() {
            this.task = None;
            return Poll::Ready(());
        }
        let mut wakers = this.end.wakers.borrow_mut();
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
