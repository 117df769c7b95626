//! systemd's notification and socket activation protocols: a datagram and a few variables.

use brisk_net::sys;
use rustix::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

fn notify(text: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    // A name that begins with @ lies outside the file system.
    let _ = match bytes.strip_prefix(b"@") {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            std::os::unix::net::SocketAddr::from_abstract_name(name)
                .and_then(|address| socket.send_to_addr(text.as_bytes(), &address))
        }
        None => socket.send_to(text.as_bytes(), &path),
    };
}

/// Serving, with the configuration of this generation.
pub fn ready(generation: u64) {
    notify(&format!("READY=1\nSTATUS=configuration generation {generation}\n"));
}

/// A reload begins; `Type=notify-reload` wants the time of that.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let usec = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={usec}\n"));
}

pub fn stopping() {
    notify("STOPPING=1\n");
}

pub fn main_pid() {
    notify(&format!("MAINPID={}\n", rustix::process::getpid().as_raw_nonzero()));
}

/// Sockets that systemd holds for us (`LISTEN_FDS`).
pub fn sockets() -> Vec<OwnedFd> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<i32>().ok();
    let ours = number("LISTEN_PID") == Some(rustix::process::getpid().as_raw_nonzero().get());
    let count = if ours { number("LISTEN_FDS").unwrap_or(0).clamp(0, 4096) } else { 0 };
    (3..3 + count)
        .filter_map(|fd| sys::inherited(fd).ok())
        .inspect(|fd| {
            let _ = sys::set_cloexec(rustix::fd::AsFd::as_fd(fd), true);
        })
        .collect()
}
