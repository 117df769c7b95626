//! Handshakes that come to nothing: slow ones, garbage, floods. Each ends its own connection, and memory stays where it is.

use super::{BIN, hello, site, tool, with};
use brisk_testkit::tls::{issue, stranger};
use brisk_testkit::{Builder, TlsClient, wait};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_handshake_has_its_time() {
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_handshake_timeout 300ms; location / { return 200 ok; } }";
    let server = with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None)).start();
    let hello = hello();
    for part in [&b""[..], &[22], &[22, 3, 1, 2, 0], &hello[..hello.len() - 1], &hello] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(part).unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
    }
    server.wait_for_log("client timed out .* while SSL handshaking");
    // On a busy machine one may take as long as that.
    wait::holds("a handshake in time", || {
        TlsClient::get(server.port(), &stranger(), "a.test", "/").is_ok_and(|answer| answer.ends_with("ok"))
    });
}

#[test]
fn garbage_ends_its_own_connection_with_an_alert() {
    let server = site();
    let hello = hello();
    let mut cases: Vec<Vec<u8>> = vec![
        vec![22, 3, 1, 0, 0],
        vec![22, 3, 1, 0xff, 0xff, 1],
        vec![22, 3, 1, 0, 4, 2, 0, 0, 0],
        vec![0x80, 0x2e, 1, 0, 2],
        [&[22, 3, 1, 0, 9, 1, 0, 0, 5][..], &[0; 5]].concat(),
        vec![0xff; 3000],
    ];
    for at in (0..hello.len()).step_by(7) {
        let mut bytes = hello.clone();
        bytes[at] ^= 0x41;
        cases.push(bytes);
    }
    for bytes in cases {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
    }
    // After the handshake: a record that is too large, and one that nobody has sealed.
    for bytes in [
        &[23, 3, 3, 0x50, 0][..],
        &[23, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20],
    ] {
        let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
        client.send_raw(bytes);
        let end = client.rest().unwrap_err();
        assert!(end.contains("alert"), "{end}");
    }
    assert!(TlsClient::get(server.port(), &stranger(), "a.test", "/who").unwrap().contains("200 OK"));
}

#[test]
fn renegotiation_is_refused() {
    let server = site();
    let connect = format!("127.0.0.1:{}", server.port());
    let shown =
        tool("openssl", &["s_client", "-connect", &connect, "-tls1_2", "-servername", "a.test"], "R\nR\nR\n");
    assert!(shown.contains("no renegotiation") || shown.contains("RENEGOTIATING"), "{shown}");
    assert!(TlsClient::get(server.port(), &stranger(), "a.test", "/who").unwrap().contains("200 OK"));
}

/// Thousands of names that nobody has, and handshakes that are given up: memory stays where it is.
#[test]
fn floods_of_names_leave_nothing_behind() {
    let server = site();
    let context = stranger();
    let flood = |rounds: usize| {
        for round in 0..rounds {
            let name = format!("{}{round}.flood.test", "x".repeat(round % 50));
            let mut hello = Vec::new();
            context.session(&name, true).unwrap().receive(&mut [], &mut |_| (), &mut hello).unwrap();
            let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            stream.write_all(&hello).unwrap();
            if round % 2 == 0 {
                let _ = stream.read(&mut [0; 4096]);
            }
        }
    };
    flood(300);
    let before = brisk_testkit::process::rss_kib(server.worker());
    flood(1500);
    let after = brisk_testkit::process::rss_kib(server.worker());
    assert!(after < before + 16 * 1024, "{before} KiB became {after} KiB");
    assert!(TlsClient::get(server.port(), &stranger(), "a.test", "/who").unwrap().contains("200 OK"));
}

/// Connections that say nothing, or part of a ClientHello, or all of it and then nothing: each costs little, others are
/// served meanwhile, and all of them end.
#[test]
fn handshakes_that_are_left_half_open() {
    const COUNT: usize = 600;
    let conf = "server { listen 127.0.0.1:{{PORT}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key; ssl_handshake_timeout 3s; location / { return 200 ok; } }";
    brisk_testkit::process::raise_descriptor_limit();
    let builder = Builder::new(BIN).main("worker_rlimit_nofile 4096;").http(conf);
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    let is_served = || TlsClient::get(server.port(), &stranger(), "a.test", "/").unwrap().ends_with("ok");
    assert!(is_served());
    let worker = server.worker();
    let (before, descriptors) =
        (brisk_testkit::process::rss_kib(worker), brisk_testkit::process::descriptors(worker));
    let hello = hello();
    let parts = [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello[..hello.len() - 1], &hello];
    let mut open = Vec::new();
    for at in 0..COUNT {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.write_all(parts[at % parts.len()]).unwrap();
        open.push(stream);
        if at % 100 == 0 {
            assert!(is_served());
        }
    }
    let grown = brisk_testkit::process::rss_kib(worker).saturating_sub(before);
    assert!(grown < 40 * COUNT as u64, "{grown} KiB for {COUNT} connections");
    for mut stream in open {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    wait::holds("all connections closed", || brisk_testkit::process::descriptors(worker) <= descriptors + 4);
    assert!(is_served());
}

/// Records of every length that they cannot have, before and after the handshake.
#[test]
fn records_that_are_too_long() {
    let server = site();
    for length in [0x4101_u16, 0x4801, 0xffff] {
        let head = [22, 3, 1, (length >> 8) as u8, length as u8];
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(&[&head[..], &vec![0; usize::from(length)]].concat());
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        assert!(got.is_empty() || got[0] == 21, "{length}: {got:?}");
        let mut client = TlsClient::connect(server.port(), &stranger(), "a.test").unwrap();
        let head = [23, 3, 3, (length >> 8) as u8, length as u8];
        client.send_raw(&[&head[..], &vec![0; usize::from(length)]].concat());
        let end = client.rest();
        let end = end.expect_err(&format!("{length}"));
        assert!(end.contains("alert") || end.contains("reset"), "{length}: {end}");
    }
    assert!(TlsClient::get(server.port(), &stranger(), "a.test", "/who").unwrap().contains("200 OK"));
}

/// A read that fills its buffer is followed by another one: no event tells of what was left.
#[test]
fn a_large_client_hello_in_one_burst() {
    let server = site();
    let connect = format!("127.0.0.1:{}", server.port());
    let request = "GET /who HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    for size in [10_000, 15_500, 15_800, 16_000, 16_200, 16_384, 20_000, 33_000, 45_000, 60_000] {
        let mut names: Vec<String> = (0..size / 10).map(|n| format!("p{n:08}")).collect();
        names.push("http/1.1".to_string());
        let names = names.join(",");
        let args = ["s_client", "-connect", &connect, "-servername", "a.test", "-alpn", &names, "-ign_eof"];
        let shown = tool("openssl", &args, request);
        assert!(shown.contains("200 OK") && shown.contains("a https on a.test"), "{size}: {shown}");
    }
}
