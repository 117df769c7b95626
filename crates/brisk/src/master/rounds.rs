//! Orders to all workers, with one answer: logs are opened again, something goes from the caches, certificates are replaced.

use super::state::{Change, Master, Purpose, Round, Subject, copy};
use super::telling::{Haste, is_serving};
use crate::config;
use crate::control::Call;
use crate::findings;
use crate::limits::REASON_LETTERS_MAX;
use crate::orders::Order;
use brisk_server::conf::LogTarget;
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use brisk_server::news::Refused;
use brisk_supervise::{Pid, State};
use rustix::fd::OwnedFd;

impl Master {
    /// Gives `order` to all workers: those that drain still write logs and answer requests. When all have answered the caller
    /// is told.
    fn round(
        &mut self,
        subject: Subject,
        mut problem: Option<String>,
        call: Option<Call>,
        mut order: impl FnMut(&Master, Pid) -> Result<Order, String>,
    ) {
        let number = self.rounds.last().map_or(1, |round| round.number + 1);
        let mut left = 0;
        for pid in self.workers.pids() {
            let Some(worker) = self.workers.get(pid) else { continue };
            if matches!(worker.state, State::Killed) || !worker.link.is_child() {
                continue;
            }
            let given = order(self, pid).and_then(|order| self.order(pid, order, Purpose::Round(number)));
            match given {
                Ok(_) => left += 1,
                Err(why) => drop(problem.get_or_insert(why)),
            }
        }
        if let (Some(call), true) = (&call, left > 0) {
            call.waits_for("the worker processes to answer");
        }
        self.rounds.push(Round { number, subject, left, sum: 0, problem, call });
        self.end_rounds();
    }

    /// A worker has answered, or never will.
    pub(super) fn round_answer(&mut self, number: u64, answer: Result<u64, String>) {
        let Some(round) = self.rounds.iter_mut().find(|round| round.number == number) else { return };
        round.left -= 1;
        match answer {
            Ok(count) => round.sum += count,
            Err(why) => drop(round.problem.get_or_insert(why)),
        }
        self.end_rounds();
    }

    fn end_rounds(&mut self) {
        while let Some(at) = self.rounds.iter().position(|round| round.left == 0) {
            let Round { subject, sum, problem, call, .. } = self.rounds.remove(at);
            let result = match (problem, subject) {
                (Some(problem), _) => Err(problem),
                (None, Subject::Reopen) => Ok("reopened".to_string()),
                (None, Subject::Purge) => Ok(sum.to_string()),
            };
            match (call, result) {
                (Some(call), result) => call.answer(&result),
                (None, Err(problem)) => self.log(LogLevel::Emerg, &problem),
                (None, Ok(_)) => {}
            }
        }
    }

    /// Opens all logs again by name. When the caller is answered nothing is written to the old files any more.
    pub(super) fn reopen(&mut self, call: Option<Call>) {
        self.log(LogLevel::Notice, "reopening logs");
        self.pools.reopen();
        let mut problem = None;
        let mut opened: Vec<(LogTarget, OwnedFd)> = Vec::new();
        // Those of a configuration that is on its way, too: its worker has got, or will get, what was open before.
        let next = match &self.change {
            Some(Change::Handed { next, .. } | Change::Starting { next, .. }) => &next.current.logs[..],
            _ => &[],
        };
        let wanted = self.current.logs.iter().chain(next).map(|log| &log.target);
        for target in wanted.chain(self.workers.iter().flat_map(|worker| &worker.link.logs)) {
            if !matches!(target, LogTarget::File(_)) || opened.iter().any(|(have, _)| have == target) {
                continue;
            }
            match LogFile::open(target) {
                Ok(fd) => opened.push((target.clone(), fd)),
                // The old file stays in use: lines are better in the wrong place than nowhere.
                Err(error) => {
                    problem = Some(format!("open() \"{target}\" failed ({})", brisk_conf::os_text(&error)));
                }
            }
        }
        let fd_of = |target: &LogTarget| opened.iter().find(|(have, _)| have == target).map(|(_, fd)| fd);
        for log in self.current.logs.iter().chain(next) {
            if let Some(fd) = fd_of(&log.target) {
                let _ = log.replace(fd);
            }
        }
        self.lead_errors();
        self.round(Subject::Reopen, problem, call, |_, _| {
            // A worker leaves out what it does not have.
            let paths = opened.iter().map(|(target, _)| target.to_string()).collect();
            let fds = opened.iter().map(|(_, fd)| copy(fd)).collect::<Result<_, _>>()?;
            Ok(Order::Reopen { paths, fds })
        });
    }

    /// Tells the caches of all workers what is purged.
    pub(super) fn purge(&mut self, order: &str, call: Call) {
        self.round(Subject::Purge, None, Some(call), |_, _| Ok(Order::Purge { order: order.to_string() }));
    }

    /// Certificates may have been replaced on disk: those that have are handed to the workers.
    pub(super) fn replace_certificates(&mut self) {
        let mut complaints = Vec::new();
        let fresh =
            self.certificates.changed(&mut self.current.bundle, |why| complaints.push(why.to_string()));
        complaints.iter().for_each(|why| self.log(LogLevel::Error, why));
        if fresh.files.is_empty() {
            return;
        }
        for path in fresh.files.keys() {
            self.log(LogLevel::Notice, &format!("\"{path}\" has changed and is used from now on"));
        }
        let payload = fresh.encode();
        self.tell_serving(Purpose::Certificates, || Order::Certificates { files: payload.clone() });
    }

    /// Keeps why a reload was refused, for those who watch.
    pub(super) fn remember_refusal(&mut self, message: &str) {
        let reason: String = config::headlines(message).join("; ").chars().take(REASON_LETTERS_MAX).collect();
        let unix_secs = brisk_net::clock::now().unix_secs;
        self.news.refused_reloads += 1;
        self.news.last_refused = Some(Refused { unix_secs, generation: self.generation, reason });
        self.tell_news(Haste::Now);
    }

    /// Tells the workers what the doctor finds in the configuration that has become live.
    pub(super) fn tell_findings(&mut self) {
        let findings = findings::of(&self.paths, &self.current.bundle).unwrap_or_default();
        if findings != self.news.findings {
            self.news.findings = findings;
            self.tell_news(Haste::Now);
        }
    }

    /// An order to those that serve or are about to. One that is about to end needs none.
    fn tell_serving(&mut self, purpose: Purpose, order: impl Fn() -> Order) {
        for pid in self.workers.pids() {
            if self.workers.get(pid).is_some_and(|worker| is_serving(worker.state)) {
                let _ = self.order(pid, order(), purpose);
            }
        }
    }
}
