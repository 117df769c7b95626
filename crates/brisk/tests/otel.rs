//! `otel_…`: spans at a collector, and trace contexts between clients and back ends. The cases are those of nginx-otel's own tests, and
//! what may go wrong with a collector besides.

use brisk_testkit::otlp::{Collector, Span, value_of};
use brisk_testkit::{Backend, Builder, Client, H2Client, H2Peer, PhpFpm, Server, tls, wait};
use rustix::process::Signal;
use std::sync::{Mutex, mpsc};

const BIN: &str = env!("CARGO_BIN_EXE_brisk");

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b9c7c989f97918e1-01";
const STATE: &str = "congo=ucfJifl5GOE,rojo=00f067aa0ba902b7";

/// A server that traces all, with these lines in `otel_exporter` and in `http`.
fn traced(collector: &Collector, lines: &str, http: &str) -> Server {
    let conf = format!(
        "otel_exporter {{ endpoint 127.0.0.1:{collector}; interval 1ms; {lines} }}
        otel_trace on;
        {http}
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            http2 on;
            server_name localhost;
            location /ok {{ return 200 OK; }}
            location /err {{ return 500 ERR; }}
            location /custom {{
                otel_span_name custom_location;
                otel_span_attr http.request.completion $request_completion;
                otel_span_attr http.response.header.content.type $sent_http_content_type;
                otel_span_attr http.request $request;
                return 200 OK;
            }}
            location /vars {{
                otel_trace_context extract;
                add_header X-Trace $otel_trace_id;
                add_header X-Span $otel_span_id;
                add_header X-Parent $otel_parent_id;
                add_header X-Sampled $otel_parent_sampled;
                return 204;
            }}
            location /ignore {{ proxy_pass http://127.0.0.1:{{{{PORT}}}}/notrace; }}
            location /extract {{ otel_trace_context extract; proxy_pass http://127.0.0.1:{{{{PORT}}}}/notrace; }}
            location /inject {{ otel_trace_context inject; proxy_pass http://127.0.0.1:{{{{PORT}}}}/notrace; }}
            location /propagate {{ otel_trace_context propagate; proxy_pass http://127.0.0.1:{{{{PORT}}}}/notrace; }}
            location /notrace {{
                otel_trace off;
                add_header X-Traceparent $http_traceparent;
                add_header X-Tracestate $http_tracestate;
                return 204;
            }}
            location /moved {{ error_page 404 /notrace; return 404; }}
            location /parents {{ otel_trace $otel_parent_sampled; otel_trace_context extract; return 200 OK; }}
            location /files {{ otel_trace off; }}
            location = /metrics {{ otel_trace off; metrics; }}
        }}",
        collector = collector.port()
    );
    Builder::new(BIN).http(&conf).file("html/files/a", "x").start()
}

fn with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test/1\r\n{fields}\r\n")
}

fn counted(server: &Server, outcome: &str) -> u64 {
    let text = server.get("/metrics").text();
    let start = format!("brisk_otel_spans_total{{outcome=\"{outcome}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |number| number.parse().unwrap())
}

#[test]
fn default_attributes() {
    let collector = Collector::start();
    let server = traced(&collector, "", "");
    for (count, (path, status, flavor)) in
        [("/ok", "200", "1.1"), ("/err", "500", "1.1"), ("/ok", "200", "2.0"), ("/err", "500", "2.0")]
            .into_iter()
            .enumerate()
    {
        let length = if flavor == "1.1" {
            server.request(with(path, "")).body.len()
        } else {
            let fields = [
                (":method", "GET"),
                (":scheme", "http"),
                (":path", path),
                (":authority", "localhost"),
                ("user-agent", "test/1"),
            ];
            H2Client::connect(server.port()).request(&fields, b"").body.len()
        };
        let span = collector.span(count + 1);
        let port = server.port().to_string();
        for (name, wanted) in [
            ("http.method", "GET"),
            ("http.target", path),
            ("http.route", path),
            ("http.scheme", "http"),
            ("http.flavor", flavor),
            ("http.user_agent", "test/1"),
            ("http.request_content_length", "0"),
            ("http.status_code", status),
            ("net.host.name", "localhost"),
            ("net.host.port", &port),
            ("net.sock.peer.addr", "127.0.0.1"),
        ] {
            assert_eq!(span.value(name).as_deref(), Some(wanted), "{name} of {path} by {flavor}");
        }
        let sent = span.value("http.response_content_length").unwrap().parse::<usize>().unwrap();
        // With the framing, as $body_bytes_sent.
        assert!(sent >= length && sent <= length + 20, "{sent} {length}");
        let peer = span.value("net.sock.peer.port").unwrap().parse::<u16>().unwrap();
        assert!(peer >= 1024);
        assert_eq!((&*span.name, span.kind, span.status.is_some()), (path, 2, status == "500"));
        assert_eq!((span.trace_id.len(), span.span_id.len(), span.parent_span_id.len()), (16, 8, 0));
        assert!(span.start > 0 && span.end >= span.start);
    }
    let text = "POST /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    server.request(text);
    assert_eq!(collector.span(5).value("http.request_content_length").as_deref(), Some("5"));
}

#[test]
fn names_and_attributes_of_ones_own() {
    let collector = Collector::start();
    let lines = "header X-API-TOKEN api.value; header Authorization \"Basic value\";";
    let http = "otel_service_name test_service; otel_resource_attr my.name \"my name\"; otel_resource_attr my.service \"my service\";";
    let server = traced(&collector, lines, http);
    server.get("/custom");
    let span = collector.span(1);
    assert_eq!(span.name, "custom_location");
    assert_eq!(span.value("http.request.completion").as_deref(), Some("OK"));
    assert_eq!(span.value("http.response.header.content.type").as_deref(), Some("[\"text/plain\"]"));
    assert_eq!(span.value("http.request").as_deref(), Some("GET /custom HTTP/1.1"));
    let call = collector.calls().remove(0);
    let resource = call.export.resource_spans[0].resource.clone().unwrap().attributes;
    for (name, wanted) in
        [("service.name", "test_service"), ("my.name", "my name"), ("my.service", "my service")]
    {
        assert_eq!(value_of(&resource, name).as_deref(), Some(wanted));
    }
    for (name, wanted) in [
        (":path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-api-token", "api.value"),
        ("authorization", "Basic value"),
    ] {
        let field = call.fields.iter().find(|(have, _)| have == name).map(|(_, value)| &**value);
        assert_eq!(field, Some(wanted), "{name}");
    }
}

#[test]
fn variables_tell_of_the_span() {
    let collector = Collector::start();
    let server = traced(&collector, "", "");
    let parent = format!("Traceparent: {PARENT}\r\nTracestate: {STATE}\r\n");
    for (count, fields) in ["", &parent].into_iter().enumerate() {
        let answer = server.request(with("/vars", fields));
        let span = collector.span(count + 1);
        let of = |name: &str| answer.header(name).unwrap_or_default().to_string();
        assert_eq!(of("X-Trace"), Span::hex(&span.trace_id));
        assert_eq!(of("X-Span"), Span::hex(&span.span_id));
        assert_eq!(of("X-Parent"), Span::hex(&span.parent_span_id));
        assert_eq!(of("X-Sampled"), if fields.is_empty() { "0" } else { "1" });
        if !fields.is_empty() {
            assert_eq!(of("X-Trace"), PARENT[3..35]);
            assert_eq!((of("X-Parent"), &*span.trace_state), (PARENT[36..52].to_string(), STATE));
        }
    }
}

#[test]
fn contexts_are_passed_on_as_they_are_asked_to_be() {
    let collector = Collector::start();
    let server = traced(&collector, "", "");
    let parent = format!("Traceparent: {PARENT}\r\nTracestate: {STATE}\r\n");
    let mut count = 0;
    for path in ["/ignore", "/extract", "/inject", "/propagate"] {
        for fields in ["", &parent] {
            let answer = server.request(with(path, fields));
            count += 1;
            let span = collector.span(count);
            let has_parent = !fields.is_empty();
            let is_child = has_parent && matches!(path, "/extract" | "/propagate");
            assert_eq!(Span::hex(&span.trace_id) == PARENT[3..35], is_child, "{path} {fields}");
            assert_eq!(Span::hex(&span.parent_span_id) == PARENT[36..52], is_child, "{path} {fields}");
            assert_eq!(span.trace_state == STATE, is_child, "{path} {fields}");
            let (context, state) = if matches!(path, "/inject" | "/propagate") {
                let own = format!("00-{}-{}-01", Span::hex(&span.trace_id), Span::hex(&span.span_id));
                (Some(own), is_child.then_some(STATE))
            } else {
                (has_parent.then(|| PARENT.to_string()), has_parent.then_some(STATE))
            };
            assert_eq!(answer.header("X-Traceparent"), context.as_deref(), "{path} {fields}");
            assert_eq!(answer.header("X-Tracestate"), state, "{path} {fields}");
        }
    }
    // What is no context, and more than one, is none.
    let twice = format!("Traceparent: {PARENT}\r\nTraceparent: {PARENT}\r\n");
    for fields in ["Traceparent: 00-0-0-01\r\n", &twice] {
        server.request(with("/propagate", fields));
        count += 1;
        let span = collector.span(count);
        assert!(span.parent_span_id.is_empty() && Span::hex(&span.trace_id) != PARENT[3..35], "{fields}");
    }
}

/// What clients choose the length of is not kept and sent as long as it comes.
#[test]
fn long_states_and_values_are_bounded() {
    let collector = Collector::start();
    let server = traced(&collector, "", "large_client_header_buffers 4 16k;");
    for (count, (length, is_kept)) in [(2048, true), (2049, false)].into_iter().enumerate() {
        let state = format!("a={}", "x".repeat(length - 2));
        let fields = format!("Traceparent: {PARENT}\r\nTracestate: {state}\r\n");
        let answer = server.request(with("/propagate", &fields));
        let want = if is_kept { &*state } else { "" };
        assert_eq!(answer.header("X-Tracestate").unwrap_or_default(), want, "{length}");
        let span = collector.span(count + 1);
        assert_eq!(span.trace_state, want, "{length}");
        assert_eq!(Span::hex(&span.trace_id), PARENT[3..35]);
    }
    let agent = "u".repeat(10_000);
    server.request(format!("GET /ok HTTP/1.1\r\nHost: localhost\r\nUser-Agent: {agent}\r\n\r\n"));
    assert_eq!(collector.span(3).value("http.user_agent").map(|value| value.len()), Some(8192));
}

#[test]
fn only_what_is_sampled_is_told() {
    let collector = Collector::start();
    let server = traced(&collector, "", "");
    for _ in 0..5 {
        assert_eq!(server.get("/notrace").status, 204);
        assert_eq!(server.get("/files/a").text(), "x");
        server.request(with("/parents", ""));
        server.request(with("/parents", &format!("Traceparent: {}0\r\n", &PARENT[..54])));
    }
    server.request(with("/parents", &format!("Traceparent: {PARENT}\r\n")));
    // An error page was not asked for by the client: the decision about its request stands.
    server.get("/moved");
    assert_eq!(collector.span(2).value("http.target").as_deref(), Some("/moved"));
    let names: Vec<_> = collector.spans().iter().map(|span| span.name.clone()).collect();
    assert_eq!(names, ["/parents", "/notrace"]);
}

#[test]
fn batches_are_of_one_size_and_the_rest_comes_with_the_interval() {
    let collector = Collector::start();
    let conf = format!(
        "otel_exporter {{ endpoint http://127.0.0.1:{}; interval 1h; batch_size 3; batch_count 3; }}
        otel_trace on; server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ return 200 OK; }} }}",
        collector.port()
    );
    let mut server = Builder::new(BIN).http(&conf).start();
    let sizes = || -> Vec<usize> {
        let calls = collector.calls();
        calls.iter().map(|call| call.export.resource_spans[0].scope_spans[0].spans.len()).collect()
    };
    for asked in 1..=3 {
        (0..3).for_each(|_| drop(server.get("/ok")));
        wait::holds("a full batch", || sizes().len() == asked);
    }
    assert_eq!(sizes(), [3, 3, 3]);
    let resource = collector.calls()[0].export.resource_spans[0].resource.clone().unwrap();
    assert_eq!(value_of(&resource.attributes, "service.name").as_deref(), Some("unknown_service:brisk"));
    // What is left goes on with a reload that changes nothing of it, and leaves when the server is told to end.
    server.get("/ok");
    server.reload();
    server.get("/ok");
    assert_eq!(sizes().len(), 3);
    server.get("/ok");
    wait::holds("the rest", || sizes() == [3, 3, 3, 3]);
    server.end(Signal::QUIT);
}

/// Found by reading: spans that waited, or were on their way, were lost with the server's end.
#[test]
fn the_last_spans_leave_before_the_server_ends() {
    for (how, main) in [
        (Signal::TERM, ""),
        (Signal::QUIT, ""),
        (Signal::TERM, "master_process off;"),
        (Signal::QUIT, "master_process off;"),
    ] {
        let (asked, asks) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let (asked, gate) = (Mutex::new(asked), Mutex::new(gate));
        let back = Backend::start(move |mut peer| {
            peer.head();
            asked.lock().unwrap().send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK");
        });
        let collector = Collector::start();
        let conf = format!(
            "otel_exporter {{ endpoint 127.0.0.1:{}; interval 1h; }}
            otel_trace on; server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ return 200 OK; }}
                location /slow {{ proxy_pass http://127.0.0.1:{}; }} }}",
            collector.port(),
            back.port()
        );
        let mut server = Builder::new(BIN).main(main).http(&conf).start();
        (0..2).for_each(|_| drop(server.get("/ok")));
        let mut wanted = 2;
        if how == Signal::QUIT {
            let mut slow = server.client();
            slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
            asks.recv().unwrap();
            server.signal(how);
            wait::holds("it takes no connection", || Client::try_connect(server.port()).is_err());
            // The spans of a worker that drains are sent one by one.
            wait::holds("what waited", || collector.spans().len() == 2);
            go.send(()).unwrap();
            assert_eq!(slow.response().text(), "OK");
            wanted += 1;
        }
        let ended = server.end(how);
        assert!(ended.success(), "{how:?} {main}: {ended:?}");
        assert_eq!(collector.spans().len(), wanted, "{how:?} {main}");
    }
}

/// Found by reading: with `log_subrequest` a request was counted again for each of its subrequests, and its span sent again.
#[test]
fn subrequests_are_logged_and_neither_counted_nor_told_of() {
    let collector = Collector::start();
    let conf = format!(
        "otel_exporter {{ endpoint 127.0.0.1:{}; interval 1ms; }}
        otel_trace on; log_subrequest on; log_format path $uri; access_log paths.log path;
        server {{
            listen 127.0.0.1:{{{{PORT}}}};
            location /page.html {{ ssi on; mirror /copy; }}
            location /part {{ return 200 part; }}
            location /copy {{ return 200 copy; }}
            location /ok {{ return 200 OK; }}
            location = /metrics {{ otel_trace off; metrics; }}
        }}",
        collector.port()
    );
    let page = "<!--#include virtual=\"/part\" -->";
    let server = Builder::new(BIN).http(&conf).file("html/page.html", page).start();
    assert_eq!(server.get("/page.html").text(), "part");
    for path in ["/part", "/copy", "/page.html"] {
        server.wait_for_line("paths.log", path);
    }
    server.get("/ok");
    let metrics = server.get("/metrics").text();
    let counted: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("brisk_http_request_duration_seconds_count"))
        .collect();
    assert!(counted.len() == 2 && counted.iter().all(|line| line.ends_with(" 1")), "{counted:?}");
    assert_eq!(collector.span(2).name, "/ok");
    assert_eq!(collector.spans().len(), 2);
}

#[test]
fn a_collector_that_fails_costs_spans_and_is_told_of() {
    // UNAVAILABLE passes, INVALID_ARGUMENT does not.
    let collector = Collector::answering(|call| [14, 0, 3][call.min(2)]);
    let site = traced(&collector, "batch_size 1; batch_count 2;", "");
    let server = site;
    server.get("/ok");
    wait::holds("it is sent again", || collector.calls().len() == 2 && counted(&server, "exported") == 1);
    let again: Vec<_> = collector.spans().iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(again[0], again[1]);
    server.get("/ok");
    wait::holds("it is not", || counted(&server, "failed") == 1);
    server.wait_for_log("OTel export failure: gRPC status 3 told, 1 spans are lost");
    assert_eq!(collector.calls().len(), 3);
}

#[test]
fn spans_that_find_no_room_are_dropped_and_counted() {
    // Nobody listens there: each batch is tried for seconds.
    let collector = Collector::start();
    let port = brisk_testkit::ports::claim();
    let conf = format!(
        "otel_exporter {{ endpoint 127.0.0.1:{}; batch_size 2; batch_count 2; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; location / {{ otel_trace on; return 200 OK; }} location = /metrics {{ metrics; }} }}",
        port.number
    );
    let server = Builder::new(BIN).http(&conf).start();
    (0..20).for_each(|_| drop(server.get("/ok")));
    wait::holds("some are dropped", || counted(&server, "dropped") >= 10);
    drop(collector);
}

#[test]
fn a_collector_behind_tls_is_verified() {
    let collector = Collector::start();
    let issued = tls::issue("localhost", false, None);
    let conf = format!(
        "otel_exporter {{ endpoint https://localhost:{{{{PORT2}}}}; interval 1ms; trusted_certificate a.crt; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; location /ok {{ otel_trace on; return 200 OK; }} }}
        server {{ listen 127.0.0.1:{{{{PORT2}}}} ssl; http2 on; ssl_certificate a.crt; ssl_certificate_key a.key;
            location / {{ grpc_pass grpc://127.0.0.1:{}; }} }}",
        collector.port()
    );
    let site =
        Builder::new(BIN).http(&conf).file("a.crt", issued.certificate_pem()).file("a.key", issued.key_pem());
    let server = site.start();
    server.get("/ok");
    assert_eq!(collector.span(1).name, "/ok");
    let other = tls::issue("localhost", false, None);
    let site = Builder::new(BIN)
        .http(&conf.replace("trusted_certificate a.crt", "trusted_certificate b.crt"))
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .file("b.crt", other.certificate_pem());
    let server = site.start();
    server.get("/ok");
    server.wait_for_log("OTel export failure: .*certificate verify error");
    assert_eq!(collector.spans().len(), 1);
}

/// A reload is how an authority is renewed: the text of the configuration is the same.
#[test]
fn a_reload_takes_another_authority() {
    let collector = Collector::start();
    let (issued, other) = (tls::issue("localhost", false, None), tls::issue("localhost", false, None));
    let conf = format!(
        "otel_exporter {{ endpoint https://localhost:{{{{PORT2}}}}; interval 1ms; trusted_certificate trusted.crt; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; location /ok {{ otel_trace on; return 200 OK; }} }}
        server {{ listen 127.0.0.1:{{{{PORT2}}}} ssl; http2 on; ssl_certificate a.crt; ssl_certificate_key a.key;
            location / {{ grpc_pass grpc://127.0.0.1:{}; }} }}",
        collector.port()
    );
    let site = Builder::new(BIN)
        .http(&conf)
        .file("a.crt", issued.certificate_pem())
        .file("a.key", issued.key_pem())
        .file("trusted.crt", other.certificate_pem());
    let server = site.start();
    server.get("/ok");
    server.wait_for_log("OTel export failure: .*certificate verify error");
    server.write("trusted.crt", issued.certificate_pem());
    server.reload();
    server.get("/ok");
    assert_eq!(collector.span(1).name, "/ok");
}

#[test]
fn large_batches_wait_for_the_collector_s_window() {
    let collector = Collector::start();
    let conf = format!(
        "otel_exporter {{ endpoint 127.0.0.1:{}; interval 1h; batch_size 50; }}
        server {{ listen 127.0.0.1:{{{{PORT}}}}; location /ok {{ otel_trace on; otel_span_attr large $http_x_large; return 200 OK; }} }}",
        collector.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    let large = "x".repeat(6000);
    let mut client = server.client();
    (0..50).for_each(|_| drop(client.request(with("/ok", &format!("X-Large: {large}\r\n")))));
    assert_eq!(collector.span(50).value("large"), Some(large));
    assert_eq!(collector.calls().len(), 1);
}

/// A context is passed on without a collector, too: to PHP as a parameter, over HTTP/2 as a field.
#[test]
fn applications_and_services_get_the_context() {
    let php = PhpFpm::tcp(1);
    php.script(
        "trace.php",
        "<?php echo $_SERVER['HTTP_TRACEPARENT'] ?? 'none', ' ', $_SERVER['HTTP_TRACESTATE'] ?? 'none';",
    );
    let service = Backend::start(|peer| {
        let mut peer = H2Peer::new(peer, brisk_h2::Settings::default());
        while let Some(request) = peer.request() {
            let of = |name: &str| request.field(name).unwrap_or("none").to_string();
            let text = format!("{} {}", of("traceparent"), of("tracestate"));
            peer.fields(request.stream, &[(":status", "200")], false);
            peer.data(request.stream, text.as_bytes(), true);
        }
    });
    let conf = format!(
        "server {{ listen 127.0.0.1:{{{{PORT}}}}; root {}; otel_trace_context propagate;
            location ~ \\.php$ {{ {} fastcgi_pass {}; }}
            location /service {{ grpc_pass grpc://127.0.0.1:{}; }} }}",
        php.dir().display(),
        include_str!("../../../packaging/fastcgi.conf"),
        php.address(),
        service.port()
    );
    let server = Builder::new(BIN).http(&conf).start();
    for path in ["/trace.php", "/service"] {
        let parent = format!("Traceparent: {PARENT}\r\nTracestate: {STATE}\r\n");
        let text = server.request(with(path, &parent)).text();
        let (context, state) = text.split_once(' ').unwrap();
        // The trace is the client's, the span is ours, and it is not recorded.
        assert!(context.starts_with(&PARENT[..36]) && context.ends_with("-00"), "{path}: {text}");
        assert_ne!(context[36..52], PARENT[36..52], "{path}");
        assert_eq!(state, STATE, "{path}");
        let text = server.request(with(path, "")).text();
        assert!(text.starts_with("00-") && text.ends_with("-00 none"), "{path}: {text}");
    }
}
