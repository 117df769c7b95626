//! HTTP/2 as clients see it, over cleartext: requests and bodies of all sizes, what every directive does as it does over
//! HTTP/1.1, the end of connections, and floods.

use brisk_h2::frame::{flag, kind, write_head};
use brisk_h2::{ErrorCode, PREFACE, Settings};
use brisk_testkit::h2::Answer;
use brisk_testkit::{Builder, Client, H2Client, Server, process, wait};

#[path = "http2/clients.rs"]
mod clients;
#[path = "http2/connect.rs"]
mod connect;
#[path = "http2/floods.rs"]
mod floods;
#[path = "http2/heads.rs"]
mod heads;
#[path = "http2/proxied.rs"]
mod proxied;

fn bin() -> &'static str {
    env!("CARGO_BIN_EXE_brisk")
}

/// Three megabytes: more than windows and sockets hold.
fn large() -> Vec<u8> {
    (0..3_000_000u32).map(|n| b'a' + (n / 1000 % 26) as u8).collect()
}

const CONF: &str = r#"
    keepalive_requests 100000;
    log_format long '$request|$status|$body_bytes_sent|$http2|$server_protocol|$http_cookie|$http_host';
    access_log access.log long;
    server {
        listen 127.0.0.1:{{PORT}};
        root {{DIR}}/html;
        http2 on;
        http2_max_concurrent_streams 20;
        http2_body_preread_size 64k;
        http2_chunk_size 8k;
        client_max_body_size 10m;
        location /vars { return 200 "$http2|$server_protocol|$request|$host|$http_cookie|$request_length"; }
        location /moved/ { return 301 /elsewhere; }
        location /secret { auth_basic "x"; auth_basic_user_file {{DIR}}/users; }
        location /slow { limit_rate 1m; limit_rate_after 10k; }
        location /silent { return 444; }
        location /error { error_page 404 /404.html; return 404; }
        location /headers { add_header X-Mixed Case; add_header Connection close; add_trailer X-Sum $body_bytes_sent; }
    }
    server {
        listen 127.0.0.1:{{PORT}};
        server_name body;
        http2 on;
        root {{DIR}}/html;
        client_max_body_size 10m;
        client_body_early_read 1;
        client_body_in_file_only off;
        location / { return 200 "$content_length|$request_body_file|$request_body"; }
    }
    server {
        listen 127.0.0.1:{{PORT}};
        server_name few;
        http2 on;
        max_headers 5;
        return 200 "few";
    }
    server {
        listen 127.0.0.1:{{PORT}};
        server_name disabled;
    }
"#;

fn server() -> Server {
    Builder::new(bin())
        .http(CONF)
        .file("html/a.txt", "hello\n")
        .file("html/404.html", "page 404\n")
        .file("html/headers/a.txt", "with headers\n")
        .file("html/large", large())
        .file("html/slow/large", large())
        .file("users", "")
        .start()
}

#[test]
fn answers() {
    let server = server();
    let mut client = H2Client::connect(server.port());
    let answer = client.get("/a.txt");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello\n"));
    assert_eq!(answer.field("content-length"), Some("6"));
    assert!(answer.field("date").is_some_and(|date| date.ends_with("GMT")) && answer.field("etag").is_some());
    // Again: from what was prepared. Only the time may be another.
    let timeless = |answer: &Answer| {
        answer.fields.iter().filter(|(name, _)| name != "date").cloned().collect::<Vec<_>>()
    };
    for _ in 0..3 {
        let again = client.get("/a.txt");
        assert_eq!((timeless(&again), again.text().as_str()), (timeless(&answer), "hello\n"));
    }
    assert_eq!(client.get("/none").status, 404);
    assert_eq!(client.get("/error").text(), "page 404\n");
    assert_eq!(client.get("/secret").status, 401);
    assert_eq!(
        client.get("/moved/").field("location"),
        Some(&*format!("http://localhost:{}/elsewhere", server.port()))
    );
    let mut head = H2Client::get_fields("/a.txt");
    head[0].1 = "HEAD";
    let id = client.begin(&head, true);
    let answer = client.wait(id);
    assert_eq!((answer.status, answer.field("content-length"), answer.body.len()), (200, Some("6"), 0));
    let mut range = H2Client::get_fields("/a.txt");
    range.push(("range", "bytes=1-3"));
    let id = client.begin(&range, true);
    let answer = client.wait(id);
    assert_eq!((answer.status, answer.text().as_str()), (206, "ell"));
    let id = client.begin(&H2Client::get_fields("/silent"), true);
    assert_eq!(client.wait(id).reset, Some(ErrorCode::INTERNAL_ERROR));
    let answer = client.get("/headers/a.txt");
    assert_eq!((answer.field("x-mixed"), answer.field("connection")), (Some("Case"), None));
    assert_eq!(answer.trailers, [("x-sum".to_string(), "13".to_string())]);
    let mut vars = H2Client::get_fields("/vars");
    vars.extend([("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]);
    let id = client.begin(&vars, true);
    let text = client.wait(id).text();
    assert!(text.starts_with("h2c|HTTP/2.0|GET /vars HTTP/2.0|localhost|a=1; b=2; c=3|"), "{text}");
    let log = "GET /vars HTTP/2.0|200|";
    wait::until("the log line", || server.access_log().contains(log).then_some(()));
    assert!(server.access_log().contains("|h2c|HTTP/2.0|a=1; b=2; c=3|localhost"));
}

#[test]
fn bodies_of_all_sizes() {
    let server = server();
    let mut client = H2Client::connect(server.port());
    let large = large();
    assert_eq!(client.get("/large").body, large);
    let post = |length: Option<&'static str>| {
        let mut fields =
            vec![(":method", "POST"), (":scheme", "http"), (":authority", "body"), (":path", "/")];
        fields.extend(length.map(|length| ("content-length", length)));
        fields
    };
    assert_eq!(client.request(&post(None), b"small").text(), "5||small");
    assert_eq!(client.request(&post(Some("5")), b"small").text(), "5||small");
    let answer = client.request(&post(None), &large);
    assert!(answer.text().starts_with("3000000|"), "{}", answer.text());
    assert!(answer.text().contains("client_body_temp"));
    // An announced length must be what comes (RFC 9113 §8.1.1).
    assert_eq!(client.request(&post(Some("6")), b"small").status, 400);
    let answer = client.request(&post(None), &vec![b'x'; 11 << 20]);
    assert_eq!(answer.status, 413);
    let answer = client.request(&post(Some("99999999999")), b"");
    assert!(answer.status == 413 || answer.reset.is_some());
    // Trailers of a request end its body.
    let id = client.begin(&post(None), false);
    client.send(id, b"abc", false);
    client.trailers(id, &[("x-trailer", "y")]);
    assert_eq!(client.wait(id).text(), "3||abc");
    // Nobody wants it: the answer comes all the same, and the client is told to stop.
    let mut get = post(None);
    get[2].1 = "localhost";
    get[3].1 = "/a.txt";
    let id = client.begin(&get, false);
    client.until(|client| client.answers[&id].reset.is_some());
    assert_eq!((client.answers[&id].status, client.answers[&id].reset), (405, Some(ErrorCode::NO_ERROR)));
    assert_eq!(client.get("/a.txt").status, 200, "the connection lives on");
}

type Fields<'a> = Vec<(&'a str, &'a str)>;

/// A prepared answer is no way round a limit.
#[test]
fn more_fields_than_a_server_allows_are_refused_however_often_it_has_answered() {
    let server = Builder::new(bin()).http(CONF).file("html/a.txt", "hello\n").start();
    let mut client = H2Client::connect(server.port());
    let mut ask = |count: usize| {
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut fields = vec![(":method", "GET"), (":scheme", "http"), (":authority", "few"), (":path", "/")];
        fields.extend(names[..count].iter().map(|name| (*name, "1")));
        let id = client.begin(&fields, true);
        client.wait(id).status
    };
    for _ in 0..3 {
        assert_eq!(ask(0), 200);
        assert_eq!(ask(5), 200);
        assert_eq!(ask(6), 400);
    }
}

#[test]
fn requests_that_are_refused() {
    let server = server();
    let mut client = H2Client::connect(server.port());
    let mut check = |change: &dyn Fn(&mut Fields<'_>), status: u16| {
        let mut fields = H2Client::get_fields("/a.txt");
        change(&mut fields);
        let id = client.begin(&fields, true);
        let answer = client.wait(id);
        assert_eq!(answer.status, status, "{fields:?}");
    };
    check(&|_| {}, 200);
    check(&|f| f[2].1 = "disabled", 421);
    check(&|f| f[2].1 = "a b", 400);
    check(&|f| f[0].1 = "get", 400);
    check(&|f| f[1].1 = "1:", 400);
    check(&|f| f[3].1 = "a.txt", 400);
    check(&|f| f[3].1 = "*", 400);
    check(&|f| f[3].1 = "/../../etc/passwd", 400);
    check(&|f| f.push(("host", "localhost")), 200);
    check(&|f| f.push(("host", "other")), 400);
    check(&|f| f.push(("connection", "close")), 400);
    check(&|f| f.push(("transfer-encoding", "chunked")), 400);
    check(&|f| f.push(("te", "trailers")), 200);
    check(&|f| f.push(("te", "gzip")), 400);
    check(&|f| f.push(("Upper", "x")), 400);
    check(&|f| f.push(("a", "x\r\nInjected: y")), 400);
    check(&|f| f.push((":late", "x")), 400);
    check(&|f| f.push(("content-length", "5")), 400);
    check(&|f| f.push(("content-length", "-1")), 400);
    check(&|f| _ = f.remove(2), 400);
    check(&|f| _ = f.remove(0), 400);
    check(&|f| f.truncate(2), 400);
}

/// RFC 9218: who says that something is urgent gets it first.
#[test]
fn priorities_change_the_order_of_frames() {
    let server = server();
    let order = |first: &str, second: &str| {
        let settings = Settings { initial_window_size: 0, enable_push: false, ..Settings::default() };
        let mut client = H2Client::with(server.port(), settings);
        client.reads = false;
        let mut ids = Vec::new();
        for priority in [first, second] {
            let mut fields = H2Client::get_fields("/large");
            fields.push(("priority", priority));
            ids.push(client.begin(&fields, true));
        }
        client.until(|client| ids.iter().all(|id| client.answers[id].status == 200));
        // All windows open at once.
        client.open_windows(&ids, 40_000);
        client.until(|client| ids.iter().all(|id| client.answers[id].body.len() == 40_000));
        client.order.iter().map(|(id, _)| *id).collect::<Vec<_>>()
    };
    let late = order("u=5", "u=1");
    assert!(late.windows(2).all(|pair| pair[0] >= pair[1]) && late.contains(&1), "{late:?}");
    let early = order("u=1", "u=5");
    assert!(early.windows(2).all(|pair| pair[0] <= pair[1]), "{early:?}");
    let shared = order("u=3,i", "u=3,i");
    assert!(shared.windows(2).filter(|pair| pair[0] != pair[1]).count() > 4, "{shared:?}");
}

#[test]
fn many_streams_at_once() {
    let server = server();
    let mut client = H2Client::connect(server.port());
    for _ in 0..20 {
        let ids: Vec<u32> = (0..20).map(|_| client.begin(&H2Client::get_fields("/a.txt"), true)).collect();
        for id in ids {
            assert_eq!(client.wait(id).text(), "hello\n");
        }
    }
    let ids: Vec<u32> = (0..10).map(|_| client.begin(&H2Client::get_fields("/large"), true)).collect();
    let large = large();
    for id in ids {
        assert!(client.wait(id).body == large);
    }
    let id = client.begin(&H2Client::get_fields("/slow/large"), true);
    client.until(|client| client.answers[&id].body.len() > 10_000);
    client.cancel(id);
    assert_eq!(client.get("/a.txt").status, 200);
}

#[test]
fn a_preface_in_pieces() {
    let server = server();
    let mut hello = PREFACE.to_vec();
    write_head(0, kind::SETTINGS, 0, 0, &mut hello);
    write_head(3, kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 1, &mut hello);
    hello.extend_from_slice(&[0x82, 0x86, 0x84]);
    for cut in [1, 3, 13, 14, 20, 24, 30, hello.len() - 1] {
        let mut client = Client::connect(server.port());
        client.send(&hello[..cut]);
        assert_eq!(server.get("/a.txt").status, 200);
        client.send(&hello[cut..]);
        let reply = client.some(9).unwrap();
        assert!(reply.starts_with(&[0, 0]), "cut at {cut}: {reply:?}");
    }
    // What only looks like it is HTTP/1.1.
    let response = server.request("PROPFIND / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(response.status, 405);
}

/// A connection ends without a lost request: what was begun is answered, what comes later is told to go elsewhere.
#[test]
fn goaway() {
    let server = Builder::new(bin())
        .http("server { listen 127.0.0.1:{{PORT}}; http2 on; root {{DIR}}/html; keepalive_requests 3; }")
        .file("html/a.txt", "hello\n")
        .start();
    let mut client = H2Client::connect(server.port());
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    assert_eq!(client.ending(), Some(ErrorCode::NO_ERROR));
    assert_eq!(client.goaway.map(|(last, _)| last), Some(5));
}

/// What was begun is answered to its end, also what the client sent before it heard of the end.
fn loses_nothing(server: &Server, is_end: bool, end: impl FnOnce(&Server)) {
    let mut busy = H2Client::connect(server.port());
    busy.reads = false;
    let id = busy.begin(&H2Client::get_fields("/large"), true);
    busy.until(|client| client.answers[&id].body.len() > 30_000);
    let mut idle = H2Client::connect(server.port());
    assert_eq!(idle.get("/a.txt").status, 200);
    let mut resting = H2Client::connect(server.port());
    assert_eq!(resting.get("/a.txt").status, 200);
    let mut new = H2Client::connect(server.port());
    // The server's settings: a thread has it.
    new.hear(std::time::Duration::from_secs(30));
    end(server);
    // A connection without a stream may begin one before it hears of the end (RFC 9113 §6.8): it is served, and is the last.
    let next = resting.begin(&H2Client::get_fields("/a.txt"), true);
    assert_eq!(resting.wait(next).status, 200);
    assert_eq!(resting.ending(), Some(ErrorCode::NO_ERROR));
    assert_eq!(resting.goaway.map(|(last, _)| last), Some(next));
    assert_eq!(idle.ending(), Some(ErrorCode::NO_ERROR));
    assert_eq!(idle.goaway.map(|(last, _)| last), Some(1));
    // It may begin a stream before it hears of the end: that is served too.
    let late = busy.begin(&H2Client::get_fields("/a.txt"), true);
    assert_eq!(busy.wait(late).status, 200);
    busy.reads = true;
    busy.open_windows(&[id], 1 << 24);
    assert!(busy.wait(id).body == large());
    assert_eq!(busy.ending(), Some(ErrorCode::NO_ERROR));
    // Its first request is still served. Where the process ends, it is the last.
    assert_eq!(new.get("/a.txt").status, 200);
    if is_end {
        assert_eq!(new.ending(), Some(ErrorCode::NO_ERROR));
    }
}

#[test]
fn a_reload_loses_nothing() {
    loses_nothing(&server(), false, Server::reload);
}

/// What was begun on a socket that a reload takes away is finished: the windows that the client opens are heard.
#[test]
fn a_socket_that_is_taken_away_finishes_what_was_begun() {
    let conf = |address: &str| format!("{address} root {{{{DIR}}}}/html; http2 on; ");
    let mut server = Builder::new(bin())
        .http(&format!("server {{ {} listen 127.0.0.1:{{{{PORT2}}}}; }}", conf("listen 127.0.0.1:{{PORT}};")))
        .file("html/large", large())
        .start();
    let mut busy = H2Client::connect(server.port_of(2));
    busy.reads = false;
    let id = busy.begin(&H2Client::get_fields("/large"), true);
    busy.until(|client| client.answers[&id].body.len() > 30_000);
    server.configure_http("", &format!("server {{ {} }}", conf("listen 127.0.0.1:{{PORT}};")));
    server.reload();
    busy.reads = true;
    busy.open_windows(&[id], 1 << 24);
    assert!(busy.wait(id).body == large());
    assert_eq!(busy.ending(), Some(ErrorCode::NO_ERROR));
}

#[test]
fn a_graceful_stop_loses_nothing() {
    let mut server = server();
    loses_nothing(&server, true, |server| server.signal(rustix::process::Signal::QUIT));
    assert!(server.wait().success());
}

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_head(payload.len(), kind, flags, stream, &mut out);
    out.extend_from_slice(payload);
    out
}

/// RFC 7540 §5.3: of a client that knows nothing else, its tree is obeyed.
#[test]
fn a_tree_of_priorities_changes_the_order_of_frames() {
    let server = server();
    let settings = Settings { initial_window_size: 0, enable_push: false, ..Settings::default() };
    let mut client = H2Client::with(server.port(), settings);
    client.reads = false;
    let ids: Vec<u32> = (0..3).map(|_| client.begin(&H2Client::get_fields("/large"), true)).collect();
    // The first one waits for the third, and the second has the smallest weight beside it.
    let depends = |stream: u32, on: u32, weight: u8| {
        frame_of(kind::PRIORITY, 0, stream, &[&on.to_be_bytes()[..], &[weight]].concat())
    };
    client.raw(&[depends(ids[0], ids[2], 15), depends(ids[1], 0, 0), depends(ids[2], 0, 255)].concat());
    client.until(|client| ids.iter().all(|id| client.answers[id].status == 200));
    client.open_windows(&ids, 60_000);
    client.until(|client| ids.iter().all(|id| client.answers[id].body.len() == 60_000));
    let last = |id: u32| client.order.iter().rposition(|(stream, _)| *stream == id).unwrap();
    let first = |id: u32| client.order.iter().position(|(stream, _)| *stream == id).unwrap();
    assert!(last(ids[2]) < first(ids[0]), "{:?}", client.order);
    assert!(last(ids[2]) < last(ids[1]), "{:?}", client.order);
}

/// Sixteen requests that come together are answered together: few system calls, whatever the number of streams.
#[test]
fn small_answers_of_many_streams_leave_in_one_write() {
    let server = server();
    let mut client = H2Client::connect(server.port());
    assert_eq!(client.get("/a.txt").text(), "hello\n");
    let calls = || process::number(server.worker(), "io", "syscw:").unwrap();
    let block = [&[0x82, 0x86, 0x04, 6][..], b"/a.txt", &[0x01, 9], b"localhost"].concat();
    let mut flight = Vec::new();
    for n in 0..16 {
        flight.extend(frame_of(kind::HEADERS, flag::END_STREAM | flag::END_HEADERS, 3 + 2 * n, &block));
    }
    let before = calls();
    client.careless = true;
    client.raw(&flight);
    wait::holds("the log lines", || server.access_log().matches("GET /a.txt").count() >= 17);
    // One for the answers, one or two for logs, some to wake threads.
    let made = calls() - before;
    assert!(made <= 6, "{made} writes for 16 answers");
}

/// A client that takes its answers late and slowly: what it has asked meanwhile waits, and is answered as soon as there is room, not when all
/// of what was said has left.
#[test]
fn requests_that_wait_for_room_are_answered() {
    let server = Builder::new(bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}} sndbuf=16k; http2 on; http2_max_concurrent_streams 400; root {{DIR}}/html; }",
        )
        .file("html/a.txt", vec![b'x'; 8000])
        .start();
    let stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 8192).unwrap();
    let settings = Settings { enable_push: false, initial_window_size: 1 << 20, ..Settings::default() };
    let mut client = H2Client::over(stream, settings);
    let asked: Vec<u32> = (0..300).map(|_| client.begin(&H2Client::get_fields("/a.txt"), true)).collect();
    client.until(|client| {
        let is_whole =
            |id| client.answers.get(id).is_some_and(|answer| answer.ended && answer.body.len() == 8000);
        asked.iter().all(is_whole)
    });
    assert!(!client.closed);
}

#[test]
fn time_outs() {
    let server = Builder::new(bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}}; http2 on; root {{DIR}}/html; client_header_timeout 1s;
             keepalive_timeout 1s; send_timeout 300ms; client_body_timeout 200ms; client_body_early_read $arg_read; }",
        )
        .file("html/a.txt", "hello\n")
        .file("html/large", large())
        .start();
    // Between requests.
    let mut client = H2Client::connect(server.port());
    assert_eq!(client.get("/a.txt").status, 200);
    assert_eq!(client.ending(), Some(ErrorCode::NO_ERROR));
    // A head that does not come to its end: after its request the connection.
    let mut client = H2Client::connect(server.port());
    client.careless = true;
    client.raw(&frame_of(kind::HEADERS, 0, 1, &[0x82]));
    assert_eq!(client.ending(), Some(ErrorCode::PROTOCOL_ERROR));
    // A body that does not come.
    let mut client = H2Client::connect(server.port());
    let mut fields = H2Client::get_fields("/a.txt?read=1");
    fields[0].1 = "POST";
    let id = client.begin(&fields, false);
    assert_eq!(client.wait(id).reset, Some(ErrorCode::PROTOCOL_ERROR));
    // A window that does not open.
    let mut client =
        H2Client::with(server.port(), Settings { initial_window_size: 10, ..Settings::default() });
    client.reads = false;
    let id = client.begin(&H2Client::get_fields("/large"), true);
    assert_eq!(client.wait(id).reset, Some(ErrorCode::PROTOCOL_ERROR));
}

/// Directives of times past, and the parameter of `listen`.
#[test]
fn obsolete_directives_are_told() {
    let server = Builder::new(bin())
        .http(
            "http2_recv_buffer_size 256k;
             server { listen 127.0.0.1:{{PORT}} http2; root {{DIR}}/html; http2_pool_size 4k; http2_streams_index_size 32;
             http2_max_field_size 4k; http2_max_header_size 16k; http2_max_requests 1000; http2_recv_timeout 30s;
             http2_idle_timeout 3m; http2_max_concurrent_pushes 10; http2_push off; http2_push_preload off; }",
        )
        .file("html/a.txt", "hello\n")
        .start();
    assert_eq!(H2Client::connect(server.port()).get("/a.txt").status, 200);
    assert_eq!(server.get("/a.txt").status, 200, "HTTP/1.1 on the same port");
    let output = server.run(&["-t"]);
    let log = String::from_utf8_lossy(&output.stderr);
    for text in [
        "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive instead",
        "the \"http2_max_field_size\" directive is obsolete, use the \"large_client_header_buffers\" directive instead",
        "the \"http2_push_preload\" directive is obsolete, ignored",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
}
