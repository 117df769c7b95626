//! Reading a configuration beside the master's loop. Names are looked up, files and certificates are read, all of it is checked and its
//! folders are made by a child process: a name server or a disk that does not answer holds up the reload and nothing else.
//!
//! It is a process and not a thread because the master forks: a lock that another thread held at that moment would be held for ever in the
//! child. What it gives back is the text that it has read ([`Bundle`]). From that the master builds the same configuration, as workers do,
//! which waits for nothing outside.

use super::state::{Change, Current, Master, Next, Reader};
use crate::bundle::Bundle;
use crate::channel::{Channel, Received, no_room};
use crate::claim::claim;
use crate::config::{self, Loaded, Paths};
use crate::limits::READ_TIME_MAX;
use crate::orders::{Reply, START};
use crate::programs::Programs;
use crate::{certificates, host, title};
use brisk_conf::Diag;
use brisk_net::{fault, sys};
use brisk_server::conf::Snapshot;
use brisk_server::core::LogLevel;
use brisk_supervise::Pid;
use rustix::process::{Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use std::time::Instant;

impl Reader {
    /// Sends SIGKILL: what it reads is not wanted any more.
    pub fn kill(&self) {
        // One that has ended already needs none.
        let _ = rustix::process::Pid::from_raw(self.pid).map(|pid| kill_process(pid, Signal::KILL));
    }
}

impl Master {
    /// Has the configuration read; [`Master::reader_has_ended`] goes on from there.
    pub(super) fn start_reader(&mut self) -> Result<Reader, String> {
        let (mine, theirs) = Channel::pair().map_err(|e| format!("socketpair() failed ({e})"))?;
        let master = getpid();
        match sys::fork().map_err(|e| format!("fork() failed ({e})"))? {
            sys::Fork::Parent(pid) => {
                let until = Instant::now() + fault::limit("read", READ_TIME_MAX);
                Ok(Reader { pid, channel: Some(mine), given: None, until })
            }
            sys::Fork::Child => {
                drop(mine);
                // It has copies of the listening sockets until here: it must not outlive a master that is killed.
                let is_bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
                if !is_bound || getppid() != Some(master) {
                    sys::exit_now(2);
                }
                self.let_go();
                self.sockets.close(false);
                self.control = None;
                title::reader();
                sys::exit_now(give(&self.paths, &theirs))
            }
        }
    }

    fn reader(&mut self) -> Option<&mut Reader> {
        match &mut self.change {
            Some(Change::Reading(reader)) => Some(reader),
            _ => None,
        }
    }

    /// Takes what the reader has given so far.
    pub(super) fn hear_reader(&mut self) {
        while let Some(reader) = self.reader() {
            let Some(channel) = &reader.channel else { return };
            match channel.try_receive().map_err(|error| error.to_string()) {
                Ok(Received::Nothing) => return,
                Ok(Received::Gone) => reader.channel = None,
                Ok(Received::Cut { .. }) => reader.given = Some(Err(brisk_conf::os_text(&no_room()))),
                Ok(Received::Parcel(parcel)) => match Reply::from_parcel(parcel) {
                    Ok(Reply::Warning { text }) => self.log(LogLevel::Warn, &text),
                    Ok(Reply::Read { bundle }) => {
                        reader.given = Some(Bundle::decode(&bundle).ok_or("malformed bundle".into()));
                    }
                    Ok(Reply::Failed { reason }) => reader.given = Some(Err(reason)),
                    Ok(_) => {}
                    Err(error) => reader.given = Some(Err(error.to_string())),
                },
                Err(error) => {
                    reader.channel = None;
                    reader.given = Some(Err(error));
                }
            }
        }
    }

    /// A child has ended: if it was the reader, the reload goes on with what it has given. Gives whether it was.
    pub(super) fn reader_has_ended(&mut self, pid: Pid, how: &str) -> bool {
        if self.reader().is_none_or(|reader| reader.pid != pid) {
            return false;
        }
        self.hear_reader();
        let Some(Change::Reading(reader)) = self.change.take() else { return true };
        let given = reader.given.unwrap_or_else(|| {
            Err(format!("process {pid}, which read the configuration, {how}{}", host::memory_hint()))
        });
        match given.and_then(|bundle| self.claim_next(bundle)) {
            Ok((snap, next)) => self.begin_change(snap, Box::new(next)),
            Err(message) => self.finish_change(Err(message)),
        }
        true
    }

    /// When the reader is given up.
    pub(super) fn reader_until(&self) -> Option<Instant> {
        match &self.change {
            Some(Change::Reading(reader)) => Some(reader.until),
            _ => None,
        }
    }

    /// Gives the reader up if its time is over.
    pub(super) fn give_up_reader(&mut self, now: Instant) {
        let is_over = |change: &mut Change| matches!(change, Change::Reading(reader) if reader.until <= now);
        if let Some(Change::Reading(reader)) = self.change.take_if(is_over) {
            reader.kill();
            let seconds = fault::limit("read", READ_TIME_MAX).as_secs_f64();
            self.finish_change(Err(format!("the configuration could not be read within {seconds} s")));
        }
    }

    /// Builds what was read, and gets from the system what it needs.
    fn claim_next(&mut self, bundle: Bundle) -> Result<(Snapshot, Next), String> {
        let (snap, texts) = config::load_bundle(&self.paths, &bundle)
            .ok_or("building the configuration from what was read failed")?;
        let told = |diag: Diag| diag.render(&texts);
        self.tell("logs and sockets to be opened");
        let (logs, fresh) = claim(&self.paths, &snap, &self.sockets).map_err(told)?;
        let pools = self.pools.prepare(&snap).map_err(told)?;
        let programs = Programs::prepare(&snap).map_err(told)?;
        fault::step("reload-claimed");
        let current = Current::new(&snap, bundle, logs);
        let certificates = certificates::sources(&snap);
        Ok((snap, Next { current, fresh, generation: self.generation + 1, certificates, pools, programs }))
    }
}

/// The body of the reader; gives its exit code.
fn give(paths: &Paths, channel: &Channel) -> i32 {
    fault::step("reader");
    // A master that is gone wants nothing.
    let say = |reply: Reply| channel.send(reply.into_parcel(START));
    let read = read(paths, |text| drop(say(Reply::Warning { text: text.to_string() })));
    let said = match read {
        Ok(bundle) => say(Reply::Read { bundle: bundle.encode() }),
        Err(reason) => say(Reply::Failed { reason }),
    };
    if said.is_ok() { 0 } else { 2 }
}

fn read(paths: &Paths, warn: impl Fn(&str)) -> Result<Bundle, String> {
    let Loaded { snap, bundle, sources } = config::reload(paths, |_, text| warn(text))?;
    let warnings = host::make_folders(&snap).map_err(|diag| diag.render(&sources))?;
    warnings.iter().for_each(|text| warn(text));
    Ok(bundle)
}
