//! One master after the other: a new binary beside this one, and what becomes of the workers of a master that was killed.

use super::state::{Master, Stage};
use crate::control::socket_path;
use crate::takeover::{Adoption, Found};
use crate::upgrade;
use brisk_net::fault;
use brisk_server::core::LogLevel;

impl Master {
    pub(super) fn upgrade(&mut self) {
        if let Some(why) = self.cannot_upgrade() {
            self.log(LogLevel::Error, &format!("the changing binary signal is ignored: {why}"));
            return;
        }
        if self.predecessor.is_some() {
            // Before the pid file moves: what the old master has left is at the place where it moves to.
            self.predecessor_has_ended();
        }
        fault::step("upgrade");
        // The new master binds its own control socket beside its own pid file.
        match upgrade::start(&self.pid_path, self.sockets.fds()) {
            Ok(pid) => {
                self.successor = Some(pid);
                self.log(LogLevel::Notice, &format!("start new binary process {pid}"));
                fault::step("upgrade-started");
            }
            Err(error) => {
                upgrade::failed(&self.pid_path);
                self.log(LogLevel::Alert, &format!("starting the new binary failed ({error})"));
            }
        }
    }

    fn cannot_upgrade(&self) -> Option<&'static str> {
        if self.successor.is_some() {
            return Some("an upgrade is under way");
        }
        let predecessor = self.predecessor.as_ref()?;
        if predecessor.is_alive() {
            return Some("the old binary's process is there still, end one of both first");
        }
        self.is_starting().then_some("this process starts still")
    }

    /// HUP during an upgrade: serve again with what we have, whatever the new binary does.
    pub(super) fn roll_back(&mut self) {
        if matches!(self.stage, Stage::Idle) {
            self.stage = Stage::Serving;
        }
        self.workers.want(true);
    }

    /// The new binary's master is gone. It may have been killed, and its worker serves on: that one is ours now.
    pub(super) fn successor_has_ended(&mut self) {
        if matches!(self.stage, Stage::Ending) {
            // This one ends, too. A worker that is left serves until another master is started.
            self.log(LogLevel::Notice, "the new binary's process has ended");
            return;
        }
        self.successor = None;
        self.ask_to_obey(&socket_path(&self.pid_path));
        // After WINCH there is no worker of our own: one that was taken over is to be replaced, and where there is none clients would wait.
        if matches!(self.stage, Stage::Idle) {
            self.roll_back();
        }
        upgrade::failed(&self.pid_path);
        self.pools.rebind();
        self.log(LogLevel::Notice, "the new binary's process has ended; this one goes on");
    }

    /// The old binary's master has ended: in order, or its worker is without a master now.
    pub(super) fn predecessor_has_ended(&mut self) {
        self.predecessor = None;
        self.programs.release();
        if !self.is_starting() {
            self.inherit_from_predecessor();
        }
    }

    /// The same once this master serves.
    pub(super) fn predecessor_may_have_ended(&mut self) {
        if upgrade::is_successor() && self.predecessor.is_none() {
            self.inherit_from_predecessor();
        }
    }

    fn inherit_from_predecessor(&mut self) {
        let old = upgrade::old_path(&self.pid_path);
        self.ask_to_obey(&socket_path(&old));
        // What was connected stays so.
        upgrade::retire(&self.pid_path);
    }

    /// Asks the worker that listens at this control socket; false if there is none.
    fn ask_to_obey(&mut self, path: &str) -> bool {
        match Adoption::begin(path) {
            Ok(Some(adoption)) => {
                self.adoptions.push(adoption);
                true
            }
            Ok(None) => false,
            Err(why) => {
                self.log(LogLevel::Error, &why);
                false
            }
        }
    }

    pub(super) fn proceed_with_adoptions(&mut self) {
        for mut adoption in std::mem::take(&mut self.adoptions) {
            match adoption.proceed() {
                None => self.adoptions.push(adoption),
                Some(Found::Orphan(taken)) => {
                    let pid = taken.pid.as_raw_nonzero().get();
                    self.take_over(*taken, false);
                    // Otherwise it goes when the worker in its place is ready.
                    let serving = self.workers.serving().is_some();
                    if serving || matches!(self.stage, Stage::Ending) {
                        self.quit(pid, matches!(self.stage, Stage::Ending));
                    }
                }
                Some(Found::Refused(why)) => self.log(LogLevel::Notice, &format!("taking over: {why}")),
                Some(Found::Nobody) => {}
            }
        }
    }
}
