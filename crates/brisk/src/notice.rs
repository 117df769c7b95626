//! What the error log says of signals and orders, in nginx's words, with the process that has sent them.

use crate::config::Paths;
use crate::control::Order;
use brisk_net::sys::Signalled;

/// `signal 1 (SIGHUP) received from 4711, reconfiguring (user 0)`; `None` for those that need no line.
pub fn signal(signalled: &Signalled) -> Option<String> {
    let (name, effect) = match signalled.number {
        libc::SIGHUP => ("SIGHUP", "reconfiguring"),
        libc::SIGUSR1 => ("SIGUSR1", "reopening logs"),
        libc::SIGUSR2 => ("SIGUSR2", "changing binary"),
        libc::SIGWINCH => ("SIGWINCH", "ending worker processes"),
        libc::SIGQUIT => ("SIGQUIT", "shutting down"),
        libc::SIGTERM => ("SIGTERM", "exiting"),
        libc::SIGINT => ("SIGINT", "exiting"),
        _ => return None,
    };
    let number = signalled.number;
    // The kernel has no process: a terminal's Ctrl-C, or a sender in another namespace.
    Some(match signalled.pid {
        0 => format!("signal {number} ({name}) received, {effect}"),
        pid => format!("signal {number} ({name}) received from {pid}, {effect} (user {})", signalled.uid),
    })
}

/// An order that came over the control socket, by this process of this user.
pub fn order(order: &Order, (pid, uid): (i32, u32)) -> Option<String> {
    let (name, effect) = match order {
        Order::Reload => ("reload", "reconfiguring"),
        Order::Reopen => ("reopen", "reopening logs"),
        Order::Stop => ("stop", "exiting"),
        Order::Quit => ("quit", "shutting down"),
        Order::PhpReload(_) => ("php reload", "replacing the processes of a PHP pool"),
        Order::Generation | Order::Adopt | Order::Purge(_) => return None,
    };
    Some(format!("{name} is ordered by process {pid}, {effect} (user {uid})"))
}

/// A server has started.
pub fn serves(paths: &Paths, generation: u64) -> String {
    let (version, pid) = (brisk_server::special::NAME_VERSION, rustix::process::getpid().as_raw_nonzero());
    format!("{version}, process {pid}, serves with generation {generation} of {}", paths.conf)
}
