//! What is done when the memory is short: connections that hold much and get little done are closed, over all threads in one order.
//!
//! The thread that finds the memory full starts a survey: each thread tells what its connections hold, and the last one to do so
//! chooses. Every thread closes its own.

use super::CLOSED;
use crate::connection::Connection;
use crate::limits::{MEMORY_LOG_MS, MEMORY_RATE_BYTES, MEMORY_SURVEY_MS};
use crate::table::{Slot, State, Thread};
use brisk_host::log::LogLevel;
use brisk_host::memory::{Holding, Level, Look, take_grown};
use brisk_net::{clock, sleep};
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// An idle connection is as dear as a busy one that holds so many times as much.
/// A client must expect that an idle connection is closed (RFC 9112 §9.3.1); closing a busy one costs an answer.
const IDLE_WEIGHT: u64 = 4;

/// What one connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    thread: usize,
    key: Key,
    bytes: u64,
    /// The dearest are closed first.
    cost: u64,
}

/// How its thread finds a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// In its table.
    Slot(u64),
    /// Another protocol has it; the connection's number.
    Other(u64),
}

/// How dear a connection is: by what it holds, and by how little moves on it.
/// Not by age and not by number: a client that frees its memory by reading is left alone.
fn cost(bytes: u64, is_idle: bool, bytes_per_sec: u64) -> u64 {
    // A client that reads fast frees what it holds by itself. Much held and little read is what attacks look like.
    if is_idle { bytes * IDLE_WEIGHT } else { bytes / (1 + bytes_per_sec / MEMORY_RATE_BYTES) }
}

/// The connections to close so that `excess` bytes become free. `share`: what the rest may hold in any case.
fn choose(mut all: Vec<Held>, excess: u64, share: u64) -> Vec<Held> {
    let total: u64 = all.iter().map(|held| held.bytes).sum();
    // A tenth is theirs whatever else holds memory: a server that a leak elsewhere fills still answers.
    // What is above the share is all that may be taken.
    let mut left = excess.min(total.saturating_sub(share));
    all.sort_unstable_by_key(|held| Reverse(held.cost));
    all.into_iter()
        .take_while(|held| {
            let is_wanted = left > 0;
            left = left.saturating_sub(held.bytes);
            is_wanted
        })
        .collect()
}

/// A survey of all threads.
/// One at a time for all threads, started by whoever notices first.
struct Survey {
    look: Look,
    /// Threads that have not told yet.
    missing: AtomicUsize,
    found: Mutex<Vec<Held>>,
}

impl Thread {
    /// Looks at the memory, if it is time, and has done what follows.
    pub(crate) fn look_at_memory(self: &Rc<Self>) {
        let (budget, now_ms) = (&self.shared.budget, clock::mono_ms());
        // One comparison in each turn of the loop; a look asks the kernel.
        // Before the kernel is asked.
        if !budget.is_due(now_ms) {
            return;
        }
        take_grown();
        let Some(look) = budget.look(now_ms) else { return };
        if look.level == Level::Fine {
            if budget.take_told() {
                self.log_memory(LogLevel::Notice, &look, "there is enough again");
            }
            return;
        }
        // Of all threads that notice it, one begins; and not again before what was closed has been freed.
        if budget.may_survey(now_ms, MEMORY_SURVEY_MS) {
            self.survey(look);
        }
    }

    fn log_memory(&self, level: LogLevel, look: &Look, what: &str) {
        let limit = self.shared.budget.limit().unwrap_or(u64::MAX) >> 10;
        let text =
            format_args!("{} KiB of memory are in use, the limit is {limit} KiB: {what}", look.used >> 10);
        brisk_host::live::log_error(&self.live(), level, text);
    }

    fn survey(&self, look: Look) {
        let mailboxes = || self.shared.mailboxes.iter().filter_map(|mailbox| mailbox.get());
        // Counted before the first is asked: it may answer at once.
        let missing = AtomicUsize::new(mailboxes().count());
        let survey = Arc::new(Survey { look, missing, found: Mutex::default() });
        for mailbox in mailboxes() {
            let survey = survey.clone();
            mailbox.call(move || {
                // A thread that ends does not tell. Then nobody concludes, and the next survey begins anew.
                if let Some(thread) = Thread::current() {
                    thread.tell(&survey);
                }
            });
        }
    }

    /// Tells what this thread's connections hold.
    fn tell(self: &Rc<Self>, survey: &Survey) {
        // What is kept for later only costs speed.
        self.drop_spare_requests();
        brisk_net::sys::release_free_memory();
        let now_ms = clock::mono_ms();
        let held = |(index, (generation, slot)): (usize, &(u32, Option<Slot>))| {
            let slot = slot.as_ref()?;
            // With the slot's generation: when connections are closed the slot may be another one's.
            // Slots are used again; the generation tells another connection from the one that was looked at.
            let (conn, key) = (&slot.conn, Key::Slot(u64::from(*generation) << 32 | index as u64));
            let bytes = conn.memory() as u64;
            let moved = conn.io.received() + conn.io.sent();
            let rate = conn.account.rate(moved, conn.started_ms, now_ms);
            Some(Held { thread: self.index, key, bytes, cost: cost(bytes, is_idle(slot), rate) })
        };
        let mut own: Vec<Held> = self.slots.borrow().iter().enumerate().filter_map(held).collect();
        self.host.each_protocol(|protocol| {
            protocol.holdings(&mut |one| {
                let (key, bytes) = (Key::Other(one.connection), one.bytes as u64);
                let cost = cost(bytes, false, one.bytes_per_sec);
                own.push(Held { thread: self.index, key, bytes, cost });
            });
        });
        survey.found.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
        // The last one sees what all others have told (release and acquire on the same number).
        if survey.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let found = std::mem::take(&mut *survey.found.lock().unwrap_or_else(PoisonError::into_inner));
            self.conclude(&survey.look, found);
        }
    }

    /// All threads have told: chooses, and has each thread close what was chosen.
    fn conclude(&self, look: &Look, found: Vec<Held>) {
        let budget = &self.shared.budget;
        let total: u64 = found.iter().map(|held| held.bytes).sum();
        let are_to_blame = budget.held(total);
        let chosen = choose(found, look.excess, budget.share());
        // At most one line per period: a server short of memory must not fill the disk as well.
        if budget.may_log(clock::mono_ms(), MEMORY_LOG_MS) {
            let total = total >> 10;
            let what = if are_to_blame {
                let count = chosen.len();
                format!(
                    "connections hold {total} KiB; none is accepted until there is room, and {count} are closed"
                )
            } else {
                // What holds the memory is no connection, so closing more would only cost answers.
                format!("connections hold only {total} KiB of it, so that closing them would not help")
            };
            self.log_memory(LogLevel::Alert, look, &what);
        }
        for (index, mailbox) in self.shared.mailboxes.iter().enumerate() {
            let own: Vec<Held> = chosen.iter().filter(|held| held.thread == index).copied().collect();
            if let Some(mailbox) = mailbox.get().filter(|_| !own.is_empty()) {
                mailbox.call(move || {
                    if let Some(thread) = Thread::current() {
                        thread.close_dear(&own);
                    }
                });
            }
        }
    }

    fn close_dear(self: &Rc<Self>, chosen: &[Held]) {
        for held in chosen {
            match held.key {
                Key::Slot(key) => {
                    // Closed by itself since it was told of.
                    let Some((index, conn)) = self.connection(key) else { continue };
                    let text = format_args!(
                        "connection is closed for want of memory: it holds {} bytes",
                        held.bytes
                    );
                    crate::log::connection(&self.live(), &conn, LogLevel::Info, text);
                    CLOSED.add(1);
                    self.close_now(index, &conn);
                }
                Key::Other(connection) => self.give_up_other(connection, held.bytes),
            }
        }
        // Tasks let go of what they hold in their next turn.
        // It frees what tasks had, so the kernel gets it back soon after.
        brisk_net::spawn(async {
            sleep(Duration::from_millis(1)).await;
            brisk_net::sys::release_free_memory();
        });
    }

    /// Has another protocol end a connection.
    fn give_up_other(&self, connection: u64, bytes: u64) {
        let holding = Holding { connection, bytes: bytes as usize, bytes_per_sec: 0 };
        self.host.each_protocol(|protocol| CLOSED.add(u64::from(protocol.give_up(&holding))));
    }

    fn close_now(&self, index: u32, conn: &Rc<Connection>) {
        if let Some(session) = conn.session().filter(|session| !session.is_dead()) {
            return session.give_up(conn);
        }
        let cut = match &self.slots.borrow()[index as usize].1 {
            Some(Slot { state: State::Busy(cut), .. }) => Some(cut.clone()),
            _ => None,
        };
        match cut {
            // A task has it: it is told to end, and releases the connection itself.
            Some(cut) => cut.order(),
            None => self.release(index),
        }
    }
}

/// Whether no request is under way.
fn is_idle(slot: &Slot) -> bool {
    match slot.conn.session() {
        Some(session) => session.is_idle(),
        None => matches!(slot.state, State::Idle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn held(key: u64, bytes: u64, is_idle: bool, rate: u64) -> Held {
        Held { thread: 0, key: Key::Slot(key), bytes, cost: cost(bytes, is_idle, rate) }
    }

    fn check(all: &[Held], excess: u64, share: u64, want: &[u64]) {
        let chosen: Vec<Key> = choose(all.to_vec(), excess, share).iter().map(|held| held.key).collect();
        let want: Vec<Key> = want.iter().map(|key| Key::Slot(*key)).collect();
        assert_eq!(chosen, want, "{excess} of {all:?}");
    }

    #[test]
    fn the_dearest_go_first_and_no_more_than_needed() {
        let all = [
            held(1, 2 * KIB, true, 0),
            held(2, 1000 * KIB, false, 10),
            held(3, 900 * KIB, false, 10),
            // A download: it holds as much, and it moves.
            held(4, 1000 * KIB, false, 10_000 * KIB),
            held(5, 3 * KIB, false, 100),
        ];
        check(&all, 0, 0, &[]);
        check(&all, 1, 0, &[2]);
        check(&all, 1000 * KIB, 0, &[2]);
        check(&all, 1000 * KIB + 1, 0, &[2, 3]);
        // Next to those that are stuck the idle one is cheap, and cheaper still is the one that moves.
        check(&all, 1901 * KIB, 0, &[2, 3, 1]);
        // However much is to be freed, connections may hold their share.
        check(&all, u64::MAX, 1100 * KIB, &[2, 3]);
        check(&all, u64::MAX, 10_000 * KIB, &[]);
    }

    #[test]
    fn idle_connections_go_before_busy_ones_that_hold_as_much() {
        let all = [held(1, 20 * KIB, false, 0), held(2, 20 * KIB, true, 0), held(3, 100 * KIB, false, 0)];
        check(&all, 101 * KIB, 0, &[3, 2]);
        check(&[], 100, 0, &[]);
    }
}
