//! Changing the binary without losing a connection (USR2), as nginx does it.
//!
//! The old master moves its pid file to `.oldbin` and starts the new binary with its own arguments and with the
//! numbers of the listening sockets in the variable `NGINX`. Both serve until the old one is told to quit; HUP to the
//! old one takes it all back.

use crate::channel::memory_file;
use brisk_net::fault;
use brisk_server::quic::secret::{self, SECRET_BYTES};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags};
use std::fmt::Write as _;
use std::io;
use std::process::Command;

/// The variable with the old master's process id.
const PREDECESSOR: &str = "BRISK_PREDECESSOR";

/// The variable with the number of a file that keys of QUIC are made of.
const SECRET: &str = "BRISK_QUIC_SECRET";

/// The pid file of the old master during an upgrade.
pub fn old_path(pid_path: &str) -> String {
    format!("{pid_path}.oldbin")
}

/// Starts the new binary; gives its pid.
pub fn start<'a>(pid_path: &str, sockets: impl Iterator<Item = &'a OwnedFd>) -> io::Result<i32> {
    let old = old_path(pid_path);
    std::fs::rename(pid_path, &old)?;
    let _ = std::fs::rename(crate::control::socket_path(pid_path), crate::control::socket_path(&old));
    fault::step("upgrade-renamed");
    let mut numbers = String::new();
    let mut opened = Vec::new();
    for fd in sockets {
        brisk_net::sys::set_cloexec(fd.as_fd(), false)?;
        let _ = write!(numbers, "{};", fd.as_raw_fd());
        opened.push(fd);
    }
    // In memory, since others can read a process's variables; it is ours until the new binary has it.
    let secret = memory_file(&secret::drawn())?;
    brisk_net::sys::set_cloexec(secret.as_fd(), false)?;
    let mut args = crate::title::arguments().into_iter();
    let program = args.next().ok_or_else(|| io::Error::other("no program name"))?;
    let mut command = Command::new(program);
    let me = rustix::process::getpid().as_raw_nonzero().to_string();
    command.args(args).env("NGINX", numbers).env(PREDECESSOR, me);
    command.env(SECRET, secret.as_raw_fd().to_string());
    brisk_net::sys::unblock_signals_in(&mut command);
    let started = command.spawn();
    for fd in opened {
        brisk_net::sys::set_cloexec(fd.as_fd(), true)?;
    }
    Ok(started?.id() as i32)
}

/// In the new binary: what the old one's keys of QUIC are made of. `None`: the old one has none to give.
pub fn secret() -> Option<[u8; SECRET_BYTES]> {
    let number = std::env::var(SECRET).ok()?.parse().ok().filter(|&number| number > 2)?;
    let fd = brisk_net::sys::inherited(number).ok()?;
    let mut bytes = [0; SECRET_BYTES];
    (rustix::io::pread(&fd, &mut bytes, 0) == Ok(SECRET_BYTES)).then_some(bytes)
}

/// The new binary has ended: the pid file is ours again.
pub fn failed(pid_path: &str) {
    let old = old_path(pid_path);
    let _ = std::fs::rename(&old, pid_path);
    let _ = std::fs::rename(crate::control::socket_path(&old), crate::control::socket_path(pid_path));
}

/// The old master ends and the new one goes on.
pub fn retire(pid_path: &str) {
    let old = old_path(pid_path);
    let _ = std::fs::remove_file(&old);
    let _ = std::fs::remove_file(crate::control::socket_path(&old));
}

/// In the new binary: the old one's master, which may outlive us.
pub struct Predecessor {
    pid: Pid,
    /// Readable when it has ended. `None`: the kernel has no such handles.
    handle: Option<OwnedFd>,
}

impl Predecessor {
    /// Whether it is there.
    pub fn is_alive(&self) -> bool {
        rustix::process::getppid() == Some(self.pid)
    }

    /// Readable when it has ended.
    pub fn handle(&self) -> Option<BorrowedFd<'_>> {
        self.handle.as_ref().map(AsFd::as_fd)
    }
}

/// Whether this is the new binary of an upgrade.
pub fn is_successor() -> bool {
    std::env::var_os("NGINX").is_some()
}

/// In the new binary: the old one's master. `None` elsewhere, and if that one has ended already.
pub fn predecessor() -> Option<Predecessor> {
    let parent = rustix::process::getppid().filter(|_| is_successor())?;
    // An orphan has another parent.
    let told = std::env::var(PREDECESSOR).ok().and_then(|text| text.parse().ok());
    let pid = told.and_then(Pid::from_raw).unwrap_or(parent);
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
    // Asked last: while the parent is there its number is not another process's.
    let predecessor = Predecessor { pid, handle };
    predecessor.is_alive().then_some(predecessor)
}

/// In the new binary: systemd is told who the main process is now.
pub fn announce() {
    if is_successor() {
        crate::systemd::main_pid();
    }
}
