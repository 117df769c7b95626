//! The master's workers: started, given orders, replaced when they die or do not answer.
//!
//! A worker that does not answer an order in time may have carried it out or not. So it is not believed any more: another worker
//! is started with what is decided to be live, then the old one is told to end, and killed if it does not answer to that either.

use super::state::{Link, Master, Next, Origin, Purpose, Stage, seconds};
use super::telling::Telling;
use crate::channel::{Channel, Outbox, Received, no_room};
use crate::keeper::{self, Keeper};
use crate::limits::{ORDER_TIME_MAX, STOP_TIME_MAX};
use crate::orders::{self, Order, Reply, START};
use crate::process::{self, Heir};
use crate::takeover::Taken;
use crate::{config, host};
use brisk_net::{fault, sys};
use brisk_server::conf::{LogTarget, Snapshot};
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use brisk_supervise::{Orders, Pid, Policy, State};
use rustix::process::{Signal, WaitOptions, kill_process, pidfd_send_signal};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker that is replaced for that has so long to answer that it ends.
const CHANCE_TIME: Duration = Duration::from_secs(5);

/// How workers are supervised.
pub fn policy() -> Policy {
    Policy {
        start_time_max: fault::limit("start", Duration::from_mins(1)),
        healthy_after: Duration::from_secs(1),
        pause_min: Duration::from_millis(200),
        pause_max: Duration::from_secs(5),
        is_alone: false,
    }
}

/// How long a worker may take to answer an order.
pub fn order_time_max() -> Duration {
    fault::limit("order", ORDER_TIME_MAX)
}

impl Link {
    fn new(channel: Channel, keeper: Option<Keeper>, logs: Vec<LogTarget>, origin: Origin) -> Link {
        let (outbox, orders, telling) = (Outbox::default(), Orders::default(), Telling::default());
        Link { channel: Some(channel), outbox, keeper, logs, orders, telling, origin }
    }

    pub fn is_child(&self) -> bool {
        matches!(self.origin, Origin::Child)
    }

    /// Sends SIGKILL.
    pub fn kill(&self, pid: Pid) {
        // One that has ended already needs none.
        let _ = match &self.origin {
            Origin::Child => match rustix::process::Pid::from_raw(pid) {
                Some(pid) => kill_process(pid, Signal::KILL),
                None => Ok(()),
            },
            Origin::Adopted(handle) => pidfd_send_signal(handle, Signal::KILL),
        };
    }
}

pub fn targets(logs: &[Arc<LogFile>]) -> Vec<LogTarget> {
    logs.iter().map(|log| log.target.clone()).collect()
}

impl Master {
    /// Forks a worker; gives its number. It serves `next`, else what is live; the configuration is built anew from the text that
    /// was accepted, unless it is given as `snap`.
    pub(super) fn start_worker(
        &mut self,
        snap: Option<Snapshot>,
        next: Option<&mut Next>,
    ) -> Result<Pid, String> {
        let (mine, theirs) = Channel::pair().map_err(|e| format!("socketpair() failed ({e})"))?;
        let current = next.as_ref().map_or(&self.current, |next| &next.current);
        let (keeper, asker) =
            keeper::pair(current.allowed.clone()).map_err(|e| format!("socketpair() failed ({e})"))?;
        let logs = targets(&current.logs);
        match sys::fork().map_err(|e| format!("fork() failed ({e})"))? {
            sys::Fork::Parent(pid) => {
                self.log(LogLevel::Notice, &format!("start worker process {pid}"));
                let link = Link::new(mine, Some(keeper), logs, Origin::Child);
                self.workers.started(pid, link, Instant::now());
                Ok(pid)
            }
            sys::Fork::Child => {
                drop((mine, keeper));
                asker.install();
                let code = self.child(snap, next, theirs);
                sys::exit_now(code)
            }
        }
    }

    fn child(&mut self, snap: Option<Snapshot>, mut next: Option<&mut Next>, channel: Channel) -> i32 {
        self.let_go();
        let current = next.as_ref().map_or(&self.current, |next| &next.current);
        let snap = snap.or_else(|| Some(config::load_bundle(&self.paths, &current.bundle)?.0));
        let sockets = match &next {
            Some(next) => self.sockets.copies(&next.current.addresses, &next.fresh),
            None => self.sockets.all(),
        };
        let (Some(snap), Ok(sockets)) = (snap, sockets) else {
            let reason = "building the accepted configuration again failed".to_string();
            let _ = channel.send(Reply::Failed { reason }.into_parcel(START));
            return 2;
        };
        // What the master's values hold is held for the life of this process, below in the stack: logs that a later configuration does not
        // name would stay open, and a socket that is closed later would go on listening in a corner of this process.
        let own_logs = std::mem::take(&mut self.current.logs);
        let logs = next.as_mut().map_or(own_logs, |next| std::mem::take(&mut next.current.logs));
        let generation = next.as_ref().map_or(self.generation, |next| next.generation);
        self.sockets.close(false);
        if let Some(next) = next {
            next.fresh.close();
            next.pools.forget();
        }
        let Ok(token) = self.token.copy() else { return 2 };
        let heir = Heir {
            control: self.control.take(),
            token,
            master: rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get()),
            owner: rustix::process::geteuid(),
        };
        let paths = self.paths.clone();
        let news = self.news.clone();
        let start = process::Start { paths, snap: Arc::new(snap), logs, sockets, generation, news };
        process::main(start, channel, heir)
    }

    /// In a process that was forked: what belongs to the master alone must not live on here, since callers read to the end. Signals stay
    /// blocked: a worker reads its own.
    pub(super) fn let_go(&mut self) {
        self.caller.forget();
        self.calls.clear();
        self.callers.clear();
        self.rounds.clear();
        self.adoptions.clear();
        (self.change, self.again, self.predecessor) = (None, None, None);
        self.workers.clear();
        self.pools.forget();
        self.programs.forget();
        self.certificates = crate::certificates::Certificates::new(Vec::new());
    }

    /// Takes in a worker whose master was killed. `is_ours`: the place of that master is taken, with its control socket.
    pub(super) fn take_over(&mut self, taken: Taken, is_ours: bool) {
        let Taken { pid, handle, channel, generation, control, token, .. } = taken;
        let pid = pid.as_raw_nonzero().get();
        self.log(
            LogLevel::Notice,
            &format!(
                "taking over worker process {pid}, which serves generation {generation} without its master"
            ),
        );
        if is_ours {
            self.control = crate::control::Control::inherited(control, rustix::process::geteuid());
            self.token = token;
        }
        let link = Link::new(channel, None, Vec::new(), Origin::Adopted(handle));
        self.workers.adopted(pid, link);
    }

    /// Gives an order; its answer comes to [`Master::reply`].
    pub(super) fn order(&mut self, pid: Pid, order: Order, purpose: Purpose) -> Result<u64, String> {
        self.order_within(pid, order, purpose, order_time_max())
    }

    fn order_within(
        &mut self,
        pid: Pid,
        order: Order,
        purpose: Purpose,
        limit: Duration,
    ) -> Result<u64, String> {
        self.orders_given += 1;
        let id = self.orders_given;
        let ended = || format!("worker process {pid} has ended");
        let Link { channel, outbox, orders: given, .. } =
            &mut self.workers.get_mut(pid).ok_or_else(ended)?.link;
        let channel = channel.as_ref().ok_or_else(ended)?;
        // One that does not read yet has the same time as one that has the order: it may be carrying out another one.
        let sent = outbox.post(channel, order.into_parcel(id, orders::now() + limit));
        sent.map_err(|error| format!("giving an order to worker process {pid} failed ({error})"))?;
        given.given(id, purpose, Instant::now(), limit);
        Ok(id)
    }

    /// Sends a worker what there was no room for before.
    pub(super) fn send_rest(&mut self, pid: Pid) {
        if let Some(worker) = self.workers.get_mut(pid)
            && let Some(channel) = &worker.link.channel
        {
            // One that is gone is noticed with the next read.
            let _ = worker.link.outbox.proceed(channel);
        }
    }

    /// Takes the answers that have come.
    pub(super) fn read_replies(&mut self, pid: Pid) {
        loop {
            let worker = self.workers.get(pid);
            let Some(channel) = worker.and_then(|worker| worker.link.channel.as_ref()) else { return };
            match channel.try_receive() {
                Ok(Received::Parcel(parcel)) => {
                    let id = parcel.id;
                    match Reply::from_parcel(parcel) {
                        Ok(reply) => self.reply(pid, id, reply),
                        Err(error) => self.log(LogLevel::Alert, &format!("worker process {pid}: {error}")),
                    }
                }
                Ok(Received::Cut { id }) => {
                    let why = brisk_conf::os_text(&no_room());
                    let text =
                        format!("taking the answer of worker process {pid} to order {id} failed ({why})");
                    self.log(LogLevel::Alert, &text);
                }
                Ok(Received::Nothing) => return,
                Ok(Received::Gone) | Err(_) => {
                    let Some(worker) = self.workers.get_mut(pid) else { return };
                    worker.link.channel = None;
                    // A child's end is told by SIGCHLD.
                    if !worker.link.is_child() {
                        self.gone(pid, "has ended", false);
                    }
                    return;
                }
            }
        }
    }

    fn reply(&mut self, pid: Pid, id: u64, reply: Reply) {
        if id == START {
            match reply {
                Reply::Failed { reason } => self.start_failed(pid, &reason),
                _ => self.worker_is_ready(pid),
            }
            return;
        }
        let Some(worker) = self.workers.get_mut(pid) else { return };
        let Some(order) = worker.link.orders.answered(id) else {
            self.log(
                LogLevel::Notice,
                &format!("worker process {pid} has answered order {id} too late; it is being replaced"),
            );
            return;
        };
        match (order.purpose, reply) {
            (Purpose::Configure, Reply::Failed { reason }) => self.configure_failed(pid, reason),
            (Purpose::Configure, _) => self.configured(pid),
            (Purpose::Round(round), Reply::Failed { reason }) => self.round_answer(round, Err(reason)),
            (Purpose::Round(round), Reply::Purged { count }) => self.round_answer(round, Ok(count)),
            (Purpose::Round(round), _) => self.round_answer(round, Ok(0)),
            (Purpose::Quit, _) => self.accepts_no_more(pid),
            (Purpose::Certificates | Purpose::Control | Purpose::News, Reply::Failed { reason }) => {
                self.log(LogLevel::Error, &format!("worker process {pid}: {reason}"));
            }
            (Purpose::Certificates | Purpose::Control | Purpose::News, _) => {}
        }
    }

    fn worker_is_ready(&mut self, pid: Pid) {
        if !self.workers.ready(pid) {
            return;
        }
        if self.is_changed_by(pid) {
            return self.changed(pid);
        }
        if let Stage::Starting { certificates } = &mut self.stage {
            let certificates = std::mem::take(certificates);
            return self.relieve(pid, certificates);
        }
        self.retire_others(pid);
    }

    /// Tells the workers in whose place this one is to end; gives their numbers.
    pub(super) fn retire_others(&mut self, pid: Pid) -> Vec<Pid> {
        let is_done = |state| matches!(state, State::Ready { .. } | State::Stuck);
        let others = self.workers.iter().filter(|other| other.pid != pid && is_done(other.state));
        let others: Vec<Pid> = others.map(|other| other.pid).collect();
        for &other in &others {
            self.quit(other, false);
        }
        others
    }

    /// A worker finishes what it has begun, and ends.
    pub(super) fn quit(&mut self, pid: Pid, server_ends: bool) {
        let Some(worker) = self.workers.get(pid) else { return };
        let limit = match worker.state {
            State::Killed => return,
            State::Stuck if worker.link.is_child() => fault::limit("chance", CHANCE_TIME),
            _ => order_time_max(),
        };
        fault::step("retire");
        match self.order_within(pid, Order::Quit { server_ends }, Purpose::Quit, limit) {
            Ok(_) => self.workers.draining(pid, None),
            // Mostly it is ending by itself, which will be noticed. A worker that goes on and cannot be told anything is killed soon.
            Err(_) => self.workers.draining(pid, Some(Instant::now() + fault::limit("chance", CHANCE_TIME))),
        }
    }

    pub(super) fn quit_all(&mut self, server_ends: bool) {
        self.workers.pids().into_iter().for_each(|pid| self.quit(pid, server_ends));
    }

    /// All workers end at once.
    pub(super) fn stop_all(&mut self) {
        let until = Instant::now() + fault::limit("stop", STOP_TIME_MAX);
        for pid in self.workers.pids() {
            // It has no answer: what counts is its end.
            let parcel = Order::Stop.into_parcel(0, orders::now() + STOP_TIME_MAX);
            if let Some(worker) = self.workers.get_mut(pid)
                && let Some(channel) = &worker.link.channel
            {
                let _ = worker.link.outbox.post(channel, parcel);
            }
            self.workers.draining(pid, Some(until));
        }
    }

    /// Kills a worker that does not do what it was told.
    pub(super) fn kill(&mut self, pid: Pid, why: &str) {
        self.log(LogLevel::Alert, &format!("worker process {pid} {why} and is killed"));
        if let Some(worker) = self.workers.get(pid) {
            worker.link.kill(pid);
        }
        self.workers.killed(pid);
        self.accepts_no_more(pid);
    }

    /// Workers with an order whose answer is late.
    pub(super) fn late(&self, now: Instant) -> Vec<Pid> {
        let is_late = |orders: &Orders<Purpose>| orders.overdue(now).is_some();
        self.workers.iter().filter(|worker| is_late(&worker.link.orders)).map(|worker| worker.pid).collect()
    }

    /// A worker has not answered in time.
    pub(super) fn give_up(&mut self, pid: Pid, now: Instant) {
        let Some(worker) = self.workers.get_mut(pid) else { return };
        let state = worker.state;
        let orders = worker.link.orders.take_all();
        let Some(oldest) = orders.first() else { return };
        let time = seconds(oldest.since, now);
        match state {
            State::Ready { .. } => {
                self.log(
                    LogLevel::Alert,
                    &format!("worker process {pid} has not answered for {time}; another one takes its place"),
                );
                self.workers.stuck(pid);
            }
            State::Draining { .. } => self.kill(pid, &format!("has not answered for {time}")),
            // Its start has a time of its own; the others are being replaced.
            State::Starting { .. } | State::Stuck | State::Killed => {}
        }
        for order in orders {
            match order.purpose {
                Purpose::Configure => self.configure_is_late(pid),
                Purpose::Round(round) => {
                    let why = format!("worker process {pid} has not answered for {time}, and is replaced");
                    self.round_answer(round, Err(why));
                }
                Purpose::Quit | Purpose::Certificates | Purpose::Control | Purpose::News => {}
            }
        }
    }

    /// A worker could not start.
    pub(super) fn start_failed(&mut self, pid: Pid, reason: &str) {
        let Some(worker) = self.workers.get(pid) else { return };
        if !matches!(worker.state, State::Starting { .. }) {
            return;
        }
        worker.link.kill(pid);
        self.workers.gave_up_start(pid, Instant::now());
        self.not_started(pid, reason);
    }

    /// Says why a worker has not started to those that wait for it.
    fn not_started(&mut self, pid: Pid, reason: &str) {
        if self.is_changed_by(pid) {
            self.change_failed(reason.to_string());
        } else if matches!(self.stage, Stage::Starting { .. }) {
            self.stage = Stage::Failed(reason.to_string());
        } else {
            self.log(LogLevel::Emerg, reason);
        }
    }

    pub(super) fn restart(&mut self) {
        if let Err(message) = self.start_worker(None, None) {
            self.log(LogLevel::Emerg, &message);
            self.workers.start_failed(Instant::now());
        }
    }

    /// Takes note of children that have ended.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            let how = match (status.terminating_signal(), status.exit_status()) {
                (Some(signal), _) => format!("exited on signal {signal}"),
                (None, code) => format!("exited with code {}", code.unwrap_or(0)),
            };
            if self.successor == Some(pid) {
                self.successor_has_ended();
                continue;
            }
            let (now, is_good) = (Instant::now(), status.exit_status() == Some(0));
            let with_error = status.exit_status().is_some_and(|code| code != 0);
            if self.pools.gone(pid, &how, with_error, now)
                || self.programs.gone(pid, &how, is_good, now)
                || self.reader_has_ended(pid, &how)
            {
                continue;
            }
            // As PID 1 of a container, children of others end here too.
            if self.workers.get(pid).is_some() {
                // What it said before counts.
                self.read_replies(pid);
                self.gone(pid, &how, is_good);
            }
        }
    }

    fn gone(&mut self, pid: Pid, how: &str, is_good: bool) {
        let Some(gone) = self.workers.gone(pid, Instant::now()) else { return };
        let was_told = matches!(gone.state, State::Draining { .. } | State::Killed);
        // One that ends well without an order was told by somebody's signal.
        let level = if was_told || is_good { LogLevel::Notice } else { LogLevel::Alert };
        self.log(level, &format!("worker process {pid} {how}"));
        for order in gone.link.orders.iter() {
            match order.purpose {
                Purpose::Configure => {
                    let reason = "the worker process ended while taking the configuration";
                    self.configure_failed(pid, reason.into());
                }
                Purpose::Round(round) if was_told => self.round_answer(round, Ok(0)),
                Purpose::Round(round) => {
                    self.round_answer(round, Err(format!("worker process {pid} {how}")));
                }
                Purpose::Quit | Purpose::Certificates | Purpose::Control | Purpose::News => {}
            }
        }
        self.accepts_no_more(pid);
        if matches!(gone.state, State::Starting { .. }) {
            let text = "the worker process ended while starting; see the error log";
            self.not_started(pid, &format!("{text}{}", host::memory_hint()));
        }
    }

    /// Workers want files that they may not read.
    pub(super) fn serve_files(&mut self) {
        for worker in self.workers.iter_mut() {
            worker.link.keeper.take_if(|keeper| !keeper.serve());
        }
    }
}
