//! What holds over all threads, however requests come: places, the least busy one, sessions, and the budget for retries.

use crate::BIN;
use brisk_testkit::{Backend, Builder, Server, wait};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Requests that are being worked on, and the most there have been.
#[derive(Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Load {
    fn work(&self, work: impl FnOnce()) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.all.fetch_add(1, Ordering::SeqCst);
        work();
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A gate that all pass once it is open.
type Gate = Arc<(Mutex<bool>, Condvar)>;

fn open(gate: &Gate) {
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

/// A back end that answers when the gate is open.
fn gated(gate: &Gate) -> (Backend, Arc<Load>) {
    let (load, gate) = (Arc::<Load>::default(), gate.clone());
    let loads = load.clone();
    let backend = Backend::start(move |mut peer| {
        while peer.head().is_some() {
            loads.work(|| drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap()));
            peer.answer("ok");
        }
    });
    (backend, load)
}

fn server(http: &str) -> Server {
    let server =
        format!("{http} server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://u; }} }}");
    Builder::new(BIN).main("worker_processes 4;").http(&server).start()
}

/// The lines of a block.
fn servers(backends: &[Backend], parameters: &str) -> String {
    let line = |backend: &Backend| format!("server 127.0.0.1:{} {parameters};", backend.port());
    backends.iter().map(line).collect::<Vec<_>>().concat()
}

#[test]
fn places_are_counted_over_all_threads() {
    let load = Arc::<Load>::default();
    let loads = load.clone();
    let backend = Backend::start(move |mut peer| {
        while peer.head().is_some() {
            loads.work(std::thread::yield_now);
            peer.answer("ok");
        }
    });
    let server = server(&format!(
        "upstream u {{ server 127.0.0.1:{} max_conns=3; queue 100 timeout=60s; }}",
        backend.port()
    ));
    std::thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut client = server.client();
                (0..20).for_each(|_| assert_eq!(client.get("/").text(), "ok"));
            });
        }
    });
    assert_eq!(load.all.load(Ordering::SeqCst), 24 * 20);
    assert!(load.most.load(Ordering::SeqCst) <= 3);
}

/// Of one thread: a place that becomes free is for the one that has waited longest.
#[test]
fn who_waits_for_a_place_is_served_in_the_order_of_coming() {
    let (gate, order) = (Gate::default(), Arc::<Mutex<Vec<String>>>::default());
    let (shut, seen) = (gate.clone(), order.clone());
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            seen.lock().unwrap().push(head.split(' ').nth(1).unwrap().to_string());
            drop(shut.1.wait_while(shut.0.lock().unwrap(), |open| !*open).unwrap());
            peer.answer("ok");
        }
    });
    let text = format!(
        "upstream u {{ server 127.0.0.1:{} max_conns=1; queue 100 timeout=60s; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; location = /metrics {{ metrics; }} location / {{ proxy_pass http://u; }} }}",
        backend.port()
    );
    let server = Builder::new(BIN).main("worker_processes 1;").http(&text).start();
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let line = format!("\nbrisk_upstream_queue{{upstream=\"u\"}} {at}\n");
        wait::holds("one at the back end, the others in the queue", || {
            order.lock().unwrap().len() == 1 && server.get("/metrics").text().contains(&line)
        });
    }
    open(&gate);
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    let want: Vec<String> = (0..8).map(|at| format!("/{at}")).collect();
    assert_eq!(*order.lock().unwrap(), want);
}

#[test]
fn the_least_busy_server_is_the_same_for_all_threads() {
    let gate = Gate::default();
    let (one, load_of_one) = gated(&gate);
    let (two, load_of_two) = gated(&gate);
    let server = server(&format!(
        "upstream u {{ least_conn; server 127.0.0.1:{}; server 127.0.0.1:{}; }}",
        one.port(),
        two.port()
    ));
    let mut clients: Vec<_> = (0..16).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let now = || [&load_of_one, &load_of_two].map(|load| load.now.load(Ordering::SeqCst));
    wait::holds("all to be asked", || now().iter().sum::<usize>() == 16);
    assert_eq!(now(), [8, 8]);
    open(&gate);
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
}

/// Who fails every request of many is not asked as often again on behalf of others.
#[test]
fn a_dying_back_end_does_not_multiply_the_load() {
    const REQUESTS: usize = 4000;
    const CLIENTS: usize = 8;
    let asked = Arc::<AtomicUsize>::default();
    let backends: Vec<Backend> = (0..3)
        .map(|_| {
            let count = asked.clone();
            Backend::start(move |mut peer| {
                while peer.head().is_some() {
                    count.fetch_add(1, Ordering::SeqCst);
                    peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
                }
            })
        })
        .collect();
    let servers = servers(&backends, "max_fails=0");
    let server = server(&format!("upstream u {{ {servers} }} proxy_next_upstream error http_503;"));
    // A lone request may try them all.
    assert_eq!(server.get("/").status, 503);
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                (0..REQUESTS / CLIENTS).for_each(|_| assert_eq!(client.get("/").status, 503));
            });
        }
    });
    // Those that met nobody are free: at the end clients are alone.
    let most = REQUESTS + 100 + REQUESTS / 5 + REQUESTS / 4;
    assert!(asked.load(Ordering::SeqCst) <= most, "{asked:?} of at most {most}");
}

/// Sessions that back ends have begun themselves are learned by all threads.
#[test]
fn sessions_are_learned() {
    let backends: Vec<Backend> = (0..3)
        .map(|own| {
            Backend::start(move |mut peer| {
                while let Some(head) = peer.head() {
                    let begins = !head.contains("Cookie: ");
                    let cookie =
                        if begins { format!("Set-Cookie: sid=s{own}; Path=/\r\n") } else { String::new() };
                    peer.send(format!("HTTP/1.1 200 OK\r\n{cookie}Content-Length: 1\r\n\r\n{own}"));
                }
            })
        })
        .collect();
    let servers = servers(&backends, "");
    let server = server(&format!(
        "upstream u {{ {servers} sticky learn create=$upstream_cookie_sid lookup=$cookie_sid zone=sessions:1m timeout=1h; }}"
    ));
    for _ in 0..3 {
        let first = server.get("/");
        let cookie = first.header("Set-Cookie").unwrap().split(';').next().unwrap().to_string();
        for _ in 0..8 {
            let again = server.request(format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n"
            ));
            assert_eq!(again.text(), first.text());
        }
    }
}

/// Who is asked by which method, as far as two servers and one client show it; `slow_start` and `least_time` among them.
#[test]
fn methods_and_parameters() {
    let (one, two) = (Backend::answering("one"), Backend::answering("two"));
    let answers = |block: &str, count: usize| {
        let block = block.replace("ONE", &one.port().to_string()).replace("TWO", &two.port().to_string());
        let server = server(&format!("upstream u {{ {block} }}"));
        let mut seen: Vec<String> = (0..count).map(|_| server.get("/").text()).collect();
        seen.sort();
        seen.dedup();
        seen
    };
    assert_eq!(answers("ip_hash; server 127.0.0.1:ONE; server 127.0.0.1:TWO;", 6).len(), 1);
    assert_eq!(answers("hash $uri; server 127.0.0.1:ONE; server 127.0.0.1:TWO;", 6).len(), 1);
    assert_eq!(
        answers("random two least_conn; server 127.0.0.1:ONE; server 127.0.0.1:TWO;", 40),
        ["one", "two"]
    );
    assert!(!answers("least_time header; server 127.0.0.1:ONE; server 127.0.0.1:TWO;", 6).is_empty());
    assert_eq!(answers("server 127.0.0.1:ONE down; server 127.0.0.1:TWO;", 4), ["two"]);
    assert_eq!(answers("server 127.0.0.1:ONE; server 127.0.0.1:TWO backup;", 4), ["one"]);
    assert_eq!(answers("server 127.0.0.1:1; server 127.0.0.1:TWO backup;", 4), ["two"]);
    assert_eq!(
        answers("server 127.0.0.1:ONE slow_start=30s; server 127.0.0.1:TWO slow_start=30s;", 8),
        ["one", "two"]
    );
}
