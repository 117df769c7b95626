//! What `proxy_…` directives make of requests and of answers.

use brisk_testkit::{Backend, Builder, Response, Server, wait};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

/// A back end that gives one answer and notes what it was asked.
fn noting(answer: &'static str) -> (Backend, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let notes = asked.clone();
    let backend = Backend::start(move |mut peer| {
        while let Some(head) = peer.head() {
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let body = peer.body(length.map_or(0, |text| text.trim().parse().expect("a number")));
            notes.lock().unwrap().push(format!("{head}{}", String::from_utf8_lossy(&body)));
            peer.send(answer);
        }
    });
    (backend, asked)
}

fn server(port: u16, location: &str, directives: &str) -> Server {
    let text = format!(
        "log_format up \"$status [$proxy_host] [$proxy_port] [$upstream_http_x_one] [$upstream_cookie_a] [$upstream_trailer_x_end] $upstream_response_length\";
        log_format times \"$upstream_connect_time $upstream_header_time $upstream_response_time $upstream_bytes_sent $upstream_bytes_received\";
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            access_log {{{{DIR}}}}/up.log up;
            access_log {{{{DIR}}}}/times.log times;
            location {location} {{ {directives} }}
        }}"
    );
    Builder::new(BIN).http(&text.replace("BACK", &format!("127.0.0.1:{port}"))).start()
}

const EMPTY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// What a back end is asked.
fn asked(location: &str, directives: &str, request: &str) -> String {
    let (backend, asked) = noting(EMPTY);
    let server = server(backend.port(), location, directives);
    assert_eq!(server.request(request).status, 200, "{directives}");
    let asked = asked.lock().unwrap();
    asked[0].replace(&format!("127.0.0.1:{}", backend.port()), "BACK")
}

#[test]
fn requests() {
    let check = |location: &str, directives: &str, request: &str, want: &str| {
        assert_eq!(asked(location, directives, request), want, "{location} {directives}");
    };
    let get = "GET /a/b%20c?d HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    let rest = "X-A: 1\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    let host = "Host: BACK\r\n";
    let pass = "proxy_pass http://BACK;";
    check("/", pass, get, &format!("GET /a/b%20c?d HTTP/1.1\r\n{host}{rest}"));
    check("/a/", "proxy_pass http://BACK/x/;", get, &format!("GET /x/b%20c?d HTTP/1.1\r\n{host}{rest}"));
    check("/", "proxy_pass http://BACK/y?z=$arg_q;", get, &format!("GET /y?z= HTTP/1.1\r\n{host}{rest}"));
    check(
        "/",
        "set $b BACK; proxy_pass http://$b;",
        get,
        &format!("GET /a/b%20c?d HTTP/1.1\r\n{host}{rest}"),
    );
    check(
        "/a",
        "rewrite ^ /new?e break; proxy_pass http://BACK/x;",
        get,
        &format!("GET /new?e&d HTTP/1.1\r\n{host}{rest}"),
    );
    check(
        "/",
        &format!("{pass} proxy_http_version 1.0; proxy_set_header Host \"\"; proxy_set_header X-A \"\";"),
        get,
        "GET /a/b%20c?d HTTP/1.0\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n",
    );
    check(
        "/",
        &format!(
            "{pass} proxy_pass_request_headers off; proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;"
        ),
        get,
        "GET /a/b%20c?d HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4, 127.0.0.1\r\n\r\n",
    );
    check(
        "/",
        &format!("{pass} proxy_method $arg_m; proxy_set_body \"<$request_method>\";"),
        "GET /?m=PUT HTTP/1.1\r\nHost: h\r\n\r\n",
        &format!("PUT /?m=PUT HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\n<GET>"),
    );
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
    check("/", pass, post, &format!("POST / HTTP/1.1\r\n{host}Content-Length: 4\r\n\r\nbody"));
    check(
        "/",
        &format!("{pass} proxy_pass_request_body off;"),
        post,
        &format!("POST / HTTP/1.1\r\n{host}\r\n"),
    );
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    check("/", pass, chunked, &format!("POST / HTTP/1.1\r\n{host}Content-Length: 4\r\n\r\nbody"));
}

/// What was decoded, or set, is one word again when it leaves.
#[test]
fn request_lines_have_three_words() {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
    let nasty = get("/a%20b%0d%0aX:%09y%7f?c");
    let decoded = asked("/", "proxy_pass http://BACK$uri;", &nasty);
    assert_eq!(decoded, "GET /a%20b%0D%0AX:%09y%7F HTTP/1.1\r\nHost: BACK\r\n\r\n");
    let written = asked("~ (?s)^/(.*)$", "proxy_pass http://BACK/x?y=$1;", &nasty);
    assert_eq!(written, "GET /x?y=a%20b%0D%0AX:%09y%7F HTTP/1.1\r\nHost: BACK\r\n\r\n");
    let (backend, _) = noting(EMPTY);
    for method in ["\"GET /b HTTP/1.1\r\nX:\"", "$arg_none"] {
        let server = server(backend.port(), "/", &format!("proxy_pass http://BACK; proxy_method {method};"));
        assert_eq!(server.get("/").status, 500);
        assert!(server.error_log().contains("invalid method to proxy"), "{}", server.error_log());
    }
}

/// The client's body has been read when the other one is made.
#[test]
fn a_body_is_made_of_the_clients() {
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    for buffering in ["on", "off"] {
        let directives = format!(
            "proxy_pass http://BACK; proxy_request_buffering {buffering}; proxy_set_body \"<$request_body>\";"
        );
        let text = asked("/", &directives, post);
        assert_eq!(text, "POST / HTTP/1.1\r\nHost: BACK\r\nContent-Length: 5\r\n\r\n<abc>");
    }
}

/// What a client gets.
fn answered(directives: &str, answer: &'static str, request: &str) -> (Response, Server, Backend) {
    let (backend, _) = noting(answer);
    let server = server(backend.port(), "/p/", &format!("proxy_pass http://BACK/; {directives}"));
    (server.request(request), server, backend)
}

#[test]
fn answers() {
    let get = "GET /p/ HTTP/1.1\r\nHost: h\r\n\r\n";
    let plain = "HTTP/1.1 200 Fine\r\nServer: back\r\nX-Powered-By: x\r\nX-One: 1\r\nContent-Type: text/css; charset=utf-8\r\nContent-Length: 6\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=b; Domain=in.test; Path=/in/\r\n\r\nanswer";
    let (response, server, _) =
        answered("proxy_hide_header X-Powered-By; proxy_pass_header Server;", plain, get);
    assert_eq!(response.text(), "answer");
    assert_eq!((response.header("Server"), response.header("X-Powered-By")), (Some("back"), None));
    assert_eq!(response.header("Content-Type"), Some("text/css; charset=utf-8"));
    assert_eq!(response.header("Keep-Alive"), None);
    let line = server.wait_for_line("up.log", "200");
    let port = line.split(&['[', ']', ':']).nth(2).expect("a port").to_string();
    assert_eq!(line.trim(), format!("200 [127.0.0.1:{port}] [{port}] [1] [b] [-] 6"));
    let times = server.wait_for_line("times.log", " ");
    assert!(times.split(' ').take(3).all(|time| time.starts_with("0.")), "{times}");

    let cookies = "proxy_cookie_domain in.test out.test; proxy_cookie_path /in/ /; proxy_cookie_flags a secure samesite=lax;";
    let (response, ..) = answered(cookies, plain, get);
    assert_eq!(response.header("Set-Cookie"), Some("a=b; Domain=out.test; Path=/; Secure; SameSite=Lax"));

    let to = "HTTP/1.1 302 Found\r\nLocation: http://back.test/x\r\nRefresh: 1; url=http://back.test/y\r\nContent-Length: 0\r\n\r\n";
    let (response, ..) = answered("proxy_redirect http://back.test/ /front/;", to, get);
    assert_eq!(response.header("Location").map(|to| to.ends_with("/front/x")), Some(true));
    assert_eq!(response.header("Refresh"), Some("1; url=/front/y"));

    let error = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nback";
    let (response, ..) = answered("", error, get);
    assert_eq!(response.text(), "back");
    let (response, ..) = answered("proxy_intercept_errors on; error_page 404 =200 @own;", error, get);
    assert_eq!(response.status, 500, "there is no such location");

    let ranged = "GET /p/ HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\n\r\n";
    assert_eq!(answered("", plain, ranged).0.status, 200);
    let (response, ..) = answered("proxy_force_ranges on;", plain, ranged);
    assert_eq!((response.status, &*response.text()), (206, "ns"));
}

/// A body that is passed on as it comes cannot be gone back in: it would end before its announced length.
#[test]
fn ranges_that_go_back_are_ignored_where_the_body_is_passed_on() {
    let body = "0123456789".repeat(50_000);
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer: &str = Box::leak(answer.into_boxed_str());
    let asked = |ranges: &str| format!("GET /p/ HTTP/1.1\r\nHost: h\r\nRange: bytes={ranges}\r\n\r\n");
    let forced = "proxy_force_ranges on;";
    let (response, ..) = answered(forced, answer, &asked("499998-499999,0-1"));
    assert_eq!((response.status, response.text().len()), (200, body.len()));
    let (response, ..) = answered(forced, answer, &asked("0-1,499998-499999"));
    assert_eq!(response.status, 206);
    assert!(response.text().contains("\r\n\r\n01\r\n") && response.text().contains("\r\n\r\n89\r\n"));
}

#[test]
fn fields_are_obeyed_unless_they_are_ignored() {
    let get = "GET /p/ HTTP/1.1\r\nHost: h\r\n\r\n";
    let elsewhere = "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /none\r\nContent-Length: 4\r\n\r\nback";
    assert_eq!(answered("", elsewhere, get).0.status, 404);
    assert_eq!(answered("proxy_ignore_headers X-Accel-Redirect;", elsewhere, get).0.text(), "back");
}

#[test]
fn trailers() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-One: 1\r\n\r\n3\r\nabc\r\n0\r\nX-End: yes\r\n\r\n";
    let get = "GET /p/ HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n";
    let (response, server, _) = answered("proxy_pass_trailers on;", answer, get);
    assert_eq!((&*response.text(), response.trailers.len()), ("abc", 1));
    assert!(server.wait_for_line("up.log", "200").contains(" [yes] 3"));
    let (response, ..) = answered("", answer, get);
    assert!(response.trailers.is_empty());
}

#[test]
fn answers_become_files() {
    let answer =
        "HTTP/1.1 200 OK\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 5\r\n\r\nsaved";
    let (backend, _) = noting(answer);
    let directives =
        "proxy_pass http://BACK; proxy_store {{DIR}}/saved$uri; proxy_store_access user:rw all:r;";
    let server = server(backend.port(), "/", directives);
    let folder = server.dir().join("saved");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(server.get("/x/y").text(), "saved");
    let path = server.dir().join("saved/x/y");
    wait::holds("the file", || path.exists());
    assert_eq!(std::fs::read(&path).unwrap(), b"saved");
    let facts = path.metadata().unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o604);
    let secs = facts.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(secs, 784_111_777);
}

#[test]
fn connections_are_made_as_told() {
    let (backend, asked) = noting(EMPTY);
    let directives = "proxy_pass http://BACK; proxy_bind 127.0.0.9; proxy_socket_keepalive on; proxy_socket_rcvbuf 8k;
        proxy_socket_sndbuf 8k; proxy_connect_timeout 5s; proxy_send_timeout 5s; proxy_next_upstream_timeout 5s;
        proxy_ignore_client_abort on; proxy_limit_rate 1m; proxy_buffer_size 8k; proxy_busy_buffers_size 8k;
        proxy_temp_file_write_size 8k; proxy_send_lowat 0; proxy_headers_hash_max_size 1; proxy_headers_hash_bucket_size 1;";
    let server = server(backend.port(), "/", directives);
    assert_eq!(server.get("/").status, 200);
    assert_eq!(asked.lock().unwrap().len(), 1);
    // The kernel has chosen the port of the address that was told.
    assert!(backend.addresses().iter().all(|address| address.ip().to_string() == "127.0.0.9"));
}

/// Workers that are not root keep the one right that this takes, also if a reload brings it.
#[test]
fn addresses_that_take_rights_are_bound_by_any_user() {
    let (backend, _) = noting(EMPTY);
    let conf = |bind: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ proxy_pass http://127.0.0.1:{}; {bind} }} }}",
            backend.port()
        )
    };
    let main = "user nobody nogroup;";
    let mut server = Builder::new(BIN).main(main).http(&conf("")).start();
    assert_eq!(server.get("/").status, 200);
    let rights = |server: &Server| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.worker())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap()
    };
    assert_eq!(rights(&server), 0);
    let before = server.worker();
    server.configure_http(main, &conf("proxy_bind 127.0.0.9 transparent;"));
    server.reload();
    wait::holds("another worker", || server.worker() != before);
    assert_eq!(server.get("/").status, 200);
    // CAP_NET_RAW and nothing else.
    assert_eq!(rights(&server), 1 << 13);
    assert!(backend.addresses().iter().any(|address| address.ip().to_string() == "127.0.0.9"));
}
