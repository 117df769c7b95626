//! Files that only the master may read, asked for while connections are served: certificates and keys whose paths have
//! variables in them. The master gives out what the configuration allows, and nothing else, whoever asks.
//!
//! A question is one packet with a path; the answer is a parcel with the file or the reason why it is not given out. They have a
//! socket pair of their own: what the master and the worker's control thread say to each other stays in its order.

use crate::channel::{Channel, Parcel};
use crate::limits::{KEEPER_FILE_BYTES_MAX, KEEPER_PATH_BYTES_MAX};
use brisk_server::tls::Allowed;
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

/// An answer with the file.
const FILE: u8 = b'i';
/// An answer with the error number of what went wrong.
const REFUSED: u8 = b'n';

/// The master's end.
pub struct Keeper {
    channel: Channel,
    allowed: Arc<Allowed>,
}

/// What the worker's end is made from.
pub struct Asker(Channel);

/// Both ends.
pub fn pair(allowed: Arc<Allowed>) -> io::Result<(Keeper, Asker)> {
    let (channel, other) = Channel::pair()?;
    Ok((Keeper { channel, allowed }, Asker(other)))
}

impl Keeper {
    /// Readable when there is a question.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.channel.fd()
    }

    /// From now on the worker serves another configuration.
    pub fn allow(&mut self, allowed: Arc<Allowed>) {
        self.allowed = allowed;
    }

    /// Answers one question; false if there will be no more.
    pub fn serve(&self) -> bool {
        let mut path = [0; KEEPER_PATH_BYTES_MAX];
        let length = match recv(self.fd(), &mut path, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return false,
            Ok((length, _)) => length,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        };
        let allowed = str::from_utf8(&path[..length]).ok().filter(|path| self.allowed.has(path));
        let answer = match allowed.map(read) {
            Some(Ok(text)) => Parcel { kind: FILE, payload: text, ..Parcel::default() },
            Some(Err(error)) => refused(error.raw_os_error().unwrap_or(libc::EIO)),
            None => refused(libc::EACCES),
        };
        // A worker asks one question at a time: where there is no room for the answer nothing is read any more.
        self.channel.try_send(answer).is_ok()
    }
}

impl Asker {
    /// Has the worker's threads ask here for files that it may not read.
    pub fn install(self) {
        let channel = Mutex::new(self.0);
        brisk_server::tls::read_through(Box::new(move |path| {
            let channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
            ask(&channel, path)
        }));
    }
}

fn ask(channel: &Channel, path: &str) -> io::Result<Vec<u8>> {
    if path.is_empty() || path.len() > KEEPER_PATH_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    send(channel.fd(), path.as_bytes(), SendFlags::NOSIGNAL)?;
    match channel.receive()? {
        Some(Parcel { kind: FILE, payload, .. }) => Ok(payload),
        Some(Parcel { kind: REFUSED, number, .. }) => {
            Err(io::Error::from_raw_os_error(i32::try_from(number).unwrap_or(libc::EIO)))
        }
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

fn refused(errno: i32) -> Parcel {
    Parcel { kind: REFUSED, number: u64::from(errno.unsigned_abs()), ..Parcel::default() }
}

/// A regular file of ordinary size: a pipe or a device would hold up the master.
fn read(path: &str) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let about = file.metadata()?;
    if !about.is_file() || about.len() > KEEPER_FILE_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut text = Vec::new();
    file.take(KEEPER_FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_server::vars::{Table, Template};

    #[test]
    fn only_regular_files_that_the_configuration_names_are_given_out() {
        let dir = brisk_testkit::TempDir::new();
        let path = |name: &str| dir.path().join(name).display().to_string();
        dir.write("a.key", "secret");
        dir.write("other", "not for you");
        dir.write("large", vec![b'x'; KEEPER_FILE_BYTES_MAX as usize + 1]);
        std::fs::create_dir(path("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR).unwrap();
        let names =
            ["a.key", "none", "large", "folder", "pipe"].map(|name| Template::literal(path(name).as_bytes()));
        let allowed = Allowed::new(&names, &Table::default(), "/");
        let (keeper, Asker(channel)) = pair(Arc::new(allowed)).unwrap();
        let serving = std::thread::spawn(move || while keeper.serve() {});
        let get = |name: &str| ask(&channel, name).map_err(|error| error.raw_os_error());
        assert_eq!(get(&path("a.key")), Ok(b"secret".to_vec()));
        assert_eq!(get(&path("other")), Err(Some(libc::EACCES)));
        assert_eq!(get(&path("none")), Err(Some(libc::ENOENT)));
        for name in ["large", "folder", "pipe"] {
            assert_eq!(get(&path(name)), Err(Some(libc::EINVAL)), "{name}");
        }
        for name in [String::new(), "x".repeat(5000)] {
            assert_eq!(get(&name), Err(Some(libc::ENAMETOOLONG)));
        }
        assert_eq!(get("a.key"), Err(Some(libc::EACCES)));
        drop(channel);
        serving.join().unwrap();
    }
}
