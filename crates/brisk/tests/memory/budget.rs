//! `memory_limit`: what is done when the process holds too much, and to which connections.

use crate::{CONF, STREAMS, attack, builder, frame_of, metric};
use brisk_h2::frame::kind;
use brisk_testkit::{Client, H2Client, Server, process, wait};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ATTACKERS: u32 = 8;
/// Each of them has so many at a time.
const CONNECTIONS: u32 = 2;
/// Connections that are to be closed, all attackers together, and how many they open at most.
const CLOSED: u32 = 24;
const CONNECTIONS_MAX: u32 = 400;
/// How long one is held that the server does not close.
const HOLD: Duration = Duration::from_secs(2);
/// However slow the machine is.
const TIME_MAX: Duration = Duration::from_secs(40);

/// What attackers and good clients share.
#[derive(Default)]
struct Course {
    opened: AtomicU32,
    closed: AtomicU32,
    over: AtomicBool,
}

impl Course {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }
}

/// Fills one connection after the other, and has each of its streams go on by a byte from time to time. What was refused while memory was
/// short is tried again on another connection.
fn hold(port: u16, course: &Course) {
    let updates = (0..STREAMS).map(|n| frame_of(kind::WINDOW_UPDATE, 0, 2 * n + 1, &1u32.to_be_bytes()));
    let updates: Vec<u8> = updates.flatten().collect();
    let mut buf = vec![0; 64 << 10];
    while course.goes_on() && course.opened.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX {
        let Ok(mut client) = Client::try_connect(port) else { continue };
        let mut is_open = client.try_send(attack()).is_ok();
        let begun = Instant::now();
        while is_open && course.goes_on() && begun.elapsed() < HOLD {
            // The rate of the attack, not a wait for the server.
            thread::sleep(Duration::from_millis(100));
            is_open = client.try_send(&updates).is_ok();
            is_open &= match client.read_some(&mut buf, Duration::from_millis(1)) {
                Ok(count) => count > 0,
                Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            };
        }
        if !is_open {
            course.closed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Asks all the time, over connections that are kept and over new ones; gives how often. Every answer must be right.
fn ask(port: u16, course: &Course) -> u32 {
    let mut kept = Client::connect(port);
    let mut multiplexed = H2Client::connect(port);
    let mut count = 0;
    while course.goes_on() {
        assert_eq!(kept.get("/a.txt").text(), "hello\n");
        assert_eq!(multiplexed.get("/a.txt").text(), "hello\n");
        assert_eq!(multiplexed.get("/large").body.len(), 300_000);
        assert_eq!(Client::connect(port).get("/a.txt").text(), "hello\n");
        count += 4;
    }
    count
}

/// Anonymous memory that is resident, which is what counts.
fn used(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", server.worker())).expect("a process");
    let pages: Vec<u64> = text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    (pages[1] - pages[2]) * rustix::param::page_size() as u64
}

/// Eight attackers fill connections and keep them, without end: their connections are closed, the process stays below its limit, and
/// everybody else is served.
#[test]
fn attackers_are_closed_and_nobody_else() {
    let mut server = builder().main("worker_processes 2;").allow_alerts("of memory are in use").start();
    (0..20).for_each(|_| assert_eq!(server.get("/large").status, 200));
    // Less than what they hold without it.
    let limit = used(&server) + (40 << 20);
    server.configure_http(&format!("worker_processes 2; memory_limit {limit};"), CONF);
    server.reload();
    assert_eq!(metric(&server, "brisk_memory_limit_bytes"), limit);
    let (port, course) = (server.port(), Course::default());
    let (most, asked) = thread::scope(|scope| {
        (0..ATTACKERS * CONNECTIONS).for_each(|_| drop(scope.spawn(|| hold(port, &course))));
        let good: Vec<_> = (0..2).map(|_| scope.spawn(|| ask(port, &course))).collect();
        let start = Instant::now();
        let mut most = 0;
        while course.closed.load(Ordering::Relaxed) < CLOSED
            && start.elapsed() < TIME_MAX
            && good.iter().all(|thread| !thread.is_finished())
        {
            most = most.max(used(&server));
            thread::yield_now();
        }
        course.over.store(true, Ordering::Relaxed);
        let asked = good.into_iter().map(|thread| thread.join().expect("a good client is served"));
        (most, asked.sum::<u32>())
    });
    let closed = course.closed.load(Ordering::Relaxed);
    assert!(closed >= CLOSED, "{closed} connections of attackers were closed, {asked} requests answered");
    assert!(asked > 20 && most < limit, "{asked} requests answered, {most} of {limit} bytes in use");
    assert!(metric(&server, "brisk_memory_connections_closed_total") >= u64::from(CLOSED));
    server.wait_for_log(r"\[alert\] .* KiB of memory are in use, the limit is .* KiB: connections hold");
    // All is as before.
    wait::holds("what was held is free", || {
        let status = server.get("/a.txt").status;
        status == 200 && used(&server) < limit / 100 * 90
    });
}

/// What fills the memory is held by no connection: nobody is closed or kept waiting for it.
#[test]
fn a_limit_below_what_the_process_needs_stops_nobody() {
    let server = builder().main("memory_limit 4k;").allow_alerts("of memory are in use").start();
    let mut kept = Client::connect(server.port());
    wait::holds("a look at the memory while there is work", || {
        assert_eq!(kept.get("/a.txt").status, 200);
        assert_eq!(server.get("/a.txt").status, 200);
        server.error_log().contains("connections hold only")
    });
    for _ in 0..50 {
        assert_eq!(kept.get("/a.txt").status, 200);
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert_eq!(metric(&server, "brisk_memory_connections_closed_total"), 0);
}

/// With little address space the attack ends no worker.
#[test]
fn the_worker_outlives_the_attack_where_address_space_is_short() {
    let prepared = builder().prepare();
    let mut command = std::process::Command::new("/bin/sh");
    let own = prepared.command(&[]);
    command.args(["-c", "ulimit -v 1500000; exec \"$0\" \"$@\""]).arg(own.get_program()).args(own.get_args());
    let server = prepared.start_with(command);
    let worker = server.worker();
    let attack = attack();
    let mut held = Vec::new();
    for _ in 0..5 * ATTACKERS {
        let mut client = Client::connect(server.port());
        let _ = client.try_send(&attack);
        held.push(client);
        assert_eq!(server.get("/a.txt").status, 200);
    }
    assert_eq!(server.worker(), worker);
    assert!(process::is_alive(worker));
    assert!(metric(&server, "brisk_memory_limit_bytes") < 1_500_000 * 1024);
}
