//! An endpoint and the library's client, connected by a wire that a test holds in its hands. Time is the test's.
#![allow(dead_code)] // each test file uses a part

use brisk_quic::{Choice, Choose, Datagram, Endpoint, Event, Key, Keys, Origin, Place, Settings};
use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{
    Certified, Fixed, Hello, NoHello, PrivateKey, Resumption, ServerContext, ServerOptions, SessionCache,
    Transport,
};
use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, EndpointConfig};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const SOCKET: u32 = 3;

pub fn server_address() -> SocketAddr {
    "127.0.0.1:443".parse().unwrap()
}

pub fn client_address() -> SocketAddr {
    "127.0.0.2:5555".parse().unwrap()
}

/// A context for a name, and its certificate.
pub fn context(name: &str, early_data: bool) -> (ServerContext, Vec<u8>) {
    let wish = Wish {
        common_name: name,
        names: &[name],
        not_before: 0,
        not_after: 4_000_000_000,
        ..Wish::default()
    };
    let issued = Issued::new(&wish, None).unwrap();
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
    let certified = Certified::new(vec![issued.certificate.clone()], &key, None).unwrap();
    let cache = Some(Arc::new(SessionCache::new(1 << 20, 1000)));
    let options = ServerOptions {
        alpn: vec![b"h3".to_vec(), b"hq-interop".to_vec()],
        transport: Transport::Quic,
        early_data,
        resumption: Resumption { tickets: None, cache, timeout: 300 },
        ..ServerOptions::default()
    };
    let context = ServerContext::new(&options, Arc::new(Fixed(Arc::new([certified])))).unwrap();
    (context, issued.certificate)
}

/// What a test's chooser does with names.
pub enum Rule {
    Begin(ServerContext),
    Wait,
    Refuse,
}

pub struct Hosts {
    pub rules: Mutex<Vec<(&'static str, Rule)>>,
    pub asked: Mutex<Vec<(Origin, Hello)>>,
}

impl Choose for Hosts {
    fn choose(&self, origin: &Origin, hello: Hello) -> Choice {
        let name = hello.server_name.clone().unwrap_or_default();
        self.asked.lock().unwrap().push((*origin, hello));
        let rules = self.rules.lock().unwrap();
        match rules.iter().find(|(host, _)| **host == *name) {
            Some((host, Rule::Begin(context))) => Choice::Begin(context.clone(), Box::new(*host)),
            Some((_, Rule::Wait)) => Choice::Wait(Box::new("a file")),
            Some((_, Rule::Refuse)) | None => {
                Choice::Refuse(NoHello { alert: 112, reason: "unrecognized name" })
            }
        }
    }
}

pub struct Pair {
    pub now: Instant,
    pub server: Endpoint,
    pub hosts: Arc<Hosts>,
    pub client_endpoint: quinn_proto::Endpoint,
    pub client: Option<(ConnectionHandle, Connection)>,
    pub client_config: Arc<QuicClientConfig>,
    /// Where the client's packets seem to come from.
    pub from: SocketAddr,
    pub events: Vec<(Key, Event)>,
    pub client_events: Vec<quinn_proto::Event>,
    /// Datagrams of each side that the wire has carried.
    pub to_server: Vec<Vec<u8>>,
    pub to_client: Vec<(SocketAddr, Vec<u8>)>,
}

pub fn keys() -> Keys {
    Keys::new(b"a secret of the master")
}

pub fn pair(settings: Settings, rules: Vec<(&'static str, Rule)>, roots: &[Vec<u8>]) -> Pair {
    let hosts = Arc::new(Hosts { rules: Mutex::new(rules), asked: Mutex::default() });
    let place = Place { thread: 1, threads: 3, generation: 1 };
    let mut server = Endpoint::new(place, keys(), hosts.clone());
    server.listen(SOCKET, settings);
    let mut store = rustls::RootCertStore::empty();
    for root in roots {
        store.add(root.clone().into()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    config.enable_early_data = true;
    Pair {
        now: Instant::now(),
        server,
        hosts,
        client_endpoint: quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
        client: None,
        client_config: Arc::new(QuicClientConfig::try_from(config).unwrap()),
        from: client_address(),
        events: Vec::new(),
        client_events: Vec::new(),
        to_server: Vec::new(),
        to_client: Vec::new(),
    }
}

/// One host, whose handshakes begin at once.
pub fn simple() -> Pair {
    let (context, certificate) = context("a.test", true);
    pair(Settings::default(), vec![("a.test", Rule::Begin(context))], &[certificate])
}

impl Pair {
    pub fn connect(&mut self, name: &str) {
        let config = ClientConfig::new(self.client_config.clone());
        self.client = Some(self.client_endpoint.connect(self.now, config, server_address(), name).unwrap());
    }

    pub fn client(&mut self) -> &mut Connection {
        &mut self.client.as_mut().unwrap().1
    }

    /// What the client has to send now.
    pub fn take_from_client(&mut self) -> Vec<Vec<u8>> {
        let (mut out, now) = (Vec::new(), self.now);
        let mut bytes = Vec::new();
        while let Some(transmit) = self.client().poll_transmit(now, 1, &mut bytes) {
            out.push(bytes[..transmit.size].to_vec());
            bytes.clear();
        }
        out
    }

    pub fn give_to_server(&mut self, bytes: &[u8]) {
        self.to_server.push(bytes.to_vec());
        let datagram =
            Datagram { socket: SOCKET, remote: self.from, local: Some(server_address()), ecn: None, bytes };
        self.server.receive(self.now, datagram);
        while self.server.begin(self.now) {}
        self.collect();
    }

    pub fn collect(&mut self) {
        while let Some(event) = self.server.poll_event() {
            self.events.push(event);
        }
    }

    /// What the server has to send now, one datagram each, with where it goes.
    pub fn take_from_server(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut out = Vec::new();
        while let Some(transmit) = self.server.poll_transmit(self.now) {
            let size = transmit.segment.unwrap_or(transmit.bytes.len());
            out.extend(transmit.bytes.chunks(size).map(|part| (transmit.to, part.to_vec())));
            self.server.recycle(transmit.bytes);
        }
        self.collect();
        out
    }

    pub fn give_to_client(&mut self, bytes: &[u8]) {
        let (now, mut out) = (self.now, Vec::new());
        let event =
            self.client_endpoint.handle(now, server_address(), None, None, BytesMut::from(bytes), &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.client().handle_event(event);
        }
        let (handle, client) = self.client.as_mut().unwrap();
        while let Some(event) = client.poll_endpoint_events() {
            if let Some(event) = self.client_endpoint.handle_event(*handle, event) {
                client.handle_event(event);
            }
        }
        while let Some(event) = client.poll() {
            self.client_events.push(event);
        }
    }

    /// Carries datagrams both ways until there is none.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            let to_server = self.take_from_client();
            let is_quiet = to_server.is_empty();
            to_server.iter().for_each(|bytes| self.give_to_server(bytes));
            let to_client = self.take_from_server();
            for (to, bytes) in &to_client {
                self.to_client.push((*to, bytes.clone()));
                if *to == self.from {
                    self.give_to_client(bytes);
                }
            }
            if is_quiet && to_client.is_empty() {
                return;
            }
        }
        panic!("the two never fall silent");
    }

    /// Lets time pass, with all timers of both sides.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let client = self.client.as_mut().and_then(|(_, client)| client.poll_timeout());
            let next = [client, self.server.next_timeout()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            let now = self.now;
            if let Some((_, client)) = &mut self.client {
                client.handle_timeout(now);
                while let Some(event) = client.poll() {
                    self.client_events.push(event);
                }
            }
            self.server.handle_timeouts(now);
            self.collect();
            self.settle();
        }
        self.now = end;
    }

    /// The only connection's key.
    pub fn key(&self) -> Key {
        self.events.first().expect("something has happened").0
    }

    pub fn has(&self, event: &Event) -> bool {
        self.events.iter().any(|(_, have)| have == event)
    }
}
