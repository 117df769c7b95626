//! Connections that are kept: whose they are, how many, and who may use them.

use crate::BIN;
use brisk_testkit::{Backend, Builder, Server, wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A back end that counts the connections that are open.
fn counting() -> (Backend, Arc<AtomicUsize>) {
    let open = Arc::<AtomicUsize>::default();
    let count = open.clone();
    let backend = Backend::start(move |mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        while peer.head().is_some() && peer.answer("ok") {}
        count.fetch_sub(1, Ordering::SeqCst);
    });
    (backend, open)
}

fn server(port: u16, main: &str, block: &str, locations: &str) -> Server {
    let http = format!(
        "upstream u {{ server 127.0.0.1:{port}; {block} }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; {locations} }}"
    );
    Builder::new(BIN).main(main).http(&http).start()
}

/// Each of these clients is another thread's: connections go to the thread that has the fewest. A thread that is busy is not
/// waited for, so this may take more than one attempt.
#[test]
fn a_thread_without_a_connection_takes_anothers() {
    let (backend, _) = counting();
    let connections = || {
        let locations = "location / { proxy_pass http://u; }";
        let server = server(backend.port(), "worker_processes 4;", "keepalive 8;", locations);
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        let before = backend.connections();
        for _ in 0..3 {
            for client in &mut clients {
                assert_eq!(client.get("/").text(), "ok");
            }
        }
        backend.connections() - before
    };
    wait::holds("one connection to be passed on by all", || connections() == 1);
}

/// As nginx's old workers close theirs. Each reload would otherwise leave its connections open until they time out.
#[test]
fn idle_connections_end_with_their_configuration() {
    let (backend, open) = counting();
    let block = "keepalive 8; keepalive_timeout 1h;";
    let server = server(backend.port(), "worker_processes 4;", block, "location / { proxy_pass http://u; }");
    for _ in 0..3 {
        (0..8).for_each(|_| assert_eq!(server.get("/").text(), "ok"));
        assert!(open.load(Ordering::SeqCst) > 0);
        server.reload();
        wait::holds("the connections to be closed", || open.load(Ordering::SeqCst) == 0);
    }
    assert_eq!(server.get("/").text(), "ok");
}

#[test]
fn idle_connections_are_bounded_over_all_threads() {
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (open, met) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (count, meets) = (open.clone(), met.clone());
    let backend = Backend::start(move |mut peer| {
        count.fetch_add(1, Ordering::SeqCst);
        while peer.head().is_some() {
            meets.fetch_add(1, Ordering::SeqCst);
            let _ = gate.lock().unwrap().recv();
            if !peer.answer("ok") {
                break;
            }
        }
        count.fetch_sub(1, Ordering::SeqCst);
    });
    let server =
        server(backend.port(), "worker_processes 4;", "keepalive 3;", "location / { proxy_pass http://u; }");
    let mut clients: Vec<_> = (0..12).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    wait::holds("all to be asked", || met.load(Ordering::SeqCst) == 12);
    (0..12).for_each(|_| go.send(()).unwrap());
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    wait::holds("the others to be closed", || open.load(Ordering::SeqCst) <= 3);
    assert!(open.load(Ordering::SeqCst) >= 1);
}

/// Whatever makes a connection another one: where it comes from, whose it is.
#[test]
fn connections_serve_only_what_they_were_made_for() {
    let (backend, _) = counting();
    let locations = "location /one { proxy_pass http://u; proxy_bind 127.0.0.2; }
        location /two { proxy_pass http://u; proxy_bind 127.0.0.3; }
        location /three { proxy_pass http://u; proxy_bind $arg_from; }";
    let bound = server(backend.port(), "worker_processes 1;", "keepalive 8;", locations);
    for target in ["/one", "/two", "/three?from=127.0.0.2", "/three?from=127.0.0.4"] {
        assert_eq!(bound.get(target).text(), "ok");
    }
    let from: Vec<String> = backend.addresses().iter().map(|address| address.ip().to_string()).collect();
    assert_eq!(from, ["127.0.0.2", "127.0.0.3", "127.0.0.4"]);

    let (backend, _) = counting();
    let locations = "location /one { proxy_pass http://u; } location /two { proxy_pass http://u; }";
    for (block, connections) in [("keepalive 8;", 1), ("keepalive 8 local;", 2), ("", 2), ("keepalive 0;", 4)]
    {
        let before = backend.connections();
        let server = server(backend.port(), "worker_processes 1;", block, locations);
        for target in ["/one", "/two", "/one", "/two"] {
            assert_eq!(server.get(target).text(), "ok");
        }
        assert_eq!(backend.connections() - before, connections, "{block}");
    }
}
