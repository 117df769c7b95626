//! The connections of a closed loop are opened before its clock starts, or at the rate of a ramp.
//!
//! A run that begins with a part of its users, and lets the others in as fast as the first are answered, measures fewer users
//! than it says, and flatters a slow server. Here each user has a connection, its TLS handshake included, before the first
//! request is sent; threads wait for each other. Connections that cannot be opened are counted, and tried again later.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::Users;
use super::context::Ns;
use super::worker::{RETRY_DELAY, Slot, Worker};
use crate::limits::{GATHER_STALL_MAX, GATHER_TIME_MAX, RAMP_GRACE_MAX};

/// How long a thread sleeps without events while users come.
const LOOK: Ns = 1_000_000;

impl Worker<'_> {
    /// If the plan wants it, connects this thread's users, waits for those of the other threads, and starts the clock.
    pub(super) fn gather(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        if !self.ctx.is_gathering {
            return Ok(());
        }
        let wanted = self.wanted_users();
        let stall = GATHER_STALL_MAX.min(self.shared.plan.timeout);
        let mut is_gathering = true;
        let (mut ready, mut moved_at) = (0, Instant::now());
        while !self.shared.stop.load(Ordering::Relaxed) && self.shared.origin.get().is_none() {
            if is_gathering {
                self.connect_some(self.ctx.now());
                if self.ctx.ready > ready {
                    (ready, moved_at) = (self.ctx.ready, Instant::now());
                }
                let is_tried = self.ctx.opening == 0 && (ready >= wanted || self.fresh == self.slots.len());
                let is_given_up =
                    moved_at.elapsed() >= stall || self.shared.made_at.elapsed() >= GATHER_TIME_MAX;
                is_gathering = !is_tried && !is_given_up;
                if !is_gathering && self.shared.gathering.fetch_sub(1, Ordering::AcqRel) == 1 {
                    let _ = self.shared.origin.set(Instant::now());
                }
            }
            self.turns(events, LOOK)?;
            self.publish();
        }
        self.users = Some(Users { wanted: wanted as u64, there: self.ctx.ready as u64 });
        self.start();
        Ok(())
    }

    /// Starts the clock: moments count from here on, and requests are sent.
    fn start(&mut self) {
        // It is not set yet if the run was stopped first.
        let origin = *self.shared.origin.get_or_init(Instant::now);
        self.ctx.start(origin);
        if !self.down.is_empty() {
            self.retry_at = Some(RETRY_DELAY);
        }
        for slot in 0..self.slots.len() {
            match &mut self.slots[slot] {
                Slot::Open(open) => {
                    let turn = open.start(&mut self.ctx);
                    self.after(slot, turn);
                }
                Slot::Connecting { begun, .. } => *begun = 0,
                Slot::Down(_) | Slot::Away { .. } | Slot::Settled(_) => {}
            }
        }
    }

    /// This thread's users; no more than its requests.
    pub(super) fn wanted_users(&self) -> usize {
        self.slots.len().min(usize::try_from(self.ctx.allowance).unwrap_or(usize::MAX))
    }

    /// With a ramp, the users who are there when it is over are counted.
    pub(super) fn count_ramp(&mut self, now: Ns) {
        let Some(dials) = &self.dials else { return };
        let is_last = self.fresh == self.slots.len();
        let grace = RAMP_GRACE_MAX.as_nanos() as Ns;
        if self.users.is_none() && is_last && now >= due_before(dials.last_due()) + grace {
            self.users = Some(Users { wanted: self.slots.len() as u64, there: self.there() });
        }
    }

    /// The end of a run with a ramp: if that was not over, those who have come until now are there. Where a number of requests
    /// is what ends it, no more are wanted than were due.
    pub(super) fn end_ramp(&mut self) {
        if self.dials.is_some() && self.users.is_none() {
            let is_timed = self.shared.plan.stop.time().is_some() && self.ctx.allowance > 0;
            let wanted = if is_timed { self.slots.len() } else { self.fresh };
            self.users = Some(Users { wanted: wanted as u64, there: self.there() });
        }
    }

    /// Users who are connected, or done, or were connected and are about to be again.
    fn there(&self) -> u64 {
        let is_there = |(slot, has_come): (&Slot, &bool)| match slot {
            Slot::Open(open) => !open.is_shaking_hands(),
            Slot::Settled(_) | Slot::Down(_) | Slot::Away { .. } | Slot::Connecting { .. } => *has_come,
        };
        self.slots.iter().zip(&self.has_come).filter(|&pair| is_there(pair)).count() as u64
    }
}

fn due_before(due: Option<Duration>) -> Ns {
    due.map_or(0, |due| due.as_nanos() as Ns)
}
