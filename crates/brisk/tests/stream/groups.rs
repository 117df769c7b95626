//! Groups of `stream`: health checks, the API, metrics, and servers that come and go.

use crate::{BIN, conf, echo, exchange, udp_client};
use brisk_testkit::backend::Backend;
use brisk_testkit::{Builder, Client, Server, ports, wait};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which back end answers a new session.
fn who(port: u16) -> String {
    let mut client = Client::connect(port);
    client.send("x");
    String::from_utf8(client.some(64).unwrap_or_default()).unwrap()
}

/// A back end that answers `PING` with `+PONG` while it is well and with `-ERR` while it is not, and anything else with its name.
fn pinged(name: &'static str) -> (Backend, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let well = is_well.clone();
    let backend = Backend::start(move |mut peer| {
        let answer = match &*peer.some() {
            b"" => return,
            b"PING\r\n" if well.load(Ordering::Relaxed) => "+PONG\r\n",
            b"PING\r\n" => "-ERR\r\n",
            _ => name,
        };
        peer.send(answer);
        peer.drain();
    });
    (backend, is_well)
}

/// HTTP beside `stream`, for the API and the metrics, at the first port.
fn with_api(stream: &str) -> Builder {
    let http = "http { access_log off; server { listen 127.0.0.1:{{PORT}};
        location /api { api write=on; } location = /metrics { metrics; } } }";
    Builder::new(BIN).conf(&(conf(stream) + http))
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let answer = server.request(format!(
        "{method} /api/9/stream/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    (answer.status, serde_json::from_str(&answer.text()).unwrap())
}

fn peers(server: &Server, group: &str) -> Value {
    call(server, "GET", &format!("upstreams/{group}"), "").1["peers"].clone()
}

#[test]
fn who_fails_its_check_gets_no_sessions_until_it_passes() {
    let ((one, is_well), (two, _)) = (pinged("one"), pinged("two"));
    let server = with_api(&format!(
        r#"match ping {{ send "PING\x0d\n"; expect "+PONG"; }}
        upstream u {{ zone z 64k; server 127.0.0.1:{}; server 127.0.0.1:{}; }}
        server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; health_check interval=20ms jitter=1ms fails=2 passes=2 mandatory match=ping; }}"#,
        one.port(),
        two.port()
    ))
    .start();
    let answers = || [who(server.port_of(2)), who(server.port_of(2))];
    let both = || {
        wait::holds("both are well", || {
            answers().iter().all(|name| !name.is_empty()) && answers().contains(&"one".into())
        });
    };
    both();
    is_well.store(false, Ordering::Relaxed);
    server.wait_for_log(
        "peer is unhealthy while health checking, health check failed: the answer does not match",
    );
    assert_eq!(answers(), ["two", "two"]);
    assert_eq!(peers(&server, "u")[0]["state"], "unhealthy");
    // A reload does not make it well. The other one is asked anew, too (`mandatory`).
    server.reload();
    wait::holds("the other one is well", || who(server.port_of(2)) == "two");
    assert_eq!(answers(), ["two", "two"]);
    is_well.store(true, Ordering::Relaxed);
    server.wait_for_log("peer is healthy while health checking");
    both();
}

/// Without `match` it is enough that a connection is made; one that is not is found before a session is.
#[test]
fn a_server_that_is_not_there_is_found() {
    let there = echo("e:");
    let server = with_api(&format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:{}; server 127.0.0.1:{} max_fails=0; }}
         upstream v {{ zone z; server 127.0.0.1:{0}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; health_check interval=20ms; }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}}; proxy_pass v; health_check interval=20ms port={1}; }}",
        there.port(),
        ports::unused()
    ))
    .start();
    wait::holds("it is found", || peers(&server, "u")[1]["state"] == "unhealthy");
    wait::holds("the other port is asked", || peers(&server, "v")[0]["state"] == "unhealthy");
    for _ in 0..3 {
        assert_eq!(who(server.port_of(2)), "e:x");
    }
    assert_eq!(who(server.port_of(3)), "");
}

#[test]
fn datagrams_are_asked_by_datagrams() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buf = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            let answer: &[u8] = if buf[..len] == [1, 255] { b"well" } else { b"hello" };
            let _ = socket.send_to(answer, from);
        }
    });
    let server = with_api(&format!(
        r"match bytes {{ send \x01\xff; expect ~* ^WELL$; }} match wrong {{ expect else; }} health_check_timeout 5s;
        upstream u {{ zone z 64k; server 127.0.0.1:{port}; server 127.0.0.1:{}; }}
        upstream v {{ zone z; server 127.0.0.1:{port}; }}
        upstream w {{ zone z; server 127.0.0.1:{port}; }}
        server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_responses 1; proxy_pass u; health_check udp interval=20ms mandatory match=bytes; }}
        server {{ listen 127.0.0.1:{{{{PORT3}}}} udp; proxy_responses 1; proxy_pass v; health_check udp interval=20ms mandatory; }}
        server {{ listen 127.0.0.1:{{{{PORT4}}}} udp; proxy_responses 1; proxy_pass w; health_check udp interval=20ms match=wrong; }}",
        ports::unused()
    ))
    .start();
    let state = |group: &str, at: usize| peers(&server, group)[at]["state"].clone();
    wait::holds("each has its state", || {
        [state("u", 0), state("u", 1), state("v", 0), state("w", 0)] == ["up", "unhealthy", "up", "unhealthy"]
    });
    assert_eq!(exchange(&udp_client(server.port_of(2)), "x"), "hello");
    server.wait_for_log("recv\\(\\) failed \\(111: Connection refused\\)");
}

/// nginx's pattern for DNS: a server of TCP and one of UDP of one group, each with its check.
#[test]
fn a_check_of_one_protocol_does_not_speak_for_the_other() {
    // Well over TCP; datagrams are taken and not answered.
    let (there, _silent) = std::iter::repeat_with(|| echo("e:"))
        .find_map(|there| Some((UdpSocket::bind(("127.0.0.1", there.port())).ok()?, there)))
        .map(|(socket, there)| (there, socket))
        .unwrap();
    let server = with_api(&format!(
        "health_check_timeout 30ms; match told {{ expect something; }}
         upstream dns {{ zone z 64k; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass dns; health_check interval=20ms; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_pass dns; health_check udp interval=20ms match=told; }}",
        there.port()
    ))
    .start();
    wait::holds("it is unhealthy", || peers(&server, "dns")[0]["state"] == "unhealthy");
    let checks = || peers(&server, "dns")[0]["health_checks"]["checks"].as_u64().unwrap();
    let begin = checks();
    wait::holds("more answers of both", || {
        assert_eq!(
            (peers(&server, "dns")[0]["state"].clone(), who(server.port_of(2))),
            (json!("unhealthy"), String::new())
        );
        checks() >= begin + 10
    });
    assert_eq!(peers(&server, "dns")[0]["health_checks"]["unhealthy"], 1);
}

#[test]
fn groups_are_changed_while_they_run() {
    let (one, two) = (echo("1"), echo("2"));
    let server = with_api(&format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:{} weight=2; }}
         upstream kept {{ zone z; state {{{{DIR}}}}/state/kept.conf; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}}; proxy_pass kept; }}",
        one.port()
    ))
    .start();
    let mut old = Client::connect(server.port_of(2));
    old.send("a");
    assert_eq!(old.wait_for("1a"), "1a");
    let first = &peers(&server, "u")[0];
    assert_eq!((&first["connections"], &first["active"], &first["sent"]), (&json!(1), &json!(1), &json!(1)));
    assert!(first.get("requests").is_none() && first.get("responses").is_none());
    let (status, _) = call(&server, "POST", "upstreams/u/servers", r#"{"server": "127.0.0.1"}"#);
    assert_eq!(status, 400, "there is no usual port");
    let added = format!(r#"{{"server": "127.0.0.1:{}"}}"#, two.port());
    let (status, made) = call(&server, "POST", "upstreams/u/servers", &added);
    assert_eq!((status, &made["weight"]), (201, &json!(1)));
    let first_server = "upstreams/u/servers/0";
    let (status, changed) = call(&server, "PATCH", first_server, r#"{"drain": true}"#);
    assert_eq!((status, &changed["drain"]), (200, &json!(true)), "{changed}");
    assert_eq!(peers(&server, "u")[0]["state"], "draining");
    // A session that has begun goes on, and new ones go elsewhere; also when the server is gone.
    for _ in 0..3 {
        assert_eq!(who(server.port_of(2)), "2x");
    }
    assert_eq!(call(&server, "PATCH", first_server, r#"{"down": true}"#).0, 200);
    assert_eq!(call(&server, "DELETE", first_server, "").0, 200);
    old.send("b");
    old.wait_for("1b");
    server.reload();
    old.send("c");
    old.wait_for("1c");
    assert_eq!(call(&server, "POST", "upstreams/kept/servers", &added).0, 201);
    assert_eq!(who(server.port_of(3)), "2x");
    assert!(server.read("state/kept.conf").contains(&format!("server 127.0.0.1:{}", two.port())));
}

#[test]
fn sessions_are_counted() {
    let back = echo("1");
    let server = with_api(&format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}}; deny all; return x; }}",
        back.port()
    ))
    .start();
    let zone = |place: usize| {
        call(&server, "GET", "server_zones", "").1[format!("127.0.0.1:{}", server.port_of(place))].clone()
    };
    let mut client = Client::connect(server.port_of(2));
    client.send("abc");
    assert_eq!(client.wait_for("1abc"), "1abc");
    // Bytes are counted when they have been sent.
    wait::holds("the answer is counted", || zone(2)["sent"] == 4);
    let running = zone(2);
    assert_eq!((&running["processing"], &running["connections"]), (&json!(1), &json!(1)), "{running}");
    assert_eq!((&running["received"], &running["sent"]), (&json!(3), &json!(4)), "{running}");
    drop(client);
    wait::holds("it has ended", || zone(2)["sessions"]["2xx"] == 1 && zone(2)["processing"] == 0);
    Client::connect(server.port_of(3)).expect_closed();
    wait::holds("a refusal is one", || zone(3)["sessions"]["4xx"] == 1);
    let metrics = server.get("/metrics").text();
    let listen = format!("listen=\"127.0.0.1:{}\"", server.port_of(2));
    let peer = format!("upstream=\"u\",server=\"127.0.0.1:{}\"", back.port());
    for line in [
        format!("brisk_stream_connections_total{{{listen},server=\"\"}} 1"),
        format!("brisk_stream_sessions_total{{{listen},server=\"\",status=\"2xx\"}} 1"),
        format!("brisk_stream_received_bytes_total{{{listen},server=\"\"}} 3"),
        format!("brisk_stream_upstream_sessions_total{{{peer}}} 1"),
        format!("brisk_stream_upstream_sent_bytes_total{{{peer}}} 3"),
        format!("brisk_stream_upstream_received_bytes_total{{{peer}}} 4"),
        format!("brisk_stream_upstream_up{{{peer}}} 1"),
        format!("brisk_stream_upstream_state{{{peer},state=\"up\"}} 1"),
    ] {
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    // A reload keeps what was counted.
    server.reload();
    assert_eq!(zone(2)["connections"], 1);
}

#[test]
fn the_command_knows_groups_of_stream() {
    let back = echo("1");
    let server = with_api(&format!(
        "upstream u {{ zone z 64k; server 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; }}",
        back.port()
    ))
    .start();
    let api = format!("http://127.0.0.1:{}/api", server.port());
    let run = |args: &[&str]| {
        let output = Command::new(BIN).arg("upstream").args(args).args(["--api", &api]).output().unwrap();
        (output.status.success(), brisk_testkit::server::text(&output.stdout))
    };
    let peer = format!("127.0.0.1:{}", back.port());
    let (is_done, list) = run(&["list"]);
    assert!(is_done && list.contains("stream/u") && list.contains(&peer), "{list}");
    assert!(run(&["drain", "u", &peer]).0);
    assert_eq!(peers(&server, "u")[0]["state"], "draining");
    assert!(run(&["set", "stream/u", &peer, "up", "weight=3"]).0);
    assert_eq!(peers(&server, "u")[0]["weight"], 3);
    assert!(!run(&["set", "http/u", &peer, "up"]).0);
}

#[test]
fn checks_without_a_group_are_refused() {
    let check = |text: &str, want: &str| {
        let server = Builder::new(BIN).conf(&conf(text)).prepare();
        let output = server.run(&["-t"]);
        let said = brisk_testkit::server::text(&output.stderr);
        assert!(!output.status.success() && said.contains(want), "{text}: {said}");
    };
    let server = |inner: &str| format!("server {{ listen 127.0.0.1:{{{{PORT}}}}; {inner} }}");
    check(&server("return x; health_check;"), "has no group of servers to ask");
    check(&server("proxy_pass 127.0.0.1:1; health_check match=x;"), "match \"x\" not found");
    check(
        &server("proxy_pass 127.0.0.1:1; health_check persistent;"),
        "\"persistent\" requires \"mandatory\"",
    );
    check(&server("proxy_pass 127.0.0.1:1; health_check uri=/;"), "invalid parameter \"uri=/\"");
    check("match m { send \\x1; } server { listen 127.0.0.1:{{PORT}}; return x; }", "invalid byte");
}
