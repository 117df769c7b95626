//! Back ends that do what a test tells them: each connection runs a script, on a thread of its own.

use crate::ports::{self, Port};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a script waits for the server.
const PATIENCE: Duration = Duration::from_mins(1);

/// One connection of a server to a back end.
pub struct Peer {
    reader: BufReader<TcpStream>,
    /// Counted from 1.
    pub number: usize,
}

impl Peer {
    /// The next request's head with its blank line; `None` when the connection is closed.
    pub fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        loop {
            let before = head.len();
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
            if head[before..] == *"\r\n" {
                return Some(head);
            }
        }
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the server sends a line");
        line
    }

    /// Exactly so many bytes.
    pub fn body(&mut self, len: usize) -> Vec<u8> {
        let mut body = vec![0; len];
        self.reader.read_exact(&mut body).expect("the server sends what it has announced");
        body
    }

    /// What comes next; empty at the end.
    pub fn some(&mut self) -> Vec<u8> {
        let bytes = self.reader.fill_buf().unwrap_or_default().to_vec();
        self.reader.consume(bytes.len());
        bytes
    }

    /// Reads to the end and counts.
    pub fn drain(&mut self) -> u64 {
        let mut sink = vec![0; 64 << 10];
        let mut count = 0;
        loop {
            match self.reader.read(&mut sink) {
                Ok(0) | Err(_) => return count,
                Ok(some) => count += some as u64,
            }
        }
    }

    /// Writes; false if the server has gone.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.reader.get_mut().write_all(bytes.as_ref()).is_ok()
    }

    /// A whole answer.
    pub fn answer(&mut self, body: impl AsRef<[u8]>) -> bool {
        let body = body.as_ref();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        self.send([head.as_bytes(), body].concat())
    }

    /// Takes the upgrade that `head` asks for; gives whether that went out.
    pub fn switch(&mut self, head: &str, protocol: &str) -> bool {
        self.switch_with(head, &format!("Connection: upgrade\r\nUpgrade: {protocol}"))
    }

    /// A 101 with these lines, and the answer to the key of a WebSocket.
    pub fn switch_with(&mut self, head: &str, lines: &str) -> bool {
        let key = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("Sec-WebSocket-Key").then_some(value.trim())
        });
        let accept = key.map_or(String::new(), |key| {
            format!("Sec-WebSocket-Accept: {}\r\n", brisk_http::websocket::accept(key.as_bytes()))
        });
        self.send(format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n{accept}\r\n"))
    }

    /// Says that nothing more comes.
    pub fn half_close(&mut self) {
        let _ = self.reader.get_ref().shutdown(std::net::Shutdown::Write);
    }

    /// Whether the server closes within a time; what it sends is dropped.
    pub fn is_closed_within(&mut self, time: Duration) -> bool {
        let _ = self.reader.get_ref().set_read_timeout(Some(time));
        let mut sink = [0; 4096];
        let closed = loop {
            match self.reader.read(&mut sink) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break error.kind() == io::ErrorKind::ConnectionReset,
            }
        };
        let _ = self.reader.get_ref().set_read_timeout(Some(PATIENCE));
        closed
    }

    /// Ends the connection with a reset.
    pub fn reset(self) {
        let stream = self.reader.into_inner();
        let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    }
}

/// A back end on a port of its own.
pub struct Backend {
    port: Port,
    connections: Arc<AtomicUsize>,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Backend {
    /// Runs `script` for each connection. When it returns the connection is closed.
    pub fn start(script: impl Fn(Peer) + Send + Sync + 'static) -> Backend {
        let port = ports::claim();
        let listener = TcpListener::bind(("127.0.0.1", port.number)).expect("the port is ours");
        let connections = Arc::<AtomicUsize>::default();
        let addresses = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let (count, from, script) = (connections.clone(), addresses.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                from.lock().expect("no script panics with it").extend(stream.peer_addr());
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let _ = stream.set_nodelay(true);
                let script = script.clone();
                let peer = Peer { reader: BufReader::new(stream), number };
                std::thread::spawn(move || script(peer));
            }
        });
        Backend { port, connections, addresses }
    }

    /// Answers every request with this body; connections are kept.
    pub fn answering(body: &'static str) -> Backend {
        Backend::start(move |mut peer| while peer.head().is_some() && peer.answer(body) {})
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Where connections came from.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.lock().expect("no script panics with it").clone()
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
