//! HTTP/3 while the server changes: reloads, other numbers of threads, another binary, crashes, stops; and on bad networks.

#[path = "http3_life/load.rs"]
mod load;

use brisk_testkit::quic::{QuicClient, Visitor};
use brisk_testkit::relay::{Relay, Weather};
use brisk_testkit::tls::issue;
use brisk_testkit::{H3Client, Server, process, wait};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = r#"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    server {
        listen 127.0.0.1:{{PORT}} quic;
        listen 127.0.0.1:{{PORT}} ssl;
        server_name a.test;
        location / { return 200 "$pid"; }
        location /file { root html; }
        location /slow { alias html/file; limit_rate 100k; }
        location /slower { alias html/file; limit_rate 10k; }
    }
"#;
/// Without the sockets of QUIC.
const WITHOUT: &str = r"
    ssl_certificate a.crt;
    ssl_certificate_key a.key;
    server { listen 127.0.0.1:{{PORT}} ssl; }
";

const FILE_BYTES: usize = 300_000;

fn start(main: &str) -> (Server, Visitor, SocketAddr) {
    start_site(main, SITE)
}

fn start_site(main: &str, site: &str) -> (Server, Visitor, SocketAddr) {
    let issued = issue("a.test", false, None);
    let server = Server::new(BIN)
        .allow_alerts("exited on signal 9")
        .main(main)
        .http(site)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .file("html/file", "x".repeat(FILE_BYTES))
        .start();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    (server, Visitor::new(&issued.certificate, &["h3"]), address)
}

fn connect(visitor: &Visitor, address: SocketAddr) -> H3Client {
    H3Client::connect(visitor, address, "a.test")
}

/// Clients in the middle of an answer that takes two seconds, each with a request before.
fn busy(visitor: &Visitor, address: SocketAddr, count: usize) -> Vec<(H3Client, u64)> {
    let begin = |_| {
        let mut client = connect(visitor, address);
        assert_eq!(client.get("/").status, 200);
        let stream = client.begin(&client.fields("GET", "a.test", "/slow"), true);
        client.until("head", |client| client.answers.get(&stream).is_some_and(|answer| answer.status == 200));
        (client, stream)
    };
    (0..count).map(begin).collect()
}

/// Every answer comes to its end.
fn assert_complete(busy: Vec<(H3Client, u64)>) {
    let mut all = busy;
    // In turns, so that all of them read.
    let begun = Instant::now();
    let is_over =
        |client: &H3Client, stream: u64| client.answers.get(&stream).is_none_or(|answer| answer.ended);
    while all.iter().any(|(client, stream)| !is_over(client, *stream) && client.quic.end().is_none()) {
        assert!(begun.elapsed() < wait::DEADLINE, "answers do not end");
        all.iter_mut().for_each(|(client, _)| client.turn(Duration::from_millis(2)));
    }
    for (client, stream) in all {
        let answer = &client.answers[&stream];
        assert_eq!((answer.body.len(), answer.ended), (FILE_BYTES, true), "{:?}", client.quic.end());
    }
}

#[test]
fn reloads_touch_nothing() {
    let (server, visitor, address) = start("worker_processes 2;");
    let busy = busy(&visitor, address, 6);
    for _ in 0..10 {
        server.reload();
    }
    assert_complete(busy);
}

#[test]
fn another_number_of_threads_loses_nothing() {
    let (mut server, visitor, address) = start("worker_processes 2;");
    let mut all = Vec::new();
    for threads in [3, 1, 4] {
        all.extend(busy(&visitor, address, 4));
        let before = connect(&visitor, address).get("/").text();
        server.configure_http(&format!("worker_processes {threads};"), SITE);
        server.reload();
        // New connections are the new worker's.
        for _ in 0..4 {
            let who = connect(&visitor, address).get("/").text();
            assert_ne!(who, before, "{threads} threads");
        }
    }
    assert_complete(all);
}

#[test]
fn another_binary_loses_nothing() {
    let (server, visitor, address) = start("worker_processes 2;");
    let first = busy(&visitor, address, 4);
    let old = server.pid();
    server.signal(Signal::USR2);
    let new = wait::until("the new pid file", || {
        server.read("brisk.pid").trim().parse().ok().filter(|&pid: &u32| pid != old)
    });
    let second = busy(&visitor, address, 4);
    process::signal(old, Signal::QUIT);
    assert_complete(first);
    assert_complete(second);
    process::wait_gone(old);
    let who: u32 = connect(&visitor, address).get("/").text().parse().unwrap();
    assert!(process::children(new).contains(&who));
}

#[test]
fn a_stop_finishes_what_has_begun() {
    let (mut server, visitor, address) = start("worker_processes 2;");
    let busy = busy(&visitor, address, 4);
    let mut new = connect(&visitor, address);
    server.signal(Signal::QUIT);
    assert_complete(busy);
    // A connection that has asked nothing before may ask once, and hears that it is to go elsewhere.
    assert_eq!(new.get("/").status, 200);
    new.until("end", |client| client.quic.end().is_some());
    assert!(server.wait().success());
}

#[test]
fn a_socket_that_is_taken_away_finishes_what_has_begun() {
    let (mut server, visitor, address) = start("worker_processes 2;");
    let all = busy(&visitor, address, 4);
    server.configure_http("worker_processes 2;", WITHOUT);
    server.reload();
    assert_complete(all);
    // And may come back.
    server.configure_http("worker_processes 2;", SITE);
    server.reload();
    for _ in 0..8 {
        assert_eq!(connect(&visitor, address).get("/").status, 200);
    }
}

/// The kernel gives packets of new connections to both sockets as long as the old one is held.
#[test]
fn a_socket_that_comes_back_while_the_old_one_is_held_serves() {
    let (mut server, visitor, address) = start("worker_processes 2;");
    let all = busy(&visitor, address, 4);
    server.configure_http("worker_processes 2;", WITHOUT);
    server.reload();
    server.configure_http("worker_processes 2;", SITE);
    server.reload();
    for _ in 0..8 {
        assert_eq!(connect(&visitor, address).get("/").status, 200);
    }
    assert_complete(all);
}

/// The reset's key is the master's, so the client hears of it at once, and comes back.
#[test]
fn after_a_crash_clients_are_back_at_once() {
    let (server, visitor, address) = start("worker_processes 2;");
    let mut clients: Vec<H3Client> = (0..6).map(|_| connect(&visitor, address)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    let first = server.worker();
    process::signal(first, Signal::KILL);
    wait::holds("another worker", || server.workers().iter().any(|pid| *pid != first));
    assert_eq!(connect(&visitor, address).get("/").status, 200);
    for mut client in clients {
        client.begin(&client.fields("GET", "a.test", "/"), true);
        client.until("reset", |client| client.quic.end().is_some());
        // It has heard of it: otherwise its patience would have ended.
        assert_eq!(client.quic.end().as_deref(), Some("reset by peer"));
        assert_eq!(connect(&visitor, address).get("/").status, 200);
    }
    server.wait_for_log("exited on signal 9");
}

/// A worker that takes nothing new any more receives all the same. What begins a connection while there is no other worker, it keeps for
/// the next one: a client that hears nothing waits for a second before it asks again.
#[test]
fn first_packets_between_two_workers_are_kept_for_the_next() {
    let (mut server, visitor, address) = start("worker_processes 2;");
    let mut busy = connect(&visitor, address);
    let stream = busy.begin(&busy.fields("GET", "a.test", "/slower"), true);
    busy.until("head", |client| client.answers.get(&stream).is_some_and(|answer| answer.status == 200));
    let first = server.worker();
    server.configure_http("worker_processes 3;", SITE);
    server.reload();
    let second: u32 = connect(&visitor, address).get("/").text().parse().unwrap();
    assert_ne!(second, first);
    // No other worker begins before the master goes on.
    server.signal(Signal::STOP);
    process::signal(second, Signal::KILL);
    process::wait_gone(second);
    let mut clients: Vec<_> = (0..6).map(|_| visitor.begin(address, "a.test")).collect();
    clients.iter_mut().for_each(QuicClient::flush);
    server.signal(Signal::CONT);
    for client in &mut clients {
        let begun = Instant::now();
        // Nothing is sent again.
        while client.received == 0 {
            assert!(begun.elapsed() < wait::DEADLINE, "the first packets were lost");
            client.hear(Duration::from_millis(50));
        }
        client.wait("a handshake", |client| !client.conn.is_handshaking());
    }
    assert!(process::is_alive(first), "it has an answer to finish");
}

/// What a client answers to a Retry names the worker that has sent that. One that drains meanwhile hands it to the next, which has the keys of the
/// token.
#[test]
fn an_answer_to_a_retry_reaches_the_next_worker() {
    let site = SITE.replace("server {", "quic_retry on; server {");
    let (mut server, visitor, address) = start_site("worker_processes 2;", &site);
    // Before the client that is served has got a token for others.
    let mut clients: Vec<_> = (0..6).map(|_| visitor.begin(address, "a.test")).collect();
    let mut busy = connect(&visitor, address);
    let stream = busy.begin(&busy.fields("GET", "a.test", "/slower"), true);
    busy.until("head", |client| client.answers.get(&stream).is_some_and(|answer| answer.status == 200));
    let first = server.worker();
    for client in &mut clients {
        client.flush();
        wait::holds("the Retry", || {
            client.hear(Duration::from_millis(50));
            client.received > 0
        });
    }
    server.configure_http("worker_processes 3;", &site);
    server.reload();
    for client in &mut clients {
        // Its timers do not come, so that nothing is sent again.
        wait::holds("a handshake", || {
            client.flush();
            client.hear(Duration::from_millis(50));
            !client.conn.is_handshaking()
        });
    }
    assert!(process::is_alive(first), "it has an answer to finish");
}

#[test]
fn a_transfer_survives_a_network_that_changes_ports() {
    let (_server, visitor, address) = start("worker_processes 2;");
    // As often as the interop runner has it, or so often that a short transfer sees it, too.
    let (period, target) = if load::is_long() {
        (Duration::from_secs(5), "/slower")
    } else {
        (Duration::from_millis(300), "/slow")
    };
    let still = Weather { delay: Duration::from_millis(5), ..Weather::default() };
    let relay = Relay::new(address, 3, still);
    let mut client = connect(&visitor, relay.address);
    // RFC 9000 §9: connections move when their handshake is confirmed.
    relay.set(Weather { rebind: Some(period), ..still });
    for _ in 0..2 {
        assert_eq!(client.get(target).body.len(), FILE_BYTES);
    }
    assert_eq!(client.quic.end(), None);
}

#[test]
fn bad_networks_lose_nothing() {
    let (_server, visitor, address) = start("worker_processes 2;");
    let delay = Duration::from_millis(10);
    let weathers = [
        Weather { lost: 100, delay, ..Weather::default() },
        Weather { changed: 50, delay, ..Weather::default() },
        Weather { late: 300, delay, ..Weather::default() },
        Weather { rate: Some((1_000_000, 8_000)), delay, ..Weather::default() },
        Weather {
            lost: 30,
            changed: 20,
            late: 100,
            rebind: Some(Duration::from_millis(500)),
            delay,
            ..Weather::default()
        },
    ];
    for (seed, weather) in (1..).zip(weathers) {
        let relay = Relay::new(address, seed, Weather { rebind: None, ..weather });
        let mut client = connect(&visitor, relay.address);
        relay.set(weather);
        let answer = client.get("/file");
        assert_eq!(answer.body.len(), FILE_BYTES, "{weather:?}: {:?}", client.quic.end());
    }
}
