//! A network in a thread: datagrams between clients and a server are lost, delayed, put in another order, changed or slowed
//! down, by a seed. What it passes on bears no congestion mark, as behind routers that clear them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{SocketAddr, UdpSocket};
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
    /// Nothing passes.
    pub is_cut: bool,
}

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

/// A datagram: when it arrives, its number, the client that it is of, whether it goes to the server, its bytes.
type Underway = (Instant, u64, SocketAddr, bool, Vec<u8>);

struct Network {
    front: UdpSocket,
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
        self.serial += 1;
        let at = Instant::now() + weather.delay * delays;
        self.queue.push(Reverse((at, self.serial, client, is_up, bytes)));
    }

    fn deliver(&mut self) {
        let now = Instant::now();
        while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, client, is_up, bytes))) = self.queue.pop() else { return };
            // A full or closed socket loses it, as a network does.
            if is_up {
                if let Some(link) = self.links.get(&client) {
                    let _ = link.back.send_to(&bytes, self.to);
                }
            } else {
                let _ = self.front.send_to(&bytes, client);
            }
        }
    }
}
