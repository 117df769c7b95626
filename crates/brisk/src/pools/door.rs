//! A pool's two sockets: bound by the master process, reachable by the server's workers alone.

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
    sockets: [Named; 2],
    owner: Option<(u32, u32)>,
    made_by: Pid,
}

struct Named {
    path: PathBuf,
    inode: u64,
    socket: OwnedFd,
}

impl Door {
    /// Binds both sockets; `owner` are the ids of the server's workers.
    pub fn open(spec: &PoolSpec, owner: Option<(u32, u32)>) -> Result<Door, Diag> {
        let paths = [&spec.socket, &spec.control];
        let failed = |error: io::Error| {
            let (path, why) = (spec.socket.display(), brisk_conf::os_text(&error));
            let name = &spec.settings.pool;
            Diag::global(format!("bind() to \"{path}\" for PHP pool \"{name}\" failed ({why})"))
                .help("the sockets of pools are beside the pid file: the master process must be able to write there")
        };
        Door::bind(paths, owner).map_err(failed)
    }

    fn bind(paths: [&PathBuf; 2], owner: Option<(u32, u32)>) -> io::Result<Door> {
        let [first, second] = paths;
        let sockets = [bind(first, owner)?, bind(second, owner)?];
        Ok(Door { sockets, owner, made_by: rustix::process::getpid() })
    }

    /// The same names again, with other sockets.
    pub fn again(&self) -> io::Result<Door> {
        let [first, second] = &self.sockets;
        Door::bind([&first.path, &second.path], self.owner)
    }

    /// Whether both names still lead here.
    pub fn is_named(&self) -> bool {
        self.sockets.iter().all(Named::is_named)
    }

    /// For a pool master.
    pub fn copies(&self) -> io::Result<[OwnedFd; 2]> {
        let [first, second] = &self.sockets;
        Ok([first.socket.try_clone()?, second.socket.try_clone()?])
    }
}

impl Named {
    fn is_named(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.made_by != rustix::process::getpid() {
            return;
        }
        for socket in self.sockets.iter().filter(|socket| socket.is_named()) {
            let _ = std::fs::remove_file(&socket.path);
        }
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
