//! Active checks.

use crate::BIN;
use brisk_testkit::{Builder, wait};
use std::fs;

#[test]
fn who_fails_its_check_gets_no_requests_until_it_passes() {
    let mut server = Builder::new(BIN)
        .http(
            r#"match well { status 200; header Content-Type ~ text; body ~ "fine"; }
            upstream u { zone z 64k; server 127.0.0.1:{{PORT2}}; server 127.0.0.1:{{PORT3}}; }
            server { listen 127.0.0.1:{{PORT}};
                location / { proxy_pass http://u; health_check interval=30ms fails=2 passes=2 uri=/alive match=well; }
                location /api { api; } }
            server { listen 127.0.0.1:{{PORT2}}; root {{DIR}}/one; location = /who { return 200 one; } }
            server { listen 127.0.0.1:{{PORT3}}; root {{DIR}}/two; location = /who { return 200 two; } }"#,
        )
        .file("one/alive", "all is fine")
        .file("two/alive", "all is fine")
        .start();
    let answers =
        |server: &brisk_testkit::Server| (0..4).map(|_| server.get("/who").text()).collect::<Vec<_>>();
    wait::holds("checks of both", || {
        let text = server.get("/api/9/http/upstreams/u").text();
        text.matches("\"last_passed\":true").count() == 2
    });
    assert!(answers(&server).contains(&"one".into()));
    fs::write(server.dir().join("one/alive"), "all is lost").unwrap();
    server.wait_for_log("peer is unhealthy while health checking, health check failed: body does not match");
    assert_eq!(answers(&server), ["two"; 4]);
    assert!(server.get("/api/9/http/upstreams/u").text().contains("\"state\":\"unhealthy\""));
    // A reload does not make it well.
    server.reload();
    assert_eq!(answers(&server), ["two"; 4]);
    fs::write(server.dir().join("one/alive"), "all is fine").unwrap();
    server.wait_for_log("peer is healthy while health checking");
    assert!(answers(&server).contains(&"one".into()));
    // Without checks what they once said does not count.
    fs::write(server.dir().join("one/alive"), "all is lost").unwrap();
    wait::holds("unhealthy", || answers(&server) == ["two"; 4]);
    let conf = server
        .read("brisk.conf")
        .replace("health_check", "# health_check")
        .replace("match=well;", "match=well;\n");
    server.configure(&conf);
    server.reload();
    assert!(answers(&server).contains(&"one".into()));
}

#[test]
fn who_must_be_checked_first_waits_for_it() {
    let server = Builder::new(BIN)
        .http(
            "upstream u { zone z 64k; server 127.0.0.1:{{PORT2}}; }
            server { listen 127.0.0.1:{{PORT}};
                location / { proxy_pass http://u; proxy_set_header Host vhost; health_check mandatory interval=20ms uri=/ok; } }
            server { listen 127.0.0.1:{{PORT2}}; server_name vhost; root {{DIR}}/one; }
            server { listen 127.0.0.1:{{PORT2}} default_server; return 500; }",
        )
        .start();
    server
        .wait_for_log("peer is unhealthy while health checking, health check failed: status does not match");
    assert_eq!(server.get("/").status, 502);
    fs::create_dir_all(server.dir().join("one")).unwrap();
    fs::write(server.dir().join("one/ok"), "ok").unwrap();
    wait::holds("a request passes", || server.get("/ok").status == 200);
}

/// `require`: variables of the answer, and maps over them. What only a client has is empty or made up, and does no harm.
#[test]
fn what_a_match_requires_must_be_set() {
    for http2 in ["", "proxy_http_version 2;"] {
        let conf = r#"
            map $upstream_status:$upstream_http_x_state $is_well { default 0; ~^200:(ok|busy)$ 1; }
            match ready { status 200; require $is_well $upstream_http_x_load; require $upstream_cookie_a; }
            match facts { require $upstream_addr $request_uri$arg_x $host $remote_addr $connection $status
                $request_id $msec $http_host; require "$ssl_protocol$proxy_protocol_addr$server_addr$server_port-"; }
            match never { require $arg_y; }
            upstream u { zone z 64k; server 127.0.0.1:{{PORT2}}; }
            upstream f { zone z2 64k; server 127.0.0.1:{{PORT2}}; }
            upstream n { zone z3 64k; server 127.0.0.1:{{PORT2}}; }
            server { listen 127.0.0.1:{{PORT}}; HTTP2
                location / { proxy_pass http://u; health_check interval=20ms uri=/alive match=ready; }
                location /f { proxy_pass http://f; health_check interval=20ms mandatory uri=/alive?x=1 match=facts; }
                location /n { proxy_pass http://n; health_check interval=20ms uri=/alive?x=1 match=never; }
                location /api { api; } }
            server { listen 127.0.0.1:{{PORT2}}; http2 on; root {{DIR}}/html;
                location = /alive { if (-f {{DIR}}/html/free) { add_header X-Load 3; add_header X-State busy;
                    add_header Set-Cookie "a=c; path=/"; } add_header X-Load 0; add_header X-State ok;
                    add_header Set-Cookie a=b; } }"#;
        let builder = Builder::new(BIN).http(&conf.replace("HTTP2", http2));
        let server =
            builder.file("html/alive", "alive").file("html/free", "").file("html/who", "one").start();
        let gets = |target: &str, status: u16| {
            wait::holds(&format!("{status} for {target}"), || server.get(target).status == status);
        };
        server.wait_for_log("failed: \\$arg_y is empty or 0, peer: .*, upstream: \"n\"");
        gets("/n", 502);
        gets("/f", 404);
        assert_eq!(server.get("/who").text(), "one");
        fs::remove_file(server.dir().join("html/free")).unwrap();
        server.wait_for_log("failed: \\$upstream_http_x_load is empty or 0, peer: .*, upstream: \"u\"");
        gets("/who", 502);
        server.write("html/free", "");
        gets("/who", 200);
    }
}
