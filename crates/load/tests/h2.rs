//! HTTP/2 against a scripted server in this process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use brisk_h2::conn::{HeadKind, HeadSink};
use brisk_h2::hpack::{write_literal, write_status};
use brisk_h2::{Config, Connection, ErrorCode, Event, Field, FieldSink, Role, Settings};
use brisk_load::engine::{self, Outcome};
use brisk_load::plan::{Plan, RequestOptions, Stop, Url, Version, sites};
use brisk_load::stats::ErrorKind;

/// Of a request's head: its path.
#[derive(Default)]
struct Path(String);

impl FieldSink for Path {
    fn tag(&mut self, name: &[u8]) -> u8 {
        u8::from(name == b":path")
    }

    fn field(&mut self, field: Field<'_>) {
        if field.tag == 1 {
            self.0 = String::from_utf8_lossy(field.value).into_owned();
        }
    }
}

impl HeadSink for Path {
    fn begin(&mut self, _: u64, _: HeadKind) {}
}

/// What the server keeps with a stream: the path, and how much of a body has come.
#[derive(Default)]
struct Asked {
    path: String,
    bytes: usize,
}

/// Answers one stream; false: the connection is to end.
fn answer(conn: &mut Connection<Asked>, stream: u32, answered: &mut u32, out: &mut Vec<u8>) -> bool {
    let Some(asked) = conn.value(stream) else { return true };
    let (path, bytes) = (asked.path.clone(), asked.bytes);
    let mut block = Vec::new();
    *answered += 1;
    match path.as_str() {
        "/reset" => drop(conn.reset(stream, ErrorCode::INTERNAL_ERROR, out)),
        "/empty" => {
            write_status(204, &mut block);
            conn.send_head(stream, &block, true, out).unwrap();
        }
        "/short" => {
            write_status(200, &mut block);
            write_literal(b"content-length", b"50", &mut block);
            conn.send_head(stream, &block, false, out).unwrap();
            conn.send_body(stream, b"short", true, out).unwrap();
        }
        "/away" if *answered == 5 => {
            conn.go_away(ErrorCode::NO_ERROR, out);
            return false;
        }
        _ => {
            write_status(103, &mut block);
            conn.send_head(stream, &block, false, out).unwrap();
            block.clear();
            write_status(if path == "/missing" { 404 } else { 200 }, &mut block);
            conn.send_head(stream, &block, false, out).unwrap();
            conn.send_body(stream, format!("{bytes:05}").as_bytes(), true, out).unwrap();
        }
    }
    true
}

fn serve(mut socket: TcpStream) {
    let (mut out, mut input, mut path, mut answered) = (Vec::new(), Vec::new(), Path::default(), 0);
    let settings = Settings { max_concurrent_streams: Some(7), ..Settings::default() };
    let mut conn: Connection<Asked> =
        Connection::new(Role::Server, Config { settings, ..Config::default() }, 0, &mut out);
    let mut buffer = [0; 16_384];
    loop {
        if socket.write_all(&out).is_err() {
            return;
        }
        out.clear();
        match socket.read(&mut buffer) {
            Ok(count) if count > 0 => input.extend_from_slice(&buffer[..count]),
            _ => return,
        }
        let bytes = std::mem::take(&mut input);
        let mut at = 0;
        loop {
            let received =
                conn.receive(&bytes[at..], &mut path, &mut out).expect("the client keeps to the rules");
            at += received.used;
            let whole = match received.event {
                None if received.used == 0 => break,
                Some(Event::Head { stream, end, .. }) => {
                    conn.value_mut(stream).unwrap().path.clone_from(&path.0);
                    end.then_some(stream)
                }
                Some(Event::Data { stream, data, end, .. }) => {
                    let count = data.len();
                    conn.consume(stream, count as u32, &mut out);
                    conn.value_mut(stream).unwrap().bytes += count;
                    end.then_some(stream)
                }
                _ => None,
            };
            if let Some(stream) = whole
                && !answer(&mut conn, stream, &mut answered, &mut out)
            {
                let _ = socket.write_all(&out);
                return;
            }
        }
        input.extend_from_slice(&bytes[at..]);
    }
}

fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            thread::spawn(move || serve(socket));
        }
    });
    address
}

fn run(paths: &[&str], options: &RequestOptions, connections: usize, streams: usize, count: u64) -> Outcome {
    let address = server();
    let urls: Vec<Url> =
        paths.iter().map(|path| Url::parse(&format!("http://{address}{path}")).unwrap()).collect();
    let plan = Plan {
        version: Version::H2,
        pipeline: streams,
        timeout: Duration::from_secs(5),
        ..Plan::new(sites(&urls, options).unwrap(), connections, Stop::Requests(count))
    };
    engine::run(plan).unwrap()
}

#[test]
fn many_streams_at_a_time() {
    // More than the server allows too.
    for streams in [1, 4, 20] {
        let outcome = run(&["/", "/missing", "/empty"], &RequestOptions::default(), 3, streams, 300);
        let stats = &outcome.stats;
        assert_eq!((stats.responses(), stats.errors(), stats.connects), (300, 0, 3), "{streams} streams");
        assert!(
            (90..=110).contains(&stats.by_status[&404]) && stats.by_status[&204] >= 90,
            "{:?}",
            stats.by_status
        );
    }
}

/// Larger than windows and pieces.
#[test]
fn bodies_are_sent_as_a_whole() {
    let options = RequestOptions {
        method: "POST".to_owned(),
        body: vec![b'x'; 300_000].into(),
        ..RequestOptions::default()
    };
    let outcome = run(&["/upload"], &options, 2, 3, 20);
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (20, 0));
}

#[test]
fn broken_streams_are_counted_by_kind() {
    let check = |path: &str, want: ErrorKind| {
        let outcome = run(&[path], &RequestOptions::default(), 1, 4, 12);
        assert_eq!((outcome.stats.responses(), outcome.stats.errors_of(want)), (0, 12), "{path}");
    };
    check("/reset", ErrorKind::Stream);
    check("/short", ErrorKind::Truncated);
}

/// RFC 9113 §6.8: what the server did not look at is asked again on another connection.
#[test]
fn a_server_that_goes_away_is_reconnected_to() {
    let outcome = run(&["/away"], &RequestOptions::default(), 1, 3, 40);
    let stats = &outcome.stats;
    assert!(stats.connects >= 5, "{} connections", stats.connects);
    assert_eq!(stats.responses() + stats.errors(), 40);
}

#[test]
fn a_server_that_speaks_http1_is_a_protocol_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let _ = socket.read(&mut [0; 1024]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let sites = sites(&[url], &RequestOptions::default()).unwrap();
    let plan = Plan { version: Version::H2, ..Plan::new(sites, 1, Stop::Requests(3)) };
    let outcome = engine::run(plan).unwrap();
    assert_eq!((outcome.stats.responses(), outcome.stats.errors()), (0, 3));
}
