//! `metrics` and `status`: the numbers are right, in both forms, over reloads.

use brisk_testkit::tls::{issue, returning};
use brisk_testkit::{Builder, Server, TlsClient, wait};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const CONF: &str = r"
    limit_req_zone $arg_k zone=req:32k rate=1r/m;
    limit_conn_zone $arg_k zone=conn:32k;
    access_log off;
    server {
        listen 127.0.0.1:{{PORT}}; server_name one.example;
        location /files { limit_conn conn 10; }
        location /limited { limit_req zone=req; try_files /none @ok; }
        location @ok { return 200 ok; }
        location = /metrics { metrics; }
        location = /status { status; }
        location /gone { return 410; }
    }
    server { listen 127.0.0.1:{{PORT}}; server_name two.example; return 302 /; }";

/// The value of a sample.
fn value(server: &Server, sample: &str) -> Option<f64> {
    let text = server.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[track_caller]
fn is(server: &Server, sample: &str, want: f64) {
    wait::holds(&format!("{sample} {want}\n{}", server.get("/metrics").text()), || {
        value(server, sample) == Some(want)
    });
}

/// Found by reading: what was in most demand counted least, since prepared answers were left out.
#[test]
fn prepared_answers_of_a_cache_are_hits() {
    let conf = "proxy_cache_path {{DIR}}/cache keys_zone=c:1m; access_log off;
        server {
            listen 127.0.0.1:{{PORT}};
            location / { proxy_pass http://127.0.0.1:{{PORT2}}; proxy_cache c; proxy_cache_valid 1h; }
            location = /metrics { metrics; }
        }
        server { listen 127.0.0.1:{{PORT2}}; return 200 stored; }";
    let server = Builder::new(BIN).main("user root;").http(conf).start();
    assert_eq!(server.get("/a").text(), "stored");
    is(&server, "brisk_cache_entries{zone=\"c\"}", 1.0);
    let mut client = server.client();
    for _ in 0..200 {
        assert_eq!(client.get("/a").text(), "stored");
    }
    is(&server, "brisk_cache_hits_total{zone=\"c\"}", 200.0);
    is(&server, "brisk_cache_misses_total{zone=\"c\"}", 1.0);
    assert!(value(&server, "brisk_prepared_answers_total").unwrap() > 50.0);
}

#[test]
fn requests_by_server_location_and_class() {
    let mut server = Builder::new(BIN).http(CONF).file("html/files/a", "x".repeat(100)).start();
    let mut client = server.client();
    for _ in 0..5 {
        client.get("/files/a?k=a");
    }
    client.get("/files/none?k=a");
    client.get("/gone");
    client.request("GET / HTTP/1.1\r\nHost: two.example\r\n\r\n");
    for code in [200, 503, 503] {
        assert_eq!(client.get("/limited?k=a").status, code);
    }
    let count = "brisk_http_request_duration_seconds_count{server=\"one.example\",location=";
    is(&server, &format!("{count}\"/files\",status=\"2xx\"}}"), 5.0);
    is(&server, &format!("{count}\"/files\",status=\"4xx\"}}"), 1.0);
    is(&server, &format!("{count}\"/gone\",status=\"4xx\"}}"), 1.0);
    is(&server, &format!("{count}\"/limited\",status=\"5xx\"}}"), 2.0);
    let other =
        "brisk_http_request_duration_seconds_count{server=\"two.example\",location=\"\",status=\"3xx\"}";
    is(&server, other, 1.0);
    is(&server, "brisk_limit_req_requests_total{zone=\"req\",outcome=\"passed\"}", 1.0);
    is(&server, "brisk_limit_req_requests_total{zone=\"req\",outcome=\"rejected\"}", 2.0);
    is(&server, "brisk_limit_conn_requests_total{zone=\"conn\",outcome=\"passed\"}", 6.0);
    is(&server, "brisk_configuration_generation", 1.0);
    let bytes = "brisk_http_response_bytes_total{server=\"one.example\",location=\"/files\",status=\"2xx\"}";
    assert!(value(&server, bytes).unwrap() > 500.0);
    server.configure_http("", CONF);
    server.reload();
    is(&server, &format!("{count}\"/files\",status=\"2xx\"}}"), 5.0);
    is(&server, "brisk_configuration_generation", 2.0);
    client.get("/files/a?k=a");
    is(&server, &format!("{count}\"/files\",status=\"2xx\"}}"), 6.0);
}

#[test]
fn buckets_rise_and_end_with_the_count() {
    let server = Builder::new(BIN).http(CONF).file("html/files/a", "x").start();
    (0..20).for_each(|_| assert_eq!(server.get("/files/a").status, 200));
    let of = "{server=\"one.example\",location=\"/files\",status=\"2xx\"";
    is(&server, &format!("brisk_http_request_duration_seconds_count{of}}}"), 20.0);
    let text = server.get("/metrics").text();
    let prefix = format!("brisk_http_request_duration_seconds_bucket{of},le=\"");
    let buckets: Vec<(String, u64)> = text
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "))
        .map(|(bound, count)| (bound.to_string(), count.parse().unwrap()))
        .collect();
    assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&("+Inf".to_string(), 20)));
    assert_eq!((buckets.len(), buckets[0].0.as_str()), (17, "0.0001"));
}

#[test]
fn status_says_the_same_as_json() {
    let server = Builder::new(BIN).http(CONF).start();
    assert_eq!(
        server.request("POST /status HTTP/1.1\r\nHost: one.example\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
    let response = server.get("/status");
    assert_eq!(response.header("Content-Type"), Some("application/json"));
    assert_eq!(response.header("Cache-Control"), Some("no-store"));
    let text = response.text();
    assert!(
        text.starts_with("{\n\"brisk_build_info\":{\"type\":\"gauge\",") && text.ends_with("}\n"),
        "{text}"
    );
    assert!(text.contains(
        "\"labels\":{\"server\":\"one.example\",\"location\":\"/status\",\"status\":\"4xx\"},\"count\":1"
    ));
    let metrics = server.get("/metrics");
    assert_eq!(metrics.header("Content-Type"), Some("text/plain; version=0.0.4"));
    for line in metrics.text().lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(text.contains(&format!("\"{name}\":{{\"type\":")), "{name} is not in the JSON");
    }
}

#[test]
fn a_reload_in_a_browser_gets_a_prepared_answer_unless_a_cache_has_a_say() {
    const RELOAD: &str =
        "GET /a HTTP/1.1\r\nHost: a.example\r\nCache-Control: no-cache\r\nPragma: no-cache\r\n\r\n";
    let site = "server { listen 127.0.0.1:{{PORT}}; location = /metrics { metrics; } }";
    let cached = "proxy_cache_path {{DIR}}/cache keys_zone=pages:1m;
         server { listen 127.0.0.1:{{PORT}}; server_name b.example; location / {
             proxy_pass http://127.0.0.1:{{PORT}}; proxy_cache pages; proxy_cache_mode rfc9111; } }";
    for (more, some) in [("", true), (cached, false)] {
        let server = Builder::new(BIN).http(&format!("{site}{more}")).file("html/a", "x").start();
        let mut client = server.client();
        (0..5).for_each(|_| assert_eq!(client.request(RELOAD).status, 200));
        let answers = value(&server, "brisk_prepared_answers_total").unwrap();
        assert_eq!(answers > 0.0, some, "{answers}");
    }
}

#[test]
fn every_area_has_its_numbers_in_both_forms() {
    let certificate = issue("one.example", false, None);
    let server = Builder::new(BIN)
        .file("a.crt", certificate.certificate_pem())
        .file("a.key", certificate.key_pem())
        .http(
            "limit_req_zone $arg_k zone=req:32k rate=1r/m; limit_conn_zone $arg_k zone=conn:32k;
             proxy_cache_path {{DIR}}/cache keys_zone=pages:1m; auth_jwt_leeway 1s;
             server { listen 127.0.0.1:{{PORT}}; location = /metrics { metrics; } location = /status { status; }
                 location / { limit_req zone=req; limit_conn conn 10; overload_target 1s; } }
             server { listen 127.0.0.1:{{PORT2}} ssl; ssl_certificate a.crt; ssl_certificate_key a.key;
                 location / { proxy_pass https://127.0.0.1:{{PORT2}}/end; proxy_cache pages; }
                 location /end { return 200 $ssl_protocol; } }",
        )
        .start();
    let context = returning();
    for _ in 0..2 {
        let answer = TlsClient::get(server.port_of(2), &context, "one.example", "/end").unwrap();
        assert!(answer.ends_with("TLSv1.3"), "{answer}");
    }
    let mut stranger = brisk_testkit::Client::connect(server.port_of(2));
    stranger.send([22, 3, 1, 0, 4, 9, 0, 0, 0]);
    // An alert, and the end.
    let _ = stranger.rest();
    is(&server, "brisk_tls_handshakes_total{outcome=\"full\"}", 1.0);
    is(&server, "brisk_tls_handshakes_total{outcome=\"resumed\"}", 1.0);
    is(&server, "brisk_tls_handshakes_total{outcome=\"failed\"}", 1.0);
    let end = format!(
        "brisk_tls_certificate_not_after_seconds{{certificate=\"{}/a.crt\"}}",
        server.dir().display()
    );
    let days =
        (value(&server, &end).unwrap() - std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64()) / 86_400.0;
    assert!((2.9..3.1).contains(&days), "{days}");
    // The server asks itself, as any client does.
    TlsClient::get(server.port_of(2), &context, "one.example", "/").unwrap();
    is(&server, "brisk_upstream_tls_handshakes_total{outcome=\"full\"}", 1.0);
    is(&server, "brisk_tls_handshakes_total{outcome=\"full\"}", 2.0);
    is(&server, "brisk_cache_misses_total{zone=\"pages\"}", 1.0);
    let (text, json) = (server.get("/metrics").text(), server.get("/status").text());
    for name in [
        "brisk_http_request_duration_seconds",
        "brisk_connections",
        "brisk_http_requests_total",
        "brisk_http_response_bytes_total",
        "brisk_http_request_bytes_total",
        "brisk_cache_entries",
        "brisk_limit_req_requests_total",
        "brisk_limit_conn_requests_total",
        "brisk_overload_refused_total",
        "brisk_tls_handshakes_total",
        "brisk_tls_certificate_not_after_seconds",
        "brisk_file_cache_lookups_total",
        "brisk_thread_skew",
        "brisk_configuration_generation",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is not in the text");
        assert!(json.contains(&format!("\"{name}\":{{")), "{name} is not in the JSON");
    }
}
