//! Spans, and the request that exports them: `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest`.

use crate::context::{SpanId, TraceId};
use crate::wire::{bytes, fixed, integer, message, text};

/// Where requests to export are sent.
pub const PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// `SPAN_KIND_SERVER`.
const KIND_SERVER: i64 = 2;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: i64 = 2;

/// A name and its value, both texts.
pub type Pair = (Box<[u8]>, Box<[u8]>);

/// The value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text.
    Text(&'a [u8]),
    /// A number.
    Number(i64),
    /// A list of one text, as fields of a head are told.
    List(&'a [u8]),
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Its trace.
    pub trace: TraceId,
    /// Itself.
    pub id: SpanId,
    /// Who has asked.
    pub parent: Option<SpanId>,
    /// `tracestate` as it came.
    pub state: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// When it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The server has failed.
    pub is_error: bool,
}

fn attribute(field: u32, name: &[u8], value: Value<'_>, out: &mut Vec<u8>) {
    message(field, out, |out| {
        text(1, name, out);
        message(2, out, |out| match value {
            Value::Text(value) => text(1, value, out),
            Value::Number(value) => integer(3, value, out),
            Value::List(value) => message(5, out, |out| message(1, out, |out| text(1, value, out))),
        });
    });
}

impl Span<'_> {
    /// Appends it to a batch.
    pub fn append<'a>(&self, attributes: impl Iterator<Item = (&'a [u8], Value<'a>)>, out: &mut Vec<u8>) {
        // `ScopeSpans.spans`: a batch is those fields, one behind the other.
        message(2, out, |out| {
            bytes(1, &self.trace.0, out);
            bytes(2, &self.id.0, out);
            if !self.state.is_empty() {
                text(3, self.state, out);
            }
            if let Some(parent) = self.parent {
                bytes(4, &parent.0, out);
            }
            text(5, self.name, out);
            integer(6, KIND_SERVER, out);
            fixed(7, self.start_ns, out);
            fixed(8, self.end_ns, out);
            attributes.for_each(|(name, value)| attribute(9, name, value, out));
            if self.is_error {
                message(15, out, |out| integer(3, STATUS_ERROR, out));
            }
        });
    }
}

/// A request to export a batch of [`Span::append`]. `resource` says who it is that was traced.
pub fn export(resource: &[Pair], scope: (&str, &str), batch: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(batch.len() + 512);
    message(1, &mut out, |out| {
        message(1, out, |out| {
            resource.iter().for_each(|(name, value)| attribute(1, name, Value::Text(value), out));
        });
        message(2, out, |out| {
            message(1, out, |out| {
                text(1, scope.0.as_bytes(), out);
                text(2, scope.1.as_bytes(), out);
            });
            out.extend_from_slice(batch);
        });
    });
    out
}
