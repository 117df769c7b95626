//! A cluster as all threads share it.

use crate::accounts::Accounts;
use crate::history::History;
use crate::judge::{self, Heard, Member};
use crate::news::{News, Waiters};
use crate::position::Position;
use crate::report::Report;
use crate::tally::Tally;
use crate::view::{NoPrimary, ServerId, ServerView, View};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a configuration asks of a cluster's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// A replica that is further behind is not read from.
    pub lag_max_ms: u64,
    /// Failures in a row after which a server is lost.
    pub fails: u32,
    /// Answers in a row after which a lost server counts again.
    pub passes: u32,
}

/// The servers of one cluster, what they have said, and what follows from it.
///
/// A checker tells it; sessions look at a [`View`] through their [`News`], without a lock.
pub struct Cluster {
    state: Mutex<State>,
    /// Counts views.
    version: AtomicU64,
    /// Counts views in which roles, or who may be read from, are others than before.
    roles: AtomicU64,
    pub(crate) waiters: Waiters,
    /// The number of the loop that asks its servers.
    asker: AtomicU64,
    accounts: Mutex<Arc<Accounts>>,
    wants_accounts: AtomicBool,
    doubt: Mutex<Doubt>,
    /// What sessions have done.
    pub tally: Tally,
}

struct State {
    terms: Terms,
    members: Vec<Counted>,
    /// The last primary, while there may be none.
    last_primary: Option<ServerId>,
    history: History,
    view: Arc<View>,
}

/// A member, and how often in a row it has answered or not.
struct Counted {
    member: Member,
    fails: u32,
    passes: u32,
}

#[derive(Default)]
struct Doubt {
    has_come: bool,
    waker: Option<Waker>,
}

/// What a report or a failure has changed, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How things were.
    pub before: Arc<View>,
    /// How they are.
    pub after: Arc<View>,
}

impl Cluster {
    /// A cluster without servers.
    pub fn new(terms: Terms) -> Cluster {
        let state = State {
            terms,
            members: Vec::new(),
            last_primary: None,
            history: History::default(),
            view: Arc::default(),
        };
        Cluster {
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            roles: AtomicU64::new(0),
            waiters: Waiters::default(),
            asker: AtomicU64::new(0),
            accounts: Mutex::default(),
            wants_accounts: AtomicBool::new(false),
            doubt: Mutex::default(),
            tally: Tally::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic half-way runs under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody asks the servers from now on, and whoever did so before stops. Gives the number of the one that asks.
    pub fn begin_asking(&self) -> u64 {
        self.asker.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether the one with this number still asks.
    pub fn is_asked_by(&self, number: u64) -> bool {
        self.asker.load(Ordering::Acquire) == number
    }

    /// The servers that there are now: number, address and whether it is written down as the primary. Those that stay keep what
    /// is known of them.
    pub fn set_servers(
        &self,
        terms: Terms,
        servers: impl Iterator<Item = (ServerId, Arc<str>, bool)>,
    ) -> Option<Change> {
        let mut state = self.lock();
        state.terms = terms;
        let mut before = std::mem::take(&mut state.members);
        for (id, name, is_hinted) in servers {
            let have =
                before.iter().position(|counted| counted.member.id == id && counted.member.name == name);
            let counted = match have {
                Some(at) => {
                    let mut counted = before.swap_remove(at);
                    counted.member.is_hinted = is_hinted;
                    counted
                }
                None => Counted {
                    member: Member { id, name, is_hinted, heard: Heard::Nothing },
                    fails: 0,
                    passes: 0,
                },
            };
            state.members.push(counted);
        }
        self.judge(state)
    }

    /// A server has answered at this time, in milliseconds.
    pub fn heard(&self, id: ServerId, report: Report, now_ms: u64) -> Option<Change> {
        let mut state = self.lock();
        let passes = state.terms.passes;
        let counted = state.members.iter_mut().find(|counted| counted.member.id == id)?;
        (counted.passes, counted.fails) = (counted.passes.saturating_add(1), 0);
        let is_lost = matches!(counted.member.heard, Heard::Lost(_));
        if !is_lost || counted.passes >= passes {
            counted.member.heard = Heard::Said(report, now_ms);
        }
        self.judge(state)
    }

    /// A server has not answered, or not what it was asked.
    pub fn failed(&self, id: ServerId, why: &str) -> Option<Change> {
        let mut state = self.lock();
        let fails = state.terms.fails;
        let counted = state.members.iter_mut().find(|counted| counted.member.id == id)?;
        (counted.fails, counted.passes) = (counted.fails.saturating_add(1), 0);
        // One that has never answered is lost at once: there is nothing that could still hold.
        if counted.fails >= fails || !matches!(counted.member.heard, Heard::Said(..)) {
            counted.member.heard = Heard::Lost(why.into());
        }
        self.judge(state)
    }

    /// Judges anew; gives the change if roles, or who may be read from and why not, have changed.
    fn judge(&self, mut state: MutexGuard<'_, State>) -> Option<Change> {
        let inner = &mut *state;
        let members: Vec<Member> = inner.members.iter().map(|counted| counted.member.clone()).collect();
        let primary = judge::primary(&members, inner.last_primary);
        if let Ok(at) = primary {
            let member = &members[at];
            if inner.last_primary != Some(member.id) {
                inner.history.clear();
                inner.last_primary = Some(member.id);
            }
            if let Heard::Said(Report { position: Some(position), .. }, at_ms) = &member.heard {
                inner.history.note(*at_ms, position, inner.terms.lag_max_ms);
            }
        }
        let view = judge::view(&members, primary, &inner.history, inner.terms.lag_max_ms);
        if view == *inner.view {
            return None;
        }
        let after = Arc::new(view);
        let before = std::mem::replace(&mut inner.view, after.clone());
        // Within the lock, so that versions are in the order of views.
        self.version.fetch_add(1, Ordering::Release);
        // Why a server is not read from is for the log: no session waits for that.
        if !differ(&before, &after, |server| (server.id, server.role, server.reads)) {
            return None;
        }
        if differ(&before, &after, |server| (server.id, server.role, server.reads.is_ok())) {
            self.roles.fetch_add(1, Ordering::Release);
            drop(state);
            self.waiters.wake();
        }
        Some(Change { before, after })
    }

    /// How things are now. A session looks through its [`News`] instead.
    pub fn view(&self) -> Arc<View> {
        self.lock().view.clone()
    }

    pub(crate) fn versioned(&self) -> (u64, Arc<View>) {
        let state = self.lock();
        (self.version.load(Ordering::Acquire), state.view.clone())
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn roles(&self) -> u64 {
        self.roles.load(Ordering::Acquire)
    }

    /// The server that takes writes.
    pub fn primary(&self) -> Result<ServerId, NoPrimary> {
        self.view().primary().map(|server| server.id)
    }

    /// Servers other than the primary that may be read from, and that have all of `after`.
    pub fn readers(&self, after: Option<&Position>) -> Vec<ServerId> {
        self.view().readers(after).map(|server| server.id).collect()
    }

    /// What a session looks at, and learns of changes by.
    pub fn news(self: &Arc<Cluster>) -> News {
        News::new(self.clone())
    }

    /// The accounts of the servers, as they were read last.
    pub fn accounts(&self) -> Arc<Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sessions log in to several servers for their clients: accounts are read from now on.
    pub fn want_accounts(&self) {
        self.wants_accounts.store(true, Ordering::Relaxed);
    }

    /// Whether accounts are to be read.
    pub fn wants_accounts(&self) -> bool {
        self.wants_accounts.load(Ordering::Relaxed)
    }

    /// Puts accounts into the place of those that were known.
    pub fn set_accounts(&self, accounts: Accounts) {
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(accounts);
    }

    /// A session has lost a server, or was refused by it: all are asked at once, and not only when it is time.
    pub fn doubt(&self) {
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        doubt.has_come = true;
        if let Some(waker) = doubt.waker.take() {
            waker.wake();
        }
    }

    /// Whether a session has doubts since this was asked the last time; else the checker is woken when one has.
    pub fn take_doubt(&self, waker: &Waker) -> bool {
        let mut doubt = self.doubt.lock().unwrap_or_else(PoisonError::into_inner);
        doubt.waker = Some(waker.clone());
        std::mem::take(&mut doubt.has_come)
    }
}

/// Whether two views have another primary, or servers of which this is not the same.
fn differ<K: PartialEq>(before: &View, after: &View, of: impl Fn(&ServerView) -> K) -> bool {
    before.primary != after.primary || !before.servers.iter().map(&of).eq(after.servers.iter().map(&of))
}
