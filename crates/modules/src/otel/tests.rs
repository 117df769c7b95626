//! The directives, and what they make of plans.

use super::block::Place;
use crate::check::{accepted, http, refused};
use brisk_server::purity::Purity;
use std::path::Path;

const EXPORTER: &str = "otel_exporter { endpoint 127.0.0.1:4317; }";

#[test]
fn directives_are_checked() {
    accepted(&[
        "otel_exporter { endpoint http://127.0.0.1:4317; interval 1s; batch_size 10; batch_count 2; header X-Token a; } otel_service_name s; otel_resource_attr a b; otel_trace on; server { otel_trace $otel_parent_sampled; otel_trace_context propagate; otel_span_name $uri; otel_span_attr a $host; location / { otel_trace off; } }",
        "otel_exporter { endpoint unix:/run/otel.sock; }",
        "otel_exporter { endpoint [::1]:4317; }",
    ]);
    refused(&[
        ("otel_trace on;", "\"otel_exporter\" block is missing"),
        ("server { otel_trace $http_x; }", "\"otel_exporter\" block is missing"),
        ("otel_exporter { interval 1s; }", "\"otel_exporter\" requires \"endpoint\""),
        ("otel_exporter { endpoint http://; }", "\"otel_exporter\" requires \"endpoint\""),
        ("otel_exporter { endpoint 127.0.0.1; }", "no port in endpoint \"127.0.0.1\""),
        (
            "otel_exporter { endpoint 127.0.0.1:4317; nothing 1; }",
            "unknown directive \"nothing\" in \"otel_exporter\"",
        ),
        (
            "otel_exporter { endpoint 127.0.0.1:4317 x; }",
            "invalid number of arguments in \"endpoint\" directive of \"otel_exporter\"",
        ),
        (
            "otel_exporter { endpoint 127.0.0.1:4317; header \"a b\" c; }",
            "\"header\" directive of \"otel_exporter\" has invalid header name",
        ),
        ("otel_exporter { endpoint 127.0.0.1:4317; batch_size 0; }", "invalid value \"0\""),
        ("otel_trace_context both;", "invalid value \"both\""),
    ]);
}

#[test]
fn where_nothing_is_traced_answers_stay_prepared() {
    let purity = |text: &str| {
        let snap = http(&format!("{EXPORTER} server {{ location /x {{ {text} }} }}")).unwrap();
        let at = snap.locations.iter().find(|location| *location.name == *b"/x").unwrap();
        at.plan.purity()
    };
    for text in ["", "otel_trace off;", "otel_trace 0;", "otel_span_name x; otel_span_attr a b;"] {
        assert_eq!(purity(text), Purity::Pure, "{text}");
    }
    for text in ["otel_trace on;", "otel_trace $http_x;", "otel_trace_context inject;"] {
        assert_eq!(purity(text), Purity::Impure, "{text}");
    }
}

/// A reload is how a collector is moved, and how its authority is renewed.
#[test]
fn another_address_is_another_place() {
    let place =
        |addresses: &[&str]| Place::Ip(addresses.iter().map(|address| address.parse().unwrap()).collect());
    let have = place(&["10.0.0.1:4317", "10.0.0.2:4317"]);
    for (found, want) in [
        (place(&["10.0.0.2:4317", "10.0.0.1:4317"]), true),
        (place(&["10.0.0.3:4317", "10.0.0.1:4317"]), false),
        (place(&["10.0.0.1:4317"]), false),
        // The name server is away.
        (place(&[]), true),
        (Place::Unix(Path::new("/run/a").into()), false),
    ] {
        assert_eq!(have.is_still(&found), want, "{found:?}");
    }
    assert!(!place(&[]).is_still(&have));
    let unix = |path: &str| Place::Unix(Path::new(path).into());
    assert!(unix("/run/a").is_still(&unix("/run/a")) && !unix("/run/a").is_still(&unix("/run/b")));
}
