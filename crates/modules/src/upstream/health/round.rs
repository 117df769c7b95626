//! When which server is asked, and what follows from its answers.

use super::super::group::Upstream;
use super::pace::{Asks, Pace};
use brisk_balance::{Endpoint, Health, PeerId, PeerStatus};
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

/// What is known of one server by its latest answers.
#[derive(Default)]
struct Record {
    fails: u32,
    passes: u32,
    /// A slow server is not asked again before it has answered, however short the interval is.
    is_being_asked: bool,
    is_bad: bool,
}

type Records = Rc<RefCell<HashMap<PeerId, Record>>>;

/// Begins the rounds of a check.
pub(super) fn start(pace: &Pace, upstream: &Arc<Upstream>, asks: Rc<dyn Asks>, work: &Work) {
    let (pace, upstream) = (pace.clone(), upstream.clone());
    let (records, inner) = (Records::default(), work.clone());
    let is_first = std::cell::Cell::new(true);
    work.spawn(async move {
        loop {
            let peers = upstream.group().peers(clock::mono_ms());
            // Servers come and go at run time; numbers are never given again.
            records.borrow_mut().retain(|id, _| peers.iter().any(|peer| peer.info.id == *id));
            for peer in peers {
                admit(&pace, &upstream, &records, &peer, is_first.get());
                let is_down = peer.state == brisk_balance::PeerState::Down;
                let mut all = records.borrow_mut();
                let record = all.entry(peer.info.id).or_default();
                // Administratively down: it is not ours to bring back.
                if is_down || std::mem::replace(&mut record.is_being_asked, true) {
                    continue;
                }
                drop(all);
                // A task for each: one that does not answer holds up none of the others.
                let one = One {
                    pace: pace.clone(),
                    upstream: upstream.clone(),
                    asks: asks.clone(),
                    records: records.clone(),
                    work: inner.clone(),
                };
                inner.spawn(async move { one.ask(peer).await });
            }
            is_first.set(false);
            // Drawn anew each round, so that many balancers do not ask in step.
            sleep(pace.interval + drawn(pace.jitter)).await;
        }
    });
}

/// A server that is seen for the first time: whether it may have requests before it was asked.
fn admit(pace: &Pace, upstream: &Upstream, records: &Records, peer: &PeerStatus, is_start: bool) {
    if records.borrow().contains_key(&peer.info.id) {
        return;
    }
    let is_bad = peer.state == brisk_balance::PeerState::Unhealthy;
    records.borrow_mut().insert(peer.info.id, Record { is_bad, ..Record::default() });
    if pace.mandatory {
        // Servers that are new since the start have nothing to persist.
        let keeps = pace.persistent && is_start && peer.last_check_passed.is_some();
        upstream.group().must_be_checked(peer.info.id, keeps);
    }
}

fn drawn(most: Duration) -> Duration {
    let most_ms = most.as_millis() as u64;
    // Random keys of the standard library: the jitter need not be unpredictable, only different.
    let drawn = RandomState::new().hash_one(0) % (most_ms + 1);
    Duration::from_millis(drawn)
}

/// One question to one server.
struct One {
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
        let passed = result.is_ok();
        // In a row: one good answer ends a row of bad ones.
        (record.passes, record.fails) = if passed { (record.passes + 1, 0) } else { (0, record.fails + 1) };
        let was_bad = record.is_bad;
        if passed && record.passes >= self.pace.passes {
            record.is_bad = false;
        }
        if !passed && record.fails >= self.pace.fails {
            record.is_bad = true;
        }
        let is_waiting = peer.state == brisk_balance::PeerState::Checking;
        let health = match (record.is_bad, is_waiting && !passed) {
            (true, _) => Health::Bad,
            // Its first check has failed, though not often enough to be bad.
            (false, true) => Health::Checking,
            (false, false) if is_waiting && record.passes < self.pace.passes => Health::Checking,
            (false, false) => Health::Good,
        };
        let is_bad = record.is_bad;
        drop(records);
        self.upstream.group().checked(id, passed, health, clock::mono_ms());
        // Only changes are logged: a server that stays down would fill the log.
        if was_bad == is_bad {
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
