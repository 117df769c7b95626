//! Where logs go: to syslog, to memory, to names that depend on requests, and kept back for a while.

use brisk_testkit::{Builder, Server, wait};
use rustix::process::{Pid, Signal};
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

#[test]
fn lines_that_are_kept_back() {
    let mut server = Builder::new(BIN)
        .http(
            "log_format short $uri; server { listen 127.0.0.1:{{PORT}};
             location /held { access_log {{DIR}}/held.log short buffer=64k; return 204; }
             location /timed { access_log {{DIR}}/timed.log short buffer=64k flush=50ms; return 204; }
             location /full { access_log {{DIR}}/full.log short buffer=10; return 204; }
             location /packed { access_log {{DIR}}/packed.log short gzip flush=50ms; return 204; } }",
        )
        .start();
    // Each thread keeps its own lines back, and a connection stays with its thread.
    let mut client = server.client();
    for place in ["held", "timed", "full", "packed"] {
        assert_eq!(client.get(&format!("/{place}/1")).status, 204);
    }
    wait::holds("the time is over", || server.read("timed.log") == "/timed/1\n");
    assert_eq!(client.get("/full/2").status, 204);
    wait::holds("the buffer is full", || server.read("full.log") == "/full/1\n/full/2\n");
    let packed = || std::fs::read(server.dir().join("packed.log")).unwrap();
    wait::holds("the time is over", || packed().starts_with(b"\x1f\x8b"));
    assert_eq!(server.read("held.log"), "");
    server.end(Signal::QUIT);
    assert_eq!(server.read("held.log"), "/held/1\n", "nothing is lost when the worker ends");
}

#[test]
fn names_that_depend_on_requests() {
    // Such logs are opened by the worker, as in nginx: with its rights.
    let server = Builder::new(BIN)
        .main("user root;")
        .file("html/a", "")
        .http(
            "log_format short $uri; server { listen 127.0.0.1:{{PORT}};
             access_log {{DIR}}/by_$arg_n.log short;
             location /none { root {{DIR}}/none_$arg_n; access_log {{DIR}}/none_$arg_n.log short; return 204; }
             location /file { root {{DIR}}/html/a; access_log {{DIR}}/file_$arg_n.log short; return 204; }
             location /kept { open_log_file_cache max=2 min_uses=1; } }",
        )
        .start();
    server.get("/a?n=x");
    // What is open belongs to a thread, and a connection stays with its thread.
    let mut client = server.client();
    client.get("/kept/1?n=x");
    wait::holds("both are written", || server.read("by_x.log").lines().count() == 2);
    std::fs::rename(server.dir().join("by_x.log"), server.dir().join("moved.log")).unwrap();
    client.get("/kept/2?n=x");
    wait::holds("an open log is where it was moved", || server.read("moved.log") == "/a\n/kept/1\n/kept/2\n");
    server.get("/a?n=x");
    wait::holds("others are opened anew", || server.dir().join("by_x.log").exists());
    server.get("/a?n=/../../x");
    server.wait_for_log("leads out of its folder");
    // Strangers' names make no files, whether the kernel knows that their roots are missing or must look.
    for name in ["p", "q"] {
        assert_eq!(server.get(&format!("/none?n={name}")).status, 204);
        server.wait_for_log(&format!("testing \".*none_{name}\" existence failed"));
        assert!(!server.dir().join(format!("none_{name}.log")).exists());
    }
    assert_eq!(server.get("/file").status, 204);
    server.wait_for_log("testing \".*html/a\" existence failed");
    assert!(!server.dir().join("file_.log").exists());
}

#[test]
fn syslog_over_udp_and_a_unix_socket() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let port = udp.local_addr().unwrap().port();
    let server = Builder::new(BIN)
        .http(&format!(
            "log_format short $uri; server {{ listen 127.0.0.1:{{{{PORT}}}};
             location /u {{ access_log syslog:server=127.0.0.1:{port},tag=web,facility=user,nohostname short; }}
             location /x {{ access_log syslog:server=unix:{{{{DIR}}}}/log.sock,severity=notice short; }}
             location /e {{ error_log syslog:server=127.0.0.1:{port},nohostname; }} }}"
        ))
        .start();
    let mut buffer = [0; 2048];
    let mut message = || {
        let count = udp.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    };
    server.get("/u/1");
    let line = message();
    assert!(line.starts_with("<14>") && line.ends_with(" web: /u/1"), "{line}");
    server.get("/e/none");
    let line = message();
    assert!(line.starts_with("<187>") && line.contains(" nginx: ") && line.contains("[error]"), "{line}");
    // Nobody listens there yet: that stops nothing, and later lines arrive.
    assert_eq!(server.get("/x/1").status, 404);
    let unix = UnixDatagram::bind(server.dir().join("log.sock")).unwrap();
    // The worker may be another user.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(server.dir().join("log.sock"), mode).unwrap();
    unix.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    server.get("/x/2");
    let mut buffer = [0; 2048];
    loop {
        let count = unix.recv(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(&buffer[..count]).into_owned();
        assert!(line.starts_with("<189>"), "{line}");
        if line.ends_with(" nginx: /x/2") {
            break;
        }
    }
}

#[test]
fn memory_keeps_the_newest_messages_over_reloads_and_deaths() {
    let http = "server { listen 127.0.0.1:{{PORT}}; error_log memory:64k; }";
    let server = Builder::new(BIN).http(http).allow_alerts("exited on signal").start();
    let read = |server: &Server| {
        let conf = server.dir().join("brisk.conf");
        let output =
            Command::new(BIN).args(["log", "-p"]).arg(server.dir()).arg("-c").arg(conf).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    server.get("/first");
    assert_eq!(read(&server).matches("/html/first\" failed").count(), 1);
    let conf = server.dir().join("brisk.conf");
    let json = Command::new(BIN)
        .args(["log", "--json", "-p"])
        .arg(server.dir())
        .arg("-c")
        .arg(conf)
        .output()
        .unwrap();
    let json = String::from_utf8(json.stdout).unwrap();
    let last: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert!(last["level"] == "error" && last["message"].as_str().unwrap().contains("/html/first"), "{json}");
    server.reload();
    let worker = server.worker();
    rustix::process::kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::KILL).unwrap();
    server.wait_for_log("exited on signal 9");
    server.get("/second");
    let text = read(&server);
    assert!(text.contains("/html/first") && text.contains("/html/second"), "{text}");
    for half in [0..999, 999..1998] {
        let mut client = server.client();
        half.for_each(|number| assert_eq!(client.get(&format!("/{number}")).status, 404));
    }
    let text = read(&server);
    assert!(text.len() < 90_000 && !text.contains("/html/first") && text.contains("/html/1997"), "{text}");
    assert!(text.starts_with("20") && !text.contains('\0'));
}
