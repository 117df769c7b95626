//! Heads that cannot be read, or do not come to their end: each has its line in the access log, as over HTTP/1.1.

use super::{bin, frame_of};
use brisk_h2::ErrorCode;
use brisk_h2::frame::{HEAD_BYTES, flag, kind};
use brisk_testkit::{Backend, Builder, H2Client, Server, wait};
use std::sync::Mutex;
use std::sync::mpsc::channel;

fn site(locations: &str) -> Server {
    let conf = format!(
        r#"log_format short '"$request" $status $body_bytes_sent';
        access_log {{{{DIR}}}}/heads.log short;
        server {{ listen 127.0.0.1:{{{{PORT}}}}; http2 on; client_header_timeout 2s; location / {{ return 200 ok; }} {locations} }}"#
    );
    Builder::new(bin()).http(&conf).start()
}

/// All lines of the access log, once there are so many.
fn lines(server: &Server, count: usize) -> Vec<String> {
    let read = || server.read("heads.log").lines().map(str::to_string).collect::<Vec<_>>();
    wait::holds(&format!("{count} lines"), || read().len() >= count);
    assert_eq!(read().len(), count, "{:#?}", read());
    read()
}

#[test]
fn what_cannot_be_read_is_logged() {
    let server = site("");
    let mut count = 0;
    let mut check = |what: &str, say: &dyn Fn(&mut H2Client), code: Option<ErrorCode>, line: &str| {
        let mut client = H2Client::connect(server.port());
        client.careless = true;
        say(&mut client);
        assert_eq!(client.ending(), code, "{what}");
        count += 1;
        let lines = lines(&server, count);
        assert_eq!(lines.last().map(String::as_str), Some(line), "{what}");
    };
    let long = "x".repeat(20_000);
    let end = flag::END_STREAM | flag::END_HEADERS;
    let unknown = "\"-\" 400 0";
    check(
        "a field that is too large",
        &|client| {
            let fields = [&H2Client::get_fields("/?a=b")[..], &[("x", &long)]].concat();
            client.begin(&fields, true);
        },
        Some(ErrorCode::ENHANCE_YOUR_CALM),
        "\"GET /?a=b HTTP/2.0\" 400 0",
    );
    check(
        "a frame that is too large",
        &|client| client.raw(&frame_of(kind::HEADERS, end, 1, &vec![0; 30_000])),
        Some(ErrorCode::FRAME_SIZE_ERROR),
        unknown,
    );
    check(
        "a block that is too large",
        &|client| {
            client.raw(&frame_of(kind::HEADERS, 0, 1, &[0; 16_384]));
            (0..10).for_each(|_| client.raw(&frame_of(kind::CONTINUATION, 0, 1, &[0; 16_384])));
        },
        Some(ErrorCode::ENHANCE_YOUR_CALM),
        unknown,
    );
    check(
        "a block that cannot be decoded",
        &|client| client.raw(&frame_of(kind::HEADERS, end, 1, &[0xff, 0])),
        Some(ErrorCode::COMPRESSION_ERROR),
        unknown,
    );
    check(
        "a frame within a block",
        &|client| {
            client.raw(&frame_of(kind::HEADERS, 0, 1, &[0x82]));
            client.raw(&frame_of(kind::PING, 0, 0, &[0; 8]));
        },
        Some(ErrorCode::PROTOCOL_ERROR),
        unknown,
    );
    check(
        "an end within a block",
        &|client| {
            client.raw(&frame_of(kind::HEADERS, 0, 1, &[0x82]));
            client.finish();
        },
        None,
        unknown,
    );
}

/// What a head says stands one behind the other where no request line was made of it: no place for what may be secret.
#[test]
fn fields_of_a_malformed_request_are_not_its_line() {
    let server = site("");
    let mut client = H2Client::connect(server.port());
    let fields = [(":method", "GET"), (":scheme", "http"), ("cookie", "secret")];
    let stream = client.begin(&fields, true);
    assert_eq!(client.wait(stream).status, 400);
    let lines = lines(&server, 1);
    assert!(lines[0].starts_with("\"-\" 400 "), "{lines:?}");
}

/// `client_header_timeout`: as in nginx the request is over, and not what else the connection has in work.
#[test]
fn a_head_that_does_not_come_to_its_end_ends_its_request_alone() {
    let (release, released) = channel();
    let released = Mutex::new(released);
    let backend = Backend::start(move |mut peer| {
        while peer.head().is_some() && released.lock().unwrap().recv().is_ok() {
            peer.answer("in the end");
        }
    });
    let server = site(&format!("location /wait {{ proxy_pass http://127.0.0.1:{}; }}", backend.port()));
    let fields = [&H2Client::get_fields("/")[..], &[("a", "one of the table's entries")]].concat();
    for (count, is_in_frames) in [false, true].into_iter().enumerate() {
        let mut client = H2Client::connect(server.port());
        // Nothing is to be said while the head lacks its rest.
        assert_eq!(client.get("/").status, 200);
        let waiting = client.begin(&H2Client::get_fields("/wait"), true);
        let (late, head) = client.prepare(&fields, true);
        let (first, rest) = head.split_at(HEAD_BYTES + 3);
        let (mut first, mut rest) = (first.to_vec(), rest.to_vec());
        if is_in_frames {
            first = frame_of(kind::HEADERS, flag::END_STREAM, late, &first[HEAD_BYTES..]);
            rest = frame_of(kind::CONTINUATION, flag::END_HEADERS, late, &rest);
        }
        client.raw(&first);
        let answer = client.wait(late);
        assert_eq!((answer.status, answer.reset), (0, Some(ErrorCode::PROTOCOL_ERROR)));
        release.send(()).unwrap();
        assert_eq!(client.wait(waiting).text(), "in the end");
        client.raw(&rest);
        let again = client.begin(&fields, true);
        assert_eq!(client.wait(again).text(), "ok");
        let lines = lines(&server, 4 * (count + 1));
        let late = lines.iter().filter(|line| *line == "\"-\" 408 0").count();
        assert_eq!(late, count + 1, "{lines:#?}");
    }
}
