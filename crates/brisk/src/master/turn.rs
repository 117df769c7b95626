//! One look at everything that the master waits for: signals, callers, workers' answers and questions, certificates, times.

use super::state::{Change, Master, Reader, Stage};
use super::workers::policy;
use crate::control::{Call, Order as Asked, Said};
use crate::orders::Order;
use crate::{notice, upgrade};
use brisk_net::sys;
use brisk_server::core::LogLevel;
use brisk_supervise::{Due, Pid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::time::Instant;

/// What a descriptor that is ready belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Signals,
    Control,
    Calls,
    Worker(Pid),
    Reader,
    Questions,
    Certificates,
    Predecessor,
    Adoptions,
    Pools,
    Programs,
}

impl Master {
    pub(super) fn turn(&mut self) {
        for source in self.wait() {
            match source {
                Source::Signals => self.read_signals(),
                Source::Control => {
                    if let Some(control) = &self.control {
                        self.calls.extend(std::iter::from_fn(|| control.accept()));
                    }
                    self.read_calls();
                }
                Source::Calls => self.read_calls(),
                Source::Worker(pid) => {
                    self.send_rest(pid);
                    self.read_replies(pid);
                }
                Source::Reader => self.hear_reader(),
                Source::Questions => self.serve_files(),
                Source::Certificates => self.certificates.notice(),
                Source::Predecessor => self.predecessor_has_ended(),
                Source::Adoptions => self.proceed_with_adoptions(),
                // They are looked at in every turn.
                Source::Pools | Source::Programs => {}
            }
        }
        self.do_what_is_due();
    }

    /// Waits until something is ready, or due; gives what is ready, each once.
    fn wait(&self) -> Vec<Source> {
        let mut waits = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut sources = vec![Source::Signals];
        let mut add_for = |source, fd, flags| {
            waits.push(PollFd::from_borrowed_fd(fd, flags));
            sources.push(source);
        };
        for worker in self.workers.iter() {
            if let Some(channel) = &worker.link.channel {
                let room = if worker.link.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                add_for(Source::Worker(worker.pid), channel.fd(), PollFlags::IN | room);
            }
        }
        let mut add = |source, fd| add_for(source, fd, PollFlags::IN);
        if let Some(control) = &self.control {
            add(Source::Control, control.as_fd());
        }
        self.calls.iter().for_each(|call| add(Source::Calls, call.as_fd()));
        for worker in self.workers.iter() {
            if let Some(keeper) = &worker.link.keeper {
                add(Source::Questions, keeper.fd());
            }
        }
        if let Some(Change::Reading(Reader { channel: Some(channel), .. })) = &self.change {
            add(Source::Reader, channel.fd());
        }
        if let Some(fd) = self.certificates.fd() {
            add(Source::Certificates, fd);
        }
        if let Some(handle) = self.predecessor.as_ref().and_then(upgrade::Predecessor::handle) {
            add(Source::Predecessor, handle);
        }
        self.adoptions.iter().for_each(|adoption| add(Source::Adoptions, adoption.as_fd()));
        self.pools.fds().for_each(|fd| add(Source::Pools, fd));
        for (fd, flags) in self.programs.waits() {
            waits.push(PollFd::from_borrowed_fd(fd, flags));
            sources.push(Source::Programs);
        }
        let timeout = self.next_time().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        if poll(&mut waits, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let mut ready = Vec::new();
        for (wait, source) in waits.iter().zip(sources) {
            if !wait.revents().is_empty() && !ready.contains(&source) {
                ready.push(source);
            }
        }
        ready
    }

    fn next_time(&self) -> Option<Instant> {
        let now = Instant::now();
        let answers = self.workers.iter().filter_map(|worker| worker.link.orders.next());
        let calls = self.calls.iter().map(|call| call.until);
        let adoptions = self.adoptions.iter().map(|adoption| adoption.until);
        let others = [
            self.workers.next(now),
            self.certificates.next(),
            self.pools.next(now),
            self.programs.next(now),
            self.reader_until(),
            self.next_news(now),
        ];
        let others = others.into_iter().flatten();
        answers.chain(calls).chain(adoptions).chain(others).min()
    }

    fn do_what_is_due(&mut self) {
        if self.certificates.is_due() {
            self.replace_certificates();
        }
        let now = Instant::now();
        self.calls.retain(|call| call.until > now);
        self.adoptions.retain(|adoption| adoption.until > now);
        self.tend_children();
        self.send_news(now);
        let late: Vec<Pid> = self.late(now);
        late.into_iter().for_each(|pid| self.give_up(pid, now));
        self.give_up_reader(now);
        while let Some(due) = self.workers.due(now) {
            match due {
                Due::Start => self.restart(),
                Due::StartOverdue(pid) => {
                    let limit = policy().start_time_max.as_secs();
                    self.start_failed(pid, &format!("worker process {pid} did not start within {limit} s"));
                }
                Due::EndOverdue(pid) => self.kill(pid, "does not stop"),
            }
        }
    }

    fn read_signals(&mut self) {
        while let Some(signal) = sys::read_signal(self.signals.as_fd()) {
            if let Some(text) = notice::signal(&signal) {
                self.log(LogLevel::Notice, &text);
            }
            self.signal(signal.number);
        }
    }

    fn read_calls(&mut self) {
        let mut at = 0;
        while at < self.calls.len() {
            let said = self.calls[at].read();
            if matches!(said, Said::Incomplete) {
                at += 1;
                continue;
            }
            // One by one: what an order forks must be able to let go of the other callers.
            let call = self.calls.remove(at);
            match said {
                Said::Order(order) => self.obey(order, call),
                Said::Unknown => call.answer(&Err("unknown order".into())),
                Said::Incomplete | Said::Gone => {}
            }
        }
    }

    fn obey(&mut self, order: Asked, call: Call) {
        if let Some(text) = notice::order(&order, call.sender()) {
            self.log(LogLevel::Notice, &text);
        }
        match order {
            Asked::Reload if matches!(self.stage, Stage::Ending) => {
                call.answer(&Err("the server is ending".into()));
            }
            Asked::Reload => self.reload(vec![call]),
            Asked::Reopen => self.reopen(Some(call)),
            Asked::Generation => call.answer(&Ok(self.generation.to_string())),
            Asked::Purge(order) => self.purge(&order, call),
            Asked::PhpReload(pool) => self.pools.reload(&pool, call),
            Asked::Adopt => {
                let me = rustix::process::getpid().as_raw_nonzero();
                call.answer(&Err(format!("process {me} is its master")));
            }
            Asked::Stop => {
                call.answer(&Ok("the server ends".into()));
                self.end(&Order::Stop);
            }
            Asked::Quit => {
                call.answer(&Ok("the server ends".into()));
                self.end(&Order::Quit { server_ends: true });
            }
        }
    }
}
