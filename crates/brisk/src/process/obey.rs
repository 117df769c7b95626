//! The life of a worker's control thread: it carries out the orders of its master. When the master is killed the worker goes on
//! serving, and takes orders on the control socket, until another master takes it over ([`crate::takeover`]).

use super::{Drain, Heir, SETTLE_TIME_MAX, adopt_logs, report};
use crate::background;
use crate::bundle::Bundle;
use crate::certificates;
use crate::channel::{Channel, Received, no_room};
use crate::config::{self, Paths};
use crate::control::{Call, Control, ORPHAN_ENDS, Order as Asked, Said};
use crate::limits::{CODE_KEPT_TIME, SPANS_STOP_TIME_MAX};
use crate::orders::{Order, Reply};
use crate::{takeover, title};
use brisk_cache::Purge;
use brisk_cache::purge::unhex;
use brisk_net::{fault, listen::Address, sys};
use brisk_server::conf::LogTarget;
use brisk_server::core::LogLevel;
use brisk_server::log::LogFile;
use brisk_server::news::News;
use brisk_server::worker::{Socket, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A worker without a master says so again after this time.
const REMIND_INTERVAL: Duration = Duration::from_hours(1);

/// Where orders come from.
enum Lead {
    Master(Channel),
    /// The master was killed. This worker has the token, serves on, and takes orders on the control socket.
    Orphan {
        control: Control,
        calls: Vec<Call>,
        remind_at: Instant,
    },
    /// The master is gone, and this worker ends.
    Nobody,
}

/// What the control thread knows.
struct Servant {
    worker: Worker,
    paths: Paths,
    lead: Lead,
    heir: Heir,
    /// Copies of the listening sockets, for a master that takes this worker over. None while it drains.
    sockets: Vec<Socket>,
    drain: Option<Drain>,
    /// The server as a whole ends: nothing outlives the master.
    server_ends: bool,
    signals: OwnedFd,
    /// When the code of the beginning is given back; `None`: it was.
    forgets_at: Option<Instant>,
}

/// Whether the process goes on.
enum Then {
    Go,
    /// With this code.
    Exit(i32),
}

/// What the master is told of an error, with what can be done about it.
fn with_remedy(what: &str, error: &io::Error) -> String {
    let is_full = error.raw_os_error() == Some(libc::EMFILE);
    let remedy = if is_full { "; raise worker_rlimit_nofile" } else { "" };
    format!("{what} failed in the worker process ({}){remedy}", brisk_conf::os_text(error))
}

/// Obeys until the process is to end; gives its exit code. A draining worker still takes orders: to reopen its logs, to stop at
/// once.
pub fn run(
    worker: Worker,
    channel: Channel,
    signals: OwnedFd,
    paths: Paths,
    heir: Heir,
    sockets: Vec<Socket>,
) -> i32 {
    let lead = Lead::Master(channel);
    let forgets_at = Some(Instant::now() + CODE_KEPT_TIME);
    let mut servant =
        Servant { worker, paths, lead, heir, sockets, drain: None, server_ends: false, signals, forgets_at };
    loop {
        if servant.drain.as_mut().is_some_and(|drain| drain.is_over(&servant.worker)) {
            // Temporary files of the last requests are removed by the pool.
            brisk_net::blocking::settle(SETTLE_TIME_MAX);
            return 0;
        }
        servant.wait();
        if servant.forgets_at.is_some_and(|at| at <= Instant::now()) {
            sys::forget_code();
            servant.forgets_at = None;
        }
        match sys::read_signal(servant.signals.as_fd()).map(|signal| signal.number) {
            Some(libc::SIGTERM) => return servant.stop(),
            Some(libc::SIGQUIT) => servant.drain(),
            _ => {}
        }
        let then = match &servant.lead {
            Lead::Master(_) => servant.next_order(),
            Lead::Orphan { .. } => servant.serve_callers(),
            Lead::Nobody => Then::Go,
        };
        if let Then::Exit(code) = then {
            return code;
        }
    }
}

impl Servant {
    /// Waits for a signal, an order, a caller, the end of the last connection, or the next time at which something is due.
    fn wait(&self) {
        let mut waits = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::from_borrowed_fd(self.worker.empty(), PollFlags::IN),
        ];
        let mut due = self.forgets_at;
        match &self.lead {
            Lead::Master(channel) => waits.push(PollFd::from_borrowed_fd(channel.fd(), PollFlags::IN)),
            Lead::Orphan { control, calls, remind_at } => {
                waits.push(PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN));
                waits.extend(calls.iter().map(|call| PollFd::from_borrowed_fd(call.as_fd(), PollFlags::IN)));
                due = calls.iter().map(|call| call.until).chain([*remind_at]).chain(due).min();
            }
            Lead::Nobody => {}
        }
        let due = due.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let timeout = self.drain.as_ref().and_then(Drain::timeout).into_iter().chain(due).min();
        let _ = poll(&mut waits, timeout.as_ref());
    }

    /// Carries out the master's next order, if there is one.
    fn next_order(&mut self) -> Then {
        let Lead::Master(channel) = &self.lead else { return Then::Go };
        let parcel = match channel.try_receive() {
            Ok(Received::Parcel(parcel)) => parcel,
            Ok(Received::Nothing) => return Then::Go,
            Ok(Received::Gone) => return self.lose_master(),
            Ok(Received::Cut { id }) => {
                let reason = with_remedy("taking the descriptors that belong to an order", &no_room());
                let _ = channel.send(Reply::Failed { reason }.into_parcel(id));
                return Then::Go;
            }
            Err(error) => {
                // Half an order: the master takes this worker for stuck, and replaces it.
                self.say(LogLevel::Alert, &format!("reading an order of the master failed ({error})"));
                self.lead = Lead::Nobody;
                self.drain();
                return Then::Go;
            }
        };
        let id = parcel.id;
        let is_late = Duration::from_nanos(parcel.until) <= crate::orders::now();
        let reply = match Order::from_parcel(parcel) {
            Ok(Order::Stop) => return Then::Exit(self.stop()),
            Ok(order) => self.carry_out(order, is_late),
            Err(error) => Reply::Failed { reason: error.to_string() },
        };
        if let Lead::Master(channel) = &self.lead {
            // A master that is gone is noticed with the next read.
            let _ = channel.send(reply.into_parcel(id));
        }
        Then::Go
    }

    fn carry_out(&mut self, order: Order, is_late: bool) -> Reply {
        let failed = |reason: &str| Reply::Failed { reason: reason.into() };
        match order {
            Order::Configure { .. } if self.drain.is_some() => failed("the worker process is ending"),
            // The master has decided otherwise by now.
            Order::Configure { .. } if is_late => failed("the order came too late"),
            Order::Configure { generation, bundle, fds } => {
                fault::step("worker-configure");
                let done = self.configure(generation, &bundle, fds);
                drop(bundle);
                // The old configuration was made by this thread, and its memory is for this thread to give back.
                sys::release_free_memory();
                self.forgets_at = Some(Instant::now() + CODE_KEPT_TIME);
                fault::step("worker-configured");
                done.map_or_else(|reason| Reply::Failed { reason }, |()| Reply::Done)
            }
            Order::Certificates { files } => {
                if let Some(files) = Bundle::decode(&files) {
                    certificates::replace(self.worker.snapshot(), &files);
                }
                Reply::Done
            }
            Order::Reopen { paths, fds } => {
                fault::step("worker-reopen");
                self.reopen(&paths, &fds);
                self.lead_errors();
                Reply::Done
            }
            Order::Purge { order } => Reply::Purged { count: self.purge(&order) },
            Order::News { text } => match News::decode(&text) {
                Some(news) => {
                    self.worker.shared().tell(news);
                    Reply::Done
                }
                None => failed("malformed news of the master"),
            },
            Order::Control { listener } => {
                self.heir.control = Control::inherited(listener, self.heir.owner);
                Reply::Done
            }
            // Answered when nothing more is accepted here.
            Order::Quit { server_ends } => {
                fault::step("worker-quit");
                self.server_ends |= server_ends;
                self.drain();
                Reply::Done
            }
            Order::Stop => Reply::Done,
        }
    }

    /// The master is gone without having told this worker to end: it was killed.
    fn lose_master(&mut self) -> Then {
        let master = self.heir.master;
        let me = rustix::process::getpid().as_raw_nonzero();
        self.lead = Lead::Nobody;
        if self.drain.is_some() {
            // A master that is killed while the server ends was to end at once.
            return if self.server_ends { Then::Exit(self.stop()) } else { Then::Go };
        }
        let Some(control) = self.heir.control.take() else {
            self.say(LogLevel::Alert, &format!(
                "the master process {master} has ended; worker process {me} has no control socket on which another one could take it over: it finishes what runs, and ends"
            ));
            self.drain();
            return Then::Go;
        };
        if !self.heir.token.take() {
            self.say(
                LogLevel::Notice,
                &format!(
                    "the master process {master} has ended; worker process {me} leaves serving to another one"
                ),
            );
            self.drain();
            return Then::Go;
        }
        title::orphan();
        self.lead = Lead::Orphan { control, calls: Vec::new(), remind_at: Instant::now() + REMIND_INTERVAL };
        self.remind();
        Then::Go
    }

    fn remind(&self) {
        let (master, me) = (self.heir.master, rustix::process::getpid().as_raw_nonzero());
        self.say(LogLevel::Alert, &format!(
            "the master process {master} has ended; worker process {me} goes on serving without it: start the server again, which takes over from it, or end it with \"brisk -s quit\""
        ));
    }

    /// Without a master: takes orders on the control socket.
    fn serve_callers(&mut self) -> Then {
        let now = Instant::now();
        let Lead::Orphan { control, calls, remind_at } = &mut self.lead else { return Then::Go };
        calls.extend(std::iter::from_fn(|| control.accept()));
        let is_due = *remind_at <= now;
        if is_due {
            *remind_at = now + REMIND_INTERVAL;
        }
        let waiting = std::mem::take(calls);
        if is_due {
            self.remind();
        }
        for mut call in waiting {
            let order = match call.read() {
                Said::Order(order) => order,
                Said::Incomplete if call.until > now => {
                    if let Lead::Orphan { calls, .. } = &mut self.lead {
                        calls.push(call);
                    }
                    continue;
                }
                Said::Unknown => {
                    call.answer(&Err("unknown order".into()));
                    continue;
                }
                Said::Incomplete | Said::Gone => continue,
            };
            if let Then::Exit(code) = self.answer(order, call) {
                return Then::Exit(code);
            }
        }
        Then::Go
    }

    fn answer(&mut self, order: Asked, call: Call) -> Then {
        let master = self.heir.master;
        match order {
            Asked::Adopt => self.be_adopted(call),
            Asked::Generation => call.answer(&Ok(self.worker.generation().to_string())),
            Asked::Stop => {
                call.answer(&Ok(ORPHAN_ENDS.into()));
                return Then::Exit(self.stop());
            }
            Asked::Quit => {
                call.answer(&Ok(ORPHAN_ENDS.into()));
                self.drain();
            }
            Asked::Purge(order) => {
                let count = self.purge(&order);
                call.answer(&Ok(count.to_string()));
            }
            Asked::Reload | Asked::Reopen | Asked::PhpReload(_) => call.answer(&Err(format!(
                "the master process {master} has ended, and this is for a master to do: start the server again, it takes over from the worker that serves"
            ))),
        }
        Then::Go
    }

    /// Another master takes over: from now on it gives the orders. Should it end before it has told this worker to, it has lost
    /// its master once more.
    fn be_adopted(&mut self, call: Call) {
        let (pid, _) = call.sender();
        let Lead::Orphan { control, calls, remind_at } = std::mem::replace(&mut self.lead, Lead::Nobody)
        else {
            return call.answer(&Err("another master is taking over".into()));
        };
        let generation = self.worker.generation();
        let token = &self.heir.token;
        match takeover::hand_over(call.stream(), generation, &control, token, &self.sockets) {
            Ok(channel) => {
                token.give_back();
                self.heir.control = Some(control);
                self.heir.master = pid;
                self.lead = Lead::Master(channel);
                title::worker();
                self.say(LogLevel::Notice, &format!("process {pid} takes over as the master process"));
            }
            Err(error) => {
                self.lead = Lead::Orphan { control, calls, remind_at };
                call.answer(&Err(format!("handing over failed ({})", brisk_conf::os_text(&error))));
            }
        }
    }

    /// Accepts nothing more when it returns.
    fn drain(&mut self) {
        if self.drain.is_none() {
            self.drain = Some(Drain::begin(&self.worker));
        }
        self.sockets.clear();
        // The control socket is closed: a caller is refused, or reaches the server that listens there by now.
        self.heir.control = None;
        if matches!(self.lead, Lead::Orphan { .. }) {
            self.lead = Lead::Nobody;
        }
    }

    fn stop(&self) -> i32 {
        super::finish(&self.worker, SPANS_STOP_TIME_MAX);
        0
    }

    fn say(&self, level: LogLevel, message: &str) {
        brisk_net::clock::refresh();
        report(self.worker.snapshot(), self.worker.logs(), level, message);
    }

    /// Builds the configuration from the bundle and switches to it.
    fn configure(&mut self, generation: u64, bundle: &[u8], fds: Vec<OwnedFd>) -> Result<(), String> {
        let bundle = Bundle::decode(bundle).ok_or("malformed bundle")?;
        let (snap, _) =
            config::load_bundle(&self.paths, &bundle).ok_or("the worker refuses the configuration")?;
        let wanted: Vec<Address> = snap.sockets.iter().map(|l| l.address.clone()).collect();
        let have = &self.worker.snapshot().sockets;
        let fresh = wanted.iter().filter(|address| !have.iter().any(|l| l.address == **address));
        let fresh: Vec<Address> = fresh.cloned().collect();
        if fds.len() != fresh.len() + snap.logs.len() {
            return Err(format!(
                "{} descriptors came, {} are needed",
                fds.len(),
                fresh.len() + snap.logs.len()
            ));
        }
        let mut fds = fds.into_iter();
        let sockets: Vec<Socket> = fresh.into_iter().zip(fds.by_ref()).collect();
        let logs = adopt_logs(self.worker.logs(), &snap, fds);
        self.worker
            .switch(Arc::new(snap), logs, &sockets, generation)
            .map_err(|error| with_remedy("switching", &error))?;
        self.sockets.extend(sockets);
        self.sockets.retain(|(address, _)| wanted.contains(address));
        self.lead_errors();
        Ok(())
    }

    fn lead_errors(&self) {
        if self.paths.detached {
            background::lead_errors(&self.worker.snapshot().core, self.worker.logs());
        }
    }

    /// What [`crate::control::purge`] has put into words.
    fn purge(&self, order: &str) -> u64 {
        let order =
            order.split_once(' ').and_then(|(zone, order)| Some((unhex(zone)?, Purge::parse(order)?)));
        let Some((zone, order)) = order else { return 0 };
        let zones = &self.worker.snapshot().zones;
        brisk_modules::cache::by_order(zones, &String::from_utf8_lossy(&zone), &order) as u64
    }

    /// When this returns no line goes to an old file any more.
    fn reopen(&self, paths: &[String], fds: &[OwnedFd]) {
        for (path, fd) in paths.iter().zip(fds) {
            let named = |log: &&Arc<LogFile>| matches!(&log.target, LogTarget::File(have) if have == path);
            if let Some(log) = self.worker.logs().iter().find(named) {
                let _ = log.replace(fd);
            }
        }
        // Threads that were inside a write have finished it when they answer.
        self.worker.flush_logs();
    }
}
