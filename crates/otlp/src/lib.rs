//! OpenTelemetry as data: W3C's trace context, spans as OTLP writes them, gRPC's messages around them. No I/O and no clock.
//!
//! Protocol Buffers are written by [`wire`], a page of code: a span is appended to a batch without being made into objects first. What
//! comes of it is read by another implementation in the tests.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod context;
pub mod span;
pub mod wire;

pub use context::{Parent, SpanId, TraceId, traceparent};
pub use span::{Pair, Span, Value};
