//! `ngx_otel_module`: requests as spans of OpenTelemetry, and W3C's trace context between clients and back ends.
//!
//! A location whose requests are never traced has no handler of this module, so its answers stay prepared. Where it depends on the
//! request, or is always so, an answer is for its own request alone.

mod block;
mod channel;
mod exporter;
mod queue;
mod tracing;
mod variables;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_otlp::Pair;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::metrics::Scrape;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::Plan;
use brisk_server::vars::Template;
pub use exporter::settle;

use exporter::Exporter;
use std::sync::Arc;
use tracing::{Attribute, Logging, TraceContext, Tracing};

/// `otel_…`.
pub static MODULE: Module = Module {
    name: "otel",
    rows: ROWS,
    variables: variables::VARIABLES,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    metrics: Some(metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("otel_exporter")
        .doc("Where spans are sent, by OTLP over gRPC: endpoint [http|https://]HOST:PORT or unix:PATH, trusted_certificate FILE for https (else the system's), header NAME VALUE, interval (5s), batch_size (512 spans) and batch_count (4). Spans are dropped and counted while so many batches wait. A batch that the collector cannot take at present is sent twice more.")
        .in_(Context::HTTP)
        .arity(Arity::NONE.block())
        .takes("")
        .risk(Risk::Security)
        .example("otel_exporter { endpoint 127.0.0.1:4317; }")
        .set(|cx, d| {
            let draft = block::read(cx, d)?;
            cx.conf::<Conf>().draft = Some(draft);
            Ok(())
        }),
    directive("otel_service_name")
        .doc("The resource's service.name.")
        .in_(Context::HTTP)
        .takes("NAME")
        .default_told("unknown_service:brisk")
        .risk(Risk::Safe)
        .example("otel_service_name shop;")
        .set(|cx, d| {
            cx.conf::<Conf>().service = Some(d.arg(0).bytes().into());
            Ok(())
        }),
    directive("otel_resource_attr")
        .doc("An attribute of the resource, which says what is traced.")
        .in_(Context::HTTP)
        .arity(Arity::TWO)
        .takes("NAME VALUE")
        .many()
        .risk(Risk::Safe)
        .example("otel_resource_attr deployment.environment production;")
        .set(|cx, d| {
            let (name, value) = (d.arg(0).bytes(), d.arg(1).bytes());
            let all = &mut cx.conf::<Conf>().resource;
            // As in nginx a name has one value, the last one.
            all.retain(|(have, _)| **have != *name);
            all.push((name.into(), value.into()));
            Ok(())
        }),
    directive("otel_trace")
        .doc("Whether requests are recorded as spans: on, off, or variables that come to on or 1. Requests that a rewrite leads to another location are judged by that one, those that an error page or an internal redirect leads there are not judged again. Where it is not off, each answer is made for its own request.")
        .in_(Context::HSL)
        .takes("on | off | $VARIABLE")
        .default("off")
        .example("otel_trace on;")
        .set(|cx, d| {
            let template = cx.template(d.arg(0))?;
            cx.conf::<Conf>().trace = template;
            Ok(())
        }),
    directive("otel_trace_context")
        .doc("What becomes of the fields traceparent and tracestate (W3C Trace Context): extract takes the client's as the span's parent, inject replaces them in requests to back ends, propagate does both, ignore passes them on as they came.")
        .in_(Context::HSL)
        .takes_one_of(&CONTEXTS)
        .default("ignore")
        .example("otel_trace_context propagate;")
        .set(|cx, d| {
            cx.conf::<Conf>().context = value::choice(d.arg(0), &CONTEXTS)?;
            Ok(())
        }),
    directive("otel_span_name")
        .doc("The name of spans.")
        .in_(Context::HSL)
        .takes("TEXT")
        .default_told("the location's name")
        .example("otel_span_name $request_method;")
        .set(|cx, d| {
            let template = cx.template(d.arg(0))?;
            cx.conf::<Conf>().name = Some(Arc::new(template));
            Ok(())
        }),
    directive("otel_span_attr")
        .doc("An attribute of spans, beside those that each has (http.method, http.target, http.route, http.scheme, http.flavor, http.user_agent, http.request_content_length, http.response_content_length, http.status_code, net.host.name, net.host.port, net.sock.peer.addr, net.sock.peer.port).")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("NAME TEXT")
        .many()
        .example("otel_span_attr http.request.header.host $http_host;")
        .set(attribute),
];

/// The words of `otel_trace_context`.
const CONTEXTS: [(&str, TraceContext); 4] = [
    ("extract", TraceContext::Extract),
    ("inject", TraceContext::Inject),
    ("propagate", TraceContext::Propagate),
    ("ignore", TraceContext::Ignore),
];

#[derive(Clone)]
struct Conf {
    trace: Template,
    context: TraceContext,
    name: Option<Arc<Template>>,
    attributes: Arc<[Arc<Attribute>]>,
    /// The block `otel_exporter`, until the whole of `http` has been read.
    draft: Option<block::Draft>,
    service: Option<Box<[u8]>>,
    resource: Vec<Pair>,
    exporter: Option<Arc<Exporter>>,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            trace: Template::literal(b"off"),
            context: TraceContext::Ignore,
            name: None,
            attributes: Arc::default(),
            draft: None,
            service: None,
            resource: Vec::new(),
            exporter: None,
        }
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

impl Conf {
    /// Nothing is traced, whatever the request.
    fn is_off(&self) -> bool {
        self.trace.as_literal().is_some_and(|text| text != b"on" && text != b"1")
    }
}

fn attribute(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let template = cx.template(d.arg(1))?;
    let is_first = cx.first;
    let one = Arc::new((d.arg(0).bytes().into(), template));
    let conf = cx.conf::<Conf>();
    let have = if is_first { &[][..] } else { &*conf.attributes };
    conf.attributes = have.iter().cloned().chain([one]).collect();
    Ok(())
}

/// Makes the exporter, once its lines and those about the resource are there; says where it is missing.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    if cx.block == Context::HTTP
        && let Some(draft) = cx.conf_of::<Conf>().draft.clone()
    {
        let conf = cx.conf_of::<Conf>();
        let service = conf.service.clone().unwrap_or_else(|| b"unknown_service:brisk"[..].into());
        let resource = [(b"service.name"[..].into(), service)];
        let resource: Vec<_> = conf.resource.iter().cloned().chain(resource).collect();
        let exporter = Arc::new(Exporter::new(draft, resource));
        cx.global.services.push(exporter.clone());
        let conf = cx.conf_of_mut::<Conf>();
        (conf.exporter, conf.draft) = (Some(exporter), None);
    }
    let conf = cx.conf_of::<Conf>();
    let written = cx.written.iter().find(|written| written.name == "otel_trace");
    match written {
        Some(written) if conf.exporter.is_none() && !conf.is_off() => {
            Err(Diag::emerg(written.span, "\"otel_exporter\" block is missing")
                .help("write otel_exporter { endpoint HOST:4317; } into http"))
        }
        _ => Ok(()),
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    let is_plain = conf.is_off() && conf.context == TraceContext::Ignore;
    if !is_plain {
        let tracing = Arc::new(Tracing {
            trace: conf.trace.clone(),
            context: conf.context,
            rewrite: plan.rewrite.take(),
        });
        plan.put(tracing.clone());
        plan.rewrite = Some(tracing);
    }
    // Also where nothing is traced: a request that is traced may end there, by an error page.
    if let Some(exporter) = &conf.exporter {
        plan.log.push(Arc::new(Logging {
            exporter: exporter.clone(),
            name: conf.name.clone(),
            attributes: conf.attributes.clone(),
        }));
    }
}

fn metrics(to: &mut Scrape) {
    let help = "Spans of OpenTelemetry, by what has become of them: exported, dropped since too many were waiting, failed to be sent.";
    for (outcome, counter) in exporter::COUNTERS {
        to.counter("brisk_otel_spans_total", help, &[("outcome", outcome)], counter.get());
    }
}

#[cfg(test)]
mod tests;
