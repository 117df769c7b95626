//! `listen … proxy_protocol`: headers of both versions, in any number of pieces, and what is no header.

use brisk_testkit::client::Ending;
use brisk_testkit::{Builder, Client, Response, Server, wait};
use std::time::Duration;

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const CONF: &str = r#"
    log_format proxy "$remote_addr $proxy_protocol_addr:$proxy_protocol_port $uri";
    client_header_timeout 30s;
    add_header X-Client $proxy_protocol_addr!$proxy_protocol_port;
    add_header X-Server $proxy_protocol_server_addr!$proxy_protocol_server_port;
    add_header X-Peer $remote_addr;
    server {
        listen 127.0.0.1:{{PORT}} proxy_protocol;
        access_log {{DIR}}/proxy.log proxy;
        location /tlv {
            add_header X-Alpn $proxy_protocol_tlv_alpn/$proxy_protocol_tlv_0x01;
            add_header X-Cn $proxy_protocol_tlv_ssl_cn/$proxy_protocol_tlv_ssl_0x22;
            add_header X-Verify $proxy_protocol_tlv_ssl_verify;
            add_header X-None [$proxy_protocol_tlv_netns];
            add_header X-Strange [$proxy_protocol_tlv_strange];
            return 204;
        }
    }
    server { listen 127.0.0.1:{{PORT2}}; }
    server { listen 127.0.0.1:{{PORT3}} proxy_protocol; client_header_timeout 500ms; }
    server { listen {{PORT4}} proxy_protocol; server_name wide; return 200 wide; }
    server { listen 127.0.0.1:{{PORT4}}; server_name narrow; return 200 narrow; }
    server { listen unix:{{DIR}}/proxy.sock proxy_protocol; }
"#;

const V1: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\n";
const GET: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn server() -> Server {
    Builder::new(BIN).http(CONF).file("html/a.txt", "hello").start()
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16).to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command, family][..], &len, body].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// 192.0.2.9:9 to 192.0.2.2:80.
const V4: &[u8] = &[192, 0, 2, 9, 192, 0, 2, 2, 0, 9, 0, 80];

#[track_caller]
fn check(response: &Response, client: &str, server: &str) {
    assert_eq!((response.status, response.text().as_str()), (200, "hello"), "{}", response.head);
    assert_eq!(response.header("X-Client"), Some(client));
    assert_eq!(response.header("X-Server"), Some(server));
    assert_eq!(response.header("X-Peer"), Some("127.0.0.1"), "the connection's own address stays what it is");
}

#[test]
fn both_versions_with_a_request_behind() {
    let server = server();
    let ask = |header: &[u8]| {
        let mut client = server.client();
        client.send([header, GET.as_bytes()].concat());
        client.response()
    };
    check(&ask(V1.as_bytes()), "192.0.2.1!123", "192.0.2.2!5678");
    check(&ask(b"PROXY TCP6 2001:Db8::1 2001:Db8::2 123 5678\r\n"), "2001:db8::1!123", "2001:db8::2!5678");
    check(&ask(b"PROXY UNKNOWN\r\n"), "!", "!");
    check(&ask(b"PROXY UNKNOWN 1 2 3 4\r\n"), "!", "!");
    check(&ask(&v2(1, 0x11, V4)), "192.0.2.9!9", "192.0.2.2!80");
    let v6 =
        [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(2)[..], &[0, 9, 0, 80]].concat();
    check(&ask(&v2(1, 0x21, &v6)), "2001:db8::1!9", "2001:db8::1!80");
    // LOCAL: a health check of the proxy itself.
    check(&ask(&v2(0, 0, b"")), "!", "!");
    // As long as the protocol allows here.
    let long = tlv(0xe0, &vec![0xff; 4096 - 16 - 12 - 3]);
    check(&ask(&v2(1, 0x11, &[V4, &long].concat())), "192.0.2.9!9", "192.0.2.2!80");
    let lines = server.wait_for_line("proxy.log", "192.0.2.9:9");
    assert_eq!(lines, "127.0.0.1 192.0.2.9:9 /a.txt");
}

#[test]
fn a_header_is_for_the_whole_connection_and_only_for_it() {
    let server = server();
    let (mut one, mut other) = (server.client(), server.client());
    one.send([V1.as_bytes(), GET.as_bytes(), GET.as_bytes()].concat());
    other.send([&v2(1, 0x11, V4)[..], GET.as_bytes()].concat());
    // The same answers again and again: none may be kept for another client.
    for _ in 0..4 {
        check(&one.response(), "192.0.2.1!123", "192.0.2.2!5678");
        check(&other.response(), "192.0.2.9!9", "192.0.2.2!80");
        one.send(GET);
        other.send(GET);
    }
}

#[test]
fn in_pieces() {
    let server = server();
    let slow = |header: &[u8]| {
        let mut client = server.client();
        for byte in [header, GET.as_bytes()].concat() {
            client.send([byte]);
            std::thread::sleep(Duration::from_micros(200));
        }
        client.response()
    };
    check(&slow(V1.as_bytes()), "192.0.2.1!123", "192.0.2.2!5678");
    check(&slow(&v2(1, 0x11, V4)), "192.0.2.9!9", "192.0.2.2!80");

    // Alone, then nothing for a while.
    let mut client = server.client();
    client.send(V1);
    assert_eq!(client.ending(Duration::from_millis(50)), Ending::Open);
    client.send(GET);
    check(&client.response(), "192.0.2.1!123", "192.0.2.2!5678");

    // Its end together with the beginning of the request.
    let mut client = server.client();
    client.send(&V1[..20]);
    assert_eq!(client.ending(Duration::from_millis(20)), Ending::Open);
    client.send([&V1[20..], &GET[..10]].concat());
    assert_eq!(client.ending(Duration::from_millis(20)), Ending::Open);
    client.send(&GET[10..]);
    check(&client.response(), "192.0.2.1!123", "192.0.2.2!5678");

    // Half of it, then all the rest and two requests.
    let mut client = server.client();
    let header = v2(1, 0x11, V4);
    client.send(&header[..14]);
    assert_eq!(client.ending(Duration::from_millis(20)), Ending::Open);
    client.send([&header[14..], GET.as_bytes(), GET.as_bytes()].concat());
    check(&client.response(), "192.0.2.9!9", "192.0.2.2!80");
    check(&client.response(), "192.0.2.9!9", "192.0.2.2!80");
}

#[test]
fn no_header_no_answer() {
    let server = server();
    let refused = |bytes: &[u8], log: &str| {
        let mut client = server.client();
        client.send(bytes);
        let ending = client.ending(wait::DEADLINE);
        assert!(matches!(ending, Ending::Closed | Ending::Reset), "{ending:?} to {bytes:?}");
        let listen = format!("client: 127.0.0.1, server: 127.0.0.1:{}$", server.port());
        server.wait_for_log(&format!(
            "\\[error\\] \\d+#\\d+: \\*\\d+ {log} while reading PROXY protocol, {listen}"
        ));
    };
    refused(GET.as_bytes(), "broken header: \"GET /a.txt HTTP/1.1\"");
    refused(b"PROXY TCP4 1.2.3.4\r\n", "broken header: \"PROXY TCP4 1.2.3.4\"");
    refused(&[0x16, 3, 1, 0, 5], "broken header: \"\\\\x16\\\\x03\\\\x01\\\\x00\\\\x05\"");
    refused(&v2(1, 0x11, &V4[..4]), "header is too short for its addresses");
    refused(&v2(1, 0x11, &[0; 5000])[..16], "header is too large");
    refused(b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\x0c", "unknown PROXY protocol version: 1");
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
    refused(endless.as_bytes(), &format!("broken header: \"{endless}\""));
    // A second header is no request.
    let mut client = server.client();
    client.send([V1, V1, GET].concat());
    assert_eq!(client.response().status, 400);
}

#[test]
fn ends_and_time_outs() {
    let server = server();
    // Nothing at all, as health checks of balancers do.
    drop(server.client());
    server.wait_for_log("\\[info\\] .* client closed connection while reading PROXY protocol");
    let mut client = server.client();
    client.send("PROXY TC");
    client.half_close();
    client.expect_closed();
    server.wait_for_log("\\[error\\] .* broken header: \"PROXY TC\" while reading PROXY protocol");

    for sent in ["", "PROXY TCP4 192.0.2.1 19"] {
        let mut client = Client::connect(server.port_of(3));
        client.send(sent);
        client.expect_closed();
    }
    // The header alone does not buy more time.
    let mut client = Client::connect(server.port_of(3));
    client.send(V1);
    client.expect_closed();
    wait::holds("both time-outs in the log", || {
        let log = server.error_log();
        log.matches("client timed out (110: Connection timed out) while reading PROXY protocol").count() == 2
    });
}

#[test]
fn other_listeners_know_nothing_of_it() {
    let server = server();
    let mut client = Client::connect(server.port_of(2));
    check(&client.request(GET), "!", "!");
    let mut client = Client::connect(server.port_of(2));
    client.send([V1, GET].concat());
    assert_eq!(client.response().status, 400);

    // One socket for all addresses of a port: the address decides.
    let mut client = Client::connect(server.port_of(4));
    assert_eq!(client.request(GET).text(), "narrow");
    let mut client =
        Client::connect_to(([127, 0, 0, 2], server.port_of(4)).into()).expect("a loopback address");
    client.send([V1, GET].concat());
    assert_eq!(client.response().text(), "wide");

    let mut client = Client::connect_unix(&server.dir().join("proxy.sock")).expect("a socket");
    client.send([V1, GET].concat());
    let response = client.response();
    assert_eq!(response.header("X-Client"), Some("192.0.2.1!123"));
    assert_eq!(response.header("X-Peer"), Some("unix:"));
}

#[test]
fn fields() {
    let server = server();
    let ssl = [&[1, 0, 0, 0, 20][..], &tlv(0x22, b"example.com")].concat();
    let ask = |tlvs: &[u8]| {
        let mut client = server.client();
        client.send([&v2(1, 0x11, &[V4, tlvs].concat())[..], b"GET /tlv HTTP/1.0\r\n\r\n"].concat());
        client.response()
    };
    let response = ask(&[tlv(1, b"h2"), tlv(0x20, &ssl)].concat());
    assert_eq!(response.header("X-Alpn"), Some("h2/h2"));
    assert_eq!(response.header("X-Cn"), Some("example.com/example.com"));
    assert_eq!(response.header("X-Verify"), Some("20"));
    assert_eq!(response.header("X-None"), Some("[]"));
    assert_eq!(response.header("X-Strange"), Some("[]"));
    server.wait_for_log("unknown PROXY protocol TLV \"strange\"");
    let response = ask(&[9]);
    assert_eq!(response.header("X-Alpn"), Some("/"));
    server.wait_for_log("broken PROXY protocol TLV");
}

#[test]
fn only_trusted_proxies_are_believed() {
    let conf = |trusted: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}} proxy_protocol; real_ip_header proxy_protocol;
                set_real_ip_from {trusted};
                location / {{ allow 192.0.2.7; deny all; try_files /none @ok; }}
                location @ok {{ return 200 $remote_addr:$remote_port; }} }}"
        )
    };
    let ask = |trusted: &str| {
        let server = Builder::new(BIN).http(&conf(trusted)).start();
        let mut client = server.client();
        client.send("PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response();
        (response.status, response.text())
    };
    assert_eq!(ask("127.0.0.0/8"), (200, "192.0.2.7:4711".to_string()));
    assert_eq!(ask("198.51.100.0/24").0, 403, "others may say what they like");
}
