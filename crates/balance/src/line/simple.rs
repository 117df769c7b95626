//! What the line does, found by looking through all that wait at each step: what the line is compared with.

use super::{Origin, Room, Verdict};
use crate::limits::{LINE_NEAR_MS, LINE_PRESSED_MS};
use std::collections::{BTreeMap, HashMap};

struct One {
    ticket: u64,
    since_ms: u64,
    origin: Origin,
    is_called: bool,
    is_shed: bool,
}

impl One {
    fn may_be_called(&self) -> bool {
        !self.is_called && !self.is_shed
    }
}

/// See the module's head. A request is woken by its ticket.
pub struct Simple {
    target_ms: u64,
    all: Vec<One>,
    tickets: u64,
    turns: HashMap<u32, u64>,
    turn: u64,
    pressed_until_ms: u64,
}

impl Simple {
    pub fn new(target_ms: u64) -> Simple {
        Simple { target_ms, all: Vec::new(), tickets: 0, turns: HashMap::new(), turn: 0, pressed_until_ms: 0 }
    }

    fn staying(&self) -> impl DoubleEndedIterator<Item = &One> {
        self.all.iter().filter(|one| !one.is_shed)
    }

    fn one(&mut self, ticket: u64) -> Option<&mut One> {
        self.all.iter_mut().find(|one| one.ticket == ticket)
    }

    pub fn len(&self) -> usize {
        self.staying().count()
    }

    fn limit(&self, room: Room, host: u32, now_ms: u64) -> usize {
        let has_one = self.staying().any(|one| one.origin.host == host);
        if now_ms < self.pressed_until_ms && has_one { room.soon.min(room.most) } else { room.most }
    }

    pub fn make_room(&mut self, room: Room, host: u32, now_ms: u64) -> Option<u64> {
        let max = self.limit(room, host, now_ms);
        if self.len() < max {
            return None;
        }
        let mut counts = BTreeMap::from([(host, 0)]);
        self.staying().for_each(|one| *counts.entry(one.origin.host).or_insert(0) += 1);
        let (most, count) = counts.iter().max_by_key(|(host, count)| (**count, **host))?;
        let share = max / counts.len();
        if counts[&host] >= share || *count <= share {
            return None;
        }
        let newest = self.staying().rev().find(|one| one.origin.host == *most)?.ticket;
        self.one(newest)?.is_shed = true;
        Some(newest)
    }

    pub fn join(&mut self, room: Room, origin: Origin, now_ms: u64) -> Option<u64> {
        if self.len() >= self.limit(room, origin.host, now_ms) {
            self.pressed_until_ms = now_ms + LINE_PRESSED_MS;
            return None;
        }
        let ticket = self.tickets;
        self.tickets += 1;
        self.all.push(One { ticket, since_ms: now_ms, origin, is_called: false, is_shed: false });
        Some(ticket)
    }

    fn next(&self) -> Option<&One> {
        let waiting = self.all.iter().filter(|one| one.may_be_called());
        waiting.min_by_key(|one| self.turns.get(&one.origin.host).copied().unwrap_or(0))
    }

    pub fn call(&mut self, thread: u64, now_ms: u64) -> Option<u64> {
        let next = self.next()?;
        let origin = Origin { thread, ..next.origin };
        let near = self.all.iter().find(|one| one.origin == origin && one.may_be_called());
        let is_far = |near: &&One| now_ms - next.since_ms > 2 * (now_ms - near.since_ms) + LINE_NEAR_MS;
        let ticket = near.filter(|near| !is_far(near)).unwrap_or(next).ticket;
        self.one(ticket)?.is_called = true;
        Some(ticket)
    }

    pub fn is_calling(&self) -> bool {
        self.staying().any(|one| one.is_called)
    }

    pub fn recall(&mut self, ticket: u64) {
        if let Some(one) = self.one(ticket) {
            one.is_called = false;
        }
    }

    pub fn served(&mut self, ticket: u64) {
        let host = self.one(ticket).map(|one| one.origin.host);
        if let Some(host) = host {
            self.turn += 1;
            self.turns.insert(host, self.turn);
        }
    }

    pub fn ask(&mut self, ticket: u64) -> Verdict {
        let next = self.next().map(|next| next.ticket);
        match self.one(ticket) {
            None => Verdict::Shed,
            Some(one) if one.is_shed => Verdict::Shed,
            Some(one) if one.is_called || next == Some(ticket) => Verdict::First,
            Some(_) => Verdict::Waits,
        }
    }

    pub fn shed_late(&mut self, keep: usize, now_ms: u64) -> Vec<u64> {
        let many = self.len().saturating_sub(keep);
        let target_ms = self.target_ms;
        let is_late = |one: &&One| now_ms - one.since_ms > target_ms;
        let late: Vec<u64> = self.staying().take(many).take_while(is_late).map(|one| one.ticket).collect();
        for ticket in &late {
            if let Some(one) = self.one(*ticket) {
                one.is_shed = true;
            }
            self.pressed_until_ms = now_ms + LINE_PRESSED_MS;
        }
        late
    }

    pub fn leave(&mut self, ticket: u64) -> bool {
        let before = self.all.len();
        self.all.retain(|one| one.ticket != ticket);
        self.all.len() < before
    }
}
