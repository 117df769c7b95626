//! Listening sockets of the master: bound once, kept across reloads, workers and upgrades.

use crate::refusal;
use brisk_conf::Diag;
use brisk_load::output;
use brisk_net::listen::{self, Address};
use brisk_net::sys;
use brisk_server::conf::{Snapshot, Socket as Listen};
use brisk_server::worker::Socket;
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// nginx tries five times when an address is in use, half a second apart: a server that just ends lets go of it.
const BIND_TRIES: usize = 5;

/// The master's sockets by address.
#[derive(Default)]
pub struct Sockets {
    open: BTreeMap<Address, OwnedFd>,
}

impl Sockets {
    /// Takes sockets over from the process before (an upgrade, systemd).
    pub fn inherit(&mut self, fds: Vec<OwnedFd>) {
        for fd in fds {
            if let Some(mut address) = address_of(&fd) {
                let _ = rustix::io::ioctl_fionbio(&fd, true);
                // Sockets of a group come in the order of their places, as they were bound.
                while self.open.contains_key(&address)
                    && let Address::Quic(ip, place) = address
                    && place < u8::MAX
                {
                    address = Address::Quic(ip, place + 1);
                }
                self.open.insert(address, fd);
            }
        }
    }

    /// Binds what `snap` wants and is not open yet; gives the new addresses. On failure nothing has changed.
    pub fn prepare(&self, snap: &Snapshot) -> Result<Fresh, Diag> {
        let mut fresh = Fresh { sockets: Vec::new(), made_by: rustix::process::getpid() };
        for want in &snap.sockets {
            match self.open.get(&want.address) {
                Some(fd) if listen::is_multipath(fd) != want.options.multipath => {
                    let message = format!(
                        "the \"multipath\" parameter of {} cannot be changed while the socket is open",
                        want.address
                    );
                    return Err(Diag::emerg(want.span, message).help("restart the server"));
                }
                Some(fd) => {
                    listen::apply(fd, &want.options).map_err(|e| refusal::listen(want, "setsockopt", &e))?;
                    listen::set_backlog(fd, want.options.backlog)
                        .map_err(|e| refusal::listen(want, "listen", &e))?;
                }
                None => fresh.sockets.push((want.address.clone(), bind_patiently(want)?)),
            }
        }
        self.route(snap, &fresh);
        Ok(fresh)
    }

    /// Has the kernel route packets of QUIC among the sockets of each group. Where it may not, threads pass on what comes to the
    /// wrong one.
    fn route(&self, snap: &Snapshot, fresh: &Fresh) {
        for want in snap.sockets.iter().filter(|want| matches!(want.address, Address::Quic(_, 0))) {
            let in_group = |other: &&Listen| other.address.group() == want.address;
            let count = snap.sockets.iter().filter(in_group).count() as u32;
            let all = self.open.iter().chain(fresh.sockets.iter().map(|(address, fd)| (address, fd)));
            for (_, fd) in all.filter(|(address, _)| **address == want.address) {
                if let Err(error) = sys::udp::route_by_connection_id(fd.as_fd(), count) {
                    let why = brisk_conf::os_text(&error);
                    output::note(format_args!(
                        "brisk: [notice] packets to {} cannot be routed by the kernel ({why}): threads do it",
                        want.address
                    ));
                }
            }
        }
    }

    /// Adopts prepared sockets.
    pub fn adopt(&mut self, mut fresh: Fresh) {
        self.open.extend(std::mem::take(&mut fresh.sockets));
    }

    /// Adopts prepared sockets and closes those that are not wanted any more.
    pub fn commit(&mut self, wanted: &[Address], fresh: Fresh) {
        self.adopt(fresh);
        let gone: Vec<Address> =
            self.open.keys().filter(|address| !wanted.contains(address)).cloned().collect();
        // Backwards: the last socket of a group takes the place of one that is closed.
        for address in gone.into_iter().rev() {
            self.open.remove(&address);
            if let Address::Unix(path) = &address {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Copies of the wanted sockets, of which some are not adopted yet, for a worker.
    pub fn copies(&self, wanted: &[Address], fresh: &[Socket]) -> io::Result<Vec<Socket>> {
        let all = self.open.iter().chain(fresh.iter().map(|(address, fd)| (address, fd)));
        all.filter(|(address, _)| wanted.contains(address)).map(copy).collect()
    }

    /// Copies of all sockets, for a worker.
    pub fn all(&self) -> io::Result<Vec<Socket>> {
        self.open.iter().map(copy).collect()
    }

    pub fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        self.open.values()
    }

    /// Lets go of all: once no worker has them either, clients are refused. `unlink`: nobody else goes on listening,
    /// so the files of unix sockets are removed.
    pub fn close(&mut self, unlink: bool) {
        for (address, _) in std::mem::take(&mut self.open) {
            if let (Address::Unix(path), true) = (address, unlink) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Sockets that are bound, but not adopted. Dropped, they leave no files behind.
pub struct Fresh {
    sockets: Vec<Socket>,
    made_by: Pid,
}

impl Fresh {
    /// In a process that was forked: closes its copies, of which it has taken those that it needs.
    pub fn close(&mut self) {
        self.sockets.clear();
    }
}

impl Deref for Fresh {
    type Target = [Socket];

    fn deref(&self) -> &[Socket] {
        &self.sockets
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // A process that was forked meanwhile has them too: the files are not for it to remove.
        if self.made_by != rustix::process::getpid() {
            return;
        }
        for (address, _) in &self.sockets {
            if let Address::Unix(path) = address {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

fn copy((address, fd): (&Address, &OwnedFd)) -> io::Result<Socket> {
    Ok((address.clone(), rustix::io::fcntl_dupfd_cloexec(fd, 3)?))
}

fn bind_patiently(want: &Listen) -> Result<OwnedFd, Diag> {
    let mut tries = 0;
    loop {
        match listen::bind(&want.address, &want.options) {
            Ok(fd) => return Ok(fd),
            Err(error) => {
                let in_use = error.raw_os_error() == Some(libc::EADDRINUSE);
                if in_use
                    && let Address::Unix(path) = &want.address
                    && is_stale(path)
                {
                    // Another process may have removed it by now.
                    let _ = std::fs::remove_file(path);
                    tries += 1;
                    if tries < BIND_TRIES {
                        continue;
                    }
                }
                let diag = refusal::listen(want, "bind", &error);
                tries += 1;
                if error.raw_os_error() != Some(libc::EADDRINUSE) || tries >= BIND_TRIES {
                    return Err(diag);
                }
                output::note(format_args!("brisk: [emerg] {}", diag.message));
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    }
}

/// Whether a file is a unix socket.
pub fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Whether a socket's file is left of a server that was killed: connections to it are refused.
fn is_stale(path: &Path) -> bool {
    is_socket(path)
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// `-t`: which addresses could not be bound; one that is in use (by the running server) is fine.
pub fn try_bind(snap: &Snapshot) -> Vec<Diag> {
    let refused = |want: &Listen| {
        let existed = matches!(&want.address, Address::Unix(path) if path.exists());
        match listen::claim(&want.address, &want.options) {
            Ok(_) => {
                if let (Address::Unix(path), false) = (&want.address, existed) {
                    let _ = std::fs::remove_file(path);
                }
                None
            }
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => None,
            Err(error) => Some(refusal::listen(want, "bind", &error)),
        }
    };
    snap.sockets.iter().filter_map(refused).collect()
}

fn address_of(fd: &OwnedFd) -> Option<Address> {
    if let Some(ip) = listen::local_ip(fd) {
        return Some(match (listen::is_datagram(fd), listen::is_quic(fd)) {
            (true, true) => Address::Quic(ip, 0),
            (true, false) => Address::Udp(ip),
            (false, _) => Address::Ip(ip),
        });
    }
    let any = rustix::net::getsockname(fd).ok()?;
    let unix = rustix::net::SocketAddrUnix::try_from(any).ok()?;
    let path = unix.path()?;
    Some(Address::Unix(std::path::PathBuf::from(path.to_string_lossy().into_owned())))
}

/// Sockets named by number in a variable such as `NGINX=5;6;`.
pub fn inherited(numbers: &str) -> Vec<OwnedFd> {
    numbers
        .split(';')
        .filter_map(|text| text.trim().parse::<i32>().ok())
        .filter(|&fd| fd > 2)
        .filter_map(|fd| sys::inherited(fd).ok())
        .inspect(|fd| {
            let _ = sys::set_cloexec(fd.as_fd(), true);
        })
        .collect()
}
