//! The physical floor: what epoll, one read and one write cost, and nothing else.
//!
//! Answers each blank line with the same response, made beforehand. It parses nothing, opens
//! nothing and logs nothing: what a server needs on top of it is the server's own cost.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use brisk_load::system;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

const EVENTS_MAX: usize = 512;
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;
/// The epoll data of the listening socket; connections are numbered from 0.
pub(crate) const LISTENER: u64 = u64::MAX;

/// How the floor is started.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Port on 127.0.0.1.
    pub port: u16,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// CPU to pin to.
    pub cpu: Option<usize>,
    /// Steps of [`work`] for each response; the floor itself has none.
    pub work: usize,
}

/// What a server with something to do would do: so many steps of no use.
pub fn work(steps: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state = std::hint::black_box(state ^ state << 17);
    }
}

/// What one wake-up brings.
pub(crate) struct Events([MaybeUninit<epoll::Event>; EVENTS_MAX]);

impl Default for Events {
    fn default() -> Events {
        Events([const { MaybeUninit::uninit() }; EVENTS_MAX])
    }
}

impl Events {
    /// Waits for them, forever or so long.
    pub fn wait(&mut self, epoll: &OwnedFd, timeout: Option<&Timespec>) -> io::Result<&[epoll::Event]> {
        match epoll::wait(epoll, &mut self.0, timeout) {
            Ok((events, _)) => Ok(events),
            Err(Errno::INTR) => Ok(&[]),
            Err(error) => Err(error.into()),
        }
    }
}

struct Connection {
    socket: OwnedFd,
    /// How many bytes of a blank line the input ends with.
    matched: usize,
    /// Response bytes that the socket did not take.
    unsent: Vec<u8>,
}

struct Floor {
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    response: Vec<u8>,
    buffer: Box<[u8]>,
    work: usize,
}

/// A socket that listens on 127.0.0.1, and what waits for its connections.
pub(crate) fn listen(port: u16) -> io::Result<(TcpListener, OwnedFd)> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    Ok((listener, epoll))
}

/// Serves until killed.
pub fn serve(options: Options) -> io::Result<()> {
    if let Some(cpu) = options.cpu {
        system::pin_to_cpu(cpu)?;
    }
    system::raise_open_files(12_000)?;
    let (listener, epoll) = listen(options.port)?;
    let mut floor = Floor {
        epoll,
        connections: Vec::new(),
        free: Vec::new(),
        response: response(options.body_bytes),
        buffer: vec![0; BUFFER_BYTES].into(),
        work: options.work,
    };
    let mut events = Events::default();
    loop {
        for event in events.wait(&floor.epoll, None)? {
            match event.data.u64() {
                LISTENER => floor.accept(&listener),
                index => floor.turn(index as usize, event.flags),
            }
        }
    }
}

impl Floor {
    fn accept(&mut self, listener: &TcpListener) {
        while let Ok(socket) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let flags = epoll::EventFlags::IN
                | epoll::EventFlags::OUT
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::ET;
            let nodelay = sockopt::set_tcp_nodelay(&socket, true);
            let added = epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(index as u64), flags);
            if nodelay.and(added).is_ok() {
                self.connections[index] = Some(Connection { socket, matched: 0, unsent: Vec::new() });
            } else {
                self.free.push(index);
            }
        }
    }

    #[inline]
    fn turn(&mut self, index: usize, flags: epoll::EventFlags) {
        let Some(connection) = &mut self.connections[index] else { return };
        let hung_up = flags.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP);
        if !connection.ready(hung_up, &self.response, &mut self.buffer, self.work) {
            self.connections[index] = None;
            self.free.push(index);
        }
    }
}

impl Connection {
    /// Answers what has come; false when the connection is over.
    #[inline]
    fn ready(&mut self, hung_up: bool, response: &[u8], buffer: &mut [u8], steps: usize) -> bool {
        if !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            if !self.send(&unsent) {
                return false;
            }
        }
        loop {
            let count = match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok((count, _)) => count,
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            };
            let requests = self.requests_in(&buffer[..count]);
            work(steps * requests);
            let sent = match requests {
                0 => true,
                1 => self.send(response),
                many => self.send(&response.repeat(many)),
            };
            if !sent {
                return false;
            }
            if count < buffer.len() && !hung_up {
                return true;
            }
        }
    }

    /// Counts the blank lines that end in `input`.
    #[inline]
    fn requests_in(&mut self, input: &[u8]) -> usize {
        const END: &[u8] = b"\r\n\r\n";
        // The common case: one whole request.
        if self.matched == 0 && input.ends_with(END) && !input[..input.len() - 2].windows(4).any(|w| w == END)
        {
            return 1;
        }
        let mut found = 0;
        for &byte in input {
            self.matched = match byte {
                byte if byte == END[self.matched] => self.matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            if self.matched == END.len() {
                self.matched = 0;
                found += 1;
            }
        }
        found
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> bool {
        let mut left = bytes;
        if self.unsent.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => left = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        self.unsent.extend_from_slice(left);
        true
    }
}

/// A response with the header fields that a real server sends for a file.
fn response(body_bytes: usize) -> Vec<u8> {
    let mut response = format!(
        "HTTP/1.1 200 OK\r\n\
         Server: floor\r\n\
         Date: Sat, 01 Jan 2000 00:00:00 GMT\r\n\
         Content-Type: text/plain\r\n\
         Content-Length: {body_bytes}\r\n\
         Last-Modified: Sat, 01 Jan 2000 00:00:00 GMT\r\n\
         Connection: keep-alive\r\n\
         ETag: \"386d4380-{body_bytes:x}\"\r\n\
         Accept-Ranges: bytes\r\n\r\n"
    )
    .into_bytes();
    response.resize(response.len() + body_bytes, b'x');
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_counted_across_pieces() {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
        let mut connection = Connection { socket: socket.unwrap(), matched: 0, unsent: Vec::new() };
        let stream = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3);
        for cut in 0..=stream.len() {
            let (left, right) = stream.split_at(cut);
            assert_eq!(connection.requests_in(left) + connection.requests_in(right), 3, "cut at {cut}");
        }
    }
}
