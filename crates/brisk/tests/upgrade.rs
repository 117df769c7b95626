//! Changing the binary of a running server (USR2), and taking that back.

use brisk_testkit::load::{Connections, Load, Plan};
use brisk_testkit::{Builder, Server, process, wait};
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str =
    "server { listen 127.0.0.1:{{PORT}}; listen unix:{{DIR}}/s; location /who { return 200 $pid; } }";

fn site() -> Builder {
    Builder::new(BIN).http(SITE)
}

fn load(server: &Server, connections: Connections) -> Load {
    Load::start(&Plan {
        port: server.port(),
        threads: 2,
        connections,
        target: "/who".into(),
        accept: |r| r.status == 200,
    })
}

/// The worker that answered.
fn who(server: &Server) -> u32 {
    server.get("/who").text().parse().expect("a process id")
}

/// Sends USR2 and waits for the new master; gives old and new.
fn upgrade(server: &Server) -> (u32, u32) {
    let old = server.pid();
    server.signal(Signal::USR2);
    wait::holds("the old pid file", || server.read("brisk.pid.oldbin") == format!("{old}\n"));
    let new = wait::until("the new pid file", || {
        server.read("brisk.pid").trim().parse().ok().filter(|&pid: &u32| pid != old)
    });
    (old, new)
}

/// From the old binary to the new one, with connections of every kind, and no request lost.
#[test]
fn an_upgrade_loses_no_request() {
    let server = site().start();
    let loads = [load(&server, Connections::Reused), load(&server, Connections::Fresh)];
    loads.iter().for_each(|load| load.more(50));
    let (old, new) = upgrade(&server);
    assert_eq!(process::link(new, "exe"), process::link(old, "exe"));
    // Both serve now.
    loads.iter().for_each(|load| load.more(50));
    process::signal(old, Signal::QUIT);
    process::wait_gone(process::children(old).into_iter().find(|&pid| pid != new).unwrap_or(old));
    loads.iter().for_each(|load| load.more(50));
    process::wait_gone(old);
    loads.iter().for_each(|load| load.more(50));
    for load in loads {
        load.stop().assert_clean();
    }
    assert!(
        !server.dir().join("brisk.pid.oldbin").exists()
            && !server.dir().join("brisk.pid.oldbin.sock").exists()
    );
    assert_eq!(server.pid(), new);
    assert!(process::children(new).contains(&who(&server)));
    // The new one is a server like any other.
    server.reload();
    assert!(brisk_testkit::Client::connect_unix(&server.dir().join("s")).is_ok());
    server.wait_for_log(&format!("start new binary process {new}"));
}

/// WINCH to the old one ends its workers, HUP brings them back, QUIT to the new one ends the attempt.
#[test]
fn an_upgrade_can_be_taken_back() {
    let server = site().start();
    let loads = [load(&server, Connections::Reused), load(&server, Connections::Fresh)];
    let first = server.worker();
    let (old, new) = upgrade(&server);
    process::signal(old, Signal::WINCH);
    process::wait_gone(first);
    loads.iter().for_each(|load| load.more(50));
    assert!(process::children(new).contains(&who(&server)));
    process::signal(old, Signal::HUP);
    wait::holds("the old binary's worker", || process::children(old).len() == 2);
    process::signal(new, Signal::QUIT);
    process::wait_gone(new);
    wait::holds("the pid file to be the old one's", || server.read("brisk.pid") == format!("{old}\n"));
    loads.iter().for_each(|load| load.more(50));
    for load in loads {
        load.stop().assert_clean();
    }
    assert!(!server.dir().join("brisk.pid.oldbin").exists());
    server.reload();
    assert_ne!(who(&server), first);
    assert!(brisk_testkit::Client::connect_unix(&server.dir().join("s")).is_ok());
}

/// The new binary is told to end while the old one has no worker: it has one again, without being asked for.
#[test]
fn an_upgrade_that_ends_after_winch_leaves_a_worker() {
    let server = site().start();
    let first = server.worker();
    let (old, new) = upgrade(&server);
    process::signal(old, Signal::WINCH);
    process::wait_gone(first);
    process::signal(new, Signal::QUIT);
    process::wait_gone(new);
    assert!(process::children(old).contains(&who(&server)));
}

/// A new binary that cannot start leaves the old one where it was.
#[test]
fn an_upgrade_that_fails_changes_nothing() {
    let server = site().allow_alerts("unknown directive").start();
    let pid = server.pid();
    let first = server.worker();
    server.write("brisk.conf", "events { } http { nonsense on; }");
    let load = load(&server, Connections::Kept);
    server.signal(Signal::USR2);
    server.wait_for_log("the new binary's process has ended");
    wait::holds("the pid file to be back", || server.read("brisk.pid") == format!("{pid}\n"));
    load.more(50);
    load.stop().assert_clean();
    assert_eq!(who(&server), first);
    assert!(!server.dir().join("brisk.pid.oldbin").exists());
    assert_eq!(server.run(&["-s", "reload"]).status.code(), Some(1), "the control socket is back too");
}

/// A second USR2 while the first upgrade is under way does nothing.
#[test]
fn one_upgrade_at_a_time() {
    let server = site().start();
    let (old, new) = upgrade(&server);
    process::signal(old, Signal::USR2);
    server.wait_for_log("changing binary signal is ignored: an upgrade is under way");
    process::signal(new, Signal::USR2);
    server.wait_for_log("changing binary signal is ignored: the old binary's process is there still");
    assert_eq!(server.pid(), new);
    process::signal(old, Signal::QUIT);
    process::wait_gone(old);
    // Once the old one has gone the next may come.
    let (second, third) = upgrade(&server);
    assert_eq!(second, new);
    process::signal(second, Signal::QUIT);
    process::wait_gone(second);
    assert!(process::children(third).contains(&who(&server)));
}

/// systemd is told who the main process is now.
#[test]
fn the_new_master_announces_itself() {
    let builder = site();
    let path = builder.dir().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let server = builder.env("NOTIFY_SOCKET", path.to_str().unwrap()).start();
    let receive = || {
        let mut buf = [0u8; 512];
        let count = socket.recv(&mut buf).expect("a notification");
        String::from_utf8_lossy(&buf[..count]).into_owned()
    };
    assert!(receive().starts_with("READY=1\n"));
    let (old, new) = upgrade(&server);
    assert_eq!(receive(), format!("MAINPID={new}\n"));
    assert!(receive().starts_with("READY=1\n"));
    process::signal(old, Signal::QUIT);
    assert_eq!(receive(), "STOPPING=1\n");
    process::wait_gone(old);
}
