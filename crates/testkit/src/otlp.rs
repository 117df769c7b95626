//! A collector of traces: OTLP over gRPC, its messages read by prost, as OpenTelemetry's schema has them.

use crate::backend::Backend;
use crate::h2_peer::H2Peer;
use crate::wait;
use brisk_h2::Settings;
pub use prost::Message;
use std::sync::{Arc, Mutex};

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Export {
    /// By resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of one resource.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// Who was traced.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// By scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// Who was traced.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// What is said of it.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Spans of one scope.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// What has made them.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    /// The spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// `InstrumentationScope`.
#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// As it came.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// 8 bytes, or none.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// Its name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// 2 is a server's.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// Nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start: u64,
    /// Likewise.
    #[prost(fixed64, tag = "8")]
    pub end: u64,
    /// What is said of it.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// None, or an error.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// How a span has ended.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// 2 is an error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// A text.
    #[prost(string, optional, tag = "1")]
    pub text: Option<String>,
    /// A number.
    #[prost(int64, optional, tag = "3")]
    pub number: Option<i64>,
    /// A list.
    #[prost(message, optional, tag = "5")]
    pub list: Option<ArrayValue>,
}

/// A list of values.
#[derive(Clone, PartialEq, Message)]
pub struct ArrayValue {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// An attribute's value as text; a list has brackets.
pub fn value_of(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = attributes.iter().find(|one| one.key == name)?.value.as_ref()?;
    let text = |value: &AnyValue| value.text.clone().or_else(|| Some(value.number?.to_string()));
    let list = |list: &ArrayValue| format!("{:?}", list.values.iter().filter_map(text).collect::<Vec<_>>());
    text(value).or_else(|| value.list.as_ref().map(list))
}

impl Span {
    /// An attribute's value.
    pub fn value(&self, name: &str) -> Option<String> {
        value_of(&self.attributes, name)
    }

    /// A number in hexadecimal digits.
    pub fn hex(bytes: &[u8]) -> String {
        use std::fmt::Write as _;
        bytes.iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Fields of its head.
    pub fields: Vec<(String, String)>,
    /// Its message.
    pub export: Export,
}

/// See the module's head.
pub struct Collector {
    backend: Backend,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Collector {
    /// One that takes all.
    pub fn start() -> Collector {
        Collector::answering(|_| 0)
    }

    /// One that answers each call, counted from 0, with this gRPC status.
    ///
    /// # Panics
    /// Its connection does, on what is no OTLP.
    pub fn answering(status: impl Fn(usize) -> u32 + Send + Sync + 'static) -> Collector {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let kept = calls.clone();
        let backend = Backend::start(move |peer| {
            let mut peer = H2Peer::new(peer, Settings::default());
            while let Some(request) = peer.request() {
                let body = peer.rest();
                assert_eq!(body[0], 0, "not compressed");
                let length = u32::from_be_bytes(body[1..5].try_into().expect("four bytes"));
                assert_eq!(length as usize, body.len() - 5);
                let export = Export::decode(&body[5..]).expect("a message of OTLP");
                let number = {
                    let mut calls = kept.lock().expect("no connection has panicked");
                    calls.push(Call { fields: request.fields.clone(), export });
                    calls.len() - 1
                };
                let head = [(":status", "200"), ("content-type", "application/grpc")];
                peer.fields(request.stream, &head, false);
                peer.data(request.stream, &[0; 5], false);
                let status = status(number).to_string();
                peer.fields(request.stream, &[("grpc-status", &status), ("grpc-message", "told")], true);
            }
        });
        Collector { backend, calls }
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.backend.port()
    }

    /// All calls so far.
    ///
    /// # Panics
    /// If a connection has.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no connection has panicked").clone()
    }

    /// All spans so far, in their order.
    pub fn spans(&self) -> Vec<Span> {
        let calls = self.calls();
        let resources = calls.iter().flat_map(|call| &call.export.resource_spans);
        resources.flat_map(|one| &one.scope_spans).flat_map(|one| one.spans.clone()).collect()
    }

    /// Waits for so many spans; the last one of them.
    ///
    /// # Panics
    /// If they do not come.
    pub fn span(&self, count: usize) -> Span {
        wait::holds("spans at the collector", || self.spans().len() >= count);
        self.spans()[count - 1].clone()
    }
}
