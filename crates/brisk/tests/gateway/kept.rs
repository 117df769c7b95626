//! `fastcgi_keep_conn`: connections are used again, and never keep an application's processes from their work.

use super::{recorder, server};
use brisk_testkit::Application;
use brisk_testkit::application::Speaks;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

#[test]
fn connections_are_used_again() {
    let (app, seen) = recorder(Speaks::FastCgi, 4);
    let server = server(
        &format!("upstream u {{ server {}; keepalive 4; }}", app.address()),
        &[
            ("/kept", "fastcgi_pass u; fastcgi_keep_conn on;".into()),
            ("/closed", "fastcgi_pass u; fastcgi_keep_conn off;".into()),
        ],
    );
    let mut client = server.client();
    for _ in 0..5 {
        assert_eq!(client.get("/kept").text(), "ok");
    }
    assert_eq!((app.connections(), app.requests()), (1, 5));
    assert!(seen.lock().unwrap().iter().all(|asked| asked.keep_conn));
    // The answer to HEAD is not read to its end: that connection is given up.
    client.request("HEAD /kept HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.get("/kept").text(), "ok");
    assert_eq!(app.connections(), 2);
}

/// Idle connections occupy an application's processes. With as many of them as there are processes, every further
/// connection would wait until one is closed for its age.
#[test]
fn idle_connections_give_way_to_those_that_wait() {
    const PROCESSES: usize = 5;
    const CLIENTS: usize = 100;
    const EACH: usize = 20;
    let app = Application::start(Speaks::FastCgi, PROCESSES, |exchange| exchange.stdout("\nok"));
    let server = server(
        &format!("upstream u {{ server {}; keepalive 100; }}", app.address()),
        &[("/", "fastcgi_pass u; fastcgi_keep_conn on; fastcgi_read_timeout 30s;".into())],
    );
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..EACH {
                    assert_eq!(client.get("/").text(), "ok");
                }
            });
        }
    });
    assert_eq!(app.requests(), CLIENTS * EACH);
    // Far less than any connection's idle time: nobody waited for that.
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// Connections in the kernel's queue of a listening socket, as /proc/net/tcp shows them.
fn queued(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let local = format!("0100007F:{port:04X}");
    let mut listening =
        lines.filter(|fields| fields.get(1) == Some(&&*local) && fields.get(3) == Some(&"0A"));
    let queues = listening.next().and_then(|fields| fields[4].split(':').nth(1).map(str::to_string));
    queues.map_or(0, |text| usize::from_str_radix(&text, 16).unwrap())
}

/// The second connection begins to wait when none is idle. The first one becomes idle right after that, when it looks as if
/// the second one was about to be answered.
#[test]
fn a_connection_that_becomes_idle_when_another_has_just_begun_to_wait_gives_way() {
    let port = Arc::new(OnceLock::new());
    let of_application = port.clone();
    let app = Application::start(Speaks::FastCgi, 1, move |exchange| {
        let until = Instant::now() + Duration::from_secs(10);
        while exchange.asked.request == 1 && queued(*of_application.wait()) == 0 && Instant::now() < until {
            std::thread::yield_now();
        }
        // Until the second one waits for its answer, and not past its grace.
        std::thread::sleep(Duration::from_millis(1));
        exchange.stdout("\nok");
    });
    port.set(app.address().rsplit_once(':').unwrap().1.parse::<u16>().unwrap()).unwrap();
    let server = server(
        &format!("upstream u {{ server {}; keepalive 4; keepalive_timeout 40s; }}", app.address()),
        &[("/", "fastcgi_pass u; fastcgi_keep_conn on;".into())],
    );
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(server.get("/").text(), "ok"));
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

/// Those who wait may have come by another way: a location that keeps no connections, another name of the same address.
#[test]
fn idle_connections_give_way_to_other_locations() {
    const PROCESSES: usize = 3;
    let barrier = Arc::new(Barrier::new(PROCESSES));
    let met = Arc::new(AtomicUsize::new(0));
    let app = Application::start(Speaks::FastCgi, PROCESSES, move |exchange| {
        // The first requests meet, so that each has a process of its own.
        if met.fetch_add(1, Ordering::SeqCst) < PROCESSES {
            barrier.wait();
        }
        exchange.stdout("\nok");
    });
    let server = server(
        &format!("upstream u {{ server {}; keepalive 10; }}", app.address()),
        &[
            ("/kept", "fastcgi_pass u; fastcgi_keep_conn on;".into()),
            ("/other", format!("fastcgi_pass {};", app.address())),
        ],
    );
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| assert_eq!(server.get("/kept").text(), "ok"));
        }
    });
    assert_eq!(app.connections(), PROCESSES);
    let begun = Instant::now();
    for _ in 0..=PROCESSES {
        assert_eq!(server.get("/other").text(), "ok");
    }
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}
