//! What surrounds the server: users and limits, systemd, containers. Tests that need root's rights (CI has them) say so.

use brisk_testkit::server::text;
use brisk_testkit::{Builder, Client, process, wait};
use rustix::process::Signal;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const SITE: &str = "server { listen 127.0.0.1:{{PORT}}; location /who { return 200 one; } }";

fn site() -> Builder {
    Builder::new(BIN).http(SITE).file("html/index.html", "hello")
}

fn needs_root() {
    assert!(process::is_root(), "this test changes users or namespaces: run it as root");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The worker is nobody. It serves from a privileged port and logs to a folder that only root may enter, with a
/// configuration that only root may read; a reload, a configuration broken on disk and a killed worker change nothing.
#[test]
fn what_only_root_may_touch_is_handed_over() {
    needs_root();
    // 127/8 is ours alone to divide: port 80 of an address that no other test has.
    let pid = std::process::id();
    let address = format!("127.{}.{}.1", 64 + (pid >> 8) % 128, pid % 256);
    let conf = "daemon off; user nobody; pid {{DIR}}/brisk.pid; error_log {{DIR}}/secret/error.log info;\n\
         events { } http { include {{DIR}}/secret/site.conf; }";
    let builder = Builder::new(BIN).conf(conf).allow_alerts("exited on signal 9|unexpected end of file");
    let dir = builder.dir().display().to_string();
    let include = format!(
        "access_log {dir}/secret/access.log; root {dir}/html;\n\
         server {{ listen {address}:80; location /who {{ return 200 one; }} }}"
    );
    let mut server =
        builder.file("secret/site.conf", include).file("html/mine", "root's").file("html/all", "everyone's");
    // A port of its own for the helpers that want one.
    let _ = server.fill("{{PORT}}");
    set_mode(&server.dir().join("secret"), 0o700);
    set_mode(&server.dir().join("secret/site.conf"), 0o600);
    set_mode(&server.dir().join("html/mine"), 0o600);
    let server = server.start();
    let get = |target: &str| {
        let mut client = Client::connect_to(format!("{address}:80").parse().unwrap()).unwrap();
        let response = client.get(target);
        (response.status, response.text())
    };
    let worker = server.worker();
    assert_ne!(process::number(worker, "status", "Uid:"), Some(0));
    assert_eq!(process::number(server.pid(), "status", "Uid:"), Some(0));
    assert_eq!(get("/all"), (200, "everyone's".into()));
    assert_eq!(get("/mine").0, 403);
    server.wait_for_line("secret/error.log", r#"open\(\) ".*/html/mine" failed \(13: Permission denied\)"#);
    server.wait_for_line("secret/access.log", r#""GET /mine HTTP/1.1" 403 "#);
    server.reload();
    assert_eq!(get("/who").1, "one");
    server.write("brisk.conf", format!("{}\nbroken {{", server.read("brisk.conf")));
    server.write("secret/site.conf", "broken {");
    let refused = server.run(&["-s", "reload"]);
    assert!(text(&refused.stderr).contains("unexpected end of file"), "{refused:?}");
    process::signal(worker, Signal::KILL);
    process::wait_gone(worker);
    assert_eq!(get("/who").1, "one");
    assert_ne!(process::number(server.worker(), "status", "Uid:"), Some(0));
    // Its logs are still the ones that root has opened.
    server.wait_for_line("secret/access.log", r#""GET /who HTTP/1.1" 200 "#);
    std::fs::rename(server.dir().join("secret/access.log"), server.dir().join("secret/old")).unwrap();
    let reopened = server.run(&["-s", "reopen"]);
    assert!(reopened.status.success(), "{reopened:?}");
    assert_eq!(get("/all").0, 200);
    server.wait_for_line("secret/access.log", "GET /all");
}

#[test]
fn limits_and_places_of_the_worker() {
    needs_root();
    let main = "worker_processes 2; user daemon; worker_rlimit_nofile 700; worker_rlimit_core 1000; worker_priority 7;\n\
                worker_cpu_affinity 01 10; working_directory {{DIR}}/html;";
    let server = site().main(main).start();
    let worker = server.worker();
    let uid_of = |user: &str| {
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
        let line = passwd.lines().find(|line| line.starts_with(&format!("{user}:"))).unwrap();
        line.split(':').nth(2).unwrap().parse::<i64>().unwrap()
    };
    assert_eq!(process::number(worker, "status", "Uid:"), Some(uid_of("daemon")));
    assert_ne!(process::number(worker, "status", "Gid:"), Some(0));
    assert_eq!(
        process::number(worker, "status", "Groups:").filter(|&g| g == 0),
        None,
        "root's groups are gone"
    );
    // For many processes in nginx; here for many threads of one.
    assert_eq!(process::number(worker, "limits", "Max open files"), Some(1400));
    assert_eq!(process::number(worker, "limits", "Max core file size"), Some(1000));
    assert_eq!(process::nice(worker), Some(7));
    assert_eq!(process::nice(server.pid()), process::nice(std::process::id()));
    assert_eq!(process::link(worker, "cwd"), Some(server.dir().join("html")));
    // The first thread only obeys the master.
    let cores = process::cores(worker);
    assert_eq!(cores[1..3], ["0", "1"], "{cores:?}");
}

/// Without the directive there is room for all connections and their files.
#[test]
fn there_are_descriptors_for_all_connections() {
    let server = site().start();
    let limit = process::number(server.worker(), "limits", "Max open files").unwrap();
    assert!(limit >= 2 * 2 * 4096, "{limit}");
}

/// The worker's environment is empty but for TZ and what `env` names: TZ is seen in the log.
#[test]
fn the_time_zone_is_kept() {
    for (main, zone, wanted) in [
        ("", "XYZ-3:30", "+0330"),
        ("env TZ=ABC5;", "XYZ-3:30", "-0500"),
        ("env PATH;", "Europe/Berlin-no-such-zone", "+0000"),
    ] {
        let server = site().main(main).env("TZ", zone).start();
        server.get("/who");
        let line = server.access_lines(1).remove(0);
        assert!(line.contains(&format!(" {wanted}] \"GET /who")), "{main} {line}");
    }
}

#[test]
fn systemd_hears_of_every_step() {
    let builder = site().allow_alerts("unknown directive");
    let path = builder.dir().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let receive = || {
        let mut buf = [0u8; 512];
        let count = socket.recv(&mut buf).expect("a notification");
        String::from_utf8_lossy(&buf[..count]).into_owned()
    };
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
    };
    let mut server = builder.env("NOTIFY_SOCKET", path.to_str().unwrap()).start();
    assert_eq!(receive(), "READY=1\nSTATUS=configuration generation 1\n");
    assert_eq!(server.get("/who").text(), "one", "ready means that it serves");
    let before = monotonic();
    server.reload();
    // Type=notify-reload wants the time at which the reload began.
    let reloading = receive();
    let usec =
        reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{reloading}"));
    let usec: u64 = usec.trim().parse().unwrap();
    assert!(usec >= before && usec <= monotonic(), "{before} {usec}");
    assert_eq!(receive(), "READY=1\nSTATUS=configuration generation 2\n");
    // A refused reload ends too, and the generation says that nothing has changed.
    server.configure_http("bogus on;", SITE);
    server.signal(Signal::HUP);
    assert!(receive().starts_with("RELOADING=1\n"));
    assert_eq!(receive(), "READY=1\nSTATUS=configuration generation 2\n");
    server.end(Signal::QUIT);
    assert_eq!(receive(), "STOPPING=1\n");
}

#[test]
fn systemd_may_listen_outside_the_file_system() {
    use std::os::linux::net::SocketAddrExt as _;
    let name = format!("brisk-test-notify-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let _server = site().env("NOTIFY_SOCKET", &format!("@{name}")).start();
    let mut buf = [0u8; 512];
    let count = socket.recv(&mut buf).unwrap();
    assert!(buf[..count].starts_with(b"READY=1\n"));
}

/// Sockets that systemd has bound are used, not bound again; clients that came before the server are served.
#[test]
fn sockets_are_taken_over_from_systemd() {
    let prepared = site().prepare();
    let listener = TcpListener::bind(("127.0.0.1", prepared.port())).unwrap();
    let mut early = Client::connect(prepared.port());
    early.send("GET /who HTTP/1.1\r\nHost: a\r\n\r\n");
    // The variables must name the process itself, which only exists once it runs: a shell becomes it.
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg("exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$@\"")
        .arg("sh")
        .arg(BIN)
        .args(["-p", prepared.dir().to_str().unwrap(), "-c", "brisk.conf", "-e", "error.log"])
        .stdin(OwnedFd::from(listener));
    let server = prepared.start_with(shell);
    assert_eq!(early.response().text(), "one");
    assert_eq!(server.get("/who").text(), "one");
    server.reload();
    assert_eq!(server.get("/who").text(), "one");
}

/// As process 1 of a container: it waits for orphans, drains on SIGQUIT, and its end is the container's.
#[test]
fn as_process_one() {
    needs_root();
    let prepared = site().file("html/large", vec![b'x'; 8 << 20]).prepare();
    let mut container = Command::new("unshare");
    container
        // The subshell's child outlives it, and so becomes a child of process 1.
        .args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"])
        .arg("(sh -c 'while ! test -e stop; do sleep 0.01; done' &) ; exec \"$@\"")
        .arg("sh")
        .arg(BIN)
        .args(["-p", prepared.dir().to_str().unwrap(), "-c", "brisk.conf", "-e", "error.log"])
        .current_dir(prepared.dir());
    let mut server = prepared.start_with(container);
    assert_eq!(server.read("brisk.pid"), "1\n");
    let unshare = server.child_pid();
    let one = wait::until("process 1", || process::children(unshare).first().copied());
    let orphans = || process::children(one).len();
    wait::holds("worker and orphan", || orphans() == 2);
    server.write("stop", "");
    wait::holds("the orphan to go", || orphans() == 1);
    wait::holds("it to be waited for", || process::zombies(one).is_empty());
    let mut slow = Client::connect_narrow(server.port());
    slow.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(!slow.some(100).unwrap().is_empty());
    process::signal(one, Signal::QUIT);
    wait::holds("connections to be refused", || Client::try_connect(server.port()).is_err());
    let mut count = 100;
    while let Ok(bytes) = slow.some(1 << 20)
        && !bytes.is_empty()
    {
        count += bytes.len();
    }
    assert!(count > 8 << 20, "{count}");
    assert!(server.wait().success(), "the container ends well");
    assert!(!server.dir().join("brisk.pid").exists());
}

/// Where a container's logs go: a pipe, a socket or a file behind /dev/stdout, for a worker that may open none of them.
#[test]
fn logs_to_standard_output_of_every_kind() {
    const CONF: &str = "daemon off; worker_processes 2; pid {{DIR}}/brisk.pid; error_log /dev/stderr info; events { }\n\
        http { access_log /dev/stdout; root {{DIR}}/html; server { listen 127.0.0.1:{{PORT}}; } }";
    type Reader = Box<dyn FnMut() -> String>;
    type Open = fn(&std::path::Path) -> (OwnedFd, Reader);
    let kinds: [(&str, Open); 3] = [
        ("pipe", |_| {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let mut buf = [0u8; 4096];
            let read = move || {
                let count = reader.read(&mut buf).unwrap();
                text(&buf[..count])
            };
            (writer.into(), Box::new(read))
        }),
        ("socket", |_| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.set_read_timeout(Some(wait::DEADLINE)).unwrap();
            let mut buf = [0u8; 4096];
            let read = move || {
                let count = ours.read(&mut buf).unwrap();
                text(&buf[..count])
            };
            (theirs.into(), Box::new(read))
        }),
        ("file", |dir| {
            // One for each stream: two descriptors of one file would write over each other.
            let names = ["stdout", "stderr"].map(|name| dir.join(name));
            let path = names.into_iter().find(|path| !path.exists()).unwrap();
            let file = std::fs::File::create(&path).unwrap();
            set_mode(&path, 0o600);
            let read = move || {
                wait::until("a line", || std::fs::read_to_string(&path).ok().filter(|t| t.ends_with('\n')))
            };
            (file.into(), Box::new(read))
        }),
    ];
    for (kind, make) in kinds {
        let prepared = Builder::new(BIN).conf(CONF).file("html/index.html", "hello").prepare();
        let (stdout, mut read) = make(prepared.dir());
        let (stderr, mut read_error) = make(prepared.dir());
        let mut command = prepared.command(&[]);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let server = prepared.start_with(command);
        assert_eq!(server.get("/").text(), "hello", "{kind}");
        let line = read();
        assert!(line.contains("\"GET / HTTP/1.1\" 200 "), "{kind}: {line}");
        assert_eq!(server.get("/missing").status, 404, "{kind}");
        // Lines about the start come before it, and may come in another read.
        let mut said = String::new();
        wait::until(&format!("the missing file in the error log, {kind}"), || {
            said += &read_error();
            (said.contains("open() \"") && said.contains("/missing\" failed (2: No such file")).then_some(())
        });
        // A reload and a reopened log find the same place again.
        server.reload();
        let reopened = server.run(&["-s", "reopen"]);
        assert!(reopened.status.success(), "{kind}: {reopened:?}");
        assert_eq!(server.get("/again").status, 404, "{kind}");
        wait::holds("the line", || read().contains("GET /again"));
    }
}
