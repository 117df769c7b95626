//! `ngx_http_addition_module`: other locations' answers before and behind the body.

use crate::coding::rules::weaken_etag;
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::Context;
use brisk_net::Failure;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::gather;
use brisk_server::limits::GATHERED_BYTES_MAX;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::subrequest::{Parent, Part};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

pub static MODULE: Module = Module {
    name: "addition",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // The same URI for all: a request's own part of it would need variables, which nginx does not have here either.
    directive("add_before_body")
        .doc("A URI whose answer is put before the body of responses with status 200; an empty one ends what is inherited.")
        .in_(Context::HSL)
        .takes("URI")
        .example("add_before_body /header.html;")
        .set(|cx, d| {
            // An empty URI is how an inner block says that it wants none.
            cx.conf::<Conf>().before = d.arg(0).bytes().into();
            Ok(())
        }),
    directive("add_after_body")
        .doc("A URI whose answer is put behind the body; otherwise as add_before_body.")
        .in_(Context::HSL)
        .takes("URI")
        .example("add_after_body /footer.html;")
        .set(|cx, d| {
            cx.conf::<Conf>().after = d.arg(0).bytes().into();
            Ok(())
        }),
    types_row!(Conf, "addition_types", "text/html", "of responses that get additions"),
];

#[derive(Clone, Default)]
struct Conf {
    /// Empty: none.
    before: Arc<[u8]>,
    after: Arc<[u8]>,
    types: Arc<MediaTypes>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if !conf.before.is_empty() || !conf.after.is_empty() {
        // Behind what changes the content itself, so that added answers are not searched or included in again.
        plan.add_filter(Stage::Surroundings, Arc::new(conf.clone()));
    }
}

impl Filter for Conf {
    // What is added gets no additions itself.
    fn reads(&self, r: &Request) -> bool {
        r.route.depth == 0 && self.types.has(r.resp.content_type.as_deref().unwrap_or_default())
    }

    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        // Nothing can stand beside coded bytes: no client could read the two as one.
        if r.resp.status != 200 || r.resp.is_coded() || !self.reads(r) {
            return;
        }
        // The other locations may answer anything: what comes of them is not kept ready.
        // Nothing is asked before it is sure that there is something to add it to.
        r.note(Declared::ANYTHING);
        // The length, ranges and the tag were the original's.
        r.resp.content_length = None;
        r.resp.clear_ranges();
        weaken_etag(&mut r.resp);
        // No body, so nothing to ask the others for.
        if r.is_head() {
            return;
        }
        // One copy of the head for both parts.
        let parent = Parent::of(r);
        let part = |uri: &Arc<[u8]>| (!uri.is_empty()).then(|| Part::new(&parent, uri.to_vec(), Vec::new()));
        let (before, after) = (part(&self.before), part(&self.after));
        // Only one of them is there: what is in memory, or what comes.
        let (pieces, stream) = match std::mem::take(&mut r.resp.body) {
            Body::Empty => (VecDeque::new(), None),
            Body::One(piece) => (VecDeque::from([piece]), None),
            Body::Many(pieces) => (pieces.into(), None),
            Body::Stream(stream) => (VecDeque::new(), Some(stream)),
        };
        let body = Surrounded { before, pieces, stream, after };
        // Where all parts are there at once the response has a length again, and needs no chunks.
        // Small pages leave in one write, with a length.
        r.resp.body = gather::at_once(Box::new(body), GATHERED_BYTES_MAX);
        r.resp.content_length = r.resp.body.len();
    }
}

/// A body with others around it.
struct Surrounded {
    before: Option<Part>,
    pieces: VecDeque<Piece>,
    stream: Option<Box<dyn BodyStream>>,
    after: Option<Part>,
}

impl BodyStream for Surrounded {
    fn poll_chunk(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        if let Some(before) = &mut self.before {
            // Its handlers need not wait for each other's answers.
            if let Some(after) = &mut self.after {
                // Begun, not read: its body waits until it is its turn.
                let _ = after.poll_response(cx);
            }
            match ready!(before.poll_chunk(cx)) {
                // Dropped with its request as soon as it is sent.
                None => self.before = None,
                chunk => return Poll::Ready(chunk),
            }
        }
        if let Some(piece) = self.pieces.pop_front() {
            return Poll::Ready(Some(Ok(Chunk::Piece(piece))));
        }
        if let Some(stream) = &mut self.stream {
            match ready!(stream.poll_chunk(cx)) {
                None => self.stream = None,
                chunk => return Poll::Ready(chunk),
            }
        }
        // Its body is given last, whenever it came.
        match &mut self.after {
            Some(after) => after.poll_chunk(cx),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{http, messages_in_location};

    #[test]
    fn an_empty_uri_ends_what_is_inherited() {
        let text = "add_after_body /x; server { location /a { } location /b { add_after_body ''; } }";
        let counts: Vec<_> = http(text).unwrap().locations.iter().map(|l| l.plan.filters.len()).collect();
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        assert_eq!(most - least, 1, "{counts:?}");
    }

    #[test]
    fn parameters_are_checked() {
        messages_in_location("add_before_body /a; add_after_body /b; addition_types text/plain;", &[]);
        messages_in_location(
            "addition_types text/plain text/plain;",
            &["duplicate MIME type \"text/plain\""],
        );
    }
}
