//! Changing the binary without losing a connection (USR2), as nginx does it.
//!
//! The old master moves its pid file to `.oldbin` and starts the new binary with its own arguments and with the
//! numbers of the listening sockets in the variable `NGINX`. Both serve until the old one is told to quit; HUP to the
//! old one takes it all back.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::process::Pid;
use std::fmt::Write as _;
use std::io;
use std::process::Command;

fn old_path(pid_path: &str) -> String {
    format!("{pid_path}.oldbin")
}

/// Starts the new binary; gives its pid.
pub fn start<'a>(pid_path: &str, sockets: impl Iterator<Item = &'a OwnedFd>) -> io::Result<i32> {
    let old = old_path(pid_path);
    std::fs::rename(pid_path, &old)?;
    let _ = std::fs::rename(crate::control::socket_path(pid_path), crate::control::socket_path(&old));
    let mut numbers = String::new();
    let mut opened = Vec::new();
    for fd in sockets {
        brisk_net::sys::set_cloexec(fd.as_fd(), false)?;
        let _ = write!(numbers, "{};", fd.as_raw_fd());
        opened.push(fd);
    }
    let mut args = crate::title::arguments().into_iter();
    let program = args.next().ok_or_else(|| io::Error::other("no program name"))?;
    let mut command = Command::new(program);
    command.args(args).env("NGINX", numbers);
    brisk_net::sys::unblock_signals_in(&mut command);
    let started = command.spawn();
    for fd in opened {
        brisk_net::sys::set_cloexec(fd.as_fd(), true)?;
    }
    Ok(started?.id() as i32)
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
pub fn predecessor() -> Option<Pid> {
    std::env::var_os("NGINX").and_then(|_| rustix::process::getppid())
}

/// In the new binary: systemd is told who the main process is now.
pub fn announce() {
    if std::env::var_os("NGINX").is_some() {
        crate::systemd::main_pid();
    }
}
