//! Overload protection: what a server that is asked for three times as much as it can do still gets done.

use brisk_testkit::{Builder, Server, process, wait};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// Each answer costs the event loop several milliseconds: a regular expression that goes back and forth. No file is looked up: on a
/// tmpfs the kernel remembers no missing names, each request would go to the pool, and those behind it would be let in one by one.
const CONF: &str = r#"
    map $arg_a $slow { volatile; "~^(?:a|aa)+([xy])\1$" 1; default 0; }
    access_log off;
    server {
        listen 127.0.0.1:{{PORT}};
        add_header X0 $connection; add_header X1 $slow; add_header X2 $slow; add_header X3 $slow; add_header X4 $slow;
        location /protected { overload_target 50ms; overload_retry_after 3s; empty_gif; }
        location /custom { overload_target 1ms; overload_status 429; overload_retry_after 0; empty_gif; }
        location /metrics { metrics; }
    }"#;

fn server() -> Server {
    Builder::new(BIN).main("worker_processes 1;").http(CONF).start()
}

fn request(place: &str) -> String {
    format!("GET /{place}?a={} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(22))
}

/// CPU time of the worker, in seconds.
fn cpu(server: &Server) -> f64 {
    process::threads(server.worker()).iter().map(|thread| thread.cpu_ns as f64 / 1e9).sum()
}

/// What came of some requests.
#[derive(Default)]
struct Tally {
    good: AtomicU64,
    refused: AtomicU64,
}

/// Sends requests at a fixed rate, whatever becomes of them, on many connections.
fn open_loop(server: &Server, place: &str, rate: f64, time: Duration, tally: &Tally) {
    const CONNECTIONS: usize = 24;
    let text = request(place);
    std::thread::scope(|scope| {
        for at in 0..CONNECTIONS {
            let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            stream.set_nodelay(true).unwrap();
            let pause = Duration::from_secs_f64(CONNECTIONS as f64 / rate);
            let mut sender = stream.try_clone().unwrap();
            let text = &text;
            scope.spawn(move || {
                let start = Instant::now() + pause.mul_f64(at as f64 / CONNECTIONS as f64);
                let mut next = start;
                while next < start + time {
                    // This is the rate, not a wait for the server.
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    if sender.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                    next += pause;
                }
                let _ = sender.shutdown(std::net::Shutdown::Write);
            });
            scope.spawn(move || count(stream, tally));
        }
    });
}

/// Counts responses until the end.
fn count(mut stream: TcpStream, tally: &Tally) {
    let mut seen = Vec::new();
    let mut buf = [0; 16 << 10];
    while let Ok(read) = stream.read(&mut buf)
        && read > 0
    {
        seen.extend_from_slice(&buf[..read]);
    }
    let text = String::from_utf8_lossy(&seen);
    tally.good.fetch_add(text.matches("HTTP/1.1 200 ").count() as u64, Ordering::Relaxed);
    tally.refused.fetch_add(text.matches("HTTP/1.1 503 ").count() as u64, Ordering::Relaxed);
}

#[test]
fn goodput_stays_at_three_times_the_capacity() {
    let server = server();
    // The peak: answers per second of CPU, with one client after the other. The machine is shared with other tests, so
    // it is not the clock that tells.
    let mut client = server.client();
    let (before, start) = (cpu(&server), Instant::now());
    let answers = 150;
    for _ in 0..answers {
        assert_eq!(client.request(request("protected")).status, 200);
    }
    let peak = f64::from(answers) / (cpu(&server) - before);
    let rate = f64::from(answers) / start.elapsed().as_secs_f64();

    let tally = Tally::default();
    let before = cpu(&server);
    open_loop(&server, "protected", 3.0 * rate.max(peak), Duration::from_secs(3), &tally);
    let good = tally.good.load(Ordering::Relaxed);
    let refused = tally.refused.load(Ordering::Relaxed);
    let goodput = good as f64 / (cpu(&server) - before);
    assert!(refused > good / 2, "{refused} refused, {good} good");
    // A CPU that others use beside it does a tenth less in the same time; without protection it would be a fraction.
    assert!(goodput > 0.75 * peak, "{goodput:.0} answers per second of CPU, {peak:.0} at the peak");
    server.wait_for_log("overloaded: requests wait for ");
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains(&format!("brisk_overload_refused_total {refused}\n")), "{refused}: {metrics}");
}

#[test]
fn who_is_turned_away_is_told_when_to_come_back() {
    let server = server();
    /// Half of the time that they take must be more than the target, on a fast machine, too.
    const BUSY: usize = 600;
    // While these are worked on, whatever else comes waits.
    let busy = request("protected").repeat(BUSY);
    let tell = |place: &str| {
        let (mut first, mut second) = (server.client(), server.client());
        let before = cpu(&server);
        first.send(&busy);
        // It works on them: what comes now is not found in the same look.
        wait::holds("the worker is busy", || cpu(&server) > before + 0.005);
        second.send(request(place).repeat(2));
        let mut responses: Vec<_> = (0..BUSY).map(|_| first.response()).collect();
        responses.extend([second.response(), second.response()]);
        responses.into_iter().find(|response| response.status >= 400)
    };
    // How much of them the server finds in one look is the kernel's matter: once more, if it was all of them.
    let refused = wait::until("a refusal", || tell("protected"));
    assert_eq!((refused.status, refused.header("Retry-After")), (503, Some("3")));
    let refused = wait::until("a refusal with a status of its own", || {
        let mut third = server.client();
        third.send(request("custom").repeat(10));
        let responses: Vec<_> = (0..10).map(|_| third.response()).collect();
        responses.into_iter().find(|response| response.status >= 400)
    });
    assert_eq!((refused.status, refused.header("Retry-After")), (429, None));
}
