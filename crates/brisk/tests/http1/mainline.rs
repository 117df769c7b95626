//! Answers as nginx mainline gives them. Debian's nginx can be asked the same: BRISK_TEST_BIN=/usr/sbin/nginx.

use crate::bin;
use brisk_testkit::client::Ending;
use brisk_testkit::{Backend, Builder, Client, Server};
use std::time::Duration;

const DATE: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// The answer's `Last-Modified` and `ETag`, and what the log has of them.
fn modified(server: &Server, target: &str) -> (u16, Option<String>, bool) {
    let response = server.get(target);
    let modified = response.header("Last-Modified").map(str::to_string);
    (response.status, modified, response.header("ETag").is_some())
}

/// nginx's header filter: the time of a page that stands for an error is nobody's validator. What a back end or `add_header`
/// has said goes through.
#[test]
fn error_pages_do_not_tell_their_own_last_modified() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let status = if head.contains("/not-found") { "404 Not Found" } else { "201 Created" };
            peer.send(format!(
                "HTTP/1.1 {status}\r\nLast-Modified: {DATE}\r\nETag: \"x\"\r\nContent-Length: 2\r\n\r\nab"
            ));
        }
    });
    let server = Builder::new(&bin())
        .http(&format!(
            "types {{ text/plain txt; text/html html; }}
            server {{
                listen 127.0.0.1:{{{{PORT}}}};
                root {{{{DIR}}}}/html;
                error_page 404 /404.html;
                location /found {{ error_page 404 =200 /404.html; }}
                location /made {{ error_page 404 =201 /404.html; }}
                location /back {{ proxy_pass http://127.0.0.1:{port}; sub_filter a b; sub_filter_types text/none; }}
                location /taken/ {{ proxy_pass http://127.0.0.1:{port}; default_type text/html; error_page 410 =404 /back; return 410; }}
                location /sub {{ proxy_pass http://127.0.0.1:{port}/not-found; sub_filter a b; sub_filter_types *; }}
                location /added {{ add_header Last-Modified '{DATE}' always; return 403; }}
            }}",
            port = backend.port()
        ))
        .file("html/404.html", "page\n")
        .start();
    let date = Some(DATE.to_string());
    assert_eq!(modified(&server, "/nothing"), (404, None, true));
    let (status, of_file, _) = modified(&server, "/found");
    assert!(status == 200 && of_file.is_some());
    assert_eq!(modified(&server, "/made").1, None);
    assert_eq!(modified(&server, "/back/not-found"), (404, date.clone(), true));
    assert_eq!(modified(&server, "/back/"), (201, date.clone(), true));
    assert_eq!(modified(&server, "/taken/"), (404, date.clone(), true));
    assert_eq!(modified(&server, "/sub").1, None);
    let response = server.get("/added");
    assert_eq!((response.status, response.header("Last-Modified")), (403, Some(DATE)));
}

/// Without a validator no condition that asks for one holds.
#[test]
fn conditions_hold_for_answers_without_validators() {
    let server = Builder::new(&bin())
        .http("server { listen 127.0.0.1:{{PORT}}; location / { default_type text/plain; return 200 ok; } }")
        .start();
    let ask = |condition: &str| {
        server
            .request(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{condition}\r\n\r\n"))
            .status
    };
    for (condition, want) in [
        ("If-Match: \"x\"", 412),
        ("If-Match: *", 200),
        ("If-None-Match: \"x\"", 200),
        ("If-None-Match: *", 304),
        ("If-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT", 200),
        ("If-Unmodified-Since: Thu, 01 Jan 2026 00:00:00 GMT", 412),
    ] {
        assert_eq!(ask(condition), want, "{condition}");
    }
}

#[test]
fn a_server_named_by_the_hostname_variable() {
    let host = host_name();
    let server = Builder::new(&bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}} default_server; server_name other; return 200 default; }
             server { listen 127.0.0.1:{{PORT}}; server_name $hostname; return 200 '$server_name'; }
             server { listen 127.0.0.1:{{PORT2}} default_server; server_name $HOSTNAME; return 200 '$server_name'; }",
        )
        .start();
    let ask = |port: u16| {
        let mut client = Client::connect(port);
        client.request(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).text()
    };
    assert_eq!(ask(server.port()), host);
    assert_eq!(ask(server.port_of(2)), host);
}

/// Closing without an answer counts as a time-out there.
#[test]
fn return_444_resets_where_timed_out_connections_are_reset() {
    let server = Builder::new(&bin())
        .http(
            "server { listen 127.0.0.1:{{PORT}}; reset_timedout_connection on; return 444; }
             server { listen 127.0.0.1:{{PORT2}}; return 444; }",
        )
        .start();
    let end = |port: u16| {
        let mut client = Client::connect(port);
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.ending(Duration::from_secs(20))
    };
    assert_eq!(end(server.port()), Ending::Reset);
    assert_eq!(end(server.port_of(2)), Ending::Closed);
}

/// An empty name is no file. (nginx takes the folder for the file and redirects until it gives up with 500.)
#[test]
fn an_empty_index_is_skipped() {
    let server = Builder::new(&bin())
        .http(
            "map $uri $empty { default ''; }
             server { listen 127.0.0.1:{{PORT}}; root {{DIR}}/html; index $empty index.htm;
                 location /none/ { index $empty; } }",
        )
        .file("html/index.htm", "page\n")
        .file("html/none/a", "")
        .start();
    assert_eq!(server.get("/").text(), "page\n");
    assert_eq!(server.get("/none/").status, 403);
}

/// What nginx's fastcgi and proxy pass on of a type.
#[test]
fn a_back_ends_content_type_stays_as_it_came() {
    let backend = Backend::start(|mut peer| {
        while let Some(head) = peer.head() {
            let (status, field) = match head.split(' ').nth(1).unwrap_or_default() {
                "/close" => ("200 OK", "text/html;charset=UTF-8"),
                "/quoted" => ("200 OK", "text/html; charset=\"utf-8\""),
                "/upper" => ("200 OK", "text/html;  Charset=utf-8"),
                "/more" => ("200 OK", "multipart/mixed; boundary=x;charset=a"),
                "/none" => ("200 OK", "text/html; charset="),
                "/created" => ("201 Created", "text/plain"),
                _ => ("204 No Content", "text/html;charset=UTF-8"),
            };
            let length = if status.starts_with("204") { "" } else { "Content-Length: 0\r\n" };
            peer.send(format!("HTTP/1.1 {status}\r\nContent-Type: {field}\r\n{length}\r\n"));
        }
    });
    let server = Builder::new(&bin())
        .http(&format!(
            "server {{ listen 127.0.0.1:{{{{PORT}}}};
                add_header X-Sent $sent_http_content_type always;
                location / {{ proxy_pass http://127.0.0.1:{port}; }}
                location = /taken {{ error_page 410 /created; return 410; }}
                location = /own {{ default_type text/plain; return 204 x; }}
            }}",
            port = backend.port()
        ))
        .start();
    let typed = |target: &str| {
        let response = server.get(target);
        let field = response.header("Content-Type").unwrap_or_default().to_string();
        assert_eq!(response.header("X-Sent").unwrap_or_default(), field, "{target}");
        field
    };
    assert_eq!(typed("/close"), "text/html;charset=UTF-8");
    assert_eq!(typed("/quoted"), "text/html; charset=\"utf-8\"");
    assert_eq!(typed("/upper"), "text/html;  Charset=utf-8");
    assert_eq!(typed("/more"), "multipart/mixed; boundary=x;charset=a");
    assert_eq!(typed("/none"), "text/html; charset=");
    let gone = server.get("/empty");
    assert_eq!((gone.status, gone.header("Content-Type")), (204, Some("text/html;charset=UTF-8")));
    let own = server.get("/own");
    assert_eq!((own.status, own.header("Content-Type")), (204, None));
    // The reason is that of the status.
    let taken = server.get("/taken");
    assert_eq!((taken.status, taken.reason.as_str()), (410, "Gone"));
}

/// Multipath TCP for those who ask for it; everybody else gets plain TCP from the same socket.
#[test]
fn a_multipath_listener_serves_plain_clients() {
    let conf =
        |multipath: &str| format!("server {{ listen 127.0.0.1:{{{{PORT}}}} {multipath}; return 200 ok; }}");
    let builder =
        Builder::new(env!("CARGO_BIN_EXE_brisk")).allow_alerts("cannot be changed while the socket is open");
    let mut server = builder.http(&conf("multipath")).start();
    assert_eq!(server.get("/").text(), "ok");
    server.reload();
    assert_eq!(server.get("/").text(), "ok");
    // It is a property of the socket, which stays.
    server.configure_http("", &conf(""));
    let output = server.run(&["-s", "reload"]);
    let said = brisk_testkit::server::text(&output.stderr);
    assert!(!output.status.success() && said.contains("\"multipath\" parameter"), "{said}");
    assert_eq!(server.get("/").text(), "ok");
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").expect("Linux").trim().to_lowercase()
}
