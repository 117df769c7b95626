//! What processes wait for: looks at the state of each, many times a second. A process that serves one request at a time says by it where the
//! time of requests goes, whatever program it is. Connections say which requests nobody has answered yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::calls::{Call, call};
use super::diag::{Asks, Diag, LISTEN, TcpSocket, Under, UnixSocket};
use super::proc::{read_bytes_of, shares_code};
use super::sockets::{Listener, listeners_of};
use super::tier::Who;
use crate::limits::{PEERS_MAX, POLLED_FILES_MAX, WAITING_TASKS_MAX};
use crate::system::thread_cpu_ns;

/// How often processes are looked at.
const EVERY: Duration = Duration::from_millis(40);
/// Looking takes at most this part of a CPU.
const EFFORT: u32 = 10;
/// How often it is asked which processes there are.
const AGAIN: Duration = Duration::from_millis(500);

/// What a task was found at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// On a CPU, or ready for one.
    Running,
    /// Nothing: it waits for the next request.
    Idle,
    /// A file's data or name, which nobody has in memory.
    File,
    /// A page of its own memory that is not there.
    Memory,
    /// A lock on this file.
    Lock(String),
    /// It pauses by itself.
    Sleep,
    /// The tier of this number.
    Tier(usize),
    /// Somebody else at this address.
    Peer(String),
    /// Who asked: the answer does not leave.
    Client,
    /// Something else.
    Other,
}

/// What was seen of a tier at one look.
#[derive(Debug, Clone, Default)]
struct Seen {
    tasks: u32,
    doing: BTreeMap<Doing, u32>,
    running: Vec<u32>,
    /// Bytes that its processes have read by now, as far as they were looked at.
    read_bytes: u64,
    /// It listens for TCP.
    has_connections: bool,
    /// Connections with a request that nobody has begun to answer, accepted or not, and with an answer on its way.
    requests: u32,
    answers: u32,
    /// Connections on which nothing seems to be under way.
    quiet: u32,
    /// Ends of clients on this machine with an answer that they have not read.
    unread: u32,
    /// A listener's queue has no more room.
    is_full: bool,
    /// Connections of its own that wait for an answer, by address; and those of which it cannot be told.
    asks: BTreeMap<String, u32>,
    may_ask: BTreeMap<String, u32>,
}

/// One look at all tiers.
#[derive(Debug, Clone)]
struct Look {
    at: Instant,
    tiers: Vec<Seen>,
}

/// What was seen of a tier in a stretch of time; counts are means over the looks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    /// Looks.
    pub looks: usize,
    /// Tasks: processes, or threads of them.
    pub tasks: f64,
    /// At what they were, without what nobody was at.
    pub doing: Vec<(Doing, f64)>,
    /// The share of looks at which the busiest task was on a CPU, or ready for one.
    pub busiest: f64,
    /// The share of looks at which no task was idle.
    pub full_share: f64,
    /// Its connections are of TCP, and were looked at.
    pub has_connections: bool,
    /// Requests that nobody had begun to answer.
    pub requests: f64,
    /// Answers on their way.
    pub answers: f64,
    /// Connections on which nothing was seen under way, and whose client has read its answer. Of a client that asks again at once these are
    /// requests: the kernel's clocks do not tell a request from the answer that left in the same moment.
    pub quiet: f64,
    /// The share of looks at which a listener's queue had no more room.
    pub queue_full_share: f64,
    /// Connections to others that waited for an answer, by address.
    pub asks: Vec<(String, f64)>,
    /// Connections to others on which the last request left in the moment in which the last answer came: they wait, or were answered at once.
    pub may_ask: Vec<(String, f64)>,
    /// Bytes that its processes read.
    pub read_bytes: u64,
    /// Whether its processes share memory for compiled code, as PHP's do with OPcache; `None`: nobody looked.
    pub shares_code: Option<bool>,
}

impl Waiting {
    /// Tasks at this, in the mean.
    pub fn at(&self, wanted: &Doing) -> f64 {
        self.sum(|doing| doing == wanted)
    }

    /// Tasks at any of these.
    pub fn sum(&self, is_wanted: impl Fn(&Doing) -> bool) -> f64 {
        self.doing.iter().filter(|(doing, _)| is_wanted(doing)).map(|(_, count)| count).sum()
    }

    /// Tasks that are at work or wait for something that a request needs.
    pub fn busy(&self) -> f64 {
        self.sum(|doing| *doing != Doing::Idle)
    }
}

/// A watch of waits under way. Dropping it ends it.
#[derive(Debug)]
pub struct Waits {
    stop: Arc<AtomicBool>,
    looks: Arc<Mutex<Vec<Look>>>,
    codes: Vec<Option<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Waits {
    /// Begins to look at these tiers. Fails where the kernel tells nothing of sockets.
    pub fn start(tiers: &[Who]) -> io::Result<Self> {
        let mut eyes = Eyes::open(tiers)?;
        let codes = eyes.tiers.iter().map(|tier| shares_code(&tier.pids)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let looks = Arc::new(Mutex::new(Vec::new()));
        let (ends, kept) = (Arc::clone(&stop), Arc::clone(&looks));
        let work = move || {
            while !ends.load(Ordering::Relaxed) {
                // By its own CPU time: on a busy machine a look takes long without costing more.
                let begun = thread_cpu_ns();
                let look = eyes.look();
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(look);
                let spent = Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
                std::thread::park_timeout(EVERY.max(spent * EFFORT));
            }
        };
        let thread = std::thread::Builder::new().name("waits".to_owned()).spawn(work)?;
        Ok(Self { stop, looks, codes, thread: Some(thread) })
    }

    /// Ends it, and says what was seen between two moments, by tier.
    pub fn finish(mut self, from: Instant, to: Instant) -> Vec<Waiting> {
        self.end();
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let looks: Vec<&Look> = looks.iter().filter(|look| look.at >= from && look.at <= to).collect();
        let whole = to.saturating_duration_since(from).as_secs_f64();
        let part = looks.first().zip(looks.last());
        let part = part.map_or(whole, |(first, last)| last.at.duration_since(first.at).as_secs_f64());
        let one = |(index, code): (usize, &Option<bool>)| {
            let seen: Vec<&Seen> = looks.iter().filter_map(|look| look.tiers.get(index)).collect();
            let found = waiting(&seen);
            // What was read between the first look and the last is a part of all.
            let read_bytes = (found.read_bytes as f64 * whole / part.max(1e-3)) as u64;
            Waiting { shares_code: *code, read_bytes, ..found }
        };
        self.codes.iter().enumerate().map(one).collect()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the looks at one tier come to.
fn waiting(looks: &[&Seen]) -> Waiting {
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return Waiting::default() };
    let count = looks.len() as f64;
    let mean =
        |what: &dyn Fn(&Seen) -> u32| looks.iter().map(|seen| f64::from(what(seen))).sum::<f64>() / count;
    let share = |is: &dyn Fn(&Seen) -> bool| looks.iter().filter(|seen| is(seen)).count() as f64 / count;
    let mut doing: BTreeMap<&Doing, u32> = BTreeMap::new();
    let (mut asks, mut may_ask) = (BTreeMap::<&String, u32>::new(), BTreeMap::<&String, u32>::new());
    let mut running: BTreeMap<u32, u32> = BTreeMap::new();
    for seen in looks {
        seen.doing.iter().for_each(|(what, more)| *doing.entry(what).or_default() += more);
        seen.asks.iter().for_each(|(whom, more)| *asks.entry(whom).or_default() += more);
        seen.may_ask.iter().for_each(|(whom, more)| *may_ask.entry(whom).or_default() += more);
        seen.running.iter().for_each(|task| *running.entry(*task).or_default() += 1);
    }
    let means = |sum: u32| f64::from(sum) / count;
    let is_full = |seen: &Seen| seen.tasks > 0 && seen.doing.get(&Doing::Idle).copied().unwrap_or(0) == 0;
    Waiting {
        looks: looks.len(),
        tasks: mean(&|seen| seen.tasks),
        doing: doing.into_iter().map(|(what, sum)| (what.clone(), means(sum))).collect(),
        busiest: means(running.values().copied().max().unwrap_or(0)),
        full_share: share(&is_full),
        has_connections: first.has_connections,
        requests: mean(&|seen| seen.requests),
        answers: mean(&|seen| seen.answers),
        quiet: mean(&|seen| seen.quiet.saturating_sub(seen.unread)),
        queue_full_share: share(&|seen| seen.is_full),
        asks: asks.into_iter().map(|(whom, sum)| (whom.clone(), means(sum))).collect(),
        may_ask: may_ask.into_iter().map(|(whom, sum)| (whom.clone(), means(sum))).collect(),
        read_bytes: last.read_bytes.saturating_sub(first.read_bytes),
        shares_code: None,
    }
}

/// A tier that is looked at.
struct Watched {
    who: Who,
    pids: Vec<u32>,
    listeners: Vec<Listener>,
    /// Bytes that each process had read at the last look, and all that came since.
    read: BTreeMap<u32, u64>,
    read_bytes: u64,
    /// Sockets of its processes, as they were when these were last listed.
    own: BTreeSet<u32>,
    /// Addresses and ports that its processes were seen to be connected to, at most [`PEERS_MAX`].
    peers: BTreeSet<(String, u16)>,
}

impl Watched {
    fn listens_at(&self, port: u16) -> bool {
        self.listeners
            .iter()
            .any(|listener| matches!(listener, Listener::Tcp { port: have, .. } if *have == port))
    }

    fn has_path(&self, name: &str) -> bool {
        self.listeners.iter().any(|listener| matches!(listener, Listener::Unix { path, .. } if path == name))
    }

    /// Adds the addresses and ports that its processes are connected to.
    fn meet(&mut self, tcp: &[TcpSocket]) {
        for socket in tcp.iter().filter(|socket| self.own.contains(&socket.inode)) {
            let is_asked = socket.is_open() && !self.listens_at(socket.port);
            if is_asked && self.peers.len() < PEERS_MAX {
                self.peers.insert((socket.peer.clone(), socket.peer_port));
            }
        }
    }

    /// Whether a connection is of its processes. One that is newer than the list of their sockets, as a proxy's is that makes one for each request,
    /// is known by its peer.
    fn has(&self, socket: &TcpSocket, all: &[Watched]) -> bool {
        let is_anothers = || all.iter().any(|other| other.own.contains(&socket.inode));
        let is_met = || self.peers.contains(&(socket.peer.clone(), socket.peer_port));
        self.own.contains(&socket.inode) || is_met() && !is_anothers()
    }

    fn renew(&mut self) {
        self.pids = self.who.processes();
        if self.listeners.is_empty() {
            self.listeners = listeners_of(&self.pids);
        }
        for &pid in &self.pids {
            let now = read_bytes_of(pid).unwrap_or(0);
            if let Some(before) = self.read.insert(pid, now) {
                self.read_bytes += now.saturating_sub(before);
            }
        }
        self.own = self.pids.iter().take(WAITING_TASKS_MAX).flat_map(|pid| sockets_of(*pid)).collect();
    }
}

fn sockets_of(pid: u32) -> Vec<u32> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| inode_of(fs::read_link(file.path()).ok()?.to_str()?)).collect()
}

/// `socket:[4711]`
fn inode_of(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Who looks.
struct Eyes {
    diag: Diag,
    tiers: Vec<Watched>,
    renewed: Instant,
    tcp: BTreeMap<u32, TcpSocket>,
    unix: BTreeMap<u32, UnixSocket>,
    /// Unix sockets were asked for at this look.
    has_unix: bool,
}

impl Eyes {
    fn open(tiers: &[Who]) -> io::Result<Self> {
        let tier = |who: &Who| {
            let mut tier = Watched {
                who: who.clone(),
                pids: Vec::new(),
                listeners: Vec::new(),
                read: BTreeMap::new(),
                read_bytes: 0,
                own: BTreeSet::new(),
                peers: BTreeSet::new(),
            };
            tier.renew();
            tier
        };
        Ok(Self {
            diag: Diag::open()?,
            tiers: tiers.iter().map(tier).collect(),
            renewed: Instant::now(),
            tcp: BTreeMap::new(),
            unix: BTreeMap::new(),
            has_unix: false,
        })
    }

    fn look(&mut self) -> Look {
        if self.renewed.elapsed() >= AGAIN {
            self.tiers.iter_mut().for_each(Watched::renew);
            self.renewed = Instant::now();
        }
        let tcp = self.diag.tcp().unwrap_or_default();
        self.has_unix = false;
        let at = Instant::now();
        self.tiers.iter_mut().for_each(|tier| tier.meet(&tcp));
        let mut tiers: Vec<Seen> =
            self.tiers.iter().map(|tier| connections(tier, &self.tiers, &tcp)).collect();
        self.know(tcp);
        for (index, seen) in tiers.iter_mut().enumerate() {
            let tasks = self.tiers[index].pids.iter().flat_map(|pid| tasks_of(*pid)).take(WAITING_TASKS_MAX);
            for (pid, tid) in tasks.collect::<Vec<_>>() {
                let Some(doing) = self.doing(index, pid, tid) else { continue };
                seen.tasks += 1;
                if doing == Doing::Running {
                    seen.running.push(tid);
                }
                *seen.doing.entry(doing).or_default() += 1;
            }
        }
        Look { at, tiers }
    }

    fn know(&mut self, tcp: Vec<TcpSocket>) {
        let accepted = tcp.into_iter().filter(|socket| socket.inode != 0);
        self.tcp = accepted.map(|socket| (socket.inode, socket)).collect();
    }

    /// What a task is at; `None`: it is gone, or nobody may look.
    fn doing(&mut self, tier: usize, pid: u32, tid: u32) -> Option<Doing> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
        Some(match call(&text)? {
            Call::Running => Doing::Running,
            Call::Fault => Doing::Memory,
            Call::Idle => Doing::Idle,
            Call::File => Doing::File,
            Call::Sleep => Doing::Sleep,
            Call::Other => Doing::Other,
            Call::Lock(file) => Doing::Lock(link(pid, file).unwrap_or_default()),
            Call::Read(file) => self.on(tier, pid, &[file], false),
            Call::Write(file) => self.on(tier, pid, &[file], true),
            Call::Poll(address, count) => {
                let (files, writes) = polled(pid, address, count).unwrap_or_default();
                self.on(tier, pid, &files, writes)
            }
            Call::Select(address, count) => {
                let files = selected(pid, address, count).unwrap_or_default();
                self.on(tier, pid, &files, false)
            }
        })
    }

    /// Who is meant by a wait for these files of a process: whoever is not the one that asked.
    fn on(&mut self, tier: usize, pid: u32, files: &[u32], writes: bool) -> Doing {
        let mut found = Doing::Idle;
        for &file in files {
            let Some(link) = link(pid, file) else { continue };
            let one = match inode_of(&link) {
                Some(inode) => self.peer_of(tier, inode, writes),
                None if link.starts_with('/') => Doing::File,
                None if link.starts_with("pipe:") => Doing::Other,
                None => Doing::Idle,
            };
            match one {
                Doing::Tier(_) | Doing::Peer(_) | Doing::File => return one,
                Doing::Idle => {}
                _ => found = one,
            }
        }
        found
    }

    fn peer_of(&mut self, tier: usize, inode: u32, writes: bool) -> Doing {
        let client = if writes { Doing::Client } else { Doing::Idle };
        if !self.has_unix && !self.tcp.contains_key(&inode) {
            // It is a unix socket, or one that was made since the look began.
            self.has_unix = true;
            let all = self.diag.unix().unwrap_or_default();
            self.unix = all.into_iter().map(|socket| (socket.inode, socket)).collect();
            if !self.unix.contains_key(&inode) {
                let all = self.diag.tcp().unwrap_or_default();
                self.know(all);
            }
        }
        if let Some(socket) = self.tcp.get(&inode) {
            if self.tiers[tier].listens_at(socket.port) || socket.state == LISTEN {
                return client;
            }
            return self.named(&socket.peer, socket.peer_port);
        }
        let Some(own) = self.unix.get(&inode) else { return Doing::Other };
        match self.unix.get(&own.peer).map_or("", |peer| peer.name.as_str()) {
            // An accepted one, or one of a pair that was inherited.
            "" => client,
            name => match self.tiers.iter().position(|tier| tier.has_path(name)) {
                Some(index) => Doing::Tier(index),
                None => Doing::Peer(name.to_owned()),
            },
        }
    }

    fn named(&self, peer: &str, port: u16) -> Doing {
        let index = self.tiers.iter().position(|tier| is_own(peer) && tier.listens_at(port));
        index.map_or_else(|| Doing::Peer(address(peer, port)), Doing::Tier)
    }
}

/// Whether an address is surely of this machine.
fn is_own(address: &str) -> bool {
    address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn address(peer: &str, port: u16) -> String {
    if peer.contains(':') { format!("[{peer}]:{port}") } else { format!("{peer}:{port}") }
}

/// What the connections of a tier say.
fn connections(tier: &Watched, all: &[Watched], tcp: &[TcpSocket]) -> Seen {
    let mut seen = Seen { read_bytes: tier.read_bytes, ..Seen::default() };
    for socket in tcp {
        let is_here = tier.listens_at(socket.port);
        seen.has_connections |= is_here;
        if is_here && socket.state == LISTEN {
            seen.is_full |= socket.sent > 0 && socket.received >= socket.sent;
        } else if is_here && socket.is_open() {
            match socket.under_way() {
                Under::Request => seen.requests += 1,
                Under::Answer => seen.answers += 1,
                Under::Nothing => seen.quiet += 1,
            }
        } else if is_own(&socket.peer) && tier.listens_at(socket.peer_port) {
            seen.unread += u32::from(socket.received > 0);
        } else if socket.is_open() && tier.has(socket, all) {
            let is_tier = is_own(&socket.peer) && all.iter().any(|other| other.listens_at(socket.peer_port));
            let asks = match socket.asks() {
                Asks::Surely => &mut seen.asks,
                Asks::Perhaps => &mut seen.may_ask,
                Asks::Nothing => continue,
            };
            if !is_tier {
                *asks.entry(address(&socket.peer, socket.peer_port)).or_default() += 1;
            }
        }
    }
    seen
}

fn tasks_of(pid: u32) -> impl Iterator<Item = (u32, u32)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(move |task| Some((pid, task.file_name().to_str()?.parse().ok()?)))
}

fn link(pid: u32, file: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/fd/{file}")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// The files that a process polls, from its memory, and whether it waits to write to all of them.
fn polled(pid: u32, address: u64, count: u64) -> Option<(Vec<u32>, bool)> {
    // A file, the events that are waited for (POLLIN is 1), and those that have come.
    const BYTES: usize = 8;
    let count = usize::try_from(count).ok()?.min(POLLED_FILES_MAX);
    let mut bytes = vec![0; count * BYTES];
    fs::File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    let (mut files, mut writes) = (Vec::new(), count > 0);
    for one in bytes.chunks_exact(BYTES) {
        let file = i32::from_ne_bytes(one.get(..4)?.try_into().ok()?);
        let events = u16::from_ne_bytes(one.get(4..6)?.try_into().ok()?);
        writes &= events & 1 == 0;
        files.extend(u32::try_from(file));
    }
    Some((files, writes))
}

/// The files that a process waits to read from by `select`.
fn selected(pid: u32, address: u64, count: u64) -> Option<Vec<u32>> {
    let count = usize::try_from(count).ok()?.min(1024);
    let mut bytes = vec![0; count.div_ceil(8)];
    fs::File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, address).ok()?;
    let is_set = |file: &u32| bytes.get(*file as usize / 8).is_some_and(|byte| byte >> (file % 8) & 1 == 1);
    Some((0..count as u32).filter(is_set).take(POLLED_FILES_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    fn seen(doing: &[(Doing, u32)], running: &[u32]) -> Seen {
        let tasks = doing.iter().map(|(_, count)| count).sum();
        Seen { tasks, doing: doing.iter().cloned().collect(), running: running.to_vec(), ..Seen::default() }
    }

    #[test]
    fn looks_come_to_means() {
        let one = seen(&[(Doing::Running, 2), (Doing::Idle, 1)], &[7, 8]);
        let two = Seen {
            requests: 4,
            quiet: 5,
            unread: 1,
            read_bytes: 100,
            is_full: true,
            ..seen(&[(Doing::Running, 1), (Doing::Sleep, 2)], &[7])
        };
        let found = waiting(&[&one, &two]);
        assert_eq!((found.looks, found.tasks, found.busy()), (2, 3.0, 2.5));
        assert_eq!((found.at(&Doing::Running), found.at(&Doing::Sleep), found.busiest), (1.5, 1.0, 1.0));
        assert_eq!((found.full_share, found.requests, found.queue_full_share), (0.5, 2.0, 0.5));
        assert_eq!((found.quiet, found.read_bytes), (2.0, 100));
        assert_eq!(waiting(&[]), Waiting::default());
    }

    /// A thread of this process that waits for an answer of somebody who has accepted it.
    #[test]
    fn a_wait_for_another_program_has_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        let mut eyes = Eyes::open(&[Who::Tree(std::process::id())]).unwrap();
        // Other tests of this process listen, too; to this one the port is a stranger's.
        eyes.tiers[0].listeners.clear();
        eyes.tcp = eyes.diag.tcp().unwrap().into_iter().map(|socket| (socket.inode, socket)).collect();
        let pid = std::process::id();
        let file = u32::try_from(client.as_raw_fd()).unwrap();
        assert_eq!(eyes.on(0, pid, &[file], false), Doing::Peer(format!("127.0.0.1:{port}")));
        eyes.tiers[0].listeners.push(Listener::Tcp { inode: 0, port });
        assert_eq!(eyes.on(0, pid, &[file], false), Doing::Tier(0));
        let accepted = u32::try_from(server.as_raw_fd()).unwrap();
        assert_eq!(eyes.on(0, pid, &[accepted], false), Doing::Idle);
        assert_eq!(eyes.on(0, pid, &[accepted], true), Doing::Client);
        drop(server);
        assert_eq!(io::Read::read(&mut client, &mut [0]).unwrap(), 0);
    }

    /// A proxy makes a connection for each request: most are newer than the list of its sockets.
    #[test]
    fn a_connection_that_is_newer_than_the_list_is_known_by_its_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ask = || {
            let mut client = TcpStream::connect(address).unwrap();
            io::Write::write_all(&mut client, b"?").unwrap();
            let mut server = listener.accept().unwrap().0;
            io::Read::read_exact(&mut server, &mut [0]).unwrap();
            (client, server)
        };
        let _known = ask();
        let mut eyes = Eyes::open(&[Who::Tree(std::process::id())]).unwrap();
        eyes.tiers[0].listeners.clear();
        let mut asks = || eyes.look().tiers[0].asks.get(&address.to_string()).copied();
        assert_eq!(asks(), Some(1));
        let _newer = (ask(), ask());
        assert_eq!(asks(), Some(3));
    }

    #[test]
    fn polled_files_are_read_from_memory() {
        // As the kernel has them: two files to read, one of them no longer wanted.
        let mut memory = Vec::new();
        for (file, events) in [(5i32, 1u16), (-1, 1)] {
            memory.extend(file.to_ne_bytes());
            memory.extend(events.to_ne_bytes());
            memory.extend([0; 2]);
        }
        let found = polled(std::process::id(), memory.as_ptr() as u64, 2);
        assert_eq!(found, Some((vec![5], false)));
        let set = [0b10_0001u8, 0];
        assert_eq!(selected(std::process::id(), set.as_ptr() as u64, 9), Some(vec![0, 5]));
        assert_eq!(polled(std::process::id(), 1, 2), None);
    }
}
