//! When which server is asked, and what follows from its answers.

use super::super::group::Upstream;
use super::pace::{Asks, Pace};
use brisk_balance::{CheckId, Endpoint, Health, PeerId, PeerStatus};
use brisk_net::{clock, sleep};
use brisk_server::core::LogLevel;
use brisk_server::service::Work;
use brisk_server::worker::log_error;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What this check knows of one server by its latest answers.
struct Record {
    fails: u32,
    passes: u32,
    /// A slow server is not asked again before it has answered, however short the interval is.
    is_being_asked: bool,
    health: Health,
}

impl Record {
    /// Of a server that this check has not asked: what there was before it, for instance before a reload.
    fn new(health: Health) -> Record {
        Record { fails: 0, passes: 0, is_being_asked: false, health }
    }

    /// Takes an answer.
    fn note(&mut self, passed: bool, pace: &Pace) {
        // In a row: one good answer ends a row of bad ones.
        (self.passes, self.fails) = if passed { (self.passes + 1, 0) } else { (0, self.fails + 1) };
        self.health = match passed {
            true if self.passes >= pace.passes => Health::Good,
            false if self.fails >= pace.fails => Health::Bad,
            // One that waits for its first check goes on waiting.
            _ => self.health,
        };
    }
}

type Records = Rc<RefCell<HashMap<PeerId, Record>>>;

/// Begins the rounds of a check.
pub(super) fn start(check: CheckId, pace: &Pace, upstream: &Arc<Upstream>, asks: Rc<dyn Asks>, work: &Work) {
    let (pace, upstream) = (pace.clone(), upstream.clone());
    let (records, inner) = (Records::default(), work.clone());
    work.spawn(async move {
        loop {
            let peers = upstream.group().peers(clock::mono_ms());
            // Servers come and go at run time; numbers are never given again.
            records.borrow_mut().retain(|id, _| peers.iter().any(|peer| peer.info.id == *id));
            for peer in peers {
                let is_down = peer.state == brisk_balance::PeerState::Down;
                let mut all = records.borrow_mut();
                let id = peer.info.id;
                let known = || upstream.group().verdict(id, check).unwrap_or_default();
                let record = all.entry(id).or_insert_with(|| Record::new(known()));
                // Administratively down: it is not ours to bring back.
                if is_down || std::mem::replace(&mut record.is_being_asked, true) {
                    continue;
                }
                drop(all);
                // A task for each: one that does not answer holds up none of the others.
                let one = One {
                    check,
                    pace: pace.clone(),
                    upstream: upstream.clone(),
                    asks: asks.clone(),
                    records: records.clone(),
                    work: inner.clone(),
                };
                inner.spawn(async move { one.ask(peer).await });
            }
            // Drawn anew each round, so that many balancers do not ask in step.
            sleep(pace.interval + drawn(pace.jitter)).await;
        }
    });
}

fn drawn(most: Duration) -> Duration {
    let most_ms = most.as_millis() as u64;
    // Random keys of the standard library: the jitter need not be unpredictable, only different.
    let drawn = RandomState::new().hash_one(0) % (most_ms + 1);
    Duration::from_millis(drawn)
}

/// One question to one server.
struct One {
    check: CheckId,
    pace: Pace,
    upstream: Arc<Upstream>,
    asks: Rc<dyn Asks>,
    records: Records,
    work: Work,
}

impl One {
    async fn ask(&self, peer: PeerStatus) {
        let endpoint = match (&peer.info.endpoint, self.pace.port) {
            (Endpoint::Ip(address), Some(port)) => Endpoint::Ip(SocketAddr::new(address.ip(), port)),
            (endpoint, _) => endpoint.clone(),
        };
        let result = self.asks.ask(endpoint, &peer.info).await;
        self.note(&peer, result);
    }

    fn note(&self, peer: &PeerStatus, result: Result<(), String>) {
        let id = peer.info.id;
        let mut records = self.records.borrow_mut();
        // Taken away while it was asked.
        let Some(record) = records.get_mut(&id) else { return };
        record.is_being_asked = false;
        let (passed, was_bad) = (result.is_ok(), record.health == Health::Bad);
        record.note(passed, &self.pace);
        let health = record.health;
        drop(records);
        self.upstream.group().checked(id, self.check, passed, health, clock::mono_ms());
        // Only changes are logged: a server that stays down would fill the log.
        if was_bad == (health == Health::Bad) {
            return;
        }
        let (name, group) = (&peer.info.name, &self.upstream.group().name);
        let live = &self.work.live;
        match result {
            Err(why) => log_error(
                live,
                LogLevel::Warn,
                format_args!(
                    "peer is unhealthy while health checking, health check failed: {why}, peer: {name}, upstream: \"{group}\""
                ),
            ),
            Ok(()) => log_error(
                live,
                LogLevel::Notice,
                format_args!("peer is healthy while health checking, peer: {name}, upstream: \"{group}\""),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_a_row_count() {
        let pace = Pace { fails: 2, passes: 2, ..Pace::default() };
        let check = |health: Health, answers: &[bool], want: Health| {
            let mut record = Record::new(health);
            answers.iter().for_each(|passed| record.note(*passed, &pace));
            assert_eq!(record.health, want, "{health:?} {answers:?}");
        };
        check(Health::Good, &[false, true, false], Health::Good);
        check(Health::Good, &[true, false, false], Health::Bad);
        check(Health::Bad, &[true, false, true], Health::Bad);
        check(Health::Bad, &[true, true], Health::Good);
        check(Health::Checking, &[true], Health::Checking);
        check(Health::Checking, &[false], Health::Checking);
        check(Health::Checking, &[true, true], Health::Good);
        check(Health::Checking, &[false, false], Health::Bad);
    }
}
