//! Who is there when the clock of a closed loop starts: sockets are counted, not speed.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use brisk_load::arrivals::Rate;
use brisk_load::engine::{self, Users};
use brisk_load::plan::{Plan, RequestOptions, Stop, Url, sites};
use brisk_load::system;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};

const OK: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

fn listener(backlog: i32) -> (SocketAddr, TcpListener) {
    let (address, socket) = refusing();
    listen(&socket, backlog).unwrap();
    (address, socket)
}

/// It is bound and does not listen: connections are refused, and nobody else takes its port.
fn refusing() -> (SocketAddr, TcpListener) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let socket = TcpListener::from(socket);
    (socket.local_addr().unwrap(), socket)
}

/// Tells the second process that it is the server.
const SERVER: &str = "BRISK_LOAD_TEST_SERVER";

/// A server in a process of its own, with descriptors of its own, that takes every connection at once, and answers all that has
/// been asked only now and then: connections that wait for their first response must not keep others from being made.
struct Slow {
    address: SocketAddr,
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Slow {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_server", "--nocapture"])
            .env(SERVER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut server = Self { address: SocketAddr::from(([0; 4], 0)), process, says };
        server.address = server.hear("listens at ").parse().unwrap();
        server
    }

    fn hear(&mut self, what: &str) -> String {
        // The test harness of the second process prints, too, and not always whole lines.
        let mut lines = self.says.by_ref().map(Result::unwrap);
        lines.find_map(|line| Some(line.split_once(what)?.1.to_owned())).unwrap()
    }

    /// How many connections it has taken.
    fn taken(&mut self) -> usize {
        self.process.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
        self.hear("has taken ").parse().unwrap()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.process.stdin.take());
        drop(self.process.wait());
    }
}

/// The second process's part; a test in name only.
#[test]
fn the_server() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    system::raise_open_files_to_the_limit().unwrap();
    let (address, listener) = listener(4096);
    println!("\nlistens at {address}");
    listener.set_nonblocking(true).unwrap();
    let (taken, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let work = {
        let (taken, stop) = (Arc::clone(&taken), Arc::clone(&stop));
        thread::spawn(move || serve(&listener, &taken, &stop))
    };
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        println!("\nhas taken {}", taken.load(Ordering::Relaxed));
    }
    stop.store(true, Ordering::Relaxed);
    work.join().unwrap();
}

fn serve(listener: &TcpListener, taken: &AtomicUsize, stop: &AtomicBool) {
    let mut sockets: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        // Whoever is there is taken first; a round of answers comes when nobody has come for a while.
        let mut quiet = 0;
        while quiet < 20 && !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true).unwrap();
                    sockets.push(socket);
                    taken.fetch_add(1, Ordering::Relaxed);
                    quiet = 0;
                }
                Err(_) => {
                    quiet += 1;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let mut buffer = [0; 4096];
        for socket in &mut sockets {
            if socket.read(&mut buffer).is_ok_and(|count| count > 0) {
                let _ = socket.write_all(OK);
            }
        }
    }
}

fn plan(address: SocketAddr, connections: usize, stop: Stop) -> Plan {
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    Plan::new(sites(&[url], &RequestOptions::default()).unwrap(), connections, stop)
}

/// Every user has a connection when the clock starts, however long answers take, and has been asked for in the run.
fn all_are_there(count: usize) {
    let mut server = Slow::start();
    let plan = Plan { threads: 2, ..plan(server.address, count, Stop::After(Duration::from_millis(200))) };
    let run = engine::start(Plan { timeout: Duration::from_mins(1), ..plan }).unwrap();
    assert!(run.wait_started(Duration::from_mins(2)), "{count}: {:?}", run.progress());
    let progress = run.progress();
    assert_eq!(progress.users, count as u64);
    let outcome = run.join().unwrap();
    assert_eq!(server.taken(), count, "sockets that the server has seen");
    assert_eq!(outcome.users, Some(Users { wanted: count as u64, there: count as u64 }));
    assert_eq!((outcome.stats.connects, outcome.stats.errors()), (count as u64, 0));
    assert!(outcome.stats.responses() >= count as u64, "each is answered at least once");
    // Connecting took no time of the run.
    assert!(outcome.elapsed < Duration::from_secs(30), "{:?}", outcome.elapsed);
}

#[test]
fn a_thousand_users_are_there() {
    all_are_there(1000);
}

#[test]
fn five_thousand_users_are_there() {
    all_are_there(5000);
}

#[test]
fn ten_thousand_users_are_there() {
    all_are_there(10_000);
}

/// Where the limit of open files cannot be raised so far, the run says so before it starts.
#[test]
fn forty_thousand_users_are_there_or_the_run_does_not_start() {
    let (count, room) = (40_000, 1000);
    if system::raise_open_files(count + room).is_ok() {
        return all_are_there(count as usize);
    }
    let (address, _listener) = listener(1);
    let error =
        engine::start(plan(address, count as usize, Stop::After(Duration::from_millis(1)))).unwrap_err();
    let said = error.to_string();
    for part in ["cannot raise the limit of open files to 40", "are allowed here", "take fewer connections"] {
        assert!(said.contains(part), "{said}");
    }
}

/// There are no more ports than the kernel gives out: what cannot be had is known beforehand.
#[test]
fn ports_that_there_are_not_are_missed_before_the_start() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 80));
    let error = engine::start(plan(elsewhere, 70_000, Stop::After(Duration::from_millis(1))))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("70000") && error.contains("ports") && error.contains("ip_local_port_range"),
        "{error}"
    );
}

/// The listener's queue takes a few; nobody takes them out of it, and the kernel leaves the others unanswered.
#[test]
fn who_is_missing_at_the_start_is_counted() {
    let (address, _listener) = listener(2);
    let plan = plan(address, 20, Stop::After(Duration::from_millis(50)));
    let outcome = engine::run(Plan { timeout: Duration::from_millis(300), ..plan }).unwrap();
    let users = outcome.users.unwrap();
    assert!(users.wanted == 20 && (1..=4).contains(&users.there), "{users:?}");
    assert_eq!(outcome.stats.responses(), 0);
    assert_eq!(outcome.stats.errors(), 20, "{:?}", outcome.stats.errors);
}

/// No more users are needed than there are requests.
#[test]
fn a_number_of_requests_has_no_more_users_than_requests() {
    let server = Slow::start();
    let outcome = engine::run(Plan { threads: 2, ..plan(server.address, 50, Stop::Requests(7)) }).unwrap();
    assert_eq!(outcome.users, Some(Users { wanted: 7, there: 7 }));
    assert_eq!((outcome.stats.responses(), outcome.stats.connects), (7, 7));
}

/// With a ramp the clock starts at once, and all are there when it is over.
#[test]
fn users_of_a_ramp_are_there_at_its_end() {
    let server = Slow::start();
    let ramp = |rate: f64, time: Duration| Plan {
        dial_rate: Some(Rate::constant(rate)),
        threads: 2,
        ..plan(server.address, 600, Stop::After(time))
    };
    let outcome = engine::run(ramp(2000.0, Duration::from_secs(2))).unwrap();
    assert_eq!(outcome.users, Some(Users { wanted: 600, there: 600 }));
    // The run is over before its ramp.
    let users = engine::run(ramp(200.0, Duration::from_millis(500))).unwrap().users.unwrap();
    assert!(users.wanted == 600 && users.there < 300, "{users:?}");
}

/// A server without a listener: each user is tried before the clock starts, and no longer.
#[test]
fn nobody_is_there_where_connections_are_refused() {
    let (refused, _held) = refusing();
    let outcome = engine::run(plan(refused, 300, Stop::Requests(300))).unwrap();
    assert_eq!(outcome.users, Some(Users { wanted: 300, there: 0 }));
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (0, 300));
    // Open loops have no users.
    let open = Plan { rate: Some(Rate::constant(100.0)), ..plan(refused, 3, Stop::Requests(3)) };
    assert_eq!(engine::run(open).unwrap().users, None);
}
