//! A client of QUIC (RFC 9000) whose steps a test decides: the library's, over a socket of this machine.

use crate::wait::DEADLINE;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EndpointConfig, Event, TokenMemoryCache,
    TransportConfig,
};
pub use quinn_proto::{Dir, ReadError, Side, StreamId, VarInt};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What several visits of one client have in common: sessions and tokens.
#[derive(Clone)]
pub struct Visitor {
    tls: Arc<QuicClientConfig>,
    tokens: Arc<TokenMemoryCache>,
    transport: Arc<TransportConfig>,
}

impl Visitor {
    /// Trusts this certificate (DER) and offers these protocols.
    pub fn new(root: &[u8], alpn: &[&str]) -> Visitor {
        Visitor::with_certificate(root, alpn, None)
    }

    /// The same, with a certificate (PEM) of its own and its key, if the server asks for one.
    pub fn with_certificate(root: &[u8], alpn: &[&str], own: Option<(&str, &str)>) -> Visitor {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root.to_vec().into()).expect("the certificate is one");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the library has TLS 1.3")
            .with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes());
                let chain = chain.map(|one| one.expect("a certificate")).collect();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                config.with_client_auth_cert(chain, key).expect("the key is the certificate's")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config.enable_early_data = true;
        Visitor {
            tls: Arc::new(QuicClientConfig::try_from(config).expect("the library has the suite of QUIC")),
            tokens: Arc::default(),
            transport: transport(),
        }
    }

    /// The same client, which says nothing while it waits for an answer.
    #[must_use]
    pub fn silent(&self) -> Visitor {
        Visitor { transport: Arc::default(), ..self.clone() }
    }

    /// Begins a connection; nothing has been sent yet.
    pub fn begin(&self, to: SocketAddr, name: &str) -> QuicClient {
        let mut config = ClientConfig::new(self.tls.clone());
        config.token_store(self.tokens.clone()).transport_config(self.transport.clone());
        let mut endpoint = quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, conn) = endpoint.connect(Instant::now(), config, to, name).expect("the name is one");
        let socket = socket();
        QuicClient { socket, endpoint, handle, conn, events: Vec::new(), to, sent: 0, received: 0 }
    }

    /// A connection whose handshake is complete.
    pub fn connect(&self, to: SocketAddr, name: &str) -> QuicClient {
        let mut client = self.begin(to, name);
        client.wait("a handshake", |client| client.events.iter().any(|e| matches!(e, Event::Connected)));
        client
    }
}

/// A client that waits for an answer says now and then that it is there, as browsers do: otherwise nothing would tell the server of a
/// NAT that has given it another port.
fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.keep_alive_interval(Some(Duration::from_millis(500)));
    Arc::new(config)
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.set_nonblocking(false).expect("a socket can block");
    socket
}

/// One connection.
pub struct QuicClient {
    socket: UdpSocket,
    endpoint: quinn_proto::Endpoint,
    handle: ConnectionHandle,
    /// The connection itself.
    pub conn: Connection,
    /// What the library has told so far.
    pub events: Vec<Event>,
    to: SocketAddr,
    /// Bytes of UDP that were sent.
    pub sent: usize,
    /// Bytes of UDP that came.
    pub received: usize,
}

impl QuicClient {
    /// Where its packets come from now.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }

    /// From now on it has another port, as after a change of a NAT's table.
    pub fn rebind(&mut self) {
        self.socket = socket();
    }

    /// From now on it is at this address of the machine.
    pub fn move_to(&mut self, ip: IpAddr) {
        self.socket = UdpSocket::bind((ip, 0)).expect("a port is free");
    }

    /// Ends the connection, and tells the server.
    pub fn close(&mut self) {
        self.conn.close(Instant::now(), VarInt::from_u32(0x100), bytes::Bytes::new());
        self.flush();
    }

    /// Sends what is to be sent, and takes what comes within `wait`.
    pub fn turn(&mut self, wait: Duration) {
        self.flush();
        let timer = self.conn.poll_timeout().map_or(wait, |at| at.saturating_duration_since(Instant::now()));
        self.hear(wait.min(timer).max(Duration::from_micros(200)));
        if self.conn.poll_timeout().is_some_and(|at| at <= Instant::now()) {
            self.conn.handle_timeout(Instant::now());
        }
        while let Some(event) = self.conn.poll() {
            self.events.push(event);
        }
        self.flush();
    }

    /// Takes what comes within `wait`, and sends nothing: what was lost stays so.
    pub fn hear(&mut self, wait: Duration) {
        self.socket.set_read_timeout(Some(wait)).expect("a time-out can be set");
        let mut room = [0; 2048];
        match self.socket.recv(&mut room) {
            Ok(count) => {
                self.received += count;
                self.take(&room[..count]);
            }
            Err(error) => assert!(
                matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ),
                "{error}"
            ),
        }
    }

    /// Sends what is to be sent.
    pub fn flush(&mut self) {
        let mut bytes = Vec::new();
        while let Some(transmit) = self.conn.poll_transmit(Instant::now(), 1, &mut bytes) {
            self.sent += transmit.size;
            // Refused: the other side is being replaced.
            let _ = self.socket.send_to(&bytes[..transmit.size], self.to);
            bytes.clear();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut out = Vec::new();
        let now = Instant::now();
        let event = self.endpoint.handle(now, self.to, None, None, BytesMut::from(bytes), &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.conn.handle_event(event);
        }
        while let Some(event) = self.conn.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.conn.handle_event(event);
            }
        }
    }

    /// Goes on until `is_there`.
    pub fn wait(&mut self, what: &str, mut is_there: impl FnMut(&mut QuicClient) -> bool) {
        let begun = Instant::now();
        while !is_there(self) {
            assert!(begun.elapsed() < DEADLINE, "no {what}: {:?}", self.events);
            self.turn(Duration::from_millis(50));
        }
    }

    /// Opens a stream, sends these bytes on it and ends it.
    pub fn send(&mut self, bytes: &[u8]) -> StreamId {
        let id = self.conn.streams().open(Dir::Bi).expect("a stream may be opened");
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.conn.send_stream(id).write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(_) => self.turn(Duration::from_millis(5)),
            }
        }
        self.conn.send_stream(id).finish().expect("the stream is open");
        id
    }

    /// Has a stream send these bytes; while windows are full what comes is taken.
    pub fn write(&mut self, id: StreamId, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.conn.send_stream(id).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(quinn_proto::WriteError::Blocked) => self.turn(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// All that comes on a stream.
    pub fn receive(&mut self, id: StreamId) -> Vec<u8> {
        let mut out = Vec::new();
        self.wait("end of the stream", |client| {
            let mut stream = client.conn.recv_stream(id);
            let mut chunks = stream.read(true).expect("the stream is open");
            let is_whole = loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => out.extend_from_slice(&chunk.bytes),
                    Ok(None) => break true,
                    Err(quinn_proto::ReadError::Blocked) => break false,
                    Err(error) => panic!("{error}"),
                }
            };
            let _ = chunks.finalize();
            is_whole
        });
        out
    }

    /// The code with which the other end's application has ended the connection.
    pub fn end_code(&self) -> Option<u64> {
        self.events.iter().find_map(|event| match event {
            Event::ConnectionLost { reason: quinn_proto::ConnectionError::ApplicationClosed(close) } => {
                Some(close.error_code.into_inner())
            }
            _ => None,
        })
    }

    /// Why the connection is over, if it is.
    pub fn end(&self) -> Option<String> {
        self.events.iter().find_map(|event| match event {
            Event::ConnectionLost { reason } => Some(reason.to_string()),
            _ => None,
        })
    }
}
