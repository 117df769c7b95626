//! A reload, from the text on the disk to the moment from which nothing but the new configuration is served.
//!
//! What is live when a worker does not answer: the new configuration, if another worker can be started with it; the master has
//! read and checked it, and it is what was asked for. The worker that did not answer refuses the order if it comes to it late
//! ([`Order`]'s time), and is told to end. If no worker starts with the new configuration, or one dies of it, the old one stays
//! live, and a worker that may have taken the new one is replaced.

use super::state::{Change, Master, Next, Purpose, Stage, copy};
use super::workers::targets;
use crate::certificates::Certificates;
use crate::claim::write_pid;
use crate::config;
use crate::control::{Call, Control, socket_path};
use crate::orders::Order;
use crate::{host, systemd};
use brisk_net::{fault, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::{LogLevel, MainConf};
use brisk_supervise::{Pid, State};

impl Master {
    /// Reads the configuration anew and has it served. An error leaves everything as it was.
    pub(super) fn reload(&mut self, callers: Vec<Call>) {
        if self.change.is_some() || self.is_starting() {
            callers.iter().for_each(|call| call.waits_for("the reload before to end"));
            self.again.get_or_insert_default().extend(callers);
            return;
        }
        self.callers = callers;
        systemd::reloading();
        fault::step("reload");
        self.tell("the configuration to be read");
        match self.start_reader() {
            Ok(reader) => self.change = Some(Change::Reading(reader)),
            Err(message) => self.finish_change(Err(message)),
        }
    }

    /// Tells the callers what the reload waits for.
    pub(super) fn tell(&self, what: &str) {
        self.callers.iter().for_each(|call| call.waits_for(what));
    }

    pub(super) fn begin_change(&mut self, snap: Snapshot, next: Box<Next>) {
        let is_same_process = self.current.uses_raw_sockets == next.current.uses_raw_sockets
            && self.current.quic_host_key == next.current.quic_host_key
            && same_process(&self.current.main, &next.current.main);
        match self.workers.serving().map(|worker| worker.pid) {
            Some(worker) if is_same_process => {
                // The worker builds its own: two at a time are enough.
                drop(snap);
                sys::release_free_memory();
                self.tell(&format!("worker process {worker} to serve the configuration"));
                match self.hand_over(worker, &next) {
                    Ok(()) => self.change = Some(Change::Handed { worker, next }),
                    Err(message) => {
                        drop(next);
                        self.finish_change(Err(message));
                    }
                }
                fault::step("reload-handed");
            }
            // Threads, user or limits differ: another process takes over, and what the present one has begun is finished
            // by it.
            _ => self.start_changed(Some(snap), next),
        }
    }

    fn start_changed(&mut self, snap: Option<Snapshot>, mut next: Box<Next>) {
        self.tell("another worker process to start");
        match self.start_worker(snap, Some(&mut next)) {
            Ok(worker) => self.change = Some(Change::Starting { worker, next }),
            Err(message) => {
                drop(next);
                self.finish_change(Err(message));
            }
        }
        fault::step("reload-started");
    }

    /// Gives the worker the bundle, its new sockets and all its logs.
    fn hand_over(&mut self, pid: Pid, next: &Next) -> Result<(), String> {
        let mut fds = Vec::new();
        for address in next.current.addresses.iter().filter(|a| !self.current.addresses.contains(a)) {
            let fd = next.fresh.iter().find(|(have, _)| have == address).map(|(_, fd)| fd);
            fds.push(copy(fd.ok_or_else(|| format!("no socket for {address}"))?)?);
        }
        for log in &next.current.logs {
            fds.push(copy(log.fd())?);
        }
        let order =
            Order::Configure { generation: next.generation, bundle: next.current.bundle.encode(), fds };
        self.order(pid, order, Purpose::Configure).map(drop)
    }

    /// Whether the change under way waits for this worker to start.
    pub(super) fn is_changed_by(&self, pid: Pid) -> bool {
        matches!(&self.change, Some(Change::Starting { worker, .. }) if *worker == pid)
    }

    /// The worker serves what it was given.
    pub(super) fn configured(&mut self, pid: Pid) {
        if !matches!(&self.change, Some(Change::Handed { worker, .. }) if *worker == pid) {
            return;
        }
        self.changed(pid);
    }

    /// The worker serves the new configuration: makes it the one that counts.
    pub(super) fn changed(&mut self, pid: Pid) {
        let Some(Change::Handed { next, .. } | Change::Starting { next, .. }) = self.change.take() else {
            return;
        };
        fault::step("reload-live");
        if let Some(worker) = self.workers.get_mut(pid) {
            worker.link.logs = targets(&next.current.logs);
            if let Some(keeper) = &mut worker.link.keeper {
                keeper.allow(next.current.allowed.clone());
            }
        }
        self.adopt(*next);
        self.stage = Stage::Serving;
        self.workers.want(true);
        let starting = self.workers.iter().filter(|other| matches!(other.state, State::Starting { .. }));
        // One that was started for what was live before.
        let mut old: Vec<Pid> = starting.map(|other| other.pid).collect();
        old.iter().for_each(|&pid| self.quit(pid, false));
        old.extend(self.retire_others(pid));
        if !old.is_empty() {
            self.tell("the worker process before to accept nothing more");
        }
        self.change = Some(Change::Retiring { old });
        self.end_change();
    }

    /// A worker that was told to end accepts nothing more: if the change under way waits for that, it goes on.
    pub(super) fn is_retired(&mut self, pid: Pid) {
        if let Some(Change::Retiring { old }) = &mut self.change {
            old.retain(|other| *other != pid);
            self.end_change();
        }
    }

    fn end_change(&mut self) {
        let is_over = |change: &mut Change| matches!(change, Change::Retiring { old } if old.is_empty());
        if self.change.take_if(is_over).is_some() {
            self.finish_change(Ok(()));
        }
    }

    /// The worker refuses the configuration, or has died of it.
    pub(super) fn configure_failed(&mut self, pid: Pid, reason: String) {
        if matches!(&self.change, Some(Change::Handed { worker, .. }) if *worker == pid) {
            self.change_failed(reason);
        }
    }

    /// The worker has not answered: another one is to serve the new configuration.
    pub(super) fn configure_is_late(&mut self, pid: Pid) {
        match self.change.take() {
            Some(Change::Handed { worker, next }) if worker == pid => {
                self.start_changed(None, next);
            }
            other => self.change = other,
        }
    }

    /// The change under way leaves everything as it was.
    pub(super) fn change_failed(&mut self, reason: String) {
        match self.change.take() {
            Some(Change::Handed { next, .. } | Change::Starting { next, .. }) => {
                // The files of its sockets go before the callers are told.
                drop(next);
                self.finish_change(Err(reason));
            }
            other => self.change = other,
        }
    }

    /// The server ends, or serves no more: nothing is changed any more.
    pub(super) fn give_up_change(&mut self, why: &str) {
        let refused = Err(why.to_string());
        let waiting = self.again.take().unwrap_or_default();
        waiting.into_iter().for_each(|call| call.answer(&refused));
        let answer = match self.change.take() {
            Some(Change::Retiring { .. }) => Ok(format!("generation {}", self.generation)),
            Some(Change::Reading(reader)) => {
                reader.kill();
                refused
            }
            _ => refused,
        };
        std::mem::take(&mut self.callers).into_iter().for_each(|call| call.answer(&answer));
    }

    pub(super) fn finish_change(&mut self, result: Result<(), String>) {
        sys::release_free_memory();
        systemd::ready(self.generation);
        match &result {
            Ok(()) => {
                self.log(LogLevel::Notice, &format!("configuration generation {} is live", self.generation));
                self.tell_findings();
            }
            Err(message) => {
                config::headlines(message).into_iter().for_each(|line| self.log(LogLevel::Emerg, line));
                self.log(LogLevel::Error, "the new configuration is refused; the old one stays live");
                self.remember_refusal(message);
            }
        }
        let answer = result.map(|()| format!("generation {}", self.generation));
        std::mem::take(&mut self.callers).into_iter().for_each(|call| call.answer(&answer));
        fault::step("reload-done");
        if let Some(callers) = self.again.take() {
            self.reload(callers);
        }
    }

    fn adopt(&mut self, next: Next) {
        let Next { current, fresh, generation, certificates, pools, programs } = next;
        self.sockets.commit(&current.addresses, fresh);
        self.current = current;
        self.certificates = Certificates::new(certificates);
        self.pools.commit(pools);
        self.programs.commit(programs);
        self.lead_errors();
        self.generation = generation;
        let pid_path = self.current.main.pid.clone();
        if pid_path == self.pid_path {
            return;
        }
        if let Err(message) = write_pid(&pid_path) {
            self.log(LogLevel::Error, &format!("{message}; the pid file stays \"{}\"", self.pid_path));
            return;
        }
        self.control = Control::open(&pid_path);
        self.hand_out_control();
        let before = std::mem::replace(&mut self.pid_path, pid_path);
        let _ = std::fs::remove_file(socket_path(&before));
        let _ = std::fs::remove_file(before);
    }

    /// Workers have the control socket for the time after this master.
    fn hand_out_control(&mut self) {
        for pid in self.workers.pids() {
            let listener = self.control.as_ref().and_then(|control| control.copy().ok());
            if let Some(listener) = listener {
                let _ = self.order(pid, Order::Control { listener }, Purpose::Control);
            }
        }
    }
}

/// Whether a worker can take the new configuration without being another process.
fn same_process(a: &MainConf, b: &MainConf) -> bool {
    host::threads(a) == host::threads(b)
        && a.affinity == b.affinity
        && a.user == b.user
        && a.priority == b.priority
        && a.rlimit_nofile == b.rlimit_nofile
        && a.rlimit_core == b.rlimit_core
        && a.working_directory == b.working_directory
        && a.env == b.env
        && a.thread_pools == b.thread_pools
}
