//! `ssl_conf_command Options KTLS`: files arrive whole, whether the kernel seals records or not. Where it can, the same
//! requests go through it.

use super::{BIN, tool, with};
use brisk_testkit::server::text;
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, Server, TlsClient};
use brisk_tls::{ClientContext, ClientOptions, Versions};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use std::net::{Ipv4Addr, SocketAddrV4};

const CIPHERS: [(&str, &str); 3] = [
    ("TLS_AES_128_GCM_SHA256", "AES128"),
    ("TLS_AES_256_GCM_SHA384", "AES256"),
    ("TLS_CHACHA20_POLY1305_SHA256", "CHACHA20"),
];
const FILE_BYTES: usize = 10 << 20;

/// Text that shows where a piece is missing.
fn file() -> String {
    (0..FILE_BYTES / 16).fold(String::new(), |text, line| text + &format!("{line:015}\n"))
}

/// A server per cipher.
fn site() -> Builder {
    let server = |(port, (tls13, tls12)): (usize, &(&str, &str))| {
        let port = if port == 0 { String::new() } else { (port + 1).to_string() };
        format!(
            "server {{ listen 127.0.0.1:{{{{PORT{port}}}}} ssl; root {{{{DIR}}}}/html; location /who {{ return 200 $ssl_cipher; }}
             ssl_conf_command Ciphersuites {tls13}; ssl_conf_command CipherString {tls12}; ssl_conf_command Options KTLS; }}\n"
        )
    };
    let servers: String = CIPHERS.iter().enumerate().map(server).collect();
    let conf = format!("sendfile on; ssl_certificate a.crt; ssl_certificate_key a.key; {servers}");
    with(Builder::new(BIN).http(&conf).file("html/large", file()), "a", &issue("a.test", false, None))
}

fn kernel_seals() -> bool {
    brisk_net::kernel_seals().is_ok()
}

/// Sessions that the kernel has sealed for since it has run.
fn sealed_for() -> u64 {
    let counters = std::fs::read_to_string("/proc/net/tls_stat").unwrap_or_default();
    let counter = counters.lines().find_map(|line| line.strip_prefix("TlsTxSw"));
    counter.map_or(0, |count| count.trim().parse().unwrap())
}

fn request(target: &str, more: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{more}\r\n")
}

fn body_of(client: &mut TlsClient, len: usize) -> String {
    let head = client.until("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    text(&client.exactly(len).unwrap())
}

fn client(server: &Server, port: usize, versions: Versions) -> TlsClient {
    let options = ClientOptions { versions, no_resumption: true, ..ClientOptions::unverified() };
    TlsClient::connect(server.port_of(port), &ClientContext::new(&options).unwrap(), "a.test").unwrap()
}

#[test]
fn files_and_small_answers_in_turn() {
    let (server, file) = (site().start(), file());
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        for port in 1..=CIPHERS.len() {
            let before = sealed_for();
            let mut client = client(&server, port, versions);
            let cipher = client.session().cipher();
            for _ in 0..2 {
                client.send(request("/who", "")).unwrap();
                assert_eq!(body_of(&mut client, cipher.len()), cipher);
                client.send(request("/large", "")).unwrap();
                assert!(body_of(&mut client, FILE_BYTES) == file, "{cipher}");
            }
            client.send(request("/large", "Range: bytes=16-31,1000000-3000000\r\n")).unwrap();
            client.send(request("/large", "Range: bytes=48-63\r\n")).unwrap();
            let parts = client.until("000000000000003\n").unwrap();
            assert!(
                parts.contains(&file[1_000_000..=3_000_000]) && parts.contains("\r\n\r\n000000000000001\n")
            );
            // The end is told, and nothing before it is lost, though the client does not keep up.
            client.send(request("/large", "Connection: close\r\n")).unwrap();
            assert!(super::body(&client.rest().unwrap()) == file, "{cipher}");
            assert_eq!(sealed_for() > before, kernel_seals(), "{cipher}");
        }
    }
}

/// RFC 8446 §4.6.3: a client that asks for new keys gets them, or a clean end before anything else is said.
#[test]
fn new_keys() {
    let server = site().start();
    let mut client = client(&server, 1, Versions { tls12: false, tls13: true });
    client.send(request("/large", "")).unwrap();
    client.until("\r\n\r\n").unwrap();
    client.update_keys().unwrap();
    assert!(client.exactly(FILE_BYTES).unwrap() == file().as_bytes());
    if kernel_seals() {
        assert_eq!(client.rest().unwrap(), "");
    } else {
        client.send(request("/who", "Connection: close\r\n")).unwrap();
        assert_eq!(super::body(&client.rest().unwrap()), "TLS_AES_128_GCM_SHA256");
    }
}

#[test]
fn curl_takes_files_over_one_connection() {
    let server = site().start();
    let url = format!("https://127.0.0.1:{}/large", server.port());
    let args = ["-skS", "--max-time", "60", "-w", "%{num_connects}", &url, &url];
    let shown = tool("curl", &args, "");
    assert!(shown == format!("{0}1{0}0", file()), "{} bytes", shown.len());
}

#[test]
fn who_asks_for_what_is_not_there_is_told() {
    let server = site().start();
    let output = server.run(&["-t"]);
    let told = text(&output.stderr).matches("the option KTLS has no effect here").count();
    assert_eq!(told, usize::from(!kernel_seals()), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr).contains("modprobe tls"), !kernel_seals());
    let who = TlsClient::get(server.port(), &stranger(), "a.test", "/who").unwrap();
    assert!(who.ends_with("TLS_AES_128_GCM_SHA256"));
}

/// Sizes of which some end when the socket is full: what the kernel has sealed and could not send would be lost with it.
#[test]
fn clients_that_do_not_keep_up_lose_nothing() {
    let conf = "sendfile on; ssl_certificate a.crt; ssl_certificate_key a.key; lingering_close off;
        server { listen 127.0.0.1:{{PORT}} ssl sndbuf=32k; root {{DIR}}/html; ssl_conf_command Options KTLS; }";
    let builder = Builder::new(BIN).http(conf).file("html/large", file());
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    for len in (140_000..400_000).step_by(3000) {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        set_socket_recv_buffer_size(&socket, 8192).unwrap();
        connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let mut client = TlsClient::over(socket.into(), &stranger(), "a.test").unwrap();
        let range = format!("Range: bytes=0-{}\r\nConnection: close\r\n", len - 1);
        client.send(request("/large", &range)).unwrap();
        let rest = client.rest().unwrap_or_else(|why| panic!("{len} bytes: {why}"));
        assert_eq!(super::body(&rest).len(), len);
    }
}

/// The client sees no difference between Brisk's records and the library's, nor when the one follows the other.
#[test]
fn large_answers_with_and_without_own_records() {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key;
        server { listen 127.0.0.1:{{PORT}} ssl; }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_own_records off; }";
    let builder = Builder::new(BIN).http(conf).file("html/large", file()).file("html/small", "0123456789");
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        for port in [1, 2] {
            let mut client = client(&server, port, versions);
            for _ in 0..2 {
                client.send(request("/small", "")).unwrap();
                assert_eq!(body_of(&mut client, 10), "0123456789");
                client.send(request("/large", "")).unwrap();
                assert!(body_of(&mut client, FILE_BYTES) == file());
            }
        }
    }
}
