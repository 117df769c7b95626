//! What becomes of a worker whose master was killed: it goes on serving, until another master takes it over.
//!
//! Every worker has the control socket too, but only a worker without a master accepts there. The connections' kernel credentials
//! must be root's or those of the master's user. A new master asks `adopt` there, and gets the end of a private socket pair, over
//! which it is the worker's master from then on: first come the listening sockets, the control socket and the token.
//!
//! The token is a pipe with one byte in it. When a master dies several workers may be there (one is being replaced): the one that
//! gets the byte serves on, the others finish what they have begun.

use crate::channel::{Channel, Parcel, Received, no_room, receive_with_fd, send_with_fd};
use crate::control::{Control, socket_path};
use crate::limits::{TAKEOVER_ANSWER_BYTES_MAX, TAKEOVER_ANSWER_TIME_MAX};
use crate::orders::{Reply, START};
use crate::upgrade;
use brisk_server::quic::secret;
use brisk_server::worker::Socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The answer of a worker without a master.
const TAKEN: &[u8] = b"ok adopt\n";
/// Descriptors before the listening sockets: the control socket, both ends of the token.
const OWN_FDS: usize = 3;

/// One byte in a pipe that all workers share. When the master dies, the worker that reads it goes on serving; the others end.
pub struct Token {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Token {
    /// One that can be taken.
    pub fn new() -> io::Result<Token> {
        use rustix::pipe::{PipeFlags, pipe_with};
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let token = Token { reader, writer };
        token.give_back();
        Ok(token)
    }

    /// The same one, for a process that was forked.
    pub fn copy(&self) -> io::Result<Token> {
        let copy = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        Ok(Token { reader: copy(&self.reader)?, writer: copy(&self.writer)? })
    }

    /// Whether this process has it from now on.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.reader, &mut [0u8; 1]) == Ok(1)
    }

    /// Another process may take it again.
    pub fn give_back(&self) {
        // There is room for it: it was the only byte.
        let _ = rustix::io::write(&self.writer, b"t");
    }
}

/// A worker that was taken over.
pub struct Taken {
    pub pid: Pid,
    /// Signals reach this process, and no other that gets its number later.
    pub handle: OwnedFd,
    pub channel: Channel,
    pub generation: u64,
    pub control: OwnedFd,
    pub token: Token,
    /// What the worker's keys of QUIC are made of.
    pub secret: Vec<u8>,
    pub sockets: Vec<OwnedFd>,
}

/// Who was there.
pub enum Found {
    Orphan(Box<Taken>),
    /// A running master, or somebody else: what it says.
    Refused(String),
    /// It ended while it was asked.
    Nobody,
}

/// A question under way.
pub struct Adoption {
    stream: UnixStream,
    said: Vec<u8>,
    pub until: Instant,
}

impl Adoption {
    /// Asks whoever listens at this control socket; `None` if nobody does. The error says why it may not be asked.
    pub fn begin(path: &str) -> Result<Option<Adoption>, String> {
        let mut stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            // A path that is too long for a socket never was one.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
            Err(error) => {
                return Err(format!("connect() to \"{path}\" failed ({})", brisk_conf::os_text(&error)));
            }
        };
        let failed =
            |error: io::Error| format!("asking at \"{path}\" failed ({})", brisk_conf::os_text(&error));
        let owner = socket_peercred(&stream).map_err(|error| failed(error.into()))?.uid;
        if !owner.is_root() && owner != rustix::process::geteuid() {
            return Err(format!("\"{path}\" belongs to a server of another user ({})", owner.as_raw()));
        }
        // It fits into an empty socket. An error here shows when the answer is read.
        let _ = stream.write_all(b"adopt\n");
        stream.set_nonblocking(true).map_err(failed)?;
        Ok(Some(Adoption { stream, said: Vec::new(), until: Instant::now() + TAKEOVER_ANSWER_TIME_MAX }))
    }

    /// Takes what has come; `None` while there is no answer.
    pub fn proceed(&mut self) -> Option<Found> {
        loop {
            let mut bytes = [0; TAKEOVER_ANSWER_BYTES_MAX];
            match receive_with_fd(&self.stream, &mut bytes) {
                Ok((_, Some(fd))) => {
                    let taken = take(Channel::from(fd)).map_err(|error| brisk_conf::os_text(&error));
                    return Some(taken.map_or_else(Found::Refused, |taken| Found::Orphan(Box::new(taken))));
                }
                Ok((0, None)) if self.said.is_empty() => return Some(Found::Nobody),
                Ok((0, None)) => {
                    let said = String::from_utf8_lossy(&self.said);
                    return Some(Found::Refused(said.trim_start_matches("error ").trim_end().to_string()));
                }
                Ok((count, None)) => self.said.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(Found::Nobody),
            }
            if self.said.len() > TAKEOVER_ANSWER_BYTES_MAX {
                return Some(Found::Refused("an answer that is none".into()));
            }
        }
    }

    /// Waits for the answer.
    fn wait(mut self) -> Found {
        loop {
            if let Some(found) = self.proceed() {
                return found;
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Found::Refused(format!("no answer for {} s", TAKEOVER_ANSWER_TIME_MAX.as_secs()));
            }
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&timeout));
        }
    }
}

impl AsFd for Adoption {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The worker has sent what it hands over before it has answered.
fn take(channel: Channel) -> io::Result<Taken> {
    let parcel = match channel.try_receive()? {
        Received::Parcel(parcel) => parcel,
        Received::Cut { .. } => return Err(no_room()),
        Received::Nothing | Received::Gone => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    let Reply::Heritage { generation, secret, fds } = Reply::from_parcel(parcel)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut fds = fds.into_iter();
    let mut next = || fds.next().ok_or(io::ErrorKind::InvalidData);
    let (control, reader, writer) = (next()?, next()?, next()?);
    // The kernel's word: the process that has made the pair.
    let pid = socket_peercred(channel.fd())?.pid;
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let token = Token { reader, writer };
    Ok(Taken { pid, handle, channel, generation, control, token, secret, sockets: fds.collect() })
}

/// In the worker: gives everything to the master that asks over `stream`. The worker's new channel is given back.
pub fn hand_over(
    stream: &UnixStream,
    generation: u64,
    control: &Control,
    token: &Token,
    sockets: &[Socket],
) -> io::Result<Channel> {
    let (mine, theirs) = Channel::pair()?;
    let copy = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    let mut fds = Vec::with_capacity(OWN_FDS + sockets.len());
    for fd in [control.as_fd(), token.reader.as_fd(), token.writer.as_fd()] {
        fds.push(copy(fd)?);
    }
    for (_, fd) in sockets {
        fds.push(copy(fd.as_fd())?);
    }
    let secret = secret::drawn().to_vec();
    let parcel: Parcel = Reply::Heritage { generation, secret, fds }.into_parcel(START);
    mine.try_send(parcel)?;
    send_with_fd(stream, TAKEN, theirs.fd())?;
    Ok(mine)
}

/// Before a server starts: takes over the worker of one that was killed, if there is one with this pid file. The error says that
/// a server is running already.
pub fn at_start(pid_path: &str) -> Result<Option<Box<Taken>>, String> {
    // A master may have been killed in the middle of a change of its binary.
    for place in [pid_path.to_string(), upgrade::old_path(pid_path)] {
        let path = socket_path(&place);
        let Some(adoption) = Adoption::begin(&path)? else { continue };
        match adoption.wait() {
            Found::Orphan(taken) => {
                if place != pid_path {
                    let _ = std::fs::rename(&path, socket_path(pid_path));
                    let _ = std::fs::remove_file(&place);
                }
                return Ok(Some(taken));
            }
            Found::Nobody => {}
            Found::Refused(why) => {
                return Err(format!(
                    "a server runs with the pid file \"{place}\" already ({why})\n  = help: \"brisk -s reload\" gives it a new configuration, \"brisk -s quit\" ends it; another server needs another \"pid\""
                ));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Order, Said};

    #[test]
    fn one_of_many_gets_the_token() {
        let token = Token::new().unwrap();
        assert!(token.take() && !token.take());
        token.give_back();
        assert!(token.take() && !token.take());
    }

    #[test]
    fn a_worker_hands_everything_over() {
        let dir = brisk_testkit::TempDir::new();
        let path = dir.path().join("brisk.pid").display().to_string();
        assert!(at_start(&path).unwrap().is_none());
        let control = Control::open(&path).unwrap();
        let token = Token::new().unwrap();
        let mut adoption = Adoption::begin(&socket_path(&path)).unwrap().unwrap();
        assert!(adoption.proceed().is_none());
        let call = control.accept().unwrap();
        assert!(token.take());
        let channel = hand_over(call.stream(), 7, &control, &token, &[]).unwrap();
        token.give_back();
        let Some(Found::Orphan(taken)) = adoption.proceed() else { panic!() };
        assert_eq!((taken.generation, taken.sockets.len()), (7, 0));
        assert_eq!(taken.secret, secret::drawn());
        assert_eq!(taken.pid, rustix::process::getpid());
        assert!(taken.token.take() && !token.take(), "it is the same token");
        drop(taken);
        assert!(matches!(channel.try_receive().unwrap(), Received::Gone));
    }

    #[test]
    fn a_master_that_runs_is_not_taken_over() {
        let dir = brisk_testkit::TempDir::new();
        let path = dir.path().join("brisk.pid").display().to_string();
        let control = Control::open(&path).unwrap();
        let answer = std::thread::spawn(move || {
            let mut call = brisk_testkit::wait::until("a call", || control.accept());
            brisk_testkit::wait::holds("the order", || matches!(call.read(), Said::Order(Order::Adopt)));
            call.answer(&Err("master process 4711".into()));
        });
        let refused = at_start(&path).err().unwrap();
        assert!(refused.contains("runs with the pid file") && refused.contains("4711"), "{refused}");
        answer.join().unwrap();
        // A socket that nobody listens on any more is no server.
        assert!(at_start(&path).unwrap().is_none());
    }
}
