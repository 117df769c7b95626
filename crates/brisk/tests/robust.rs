//! What goes wrong around the server, or within: too few descriptors, too many connections, a disk that stalls, a
//! handler that panics. Each may cost what it concerns, and nothing else.

use brisk_testkit::client::Ending;
use brisk_testkit::{Builder, Client, Server, process, wait};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; keepalive_requests 1000000; location /who { return 200 one; }\n\
                    location /nolinks/ { alias {{DIR}}/html/; disable_symlinks on; } }";

fn site() -> Builder {
    Builder::new(BIN)
        .http(SITE)
        .file("html/index.html", "hello")
        .file("html/a", "warm")
        .file("html/slow/small", "slow")
        .file("html/slow/large", vec![b'x'; 100_000])
        .file("html/bad/small", "bad")
        .file("html/bad/large", vec![b'x'; 100_000])
}

/// A site where looking at files below a folder goes wrong as ordered. Only builds with debug assertions can.
#[cfg(debug_assertions)]
fn faulty(main: &str, orders: &[(&str, &str)]) -> Builder {
    let builder = site();
    let dir = builder.dir().display().to_string();
    let orders: Vec<String> = orders.iter().map(|(kind, path)| format!("{kind}={dir}/html/{path}")).collect();
    builder.main(&format!("env BRISK_FAULTS; {main}")).env("BRISK_FAULTS", &orders.join(";"))
}

/// Its end does not mean that there is room in its socket.
#[test]
fn a_client_that_has_said_all_and_takes_nothing_holds_nobody_up() {
    const BYTES: usize = 30 << 20;
    let server = site().file("html/huge", vec![b'x'; BYTES]).main("worker_processes 1;").start();
    let mut slow = Client::connect_narrow(server.port());
    slow.send("GET /huge HTTP/1.1\r\nHost: a\r\n\r\n");
    slow.half_close();
    slow.wait_for("\r\n\r\n");
    for _ in 0..10 {
        assert_eq!(server.get("/who").text(), "one");
    }
    assert_eq!(slow.response().body.len(), BYTES);
}

/// A disk that does not answer for two seconds delays who wants something from it, and nobody else.
#[cfg(debug_assertions)]
#[test]
fn a_disk_that_stalls_delays_its_own_requests_only() {
    let server = faulty("worker_processes 1;", &[("stall:2000", "slow/")]).start();
    // What was looked at before is in the kernel's memory, also that it is missing.
    let quick = ["/a", "/who", "/missing", "/nolinks/a"];
    quick.iter().for_each(|target| drop(server.get(target)));
    // More of them than the pool has threads, of every kind.
    let targets = ["/slow/small", "/slow/large", "/slow/missing", "/slow/", "/nolinks/slow/small", "/slow"];
    let begin = Instant::now();
    let mut slow: Vec<(&str, Client)> = targets
        .iter()
        .cycle()
        .take(36)
        .map(|target| {
            let mut client = server.client();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            (*target, client)
        })
        .collect();
    let mut others = server.client();
    let mut rounds = 0;
    while begin.elapsed() < Duration::from_millis(1800) {
        for target in quick {
            let response = others.get(target);
            assert!(matches!(response.status, 200 | 404), "{}", response.head);
        }
        rounds += 1;
    }
    // Whoever waits for that disk has an answer after two seconds: there would be one round. How many there are beyond that is the
    // test machine's own doing.
    assert!(rounds > 8, "others wait: they were asked {rounds} times");
    // In the end each has its answer, and not before its time.
    for (target, client) in &mut slow {
        let response = client.response();
        match *target {
            "/slow/small" | "/nolinks/slow/small" => assert_eq!(response.text(), "slow"),
            "/slow/large" => assert_eq!(response.body.len(), 100_000),
            "/slow" => assert_eq!(response.status, 301),
            "/slow/" => assert_eq!(response.status, 403, "{}", response.head),
            _ => assert_eq!(response.status, 404),
        }
    }
    assert!(begin.elapsed() >= Duration::from_secs(2));
}

/// What panics: on the event loop, in a connection's task, on the pool.
#[cfg(debug_assertions)]
#[test]
fn a_panic_costs_one_connection() {
    let orders = [("panic", "bad/small"), ("panic-read", "bad/large"), ("panic-pool", "bad/missing")];
    let server = faulty("worker_processes 1;", &orders).allow_alerts("a handler panicked").start();
    let worker = server.worker();
    let mut idle = server.client();
    assert_eq!(idle.get("/who").text(), "one");
    let mut busy = server.client();
    busy.send("GET /a HTTP/1.1\r\nHost: a\r\n");
    for target in ["/bad/small", "/bad/large", "/bad/missing"] {
        for round in 0..3 {
            let mut client = server.client();
            // Pipelined behind a good request, whose answer may be lost with it, but nothing else.
            let lead = if round == 1 { "GET /who HTTP/1.1\r\nHost: a\r\n\r\n" } else { "" };
            client.send(format!("{lead}GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            wait::holds("the connection's end", || match client.ending(wait::DEADLINE) {
                Ending::Data => client.some(4096).is_err(),
                ending => ending != Ending::Open,
            });
            assert_eq!(idle.get("/who").text(), "one");
        }
    }
    busy.send("\r\n");
    assert_eq!(busy.response().text(), "warm");
    wait::holds("a line for each", || {
        server.error_log().matches("a handler panicked; its connection is closed").count() == 9
    });
    assert_eq!(server.worker(), worker, "the process goes on");
    // Their places are free again: nothing counts them.
    drop((idle, busy));
    server.signal(rustix::process::Signal::QUIT);
    process::wait_gone(worker);
}

/// Out of descriptors: what has one is served, the rest waits in the kernel until some are free.
#[test]
fn without_descriptors_accepting_pauses_and_recovers() {
    let server = site().main("worker_processes 1; worker_rlimit_nofile 64;").start();
    let mut first = server.client();
    assert_eq!(first.get("/who").text(), "one");
    let mut all: Vec<Client> = (0..80).map(|_| server.client()).collect();
    for client in &mut all {
        client.send("GET /who HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.wait_for_log(r"\[crit\] .*accept4\(\) failed \(24: Too many open files\)");
    assert_eq!(first.get("/who").text(), "one");
    // A file needs a descriptor too: the client is told, and can try again.
    assert_eq!(first.get("/index.html").status, 500);
    first.expect_closed();
    server.wait_for_log(r"open\(\) .* failed \(24: Too many open files\)");
    let mut waiting = all.split_off(40);
    for mut client in all {
        assert_eq!(client.response().text(), "one");
    }
    // Those have gone now.
    for client in &mut waiting {
        assert_eq!(client.response().text(), "one");
    }
    drop(waiting);
    wait::holds("a free descriptor", || {
        server.client().try_get("/index.html").is_ok_and(|r| r.text() == "hello")
    });
    // It does not say so for each connection and each try.
    assert!(server.error_log().matches("accept4() failed").count() < 20, "{}", server.error_log());
}

/// `worker_connections` counts per thread; those above are closed, and that is an alert.
#[test]
fn connections_have_a_limit() {
    let server = site()
        .main("worker_processes 2; events { worker_connections 10; }")
        .allow_alerts("10 worker_connections are not enough")
        .start();
    let mut all: Vec<Client> = (0..20).map(|_| server.client()).collect();
    for client in &mut all {
        assert_eq!(client.get("/who").text(), "one");
    }
    assert_ne!(server.client().ending(wait::DEADLINE), Ending::Open);
    server.wait_for_log("10 worker_connections are not enough");
    drop(all);
    wait::holds("a free place", || server.client().try_get("/who").is_ok());
}

/// Descriptors that each event loop watches for connections: beside its mailbox and its listening socket.
fn spread(server: &Server) -> Vec<usize> {
    process::watched(server.worker()).into_iter().map(|count| count - 2).collect()
}

/// The busiest thread has at most 1.2 times the mean, whether connections come one by one or all at once, and stay so
/// when some go.
#[test]
fn connections_are_spread_evenly() {
    let server = site().start();
    let even = |what: &str, count: usize| {
        let loads =
            wait::until(what, || Some(spread(&server)).filter(|loads| loads.iter().sum::<usize>() == count));
        assert_eq!(loads.len(), 2);
        assert!(loads[1] * 2 * 10 <= count * 12, "{what}: {loads:?}");
    };
    let mut all: Vec<Client> = (0..200)
        .map(|_| {
            let mut client = server.client();
            assert_eq!(client.get("/who").text(), "one");
            client
        })
        .collect();
    even("one by one", 200);
    let mut at_once: Vec<Client> = (0..200).map(|_| server.client()).collect();
    at_once.iter_mut().for_each(|client| assert_eq!(client.get("/who").text(), "one"));
    even("all at once", 400);
    // Every second one goes, whichever thread has it; new ones fill the gaps.
    let mut keep = false;
    all.retain(|_| {
        keep = !keep;
        keep
    });
    wait::holds("them to be gone", || spread(&server).iter().sum::<usize>() == 300);
    all.extend((0..100).map(|_| {
        let mut client = server.client();
        client.get("/who");
        client
    }));
    even("after some have gone", 400);
}

/// A connection wakes one thread, not all that listen.
#[test]
fn a_connection_wakes_one_thread() {
    const THREADS: u64 = 8;
    const CONNECTIONS: u64 = 300;
    let server = site().main(&format!("worker_processes {THREADS};")).start();
    server.get("/who");
    let worker = server.worker();
    let before = process::sleeps(worker, "brisk-");
    for _ in 0..CONNECTIONS {
        assert_eq!(server.get("/who").text(), "one");
    }
    let each = (process::sleeps(worker, "brisk-") - before) as f64 / CONNECTIONS as f64;
    // Accepting, reading and closing may each be a wake-up of its own, on one thread or two.
    assert!(each < 5.0, "{each:.1} wake-ups for each connection");
}

#[test]
fn thousands_of_idle_connections() {
    process::raise_descriptor_limit();
    const COUNT: usize = 2_000;
    let server = site().start();
    server.get("/a");
    let before = process::rss_kib(server.worker());
    let mut all: Vec<Client> = (0..COUNT).map(|_| server.client()).collect();
    for client in &mut all {
        assert_eq!(client.get("/a").text(), "warm");
    }
    let each = (process::rss_kib(server.worker()).saturating_sub(before) * 1024) as usize / COUNT;
    println!("{each} bytes of resident memory for each of {COUNT} idle connections");
    // All are alive, in any order.
    for client in all.iter_mut().rev() {
        assert_eq!(client.get("/who").text(), "one");
    }
    server.reload();
    assert_eq!(all[COUNT / 2].get("/who").text(), "one");
    server.signal(rustix::process::Signal::QUIT);
    for client in &mut all {
        client.expect_closed();
    }
}

/// Slow clients by the hundred: each has its deadline, and none keeps others waiting.
#[test]
fn slow_clients_are_closed_in_time() {
    let http = format!("client_header_timeout 1s; client_body_timeout 1s; {SITE}");
    let server = Builder::new(BIN).http(&http).start();
    let begin = Instant::now();
    let mut slow: Vec<Client> = (0..300)
        .map(|number| {
            let mut client = server.client();
            client.send(match number % 3 {
                0 => "",
                1 => "GET / HT",
                _ => "GET / HTTP/1.1\r\nHost: a\r\nX: ",
            });
            client
        })
        .collect();
    assert_eq!(server.get("/who").text(), "one");
    for client in &mut slow {
        client.expect_closed();
    }
    assert!(begin.elapsed() >= Duration::from_millis(900), "{:?}", begin.elapsed());
    assert_eq!(server.get("/who").text(), "one");
}

/// The page's own error leads to the page again.
#[test]
fn an_error_page_that_fails_itself_ends() {
    let conf = "server { listen 127.0.0.1:{{PORT}}; recursive_error_pages on; error_page 404 500 /x; error_page 502 @y;
        location / { return 404; } location /y { return 502; } location @y { return 502; } }";
    let server = Builder::new(BIN).http(conf).start();
    for target in ["/", "/y"] {
        assert_eq!(server.get(target).status, 500, "{target}");
    }
}
