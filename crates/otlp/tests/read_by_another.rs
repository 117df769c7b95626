//! What is written is read by prost, with OTLP's messages as its schema has them.
#![forbid(unsafe_code)]

use brisk_otlp::span::export;
use brisk_otlp::{Pair, Span, SpanId, TraceId, Value};
use brisk_testkit::otlp::{Export, Message as _, Span as Read, value_of};

#[test]
fn a_batch() {
    let one = Span {
        trace: TraceId([1; 16]),
        id: SpanId([2; 8]),
        parent: Some(SpanId([3; 8])),
        state: b"congo=t61rcWkgMzE",
        name: b"/a\xff",
        start_ns: 1_790_000_000_123_000_000,
        end_ns: 1_790_000_000_124_000_000,
        is_error: true,
    };
    let attributes = [
        (&b"http.target"[..], Value::Text(b"/a")),
        (b"http.status_code", Value::Number(500)),
        (b"http.request.header.x", Value::List(b"v")),
    ];
    let mut batch = Vec::new();
    one.append(attributes.into_iter(), &mut batch);
    let other = Span { parent: None, state: b"", name: b"", is_error: false, ..one };
    other.append(std::iter::empty(), &mut batch);
    let resource: [Pair; 1] = [(b"service.name"[..].into(), b"shop"[..].into())];
    let read = Export::decode(&*export(&resource, ("brisk", "1"), &batch)).unwrap();
    let [spans] = &read.resource_spans[..] else { panic!("{read:?}") };
    let told = &spans.resource.as_ref().unwrap().attributes;
    assert_eq!(value_of(told, "service.name").as_deref(), Some("shop"));
    let [scope] = &spans.scope_spans[..] else { panic!("{spans:?}") };
    let named = scope.scope.as_ref().unwrap();
    assert_eq!((&*named.name, &*named.version), ("brisk", "1"));
    let [first, second] = &scope.spans[..] else { panic!("{scope:?}") };
    let values =
        ["http.target", "http.status_code", "http.request.header.x", "other"].map(|name| first.value(name));
    assert_eq!(values.map(Option::unwrap_or_default), ["/a", "500", "[\"v\"]", ""]);
    let plain = Read { attributes: Vec::new(), ..first.clone() };
    let wanted = Read {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        trace_state: "congo=t61rcWkgMzE".into(),
        parent_span_id: vec![3; 8],
        name: "/a\u{fffd}".into(),
        kind: 2,
        start: one.start_ns,
        end: one.end_ns,
        attributes: Vec::new(),
        status: first.status.clone(),
    };
    assert_eq!((&plain, first.status.as_ref().unwrap().code), (&wanted, 2));
    let empty = Read {
        trace_state: String::new(),
        parent_span_id: Vec::new(),
        name: String::new(),
        status: None,
        ..wanted
    };
    assert_eq!(*second, empty);
}
