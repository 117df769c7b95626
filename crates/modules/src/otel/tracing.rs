//! A request's trace: its IDs, its parent, whether it is recorded; and the span at its end.

use super::exporter::Exporter;
use crate::limits::{OTEL_TRACESTATE_BYTES_MAX, OTEL_VALUE_BYTES_MAX};
use brisk_host::peer::Peer;
use brisk_http::{HeaderId, Version};
use brisk_net::clock;
use brisk_otlp::{Parent, Span, SpanId, TraceId, Value, traceparent};
use brisk_server::flow::Flow;
use brisk_server::plan::{Declared, Effects, Handler, LogHandler};
use brisk_server::request::{Phase, Request};
use brisk_server::vars::Template;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

const TRACEPARENT: &[u8] = b"traceparent";
const TRACESTATE: &[u8] = b"tracestate";

/// Where a request's trace context comes from, and whether it is passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TraceContext {
    #[default]
    Ignore,
    Extract,
    Inject,
    Propagate,
}

impl TraceContext {
    fn extracts(self) -> bool {
        matches!(self, TraceContext::Extract | TraceContext::Propagate)
    }

    fn injects(self) -> bool {
        matches!(self, TraceContext::Inject | TraceContext::Propagate)
    }
}

/// An attribute's name and its value.
pub(super) type Attribute = (Box<[u8]>, Template);

/// The trace of a request and its subrequests.
pub(super) struct Trace {
    pub id: TraceId,
    pub span: SpanId,
    pub parent: Option<Parent>,
    state: Vec<u8>,
    is_sampled: Cell<bool>,
}

thread_local! {
    /// The state of SplitMix64: numbers of spans must be different, not secret.
    static RANDOM: Cell<Option<u64>> = const { Cell::new(None) };
    /// Where spans are put together.
    static SPAN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn seed() -> u64 {
    let mut seed = [0; 8];
    // The kernel's generator only fails before it is seeded, at boot.
    let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(seed)
}

fn random() -> u64 {
    let state = RANDOM.get().unwrap_or_else(seed).wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(Some(state));
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Trace {
    /// The request's, made when it is asked for first. Its parent is the client's if the location takes it.
    pub(super) fn of(r: &Request) -> Rc<Trace> {
        if let Some(trace) = r.state.shared.values.get::<Trace>() {
            return trace;
        }
        let tracing = r.snap().location(r.route.loc).plan.data::<Tracing>();
        let parent = tracing.filter(|tracing| tracing.context.extracts()).and_then(|_| {
            // More than one is none (W3C Trace Context §3.2).
            let mut all = r.headers_named(TRACEPARENT);
            all.next().filter(|_| all.next().is_none()).and_then(Parent::parse)
        });
        let mut state = Vec::new();
        if parent.is_some() {
            // Several lines are one list (§3.3.1.1).
            r.headers_named(TRACESTATE).filter(|line| !line.is_empty()).for_each(|line| {
                if !state.is_empty() {
                    state.push(b',');
                }
                state.extend_from_slice(line);
            });
        }
        // Half of a list would say something else.
        if state.len() > OTEL_TRACESTATE_BYTES_MAX {
            state.clear();
        }
        let made = || {
            let mut trace = [0; 16];
            // Not all zeros, whatever is drawn (§3.2.2.3).
            trace[..8].copy_from_slice(&(random() | 1).to_be_bytes());
            trace[8..].copy_from_slice(&random().to_be_bytes());
            TraceId(trace)
        };
        r.state.shared.values.get_or(|| Trace {
            id: parent.map_or_else(made, |parent| parent.trace),
            span: SpanId((random() | 1).to_be_bytes()),
            parent,
            state,
            is_sampled: Cell::new(false),
        })
    }
}

/// Decides about a request when its location is known, before the location's own rewrites.
pub(super) struct Tracing {
    pub trace: Template,
    pub context: TraceContext,
    /// `rewrite`, `return`, `if` and `set`.
    pub rewrite: Option<Arc<dyn Handler>>,
}

impl Tracing {
    fn begin(&self, r: &mut Request) {
        let is_sampled = match self.trace.as_literal() {
            Some(text) => matches!(text, b"on" | b"1"),
            None => matches!(&self.trace.eval(r)[..], b"on" | b"1"),
        };
        if !is_sampled && self.context == TraceContext::Ignore {
            return;
        }
        let trace = Trace::of(r);
        trace.is_sampled.set(is_sampled);
        if self.context.injects() {
            r.replace_field(TRACEPARENT, Some(&traceparent(trace.id, trace.span, is_sampled)));
            r.replace_field(TRACESTATE, Some(&*trace.state).filter(|state| !state.is_empty()));
        }
    }
}

impl Handler for Tracing {
    fn handle(&self, r: &mut Request) -> Flow {
        // The server's own rewrites come before the location is known. Requests that are redirected inside the server have been decided about,
        // and look-ups are part of the request that asks: what they send has its fields.
        if r.route.cursor.phase == Phase::Rewrite && !r.route.internal && !r.route.is_look_up() {
            self.begin(r);
        }
        self.rewrite.as_ref().map_or(Flow::Next, |rewrite| rewrite.handle(r))
    }

    fn declares(&self) -> Declared {
        // Each request has numbers of its own.
        Declared::ANYTHING
    }
}

/// Exports the spans of requests at their end.
pub(super) struct Logging {
    pub exporter: Arc<Exporter>,
    pub name: Option<Arc<Template>>,
    pub attributes: Arc<[Arc<Attribute>]>,
}

impl LogHandler for Logging {
    fn log(&self, r: &Request) {
        let Some(trace) = r.state.shared.values.get::<Trace>() else { return };
        if trace.is_sampled.get() {
            self.export(r, &trace);
        }
    }

    fn declares(&self) -> Declared {
        // A request that gets a prepared answer has no trace, so there is nothing to export.
        Declared::RECORDED.does(Effects::LOGS)
    }
}

impl Logging {
    fn export(&self, r: &Request, trace: &Trace) {
        let started = r.progress.started;
        let start_ns = started.unix_secs as u64 * 1_000_000_000 + u64::from(started.unix_millis) * 1_000_000;
        let took_us = clock::precise_us().saturating_sub(started.mono_us);
        let location = r.snap().location(r.route.loc);
        let name = self.name.as_ref().map(|name| name.eval(r));
        let status = if r.reply.err_status != 0 { r.reply.err_status } else { r.resp.status };
        let span = Span {
            trace: trace.id,
            id: trace.span,
            parent: trace.parent.map(|parent| parent.span),
            state: &trace.state,
            name: cut(name.as_deref().unwrap_or(&location.name)),
            start_ns,
            end_ns: start_ns + took_us * 1000,
            is_error: status >= 500,
        };
        let target = r.unparsed_uri();
        let own: Vec<(&[u8], Vec<u8>)> =
            self.attributes.iter().map(|attribute| (&*attribute.0, attribute.1.eval(r))).collect();
        let usual = usual(r, &target, &location.name, status);
        let own = own.iter().map(|(name, value)| (*name, of_own(name, value)));
        SPAN.with_borrow_mut(|bytes| {
            bytes.clear();
            span.append(usual.into_iter().chain(own).map(|(name, value)| (name, bounded(value))), bytes);
            self.exporter.add(bytes);
        });
    }
}

/// Clients choose how long most values are.
fn bounded(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Text(text) => Value::Text(cut(text)),
        Value::List(text) => Value::List(cut(text)),
        Value::Number(_) => value,
    }
}

/// As much of a text as is told, up to the end of a character.
fn cut(text: &[u8]) -> &[u8] {
    let Some(head) = text.get(..OTEL_VALUE_BYTES_MAX + 1) else { return text };
    let is_inside = |at: &usize| (0x80..0xc0).contains(&head[*at]);
    // A character of UTF-8 has four bytes at most; what is none is cut where the limit is.
    let end = (OTEL_VALUE_BYTES_MAX - 3..=OTEL_VALUE_BYTES_MAX).rev().find(|at| !is_inside(at));
    &head[..end.unwrap_or(OTEL_VALUE_BYTES_MAX)]
}

/// Fields of heads are lists, since a field may come several times.
fn of_own<'a>(name: &[u8], value: &'a [u8]) -> Value<'a> {
    let is_field = name.starts_with(b"http.request.header.") || name.starts_with(b"http.response.header.");
    if is_field { Value::List(value) } else { Value::Text(value) }
}

/// What every span has: nginx's choice, of OpenTelemetry's conventions 1.16.0.
fn usual<'a>(r: &'a Request, target: &'a [u8], route: &'a [u8], status: u16) -> Vec<(&'a [u8], Value<'a>)> {
    let length =
        r.header(HeaderId::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let scheme = r.scheme();
    let flavor: &[u8] = match r.version() {
        Version::Http09 => b"",
        Version::Http10 => b"1.0",
        Version::Http11 => b"1.1",
        Version::Http2 => b"2.0",
        Version::Http3 => b"3.0",
    };
    let server = &*r.snap().server(r.route.server).name;
    let mut all: Vec<(&[u8], Value<'_>)> = vec![
        (b"http.method", Value::Text(r.method_name())),
        (b"http.target", Value::Text(target)),
        (b"http.scheme", Value::Text(scheme.as_bytes())),
        (b"http.request_content_length", Value::Number(length.unwrap_or(0))),
        (b"http.response_content_length", Value::Number(r.progress.sent.body_bytes as i64)),
        (b"net.host.name", Value::Text(if server.is_empty() { &r.head.host } else { server })),
        (b"net.sock.peer.addr", Value::Text(r.client_text())),
    ];
    if !route.is_empty() {
        all.push((b"http.route", Value::Text(route)));
    }
    if !flavor.is_empty() {
        all.push((b"http.flavor", Value::Text(flavor)));
    }
    if let Some(agent) = r.header(HeaderId::UserAgent) {
        all.push((b"http.user_agent", Value::Text(agent)));
    }
    if status != 0 {
        all.push((b"http.status_code", Value::Number(i64::from(status))));
    }
    let usual_port = if scheme == "https" { 443 } else { 80 };
    if let Some(port) = r.local_port().filter(|port| *port != usual_port) {
        all.push((b"net.host.port", Value::Number(i64::from(port))));
    }
    if let Peer::Ip(address) = r.client_addr() {
        all.push((b"net.sock.peer.port", Value::Number(i64::from(address.port()))));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_end_with_a_character() {
        let most = OTEL_VALUE_BYTES_MAX;
        let check = |text: &[u8], want: usize| assert_eq!(cut(text).len(), want);
        check(b"", 0);
        check(&vec![b'a'; most], most);
        check(&vec![b'a'; most + 1], most);
        // The last character would be split.
        let text = [&vec![b'a'; most - 1][..], "ä€".as_bytes()].concat();
        check(&text, most - 1);
        check(&[&vec![b'a'; most - 2][..], "äb".as_bytes()].concat(), most);
        check(&[&vec![b'a'; most - 2][..], "€b".as_bytes()].concat(), most - 2);
        check(&vec![0x80; most + 9], most);
    }
}
