//! Orders over the control socket, and what the master does for them beside reloads.

use super::{Master, copy, wait_reply};
use crate::channel::Message;
use crate::control::Order;
use crate::notice;
use brisk_server::conf::LogTarget;
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use rustix::fd::OwnedFd;

impl Master {
    pub(super) fn serve_control(&mut self) {
        let Some(control) = &self.control else { return };
        let Some(call) = control.accept() else { return };
        let order = call.order();
        if let Some(text) = order.as_ref().and_then(|order| notice::order(order, call.sender())) {
            self.log(LogLevel::Notice, &text);
        }
        self.call = Some(call);
        let answer = match order {
            Some(Order::Reload) if self.ending => Err("the server is ending".into()),
            Some(Order::Reload) => self.reload().map(|()| format!("generation {}", self.generation)),
            Some(Order::Reopen) => self.reopen().map(|()| "reopened".to_string()),
            Some(Order::Generation) => Ok(self.generation.to_string()),
            Some(Order::Purge(order)) => self.purge(&order),
            None => Err("unknown order".into()),
        };
        if let Some(call) = self.call.take() {
            call.answer(&answer);
        }
    }

    /// Tells the caller, if there is one, what it waits for now.
    pub(super) fn waits_for(&self, what: &str) {
        if let Some(call) = &self.call {
            call.waits_for(what);
        }
    }

    /// Opens all logs again by name. When it returns nothing is written to the old files any more.
    pub(super) fn reopen(&mut self) -> Result<(), String> {
        self.log(LogLevel::Notice, "reopening logs");
        let mut problem = None;
        let mut opened: Vec<(LogTarget, OwnedFd)> = Vec::new();
        let wanted = self.current.logs.iter().map(|log| &log.target);
        for target in wanted.chain(self.workers.iter().flat_map(|w| &w.logs)) {
            if matches!(target, LogTarget::Stderr) || opened.iter().any(|(have, _)| have == target) {
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
        for log in &self.current.logs {
            if let Some(fd) = fd_of(&log.target) {
                let _ = log.replace(fd);
            }
        }
        self.lead_errors();
        for worker in &self.workers {
            let mut which = Vec::new();
            let mut fds = Vec::new();
            for (index, target) in worker.logs.iter().enumerate() {
                if let Some(fd) = fd_of(target) {
                    which.push(index as u32);
                    fds.push(copy(fd)?);
                }
            }
            self.waits_for(&format!("worker process {} to reopen its logs", worker.pid.as_raw_nonzero()));
            if worker.channel.send(&Message::Reopen { which, fds }).is_ok() {
                wait_reply(&worker.channel);
            }
        }
        problem.map_or(Ok(()), Err)
    }

    /// Tells the caches of all workers what is purged; those that drain still answer requests.
    fn purge(&self, order: &str) -> Result<String, String> {
        let mut gone = 0;
        for worker in &self.workers {
            let order = order.to_string();
            if worker.channel.send(&Message::Purge { order }).is_ok() {
                match wait_reply(&worker.channel) {
                    Some(Message::Purged { count }) => gone += count,
                    _ => return Err("a worker process did not answer".into()),
                }
            }
        }
        Ok(gone.to_string())
    }
}
