//! Connections to servers that wait for another session of their account. Each thread keeps its own.
//!
//! Only what has nothing of its session in it is kept: no transaction, no lock, nothing that pins. The next session logs in anew on it
//! or has it reset, so that nothing of the session before is left; the server judges its account again from time to time.

use crate::backend::Parked;
use crate::limits::{POOL_IDLE_MS, POOL_OF_SERVER_MAX};
use brisk_balance::PeerId;
use brisk_db::{Cluster, Tally};
use brisk_mysql::client::Account;
use brisk_net::{clock, sleep};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// Whose connection it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The server block's number.
    pub split: u64,
    /// The server.
    pub server: PeerId,
    /// The account's name.
    user: Vec<u8>,
    /// What decides about the form of messages.
    capabilities: u64,
}

impl Key {
    /// For sessions of an account.
    pub fn new(split: u64, server: PeerId, account: &Account) -> Key {
        let capabilities = crate::backend::of_form(account.capabilities).0;
        Key { split, server, user: account.user.clone(), capabilities }
    }
}

struct Idle {
    key: Key,
    parked: Parked,
    until_ms: u64,
    _counted: Counted,
}

/// Counts a connection while it waits.
struct Counted(Arc<Cluster>);

impl Counted {
    fn new(cluster: &Arc<Cluster>) -> Counted {
        Tally::add(&cluster.tally.idle_connections);
        Counted(cluster.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        Tally::subtract(&self.0.tally.idle_connections);
    }
}

#[derive(Default)]
struct Pool {
    /// The last one was used last.
    idle: RefCell<Vec<Idle>>,
    /// A task looks after them.
    is_kept: Cell<bool>,
}

thread_local! {
    static POOL: Pool = Pool::default();
}

impl Pool {
    fn remove(&self, which: impl FnMut(&Idle) -> bool) -> Option<Idle> {
        let mut idle = self.idle.borrow_mut();
        let at = idle.iter().position(which)?;
        Some(idle.remove(at))
    }

    /// Of those of a kind there are fewer than so many: the oldest go.
    fn make_room(&self, most: usize, of_kind: impl Fn(&Idle) -> bool) {
        while self.idle.borrow().iter().filter(|idle| of_kind(idle)).count() >= most {
            let Some(idle) = self.remove(&of_kind) else { return };
            idle.parked.quit();
        }
    }

    fn remove_last(&self, key: &Key) -> Option<Idle> {
        let mut idle = self.idle.borrow_mut();
        let at = idle.iter().rposition(|idle| idle.key == *key)?;
        Some(idle.remove(at))
    }
}

/// Takes the connection that was used last, if there is one that is still good.
pub fn take(key: &Key) -> Option<Parked> {
    POOL.with(|pool| {
        loop {
            let idle = pool.remove_last(key)?;
            if !idle.parked.is_stale() {
                return Some(idle.parked);
            }
        }
    })
}

/// Keeps a connection, at most so many of its kind, and of its server a bounded number; the oldest makes room.
pub fn put(key: Key, parked: Parked, most: usize, cluster: &Arc<Cluster>) {
    if most == 0 || parked.is_stale() {
        return;
    }
    POOL.with(|pool| {
        pool.make_room(most, |idle| idle.key == key);
        let of_server = most.max(POOL_OF_SERVER_MAX);
        pool.make_room(of_server, |idle| (idle.key.split, idle.key.server) == (key.split, key.server));
        let until_ms = clock::mono_ms() + POOL_IDLE_MS;
        pool.idle.borrow_mut().push(Idle { key, parked, until_ms, _counted: Counted::new(cluster) });
        if !pool.is_kept.replace(true) {
            brisk_net::spawn(keep());
        }
    });
}

/// Closes what has waited for too long, or has been closed by its server, until nothing is left.
async fn keep() {
    loop {
        sleep(Duration::from_secs(1)).await;
        let is_over = POOL.with(|pool| {
            let now_ms = clock::mono_ms();
            while let Some(idle) = pool.remove(|idle| idle.until_ms <= now_ms || idle.parked.is_stale()) {
                idle.parked.quit();
            }
            let is_empty = pool.idle.borrow().is_empty();
            pool.is_kept.set(!is_empty);
            is_empty
        });
        if is_over {
            return;
        }
    }
}
