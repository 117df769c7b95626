//! Everything at once, for a while: good clients over every protocol, hostile ones beside them, reloads, killed workers, a
//! full disk, no descriptors left.
//!
//! Good answers must be right, byte for byte, at all times; none may fail while nothing but attacks and reloads goes on. When
//! the attacks pause, memory and descriptors must be where they were before. `make test` runs it for a few seconds,
//! `make soak` for half an hour (`MINUTES`), with a seed that it prints.

#[path = "soak/good.rs"]
mod good;
#[path = "soak/hostile.rs"]
mod hostile;

use brisk_testkit::application::Speaks;
use brisk_testkit::{Application, Backend, Builder, Server, process, wait};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the short run in `make test` takes.
const SECONDS_DEFAULT: u64 = 24;
/// A thread's pause after a request, so that the test machine keeps up: good clients and attacks together.
const PAUSE: Duration = Duration::from_millis(2);
/// What memory may grow by between two calm moments of the same worker, beyond a fifth.
const GROWTH_BYTES_MAX: u64 = 24 << 20;
/// What descriptors may grow by.
const GROWTH_DESCRIPTORS_MAX: usize = 24;

/// What goes on beside the good clients.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Attacks and reloads: no good request may fail.
    Hostile,
    /// No requests: memory and descriptors are measured.
    Calm,
    /// A worker dies, the disk is full, descriptors run out: requests may fail, but no answer may be wrong.
    Broken,
}

/// What the threads share.
pub struct Soak {
    weather: AtomicU8,
    /// Counts changes of the weather, so that a request that saw two of them is judged by the worse.
    changes: AtomicU64,
    over: AtomicBool,
    counts: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    failures: Mutex<Vec<String>>,
    begin: Instant,
    disk: Disk,
    pub port: u16,
    pub tls_port: u16,
}

impl Soak {
    fn new(disk: Disk, port: u16, tls_port: u16) -> Soak {
        Soak {
            weather: AtomicU8::new(Weather::Hostile as u8),
            changes: AtomicU64::new(0),
            over: AtomicBool::new(false),
            counts: Mutex::default(),
            failures: Mutex::default(),
            begin: Instant::now(),
            disk,
            port,
            tls_port,
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub fn weather(&self) -> Weather {
        match self.weather.load(Ordering::SeqCst) {
            0 => Weather::Hostile,
            1 => Weather::Calm,
            _ => Weather::Broken,
        }
    }

    fn set(&self, weather: Weather) {
        self.weather.store(weather as u8, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a request that was answered, or not; `Err` with `wrong:` in front is never excused.
    fn judge(&self, kind: &'static str, began: (Weather, u64), result: Result<(), String>) {
        let excused = began.0 == Weather::Broken || self.changes.load(Ordering::SeqCst) != began.1;
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(kind).or_default();
        count.0 += 1;
        let Err(why) = result else { return };
        count.1 += 1;
        drop(counts);
        if why.starts_with("wrong:") || !excused {
            let mut failures = self.failures.lock().unwrap();
            if failures.len() < 20 {
                let (at, free) = (self.begin.elapsed().as_secs(), self.disk.free_bytes() >> 10);
                failures.push(format!("{at} s, {:?}, {free} KiB free on the disk: {kind}: {why}", began.0));
            }
        }
    }

    fn now(&self) -> (Weather, u64) {
        (self.weather(), self.changes.load(Ordering::SeqCst))
    }
}

/// Pseudo-random numbers (SplitMix64), the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }
}

const CONF: &str = r"
    server_tokens off; keepalive_requests 100000; client_max_body_size 64m; client_header_timeout 2s; client_body_timeout 2s;
    send_timeout 2s; keepalive_timeout 2s; lingering_timeout 1s; gzip on; gzip_min_length 100;
    limit_conn_zone $binary_remote_addr zone=c:1m; proxy_temp_path {{DIR}}/disk/proxy; client_body_temp_path {{DIR}}/disk/body;
    fastcgi_temp_path {{DIR}}/disk/fastcgi; proxy_cache_path {{DIR}}/disk/cache keys_zone=z:1m max_size=8m inactive=10s;
    ssl_certificate {{DIR}}/a.crt; ssl_certificate_key {{DIR}}/a.key;
    map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
    upstream back { zone back 64k; server 127.0.0.1:BACK; keepalive 16; }
    upstream hostile { server 127.0.0.1:HOSTILE max_fails=0; keepalive 4; }
    server {
        listen 127.0.0.1:{{PORT}} backlog=1024; listen 127.0.0.1:{{PORT2}} ssl backlog=1024; http2 on; server_name good.test;
        location /files/ { alias {{DIR}}/html/; }
        location /back/ { proxy_pass http://back; }
        location /cached/ { proxy_pass http://back; proxy_cache z; proxy_cache_valid 2s; proxy_cache_use_stale error timeout updating; proxy_cache_lock on; }
        location /hostile/ { proxy_pass http://hostile; proxy_read_timeout 2s; proxy_buffers 4 8k; }
        location /app/ { fastcgi_pass 127.0.0.1:APP; fastcgi_param QUERY_STRING $query_string; fastcgi_keep_conn on; }
        location /ws/ { proxy_pass http://back; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; }
        location /denied/ { deny all; }
        location ~ ^/re/(a+)+\1$ { return 200 x; }
    }
";

/// Main directives; the worker may not have many descriptors, so that running out of them is quick.
const MAIN: &str = "worker_rlimit_nofile 700; worker_processes 2; worker_shutdown_timeout 10s;";

fn binary() -> String {
    std::env::var("BRISK_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_brisk").into())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// A small disk of its own for what the server writes, where this test may mount one.
struct Disk {
    path: Option<std::path::PathBuf>,
}

impl Disk {
    fn mount(path: std::path::PathBuf) -> Disk {
        std::fs::create_dir_all(&path).unwrap();
        let is_mounted = process::is_root()
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=128m,mode=777", "none"])
                .arg(&path)
                .status()
                .is_ok_and(|status| status.success());
        Disk { path: is_mounted.then_some(path) }
    }

    fn fill(&self) -> bool {
        let Some(path) = &self.path else { return false };
        let ballast = std::fs::File::create(path.join("ballast"));
        let piece = vec![0; 1 << 20];
        // Until there is no space left.
        while ballast.as_ref().is_ok_and(|mut file| file.write_all(&piece).is_ok()) {}
        true
    }

    fn free_bytes(&self) -> u64 {
        let Some(stat) = self.path.as_ref().and_then(|path| rustix::fs::statvfs(path).ok()) else { return 0 };
        stat.f_bavail * stat.f_bsize
    }

    fn free(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path.join("ballast"));
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = Command::new("umount").arg("-l").arg(path).status();
        }
    }
}

/// What is measured in a calm moment.
#[derive(Clone, Copy, Debug)]
struct Calm {
    worker: u32,
    resident: u64,
    descriptors: usize,
}

#[test]
fn good_clients_are_served_whatever_goes_on() {
    process::raise_descriptor_limit();
    let seconds = number("BRISK_SOAK_SECONDS").unwrap_or(SECONDS_DEFAULT);
    let seed = number("BRISK_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("soak: {seconds} s, BRISK_SOAK_SEED={seed}");
    let back = Backend::start(good::back_end);
    let bad = Backend::start(hostile::back_end);
    let app = Application::start(Speaks::FastCgi, 8, good::application);
    let app_port = app.address().rsplit(':').next().unwrap().to_string();
    let conf = CONF
        .replace("BACK", &back.port().to_string())
        .replace("HOSTILE", &bad.port().to_string())
        .replace("APP", &app_port);
    let builder = Builder::new(&binary()).main(MAIN).http(&conf).certificate("good.test");
    let builder = good::FILES.iter().fold(builder, |builder, (name, size)| {
        builder.file(&format!("html/{name}"), good::pattern(name, *size))
    });
    let disk = Disk::mount(builder.dir().join("disk"));
    let server = builder
        .allow_alerts(
            "exited on signal 9|pcre2_match|worker process .* exited|No space left|Too many open files",
        )
        .start();
    let soak = Arc::new(Soak::new(disk, server.port(), server.port_of(2)));
    let threads: Vec<_> = good::KINDS
        .iter()
        .chain(hostile::KINDS)
        .enumerate()
        .map(|(n, (kind, act))| {
            let (soak, kind, act) = (soak.clone(), *kind, *act);
            let is_good = n < good::KINDS.len();
            std::thread::spawn(move || run(&soak, kind, act, is_good, seed.wrapping_add(n as u64)))
        })
        .collect();
    let calms = events(&soak, &server, seconds);
    soak.over.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    report(&soak, &calms);
}

/// One thread: the same thing again and again until the end, with a pause in calm weather.
fn run(
    soak: &Soak,
    kind: &'static str,
    act: fn(&Soak, &mut Random) -> Result<(), String>,
    is_good: bool,
    seed: u64,
) {
    let mut random = Random(seed);
    while !soak.is_over() {
        let began = soak.now();
        if began.0 == Weather::Calm {
            std::thread::sleep(Duration::from_millis(20));
        } else if is_good {
            let result = act(soak, &mut random);
            soak.judge(kind, began, result);
        } else {
            let _ = act(soak, &mut random);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits while the weather lasts.
fn lasts(soak: &Soak, weather: Weather, time: Duration) {
    soak.set(weather);
    std::thread::sleep(time);
}

/// Reloads, kills and shortages in turn; workers die only in the first half, so that a leak of the last one shows.
fn events(soak: &Soak, server: &Server, seconds: u64) -> Vec<Calm> {
    let begin = Instant::now();
    let total = Duration::from_secs(seconds);
    let step = Duration::from_secs((seconds / 16).clamp(1, 10));
    let mut calms = Vec::new();
    let mut round = 0;
    while begin.elapsed() < total {
        round += 1;
        lasts(soak, Weather::Hostile, step);
        server.reload();
        lasts(soak, Weather::Hostile, step);
        if begin.elapsed() < total / 2 {
            match round % 3 {
                1 => kill_worker(soak, server),
                2 => fill_disk(soak, step),
                _ => take_descriptors(soak, step),
            }
        } else {
            server.reload();
        }
        soak.set(Weather::Calm);
        calms.push(measure(server));
        println!("soak: {:4} s, {:?}", begin.elapsed().as_secs(), calms[calms.len() - 1]);
    }
    calms
}

fn kill_worker(soak: &Soak, server: &Server) {
    soak.set(Weather::Broken);
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|&pid| pid != worker));
    wait::holds("it serves", || good::is_served(soak));
}

fn fill_disk(soak: &Soak, step: Duration) {
    soak.set(Weather::Broken);
    if !soak.disk.fill() {
        println!("soak: the disk is never full: this test may not mount one");
    }
    std::thread::sleep(step);
    soak.disk.free();
    wait::holds("it serves", || good::is_served(soak));
}

fn take_descriptors(soak: &Soak, step: Duration) {
    soak.set(Weather::Broken);
    let held: Vec<_> =
        (0..3000).map_while(|_| std::net::TcpStream::connect(("127.0.0.1", soak.port)).ok()).collect();
    std::thread::sleep(step);
    drop(held);
    wait::holds("it serves", || good::is_served(soak));
}

/// What the worker holds once all requests have ended: what is idle or stalled ends after two seconds.
fn measure(server: &Server) -> Calm {
    let worker = server.worker();
    let mut last = usize::MAX;
    let _ = wait::within(Duration::from_secs(12), || {
        std::thread::sleep(Duration::from_millis(200));
        let now = process::descriptors(worker);
        let is_steady = now == last && now < 200;
        last = now;
        is_steady.then_some(())
    });
    Calm { worker, resident: process::rss_kib(worker) << 10, descriptors: process::descriptors(worker) }
}

fn report(soak: &Soak, calms: &[Calm]) {
    for (kind, (all, failed)) in soak.counts.lock().unwrap().iter() {
        println!("soak: {kind:24} {all:9} requests, {failed:6} unanswered in broken weather");
    }
    let failures = soak.failures.lock().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(
        soak.counts.lock().unwrap().values().all(|(all, failed)| all > failed),
        "a kind of request never succeeded"
    );
    let last = calms.last().expect("a calm moment");
    let same: Vec<&Calm> = calms.iter().filter(|calm| calm.worker == last.worker).collect();
    // The first moment of a worker's life has not seen everything yet: compare with the middle of it.
    let base = same[same.len() / 2];
    assert!(
        last.resident <= base.resident + base.resident / 5 + GROWTH_BYTES_MAX,
        "memory grows: {base:?} and in the end {last:?}"
    );
    assert!(
        last.descriptors <= base.descriptors + GROWTH_DESCRIPTORS_MAX,
        "descriptors: {base:?} and in the end {last:?}"
    );
}
