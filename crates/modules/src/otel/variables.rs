//! A request's trace and span IDs, for logs and for applications.

use super::tracing::Trace;
use brisk_otlp::context::hex;
use brisk_server::vars::{Variable, VariableGet};

pub(super) static VARIABLES: &[Variable] = &[
    Variable {
        name: "otel_trace_id",
        get: VariableGet::Fixed(|r, out| {
            hex(&Trace::of(r).id.0, out);
            true
        }),
        doc: "The trace ID, in hexadecimal digits: the client's where otel_trace_context takes it, else a new one.",
        ..Variable::SILENT
    },
    Variable {
        name: "otel_span_id",
        get: VariableGet::Fixed(|r, out| {
            hex(&Trace::of(r).span.0, out);
            true
        }),
        doc: "The ID of the request's span, in hexadecimal digits.",
        ..Variable::SILENT
    },
    Variable {
        name: "otel_parent_id",
        get: VariableGet::Fixed(|r, out| {
            let parent = Trace::of(r).parent;
            parent.inspect(|parent| hex(&parent.span.0, out)).is_some()
        }),
        doc: "The ID of the client's span, where otel_trace_context takes it.",
        ..Variable::SILENT
    },
    Variable {
        name: "otel_parent_sampled",
        get: VariableGet::Fixed(|r, out| {
            let is_sampled = Trace::of(r).parent.is_some_and(|parent| parent.is_sampled);
            out.push(if is_sampled { b'1' } else { b'0' });
            true
        }),
        doc: "1 if the client's span is recorded and otel_trace_context takes it, else 0.",
        ..Variable::SILENT
    },
];
