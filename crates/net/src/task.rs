//! Tasks: futures that live on one thread and are polled when woken.

use crate::event_loop::Loop;
use crate::mailbox::{Mailbox, TaskId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

type BoxFuture = Pin<Box<dyn Future<Output = ()>>>;

struct Slot {
    generation: u32,
    /// `None` while the task is being polled or the slot is free.
    future: Option<BoxFuture>,
    waker: Option<(Waker, Arc<TaskWaker>)>,
}

pub(crate) struct Tasks {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    queue: RefCell<VecDeque<TaskId>>,
    mailbox: Arc<Mailbox>,
}

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    mailbox: Arc<Mailbox>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        match Loop::try_current() {
            Some(home) if Arc::ptr_eq(home.mailbox(), &self.mailbox) => home.schedule(self.id),
            _ => self.mailbox.wake(self.id),
        }
    }
}

impl Tasks {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Tasks {
        Tasks { slots: RefCell::default(), free: RefCell::default(), queue: RefCell::default(), mailbox }
    }

    fn insert(&self, future: BoxFuture) -> TaskId {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot { generation: 0, future: None, waker: None });
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        let id = TaskId(u64::from(slot.generation) << 32 | u64::from(index));
        let inner = Arc::new(TaskWaker { id, queued: AtomicBool::new(false), mailbox: self.mailbox.clone() });
        slot.waker = Some((Waker::from(inner.clone()), inner));
        slot.future = Some(future);
        id
    }

    pub(crate) fn schedule(&self, id: TaskId) {
        self.queue.borrow_mut().push_back(id);
    }

    pub(crate) fn has_runnable(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// Polls the tasks that are runnable now; those woken meanwhile wait for the next turn.
    pub(crate) fn run(&self) {
        let count = self.queue.borrow().len();
        for _ in 0..count {
            let Some(id) = self.queue.borrow_mut().pop_front() else { return };
            self.poll(id);
        }
    }

    fn poll(&self, id: TaskId) {
        let index = id.0 as u32 as usize;
        let (mut future, waker) = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index).filter(|s| u64::from(s.generation) == id.0 >> 32) else {
                return;
            };
            let (Some(future), Some((waker, inner))) = (slot.future.take(), &slot.waker) else { return };
            inner.queued.store(false, Ordering::Release);
            (future, waker.clone())
        };
        let done = match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                self.slots.borrow_mut()[index].future = Some(future);
                return;
            }
            Poll::Ready(()) => future,
        };
        {
            let mut slots = self.slots.borrow_mut();
            slots[index].waker = None;
            slots[index].generation = slots[index].generation.wrapping_add(1);
            self.free.borrow_mut().push(index as u32);
        }
        // Dropped last: what the future owned may reach back into the loop.
        drop(done);
    }
}

/// Starts a task on this thread's loop and polls it once, at once.
pub fn spawn(future: impl Future<Output = ()> + 'static) -> TaskId {
    let home = Loop::current();
    let id = home.tasks.insert(Box::pin(future));
    home.tasks.poll(id);
    id
}

/// Lets everything else have its turn; the loop does not sleep meanwhile.
pub async fn one_turn() {
    let mut turned = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut turned, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
