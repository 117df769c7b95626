//! Connections that ask all the time, while the server is reloaded, upgraded and killed.
//!
//! `BRISK_LIFE=long` has as many of each as a busy site sees in months, and prints its figures.

use super::{connect, start};
use brisk_testkit::quic::Visitor;
use brisk_testkit::{H3Client, Server, process, wait};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

struct Course {
    connections: usize,
    reloads: usize,
    upgrades: usize,
}

pub fn is_long() -> bool {
    std::env::var("BRISK_LIFE").is_ok_and(|text| text == "long")
}

fn course() -> Course {
    if is_long() {
        Course { connections: 200, reloads: 200, upgrades: 3 }
    } else {
        Course { connections: 12, reloads: 10, upgrades: 1 }
    }
}

/// Threads of clients.
const THREADS: usize = 4;
/// `H3_REQUEST_REJECTED`: the server has not looked at it.
const REJECTED: u64 = 0x10b;

/// What has become of requests.
#[derive(Default)]
struct Tally {
    answered: AtomicU64,
    /// The server has said that it would not look at them (RFC 9114 §5.2); they were asked again.
    put_off: AtomicU64,
    /// Those under way in a worker that was killed: how long each client took to be answered over another connection.
    reset: Mutex<Vec<Duration>>,
    lost: Mutex<Vec<String>>,
}

impl Tally {
    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until so many more requests are answered.
    fn wait_for_more(&self, count: usize) {
        let until = self.answered() + count as u64;
        wait::holds("answers", || self.answered() >= until || !self.lost.lock().unwrap().is_empty());
    }
}

/// Asks once over a connection; gives whether that connection can be used again.
fn ask(client: &mut H3Client, tally: &Tally) -> bool {
    client.turn(Duration::ZERO);
    if client.goaway.is_some() || client.quic.end().is_some() {
        return false;
    }
    let stream = client.begin(&client.fields("GET", "a.test", "/"), true);
    let answer = client.wait(stream);
    if answer.status == 200 && answer.ended {
        tally.answered.fetch_add(1, Ordering::Relaxed);
        return true;
    }
    let is_put_off = client.goaway.is_some_and(|first| stream >= first) || answer.reset == Some(REJECTED);
    if is_put_off {
        tally.put_off.fetch_add(1, Ordering::Relaxed);
    } else if client.quic.end().as_deref() != Some("reset by peer") {
        tally.lost.lock().unwrap().push(format!("{answer:?}, {:?}", client.quic.end()));
    }
    false
}

fn visit(visitor: &Visitor, address: SocketAddr, count: usize, is_over: &AtomicBool, tally: &Tally) {
    let mut clients: Vec<H3Client> = (0..count).map(|_| connect(visitor, address)).collect();
    while !is_over.load(Ordering::Relaxed) {
        for client in &mut clients {
            if ask(client, tally) {
                continue;
            }
            let was_reset = client.quic.end().as_deref() == Some("reset by peer");
            let begun = Instant::now();
            *client = connect(visitor, address);
            if was_reset && ask(client, tally) {
                tally.reset.lock().unwrap().push(begun.elapsed());
            }
        }
    }
}

fn upgrade(server: &Server) {
    let old = server.pid();
    server.signal(Signal::USR2);
    wait::until("the new pid file", || {
        server.read("brisk.pid").trim().parse().ok().filter(|&pid: &u32| pid != old)
    });
    process::signal(old, Signal::QUIT);
    process::wait_gone(old);
}

/// Waits for all connections to have been answered once more after it.
fn change(server: &Server, tally: &Tally, course: &Course) {
    for at in 0..course.reloads {
        server.reload();
        tally.wait_for_more(3);
        if (at + 1) % (course.reloads / course.upgrades) == 0 {
            upgrade(server);
            tally.wait_for_more(course.connections);
        }
    }
    assert!(tally.reset.lock().unwrap().is_empty(), "nobody was killed yet");
    let worker = server.worker();
    process::signal(worker, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|pid| *pid != worker));
    tally.wait_for_more(2 * course.connections);
}

#[test]
fn reloads_upgrades_and_a_crash_lose_no_request() {
    let course = course();
    let (server, visitor, address) = start("worker_processes 2; worker_shutdown_timeout 30s;");
    let (tally, is_over) = (Tally::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| visit(&visitor, address, course.connections / THREADS, &is_over, &tally));
        }
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            tally.wait_for_more(course.connections);
            change(&server, &tally, &course);
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = changed {
            std::panic::resume_unwind(panic);
        }
    });
    let mut back = tally.reset.into_inner().unwrap();
    back.sort();
    let lost = tally.lost.into_inner().unwrap();
    println!(
        "{} connections, {} reloads, {} upgrades, a kill: {} answered, {} put off by GOAWAY, {} under way at the kill \
         and answered {:?} later (at most {:?}), {} lost",
        course.connections,
        course.reloads,
        course.upgrades,
        tally.answered.into_inner(),
        tally.put_off.into_inner(),
        back.len(),
        back.get(back.len() / 2),
        back.last(),
        lost.len()
    );
    assert!(lost.is_empty(), "{lost:#?}");
    server.wait_for_log("exited on signal 9");
}
