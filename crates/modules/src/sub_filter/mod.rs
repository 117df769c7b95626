//! `ngx_http_sub_module`: strings in responses are replaced.

pub mod replacer;

use crate::coding::rules::weaken_etag;
use crate::limits::{PATTERNS_MAX, SUB_FILTER_INLINE_BODY_BYTES_MAX};
use crate::media_types::{MediaTypes, types_row};
use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_http::status;
use brisk_net::Failure;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::in_memory::InMemory;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::vars::Template;

use replacer::{Outcome, Patterns, Replacer};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

pub static MODULE: Module = Module {
    name: "sub",
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("sub_filter")
        .doc("A string and what takes its place in responses; both may contain variables. The string is compared without regard to case. Of several the one that matches first counts, then the one written first.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("TEXT TEXT")
        .many()
        .example("sub_filter 'http://old.example.com' 'https://example.com';")
        .set(sub_filter),
    // Off: the text depends on the configuration as well as on the file, whose time says nothing of that.
    directive("sub_filter_last_modified")
        .doc("Whether Last-Modified is kept, and ETag as a weak one; they are removed otherwise.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("sub_filter_last_modified on;")
        .sets(|cx, on| cx.conf::<Conf>().last_modified = on),
    // On, as in nginx: the usual use is one insertion, such as behind `<head>`, and the rest passes without a search.
    directive("sub_filter_once")
        .doc("Whether each string is replaced once, or wherever it occurs.")
        .in_(Context::HSL)
        .takes_flag()
        .default("on")
        .example("sub_filter_once off;")
        .sets(|cx, on| cx.conf::<Conf>().once = on),
    types_row!(Conf, "sub_filter_types", "text/html", "in which strings are replaced"),
];

#[derive(Clone, Default)]
struct Conf {
    pairs: Arc<[(Template, Template)]>,
    last_modified: bool,
    once: bool,
    types: Arc<MediaTypes>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn sub_filter(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if d.arg(0).bytes().is_empty() {
        return Err(Diag::emerg(d.arg(0).span, "empty search pattern"));
    }
    let pair = (cx.template(d.arg(0))?, cx.template(d.arg(1))?);
    let is_first = cx.first;
    let conf = cx.conf::<Conf>();
    let have = if is_first { &[][..] } else { &*conf.pairs };
    if have.len() == PATTERNS_MAX {
        // nginx's bound, and its words.
        return Err(Diag::emerg(d.span, "number of search patterns exceeds 255")
            .help("a location has so many at most: leave out what it never sends"));
    }
    conf.pairs = have.iter().cloned().chain([pair]).collect();
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf: &Conf = cx.conf_of();
    if conf.pairs.is_empty() {
        return;
    }
    // Patterns without variables are compiled into one automaton, once.
    let known: Option<Vec<_>> =
        conf.pairs.iter().map(|(pattern, _)| pattern.as_literal().map(<[u8]>::to_vec)).collect();
    let patterns = known.and_then(|list| Patterns::new(list, true)).map(Arc::new);
    // What variables look at is noted when they are read.
    plan.add_filter(Stage::Substitution, Arc::new(Substitute { conf: conf.clone(), patterns }));
}

struct Substitute {
    conf: Conf,
    /// `None`: they have variables.
    patterns: Option<Arc<Patterns>>,
}

impl Substitute {
    fn replacer(&self, r: &Request) -> Option<Replacer> {
        // Once per response: a variable that changes while the body is sent has one value in it.
        let value = |(_, value): &(Template, Template)| value.eval(r);
        let (patterns, values) = match &self.patterns {
            Some(patterns) => (patterns.clone(), self.conf.pairs.iter().map(value).collect()),
            None => {
                // A pattern may come to nothing, which would match everywhere: it is left out.
                let pairs = self.conf.pairs.iter().map(|pair| (pair.0.eval(r), value(pair)));
                let (patterns, values): (Vec<_>, Vec<_>) = pairs.filter(|(p, _)| !p.is_empty()).unzip();
                if patterns.is_empty() {
                    return None;
                }
                (Arc::new(Patterns::new(patterns, false)?), values)
            }
        };
        Some(Replacer::new(patterns, values, self.conf.once))
    }
}

impl Filter for Substitute {
    fn reads(&self, r: &Request) -> bool {
        self.conf.types.has(r.resp.content_type.as_deref().unwrap_or_default())
    }

    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        let resp = &r.resp;
        // Nothing can be replaced in it.
        let is_empty = resp.content_length == Some(0) || status::is_bodiless(resp.status);
        // A text that is found in compressed bytes is there by chance.
        let plain: [&[u8]; 2] = [b"", b"identity"];
        let is_coded = resp
            .content_encoding
            .as_ref()
            .is_some_and(|coding| !plain.iter().any(|plain| coding.eq_ignore_ascii_case(plain)));
        if is_empty || is_coded || !self.reads(r) {
            return;
        }
        // Nothing to replace: the response keeps its length and its validators.
        let Some(replacer) = self.replacer(r) else { return };
        let is_head = r.is_head();
        let resp = &mut r.resp;
        // Replacements change the length, and ranges would be of the text before.
        resp.content_length = None;
        resp.clear_ranges();
        if self.conf.last_modified {
            weaken_etag(resp);
        } else {
            resp.clear_last_modified();
            resp.etag = None;
        }
        if !is_head {
            let body = std::mem::take(&mut resp.body);
            resp.body = substituted(body, replacer);
            // Known again if all of it was replaced at once.
            resp.content_length = resp.body.len();
        }
    }
}

fn substituted(body: Body, mut replacer: Replacer) -> Body {
    let is_small = body.len().is_some_and(|length| length <= SUB_FILTER_INLINE_BODY_BYTES_MAX);
    // At once where nothing has to be waited for: such an answer may be prepared.
    if let Some(pieces) = body.in_memory().filter(|_| is_small) {
        let mut out = Vec::new();
        let mut same = true;
        for piece in &pieces {
            if replacer.feed(piece, &mut out) == Outcome::Same {
                out.extend_from_slice(piece);
            } else {
                same = false;
            }
        }
        replacer.finish(&mut out);
        // Unchanged, it stays a file or shared bytes.
        return if same { body } else { Body::bytes(out) };
    }
    Body::Stream(Box::new(Substituted { inner: InMemory::new(body), replacer, over: false }))
}

/// A body in which strings are replaced while it is sent.
struct Substituted {
    inner: InMemory,
    replacer: Replacer,
    over: bool,
}

impl BodyStream for Substituted {
    fn poll_chunk(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            if self.over {
                return Poll::Ready(None);
            }
            let chunk = ready!(self.inner.poll_chunk(cx));
            let mut out = Vec::new();
            match &chunk {
                Some(Ok(Chunk::Piece(piece))) => {
                    // With `once` the rest is passed on without a search.
                    if self.replacer.is_over()
                        || self.replacer.feed(piece.in_memory().unwrap_or_default(), &mut out)
                            == Outcome::Same
                    {
                        return Poll::Ready(chunk);
                    }
                    if out.is_empty() {
                        continue;
                    }
                }
                None => {
                    // Before the last bytes are given: the inner body must not be asked again.
                    self.over = true;
                    self.replacer.finish(&mut out);
                }
                Some(_) => {}
            }
            return Poll::Ready(if out.is_empty() {
                chunk
            } else {
                Some(Ok(Chunk::Piece(Piece::Bytes(out.into()))))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{http, messages_in_location, refused};

    #[test]
    fn parameters_are_checked() {
        messages_in_location(
            "sub_filter a b; sub_filter a$arg_x ''; sub_filter_once off; sub_filter_last_modified on; sub_filter_types text/css;",
            &[],
        );
        messages_in_location("sub_filter '' b;", &["empty search pattern"]);
        let many = "sub_filter a b; ".repeat(256);
        refused(&[(&*many, "number of search patterns exceeds 255")]);
    }

    #[test]
    fn a_block_has_its_own_list_or_its_parents() {
        let text =
            "sub_filter a b; server { location /a { } location /b { sub_filter c d; sub_filter e f; } }";
        let snap = http(text).unwrap();
        let count = |location: usize| snap.locations[location].plan.filters.len();
        assert!(count(0) == count(1) && count(1) == count(2));
    }
}
