//! A network in a thread: datagrams between clients and a server are lost, delayed, put in another order, changed or slowed
//! down, by a seed. What it passes on bears no congestion mark, as behind routers that clear them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What happens to datagrams of either direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Of a thousand datagrams so many are lost.
    pub lost: u32,
    /// Of a thousand so many have a byte changed.
    pub changed: u32,
    /// Of a thousand so many come later than others, by the delay once more.
    pub late: u32,
    /// How long each is on its way.
    pub delay: Duration,
    /// Bytes per second, with bursts of so many bytes; what is beyond is dropped, as by a policer.
    pub rate: Option<(u64, u64)>,
    /// The server sees another port of each client after this time.
    pub rebind: Option<Duration>,
    /// Of a thousand datagrams to the server so many come from [`STRANGER`] first, and then from the client.
    pub copied: u32,
    /// Nothing passes.
    pub is_cut: bool,
}

/// Where copies of datagrams come from. Nobody is there: what is sent to it is lost.
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// See the module's head.
pub struct Relay {
    /// Where clients send to.
    pub address: SocketAddr,
    weather: Arc<Mutex<Weather>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Between clients and the server at `to`.
    pub fn new(to: SocketAddr, seed: u64, weather: Weather) -> Relay {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let address = front.local_addr().expect("it is bound");
        let (weather, stop) = (Arc::new(Mutex::new(weather)), Arc::new(AtomicBool::new(false)));
        let mut network = Network {
            front,
            stranger: UdpSocket::bind((STRANGER, 0)).expect("a port is free"),
            to,
            random: seed | 1,
            weather: weather.clone(),
            links: HashMap::new(),
            queue: BinaryHeap::new(),
            serial: 0,
        };
        let ends = stop.clone();
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                network.turn();
            }
        });
        Relay { address, weather, stop, thread: Some(thread) }
    }

    /// Another weather from now on.
    pub fn set(&self, weather: Weather) {
        *self.weather.lock().unwrap_or_else(PoisonError::into_inner) = weather;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One client's way.
struct Link {
    back: UdpSocket,
    bound: Instant,
    /// Bytes that may pass at once, per direction, as of `filled`.
    tokens: [f64; 2],
    filled: Instant,
}

/// A datagram: when it arrives, its number, the client that it is of, where it goes, its bytes.
type Underway = (Instant, u64, SocketAddr, Way, Vec<u8>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// To the server, as a copy that comes from [`STRANGER`].
    Copied,
    ToServer,
    ToClient,
}

struct Network {
    front: UdpSocket,
    stranger: UdpSocket,
    to: SocketAddr,
    random: u64,
    weather: Arc<Mutex<Weather>>,
    links: HashMap<SocketAddr, Link>,
    queue: BinaryHeap<Reverse<Underway>>,
    serial: u64,
}

impl Network {
    fn chance(&mut self, of_thousand: u32) -> bool {
        // xorshift: the same seed gives the same weather.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % 1000 < u64::from(of_thousand)
    }

    fn turn(&mut self) {
        let weather = *self.weather.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = vec![0; 65_536];
        self.front.set_read_timeout(Some(Duration::from_micros(300))).expect("a time-out can be set");
        while let Ok((count, from)) = self.front.recv_from(&mut room) {
            self.take(&weather, from, true, &room[..count]);
            self.front.set_read_timeout(Some(Duration::from_micros(1))).expect("a time-out can be set");
        }
        let clients: Vec<SocketAddr> = self.links.keys().copied().collect();
        for client in clients {
            while let Some(count) = self.links.get(&client).and_then(|link| link.back.recv(&mut room).ok()) {
                self.take(&weather, client, false, &room[..count]);
            }
        }
        self.deliver();
    }

    fn link(&mut self, weather: &Weather, client: SocketAddr) -> &mut Link {
        let now = Instant::now();
        let old = |link: &Link| weather.rebind.is_some_and(|after| now.duration_since(link.bound) >= after);
        if self.links.get(&client).is_none_or(old) {
            let back = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
            back.set_nonblocking(true).expect("a socket need not block");
            let burst = weather.rate.map_or(0.0, |(_, burst)| burst as f64);
            let link = Link { back, bound: now, tokens: [burst; 2], filled: now };
            self.links.insert(client, link);
        }
        self.links.get_mut(&client).expect("just made")
    }

    fn take(&mut self, weather: &Weather, client: SocketAddr, is_up: bool, bytes: &[u8]) {
        let link = self.link(weather, client);
        if let Some((rate, burst)) = weather.rate {
            let now = Instant::now();
            let more = now.duration_since(link.filled).as_secs_f64() * rate as f64;
            link.filled = now;
            for tokens in &mut link.tokens {
                *tokens = (*tokens + more).min(burst as f64);
            }
            let tokens = &mut link.tokens[usize::from(is_up)];
            if *tokens < bytes.len() as f64 {
                return;
            }
            *tokens -= bytes.len() as f64;
        }
        if weather.is_cut || self.chance(weather.lost) {
            return;
        }
        let mut bytes = bytes.to_vec();
        if self.chance(weather.changed) && !bytes.is_empty() {
            let at = self.random as usize % bytes.len();
            bytes[at] ^= 0x55;
        }
        let delays = if self.chance(weather.late) { 2 } else { 1 };
        let at = Instant::now() + weather.delay * delays;
        if is_up && weather.copied > 0 && self.chance(weather.copied) {
            self.put(at, client, Way::Copied, bytes.clone());
        }
        self.put(at, client, if is_up { Way::ToServer } else { Way::ToClient }, bytes);
    }

    fn put(&mut self, at: Instant, client: SocketAddr, way: Way, bytes: Vec<u8>) {
        self.serial += 1;
        self.queue.push(Reverse((at, self.serial, client, way, bytes)));
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, client, way, bytes))) = self.queue.pop() else { return };
            // A full or closed socket loses it, as a network does.
            let _ = match way {
                Way::Copied => self.stranger.send_to(&bytes, self.to),
                Way::ToServer => match self.links.get(&client) {
                    Some(link) => link.back.send_to(&bytes, self.to),
                    None => Ok(0),
                },
                Way::ToClient => self.front.send_to(&bytes, client),
            };
        }
    }
}
