//! The engine against a scripted server in this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use brisk_load::arrivals::Rate;
use brisk_load::engine::{self, Outcome};
use brisk_load::jar::Jar;
use brisk_load::plan::{Order, Plan, RequestOptions, Stop, Think, Tls, Url, sites};
use brisk_load::stats::{ErrorKind, Record};
use brisk_tls::{ClientContext, ClientOptions};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
const BROKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort";

/// Serves one connection: the answer depends on the path; `/slow` never comes.
fn serve(mut socket: impl Read + Write) {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            let request = String::from_utf8_lossy(&input[..end]).into_owned();
            input.drain(..end + 4);
            let (answer, close) = match request.split(' ').nth(1) {
                Some("/ok") => (OK, false),
                Some("/chunked") => (CHUNKED, false),
                Some("/missing") => (MISSING, false),
                Some("/last") => (LAST, true),
                Some("/broken") => (BROKEN, true),
                Some("/garbage") => ("SSH-2.0\r\n\r\n", true),
                Some("/silent") => ("", true),
                Some("/half-head") => ("HTTP/1.1 200 OK\r\nContent-Le", true),
                Some("/more") => ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEXTRA", false),
                Some("/half-chunk") => ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", true),
                Some("/bad-chunk") => ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", true),
                Some("/bad-length") => ("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", true),
                _ => ("", false),
            };
            // In two pieces, so that reads end in the middle of a response.
            let (left, right) = answer.split_at(answer.len() / 2);
            if socket.write_all(left.as_bytes()).is_err() || socket.write_all(right.as_bytes()).is_err() {
                return;
            }
            if close {
                return;
            }
        }
        match socket.read(&mut buffer) {
            Ok(count) if count > 0 => input.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
}

/// A server that lives as long as the test process.
fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&accepted);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            counter.fetch_add(1, Ordering::Relaxed);
            socket.set_nodelay(true).unwrap();
            thread::spawn(move || serve(socket));
        }
    });
    (address, accepted)
}

fn plan(address: SocketAddr, paths: &[&str], connections: usize, stop: Stop) -> Plan {
    let urls: Vec<Url> =
        paths.iter().map(|path| Url::parse(&format!("http://{address}{path}")).unwrap()).collect();
    Plan::new(sites(&urls, &RequestOptions::default()).unwrap(), connections, stop)
}

fn errors(outcome: &Outcome) -> Vec<(ErrorKind, u64)> {
    let all = ErrorKind::ALL.into_iter().map(|kind| (kind, outcome.stats.errors_of(kind)));
    all.filter(|&(_, count)| count > 0).collect()
}

#[test]
fn a_number_of_requests_is_kept_exactly() {
    for (connections, threads, pipeline) in [(1, 1, 1), (7, 2, 1), (5, 3, 8), (200, 1, 1)] {
        let (address, accepted) = server();
        let plan = Plan {
            threads,
            pipeline,
            ..plan(address, &["/ok", "/chunked", "/missing"], connections, Stop::Requests(100))
        };
        let outcome = engine::run(plan).unwrap();
        assert_eq!(outcome.stats.responses(), 100);
        assert!(
            (25..=42).contains(&outcome.stats.non_2xx()),
            "a third is missing: {}",
            outcome.stats.non_2xx()
        );
        assert_eq!(errors(&outcome), []);
        assert!(accepted.load(Ordering::Relaxed) <= connections);
    }
}

#[test]
fn each_connection_sends_its_share() {
    let (address, _) = server();
    let plan = Plan { threads: 2, ..plan(address, &["/ok"], 9, Stop::RequestsPerConnection(11)) };
    let outcome = engine::run(plan).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.connects), (99, 9));
    let answer = OK.len() as u64;
    assert_eq!(outcome.stats.bytes, 99 * answer);
}

#[test]
fn a_closing_server_is_reconnected_to() {
    let (address, _) = server();
    let outcome = engine::run(plan(address, &["/ok", "/last"], 2, Stop::Requests(40))).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.closes), (40, 20));
    assert!(outcome.stats.connects >= 20);
    assert_eq!(errors(&outcome), []);
    let pipelined = Plan { pipeline: 4, ..plan(address, &["/last"], 1, Stop::Requests(6)) };
    let outcome = engine::run(pipelined).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.connects), (6, 6), "what was behind is sent again");
}

/// Tells each connection who it is, and wants to hear it from then on; answers come in two pieces.
fn knowing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for (number, mut socket) in listener.incoming().flatten().enumerate() {
            socket.set_nodelay(true).unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut is_told = false;
                while let Ok(count @ 1..) = socket.read(&mut buffer) {
                    let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    let knows = request.contains(&format!("\r\nCookie: x=0; id={number}\r\n"));
                    let status = if knows || !is_told { "200 OK" } else { "403 No" };
                    let cookie = if is_told { String::new() } else { format!("set-cookie: id={number}\r\n") };
                    is_told = true;
                    let head = format!("HTTP/1.1 {status}\r\n{cookie}Content-Length: 5\r\n\r\nhe");
                    if socket.write_all(head.as_bytes()).is_err() || socket.write_all(b"llo").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn each_user_has_cookies_of_its_own() {
    let address = knowing();
    let mut jar = Jar::default();
    jar.set(&Url::parse(&format!("http://{address}/")).unwrap(), "x=0");
    let plan = Plan { jar: Some(jar), threads: 2, ..plan(address, &["/a", "/b"], 10, Stop::Requests(300)) };
    let outcome = engine::run(plan).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.non_2xx(), errors(&outcome)), (300, 0, vec![]));
}

/// Answers the first request of each connection, and closes without notice when the second one comes.
fn closing_without_notice() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                if let Ok(1..) = socket.read(&mut buffer) {
                    let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    let _ = socket.read(&mut buffer);
                }
            });
        }
    });
    address
}

/// As browsers do it: the request is asked once again, which is no error, and counted apart. What may not be sent twice is not.
#[test]
fn a_kept_connection_that_is_closed_without_notice_is_asked_again() {
    let address = closing_without_notice();
    let once = Plan { record: Some(100), ..plan(address, &["/a", "/b", "/c"], 2, Stop::Requests(40)) };
    let outcome = engine::run(once).unwrap();
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (40, vec![]));
    // Each connection answers one; all but the first ones are made for a request that was sent before. If one user has sent
    // all requests before the other one's connection was there, there is one first connection.
    assert!((38..=39).contains(&outcome.stats.asked_again), "{}", outcome.stats.asked_again);
    // The same target is asked again, so that each has its third; and its wait counts from when it was first sent.
    let of = |target| outcome.records.iter().filter(|record| record.target == target).count();
    assert!((0..3).all(|target| (12..=15).contains(&of(target))), "{} {} {}", of(0), of(1), of(2));
    assert!(outcome.records.iter().filter(|record| record.due_ns < record.sent_ns).count() >= 30);
    let open = Plan { rate: Some(Rate::constant(200.0)), ..plan(address, &["/a"], 4, Stop::Requests(40)) };
    let outcome = engine::run(open).unwrap();
    // A second kept connection may be closed, too: then it is an error.
    let failed = outcome.stats.errors();
    assert_eq!(outcome.stats.responses() + failed, 40);
    assert!(outcome.stats.asked_again > 0 && failed < outcome.stats.asked_again, "{:?}", errors(&outcome));
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let post = RequestOptions { method: "POST".to_owned(), ..RequestOptions::default() };
    let plan = Plan::new(sites(&[url], &post).unwrap(), 1, Stop::Requests(10));
    let outcome = engine::run(plan).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors(), outcome.stats.asked_again), (5, 5, 0));
}

#[test]
fn errors_are_counted_by_kind() {
    let check = |path: &str, want: ErrorKind| {
        let (address, _) = server();
        // What is to end by itself has time for it on a busy machine.
        let timeout_ms = if want == ErrorKind::Timeout { 50 } else { 30_000 };
        let plan = Plan {
            timeout: Duration::from_millis(timeout_ms),
            ..plan(address, &[path], 2, Stop::RequestsPerConnection(3))
        };
        let outcome = engine::run(plan).unwrap();
        assert_eq!(errors(&outcome), [(want, 6)], "{path}");
        assert_eq!(outcome.stats.responses(), 0, "{path}");
    };
    check("/broken", ErrorKind::Truncated);
    check("/garbage", ErrorKind::Protocol);
    check("/silent", ErrorKind::Closed);
    check("/slow", ErrorKind::Timeout);
    check("/half-head", ErrorKind::Truncated);
    check("/half-chunk", ErrorKind::Truncated);
    check("/bad-chunk", ErrorKind::Protocol);
    check("/bad-length", ErrorKind::Protocol);
}

/// Bytes behind a body: each request is answered or failed, and never both, whether they come with the response, when the next
/// request has been sent, or before that.
#[test]
fn bytes_behind_a_body_are_no_second_outcome() {
    let (address, _) = server();
    let think = Think::Constant(Duration::from_millis(30));
    for (pipeline, think) in [(1, None), (3, None), (1, Some(think))] {
        let plan = Plan { pipeline, think, ..plan(address, &["/more"], 2, Stop::Requests(30)) };
        let stats = engine::run(plan).unwrap().stats;
        let wrong = stats.errors_of(ErrorKind::Protocol);
        assert_eq!((stats.responses() + stats.errors(), stats.errors()), (30, wrong));
        assert!(wrong > 0, "in one read with the body");
    }
    // They come by themselves while nobody waits for anything.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                socket.set_nodelay(true).unwrap();
                while socket.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    socket.write_all(OK.as_bytes()).unwrap();
                    // In a packet of its own.
                    thread::sleep(Duration::from_millis(10));
                    let _ = socket.write_all(b"EXTRA");
                }
            });
        }
    });
    let think = Some(Think::Constant(Duration::from_millis(600)));
    let stats = engine::run(Plan { think, ..plan(address, &["/"], 2, Stop::Requests(4)) }).unwrap().stats;
    assert_eq!((stats.responses(), stats.errors()), (4, 0));
}

/// A connection that is closed with something unread is reset.
#[test]
fn a_reset_is_no_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read_exact(&mut [0; 4]);
        }
    });
    let outcome = engine::run(plan(address, &["/ok"], 2, Stop::Requests(20))).unwrap();
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (0, vec![(ErrorKind::Reset, 20)]));
}

/// Nobody answers, not even to refuse: the listener's queue is full, and the kernel keeps silent.
#[test]
fn a_connection_that_is_not_made_in_time() {
    use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = TcpListener::from(listener);
    let address = address.local_addr().map(|found| (found, address)).unwrap();
    let fill: Vec<_> = (0..3)
        .map(|_| std::net::TcpStream::connect_timeout(&address.0, Duration::from_millis(100)))
        .collect();
    assert!(fill.iter().any(Result::is_err), "the queue is not full");
    let slow =
        Plan { timeout: Duration::from_millis(300), ..plan(address.0, &["/ok"], 2, Stop::Requests(2)) };
    let outcome = engine::run(slow.clone()).unwrap();
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (0, vec![(ErrorKind::ConnectTimeout, 2)]));
    // The time is over first.
    let outcome = engine::run(Plan { stop: Stop::After(Duration::from_millis(50)), ..slow }).unwrap();
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (0, vec![(ErrorKind::ConnectTimeout, 2)]));
}

/// There is no way to such an address, nor to a socket that is not there.
#[test]
fn what_cannot_be_reached_is_counted() {
    // Nobody connects to all hosts at once.
    let nowhere = SocketAddr::from(([224, 0, 0, 1], 80));
    let run = |plan: Plan| engine::run(Plan { timeout: Duration::from_millis(300), ..plan }).unwrap();
    let outcome = run(plan(nowhere, &["/"], 2, Stop::Requests(4)));
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (0, vec![(ErrorKind::Connect, 4)]));
    let url = Url::parse("http://unix:/no/such/socket:/").unwrap();
    let sites = sites(&[url], &RequestOptions::default()).unwrap();
    let outcome = run(Plan::new(sites, 2, Stop::Requests(4)));
    assert_eq!((outcome.stats.responses(), errors(&outcome)), (0, vec![(ErrorKind::Connect, 4)]));
}

/// An address that refuses connections: what is bound to it does not listen, and keeps others from doing so.
fn refusing() -> (SocketAddr, TcpListener) {
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let socket = TcpListener::from(socket);
    (socket.local_addr().unwrap(), socket)
}

#[test]
fn a_refused_connection_is_an_error_and_no_busy_loop() {
    let (refused, _held) = refusing();
    let outcome = engine::run(plan(refused, &["/"], 1, Stop::Requests(3))).unwrap();
    assert_eq!(errors(&outcome), [(ErrorKind::Refused, 3)]);
    assert!(outcome.elapsed >= Duration::from_millis(20));
}

#[test]
fn idle_connections_are_held_until_told() {
    let (address, accepted) = server();
    let (urls, options) = ([Url::parse(&format!("http://{address}/ok")).unwrap()], RequestOptions::default());
    let run = engine::start(Plan::idle(sites(&urls, &options).unwrap(), 300)).unwrap();
    assert!(run.wait_settled(Duration::from_mins(1)));
    thread::sleep(Duration::from_millis(100));
    assert_eq!(accepted.load(Ordering::Relaxed), 300);
    assert_eq!((run.progress().responses, run.progress().errors), (300, 0));
    run.stop();
    assert_eq!(run.join().unwrap().stats.closes, 0);
}

#[test]
fn duration_and_warmup_bound_a_run() {
    let (address, _) = server();
    let warmup = Duration::from_millis(100);
    let plan = Plan {
        warmup,
        order: Order::Random,
        ..plan(address, &["/ok", "/chunked"], 4, Stop::After(Duration::from_millis(200)))
    };
    let run = engine::start(plan).unwrap();
    // What the warm-up brings is shown and does not count.
    while run.progress().responses == 0 && !run.is_over() {
        thread::yield_now();
    }
    let before = run.progress().responses;
    let outcome = run.join().unwrap();
    assert!(outcome.elapsed >= Duration::from_millis(200) && outcome.elapsed < Duration::from_secs(20));
    assert!(before > 0 && outcome.stats.responses() > 0);
    assert_eq!(errors(&outcome), []);
}

/// All requests were answered before the count began: there is nothing to count, however many they were.
#[test]
fn what_is_over_within_the_warm_up_does_not_count() {
    let (address, _) = server();
    for threads in [1, 2] {
        let warmup = Duration::from_mins(10);
        let early = Plan {
            warmup,
            threads,
            record: Some(10),
            series: Some(Duration::from_millis(100)),
            ..plan(address, &["/ok"], 2, Stop::Requests(5))
        };
        let outcome = engine::run(early).unwrap();
        assert_eq!((outcome.stats.responses(), outcome.stats.bytes, outcome.records.len()), (0, 0, 0));
        assert_eq!(outcome.elapsed, Duration::ZERO);
    }
}

#[test]
fn unix_sockets() {
    let path = std::env::temp_dir().join(format!("brisk-load-test-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(socket));
        }
    });
    let url = Url::parse(&format!("http://unix:{}:/ok", path.display())).unwrap();
    let plan = Plan::new(sites(&[url], &RequestOptions::default()).unwrap(), 20, Stop::Requests(200));
    let outcome = engine::run(plan);
    std::fs::remove_file(&path).unwrap();
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stats.responses(), 200);
    assert_eq!(errors(&outcome), []);
}

#[test]
fn an_open_loop_sends_as_many_as_are_due() {
    let (address, _) = server();
    let mut all = plan(address, &["/ok", "/chunked"], 4, Stop::Requests(300));
    all.threads = 2;
    all.rate = Some(Rate::constant(2000.0));
    let outcome = engine::run(all).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (300, 0));

    // A server that closes after each answer, and one that cannot be reached.
    let mut closing = plan(address, &["/last"], 4, Stop::Requests(100));
    closing.rate = Some(Rate::constant(500.0));
    let outcome = engine::run(closing).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (100, 0));
    let (nobody, _held) = refusing();
    let mut refused = plan(nobody, &["/"], 4, Stop::Requests(50));
    refused.rate = Some(Rate::constant(500.0));
    let outcome = engine::run(refused).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors_of(ErrorKind::Refused)), (0, 50));
}

/// What is still waited for at the end counts as well.
#[test]
fn an_open_loop_does_not_forget_the_slow_ones() {
    let (address, _) = server();
    let mut slow = plan(address, &["/slow"], 2, Stop::Requests(10));
    slow.rate = Some(Rate::constant(1000.0));
    slow.timeout = Duration::from_millis(300);
    let outcome = engine::run(slow).unwrap();
    assert_eq!(outcome.stats.responses(), 0);
    assert_eq!(outcome.stats.errors_of(ErrorKind::Timeout) + outcome.stats.unsent, 10);
}

/// Nobody is forgotten because the time was over: neither those who are never answered, nor those in the middle of a handshake.
#[test]
fn a_closed_loop_for_a_time_does_not_forget_the_slow_ones() {
    let (address, _) = server();
    let (time, timeout) = (Duration::from_millis(200), Duration::from_secs(2));
    let slow = Plan { timeout, record: Some(9999), ..plan(address, &["/ok", "/slow"], 4, Stop::After(time)) };
    for pipeline in [1, 3] {
        let outcome = engine::run(Plan { pipeline, ..slow.clone() }).unwrap();
        let lost: Vec<_> = outcome.records.iter().filter(|record| record.error.is_some()).collect();
        let tail = outcome.stats.tail;
        assert_eq!(tail.under_way, lost.len() as u64);
        assert_eq!(errors(&outcome), [(ErrorKind::Timeout, tail.under_way)]);
        assert!(tail.under_way >= 4 && tail.under_way <= 4 * pipeline as u64, "{tail:?}");
        // With the first on a connection, those behind it are given up.
        let patience = |record: &&Record| record.done_ns - record.sent_ns >= 2_000_000_000;
        assert!(pipeline > 1 || lost.iter().all(patience));
        assert_eq!((tail.left, tail.responses()), (0, 0));
        assert!(outcome.elapsed >= time && outcome.elapsed < timeout, "{:?}", outcome.elapsed);
    }
    let tls = Tls {
        context: Arc::new(ClientContext::new(&ClientOptions::unverified()).unwrap()),
        name: "localhost".to_owned(),
    };
    let outcome = engine::run(Plan { tls: Some(tls), ..slow }).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors_of(ErrorKind::Timeout)), (0, 4));
}

/// Whoever stops a run does not wait; how many nobody waited for is known.
#[test]
fn a_run_that_is_stopped_knows_what_it_left() {
    let (address, _) = server();
    let run = engine::start(plan(address, &["/slow"], 3, Stop::After(Duration::from_mins(10)))).unwrap();
    assert!(run.wait_started(Duration::from_mins(1)), "{:?}", run.progress());
    thread::sleep(Duration::from_millis(200));
    run.stop();
    let stats = run.join().unwrap().stats;
    assert_eq!((stats.tail.left, stats.errors(), stats.responses()), (3, 0, 0));
}
