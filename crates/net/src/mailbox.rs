//! How threads reach a loop: a locked list and an eventfd.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// Names a task of one loop; stale ids are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId(pub(crate) u64);

/// What a thread leaves for a loop.
pub(crate) enum Letter {
    Wake(TaskId),
    Call(Box<dyn FnOnce() + Send>),
}

/// A loop's mailbox. Cheap to share; sending wakes the loop.
pub struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    event: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Mailbox { letters: Mutex::default(), event })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Runs `call` on the loop's thread, soon.
    pub fn call(&self, call: impl FnOnce() + Send + 'static) {
        self.send(Letter::Call(Box::new(call)));
    }

    pub(crate) fn wake(&self, id: TaskId) {
        self.send(Letter::Wake(id));
    }

    fn send(&self, letter: Letter) {
        let first = {
            let mut letters = self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            letters.push(letter);
            letters.len() == 1
        };
        if first {
            // Only a full counter can fail, and then the loop is awake anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    pub(crate) fn take(&self) -> Vec<Letter> {
        // The counter is cleared before the list: a letter that comes in between wakes the loop once more.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}
