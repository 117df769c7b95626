//! What a session goes through before it is passed on: PROXY headers, variables, limits, access, names of TLS.

use crate::{BIN, conf, echo, exchange, lines, start, udp_client, udp_echo};
use brisk_testkit::backend::Backend;
use brisk_testkit::client::Ending;
use brisk_testkit::tls::{TlsClient, issue};
use brisk_testkit::{Builder, Client, wait};
use brisk_tls::{ClientContext, ClientOptions};
use std::time::Duration;

fn said(port: u16, what: &str) -> String {
    let mut client = Client::connect(port);
    client.send(what);
    String::from_utf8(client.rest().unwrap_or_default()).unwrap()
}

/// A peer that is believed tells the client's address; another one's word is only a variable.
#[test]
fn a_proxy_tells_who_the_client_is() {
    let text = "return '$remote_addr:$remote_port $realip_remote_addr $proxy_protocol_addr:$proxy_protocol_port \
                $proxy_protocol_server_addr:$proxy_protocol_server_port';";
    let server = start(&format!(
        "log_format s '$server_port $status'; access_log {{{{DIR}}}}/s.log s;
         server {{ listen 127.0.0.1:{{{{PORT}}}} proxy_protocol; set_real_ip_from 127.0.0.0/8; {text} }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} proxy_protocol; set_real_ip_from 10.0.0.0/8; {text} }}
         server {{ listen 127.0.0.1:{{{{PORT3}}}} proxy_protocol; proxy_protocol_timeout 100ms; {text} }}"
    ));
    let header = "PROXY TCP4 192.0.2.1 192.0.2.2 123 456\r\n";
    let told = "192.0.2.1:123 192.0.2.2:456";
    assert_eq!(said(server.port_of(1), header), format!("192.0.2.1:123 127.0.0.1 {told}"));
    let other = said(server.port_of(2), header);
    assert!(other.starts_with("127.0.0.1:") && other.ends_with(&format!(" 127.0.0.1 {told}")), "{other}");
    assert_eq!(said(server.port_of(1), "PROXY UNKNOWN\r\n").split(' ').next_back(), Some(":"));
    // In pieces, with other bytes behind it.
    let mut client = Client::connect(server.port_of(1));
    for piece in ["PRO", "XY TCP4 192.0.2.1 192", ".0.2.2 123 456\r", "\nand more"] {
        client.send(piece);
    }
    assert_eq!(client.wait_for("192.0.2.2:456"), format!("192.0.2.1:123 127.0.0.1 {told}"));
    drop(client);
    // Without one, with a wrong one, and with none in time.
    assert_eq!(said(server.port_of(1), "GET / HTTP/1.0\r\n\r\n"), "");
    assert_eq!(said(server.port_of(1), "PROXY TCP4 x y 1 2\r\n"), "");
    Client::connect(server.port_of(3)).expect_closed();
    server.wait_for_log("broken header: \"GET / HTTP/1.0\" while reading PROXY protocol");
    server.wait_for_log("client timed out .* while reading PROXY protocol");
    let all = lines(&server, "s.log", 7);
    assert_eq!(all.iter().filter(|line| line.ends_with(" 400")).count(), 2, "{all:?}");
}

#[test]
fn a_peer_is_told_who_the_client_is() {
    let backend = echo("");
    let server = start(&format!(
        "proxy_protocol on; server {{ listen 127.0.0.1:{{{{PORT}}}}; listen unix:{{{{DIR}}}}/s; proxy_pass 127.0.0.1:{0}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} proxy_protocol; set_real_ip_from 127.0.0.1; proxy_bind 127.0.0.5;
                   proxy_pass 127.0.0.1:{0}; }}",
        backend.port()
    ));
    let mut client = server.client();
    let want = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", client.local_port(), server.port());
    assert_eq!(client.wait_for("\r\n"), want);
    client.send("x");
    assert_eq!(client.wait_for("x"), format!("{want}x"));
    let mut local = Client::connect_unix(&server.dir().join("s")).unwrap();
    assert_eq!(local.wait_for("\r\n"), "PROXY UNKNOWN\r\n");
    let mut behind = Client::connect(server.port_of(2));
    behind.send("PROXY TCP6 2001:db8::1 2001:db8::2 5 6\r\n");
    // Our end is of another family than the client that was told of.
    assert_eq!(behind.wait_for("\r\n"), "PROXY UNKNOWN\r\n");
}

#[test]
fn who_is_let_in() {
    let server = start(
        "log_format s '$server_port $status $limit_conn_status'; access_log {{DIR}}/s.log s;
         limit_conn_zone $binary_remote_addr zone=one:1m;
         server { listen 127.0.0.1:{{PORT}}; deny 127.0.0.1; allow all; return a; }
         server { listen 127.0.0.1:{{PORT2}}; allow 127.0.0.0/8; deny all; set $a b; set $b $a$a; return $b; }
         server { listen 127.0.0.1:{{PORT3}} proxy_protocol; limit_conn one 1; return c; }
         server { listen 127.0.0.1:{{PORT4}}; limit_conn one 1; proxy_pass 127.0.0.1:{{PORT5}}; }
         server { listen 127.0.0.1:{{PORT5}} proxy_protocol; return d; }",
    );
    assert_eq!(said(server.port_of(1), ""), "");
    server.wait_for_log("access forbidden by rule");
    assert_eq!(said(server.port_of(2), ""), "bb");
    // It waits for its header behind the fourth, so it keeps its place there.
    let mut waiting = Client::connect(server.port_of(4));
    wait::holds("a place is taken", || {
        // Whoever asks at the third may have had the place when it came.
        if waiting.ending(Duration::from_millis(1)) != Ending::Open {
            waiting = Client::connect(server.port_of(4));
        }
        said(server.port_of(3), "PROXY UNKNOWN\r\n").is_empty()
    });
    server.wait_for_log("limiting connections by zone \"one\"");
    drop(waiting);
    wait::holds("the place is free", || said(server.port_of(3), "PROXY UNKNOWN\r\n") == "c");
    // How often the third was asked before its place was free depends on time, so the log is asked for each kind of line.
    wait::holds("each outcome is in the log", || {
        let log = server.read("s.log");
        let has = |port: usize, rest: &str| log.contains(&format!("{} {rest}\n", server.port_of(port)));
        has(1, "403 -") && has(2, "200 -") && has(3, "503 REJECTED") && has(3, "200 PASSED")
    });
}

#[test]
fn datagrams_are_asked_too() {
    let port = udp_echo("u:", 1);
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} udp; allow 127.0.0.1; deny all; proxy_responses 1; proxy_pass 127.0.0.1:{port}; }}
         server {{ listen 127.0.0.1:{{{{PORT2}}}} udp; deny all; proxy_pass 127.0.0.1:{port}; }}"
    ));
    assert_eq!(exchange(&udp_client(server.port_of(1)), "x"), "u:x");
    udp_client(server.port_of(2)).send(b"x").unwrap();
    server.wait_for_log("access forbidden by rule");
}

/// As in nginx the header and the first datagram are one.
#[test]
fn a_datagram_tells_who_the_client_is() {
    let port = udp_echo("", 1);
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_protocol on; proxy_pass 127.0.0.1:{port}; }}"
    ));
    let client = udp_client(server.port());
    let own = client.local_addr().unwrap().port();
    let header = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {}\r\n", server.port());
    assert_eq!(exchange(&client, "x"), header + "x");
    assert_eq!(exchange(&client, "y"), "y");
}

/// The rate of datagrams is kept by those that follow one.
#[test]
fn a_rate_of_datagrams() {
    let port = udp_echo("", 1);
    let server = start(&format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}} udp; proxy_upload_rate 100; proxy_pass 127.0.0.1:{port}; }}"
    ));
    let client = udp_client(server.port());
    let long = "x".repeat(150);
    assert_eq!(exchange(&client, &long), long);
    let begun = std::time::Instant::now();
    assert_eq!(exchange(&client, "y"), "y");
    assert!(begun.elapsed().as_millis() > 300, "{:?}", begun.elapsed());
}

/// TLS is passed on as it is, by the name in it.
#[test]
fn names_in_hellos_choose_servers() {
    let issued = issue("a.test", false, None);
    let plain = Backend::start(|mut peer| {
        let piece = peer.some();
        peer.send([b"plain:".as_slice(), &piece].concat());
    });
    let text = conf(&format!(
        "log_format s '$server_name $ssl_preread_server_name $ssl_preread_protocol $ssl_preread_alpn_protocols $status';
         access_log {{{{DIR}}}}/s.log s; ssl_preread on; preread_timeout 10s;
         server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name a.test; proxy_pass 127.0.0.1:{{{{PORT2}}}}; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}}; server_name *.b.test ~^c; proxy_pass 127.0.0.1:{{{{PORT3}}}}; }}
         server {{ listen 127.0.0.1:{{{{PORT}}}} default_server; server_name other; proxy_pass 127.0.0.1:{}; }}
         server {{ listen 127.0.0.1:{{{{PORT4}}}}; preread_timeout 100ms; return x; }}
         server {{ listen 127.0.0.1:{{{{PORT5}}}}; preread_buffer_size 100; return x; }}",
        plain.port()
    )) + "http { access_log off; ssl_certificate {{DIR}}/a.crt; ssl_certificate_key {{DIR}}/a.key;
         server { listen 127.0.0.1:{{PORT2}} ssl; return 200 'to a'; }
         server { listen 127.0.0.1:{{PORT3}} ssl; return 200 'to b'; } }";
    let server = Builder::new(BIN)
        .conf(&text)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .start();
    let options = ClientOptions { alpn: vec![b"http/1.1".to_vec()], ..ClientOptions::unverified() };
    let context = ClientContext::new(&options).unwrap();
    for (name, want) in [("a.test", "to a"), ("x.B.test", "to b"), ("c", "to b")] {
        let answer = TlsClient::get(server.port(), &context, name, "/").unwrap();
        assert!(answer.ends_with(want), "{name}: {answer}");
    }
    // What is no TLS is passed on as well, and looked at no longer than it takes to see that.
    assert_eq!(said(server.port(), "hello"), "plain:hello");
    Client::connect(server.port_of(4)).expect_closed();
    assert!(TlsClient::connect(server.port_of(5), &context, "a.test").is_err());
    server.wait_for_log("preread buffer full");
    let all = lines(&server, "s.log", 6);
    for want in [
        "a.test a.test TLSv1.3 http/1.1 200",
        "*.b.test x.B.test TLSv1.3 http/1.1 200",
        "*.b.test c TLSv1.3 http/1.1 200",
        "other - - - 200",
        " - - - 200",
        " - - - 400",
    ] {
        assert!(all.iter().any(|line| line == want), "{want}: {all:?}");
    }
}

/// A connection that is passed on keeps what was looked at, and is logged where it goes.
#[test]
fn connections_are_handed_to_other_servers() {
    let text = conf(
        "log_format s '$server_port $status'; access_log {{DIR}}/s.log s;
         server { listen 127.0.0.1:{{PORT}} proxy_protocol; set_real_ip_from 127.0.0.1; pass 127.0.0.1:{{PORT2}}; }
         server { listen 127.0.0.1:{{PORT3}}; pass 127.0.0.1:1; }
         server { listen 127.0.0.1:{{PORT4}}; ssl_preread on; pass unix:{{DIR}}/s; }
         server { listen unix:{{DIR}}/s; proxy_pass 127.0.0.1:{{PORT2}}; }
         server { listen 127.0.0.1:{{PORT5}}; access_log off; pass 127.0.0.1:{{PORT6}}; }
         server { listen 127.0.0.1:{{PORT6}}; access_log off; pass 127.0.0.1:{{PORT5}}; }",
    ) + "http { access_log off; server { listen 127.0.0.1:{{PORT2}}; return 200 '$remote_addr $server_port'; } }";
    let server = Builder::new(BIN).conf(&text).start();
    let request = "GET / HTTP/1.0\r\n\r\n";
    let answer = said(server.port(), &format!("PROXY TCP4 192.0.2.1 192.0.2.2 123 456\r\n{request}"));
    assert!(answer.ends_with(&format!("192.0.2.1 {}", server.port_of(2))), "{answer}");
    let answer = said(server.port_of(4), request);
    assert!(answer.ends_with(&format!("127.0.0.1 {}", server.port_of(2))), "{answer}");
    assert_eq!(said(server.port_of(3), request), "");
    // In a circle.
    assert_eq!(said(server.port_of(5), request), "");
    server.wait_for_log("stream pass cycle");
    server.wait_for_log("nothing listens at \"127.0.0.1:1\" in this configuration");
    // Of what came to the fourth there is one line: that of the server which it was passed to.
    let mut all = lines(&server, "s.log", 2);
    all.sort();
    let mut want = [format!("{} 500", server.port_of(3)), format!("{} 200", server.port_of(4))];
    want.sort();
    assert_eq!(all, want);
}

/// A ClientHello that asks for this name, whatever it is.
fn hello(name: &str) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let entry = [&[0], &*with_length(name.as_bytes())].concat();
    let extension = [&[0, 0], &*with_length(&with_length(&entry))].concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &with_length(&extension)].concat();
    let message = [&[1, 0], &*with_length(&body)].concat();
    [&[22, 3, 1], &*with_length(&message)].concat()
}

/// What a client says of itself does not lead it to a socket of which the configuration does not speak.
#[test]
fn a_name_in_a_hello_chooses_no_socket() {
    let server = Builder::new(BIN)
        .conf(&conf(
            "ssl_preread on;
             server { listen 127.0.0.1:{{PORT}}; server_name ~^(?<app>.+)\\.test$; proxy_pass unix:{{DIR}}/apps/$app.sock; }
             server { listen 127.0.0.1:{{PORT}} default_server; proxy_pass unix:{{DIR}}/none.sock; }
             server { listen unix:{{DIR}}/none.sock; ssl_preread off; return none; }
             server { listen 127.0.0.1:{{PORT2}}; proxy_pass $ssl_preread_server_name; }
             server { listen unix:{{DIR}}/apps/a.sock; ssl_preread off; return app; }
             server { listen unix:{{DIR}}/other.sock; ssl_preread off; return other; }",
        ))
        .file("apps/x", "")
        .start();
    let asked = |place: usize, name: &str| {
        let mut client = Client::connect(server.port_of(place));
        client.send(hello(name));
        String::from_utf8(client.rest().unwrap_or_default()).unwrap()
    };
    assert_eq!(asked(1, "a.test"), "app");
    for name in ["../other.test", "..test", "x/../../other.test", "a b.test"] {
        assert_eq!(asked(1, name), "none", "{name}");
    }
    assert_eq!(asked(2, &format!("unix:{}/other.sock", server.dir().display())), "");
    server.wait_for_log("variables lead to the unix domain socket .*other.sock");
}
