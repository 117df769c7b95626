//! The loop of one thread: epoll, timers, tasks, messages.

use crate::clock;
use crate::limits::{DEFERRED_TURNS_MAX, EVENTS_MAX, LOOKS_LEFT_OUT_MAX};
use crate::mailbox::{Letter, Mailbox, TaskId};
use crate::source::{Ready, Source};
use crate::task::Tasks;
use crate::timers::Timers;
use rustix::event::{Timespec, epoll};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MAILBOX_SLOT: u64 = u64::MAX;

/// What the owner of a loop does with events that belong to no task.
pub trait Driver {
    /// These hot sources have become readable or were closed. Called once per wake-up, with all of them.
    fn ready(&self, keys: &[u64]);

    /// The time asked for with [`Loop::hot_timer`] has come.
    fn timer(&self, key: u64);

    /// The end of a turn: sends what has become ready in it.
    fn end_turn(&self);

    /// Whether there is work that is cheaper for several turns together: [`Driver::do_deferred`] does it.
    fn has_deferred(&self) -> bool {
        false
    }

    /// Does it. Called before the loop sleeps, and after so many turns without sleep: the number is bounded.
    fn do_deferred(&self) {}
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Loop>>> = const { RefCell::new(None) };
}

struct Slot {
    generation: u32,
    source: Option<Rc<Source>>,
}

/// How long events wait: what comes while the loop works is not seen before its next look at the kernel.
#[derive(Default)]
struct Lag {
    on: Cell<bool>,
    /// The last wake-up, or an earlier one if events have been left in the kernel since.
    since_us: Cell<u64>,
    /// When the events of the last wake-up came, on the average.
    arrived_us: Cell<u64>,
    turn: Cell<u64>,
}

/// A wait of less than this was none: there were events already.
const NAP_US: u64 = 500;

impl Lag {
    fn awake(&self, asleep_us: u64, now_us: u64, is_full: bool) {
        self.turn.set(self.turn.get() + 1);
        let had_to_wait = now_us - asleep_us.min(now_us) >= NAP_US;
        let since_us = self.since_us.get();
        let since_us = if had_to_wait || since_us == 0 { now_us } else { since_us };
        self.arrived_us.set(since_us + now_us.saturating_sub(since_us) / 2);
        self.since_us.set(if is_full { since_us } else { now_us });
    }
}

/// When the kernel is asked for more events before deferred work is done. An idle loop has none, so that the call would be in vain:
/// after each such look, twice as many are left out.
#[derive(Default)]
struct Deferring {
    /// Turns since the work was done.
    turns: Cell<u32>,
    /// Looks to leave out.
    left_out: Cell<u32>,
    /// How many are left out after the next one in vain.
    next_left_out: Cell<u32>,
}

impl Deferring {
    fn may_look(&self) -> bool {
        let left_out = self.left_out.get();
        self.left_out.set(left_out.saturating_sub(1));
        left_out == 0 && self.turns.get() < DEFERRED_TURNS_MAX
    }

    fn found(&self, any: bool) {
        if any {
            self.turns.set(self.turns.get() + 1);
            self.next_left_out.set(0);
        } else {
            self.left_out.set(self.next_left_out.get());
            self.next_left_out.set((self.next_left_out.get() * 2 + 1).min(LOOKS_LEFT_OUT_MAX));
        }
    }
}

/// One thread's event loop.
pub struct Loop {
    epoll: OwnedFd,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    hot: RefCell<Vec<u64>>,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    mailbox: Arc<Mailbox>,
    stopping: Cell<bool>,
    lag: Lag,
    deferring: Deferring,
    /// See [`Loop::wake_within`].
    wake_us: Cell<Option<u64>>,
    /// The kernel waits to the microsecond.
    is_precise: Cell<bool>,
}

impl Loop {
    /// Makes a loop and installs it as this thread's.
    pub fn install() -> io::Result<Rc<Loop>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mailbox = Arc::new(Mailbox::new()?);
        epoll::add(
            &epoll,
            mailbox.fd(),
            epoll::EventData::new_u64(MAILBOX_SLOT),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        let new = Rc::new(Loop {
            epoll,
            slots: RefCell::default(),
            free: RefCell::default(),
            hot: RefCell::default(),
            tasks: Tasks::new(mailbox.clone()),
            timers: Timers::default(),
            mailbox,
            stopping: Cell::new(false),
            lag: Lag::default(),
            deferring: Deferring::default(),
            wake_us: Cell::new(None),
            is_precise: Cell::new(true),
        });
        CURRENT.set(Some(new.clone()));
        clock::refresh();
        Ok(new)
    }

    /// This thread's loop.
    ///
    /// # Panics
    /// If the thread has none: a programming error.
    pub fn current() -> Rc<Loop> {
        Loop::try_current().expect("this thread runs an event loop")
    }

    /// This thread's loop, if it has one.
    pub fn try_current() -> Option<Rc<Loop>> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Where other threads leave work for this one.
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn register(&self, source: &Rc<Source>, flags: epoll::EventFlags) -> io::Result<()> {
        let mut slots = self.slots.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            slots.push(Slot { generation: 0, source: None });
            slots.len() as u32 - 1
        });
        let slot = &mut slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        slot.source = Some(source.clone());
        let data = u64::from(slot.generation) << 32 | u64::from(index);
        source.slot.set(data);
        let flags = flags | epoll::EventFlags::ET;
        let added = epoll::add(&self.epoll, source_fd(source), epoll::EventData::new_u64(data), flags);
        if let Err(error) = added {
            slot.source = None;
            self.free.borrow_mut().push(index);
            return Err(error.into());
        }
        Ok(())
    }

    /// Asks for other events of what is registered.
    pub(crate) fn change(&self, source: &Rc<Source>, flags: epoll::EventFlags) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.slot.get());
        Ok(epoll::modify(&self.epoll, source_fd(source), data, flags | epoll::EventFlags::ET)?)
    }

    pub(crate) fn deregister(&self, data: u64) {
        let index = data as u32;
        let source = {
            let mut slots = self.slots.borrow_mut();
            let Some(slot) = slots.get_mut(index as usize) else { return };
            if u64::from(slot.generation) != data >> 32 {
                return;
            }
            slot.source.take()
        };
        if let Some(source) = source {
            self.free.borrow_mut().push(index);
            // Closing the only descriptor of a socket ends its registration: a call less for each connection.
            if source.shared.get() {
                let _ = epoll::delete(&self.epoll, source_fd(&source));
            }
        }
    }

    /// The driver is told of `key` in this turn, or in the next one if it is being told already.
    pub fn push_hot(&self, key: u64) {
        self.hot.borrow_mut().push(key);
    }

    /// Calls [`Driver::timer`] with `key` at `deadline_ms` (monotonic). Cannot be cancelled: the driver compares.
    pub fn hot_timer(&self, deadline_ms: u64, key: u64) {
        self.timers.add_hot(deadline_ms, key);
    }

    /// Has the loop wake after this time at the latest, to the microsecond where the kernel can; the driver then finds out why by
    /// itself. Replaces what was asked for before.
    pub fn wake_within(&self, wait: Option<Duration>) {
        self.wake_us.set(wait.map(|wait| clock::precise_us() + wait.as_micros() as u64));
    }

    /// Ends [`Loop::run`] after the current turn.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Runs until [`Loop::stop`].
    pub fn run(&self, driver: &dyn Driver) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while !self.stopping.get() {
            driver.end_turn();
            self.next_events(driver, &mut events)?;
            let now = clock::refresh();
            self.dispatch(&events);
            let hot = self.hot.take();
            if !hot.is_empty() {
                driver.ready(&hot);
            }
            self.recycle(hot);
            self.timers.fire(now.mono_ms, |key| driver.timer(key));
            self.tasks.run();
        }
        driver.end_turn();
        driver.do_deferred();
        Ok(())
    }

    /// Waits for events. Deferred work is done before the thread sleeps.
    fn next_events(&self, driver: &dyn Driver, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        if driver.has_deferred() {
            if self.deferring.may_look() {
                self.wait(events, true)?;
                self.deferring.found(!events.is_empty());
                if !events.is_empty() {
                    return Ok(());
                }
            }
            self.deferring.turns.set(0);
            driver.do_deferred();
        }
        self.wait(events, false)
    }

    /// Measures how long events wait before they are handled, or stops doing so.
    pub fn measure_lag(&self, on: bool) {
        self.lag.on.set(on);
    }

    /// How long, in microseconds and on the average, what woke the loop last has been waiting by now; 0 where that is
    /// not measured.
    pub fn lag_us(&self) -> u64 {
        if self.lag.on.get() { clock::precise_us().saturating_sub(self.lag.arrived_us.get()) } else { 0 }
    }

    /// The number of the present wake-up, where [lag](Loop::measure_lag) is measured.
    pub fn turn(&self) -> u64 {
        self.lag.turn.get()
    }

    /// Takes the events that there are; where there are none it waits for them, unless it shall only look.
    fn wait(&self, events: &mut Vec<epoll::Event>, only_looks: bool) -> io::Result<()> {
        let asleep_us = if self.lag.on.get() { clock::precise_us() } else { 0 };
        self.sleep(events, only_looks)?;
        if self.lag.on.get() && !(only_looks && events.is_empty()) {
            self.lag.awake(asleep_us, clock::precise_us(), events.len() == EVENTS_MAX);
        }
        Ok(())
    }

    fn sleep(&self, events: &mut Vec<epoll::Event>, only_looks: bool) -> io::Result<()> {
        let timeout = if only_looks || self.tasks.has_runnable() || !self.hot.borrow().is_empty() {
            Some(0)
        } else {
            self.timers.next_ms().map(|at| at.saturating_sub(clock::refresh().mono_ms))
        };
        events.clear();
        let wake = self.wake_us.get().map(|at| at.saturating_sub(clock::precise_us()));
        let timeout = match (timeout, wake) {
            (Some(ms), Some(us)) if us >= ms.saturating_mul(1000) => Some(ms),
            (timeout, None) => timeout,
            (_, Some(us)) => match self.sleep_us(events, us) {
                Some(done) => return done,
                None => Some(us.div_ceil(1000)),
            },
        };
        let timeout = timeout
            .map(|ms| Timespec { tv_sec: (ms / 1000) as i64, tv_nsec: (ms % 1000 * 1_000_000) as i64 });
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sleeps to the microsecond; `None` if this kernel cannot.
    fn sleep_us(&self, events: &mut Vec<epoll::Event>, us: u64) -> Option<io::Result<()>> {
        if !self.is_precise.get() {
            return None;
        }
        match crate::sys::epoll_wait_us(self.epoll.as_fd(), events, us) {
            Ok(true) | Err(rustix::io::Errno::INTR) => Some(Ok(())),
            Ok(false) => {
                self.is_precise.set(false);
                None
            }
            Err(error) => Some(Err(error.into())),
        }
    }

    fn dispatch(&self, events: &[epoll::Event]) {
        let mut letters = false;
        {
            let slots = self.slots.borrow();
            for event in events {
                let data = { event.data }.u64();
                if data == MAILBOX_SLOT {
                    letters = true;
                    continue;
                }
                let Some(slot) = slots.get(data as u32 as usize) else { continue };
                if u64::from(slot.generation) != data >> 32 {
                    continue;
                }
                if let Some(source) = &slot.source
                    && let Some(key) = source.event(bits(event.flags))
                {
                    self.push_hot(key);
                }
            }
        }
        if letters {
            for letter in self.mailbox.take() {
                match letter {
                    Letter::Wake(id) => self.tasks.schedule(id),
                    Letter::Call(call) => call(),
                }
            }
        }
    }

    /// Gives the emptied list back, so that its memory is used again.
    fn recycle(&self, mut used: Vec<u64>) {
        used.clear();
        let mut hot = self.hot.borrow_mut();
        if hot.is_empty() && hot.capacity() < used.capacity() {
            *hot = used;
        }
    }

    pub(crate) fn schedule(&self, id: TaskId) {
        self.tasks.schedule(id);
    }
}

fn source_fd(source: &Rc<Source>) -> std::os::fd::BorrowedFd<'_> {
    source.descriptor().as_fd()
}

fn bits(flags: epoll::EventFlags) -> u8 {
    let mut bits = 0;
    if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::PRI) {
        bits |= Ready::READ.0;
    }
    if flags.intersects(epoll::EventFlags::OUT) {
        bits |= Ready::WRITE.0;
    }
    if flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
        bits |= Ready::CLOSED.0 | Ready::READ.0;
    }
    if flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
        bits |= Ready::BROKEN.0;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deferred work, and when it was done.
    #[derive(Default)]
    struct Deferred {
        is_there: Rc<Cell<bool>>,
        done: Rc<Cell<u32>>,
    }

    impl Driver for Deferred {
        fn ready(&self, _: &[u64]) {}
        fn timer(&self, _: u64) {}
        fn end_turn(&self) {}

        fn has_deferred(&self) -> bool {
            self.is_there.get()
        }

        fn do_deferred(&self) {
            self.is_there.set(false);
            self.done.set(self.done.get() + 1);
        }
    }

    #[test]
    fn deferred_work_is_done_before_the_loop_sleeps() {
        let home = Loop::install().unwrap();
        let driver = Deferred::default();
        let (is_there, done, ender) = (driver.is_there.clone(), driver.done.clone(), home.clone());
        crate::spawn(async move {
            for round in 1..=3 {
                is_there.set(true);
                crate::sleep(Duration::from_millis(1)).await;
                assert_eq!((is_there.get(), done.get()), (false, round));
            }
            // What the last turn leaves is done, too.
            is_there.set(true);
            ender.stop();
        });
        home.run(&driver).unwrap();
        assert_eq!((driver.is_there.get(), driver.done.get()), (false, 4));
    }

    /// Under load it is done after so many turns, and a loop that is mostly idle looks seldom.
    #[test]
    fn looks_for_more_are_bounded() {
        let busy = Deferring::default();
        let found = (0..100).take_while(|_| busy.may_look()).map(|_| busy.found(true)).count();
        assert_eq!(found, DEFERRED_TURNS_MAX as usize);
        let idle = Deferring::default();
        let looks = (0..1600).filter(|_| idle.may_look()).map(|_| idle.found(false)).count();
        assert!((100..=110).contains(&looks), "{looks}");
    }
}
