//! What a client is told when its handshake or its records are wrong: RFC 8446 §6 names an alert for each mistake.

use super::{BIN, with};
use brisk_testkit::tls::issue;
use brisk_testkit::{Builder, Server, TlsClient};
use brisk_tls::{ClientContext, ClientOptions, Versions};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const SCHEMES: u16 = 13;
const ALPN: u16 = 16;
const PSK: u16 = 41;
const VERSIONS: u16 = 43;
const PSK_MODES: u16 = 45;
const KEY_SHARE: u16 = 51;

/// Alerts.
const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;
const HANDSHAKE_FAILURE: u8 = 40;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;
const INAPPROPRIATE_FALLBACK: u8 = 86;
const MISSING_EXTENSION: u8 = 109;
const UNRECOGNIZED_NAME: u8 = 112;
const NO_APPLICATION_PROTOCOL: u8 = 120;
/// No alert: the handshake goes on.
const FINE: u8 = 255;
/// Closed without a word.
const SILENCE: u8 = 254;

fn vector8(bytes: &[u8]) -> Vec<u8> {
    [&[bytes.len() as u8][..], bytes].concat()
}

fn vector16(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn numbers(list: &[u16]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 1][..], &vector16(body)].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

/// A ClientHello that is sound until a case changes it.
#[derive(Clone)]
struct Hello {
    version: u16,
    session_id: Vec<u8>,
    suites: Vec<u8>,
    compression: Vec<u8>,
    extensions: Vec<(u16, Vec<u8>)>,
    /// Behind the extensions.
    tail: Vec<u8>,
}

impl Hello {
    /// TLS 1.3 and 1.2.
    fn new() -> Hello {
        // The base point: some key of X25519.
        let mut key = [0; 32];
        key[0] = 9;
        let share = [&numbers(&[0x1d])[..], &vector16(&key)].concat();
        let name = [&[0][..], &vector16(b"a.test")].concat();
        Hello {
            version: 0x0303,
            session_id: vec![7; 32],
            suites: numbers(&[0x1301, 0xc02b, 0xc02f]),
            compression: vec![0],
            extensions: vec![
                (SERVER_NAME, vector16(&name)),
                (GROUPS, vector16(&numbers(&[0x1d, 0x17]))),
                (SCHEMES, vector16(&numbers(&[0x0403, 0x0804, 0x0401]))),
                (ALPN, vector16(&vector8(b"http/1.1"))),
                (VERSIONS, vector8(&numbers(&[0x0304, 0x0303]))),
                (PSK_MODES, vec![1, 1]),
                (KEY_SHARE, vector16(&share)),
            ],
            tail: Vec::new(),
        }
    }

    /// Of TLS 1.2, as it was before there was 1.3.
    fn old() -> Hello {
        Hello::new().without(&[VERSIONS, KEY_SHARE, PSK_MODES])
    }

    fn with(mut self, kind: u16, body: &[u8]) -> Hello {
        self.extensions.retain(|(have, _)| *have != kind);
        self.extensions.push((kind, body.to_vec()));
        self
    }

    /// One more, whatever there is.
    fn and(mut self, kind: u16, body: &[u8]) -> Hello {
        self.extensions.push((kind, body.to_vec()));
        self
    }

    fn without(mut self, kinds: &[u16]) -> Hello {
        self.extensions.retain(|(kind, _)| !kinds.contains(kind));
        self
    }

    fn set(mut self, change: impl FnOnce(&mut Hello)) -> Hello {
        change(&mut self);
        self
    }

    fn message(&self) -> Vec<u8> {
        let extension = |(kind, body): &(u16, Vec<u8>)| [&kind.to_be_bytes()[..], &vector16(body)].concat();
        let extensions: Vec<u8> = self.extensions.iter().flat_map(extension).collect();
        let parts = [
            &self.version.to_be_bytes()[..],
            &[7; 32],
            &vector8(&self.session_id),
            &vector16(&self.suites),
            &vector8(&self.compression),
            &vector16(&extensions),
            &self.tail,
        ];
        message(1, &parts.concat())
    }

    fn bytes(&self) -> Vec<u8> {
        record(22, &self.message())
    }
}

/// The alert that comes back.
fn answer(port: u16, bytes: &[u8]) -> u8 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let _ = stream.shutdown(Shutdown::Write);
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    match got[..] {
        [22, 3, ..] => FINE,
        [21, 3, _, 0, 2, 2, alert] => alert,
        [] => SILENCE,
        _ => panic!("{got:?}"),
    }
}

fn server() -> Server {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key;
        server { listen 127.0.0.1:{{PORT}} ssl; server_name a.test; }
        server { listen 127.0.0.1:{{PORT}} ssl; server_name no.test; ssl_reject_handshake on; }
        server { listen 127.0.0.1:{{PORT2}} ssl; ssl_protocols TLSv1.2; }
        server { listen 127.0.0.1:{{PORT3}} ssl; ssl_protocols TLSv1.3; }";
    with(Builder::new(BIN).http(conf), "a", &issue("a.test", false, None)).start()
}

/// A session that nobody knows.
fn psk() -> Vec<u8> {
    let identities = vector16(&[&vector16(b"ticket")[..], &[0; 4]].concat());
    [identities, vector16(&vector8(&[7; 32]))].concat()
}

type Cases = Vec<(&'static str, Hello, u8)>;

/// What is agreed on, and what it takes for that.
fn offers() -> Cases {
    let (new, old) = (Hello::new, Hello::old);
    let share = |group: u16, key: &[u8]| vector16(&[&numbers(&[group])[..], &vector16(key)].concat());
    let name = |text: &[u8]| [&[0][..], &vector16(text)].concat();
    let psk = psk();
    vec![
        ("sound", new(), FINE),
        ("sound, of TLS 1.2", old(), FINE),
        // Versions (RFC 8446 §4.1.2, §4.2.1, appendix D.5).
        ("SSL 3.0", old().set(|h| h.version = 0x0300), PROTOCOL_VERSION),
        ("SSL 3.0 beside TLS 1.3", new().set(|h| h.version = 0x0300), PROTOCOL_VERSION),
        ("SSL 2.0 beside TLS 1.3", new().set(|h| h.version = 0x0002), PROTOCOL_VERSION),
        ("TLS 1.0", old().set(|h| h.version = 0x0301), PROTOCOL_VERSION),
        ("TLS 1.1", old().set(|h| h.version = 0x0302), PROTOCOL_VERSION),
        ("TLS 1.1 beside TLS 1.3", new().set(|h| h.version = 0x0302), FINE),
        ("a version to come", new().set(|h| h.version = 0x0304), FINE),
        ("a version to come alone", new().with(VERSIONS, &vector8(&numbers(&[0x0305]))), PROTOCOL_VERSION),
        ("old versions", new().with(VERSIONS, &vector8(&numbers(&[0x0302, 0x0301]))), PROTOCOL_VERSION),
        ("no versions", new().with(VERSIONS, &vector8(&[])), DECODE_ERROR),
        ("half a version", new().with(VERSIONS, &vector8(&[3])), DECODE_ERROR),
        // RFC 7507 §3.
        ("a fallback", old().set(|h| h.suites.extend(numbers(&[0x5600]))), INAPPROPRIATE_FALLBACK),
        ("no fallback", new().set(|h| h.suites.extend(numbers(&[0x5600]))), FINE),
        // Nothing in common (§4.1.1).
        ("no suite", new().set(|h| h.suites = numbers(&[0x1305, 0x00ff])), HANDSHAKE_FAILURE),
        ("no suite of TLS 1.2", old().set(|h| h.suites = numbers(&[0x1301])), HANDSHAKE_FAILURE),
        (
            "no group",
            new().with(GROUPS, &vector16(&numbers(&[0x0a0a]))).with(KEY_SHARE, &share(0x0a0a, &[0])),
            HANDSHAKE_FAILURE,
        ),
        ("no scheme of TLS 1.2", old().with(SCHEMES, &vector16(&numbers(&[0x0a0a]))), HANDSHAKE_FAILURE),
        ("no protocol", new().with(ALPN, &vector16(&vector8(b"smtp"))), NO_APPLICATION_PROTOCOL),
        ("a refused name", new().with(SERVER_NAME, &vector16(&name(b"no.test"))), UNRECOGNIZED_NAME),
        // Extensions that have to be there (§9.2), and those that need another one (§4.2.9).
        ("no schemes", new().without(&[SCHEMES]), MISSING_EXTENSION),
        ("no groups", new().without(&[GROUPS]), MISSING_EXTENSION),
        ("no shares", new().without(&[KEY_SHARE]), MISSING_EXTENSION),
        ("neither", new().without(&[GROUPS, KEY_SHARE]), MISSING_EXTENSION),
        ("no modes", new().without(&[PSK_MODES]).and(PSK, &psk), MISSING_EXTENSION),
    ]
}

/// What each part may be.
fn parts() -> Cases {
    let (new, old) = (Hello::new, Hello::old);
    let share = |group: u16, key: &[u8]| vector16(&[&numbers(&[group])[..], &vector16(key)].concat());
    let name = |text: &[u8]| [&[0][..], &vector16(text)].concat();
    let psk = psk();
    vec![
        // What may not be (§4.1.2, §4.2, §4.2.8, §4.2.11).
        ("compression", new().set(|h| h.compression = vec![0, 1]), ILLEGAL_PARAMETER),
        ("only compression", new().set(|h| h.compression = vec![1]), ILLEGAL_PARAMETER),
        ("compression of TLS 1.2", old().set(|h| h.compression = vec![1, 0]), FINE),
        ("only compression of TLS 1.2", old().set(|h| h.compression = vec![1]), ILLEGAL_PARAMETER),
        ("a session that is not last", new().and(PSK, &psk).and(0xfff0, b""), ILLEGAL_PARAMETER),
        ("an extension twice", new().and(ALPN, &vector16(&vector8(b"http/1.1"))), ILLEGAL_PARAMETER),
        ("an unknown one twice", new().and(0xfff0, b"").and(0xfff0, b""), ILLEGAL_PARAMETER),
        (
            "a group twice",
            new().set(|h| {
                let one = [&numbers(&[0x1d])[..], &vector16(&[9; 32])].concat();
                *h = h.clone().with(KEY_SHARE, &vector16(&one.repeat(2)));
            }),
            ILLEGAL_PARAMETER,
        ),
        ("a share of no group", new().with(GROUPS, &vector16(&numbers(&[0x17]))), ILLEGAL_PARAMETER),
        ("a short share", new().with(KEY_SHARE, &share(0x1d, &[9; 31])), ILLEGAL_PARAMETER),
        ("a share of order one", new().with(KEY_SHARE, &share(0x1d, &[0; 32])), ILLEGAL_PARAMETER),
        ("two names", new().with(SERVER_NAME, &vector16(&name(b"a.test").repeat(2))), DECODE_ERROR),
        // What cannot be read (§6.2).
        ("an empty share", new().with(KEY_SHARE, &share(0x1d, &[])), DECODE_ERROR),
        ("a long session id", new().set(|h| h.session_id = vec![7; 33]), DECODE_ERROR),
        ("no suites", new().set(|h| h.suites = vec![]), DECODE_ERROR),
        ("half a suite", new().set(|h| h.suites = vec![0x13, 1, 0x13]), DECODE_ERROR),
        ("no compression methods", new().set(|h| h.compression = vec![]), DECODE_ERROR),
        ("bytes behind", new().set(|h| h.tail = vec![0]), DECODE_ERROR),
        ("empty schemes", new().with(SCHEMES, &vector16(&[])), DECODE_ERROR),
        ("half a scheme", new().with(SCHEMES, &vector16(&[4])), DECODE_ERROR),
        ("empty groups", new().with(GROUPS, &vector16(&[])), DECODE_ERROR),
        ("half a group", new().with(GROUPS, &vector16(&[0])), DECODE_ERROR),
        ("no list of groups", new().with(GROUPS, &[]), DECODE_ERROR),
        ("bytes behind the groups", new().with(GROUPS, &[0, 2, 0, 0x1d, 0]), DECODE_ERROR),
        ("no protocols", new().with(ALPN, &vector16(&[])), DECODE_ERROR),
        ("an empty protocol", new().with(ALPN, &vector16(&[0])), DECODE_ERROR),
        ("a long protocol", new().with(ALPN, &vector16(b"\x09http/1.1")), DECODE_ERROR),
        ("no names", new().with(SERVER_NAME, &vector16(&[])), DECODE_ERROR),
        ("an empty name", new().with(SERVER_NAME, &vector16(&name(b""))), DECODE_ERROR),
        ("half a share", new().with(KEY_SHARE, &[0, 3, 0, 0x1d, 0]), DECODE_ERROR),
        ("no modes in the list", new().with(PSK_MODES, &[0]), DECODE_ERROR),
        ("a session without its proof", new().and(PSK, &psk[..14]), DECODE_ERROR),
    ]
}

#[test]
fn a_client_hello_that_is_wrong_is_answered_with_its_alert() {
    let server = server();
    let mut wrong = Vec::new();
    for (what, hello, alert) in offers().into_iter().chain(parts()) {
        let got = answer(server.port(), &hello.bytes());
        if got != alert {
            wrong.push(format!("{what}: {got}, not {alert}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What depends on the versions that a server has.
#[test]
fn versions_that_are_not_spoken() {
    let server = server();
    let fallback = |hello: Hello| hello.set(|h| h.suites.extend(numbers(&[0x5600])));
    let only = |version: u16| Hello::new().with(VERSIONS, &vector8(&numbers(&[version])));
    for (what, port, hello, alert) in [
        ("1.3 where there is 1.2", 2, only(0x0304), PROTOCOL_VERSION),
        ("either where there is 1.2", 2, Hello::new(), FINE),
        // Nothing better was to be had, and what TLS 1.3 asks for is not asked for.
        ("a fallback to all there is", 2, fallback(Hello::old()), FINE),
        ("no share where there is 1.2", 2, Hello::new().without(&[KEY_SHARE]), FINE),
        ("two methods where there is 1.2", 2, Hello::new().set(|h| h.compression = vec![0, 1]), FINE),
        ("1.2 where there is 1.3", 3, Hello::old(), PROTOCOL_VERSION),
        ("1.2 in the list where there is 1.3", 3, only(0x0303), PROTOCOL_VERSION),
        ("either where there is 1.3", 3, Hello::new(), FINE),
    ] {
        assert_eq!(answer(server.port_of(port), &hello.bytes()), alert, "{what}");
    }
}

/// RFC 8446 §5, §5.1.
#[test]
fn records_that_are_wrong_are_answered_with_their_alert() {
    let server = server();
    let hello = Hello::new().message();
    let (first, second) = hello.split_at(100);
    let version = |bytes: Vec<u8>, version: [u8; 2]| [&bytes[..1], &version, &bytes[3..]].concat();
    let sslv2 = [&[0x80, 0x1f, 1, 0, 2, 0, 6, 0, 0, 0, 16][..], &[7; 22]].concat();
    let mut wrong = Vec::new();
    for (what, bytes, alert) in [
        ("sound", record(22, &hello), FINE),
        ("in pieces", [record(22, first), record(22, second)].concat(), FINE),
        ("of version 3.4", version(record(22, &hello), [3, 4]), FINE),
        ("of version 2.0", version(record(22, &hello), [2, 0]), PROTOCOL_VERSION),
        ("of version 4.0", version(record(22, &hello), [4, 0]), PROTOCOL_VERSION),
        ("SSL 2.0", sslv2, PROTOCOL_VERSION),
        ("an empty record", record(22, &[]), UNEXPECTED_MESSAGE),
        ("an empty record between", [record(22, first), record(22, &[])].concat(), UNEXPECTED_MESSAGE),
        ("a long record", record(22, &[&hello[..], &vec![0; 16_385]].concat()), RECORD_OVERFLOW),
        (
            "a longer record between",
            [record(22, first), record(22, &vec![0; 0x4801])].concat(),
            RECORD_OVERFLOW,
        ),
        ("another message", record(22, &message(2, &hello[4..])), UNEXPECTED_MESSAGE),
        ("another message, begun", record(22, &[20]), UNEXPECTED_MESSAGE),
        ("an unknown message", record(22, &message(99, b"?")), UNEXPECTED_MESSAGE),
        ("data between", [record(22, first), record(23, second)].concat(), UNEXPECTED_MESSAGE),
        ("no type between", [record(22, first), record(99, second)].concat(), UNEXPECTED_MESSAGE),
        ("more than is read", record(22, &[1, 0x7f, 0, 0]), DECODE_ERROR),
        ("no end", record(22, &message(1, &hello[4..90])), DECODE_ERROR),
        ("a message behind", record(22, &[&hello[..], &message(20, &[7; 32])].concat()), UNEXPECTED_MESSAGE),
    ] {
        let got = answer(server.port(), &bytes);
        if got != alert {
            wrong.push(format!("{what}: {got}, not {alert}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same where records are protected: with few bytes sent, and with so many that the server seals them by itself.
#[test]
fn protected_records_that_are_wrong_are_answered_with_their_alert() {
    let conf = "ssl_certificate a.crt; ssl_certificate_key a.key; server { listen 127.0.0.1:{{PORT}} ssl; root {{DIR}}/html; }";
    let builder =
        Builder::new(BIN).http(conf).file("html/small", "x").file("html/large", vec![b'x'; 100_000]);
    let server = with(builder, "a", &issue("a.test", false, None)).start();
    let garbage =
        |kind: u8, len: u16| [&[kind, 3, 3][..], &len.to_be_bytes(), &vec![7; usize::from(len)]].concat();
    for versions in [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }] {
        for (target, len) in [("/small", 1), ("/large", 100_000)] {
            for (bytes, alert) in [
                (garbage(99, 20), "unexpected message"),
                (garbage(0, 20), "unexpected message"),
                (garbage(23, 30), "bad record mac"),
                (garbage(23, 0x4801), "record overflow"),
            ] {
                let options = ClientOptions { versions, no_resumption: true, ..ClientOptions::unverified() };
                let context = ClientContext::new(&options).unwrap();
                let mut client = TlsClient::connect(server.port(), &context, "a.test").unwrap();
                client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n")).unwrap();
                client.until("\r\n\r\n").unwrap();
                client.exactly(len).unwrap();
                client.send_raw(&bytes);
                let end = client.rest().unwrap_err();
                assert!(end.contains(alert), "{versions:?} {target} {}: {end}, not {alert}", bytes[0]);
            }
        }
    }
}
