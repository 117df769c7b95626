//! Active checks.

use crate::BIN;
use brisk_testkit::{Backend, Builder, wait};
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

/// Two locations pass to one group, each with a check of its own: one that passes does not speak for the other.
#[test]
fn a_check_that_passes_does_not_bring_back_whom_another_one_has_found_bad() {
    let mut server = Builder::new(BIN)
        .http(
            "upstream u { zone z 64k; server 127.0.0.1:{{PORT2}}; }
            server { listen 127.0.0.1:{{PORT}};
                location / { proxy_pass http://u; health_check interval=20ms uri=/well; }
                location /other { proxy_pass http://u; health_check interval=20ms uri=/sick; }
                location /api { api; } }
            server { listen 127.0.0.1:{{PORT2}}; root {{DIR}}/html; }",
        )
        .file("html/well", "")
        .start();
    let peer = |server: &brisk_testkit::Server| {
        let text = server.get("/api/9/http/upstreams/u").text();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["peers"][0].clone()
    };
    wait::holds("it is unhealthy", || peer(&server)["state"] == "unhealthy");
    let asked = |server: &brisk_testkit::Server| peer(server)["health_checks"]["checks"].as_u64().unwrap();
    // Both go on asking; whichever was the last, the server stays where it is.
    let begin = asked(&server);
    wait::holds("ten more answers", || {
        assert_eq!((peer(&server)["state"].clone(), server.get("/well").status), ("unhealthy".into(), 502));
        asked(&server) >= begin + 10
    });
    assert_eq!(peer(&server)["health_checks"]["unhealthy"], 1);
    // Not after a reload either, in whichever order they ask then.
    server.reload();
    assert_eq!(server.get("/well").status, 502);
    server.write("html/sick", "");
    wait::holds("both pass", || server.get("/well").status == 200);
    // What a check has said goes with the check.
    fs::remove_file(server.dir().join("html/sick")).unwrap();
    wait::holds("it is unhealthy again", || peer(&server)["state"] == "unhealthy");
    let conf = server.read("brisk.conf").replace("health_check interval=20ms uri=/sick;", "");
    server.configure(&conf);
    server.reload();
    wait::holds("the other one alone counts", || server.get("/well").status == 200);
}

/// A server that is added while the group is in use has passed no check, nor has one of a group that a reload makes anew.
#[test]
fn a_mandatory_check_holds_for_whoever_comes_later() {
    let silent = Backend::start(|mut peer| while peer.head().is_some() {});
    let server = Builder::new(BIN)
        .http(&format!(
            "upstream u {{ zone z 64k; server 127.0.0.1:{{{{PORT2}}}}; }}
            upstream alone {{ server 127.0.0.1:{}; }}
            server {{ listen 127.0.0.1:{{{{PORT}}}};
                location / {{ proxy_pass http://u; health_check mandatory interval=1h uri=/well; }}
                location /alone/ {{ proxy_pass http://alone; health_check mandatory interval=1h; }}
                location /api {{ api write=on; }} }}
            server {{ listen 127.0.0.1:{{{{PORT2}}}}; root {{{{DIR}}}}/html; }}",
            silent.port()
        ))
        .file("html/well", "well")
        .start();
    wait::holds("the first one has passed", || server.get("/well").status == 200);
    let body = format!("{{\"server\":\"127.0.0.1:{}\"}}", server.port_of(2));
    let body = body.replace("127.0.0.1", "127.0.0.2");
    let length = body.len();
    let request = format!(
        "POST /api/9/http/upstreams/u/servers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    assert_eq!(server.request(request).status, 201);
    let text = server.get("/api/9/http/upstreams/u").text();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (json["peers"][0]["state"].clone(), json["peers"][1]["state"].clone()),
        ("up".into(), "checking".into())
    );
    (0..4).for_each(|_| assert_eq!(server.get("/well").text(), "well"));
    // The check of the other group is never answered, before a reload as after it.
    assert_eq!(server.get("/alone/").status, 502);
    server.reload();
    assert_eq!(server.get("/alone/").status, 502);
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
