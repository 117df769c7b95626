//! Answers from a real memcached, and from back ends that are not one.

use brisk_testkit::ports::{self, Port};
use brisk_testkit::{Backend, Builder, Server, wait};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A memcached of Debian's, which ends with the test.
struct Memcached {
    child: Child,
    port: Port,
}

impl Memcached {
    fn start() -> Memcached {
        let port = ports::claim();
        let mut command = Command::new("memcached");
        command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &port.number.to_string()]);
        if brisk_testkit::process::is_root() {
            command.args(["-u", "nobody"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("memcached is not installed: scripts/setup.sh does that");
        let this = Memcached { child, port };
        wait::holds("memcached's port", || TcpStream::connect(("127.0.0.1", this.port.number)).is_ok());
        this
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// What it says to a command, up to a line that ends with `end`.
    fn ask(&self, command: &[u8], end: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number)).expect("it listens");
        stream.write_all(command).expect("it reads");
        let (mut reader, mut answer) = (BufReader::new(stream), String::new());
        while !answer.trim_end().ends_with(end) {
            assert_ne!(reader.read_line(&mut answer).expect("it answers"), 0, "{answer}");
        }
        answer
    }

    fn set(&self, key: &str, flags: u32, value: &[u8]) {
        let head = format!("set {key} {flags} 0 {}\r\n", value.len());
        self.ask(&[head.as_bytes(), value, b"\r\n"].concat(), "STORED");
    }

    /// Connections that it has accepted, this question's own left out.
    fn connections(&self) -> u64 {
        let stats = self.ask(b"stats\r\n", "END");
        let line = stats.lines().find_map(|line| line.strip_prefix("STAT total_connections "));
        line.and_then(|text| text.trim().parse::<u64>().ok()).expect("a number") - 1
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server(text: &str) -> Server {
    Builder::new(BIN).http(text).start()
}

fn passing(address: &str, directives: &str) -> Server {
    server(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{
            set $memcached_key $uri$is_args$args; memcached_pass {address}; {directives} }} }}"
    ))
}

#[test]
fn a_value_is_the_answer() {
    let memcached = Memcached::start();
    memcached.set("/a.html", 0, b"<p>value</p>");
    memcached.set("/empty", 0, b"");
    memcached.set("/two%20words", 0, b"escaped");
    memcached.set("/%0D%0Adelete%20/a.html", 0, b"one key");
    memcached.set("/?a=%2525", 0, b"twice");
    let large: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    memcached.set("/large", 0, &large);
    let server = passing(&memcached.address(), "memcached_buffer_size 1k;");
    let mut client = server.client();
    let page = client.get("/a.html");
    assert_eq!((page.status, page.text().as_str()), (200, "<p>value</p>"));
    assert_eq!(page.header("Content-Type"), Some("text/html"));
    assert_eq!(client.get("/empty").body, b"");
    assert_eq!(client.get("/two%20words").text(), "escaped");
    assert_eq!(client.get("/%0d%0adelete%20/a.html").text(), "one key");
    assert_eq!(client.get("/?a=%25").text(), "twice");
    assert_eq!(client.get("/large").body, large);
    let part = client.request("GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=251-255\r\n\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &[0, 1, 2, 3, 4][..]));
    let head = client.request("HEAD /a.html HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((head.status, head.header("Content-Length")), (200, Some("12")));
    assert_eq!(
        client.request("POST /a.html HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc").status,
        405
    );
    assert_eq!(client.get("/a.html").status, 200);
}

#[test]
fn what_is_not_there_is_the_servers_own_404_or_its_error_page() {
    let memcached = Memcached::start();
    let plain = passing(&memcached.address(), "");
    let missing = plain.get("/missing");
    assert_eq!(missing.status, 404);
    assert!(missing.text().contains("404 Not Found"), "{}", missing.text());
    // memcached would call it an error; it is not there either.
    assert_eq!(plain.get(&format!("/{}", "k".repeat(250))).status, 404);
    memcached.set(&format!("/{}", "k".repeat(249)), 0, b"longest");
    assert_eq!(plain.get(&format!("/{}", "k".repeat(249))).text(), "longest");
    let server = server(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}};
            location / {{ set $memcached_key $arg_key; memcached_pass {}; error_page 404 = @made; }}
            location @made {{ return 200 made; }} }}",
        memcached.address()
    ));
    assert_eq!(server.get("/?key=missing").text(), "made");
    assert_eq!(server.get("/").status, 500);
    server.wait_for_log("the \"\\$memcached_key\" variable is not set");
}

#[test]
fn connections_are_kept() {
    let memcached = Memcached::start();
    memcached.set("/a", 0, b"value");
    let server = server(&format!(
        "upstream group {{ server {}; keepalive 4; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; set $memcached_key $uri; memcached_socket_keepalive on;
            location / {{ memcached_pass group; }} }}",
        memcached.address()
    ));
    let mut client = server.client();
    let before = memcached.connections();
    for _ in 0..5 {
        assert_eq!(client.get("/a").text(), "value");
        assert_eq!(client.get("/missing").status, 404);
    }
    // One of the server's, and that of the first question.
    assert_eq!(memcached.connections() - before, 2);
}

#[test]
fn flags_say_that_a_value_is_compressed() {
    let memcached = Memcached::start();
    let mut gzip =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(b"compressed once").unwrap();
    let value = gzip.wait_with_output().unwrap().stdout;
    memcached.set("/flagged", 2, &value);
    memcached.set("/other", 4, &value);
    let server = passing(&memcached.address(), "memcached_gzip_flag 2; gunzip on;");
    let get = |target: &str, coding: &str| {
        server.request(format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n"))
    };
    let coded = get("/flagged", "gzip");
    assert_eq!((coded.header("Content-Encoding"), &coded.body), (Some("gzip"), &value));
    assert_eq!(get("/flagged", "identity").text(), "compressed once");
    assert_eq!((get("/other", "gzip").header("Content-Encoding"), get("/other", "gzip").body), (None, value));
}

/// A back end whose answer to `get` is always this one.
fn answering(answer: &'static str) -> Backend {
    Backend::start(move |mut peer| {
        while peer.line().starts_with("get ") {
            if !peer.send(answer) {
                return;
            }
        }
    })
}

#[test]
fn another_server_is_asked_for_what_one_does_not_have() {
    let (without, with) = (answering("END\r\n"), answering("VALUE /a 0 4\r\nhere\r\nEND\r\n"));
    let broken = answering("SERVER_ERROR out of memory\r\n");
    let group = |name: &str, first: u16, second: u16| {
        format!(
            "upstream {name} {{ server 127.0.0.1:{first} max_fails=0; server 127.0.0.1:{second} backup max_fails=0; }}"
        )
    };
    let server = server(&format!(
        "{} {} server {{ listen 127.0.0.1:{{{{PORT}}}}; set $memcached_key /a; memcached_bind 127.0.0.1;
            memcached_connect_timeout 10s; memcached_send_timeout 10s; memcached_read_timeout 10s;
            location /strict {{ memcached_pass missing; }}
            location /next {{ memcached_pass missing; memcached_next_upstream not_found; }}
            location /once {{ memcached_pass missing; memcached_next_upstream not_found; memcached_next_upstream_tries 1; }}
            location /timed {{ memcached_pass missing; memcached_next_upstream not_found; memcached_next_upstream_timeout 10s; }}
            location /broken {{ memcached_pass broken; }}
            location /mended {{ memcached_pass broken; memcached_next_upstream invalid_response; }} }}",
        group("missing", without.port(), with.port()),
        group("broken", broken.port(), with.port()),
    ));
    let check = |target: &str, status: u16| {
        let got = server.get(target).status;
        assert_eq!(got, status, "{target}: {}", server.error_log());
    };
    check("/strict", 404);
    check("/next", 200);
    check("/once", 404);
    check("/timed", 200);
    check("/broken", 502);
    server.wait_for_log("memcached sent invalid response: \"SERVER_ERROR out of memory\"");
    check("/mended", 200);
}

/// Lengths and trailers that are wrong neither end the process nor show a client what belongs to another answer.
#[test]
fn back_ends_that_break_the_rules_cost_a_connection() {
    let get = |answer: &'static str| {
        let backend = answering(answer);
        let server = passing(&format!("127.0.0.1:{}", backend.port()), "memcached_buffer_size 1k;");
        let response = server.client().get("/k");
        (response.status, response.text(), server)
    };
    let (status, text, server) = get("VALUE /k 0 3\r\nabcEND\r\nVALUE /secret 0 1\r\nx\r\nEND\r\n");
    assert_eq!((status, text.as_str()), (200, "abc"));
    server.wait_for_log("memcached sent invalid trailer");
    for (answer, said) in [
        ("VALUE /other 0 1\r\na\r\nEND\r\n", "sent invalid key in response"),
        ("VALUE /k 0 18446744073709551617\r\n", "sent invalid length in response"),
        ("VALUE /k 0 -1\r\n", "sent invalid length in response"),
    ] {
        let (status, _, server) = get(answer);
        assert_eq!(status, 502, "{answer}");
        server.wait_for_log(said);
    }
    let long: &'static str = Box::leak(format!("VALUE /k {} 1", "0".repeat(2000)).into_boxed_str());
    let (status, _, server) = get(long);
    assert_eq!(status, 502);
    server.wait_for_log("upstream sent too big header");
}
