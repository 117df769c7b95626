//! Listening sockets of the master: bound once, kept across reloads, workers and upgrades.

use brisk_load::watch::proc;
use brisk_net::listen::{self, Address};
use brisk_net::sys;
use brisk_server::conf::Snapshot;
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
            if let Some(address) = address_of(&fd) {
                let _ = rustix::io::ioctl_fionbio(&fd, true);
                self.open.insert(address, fd);
            }
        }
    }

    /// Binds what `snap` wants and is not open yet; gives the new addresses. On failure nothing has changed.
    pub fn prepare(&self, snap: &Snapshot) -> Result<Fresh, String> {
        let mut fresh = Fresh { sockets: Vec::new(), made_by: rustix::process::getpid() };
        for want in &snap.listens {
            match self.open.get(&want.address) {
                Some(fd) => {
                    listen::apply(fd, &want.options).map_err(|e| failed("setsockopt", &want.address, &e))?;
                }
                None => {
                    fresh.sockets.push((want.address.clone(), bind_patiently(&want.address, &want.options)?));
                }
            }
        }
        Ok(fresh)
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
        for address in gone {
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

fn failed(call: &str, address: &Address, error: &io::Error) -> String {
    format!("{call}() to {address} failed ({})", brisk_conf::os_text(error))
}

fn bind_patiently(address: &Address, options: &listen::Options) -> Result<OwnedFd, String> {
    let mut tries = 0;
    loop {
        match listen::bind(address, options) {
            Ok(fd) => return Ok(fd),
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {
                if let Address::Unix(path) = address
                    && is_stale(path)
                {
                    // Somebody else may have removed it by now.
                    let _ = std::fs::remove_file(path);
                    tries += 1;
                    if tries < BIND_TRIES {
                        continue;
                    }
                }
                tries += 1;
                if tries >= BIND_TRIES {
                    return Err(failed("bind", address, &error) + &remedy(address, &error));
                }
                eprintln!("brisk: [emerg] {}", failed("bind", address, &error));
                std::thread::sleep(Duration::from_millis(500));
            }
            Err(error) => return Err(failed("bind", address, &error) + &remedy(address, &error)),
        }
    }
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Whether a socket's file is left of a server that was killed: connections to it are refused.
fn is_stale(path: &Path) -> bool {
    is_socket(path)
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Who listens; the other processes of a server share its socket.
fn holder(pids: &[u32]) -> String {
    let Some(pid) = pids.first() else { return String::new() };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("; {} (process {pid}) listens there", name.trim_end())
}

/// What stands in the way of binding, as far as it can be seen from here.
fn remedy(address: &Address, error: &io::Error) -> String {
    match (error.raw_os_error(), address) {
        (Some(libc::EADDRINUSE), Address::Ip(ip)) => holder(&proc::listening_on(ip.port())),
        (Some(libc::EADDRINUSE), Address::Unix(path)) if !is_socket(path) => {
            "; the file there is no socket".into()
        }
        (Some(libc::EADDRINUSE), Address::Unix(path)) => holder(&proc::listening_at(path)),
        (Some(libc::EACCES), Address::Ip(ip)) if ip.port() < 1024 => {
            "; ports below 1024 are for root and for programs with the capability CAP_NET_BIND_SERVICE".into()
        }
        (Some(libc::EADDRNOTAVAIL), _) => "; no interface of this machine has this address".into(),
        _ => String::new(),
    }
}

/// `-t`: whether the addresses could be bound; one that is in use (by the running server) is fine.
pub fn try_bind(snap: &Snapshot) -> Result<(), String> {
    for want in &snap.listens {
        let existed = matches!(&want.address, Address::Unix(path) if path.exists());
        match listen::bind(&want.address, &want.options) {
            Ok(_) => {
                if let (Address::Unix(path), false) = (&want.address, existed) {
                    let _ = std::fs::remove_file(path);
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => {}
            Err(error) => return Err(failed("bind", &want.address, &error) + &remedy(&want.address, &error)),
        }
    }
    Ok(())
}

fn address_of(fd: &OwnedFd) -> Option<Address> {
    if let Some(ip) = listen::local_ip(fd) {
        return Some(Address::Ip(ip));
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
