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
