//! Running a client from ordinary code.

use brisk_net::{Driver, Loop, spawn};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::rc::Rc;

/// A loop that has nothing but tasks.
struct Idle;

impl Driver for Idle {
    fn ready(&self, _: &[u64]) {}
    fn timer(&self, _: u64) {}
    fn before_sleep(&self) {}
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
