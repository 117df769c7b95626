//! TLS: sessions, certificates and handshakes that are used for what they are not.

use super::BIN;
use brisk_testkit::tls::{issue, returning, stranger};
use brisk_testkit::{Builder, Server, TlsClient};
use brisk_tls::issue::Issued;
use brisk_tls::{Certified, ClientContext, ClientOptions, PrivateKey};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// `open.test` for everybody, `closed.test` only for clients of `authority`.
fn site(authority: &Issued) -> Server {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key; ssl_session_cache shared:x:1m; ssl_session_tickets on;
         server { listen 127.0.0.1:{{PORT}} ssl; http2 on; server_name open.test; location / { return 200 open; } }
         server { listen 127.0.0.1:{{PORT}} ssl; http2 on; server_name closed.test; ssl_verify_client on; ssl_client_certificate ca.crt; location / { return 200 secret; } }
         server { listen 127.0.0.1:{{PORT}} ssl; http2 on; server_name other.test; ssl_verify_client on; ssl_client_certificate other.crt; location / { return 200 other; } }";
    Builder::new(BIN)
        .http(conf)
        .certificate("open.test")
        .file("ca.crt", authority.certificate_pem())
        .file("other.crt", issue("other authority", true, None).certificate_pem())
        .start()
}

fn member(issued: &Issued) -> ClientContext {
    let key = PrivateKey::from_pem(issued.key_pem().as_bytes(), &[]).unwrap();
    let chain = brisk_tls::chain(issued.certificate_pem().as_bytes()).unwrap();
    let certificate = Some(Certified::new(chain, &key, None).unwrap());
    ClientContext::new(&ClientOptions { certificate, ..ClientOptions::unverified() }).unwrap()
}

/// The answer on a connection whose handshake was with `name`, for a request that names `host`.
fn answer(server: &Server, context: &ClientContext, name: &str, host: &str) -> String {
    let Ok(mut client) = TlsClient::connect(server.port(), context, name) else {
        return "no handshake".into();
    };
    let _ = client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    client.rest().unwrap_or_default()
}

#[test]
fn a_session_of_one_host_at_another() {
    let authority = issue("authority", true, None);
    let server = site(&authority);
    let context = returning();
    for _ in 0..3 {
        assert!(answer(&server, &context, "open.test", "open.test").ends_with("open"));
        assert!(!answer(&server, &context, "closed.test", "closed.test").contains("secret"));
    }
    let member = member(&issue("member", false, Some(&authority)));
    for _ in 0..3 {
        assert!(answer(&server, &member, "closed.test", "closed.test").ends_with("secret"));
        let other = answer(&server, &member, "other.test", "other.test");
        assert!(!other.ends_with("other"), "{other}");
    }
}

#[test]
fn a_handshake_with_one_host_for_another() {
    let authority = issue("authority", true, None);
    let server = site(&authority);
    let member = member(&issue("member", false, Some(&authority)));
    for (name, host) in
        [("open.test", "closed.test"), ("closed.test", "other.test"), ("unknown.test", "closed.test")]
    {
        for context in [&stranger(), &member] {
            let got = answer(&server, context, name, host);
            assert!(!got.ends_with("secret") && !got.ends_with("other"), "{name} {host}: {got}");
            assert!(
                got.contains(" 421 ") || got.contains(" 400 ") || got == "no handshake" || got.is_empty(),
                "{name} {host}: {got}"
            );
        }
    }
}

/// What comes back for these bytes on a connection of their own.
fn exchange(server: &Server, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    got
}

#[test]
fn heartbeats_that_ask_for_more_than_they_sent() {
    let server = site(&issue("authority", true, None));
    // Before a handshake, and as a record within one.
    let got = exchange(&server, &[24, 3, 2, 0, 3, 1, 0x40, 0]);
    assert!(got.len() < 1000 && !got.starts_with(&[24]), "{got:?}");
    let mut client = TlsClient::connect(server.port(), &stranger(), "open.test").unwrap();
    client.send_raw(&[24, 3, 3, 0, 3, 1, 0x40, 0]);
    assert!(client.rest().is_err());
    assert!(answer(&server, &stranger(), "open.test", "open.test").ends_with("open"));
}

#[test]
fn warnings_without_end() {
    let server = site(&issue("authority", true, None));
    // CVE-2016-8610: unencrypted warnings before the ClientHello.
    let got = exchange(&server, &[21, 3, 1, 0, 2, 1, 0].repeat(5000));
    assert!(got.len() < 1000, "{}", got.len());
    // Empty records of application data, and changes of cipher.
    for record in [&[20u8, 3, 3, 0, 1, 1][..], &[23, 3, 3, 0, 0], &[22, 3, 3, 0, 0]] {
        let got = exchange(&server, &record.repeat(5000));
        assert!(got.len() < 1000, "{record:?}: {}", got.len());
    }
    assert!(answer(&server, &stranger(), "open.test", "open.test").ends_with("open"));
}

#[test]
fn versions_that_are_no_longer_spoken() {
    let server = site(&issue("authority", true, None));
    for version in [[2u8, 0], [3, 0], [3, 1], [3, 2]] {
        let mut body = version.to_vec();
        body.extend([7; 32]);
        body.extend([0, 0, 4, 0xc0, 0x2f, 0x00, 0x2f, 1, 0]);
        let mut message = vec![1, 0, 0, body.len() as u8];
        message.extend(body);
        let mut record = vec![22, 3, 0, 0, message.len() as u8];
        record.extend(message);
        let got = exchange(&server, &record);
        // protocol_version (70), or handshake_failure for want of what those versions had.
        assert!(got.first() == Some(&21) && matches!(got.get(6), Some(70 | 40)), "{version:?}: {got:?}");
    }
}

#[test]
fn renegotiation_by_the_client() {
    let server = site(&issue("authority", true, None));
    let mut child = std::process::Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{}", server.port()),
            "-tls1_2",
            "-servername",
            "open.test",
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"R\nR\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let shown =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("no renegotiation") || shown.contains("RENEGOTIATING"), "{shown}");
    assert!(answer(&server, &stranger(), "open.test", "open.test").ends_with("open"));
}

#[test]
fn another_protocol_over_our_certificate() {
    // ALPACA: a client that speaks FTP or SMTP by ALPN is not answered over this certificate.
    let server = site(&issue("authority", true, None));
    for protocol in ["ftp", "smtp", "imap", "h3"] {
        let output = std::process::Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &format!("127.0.0.1:{}", server.port()),
                "-alpn",
                protocol,
                "-servername",
                "open.test",
            ])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.contains("no application protocol"), "{protocol}: {shown}");
    }
}

#[test]
fn a_hello_in_a_thousand_pieces() {
    let server = site(&issue("authority", true, None));
    // A hello of one byte per record: 200 records and then silence end in time, and nobody else waits.
    let message = [&[1, 0, 1, 0, 3, 3][..], &[9; 250]].concat();
    let bytes: Vec<u8> = message.iter().flat_map(|byte| [22, 3, 1, 0, 1, *byte]).collect();
    let got = exchange(&server, &bytes);
    assert!(got.len() < 1000, "{got:?}");
    assert!(answer(&server, &stranger(), "open.test", "open.test").ends_with("open"));
}
