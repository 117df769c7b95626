//! Upgraded connections: both sides send as they like, and each may end first.

use crate::{BIN, proxy};
use brisk_testkit::backend::Peer;
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Backend, Builder, Client, Server, TlsClient};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const PASS_UPGRADE: &str = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;";

/// Sends back what it gets, until the client has closed its side; then says so.
fn echo() -> Backend {
    Backend::start(|mut peer| {
        if peer.head().is_none() {
            return;
        }
        peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhi ");
        loop {
            let some = peer.some();
            if some.is_empty() {
                peer.send("bye");
                return;
            }
            peer.send(some);
        }
    })
}

#[test]
fn a_tunnel_survives_a_reload_and_closes_one_side_at_a_time() {
    let backend = echo();
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    let mut client = server.client();
    client.send(UPGRADE);
    let head = client.wait_for("hi ");
    assert!(head.contains("101 Switching Protocols") && head.contains("Upgrade: echo"), "{head}");
    client.send("one");
    client.wait_for("one");
    server.reload();
    client.send("two");
    client.wait_for("two");
    client.half_close();
    let all = client.rest().expect("a clean end");
    assert!(all.ends_with(b"hi onetwobye"), "{}", String::from_utf8_lossy(&all));
}

/// Bytes of a tunnel are nobody's content, whatever type the back end has named.
#[test]
fn what_a_tunnel_carries_is_not_filtered() {
    let backend = Backend::start(|mut peer| {
        let Some(head) = peer.head() else { return };
        peer.switch_with(&head, "Connection: upgrade\r\nUpgrade: echo\r\nContent-Type: text/html");
        peer.send("hi <!--#echo var=\"uri\" --> bye");
    });
    let filters = "sub_filter hi no; ssi on; gzip on; gzip_min_length 0; add_after_body /; charset koi8-r;";
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} {filters}"));
    let mut client = server.client();
    client.send(UPGRADE.replace("\r\n\r\n", "\r\nAccept-Encoding: gzip\r\n\r\n"));
    let all = client.wait_for("bye");
    assert!(all.ends_with("\r\n\r\nhi <!--#echo var=\"uri\" --> bye"), "{all}");
}

/// HTTP/2 within a tunnel would pass by all rules: it is neither asked for nor taken. Where nothing else was asked for, a 101
/// is one that no request has invited.
#[test]
fn no_tunnel_carries_http2() {
    let backend = Backend::start(|mut peer| {
        let Some(head) = peer.head() else { return };
        let fields = head.split_once("\r\n").map_or("", |(_, fields)| fields).to_ascii_lowercase();
        assert!(!fields.contains("h2c") && !fields.contains("http2-settings"), "{head}");
        peer.switch(&head, if head.starts_with("GET /h2c") { "h2c" } else { "echo" });
        peer.drain();
    });
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    for (target, upgrade, status) in
        [("/h2c", "h2c", "502"), ("/h2c", "echo", "502"), ("/", "h2c", "502"), ("/", "echo, h2c", "101")]
    {
        let mut client = server.client();
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: upgrade, http2-settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
        ));
        assert!(client.wait_for("\r\n").starts_with(&format!("HTTP/1.1 {status} ")), "{target} {upgrade}");
    }
}

#[test]
fn a_silent_tunnel_ends() {
    let backend = echo();
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} proxy_read_timeout 1s;"));
    let mut client = server.client();
    client.send(UPGRADE);
    client.wait_for("hi ");
    let _ = client.rest();
    server.wait_for_log(
        "upstream timed out \\(110: Connection timed out\\) while proxying upgraded connection",
    );
}

const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nlast words";

/// Ends its side first. What it is sent after that is told when the connection has ended.
fn says_all_and_listens() -> (Backend, mpsc::Receiver<Vec<u8>>) {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    let backend = Backend::start(move |mut peer: Peer| {
        peer.head();
        peer.send(SWITCHED);
        peer.half_close();
        let mut heard = Vec::new();
        loop {
            let some = peer.some();
            if some.is_empty() {
                break;
            }
            heard.extend(some);
        }
        let _ = told.lock().unwrap().send(heard);
    });
    (backend, hears)
}

const PATIENCE: Duration = brisk_testkit::wait::DEADLINE;

/// Its client learns of that at once, and what it sends then still reaches the back end, as does its own end.
#[test]
fn a_back_end_that_has_said_all_still_listens() {
    let (backend, hears) = says_all_and_listens();
    let server = proxy(backend.port(), "", PASS_UPGRADE);
    let mut client = server.client();
    client.send(UPGRADE);
    assert!(client.rest().expect("the end of one side").ends_with(b"\r\n\r\nlast words"));
    let large = vec![b'x'; 300_000];
    client.send("mine!");
    client.send(&large);
    client.half_close();
    assert_eq!(hears.recv_timeout(PATIENCE).expect("it arrives"), [b"mine!", &large[..]].concat());
    server.wait_for_line("up.log", "/ws 101 .* 101");
}

/// The same where the one side ends with a close_notify (RFC 8446 §6.1).
#[test]
fn a_back_end_that_has_said_all_still_listens_behind_tls() {
    let (backend, hears) = says_all_and_listens();
    let (front, back) = (issue("a.test", false, None), issue("back.test", false, None));
    // Over TLS to a server of ours, and from there as it is.
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key;
        server { listen 127.0.0.1:{{PORT}} ssl; location / { proxy_pass https://127.0.0.1:{{PORT2}}; UP } }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate back.crt; ssl_certificate_key back.key;
            location / { proxy_pass http://127.0.0.1:BACK; UP } }";
    let conf = conf.replace("UP", PASS_UPGRADE).replace("BACK", &backend.port().to_string());
    let mut builder = Builder::new(BIN).http(&conf);
    for (name, issued) in [("a", front), ("back", back)] {
        builder = builder
            .file(&format!("{name}.crt"), issued.certificate_pem())
            .file(&format!("{name}.key"), issued.key_pem());
    }
    let server = builder.start();
    let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
    client.send(UPGRADE).unwrap();
    assert!(client.rest().expect("a close_notify").ends_with("\r\n\r\nlast words"));
    client.send("mine!").unwrap();
    drop(client);
    assert_eq!(hears.recv_timeout(PATIENCE).expect("it arrives"), b"mine!");
}

/// Nobody listens any more: the tunnel is not held until `proxy_read_timeout`.
#[test]
fn a_back_end_that_has_closed_ends_the_tunnel_when_it_is_sent_something() {
    let backend = Backend::start(|mut peer: Peer| {
        peer.head();
        peer.send(SWITCHED);
    });
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} proxy_read_timeout 1h;"));
    let mut client = server.client();
    client.send(UPGRADE);
    assert!(client.rest().expect("the end of one side").ends_with(b"last words"));
    client.send("is anybody there?");
    server.wait_for_line("up.log", "/ws 101 .* 101");
}

/// Unix sockets tell a peer that has closed from one that has said all.
#[test]
fn a_back_end_that_has_closed_its_unix_socket_ends_the_tunnel() {
    let builder = Builder::new(BIN);
    let path = builder.dir().join("back.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(SWITCHED.as_bytes()).unwrap();
        }
    });
    let conf = "access_log {{DIR}}/up.log combined; server { listen 127.0.0.1:{{PORT}};
        location / { proxy_pass http://unix:{{DIR}}/back.sock; proxy_read_timeout 1h; UP } }";
    let server = builder.http(&conf.replace("UP", PASS_UPGRADE)).start();
    let mut client = server.client();
    client.send(UPGRADE);
    assert!(client.rest().expect("an end").ends_with(b"last words"));
    server.wait_for_line("up.log", "GET /ws HTTP/1.1\" 101");
}

/// A client of such a back end that has heard its last word.
fn told_all(server: &Server) -> Client {
    let mut client = server.client();
    client.send(UPGRADE);
    assert!(client.rest().expect("the end of one side").ends_with(b"last words"));
    client
}

/// A client that neither speaks nor ends holds the back end no longer than any silent tunnel.
#[test]
fn a_client_that_never_ends_is_left() {
    let (backend, hears) = says_all_and_listens();
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} proxy_read_timeout 1s;"));
    let _client = told_all(&server);
    assert_eq!(hears.recv_timeout(PATIENCE).expect("it is closed"), b"");
    server
        .wait_for_log("client timed out \\(110: Connection timed out\\) while proxying upgraded connection");
}

#[test]
fn a_client_that_is_reset_after_the_back_ends_last_word_frees_it() {
    let (backend, hears) = says_all_and_listens();
    let server = proxy(backend.port(), "", &format!("{PASS_UPGRADE} proxy_read_timeout 1h;"));
    told_all(&server).reset();
    assert_eq!(hears.recv_timeout(PATIENCE).expect("it is closed"), b"");
}
