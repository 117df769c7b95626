//! `stream`: TCP and UDP over real sockets, reloads, and back ends that fail.

#[path = "stream/groups.rs"]
mod groups;
#[path = "stream/opening.rs"]
mod opening;
#[path = "stream/tls.rs"]
mod tls;

use brisk_testkit::backend::Backend;
use brisk_testkit::{Builder, Client, Server, ports, wait};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A whole configuration with this `stream` block.
fn conf(stream: &str) -> String {
    format!(
        "daemon off; pid {{{{DIR}}}}/brisk.pid; error_log {{{{DIR}}}}/error.log info; worker_processes 2;\n\
         events {{ }}\nstream {{ {stream} }}"
    )
}

fn start(stream: &str) -> Server {
    Builder::new(BIN).conf(&conf(stream)).start()
}

/// A back end that sends each piece back with its own name before it.
fn echo(name: &'static str) -> Backend {
    Backend::start(move |mut peer| {
        loop {
            let piece = peer.some();
            if piece.is_empty() || !peer.send([name.as_bytes(), &piece].concat()) {
                return;
            }
        }
    })
}

/// A back end for datagrams: answers each one `count` times with `name` and what came, as long as the test runs.
fn udp_echo(name: &'static str, count: usize) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buf = vec![0; 65_536];
        while let Ok((len, from)) = socket.recv_from(&mut buf) {
            for _ in 0..count {
                let _ = socket.send_to(&[name.as_bytes(), &buf[..len]].concat(), from);
            }
        }
    });
    port
}

fn udp_client(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    socket
}

fn exchange(socket: &UdpSocket, text: &str) -> String {
    socket.send(text.as_bytes()).unwrap();
    receive(socket)
}

fn receive(socket: &UdpSocket) -> String {
    let mut buf = vec![0; 65_536];
    let len = socket.recv(&mut buf).expect("an answer");
    String::from_utf8_lossy(&buf[..len]).into_owned()
}

/// The lines of a log, once there are so many.
fn lines(server: &Server, name: &str, count: usize) -> Vec<String> {
    wait::until("lines of the access log", || {
        let lines: Vec<String> = server.read(name).lines().map(str::to_string).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// Found by nginx's `stream_udp_proxy_requests.t`: the first datagram of a new session overtook those of the one before.
#[test]
fn datagrams_of_a_client_leave_in_order() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(wait::DEADLINE)).unwrap();
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_requests 2; proxy_responses 1; proxy_pass {}; }}",
        socket.local_addr().unwrap()
    ));
    for _ in 0..5 {
        let client = udp_client(server.port());
        (0..9u8).for_each(|number| drop(client.send(&[number])));
        let mut came = Vec::new();
        for _ in 0..9 {
            let mut byte = [0];
            let (_, from) = socket.recv_from(&mut byte).expect("a datagram");
            came.push(byte[0]);
            socket.send_to(&byte, from).unwrap();
        }
        assert_eq!(came, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}

#[test]
fn bytes_go_both_ways_and_the_log_counts_them() {
    let backend = echo("a:");
    let server = start(&format!(
        "log_format all '$protocol $status $bytes_received $bytes_sent $upstream_bytes_sent $upstream_bytes_received \
         $upstream_addr $remote_addr $server_addr:$server_port $session_time $upstream_connect_time';
         server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass 127.0.0.1:{}; access_log {{{{DIR}}}}/s.log all; }}",
        backend.port()
    ));
    let mut client = server.client();
    client.send("hello");
    assert_eq!(client.wait_for("a:hello"), "a:hello");
    client.send(" again");
    assert_eq!(client.wait_for("a: again"), "a:helloa: again");
    drop(client);
    let line = lines(&server, "s.log", 1).remove(0);
    let want =
        format!("TCP 200 11 15 11 15 127.0.0.1:{} 127.0.0.1 127.0.0.1:{} ", backend.port(), server.port());
    assert!(line.starts_with(&want), "{line} {want}");
    let times: Vec<&str> = line[want.len()..].split(' ').collect();
    assert!(times.len() == 2 && times.iter().all(|time| time.parse::<f64>().is_ok()), "{line}");
}

/// More than any buffer holds, in both directions at once.
#[test]
fn large_transfers_arrive_whole() {
    const BYTES: usize = 8 << 20;
    let backend = Backend::start(|mut peer| {
        let body = peer.body(BYTES);
        peer.send(body);
    });
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_buffer_size 5k; proxy_pass 127.0.0.1:{}; }}",
        backend.port()
    ));
    let sent: Vec<u8> = (0..BYTES).map(|at| (at / 7 % 251) as u8).collect();
    let mut client = server.client();
    client.send(&sent);
    let got = client.rest().unwrap();
    assert!(got == sent, "{} bytes came back", got.len());
}

/// With `proxy_half_close` a client that has ended still gets its answer; without, its end is the session's.
#[test]
fn the_end_of_one_side() {
    let backend = Backend::start(|mut peer| {
        let count = peer.drain();
        peer.send(format!("{count} bytes"));
    });
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_half_close on; proxy_pass 127.0.0.1:{0}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass 127.0.0.1:{0}; }}",
        backend.port()
    ));
    for (n, want) in [(1, "7 bytes"), (2, "")] {
        let mut client = Client::connect(server.port_of(n));
        client.send("goodbye");
        client.half_close();
        assert_eq!(String::from_utf8(client.rest().unwrap()).unwrap(), want);
    }
}

#[test]
fn a_server_that_refuses_is_passed_over() {
    let backend = echo("");
    let (good, bad) = (backend.port(), ports::unused());
    let server = start(&format!(
        "log_format s '$status $upstream_addr';
         upstream u {{ server 127.0.0.1:{bad} max_fails=0; server 127.0.0.1:{good} backup; }}
         upstream none {{ server 127.0.0.1:{bad}; }}
         access_log {{{{DIR}}}}/s.log s;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass u; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass u; proxy_next_upstream off; }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}}; proxy_pass none; }}"
    ));
    let mut client = server.client();
    client.send("x");
    assert_eq!(client.wait_for("x"), "x");
    drop(client);
    assert_eq!(lines(&server, "s.log", 1)[0], format!("200 127.0.0.1:{bad}, 127.0.0.1:{good}"));
    for (n, count) in [(2, 2), (3, 3)] {
        Client::connect(server.port_of(n)).expect_closed();
        assert_eq!(lines(&server, "s.log", count)[count - 1], format!("502 127.0.0.1:{bad}"));
    }
    assert!(
        server
            .error_log()
            .contains("connect() failed (111: Connection refused) while connecting to upstream")
    );
}

#[test]
fn least_conn_and_hash_choose() {
    let (a, b) = (echo("a"), echo("b"));
    let (a, b) = (a.port(), b.port());
    let server = start(&format!(
        "upstream least {{ least_conn; server 127.0.0.1:{a}; server 127.0.0.1:{b}; }}
         upstream hash {{ hash $remote_addr consistent; server 127.0.0.1:{a}; server 127.0.0.1:{b}; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass least; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass hash; }}"
    ));
    let ask = |n: usize| {
        let mut client = Client::connect(server.port_of(n));
        client.send(".");
        let name = client.some(2).unwrap();
        (client, name)
    };
    let (_held, first) = ask(1);
    // As long as that one is connected, the other one has fewer.
    for round in 1..=4 {
        let (client, name) = ask(1);
        assert_ne!(name[..1], first[..1]);
        drop(client);
        wait::holds("the connection's end", || {
            server.error_log().matches("client disconnected").count() == round
        });
    }
    let names: Vec<u8> = (0..6).map(|_| ask(2).1[0]).collect();
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
}

#[test]
fn a_text_with_variables_names_a_group_or_an_address() {
    let (a, b) = (echo("a:"), echo("b:"));
    let server = start(&format!(
        "upstream u {{ server 127.0.0.1:{}; }}
         map $server_port $where {{ {{{{PORT}}}} u; {{{{PORT2}}}} 127.0.0.1:{}; default nowhere; }}
         log_format s $status; access_log {{{{DIR}}}}/s.log s;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; listen 127.0.0.1:{{{{PORT2}}}}; listen 127.0.0.1:{{{{PORT3}}}};
                   proxy_pass $where; }}",
        a.port(),
        b.port()
    ));
    for (n, want) in [(1, "a:x"), (2, "b:x")] {
        let mut client = Client::connect(server.port_of(n));
        client.send("x");
        assert_eq!(client.wait_for(want), want);
    }
    Client::connect(server.port_of(3)).expect_closed();
    assert!(lines(&server, "s.log", 3).contains(&"500".to_string()));
}

#[test]
fn a_wildcards_socket_stands_for_other_addresses() {
    let server = start(
        "server { listen {{PORT}}; return any-$server_addr; }
         server { listen 127.0.0.2:{{PORT}}; return two-$server_addr; }",
    );
    let text = |ip: [u8; 4]| {
        let mut client = Client::connect_to(SocketAddr::from((ip, server.port()))).unwrap();
        String::from_utf8(client.rest().unwrap()).unwrap()
    };
    assert_eq!(text([127, 0, 0, 1]), "any-127.0.0.1");
    assert_eq!(text([127, 0, 0, 2]), "two-127.0.0.2");
}

#[test]
fn datagrams_of_a_client_are_a_session() {
    let port = udp_echo("", 1);
    let server = start(&format!(
        "log_format s '$protocol $status $bytes_received $bytes_sent';
         access_log {{{{DIR}}}}/s.log s; proxy_timeout 3s;
         server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_pass 127.0.0.1:{port}; proxy_requests 2; proxy_responses 1; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_pass 127.0.0.1:{port}; }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}} udp; return $remote_port; }}"
    ));
    let one = udp_client(server.port());
    assert_eq!((exchange(&one, "a"), exchange(&one, "bc")), ("a".into(), "bc".into()));
    // Two datagrams and their answers: the session is over at once.
    assert_eq!(lines(&server, "s.log", 1)[0], "UDP 200 3 3");

    // Many clients at once, whichever thread serves them; an empty datagram is one, too.
    let clients: Vec<UdpSocket> = (0..20).map(|_| udp_client(server.port_of(2))).collect();
    for round in 0..3 {
        for (at, client) in clients.iter().enumerate() {
            client.send(format!("{round}-{at}").as_bytes()).unwrap();
        }
        for (at, client) in clients.iter().enumerate() {
            assert_eq!(receive(client), format!("{round}-{at}"));
        }
    }
    assert_eq!(exchange(&clients[0], ""), "");
    // Without `proxy_responses` only the time ends them.
    let ended = lines(&server, "s.log", 21);
    assert_eq!(ended[1..].iter().filter(|line| **line == "UDP 200 9 9").count(), 10, "{ended:?}");

    let client = udp_client(server.port_of(3));
    let own = client.local_addr().unwrap().port().to_string();
    assert_eq!(exchange(&client, "x"), own);
}

/// Clients take answers only from where they have sent to, and what goes to another address is another session.
#[test]
fn a_wildcard_answers_datagrams_from_where_they_came_to() {
    let port = udp_echo("", 1);
    let server = start(&format!(
        "server {{ listen {{{{PORT}}}} udp; proxy_pass 127.0.0.1:{port}; }}
         server {{ listen {{{{PORT2}}}} udp; return $server_addr:$server_port; }}
         server {{ listen 127.0.0.3:{{{{PORT2}}}} udp; return narrow; }}
         server {{ listen [::]:{{{{PORT3}}}} udp ipv6only=off; return $server_addr; }}"
    ));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let ask = |to: SocketAddr, text: &str| {
        client.send_to(text.as_bytes(), to).unwrap();
        let mut buf = [0; 100];
        let (len, from) = client.recv_from(&mut buf).expect("an answer");
        assert_eq!(from, to);
        String::from_utf8_lossy(&buf[..len]).into_owned()
    };
    let at = |last: u8, port: u16| SocketAddr::from(([127, 0, 0, last], port));
    for text in ["a", "b"] {
        for last in [1, 2] {
            assert_eq!(ask(at(last, server.port()), text), text);
        }
    }
    let port = server.port_of(2);
    assert_eq!(ask(at(2, port), "x"), format!("127.0.0.2:{port}"));
    assert_eq!(ask(at(3, port), "x"), "narrow");
    assert_eq!(ask(at(2, server.port_of(3)), "x"), "::ffff:127.0.0.2");
}

/// What comes together may leave in one system call: as many datagrams as before, of the sizes that they had, in their order.
#[test]
fn datagrams_by_the_dozen_arrive_as_they_were() {
    let port = udp_echo("", 1);
    let server = start(&format!(
        "log_format s '$status $bytes_received $bytes_sent $upstream_bytes_sent $upstream_bytes_received';
         access_log {{{{DIR}}}}/s.log s;
         server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_pass 127.0.0.1:{port}; proxy_requests 70; proxy_responses 1; }}"
    ));
    let client = udp_client(server.port());
    // Five times these end the session.
    let sizes = [1200, 1200, 1200, 40, 1200, 1, 0, 7, 7, 7, 9000, 9000, 1200, 1200];
    let texts: Vec<String> =
        (b'a'..).zip(sizes).map(|(name, size)| char::from(name).to_string().repeat(size)).collect();
    let rounds = 5;
    for _ in 0..rounds {
        for text in &texts {
            client.send(text.as_bytes()).unwrap();
        }
        for text in &texts {
            assert!(receive(&client) == *text, "{} bytes", text.len());
        }
    }
    let bytes = rounds * sizes.iter().sum::<usize>();
    assert_eq!(lines(&server, "s.log", 1)[0], format!("200 {bytes} {bytes} {bytes} {bytes}"));
}

/// The largest datagram arrives whole.
#[test]
fn a_large_datagram() {
    let port = udp_echo("", 1);
    let server =
        start(&format!("server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_pass 127.0.0.1:{port}; }}"));
    let text = "x".repeat(60_000);
    assert_eq!(exchange(&udp_client(server.port()), &text), text);
}

/// A back end that is not there refuses datagrams by ICMP, or does not answer at all.
#[test]
fn datagrams_without_an_answer() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bad = ports::unused();
    let server = start(&format!(
        "log_format s '$status'; access_log {{{{DIR}}}}/s.log s; proxy_timeout 300ms; proxy_responses 1;
         server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_pass 127.0.0.1:{bad}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_pass 127.0.0.1:{}; }}",
        silent.local_addr().unwrap().port()
    ));
    udp_client(server.port()).send(b"x").unwrap();
    assert_eq!(lines(&server, "s.log", 1), ["502"]);
    udp_client(server.port_of(2)).send(b"x").unwrap();
    assert_eq!(lines(&server, "s.log", 2), ["502", "502"]);
    assert!(server.error_log().contains("upstream timed out (110: Connection timed out) while proxying"));
}

/// A reload ends no session; new ones have the new configuration.
#[test]
fn a_reload_keeps_sessions() {
    let (a, b) = (echo("a:"), echo("b:"));
    let (one, two) = (udp_echo("1:", 1), udp_echo("2:", 1));
    let text = |tcp: u16, udp: u16| {
        conf(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass 127.0.0.1:{tcp}; }}
             server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_pass 127.0.0.1:{udp}; }}"
        ))
    };
    let mut server = Builder::new(BIN).conf(&text(a.port(), one)).start();
    let mut old = server.client();
    old.send("x");
    assert_eq!(old.wait_for("a:x"), "a:x");
    let old_udp = udp_client(server.port_of(2));
    assert_eq!(exchange(&old_udp, "x"), "1:x");

    server.configure(&text(b.port(), two));
    server.reload();
    old.send("y");
    assert_eq!(old.wait_for("a:y"), "a:xa:y");
    assert_eq!(exchange(&old_udp, "y"), "1:y");
    let mut new = server.client();
    new.send("z");
    assert_eq!(new.wait_for("b:z"), "b:z");
    assert_eq!(exchange(&udp_client(server.port_of(2)), "z"), "2:z");

    // An address that is not in the configuration any more takes no new connections.
    server.configure(&conf(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; proxy_pass 127.0.0.1:{two}; }}"
    )));
    server.reload();
    old.send("w");
    assert_eq!(old.wait_for("a:w"), "a:xa:ya:w");
    wait::until("the socket's end", || Client::try_connect(server.port()).is_err().then_some(()));
}

/// `worker_shutdown_timeout` ends what a configuration before still serves.
#[test]
fn sessions_of_an_old_configuration_are_cut_when_their_time_is_over() {
    let backend = echo("");
    let text = conf(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass 127.0.0.1:{}; }}",
        backend.port()
    ));
    let server = Builder::new(BIN).conf(&format!("worker_shutdown_timeout 100ms; {text}")).start();
    let mut client = server.client();
    client.send("x");
    assert_eq!(client.wait_for("x"), "x");
    server.signal(rustix::process::Signal::HUP);
    assert_eq!(client.rest().unwrap(), b"x");
}

/// Rates are kept, and a session of which the rate holds one direction up still moves in the other.
#[test]
fn a_rate_slows_one_direction_down() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let backend = Backend::start(move |mut peer| {
        let _ = peer.body(3);
        counter.fetch_add(1, Ordering::Relaxed);
        peer.send(vec![b'x'; 3000]);
    });
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_download_rate 1k; proxy_pass 127.0.0.1:{}; }}",
        backend.port()
    ));
    let start = std::time::Instant::now();
    let mut client = server.client();
    client.send("abc");
    assert_eq!(client.rest().unwrap().len(), 3000);
    assert!(start.elapsed() > Duration::from_millis(900), "{:?}", start.elapsed());
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}

/// Found by nginx's tests: the access log of `http` was written for sessions, too, and its variables are of requests: the worker ended.
#[test]
fn nothing_of_http_holds_for_sessions() {
    let conf = "daemon off; pid {{DIR}}/brisk.pid; error_log {{DIR}}/error.log info; events { }
        http { access_log {{DIR}}/access.log; deny all; server { listen 127.0.0.1:{{PORT2}}; root {{DIR}}; } }
        stream { server { listen 127.0.0.1:{{PORT}}; return b; } }";
    let server = Builder::new(BIN).conf(conf).start();
    let worker = server.worker();
    for _ in 0..3 {
        assert_eq!(Client::connect(server.port()).rest().unwrap(), b"b");
    }
    assert_eq!(Client::connect(server.port_of(2)).get("/").status, 403);
    assert_eq!(server.worker(), worker);
    assert!(!server.read("access.log").contains('b'), "{}", server.read("access.log"));
}
