//! A pool's sockets, one for requests and one for orders: bound by the master process, reachable by the server's workers alone.
//!
//! While the pool's processes cannot be started its door is closed: nobody can connect, so who asks learns that at once. What is tried next gets
//! sockets that have other names until it serves.

use brisk_conf::Diag;
use brisk_modules::php::PoolSpec;
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;
use std::cell::Cell;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Whether a configuration that is being loaded names a pool, whose socket is open.
pub(super) type NamedAgain = Rc<Cell<bool>>;

/// Says so until it is dropped: the configuration is live, or refused.
pub(super) struct Kept(NamedAgain);

impl Kept {
    pub fn of(named: &NamedAgain) -> Kept {
        named.set(true);
        Kept(named.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Connections that wait in the kernel while a pool master is replaced.
const BACKLOG: i32 = 511;

/// See the module's head. Dropped by the process that has made it, it removes the names, unless they are another one's by then.
pub struct Door {
    requests: Named,
    /// PHP-FPM and php-cgi take no orders: a socket that is never accepted on would make each caller wait for its time-out.
    orders: Option<Named>,
    owner: Option<(u32, u32)>,
    made_by: Pid,
}

struct Named {
    /// The name that others know.
    path: PathBuf,
    /// The name that it has: another one while the door is closed.
    at: PathBuf,
    inode: u64,
    socket: OwnedFd,
}

/// The endings of names of closed doors, no longer than those of open ones: of the socket for requests, and of that for orders.
const CLOSED: [&str; 2] = ["closed", "locked"];

impl Door {
    /// Binds the sockets; `owner` are the ids of the server's workers, `has_orders` says whether the pool's program takes orders.
    pub fn open(spec: &PoolSpec, owner: Option<(u32, u32)>, has_orders: bool) -> Result<Door, Diag> {
        let bound = || -> io::Result<Door> {
            let requests = bind(&spec.socket, &spec.socket, owner)?;
            let orders = has_orders.then(|| bind(&spec.control, &spec.control, owner)).transpose()?;
            Ok(Door { requests, orders, owner, made_by: rustix::process::getpid() })
        };
        bound().map_err(|error| {
            let (path, why) = (spec.socket.display(), brisk_conf::os_text(&error));
            let name = &spec.settings.pool;
            Diag::global(format!("bind() to \"{path}\" for PHP pool \"{name}\" failed ({why})")).help(
                "the sockets of pools are beside the pid file, and belong to the workers' user: the master process must be able to \
                 write there, and may need CAP_CHOWN",
            )
        })
    }

    /// The same names again, with other sockets.
    pub fn again(&self) -> io::Result<Door> {
        self.made_anew(|named, _| named.path.clone())
    }

    fn made_anew(&self, name: impl Fn(&Named, usize) -> PathBuf) -> io::Result<Door> {
        let bound = |named: &Named, which| bind(&named.path, &name(named, which), self.owner);
        let requests = bound(&self.requests, 0)?;
        let orders = self.orders.as_ref().map(|orders| bound(orders, 1)).transpose();
        let orders = orders.inspect_err(|_| requests.remove())?;
        Ok(Door { requests, orders, owner: self.owner, made_by: rustix::process::getpid() })
    }

    /// Nobody can connect from now on, and the kernel resets the connections that wait for a process. True if it was open.
    pub fn close(&mut self) -> io::Result<bool> {
        if self.is_closed() {
            return Ok(false);
        }
        // With those before their sockets end, unless processes that still work have them, too.
        *self = self.made_anew(|named, which| named.path.with_extension(CLOSED[which]))?;
        Ok(true)
    }

    /// Whether nobody can connect.
    pub fn is_closed(&self) -> bool {
        self.requests.at != self.requests.path
    }

    /// What has these sockets serves: who asks can connect again.
    pub fn reopen(&mut self) -> io::Result<()> {
        // Those for orders first: who can send requests can ask how they stand.
        self.orders.iter_mut().chain([&mut self.requests]).try_for_each(Named::show)
    }

    /// Has a socket for orders from now on, or none: another program runs the pool.
    pub fn set_orders(&mut self, path: &Path, has_orders: bool) -> io::Result<()> {
        match (&self.orders, has_orders) {
            (None, true) => self.orders = Some(bind(path, path, self.owner)?),
            (Some(orders), false) => {
                orders.remove();
                self.orders = None;
            }
            (None, false) | (Some(_), true) => {}
        }
        Ok(())
    }

    /// Whether all names still lead here.
    pub fn is_named(&self) -> bool {
        self.all().all(Named::is_named)
    }

    /// The socket for requests, for what runs the pool.
    pub fn requests(&self) -> io::Result<OwnedFd> {
        self.requests.socket.try_clone()
    }

    /// The socket for orders, for a pool master.
    pub fn orders(&self) -> io::Result<OwnedFd> {
        let orders = self.orders.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        orders.socket.try_clone()
    }

    fn all(&self) -> impl Iterator<Item = &Named> {
        std::iter::once(&self.requests).chain(&self.orders)
    }
}

impl Named {
    fn is_named(&self) -> bool {
        std::fs::symlink_metadata(&self.at).is_ok_and(|file| file.ino() == self.inode)
    }

    /// Gives it the name that others know, unless another server has that by now.
    fn show(&mut self) -> io::Result<()> {
        if self.at == self.path {
            return Ok(());
        }
        if self.path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&self.at, &self.path)?;
        self.at.clone_from(&self.path);
        Ok(())
    }

    /// Removes the name, unless it is another one's.
    fn remove(&self) {
        if self.is_named() {
            let _ = std::fs::remove_file(&self.at);
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.made_by != rustix::process::getpid() {
            return;
        }
        self.all().for_each(Named::remove);
    }
}

/// A socket that others are to know as `path`, and that has the name `at` for now. It gets that when it listens and only its owner may connect:
/// no other user meets it before.
fn bind(path: &Path, at: &Path, owner: Option<(u32, u32)>) -> io::Result<Named> {
    if let Some(folder) = path.parent() {
        match crate::host::make_passage(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let before = rustix::process::umask(Mode::RWXU.complement());
    let bound = SocketAddrUnix::new(&fresh).and_then(|address| rustix::net::bind(&socket, &address));
    rustix::process::umask(before);
    bound?;
    let named = || -> io::Result<u64> {
        std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
        if let Some((uid, gid)) = owner {
            rustix::fs::chown(&fresh, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        rustix::net::listen(&socket, BACKLOG)?;
        let inode = std::fs::symlink_metadata(&fresh)?.ino();
        std::fs::rename(&fresh, at)?;
        Ok(inode)
    };
    let inode = named().inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })?;
    Ok(Named { path: path.into(), at: at.into(), inode, socket })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_testkit::TempDir;
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_closed_door_resets_who_waits_and_takes_nobody() {
        let dir = TempDir::new();
        let path = |name: &str| dir.path().join(name);
        let bound = |name: &str| bind(&path(name), &path(name), None).unwrap();
        let (requests, orders) = (bound("a.sock"), Some(bound("a.control")));
        let mut door = Door { requests, orders, owner: None, made_by: rustix::process::getpid() };
        let mut waits = UnixStream::connect(path("a.sock")).unwrap();
        assert!(door.close().unwrap() && door.is_closed() && door.is_named());
        assert!(!matches!(waits.read(&mut [0]), Ok(1..)), "it is reset");
        for name in ["a.sock", "a.control"] {
            assert_eq!(UnixStream::connect(path(name)).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
        // Closed twice is closed once: what is being started keeps its sockets.
        let socket = rustix::fs::fstat(door.requests().unwrap()).unwrap().st_ino;
        assert!(!door.close().unwrap());
        door.reopen().unwrap();
        assert_eq!(rustix::fs::fstat(door.requests().unwrap()).unwrap().st_ino, socket);
        assert!(!door.is_closed() && door.is_named());
        UnixStream::connect(path("a.sock")).unwrap();
        UnixStream::connect(path("a.control")).unwrap();
        drop(door);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_name_that_another_server_has_taken_is_left_to_it() {
        let dir = TempDir::new();
        let path = dir.path().join("a.sock");
        let requests = bind(&path, &path, None).unwrap();
        let mut door = Door { requests, orders: None, owner: None, made_by: rustix::process::getpid() };
        door.close().unwrap();
        let other = bind(&path, &path, None).unwrap();
        assert_eq!(door.reopen().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(door.is_closed() && other.is_named());
        drop(door);
        assert!(other.is_named());
    }
}
