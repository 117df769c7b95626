//! A pool's sockets, one for requests and one for orders: bound by the master process, reachable by the server's workers alone.

use brisk_conf::Diag;
use brisk_modules::php::PoolSpec;
use rustix::fd::OwnedFd;
use rustix::fs::{Gid, Mode, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Pid;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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
    path: PathBuf,
    inode: u64,
    socket: OwnedFd,
}

impl Door {
    /// Binds the sockets; `owner` are the ids of the server's workers, `has_orders` says whether the pool's program takes orders.
    pub fn open(spec: &PoolSpec, owner: Option<(u32, u32)>, has_orders: bool) -> Result<Door, Diag> {
        let bound = || -> io::Result<Door> {
            let requests = bind(&spec.socket, owner)?;
            let orders = has_orders.then(|| bind(&spec.control, owner)).transpose()?;
            Ok(Door { requests, orders, owner, made_by: rustix::process::getpid() })
        };
        bound().map_err(|error| {
            let (path, why) = (spec.socket.display(), brisk_conf::os_text(&error));
            let name = &spec.settings.pool;
            Diag::global(format!("bind() to \"{path}\" for PHP pool \"{name}\" failed ({why})"))
                .help("the sockets of pools are beside the pid file: the master process must be able to write there")
        })
    }

    /// The same names again, with other sockets.
    pub fn again(&self) -> io::Result<Door> {
        let requests = bind(&self.requests.path, self.owner)?;
        let orders = self.orders.as_ref().map(|orders| bind(&orders.path, self.owner)).transpose()?;
        Ok(Door { requests, orders, owner: self.owner, made_by: rustix::process::getpid() })
    }

    /// Has a socket for orders from now on, or none: another program runs the pool.
    pub fn set_orders(&mut self, path: &Path, has_orders: bool) -> io::Result<()> {
        match (&self.orders, has_orders) {
            (None, true) => self.orders = Some(bind(path, self.owner)?),
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
        std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode)
    }

    /// Removes the name, unless it is another one's.
    fn remove(&self) {
        if self.is_named() {
            let _ = std::fs::remove_file(&self.path);
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

/// The socket gets its name when it listens and only its owner may connect: no other user meets it before.
fn bind(path: &Path, owner: Option<(u32, u32)>) -> io::Result<Named> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
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
        std::fs::rename(&fresh, path)?;
        Ok(inode)
    };
    let inode = named().inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })?;
    Ok(Named { path: path.into(), inode, socket })
}

/// Others may pass through it, but not look into it.
fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).recursive(true).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
