//! The least that passing requests on, and asking, can cost over epoll: what [`crate::floor`] is for servers.
//!
//! So does [`respond`] for what stands behind FastCGI. None looks at what it carries. All rely on messages that come in one piece, as small ones do on loopback.

use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk_load::system;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::floor::{BUFFER_BYTES, Events, LISTENER, listen};
use crate::mariadb;
use crate::mysql::Session;

/// How long the client waits for events before it looks at the time.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Passes on whatever comes on port `port` to `back_end`, each connection over one of its own. Serves until killed.
pub fn forward(port: u16, back_end: u16) -> io::Result<()> {
    let (listener, epoll) = listen(port)?;
    // Pairs of connections: what comes on one leaves on its neighbour.
    let mut ends: Vec<Option<TcpStream>> = Vec::new();
    let (mut events, mut buffer) = (Events::default(), vec![0; BUFFER_BYTES]);
    loop {
        for event in events.wait(&epoll, None)? {
            let index = event.data.u64();
            if index == LISTENER {
                while let Ok((client, _)) = listener.accept() {
                    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, back_end))?;
                    for end in [client, server] {
                        watch(&epoll, &end, ends.len() as u64)?;
                        ends.push(Some(end));
                    }
                }
                continue;
            }
            let here = index as usize;
            let Some(from) = &ends[here] else { continue };
            let passed = match recv(from, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) if count > 0 => {
                    let to = ends[here ^ 1].as_ref();
                    to.is_some_and(|to| send(to, &buffer[..count], SendFlags::NOSIGNAL) == Ok(count))
                }
                Err(Errno::AGAIN) => true,
                _ => false,
            };
            if !passed {
                (ends[here], ends[here ^ 1]) = (None, None);
            }
        }
    }
}

/// Connections to the database, more than there are sessions at a time.
const KEPT: usize = 64;
/// COM_RESET_CONNECTION, and the length of its answer.
const RESET: &[u8] = b"\x01\0\0\0\x1f";
const OK_BYTES: usize = 11;
/// A login is answered so.
const LET_IN: &[u8] = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
/// COM_QUIT.
const QUIT: &[u8] = b"\x01\0\0\0\x01";
/// The epoll data of connections to the database begin here.
const SERVERS: u64 = 1 << 32;

/// Sessions with a database over kept connections. Every login is accepted; each session has a free connection, and each of its commands is sent
/// behind a reset, in the same write. Serves until killed.
pub fn sessions(port: u16, back_end: u16) -> io::Result<()> {
    let mut greeting = vec![0; BUFFER_BYTES];
    let count = TcpStream::connect((Ipv4Addr::LOCALHOST, back_end))?.read(&mut greeting)?;
    greeting.truncate(count);
    let (listener, epoll) = listen(port)?;
    let mut pool = Pool::default();
    for index in 0..KEPT {
        let server = Session::open(back_end, &mariadb::account())?.into_stream();
        watch(&epoll, &server, SERVERS | index as u64)?;
        pool.servers.push((server, None));
        pool.free.push(index);
    }
    let (mut events, mut buffer) = (Events::default(), vec![0; BUFFER_BYTES]);
    buffer[..RESET.len()].copy_from_slice(RESET);
    loop {
        for event in events.wait(&epoll, None)? {
            match event.data.u64() {
                LISTENER => {
                    while let Ok((client, _)) = listener.accept() {
                        watch(&epoll, &client, pool.clients.len() as u64)?;
                        send(&client, &greeting, SendFlags::NOSIGNAL)?;
                        pool.clients.push(Some((client, None)));
                    }
                }
                index if index >= SERVERS => pool.answer((index - SERVERS) as usize, &mut buffer)?,
                index => pool.command(index as usize, &mut buffer)?,
            }
        }
    }
}

#[derive(Default)]
struct Pool {
    /// With the server of each, once it was let in.
    clients: Vec<Option<(TcpStream, Option<usize>)>>,
    /// With the client whose command it carries out.
    servers: Vec<(TcpStream, Option<usize>)>,
    free: Vec<usize>,
}

impl Pool {
    fn command(&mut self, index: usize, buffer: &mut [u8]) -> io::Result<()> {
        let Some((client, server)) = &mut self.clients[index] else { return Ok(()) };
        let count = match recv(&*client, &mut buffer[RESET.len()..], RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Ok(()),
            Err(_) => 0,
        };
        let message = &buffer[RESET.len()..][..count];
        match *server {
            Some(number) if count == 0 || message == QUIT => {
                self.clients[index] = None;
                self.servers[number].1 = None;
                self.free.push(number);
            }
            None if count == 0 => self.clients[index] = None,
            None => {
                let number = self.free.pop().ok_or_else(|| io::Error::other("too many sessions"))?;
                *server = Some(number);
                send(&*client, LET_IN, SendFlags::NOSIGNAL)?;
            }
            Some(number) => {
                self.servers[number].1 = Some(index);
                send(&self.servers[number].0, &buffer[..RESET.len() + count], SendFlags::NOSIGNAL)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, index: usize, buffer: &mut [u8]) -> io::Result<()> {
        let room = &mut buffer[RESET.len()..];
        let (server, client) = &mut self.servers[index];
        let count = match recv(&*server, &mut *room, RecvFlags::empty()) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => count,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // The reset's answer may come alone.
        let is_first = room.starts_with(&LET_IN[..3]) && room[3] == 1;
        let answer = &room[if is_first { OK_BYTES } else { 0 }..count];
        if let Some(Some((client, _))) = client.map(|client| &self.clients[client])
            && !answer.is_empty()
        {
            send(client, answer, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }
}

/// What a FastCGI application answers that does nothing: 14 bytes of text. The number of the request is 1 for servers that ask one at a time.
const ANSWER: &[u8] =
    b"\x01\x06\x00\x01\x00\x29\x07\x00Content-Type: text/html\r\n\r\nHello, world!\n\0\0\0\0\0\0\0\
                        \x01\x03\x00\x01\x00\x08\x00\x00\0\0\0\0\0\0\0\0";
/// How a request without a body ends.
const REQUEST_END: &[u8] = b"\x01\x05\x00\x01\x00\x00\x00\x00";

/// FastCGI on `socket` without PHP: so many processes that accept, read and write, and look at nothing. Serves until killed.
pub fn respond(socket: &Path, processes: usize) -> io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, Permissions::from_mode(0o666))?;
    for _ in 0..processes {
        let listener: OwnedFd = listener.try_clone()?.into();
        let parent = std::process::id().to_string();
        let mut command = Command::new("/proc/self/exe");
        command.args(["exec", &parent, "any"]).arg(std::env::current_exe()?).arg("responder");
        command.stdin(Stdio::from(listener)).spawn()?;
    }
    loop {
        std::thread::park();
    }
}

/// One of these processes: the socket is its standard input.
pub fn respond_here() -> io::Result<()> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (mut connection, _) = listener.accept()?;
        let mut have = 0;
        loop {
            let count = connection.read(&mut buffer[have..]).unwrap_or(0);
            have += count;
            if count == 0 || have == buffer.len() {
                break;
            }
            // Whether it is to be kept stands in the record that begins the request.
            let is_kept = buffer[10] & 1 == 1;
            if buffer[..have].ends_with(REQUEST_END) {
                have = 0;
                if connection.write_all(ANSWER).is_err() || !is_kept {
                    break;
                }
            }
        }
    }
}

/// Asks for `path` on `port` for so long, over so many connections, a request following each read; gives how many there
/// were.
pub fn ask(port: u16, path: &str, connections: usize, duration: Duration) -> io::Result<u64> {
    system::raise_open_files(12_000)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut ends = Vec::with_capacity(connections);
    for index in 0..connections {
        let end = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        watch(&epoll, &end, index as u64)?;
        send(&end, request.as_bytes(), SendFlags::NOSIGNAL)?;
        ends.push(end);
    }
    let (mut events, mut buffer) = (Events::default(), vec![0; BUFFER_BYTES]);
    let (begun, mut answers) = (Instant::now(), 0);
    while begun.elapsed() < duration {
        for event in events.wait(&epoll, Some(&TICK))? {
            let end = &ends[event.data.u64() as usize];
            match recv(end, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {
                    answers += 1;
                    send(end, request.as_bytes(), SendFlags::NOSIGNAL)?;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(answers)
}

/// Registers a connection once and for all.
fn watch(epoll: &OwnedFd, end: &TcpStream, index: u64) -> io::Result<()> {
    end.set_nonblocking(true)?;
    end.set_nodelay(true)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    Ok(epoll::add(epoll, end, epoll::EventData::new_u64(index), flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor;
    use crate::server::free_port;

    #[test]
    fn what_is_asked_through_the_proxy_is_answered() {
        let (back_end, port) = (free_port().unwrap(), free_port().unwrap());
        let options = floor::Options { port: back_end, body_bytes: 100, cpu: None, work: 0 };
        std::thread::spawn(move || floor::serve(options));
        std::thread::spawn(move || forward(port, back_end));
        for port in [back_end, port] {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
                std::thread::yield_now();
            }
            assert!(ask(port, "/", 4, Duration::from_millis(50)).unwrap() > 0);
        }
    }
}
