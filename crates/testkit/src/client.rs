//! A raw HTTP/1.1 client: sends any bytes at any pace, reads responses strictly.

use crate::response::{End, Fault, Response, framing, parse_field, parse_head};
use crate::wait::DEADLINE;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A head longer than this is a fault.
const HEAD_BYTES_MAX: usize = 256 << 10;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected socket whose own address is `source`.
pub fn socket_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Without a port of its own a socket may share one with others that lead elsewhere.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &SocketAddr::new(IpAddr::V4(source), 0))?;
    rustix::net::connect(&fd, &to)?;
    let stream = TcpStream::from(fd);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One connection.
pub struct Client {
    stream: Stream,
    /// Received and not yet taken.
    input: Vec<u8>,
}

/// Why no response came.
#[derive(Debug)]
pub enum Failure {
    /// The connection ended before the first byte of a response.
    Closed,
    /// It was reset.
    Reset,
    /// Nothing came in time.
    TimedOut,
    /// It ended within a response, or what came is no response.
    Fault(Fault),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Closed => f.write_str("the connection was closed without an answer"),
            Failure::Reset => f.write_str("the connection was reset"),
            Failure::TimedOut => f.write_str("no answer in time"),
            Failure::Fault(fault) => f.write_str(fault),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The peer has closed its side.
    Closed,
    /// The peer has reset the connection.
    Reset,
    /// It did not end in the time given.
    Open,
    /// Bytes came instead.
    Data,
}

impl Client {
    /// Connects to a port on 127.0.0.1.
    ///
    /// # Panics
    /// If that fails; [`Client::try_connect`] does not.
    pub fn connect(port: u16) -> Client {
        Client::try_connect(port).unwrap_or_else(|e| panic!("connecting to port {port}: {e}"))
    }

    /// As `connect`, for ports that may not be listened on.
    pub fn try_connect(port: u16) -> io::Result<Client> {
        Client::connect_to(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// Connects to an address.
    pub fn connect_to(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
        stream.set_nodelay(true)?;
        Client::over(Stream::Tcp(stream))
    }

    /// Connects from one of our own addresses (127.0.0.2 is one as much as 127.0.0.1).
    pub fn connect_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<Client> {
        Client::over(Stream::Tcp(socket_from(source, to)?))
    }

    /// Connects to a unix socket.
    pub fn connect_unix(path: &Path) -> io::Result<Client> {
        Client::over(Stream::Unix(UnixStream::connect(path)?))
    }

    /// Connects with a receive buffer so small that a server soon has to wait for us.
    pub fn connect_narrow(port: u16) -> Client {
        let connect = || -> io::Result<Client> {
            let fd = rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            sockopt::set_socket_recv_buffer_size(&fd, 4096)?;
            rustix::net::connect(&fd, &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))?;
            Client::over(Stream::Tcp(fd.into()))
        };
        connect().unwrap_or_else(|e| panic!("connecting to port {port}: {e}"))
    }

    fn over(stream: Stream) -> io::Result<Client> {
        match &stream {
            Stream::Tcp(s) => s.set_write_timeout(Some(DEADLINE))?,
            Stream::Unix(s) => s.set_write_timeout(Some(DEADLINE))?,
        }
        Ok(Client { stream, input: Vec::new() })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    /// Our own address, for looking the connection up in logs.
    pub fn local_port(&self) -> u16 {
        match &self.stream {
            Stream::Tcp(stream) => stream.local_addr().map_or(0, |a| a.port()),
            Stream::Unix(_) => 0,
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the server does not take them; [`Client::try_send`] does not.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server takes what is sent");
    }

    /// As `send`; the error is the socket's.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes.as_ref()),
            Stream::Unix(stream) => stream.write_all(bytes.as_ref()),
        }
    }

    /// Nothing more is sent from here; what the server sends is still read.
    pub fn half_close(&mut self) {
        let _ = match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        let _ = sockopt::set_socket_linger(self.fd(), Some(Duration::ZERO));
    }

    /// Sends a request and reads its response.
    ///
    /// # Panics
    /// If there is none, or it is malformed.
    pub fn request(&mut self, bytes: impl AsRef<[u8]>) -> Response {
        let bytes = bytes.as_ref();
        self.send(bytes);
        let method = bytes.split(|&b| b == b' ').next().unwrap_or_default();
        let method = String::from_utf8_lossy(method).into_owned();
        self.try_response(&method)
            .unwrap_or_else(|failure| panic!("{}: {failure}", String::from_utf8_lossy(bytes)))
    }

    /// GET with a `Host` of `localhost`.
    ///
    /// # Panics
    /// As [`Client::request`].
    pub fn get(&mut self, target: &str) -> Response {
        self.request(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// As [`Client::get`], for those who count failures.
    pub fn try_get(&mut self, target: &str) -> Result<Response, Failure> {
        self.try_send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .map_err(|e| failure(&e))?;
        self.try_response("GET")
    }

    /// Reads the response to a GET.
    ///
    /// # Panics
    /// If there is none, or it is malformed.
    pub fn response(&mut self) -> Response {
        self.try_response("GET").unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Reads the response to a request with this method.
    pub fn try_response(&mut self, method: &str) -> Result<Response, Failure> {
        let mut interim = Vec::new();
        let mut interim_heads = Vec::new();
        loop {
            let head = parse_head(&self.take_head()?).map_err(Failure::Fault)?;
            if head.status < 200 && head.status != 101 {
                framing(&head, method).map_err(Failure::Fault)?;
                interim.push(head.status);
                interim_heads.push(head.text);
                continue;
            }
            let (end, length) = framing(&head, method).map_err(Failure::Fault)?;
            let mut trailers = Vec::new();
            let body = match end {
                End::NoBody => Vec::new(),
                End::Length => self.take(length)?,
                End::Chunked => self.chunked(&mut trailers)?,
                End::Close => self.rest().map_err(|e| failure(&e))?,
            };
            let (status, reason, headers) = (head.status, head.reason, head.headers);
            let head = head.text;
            return Ok(Response {
                status,
                reason,
                headers,
                body,
                trailers,
                end,
                interim,
                interim_heads,
                head,
            });
        }
    }

    fn take_head(&mut self) -> Result<Vec<u8>, Failure> {
        let mut from = 0;
        loop {
            if let Some(at) = find(&self.input[from..], b"\r\n\r\n") {
                let end = from + at + 4;
                return Ok(self.input.drain(..end).collect());
            }
            from = self.input.len().saturating_sub(3);
            if self.input.len() > HEAD_BYTES_MAX {
                return Err(Failure::Fault("a head without end".into()));
            }
            self.fill()?;
        }
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        while self.input.len() < count {
            self.fill().map_err(|f| within_body(f, self.input.len(), count))?;
        }
        Ok(self.input.drain(..count).collect())
    }

    fn line(&mut self) -> Result<String, Failure> {
        loop {
            if let Some(at) = find(&self.input, b"\r\n") {
                let line: Vec<u8> = self.input.drain(..at + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            self.fill().map_err(|f| within_body(f, self.input.len(), 0))?;
        }
    }

    fn chunked(&mut self, trailers: &mut Vec<(String, String)>) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16)
                .map_err(|_| Failure::Fault(format!("chunk size {line:?}")))?;
            if size == 0 {
                break;
            }
            body.extend(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(Failure::Fault("a chunk's data does not end with CRLF".into()));
            }
        }
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(body);
            }
            trailers.push(parse_field(&line).ok_or_else(|| Failure::Fault(format!("trailer {line:?}")))?);
        }
    }

    /// Reads more; [`Failure::Closed`] at the end.
    fn fill(&mut self) -> Result<(), Failure> {
        let mut buf = vec![0; 64 << 10];
        match self.read_some(&mut buf, DEADLINE) {
            Ok(0) if self.input.is_empty() => Err(Failure::Closed),
            Ok(0) => {
                let seen = String::from_utf8_lossy(&self.input[..self.input.len().min(200)]).into_owned();
                Err(Failure::Fault(format!("the connection ended within a response: {seen:?}")))
            }
            Ok(count) => {
                self.input.extend_from_slice(&buf[..count]);
                Ok(())
            }
            Err(error) => Err(failure(&error)),
        }
    }

    /// Reads once, waiting at most `time`. 0 is the end.
    pub fn read_some(&mut self, buf: &mut [u8], time: Duration) -> io::Result<usize> {
        let time = Some(time.max(Duration::from_millis(1)));
        loop {
            let result = match &mut self.stream {
                Stream::Tcp(stream) => {
                    stream.set_read_timeout(time)?;
                    stream.read(buf)
                }
                Stream::Unix(stream) => {
                    stream.set_read_timeout(time)?;
                    stream.read(buf)
                }
            };
            // A call with a time-out is not taken up again by the system after a signal (a child's end).
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Takes at least one byte of what has arrived, at most `max`; nothing at the end.
    pub fn some(&mut self, max: usize) -> io::Result<Vec<u8>> {
        if self.input.is_empty() {
            let mut buf = vec![0; max];
            let count = self.read_some(&mut buf, DEADLINE)?;
            buf.truncate(count);
            return Ok(buf);
        }
        let count = self.input.len().min(max);
        Ok(self.input.drain(..count).collect())
    }

    /// Waits until this text has come; gives all that has. It is still to be read.
    ///
    /// # Panics
    /// If the connection ends before.
    pub fn wait_for(&mut self, text: &str) -> String {
        while find(&self.input, text.as_bytes()).is_none() {
            self.fill().unwrap_or_else(|failure| panic!("waiting for {text:?}: {failure}"));
        }
        String::from_utf8_lossy(&self.input).into_owned()
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut out = std::mem::take(&mut self.input);
        let mut buf = vec![0; 64 << 10];
        loop {
            match self.read_some(&mut buf, DEADLINE)? {
                0 => return Ok(out),
                count => out.extend_from_slice(&buf[..count]),
            }
        }
    }

    /// How the connection ends, within `time`.
    pub fn ending(&mut self, time: Duration) -> Ending {
        if !self.input.is_empty() {
            return Ending::Data;
        }
        let mut byte = [0u8; 1];
        match self.read_some(&mut byte, time) {
            Ok(0) => Ending::Closed,
            Ok(_) => {
                self.input.push(byte[0]);
                Ending::Data
            }
            Err(error) if is_timeout(&error) => Ending::Open,
            Err(_) => Ending::Reset,
        }
    }

    /// Asserts that the server closes the connection, without a reset and without another byte.
    ///
    /// # Panics
    /// If it does not.
    pub fn expect_closed(&mut self) {
        let start = Instant::now();
        let ending = self.ending(DEADLINE);
        let seen = String::from_utf8_lossy(&self.input).into_owned();
        assert_eq!(ending, Ending::Closed, "after {:?}; {seen:?}", start.elapsed());
    }
}

fn within_body(failure: Failure, have: usize, want: usize) -> Failure {
    match failure {
        Failure::Closed | Failure::Fault(_) => {
            Failure::Fault(format!("the connection ended within a body, {have} bytes of {want}"))
        }
        other => other,
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        _ if is_timeout(error) => Failure::TimedOut,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Failure::Reset,
        _ => Failure::Fault(error.to_string()),
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
