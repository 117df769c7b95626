//! When which server is asked, and what the log is told of the answers.

use super::check::Check;
use super::link::Link;
use brisk_balance::{Endpoint, PeerId, PeerState, PeerStatus};
use brisk_db::cluster::Change;
use brisk_db::{Cluster, NoPrimary, Role, ServerView, Unread, View};
use brisk_host::thread::Live;
use brisk_net::{clock, sleep, timeout};
use brisk_server::core::LogLevel;
use brisk_server::service::{Service, Work};
use brisk_server::worker::log_error;
use brisk_stream::conf::Balanced;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

/// However many sessions have doubts: no sooner than this after the last round.
const PAUSE: Duration = Duration::from_millis(100);

/// While nobody takes writes, servers are asked so often, so that a promoted one is found soon.
const WITHOUT_PRIMARY: Duration = Duration::from_millis(250);

/// How often accounts are read, where they are wanted.
const ACCOUNTS_MS: u64 = 10_000;

/// The rounds of one check.
pub struct Rounds {
    /// What is asked.
    pub check: Arc<Check>,
    /// The servers.
    pub group: Arc<dyn Balanced>,
    /// Those with `role=primary`, as they are written.
    pub hints: Vec<Arc<str>>,
}

impl Service for Rounds {
    fn start(self: Arc<Self>, work: &Work) {
        let Some(cluster) = self.group.cluster().cloned() else { return };
        let number = cluster.begin_asking();
        let asker = Rc::new(Asker {
            rounds: self,
            cluster,
            live: work.live.clone(),
            slots: RefCell::default(),
            accounts: AccountsRead::default(),
        });
        let work = work.clone();
        // It outlives the configuration: sessions that go on must learn that their server is lost or was demoted.
        brisk_net::spawn(async move {
            while asker.is_needed(&work, number) {
                asker.clone().round();
                asker.pause().await;
            }
        });
    }
}

/// A server's connection between two rounds.
#[derive(Default)]
struct Slot {
    /// A slow server is not asked again before it has answered, however short the interval is.
    is_being_asked: Cell<bool>,
    link: RefCell<Option<Link>>,
}

struct Asker {
    rounds: Arc<Rounds>,
    cluster: Arc<Cluster>,
    live: Rc<Live>,
    slots: RefCell<HashMap<PeerId, Rc<Slot>>>,
    accounts: AccountsRead,
}

/// When accounts were read, or tried to be, the last time.
#[derive(Default)]
struct AccountsRead {
    at_ms: Cell<Option<u64>>,
    /// It is told once and not each time.
    has_failed: Cell<bool>,
}

impl Asker {
    /// While the configuration is live, and then until the last session of its time has ended or another loop asks for them.
    fn is_needed(&self, work: &Work, number: u64) -> bool {
        let has_sessions = self.cluster.tally.open_sessions.load(Ordering::Relaxed) > 0;
        self.cluster.is_asked_by(number) && (!work.has_ended() || has_sessions)
    }

    /// Asks all servers that are not being asked. Those that an administrator has taken out do not count at all.
    fn round(self: Rc<Self>) {
        let mut peers = self.rounds.group.group().peers(clock::mono_ms());
        peers.retain(|peer| peer.state != PeerState::Down);
        // Servers come and go at run time; numbers are never given again.
        self.slots.borrow_mut().retain(|id, _| peers.iter().any(|peer| peer.info.id == *id));
        let is_hinted = |peer: &PeerStatus| self.rounds.hints.contains(&peer.info.server);
        let servers = peers.iter().map(|peer| (peer.info.id, peer.info.name.clone(), is_hinted(peer)));
        if let Some(change) = self.cluster.set_servers(self.rounds.check.terms, servers) {
            self.tell(&change);
        }
        for peer in peers {
            let slot = self.slots.borrow_mut().entry(peer.info.id).or_default().clone();
            if slot.is_being_asked.replace(true) {
                continue;
            }
            // A task for each: one that does not answer holds up none of the others.
            let this = self.clone();
            brisk_net::spawn(async move {
                this.ask(&peer, &slot).await;
                slot.is_being_asked.set(false);
            });
        }
    }

    /// Until the next round: it comes sooner if a session has doubts.
    async fn pause(&self) {
        sleep(PAUSE).await;
        let interval = self.rounds.check.interval;
        let interval = if self.cluster.primary().is_ok() { interval } else { interval.min(WITHOUT_PRIMARY) };
        let mut rest = pin!(sleep(interval.saturating_sub(PAUSE)));
        poll_fn(
            |cx| {
                if self.cluster.take_doubt(cx.waker()) { Poll::Ready(()) } else { rest.as_mut().poll(cx) }
            },
        )
        .await;
    }

    async fn ask(&self, peer: &PeerStatus, slot: &Slot) {
        let id = peer.info.id;
        let kept = slot.link.take();
        let asked = timeout(self.rounds.check.timeout, self.exchange(peer, kept)).await;
        let change = match asked {
            Ok(Ok((link, report))) => {
                let change = self.cluster.heard(id, report, clock::mono_ms());
                *slot.link.borrow_mut() = Some(link);
                change
            }
            Ok(Err(why)) => self.cluster.failed(id, &why),
            Err(_) => self.cluster.failed(id, "it does not answer in time"),
        };
        if let Some(change) = change {
            self.tell(&change);
        }
        self.read_accounts(slot).await;
    }

    /// Asks over the connection that was kept, and over a new one if that is gone.
    async fn exchange(
        &self,
        peer: &PeerStatus,
        kept: Option<Link>,
    ) -> Result<(Link, brisk_db::Report), String> {
        if let Some(mut link) = kept
            && let Ok(report) = link.ask().await
        {
            return Ok((link, report));
        }
        let endpoint: &Endpoint = &peer.info.endpoint;
        let mut link = Link::open(&self.rounds.check, endpoint, &peer.info.server).await?;
        let report = link.ask().await?;
        Ok((link, report))
    }

    /// Reads the accounts of the primary now and then, if sessions need them. `own`: whose answer has just come, which may have been the
    /// last one that was missing for a primary to be known.
    async fn read_accounts(&self, own: &Slot) {
        let now_ms = clock::mono_ms();
        let is_time =
            self.accounts.at_ms.get().is_none_or(|at_ms| now_ms.saturating_sub(at_ms) >= ACCOUNTS_MS);
        if !self.cluster.wants_accounts() || !is_time {
            return;
        }
        let Ok(primary) = self.cluster.primary() else { return };
        let Some(slot) = self.slots.borrow().get(&primary).cloned() else { return };
        if std::ptr::eq(Rc::as_ptr(&slot), own) {
            return self.read_accounts_of(&slot, now_ms).await;
        }
        // While it is being asked, it reads them itself afterwards.
        if !slot.is_being_asked.replace(true) {
            self.read_accounts_of(&slot, now_ms).await;
            slot.is_being_asked.set(false);
        }
    }

    async fn read_accounts_of(&self, slot: &Slot, now_ms: u64) {
        let Some(mut link) = slot.link.take() else { return };
        self.accounts.at_ms.set(Some(now_ms));
        let read = match timeout(self.rounds.check.timeout, link.accounts()).await {
            Ok(read) => read,
            Err(_) => Err("it does not answer in time".into()),
        };
        match read {
            Ok(accounts) => {
                self.accounts.has_failed.set(false);
                self.cluster.set_accounts(accounts);
                *slot.link.borrow_mut() = Some(link);
            }
            // What was read before still holds.
            Err(why) if !self.accounts.has_failed.replace(true) => {
                self.log(LogLevel::Error, format_args!("the accounts of its servers cannot be read: {why}"));
            }
            Err(_) => {}
        }
    }

    fn log(&self, level: LogLevel, text: fmt::Arguments<'_>) {
        log_error(
            &self.live,
            level,
            format_args!("databases of upstream \"{}\": {text}", self.rounds.group.name()),
        );
    }

    /// Changes only: a server that stays as it is would fill the log.
    fn tell(&self, change: &Change) {
        for server in &change.after.servers {
            let before = change.before.server(server.id);
            if before.map(state) != Some(state(server)) {
                self.tell_server(before, server);
            }
        }
        self.tell_primary(&change.before, &change.after);
    }

    fn tell_server(&self, before: Option<&ServerView>, server: &ServerView) {
        let name = &server.name;
        match (&server.trouble, server.reads) {
            // It has just come to the group.
            (None, Err(Unread::NotAsked)) if server.role == Role::Unknown => {}
            (Some(why), _) => self.log(LogLevel::Warn, format_args!("{name} is lost: {why}")),
            (None, Ok(())) if before.is_some_and(|before| before.trouble.is_some()) => {
                self.log(LogLevel::Notice, format_args!("{name} is back as {}", server.role.name()));
            }
            (
                None,
                Err(why @ (Unread::Lag | Unread::Stopped | Unread::UnknownLag | Unread::NotSynchronous)),
            ) => {
                self.log(LogLevel::Warn, format_args!("{name} is not read from: {}", why.name()));
            }
            (None, _) => self.log(LogLevel::Notice, format_args!("{name} is {}", server.role.name())),
        }
    }

    fn tell_primary(&self, before: &View, after: &View) {
        let of = |view: &View| view.primary().map(|server| server.id);
        if of(before) == of(after) {
            return;
        }
        match after.primary() {
            Ok(server) => self.log(LogLevel::Notice, format_args!("{} takes the writes", server.name)),
            Err(NoPrimary::None) => {
                self.log(LogLevel::Error, format_args!("no server takes writes: nobody is written to"));
            }
            Err(NoPrimary::Several) => {
                let contenders = after.servers.iter().filter(|server| server.role == Role::Contender);
                let names: Vec<&str> = contenders.map(|server| &*server.name).collect();
                let names = names.join(", ");
                self.log(
                    LogLevel::Alert,
                    format_args!("several servers take writes: {names}: nobody is written to"),
                );
            }
            Err(NoPrimary::NotAsked) => {}
        }
    }
}

fn state(server: &ServerView) -> (Role, Result<(), Unread>) {
    (server.role, server.reads)
}
