//! Running a client from ordinary code.

use brisk_load::system;
use brisk_net::{Driver, Loop, sleep, spawn};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// A loop that has nothing but tasks.
struct Idle;

impl Driver for Idle {
    fn ready(&self, _: &[u64]) {}
    fn timer(&self, _: u64) {}
    fn end_turn(&self) {}
}

/// Runs a future, and the tasks that it spawns, on a loop of this thread until it is done.
pub fn block_on<T: 'static>(future: impl Future<Output = T> + 'static) -> io::Result<T> {
    let home = Loop::install()?;
    let result = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&result);
    let ender = Rc::clone(&home);
    spawn(async move {
        let value = future.await;
        *slot.borrow_mut() = Some(value);
        ender.stop();
    });
    if result.borrow().is_none() {
        home.run(&Idle)?;
    }
    result.take().ok_or_else(|| io::Error::other("the loop ended early"))
}

/// What a future comes to; `None`: the user wants the end, and it was dropped.
pub async fn unless_interrupted<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut look = pin!(sleep(LOOK));
    poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        while look.as_mut().poll(cx).is_ready() {
            if system::interrupted() {
                return Poll::Ready(None);
            }
            look.set(sleep(LOOK));
        }
        Poll::Pending
    })
    .await
}
