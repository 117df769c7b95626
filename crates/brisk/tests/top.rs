//! `brisk top` beside a running server.

use brisk_testkit::server::{check, text};
use brisk_testkit::{Builder, Server, process, wait};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "upstream app { zone app 64k; server 127.0.0.1:{{PORT2}}; }
    server { listen 127.0.0.1:{{PORT}}; location /dashboard { dashboard; } location / { proxy_pass http://app; } }
    server { listen 127.0.0.1:{{PORT2}}; location / { return 200 hello; } }";

fn top(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(BIN);
    command
        .arg("top")
        .args(args)
        .arg("-p")
        .arg(server.dir())
        .args(["-c", "brisk.conf"])
        .env_remove("NO_COLOR");
    command
}

/// Asks all the time, so that there is something to see.
fn busy<T>(server: &Server, while_this: impl FnOnce() -> T) -> T {
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (flag, mut client) = (is_done.clone(), server.client());
    let asking = std::thread::spawn(move || {
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            assert_eq!(client.get("/some/page").text(), "hello");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let out = while_this();
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    asking.join().unwrap();
    out
}

#[test]
fn one_picture_as_text() {
    let server = Builder::new(BIN).http(SITE).start();
    busy(&server, || {
        wait::holds("the page among the costliest", || {
            text(&top(&server, &["--once"]).output().unwrap().stdout).contains("/some/page ")
        });
        let peers = top(&server, &["--once", "--view", "backends"]).output().unwrap();
        check(&peers, 0, &["requests/s", "Upstream and server", "app 127.0.0.1:\\d+ +up +1 "]);
        let json = top(&server, &["--json"]).output().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(value["own"]["pid"].is_u64() && value["status"].is_object());
    });
}

#[test]
fn a_terminal_is_drawn_into_and_given_back() {
    let server = Builder::new(BIN).http(SITE).start();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let size = rustix::termios::Winsize { ws_row: 30, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&ours, size).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut child = top(&server, &[])
        .env("TERM", "xterm-256color")
        .stdin(open())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    let mut keys = File::from(ours);
    let mut screen = keys.try_clone().unwrap();
    let written = Arc::new(Mutex::new(Vec::new()));
    let shown = written.clone();
    // It ends with an error when the last one who has the terminal open has closed it.
    let reading = std::thread::spawn(move || {
        let mut buf = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut buf) {
            shown.lock().unwrap().extend_from_slice(&buf[..count]);
        }
    });
    let has =
        |what: &str| wait::holds(what, || String::from_utf8_lossy(&written.lock().unwrap()).contains(what));
    // What stands there already is not written again: words that are new as a whole.
    has("Brisk");
    has("ended");
    keys.write_all(b"4").unwrap();
    has("server");
    keys.write_all(b"/no-such\r").unwrap();
    has("contains");
    // Found by reading: nothing was obeyed while a server that hung was asked.
    for process in process::tree(server.pid()) {
        process::stop(process);
    }
    has("answered");
    keys.write_all(b"q").unwrap();
    let ended = wait::within(wait::DEADLINE, || child.try_wait().ok().flatten());
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    // The screen before is shown again.
    has("\x1b[?1049l");
    drop(keys);
    reading.join().unwrap();
    process::tree(server.pid()).into_iter().for_each(|process| process::signal(process, Signal::CONT));
}

#[test]
fn mistakes_have_remedies() {
    let server = Builder::new(BIN).http("server { listen 127.0.0.1:{{PORT}}; }").start();
    check(
        &top(&server, &["--once"]).output().unwrap(),
        1,
        &["no location with \"dashboard\"", "dashboard; }"],
    );
    let elsewhere = format!("http://127.0.0.1:{}/none", server.port());
    let args = ["--once", "--dashboard", &elsewhere];
    check(&top(&server, &args).output().unwrap(), 1, &["status 404 without JSON"]);
    let nowhere = ["--once", "--dashboard", "unix:/none/such:/dashboard"];
    check(
        &top(&server, &nowhere).output().unwrap(),
        1,
        &["no answer from unix:/none/such:/dashboard .*does the server run"],
    );
    check(&top(&server, &["--view", "x"]).output().unwrap(), 1, &["one of urls, clients, locations"]);
}
