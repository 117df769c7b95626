//! TLS that is ended in `stream`, and TLS to the servers that sessions are passed to.

use crate::{BIN, conf, echo, lines};
use brisk_testkit::backend::Backend;
use brisk_testkit::tls::{TlsClient, issue, returning, stranger};
use brisk_testkit::{Builder, Client, Server, wait};
use brisk_tls::issue::Issued;
use brisk_tls::{Certified, ClientContext, ClientOptions, PrivateKey};

/// With certificates in `NAME.crt` and `NAME.key`.
fn start(stream: &str, certificates: &[(&str, &Issued)]) -> Server {
    let mut builder = Builder::new(BIN).conf(&conf(stream));
    for (name, issued) in certificates {
        builder = builder
            .file(&format!("{name}.crt"), issued.certificate_pem())
            .file(&format!("{name}.key"), issued.key_pem());
    }
    builder.start()
}

fn presenting(issued: &Issued) -> ClientContext {
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
    let chain = brisk_tls::chain(issued.certificate_pem().as_bytes()).unwrap();
    let certificate = Some(Certified::new(chain, &key, None).unwrap());
    ClientContext::new(&ClientOptions { certificate, ..ClientOptions::unverified() }).unwrap()
}

fn offering(protocols: &[&str]) -> ClientContext {
    let alpn = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    ClientContext::new(&ClientOptions { alpn, ..ClientOptions::unverified() }).unwrap()
}

/// What a server says by itself to a client of this name.
fn told(port: u16, context: &ClientContext, name: &str) -> Result<String, String> {
    TlsClient::connect(port, context, name)?.rest()
}

#[test]
fn names_choose_servers_and_certificates() {
    let (a, b) = (issue("a.test", false, None), issue("b.test", false, None));
    let server = start(
        "log_format s '$server_port $status $ssl_server_name $bytes_sent'; access_log {{DIR}}/s.log s;
         ssl_certificate a.crt; ssl_certificate_key a.key;
         server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; ssl_alpn one two;
                  return '$ssl_server_name $ssl_protocol $ssl_alpn_protocol $ssl_session_reused $ssl_client_verify.'; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name *.b.test; ssl_certificate b.crt; ssl_certificate_key b.key;
                  ssl_protocols TLSv1.2; return '$ssl_server_name $ssl_protocol $ssl_cipher'; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name no.test; ssl_reject_handshake on; return no; }
         server { listen 127.0.0.1:{{PORT2}}; return '$ssl_protocol.'; }
         server { listen 127.0.0.1:{{PORT3}} ssl proxy_protocol; ssl_certificate $ssl_server_name.crt;
                  ssl_certificate_key $ssl_server_name.key; return '$proxy_protocol_addr $ssl_server_name'; }",
        &[("a", &a), ("b", &b), ("c.test", &b)],
    );
    let port = server.port();
    assert_eq!(told(port, &stranger(), "a.test").unwrap(), "a.test TLSv1.3  . NONE.");
    assert_eq!(
        told(port, &offering(&["zero", "two"]), "else.test").unwrap(),
        "else.test TLSv1.3 two . NONE."
    );
    let refused = told(port, &offering(&["zero"]), "a.test").unwrap_err();
    assert!(refused.contains("no application protocol"), "{refused}");
    let other = TlsClient::connect(port, &stranger(), "x.b.test").unwrap();
    assert_eq!(other.certificate(), b.certificate);
    assert!(told(port, &stranger(), "X.b.test").unwrap().starts_with("X.b.test TLSv1.2 ECDHE-"));
    assert!(told(port, &stranger(), "no.test").is_err());
    let again = returning();
    assert!(told(port, &again, "a.test").unwrap().contains(" . "));
    assert!(told(port, &again, "a.test").unwrap().contains(" r "));
    let mut plain = Client::connect(server.port_of(2));
    assert_eq!(plain.rest().unwrap(), b".");
    // By paths with variables, behind a PROXY header.
    let introduced = |name: &str| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", server.port_of(3))).unwrap();
        std::io::Write::write_all(&mut &stream, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n").unwrap();
        TlsClient::over(stream, &stranger(), name).and_then(|mut client| client.rest())
    };
    assert_eq!(introduced("c.test").unwrap(), "192.0.2.1 c.test");
    for name in ["d.test", "../c.test"] {
        assert!(introduced(name).is_err(), "{name}");
    }
    server.wait_for_log("cannot load certificate .*d\\.test\\.crt");
    wait::holds("sessions are in the log", || {
        let log = server.read("s.log");
        log.contains(&format!("{port} 200 a.test")) && log.contains(&format!("{port} 500 no.test 0"))
    });
}

#[test]
fn what_is_no_handshake_is_refused() {
    let a = issue("a.test", false, None);
    let server = start(
        "log_format s '$status'; access_log {{DIR}}/s.log s; ssl_certificate a.crt; ssl_certificate_key a.key;
         server { listen 127.0.0.1:{{PORT}} ssl; return a; }
         server { listen 127.0.0.1:{{PORT2}} ssl; ssl_handshake_timeout 100ms; return a; }
         server { listen 127.0.0.1:{{PORT3}} ssl; deny all; return a; }",
        &[("a", &a)],
    );
    let alerts = ["GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"];
    for bytes in alerts {
        let mut client = Client::connect(server.port());
        client.send(bytes);
        // A record of its own (RFC 8446 §6).
        assert!(client.rest().unwrap().starts_with(&[21, 3, 3, 0, 2, 2]), "{bytes:?}");
    }
    // It has gone in the middle: nobody is left to tell.
    let mut half = Client::connect(server.port());
    half.send("\x16\x03\x01\x00");
    half.half_close();
    let _ = half.rest();
    // Its message never ends.
    let mut endless = Client::connect(server.port());
    let piece = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 0x3ffc]].concat();
    for _ in 0..16 {
        if endless.try_send(&piece).is_err() {
            break;
        }
    }
    let _ = endless.rest();
    Client::connect(server.port_of(2)).expect_closed();
    server.wait_for_log("client timed out .* while SSL handshaking");
    assert!(told(server.port_of(3), &stranger(), "a.test").is_err());
    assert_eq!(told(server.port(), &stranger(), "a.test").unwrap(), "a");
    let all = lines(&server, "s.log", 7);
    assert_eq!(all.iter().filter(|line| *line == "500").count(), 5, "{all:?}");
    server.wait_for_log("SSL_do_handshake\\(\\) failed .* while SSL handshaking");
    server.wait_for_log("peer closed connection in SSL handshake while SSL handshaking");
}

#[test]
fn clients_certificates_are_judged() {
    let site = issue("a.test", false, None);
    let (authority, other) = (issue("authority", true, None), issue("other", true, None));
    let (good, bad) = (issue("good", false, Some(&authority)), issue("bad", false, Some(&other)));
    let server = start(
        "ssl_certificate a.crt; ssl_certificate_key a.key; ssl_client_certificate ca.crt;
         server { listen 127.0.0.1:{{PORT}} ssl; ssl_verify_client on; return '$ssl_client_verify $ssl_client_s_dn'; }
         server { listen 127.0.0.1:{{PORT2}} ssl; ssl_verify_client optional; return $ssl_client_verify; }
         server { listen 127.0.0.1:{{PORT3}} ssl; ssl_verify_client optional_no_ca; return '$ssl_client_verify'; }
         server { listen 127.0.0.1:{{PORT4}} ssl; server_name open.test; return '$ssl_client_verify'; }
         server { listen 127.0.0.1:{{PORT4}} ssl; server_name closed.test; ssl_verify_client on; return in; }",
        &[("a", &site), ("ca", &authority)],
    );
    let (port, optional) = (server.port(), server.port_of(2));
    let (nobody, good, bad) = (stranger(), presenting(&good), presenting(&bad));
    assert_eq!(told(port, &good, "a.test").unwrap(), "SUCCESS CN=good");
    // A client of TLS 1.3 has finished its handshake before the server can refuse it.
    for context in [&nobody, &bad] {
        assert_eq!(told(port, context, "a.test").unwrap_or_default(), "");
    }
    assert_eq!(told(optional, &nobody, "a.test").unwrap(), "NONE");
    assert_eq!(told(optional, &good, "a.test").unwrap(), "SUCCESS");
    assert_eq!(told(optional, &bad, "a.test").unwrap_or_default(), "");
    let forgiven = told(server.port_of(3), &bad, "a.test").unwrap();
    assert!(forgiven.starts_with("FAILED:"), "{forgiven}");
    // What a handshake of one server lets in is not let into another one that asks for more.
    let several = server.port_of(4);
    assert_eq!(told(several, &good, "open.test").unwrap(), "NONE");
    assert_eq!(told(several, &good, "closed.test").unwrap(), "in");
    assert_eq!(told(several, &nobody, "closed.test").unwrap_or_default(), "");
    server.wait_for_log("client sent no required SSL certificate");
    server.wait_for_log("client SSL certificate verify error: ");
}

#[test]
fn servers_are_spoken_to_by_tls() {
    let authority = issue("authority", true, None);
    let (a, b) = (issue("a.test", false, Some(&authority)), issue("b.test", false, None));
    let client = issue("client", false, Some(&authority));
    let backend = echo("e:");
    let server = start(
        &format!(
            "log_format s '$server_port $status $upstream_addr'; access_log {{{{DIR}}}}/s.log s;
             upstream both {{ server 127.0.0.1:{{{{PORT6}}}} max_fails=0; server 127.0.0.1:{{{{PORT5}}}}; }}
             proxy_ssl on; proxy_ssl_server_name on; proxy_ssl_trusted_certificate ca.crt; proxy_ssl_verify on;
             server {{ listen 127.0.0.1:{{{{PORT}}}}; proxy_pass 127.0.0.1:{{{{PORT5}}}}; proxy_ssl_name a.test; }}
             server {{ listen 127.0.0.1:{{{{PORT2}}}}; proxy_pass 127.0.0.1:{{{{PORT5}}}}; proxy_ssl_name b.test; }}
             server {{ listen 127.0.0.1:{{{{PORT3}}}}; proxy_pass both; proxy_ssl_name a.test; }}
             server {{ listen 127.0.0.1:{{{{PORT4}}}} ssl; ssl_certificate b.crt; ssl_certificate_key b.key; proxy_protocol on;
                       set $pair {{{{DIR}}}}/client; proxy_pass 127.0.0.1:{{{{PORT7}}}}; proxy_ssl_verify off;
                       proxy_ssl_certificate $pair.crt; proxy_ssl_certificate_key $pair.key;
                       proxy_ssl_alpn $ssl_alpn_protocol v2; }}
             server {{ listen 127.0.0.1:{{{{PORT5}}}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; proxy_ssl off;
                       proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:{{{{PORT6}}}} ssl; ssl_certificate b.crt; ssl_certificate_key b.key; return b; }}
             server {{ listen 127.0.0.1:{{{{PORT7}}}} ssl proxy_protocol; ssl_certificate b.crt; ssl_certificate_key b.key;
                       ssl_verify_client on; ssl_client_certificate ca.crt; ssl_alpn v1 v2;
                       return '$ssl_client_s_dn $ssl_server_name $proxy_protocol_addr $ssl_alpn_protocol'; }}",
            backend.port()
        ),
        &[("a", &a), ("b", &b), ("ca", &authority), ("client", &client)],
    );
    let said = |place: usize, text: &str, want: &str| {
        let mut client = Client::connect(server.port_of(place));
        client.send(text);
        assert_eq!(client.wait_for(want), want);
    };
    said(1, "x", "e:x");
    Client::connect(server.port_of(2)).expect_closed();
    server
        .wait_for_log("upstream SSL certificate does not match \"b.test\" while SSL handshaking to upstream");
    // One whose certificate is not good is passed over.
    said(3, "y", "e:y");
    said(3, "y", "e:y");
    server.wait_for_log("upstream SSL certificate verify error: .* while SSL handshaking to upstream");
    // Addresses are no names to ask for (RFC 6066 §3).
    let told = told(server.port_of(4), &stranger(), "whoever").unwrap();
    assert_eq!(told, "CN=client  127.0.0.1 v2");
    // Much in both directions: records are cut at other places than buffers.
    let mut client = Client::connect(server.port());
    let much = "0123456789abcdef".repeat(20_000);
    client.send(&much);
    let mut got = String::new();
    while got.replace("e:", "").len() < much.len() {
        got += &String::from_utf8(client.some(1 << 16).unwrap()).unwrap();
    }
    assert_eq!(got.replace("e:", ""), much);
    drop(client);
    wait::holds("what failed is in the log", || {
        server.read("s.log").contains(&format!("{} 502 127.0.0.1:{}", server.port_of(2), server.port_of(5)))
    });
}

/// A client must be able to tell what was cut off from what has ended.
#[test]
fn an_end_that_is_none_is_not_told_as_one() {
    let a = issue("a.test", false, None);
    let ends = Backend::start(|mut peer| {
        peer.some();
        peer.send("whole");
    });
    let resets = Backend::start(|mut peer| {
        peer.some();
        peer.send("half");
        peer.reset();
    });
    let server = start(
        &format!(
            "ssl_certificate a.crt; ssl_certificate_key a.key;
             server {{ listen 127.0.0.1:{{{{PORT}}}} ssl; proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:{{{{PORT2}}}} ssl; proxy_pass 127.0.0.1:{}; }}
             server {{ listen 127.0.0.1:{{{{PORT3}}}} ssl; proxy_timeout 100ms; proxy_pass 127.0.0.1:{}; }}",
            ends.port(),
            resets.port(),
            echo("").port(),
        ),
        &[("a", &a)],
    );
    let ending = |place: usize| {
        let mut client = TlsClient::connect(server.port_of(place), &stranger(), "a.test").unwrap();
        // The third one's time may be over already.
        client.send("x")?;
        client.rest()
    };
    assert_eq!(ending(1).unwrap(), "whole");
    for place in [2, 3] {
        assert!(ending(place).is_err(), "{place}");
    }
}

/// `pass` of a connection whose TLS was ended: to HTTP, to `stream`, and what cannot be passed.
#[test]
fn sessions_of_tls_are_handed_to_other_servers() {
    let a = issue("a.test", false, None);
    let text = conf(
        "log_format s '$server_port $status $ssl_server_name'; access_log {{DIR}}/s.log s;
         ssl_certificate a.crt; ssl_certificate_key a.key;
         server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; pass 127.0.0.1:{{PORT4}}; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name stream.test; pass 127.0.0.1:{{PORT2}}; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name looked.test; ssl_preread on; pass 127.0.0.1:{{PORT4}}; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name wrong.test; pass 127.0.0.1:{{PORT3}}; }
         server { listen 127.0.0.1:{{PORT}} ssl; server_name worse.test; pass 127.0.0.1:{{PORT5}}; }
         server { listen 127.0.0.1:{{PORT2}}; return '$ssl_server_name $server_port $ssl_protocol'; }
         server { listen 127.0.0.1:{{PORT3}} ssl; return x; }",
    ) + "http { access_log off; ssl_certificate a.crt; ssl_certificate_key a.key;
         server { listen 127.0.0.1:{{PORT4}}; location / { return 200 '$scheme $https $ssl_server_name $server_port'; }
                  location = /to { return 302 /there; } }
         server { listen 127.0.0.1:{{PORT5}} ssl; return 200 x; } }";
    let server =
        Builder::new(BIN).conf(&text).file("a.crt", a.certificate_pem()).file("a.key", a.key_pem()).start();
    let port = server.port();
    let get = |name: &str, target: &str| TlsClient::get(port, &stranger(), name, target);
    let answer = get("a.test", "/").unwrap();
    assert!(answer.ends_with(&format!("https on a.test {}", server.port_of(4))), "{answer}");
    // What is kept for connections without TLS is not for those with it, and the other way round.
    for _ in 0..3 {
        let mut plain = Client::connect(server.port_of(4));
        plain.send("GET /to HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let plain = String::from_utf8(plain.rest().unwrap()).unwrap();
        assert!(plain.contains("Location: http://a.test"), "{plain}");
        let secure = get("a.test", "/to").unwrap();
        assert!(secure.contains("Location: https://a.test"), "{secure}");
    }
    let of_stream = told(port, &stranger(), "stream.test").unwrap();
    assert_eq!(of_stream, format!("stream.test {} TLSv1.3", server.port_of(2)));
    for name in ["looked.test", "wrong.test", "worse.test"] {
        assert!(!get(name, "/").unwrap_or_default().contains("200"), "{name}");
    }
    server.wait_for_log("cannot pass connection with preread data");
    server.wait_for_log("was passed to where TLS or a PROXY header is to come");
    // Those that were passed are logged by those who got them, as far as those are of stream.
    let mut all = lines(&server, "s.log", 3);
    let line = |place: usize, rest: &str| format!("{} {rest}", server.port_of(place));
    let mut want = vec![line(2, "200 stream.test"), line(1, "500 looked.test"), line(3, "500 wrong.test")];
    want.sort();
    all.sort();
    assert_eq!(all, want);
}

/// `ssl_preread` looks at what is inside of TLS that was ended, and what it has looked at is passed on.
#[test]
fn what_is_inside_of_tls_is_looked_at() {
    let a = issue("a.test", false, None);
    let backend = echo("e:");
    let server = start(
        &format!(
            "ssl_certificate a.crt; ssl_certificate_key a.key; log_format s '$bytes_received $upstream_bytes_sent'; access_log {{{{DIR}}}}/s.log s;
             server {{ listen 127.0.0.1:{{{{PORT}}}} ssl; ssl_preread on; proxy_pass 127.0.0.1:{}; }}",
            backend.port()
        ),
        &[("a", &a)],
    );
    let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
    client.send("hello").unwrap();
    assert_eq!(client.wait_for("e:hello").unwrap(), "e:hello");
    client.send("more").unwrap();
    assert_eq!(client.wait_for("e:more").unwrap(), "e:more");
    drop(client);
    assert_eq!(lines(&server, "s.log", 1), ["9 9"]);
}
