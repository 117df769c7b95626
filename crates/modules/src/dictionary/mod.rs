//! Shared dictionaries (RFC 9842): a response that clients have kept is what a later one is compressed against.
//!
//! `use_as_dictionary` marks the first, and its body is remembered by its hash. `shared_dictionaries` compresses the
//! second with `dcz` or `dcb`, where `zstd` or `brotli` is on, for a client that names a dictionary that is remembered.
//! Whole bodies are compressed, on the pool; so their length must be known, and it has a limit.

mod encode;
mod store;

use crate::coding::{DICTIONARY_VARY, Offer, Rules, offers, weaken_etag};
use crate::limits::{DICTIONARY_BODIES_MAX, DICTIONARY_BODY_BYTES_MAX};
use aws_lc_rs::digest::{Context as Sha, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use brisk_conf::{Arity, Context, Diag, Directive, FileId, Risk, Span, Token};
use brisk_http::negotiate::coding_quality;
use brisk_http::{HeaderId, Method};
use brisk_net::Failure;
use brisk_net::blocking;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::failure::broken;
use brisk_server::in_memory::InMemory;
use brisk_server::metrics::{Counter, Scrape};
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Dependencies, Filter, Plan, Stage};
use brisk_server::request::Request;
use brisk_server::response::{Body, BodyStream, Chunk, Piece};
use brisk_server::text::Text;
use brisk_server::zone::Zone;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, ready};
use store::{Hash, Store};

const NAME: &str = "dictionary";

pub static MODULE: Module = Module {
    name: NAME,
    rows: ROWS,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    metrics: Some(metrics),
    idle_by_default: true,
    ..Module::EMPTY
};

static USED: Counter = Counter::new();
static UNKNOWN: Counter = Counter::new();

static ROWS: &[Row] = &[
    // Off: clients keep what is marked, and tell its hash to this site with each request that fits.
    directive("use_as_dictionary")
        .doc("Tells clients by Use-As-Dictionary (RFC 9842) that they may use responses with status 200 as dictionaries for later requests to URLs that match the pattern, such as /app/*.js, and remembers their bodies (up to 4m each) for shared_dictionaries. id=TEXT and match-dest=script,document,… are passed on. Private responses are never used.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("PATTERN [id=TEXT] [match-dest=DEST,DEST...] | off")
        .default("off")
        .example("use_as_dictionary /app/*.js id=app;")
        .set(use_as_dictionary),
    // A client's dictionary must be known here too, or it gets the usual coding: nothing is ever guessed.
    directive("shared_dictionaries")
        .doc("Compresses responses of known length, up to 4m, against a dictionary that the client names in Available-Dictionary, if it is remembered: with dcz where zstd is on, with dcb where brotli is on, by the types, least lengths and levels of these.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("shared_dictionaries on;")
        .sets(|cx, on| cx.conf::<Conf>().on = on),
    directive("dictionary_store")
        .doc("Memory for the bodies that use_as_dictionary has marked; those that were not used for longest give way.")
        .in_(Context::HTTP)
        .takes_size()
        .default("16m")
        .risk(Risk::Resource)
        .example("dictionary_store 64m;")
        .sets(|cx, bytes| cx.conf::<Conf>().store_bytes = bytes),
];

#[derive(Clone, Default)]
struct Conf {
    /// The value of `Use-As-Dictionary`.
    use_as: Option<Arc<[u8]>>,
    on: bool,
    store_bytes: u64,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// A string of RFC 9651 §4.1.6.
fn quoted(token: &Token, text: &str) -> Result<String, Diag> {
    // RFC 9651 §3.3.3: strings of structured fields are ASCII.
    if text.is_empty() || !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return Err(
            Diag::emerg(token.span, format!("invalid text \"{text}\"")).help("printable ASCII is expected")
        );
    }
    // RFC 9651 §4.1.6: these two alone are escaped.
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn use_as_dictionary(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let pattern = d.arg(0);
    if pattern.str() == "off" {
        if let Some(other) = d.args.get(1) {
            return Err(invalid_parameter(other));
        }
        cx.conf::<Conf>().use_as = None;
        return Ok(());
    }
    // RFC 9842 §2.1.1: without groups of regular expressions.
    if !pattern.str().starts_with('/') || pattern.str().contains(['(', ')']) {
        return Err(Diag::emerg(pattern.span, format!("invalid pattern \"{}\"", pattern.text()))
            .help("a path that may have * in it, such as /app/*.js"));
    }
    let mut parts = vec![format!("match={}", quoted(pattern, pattern.str())?)];
    for token in &d.args[1..] {
        match token.str().split_once('=') {
            // RFC 9842 §2.1.3: at most 1024 characters.
            Some(("id", id)) if id.len() <= 1024 => parts.push(format!("id={}", quoted(token, id)?)),
            Some(("match-dest", list)) => {
                let each: Result<Vec<_>, _> = list.split(',').map(|dest| quoted(token, dest)).collect();
                parts.push(format!("match-dest=({})", each?.join(" ")));
            }
            _ => return Err(invalid_parameter(token)),
        }
    }
    let text = parts.join(", ");
    cx.conf::<Conf>().use_as = Some(text.into_bytes().into());
    Ok(())
}

/// The store of the whole configuration.
fn zone(cx: &Cx<'_, '_>) -> Option<Arc<Zone>> {
    cx.global.zones.iter().find(|zone| zone.module == NAME).cloned()
}

/// Declares the store where a directive asks for it.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    let conf = cx.conf_of::<Conf>();
    if (conf.use_as.is_none() && !conf.on) || zone(cx).is_some() {
        // One for all blocks: the directive for its size stands in `http`.
        return Ok(());
    }
    // Prepared answers are not for requests with this field: what they get depends on it.
    cx.is_unusual("Available-Dictionary");
    let conf = cx.conf_of::<Conf>();
    let bytes = conf.store_bytes;
    // It has no place in the file: the directive may not be there.
    let span = Span { file: FileId(0), start: 0, end: 0 };
    let token = Token { value: Box::default(), span, quoted: false };
    cx.global.add_zone(NAME, ("shared_dictionaries".into(), bytes), &token, &token, |bytes| {
        Arc::new(Store::new(bytes))
    })?;
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    let Some(zone) = zone(cx).filter(|_| conf.use_as.is_some() || conf.on) else { return };
    let (offers, rules) = offers(cx);
    let offers = if conf.on { offers } else { Vec::new() };
    let filter = Dictionary { use_as: conf.use_as.clone(), offers, rules, zone };
    // What an answer depends on is noted when a client names a dictionary.
    // (Before the usual codings, which leave alone what is coded.)
    plan.add_filter(Stage::Coding, Arc::new(filter));
}

fn metrics(to: &mut Scrape) {
    let help = "Requests that named a dictionary, by what came of it.";
    to.counter("brisk_dictionary_requests_total", help, &[("outcome", "used")], USED.get());
    to.counter("brisk_dictionary_requests_total", help, &[("outcome", "unknown")], UNKNOWN.get());
    for zone in to.snap().zones.iter().filter(|zone| zone.module == NAME) {
        let (count, bytes) = zone.state::<Store>().size();
        to.gauge("brisk_dictionary_entries", "Dictionaries that are remembered.", &[], count as f64);
        to.gauge("brisk_dictionary_bytes", "Memory that dictionaries take.", &[], bytes as f64);
    }
}

struct Dictionary {
    use_as: Option<Arc<[u8]>>,
    offers: Vec<Offer>,
    rules: Rules,
    zone: Arc<Zone>,
}

impl Filter for Dictionary {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn filter(&self, r: &mut Request) {
        // A coded body cannot be a dictionary for plain ones.
        if r.resp.status != 200 || r.resp.is_coded() || r.route.depth > 0 {
            return;
        }
        let length =
            r.resp.body.len().or(r.resp.content_length).filter(|&length| length <= DICTIONARY_BODY_BYTES_MAX);
        if let Some(header) = &self.use_as
            && let Some(length) = length
            && is_public(r)
        {
            // Only what is remembered: a client that stores another one would ask in vain with it.
            if self.remember(r, length) {
                r.resp.set("Use-As-Dictionary", Text::from(header.clone()));
            }
        }
        self.compress(r, length);
    }
}

/// One user's page must not shine through the length of another's.
fn is_public(r: &Request) -> bool {
    // `no-store` too: what is not to be stored is no dictionary.
    let is_private = |value: &[u8]| {
        let mut words = value.split(|&b| b == b',').map(|word| word.trim_ascii().to_ascii_lowercase());
        words.any(|word| word.starts_with(b"private") || word == b"no-store")
    };
    r.route.method == Method::Get
        // An answer with a cookie is somebody's, whatever else it says.
        && r.resp.header(b"Set-Cookie").is_none()
        && !r.resp.header(b"Cache-Control").is_some_and(|value| is_private(value))
}

impl Dictionary {
    /// Takes the body along as it is sent, or at once if it is in memory. False if so many are taken along already.
    fn remember(&self, r: &mut Request, length: u64) -> bool {
        // It has no body.
        if r.is_head() {
            return true;
        }
        if let Body::One(piece) = &r.resp.body
            && let Some(bytes) = piece.in_memory()
        {
            let hash = hash_of(bytes);
            let store = self.zone.state::<Store>();
            // Looked for first: a hit costs no copy of the body.
            if store.get(&r.head.host, &hash).is_none() {
                store.put(&r.head.host, hash, bytes.into());
            }
            return true;
        }
        // The next answer may be the one that is remembered.
        let Some(held) = REMEMBERED.hold() else { return false };
        r.client.also_holds(length as usize);
        let inner = InMemory::new(std::mem::take(&mut r.resp.body));
        let tee = Tee {
            inner,
            taken: Vec::new(),
            host: r.head.host.clone(),
            zone: self.zone.clone(),
            held: Some(held),
        };
        r.resp.body = Body::Stream(Box::new(tee));
        true
    }

    fn compress(&self, r: &mut Request, length: Option<u64>) {
        let media = r.resp.content_type.as_deref().unwrap_or_default();
        let Some(length) = length else { return };
        let fit = |offer: &&Offer| length >= offer.min_length && offer.types.has(media);
        let fitting: Vec<&Offer> = self.offers.iter().filter(fit).collect();
        if fitting.is_empty() {
            return;
        }
        // Also for clients without a dictionary: a cache must keep the forms apart (RFC 9842 §6.2).
        r.resp.vary = Some(Text::from(DICTIONARY_VARY));
        let Some(hash) = r.header_named(b"Available-Dictionary").and_then(parse_hash) else { return };
        // What dictionaries there are, others decide.
        r.depends_on(Dependencies::STATE);
        if !self.rules.permits(r) {
            return;
        }
        let accepted = r.header(HeaderId::AcceptEncoding).unwrap_or_default();
        let weight = |offer: &&&Offer| {
            encode::name(offer.params.coding).map_or(0, |name| coding_quality(accepted, name.as_bytes()))
        };
        // Among equals the first.
        let Some(offer) = fitting.iter().rev().max_by_key(weight).filter(|offer| weight(offer) > 0) else {
            return;
        };
        // By host: a client of one site must not learn by the coding what another one's pages are.
        let Some(dictionary) = self.zone.state::<Store>().get(&r.head.host, &hash) else {
            // The usual coding is left: the client understands it.
            UNKNOWN.add(1);
            return;
        };
        // Asked before the coding is announced: the usual one needs a small part of the body at a time.
        let Some(held) = COMPRESSED.hold() else { return };
        let (coding, level) = (offer.params.coding, offer.params.level);
        USED.add(1);
        if !r.is_head() {
            r.client.also_holds(length as usize);
            let inner = InMemory::new(std::mem::take(&mut r.resp.body));
            let how = How { coding, level, dictionary, hash, held };
            r.resp.body =
                Body::Stream(Box::new(Coded { inner, how: Some(how), work: Work::Gathering(Vec::new()) }));
        }
        let resp = &mut r.resp;
        // Known when all is compressed, and the head has left by then.
        resp.content_length = None;
        resp.content_encoding = encode::name(coding).map(Text::from);
        resp.clear_ranges();
        weaken_etag(resp);
    }
}

/// Bodies that are in memory as a whole. The count goes down when the last who has the body lets it go, also if its request is gone.
struct Bodies(AtomicUsize);

/// One of them.
struct Held(&'static Bodies);

static COMPRESSED: Bodies = Bodies(AtomicUsize::new(0));
static REMEMBERED: Bodies = Bodies(AtomicUsize::new(0));

impl Bodies {
    /// `None`: there are enough.
    fn hold(&'static self) -> Option<Held> {
        let more = |held: usize| (held < DICTIONARY_BODIES_MAX).then_some(held + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Held(self))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn hash_of(bytes: &[u8]) -> Hash {
    let mut sha = Sha::new(&SHA256);
    sha.update(bytes);
    let mut hash = [0; 32];
    hash.copy_from_slice(sha.finish().as_ref());
    hash
}

/// A byte sequence of RFC 9651 §4.1.8.
// With colons on both sides, as structured fields have bytes.
fn parse_hash(value: &[u8]) -> Option<Hash> {
    let text = value.trim_ascii().strip_prefix(b":")?.strip_suffix(b":")?;
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// A body that is remembered when it has been sent as a whole.
struct Tee {
    inner: InMemory,
    taken: Vec<u8>,
    host: Vec<u8>,
    zone: Arc<Zone>,
    /// Until the body is remembered.
    held: Option<Held>,
}

impl BodyStream for Tee {
    fn poll_chunk(&mut self, cx: &mut Task<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        let chunk = ready!(self.inner.poll_chunk(cx));
        match &chunk {
            // More than was announced is cut off later; here it must not fill the memory.
            Some(Ok(Chunk::Piece(piece))) if self.taken.len() as u64 <= DICTIONARY_BODY_BYTES_MAX => {
                self.taken.extend_from_slice(piece.in_memory().unwrap_or_default());
            }
            None if self.taken.len() as u64 <= DICTIONARY_BODY_BYTES_MAX => {
                let bytes = std::mem::take(&mut self.taken);
                let (host, zone, held) =
                    (std::mem::take(&mut self.host), self.zone.clone(), self.held.take());
                // Hashing megabytes takes milliseconds. If the pool is busy, this body is not remembered.
                let _ = blocking::run(move || {
                    let _held = held;
                    zone.state::<Store>().put(&host, hash_of(&bytes), bytes.into());
                });
            }
            _ => {}
        }
        Poll::Ready(chunk)
    }
}

struct How {
    coding: brisk_http::negotiate::Coding,
    level: u8,
    dictionary: Arc<[u8]>,
    hash: Hash,
    held: Held,
}

enum Work {
    Gathering(Vec<u8>),
    Away(blocking::Job1<io::Result<Vec<u8>>>),
    Over,
}

/// A body that is compressed as a whole.
struct Coded {
    inner: InMemory,
    how: Option<How>,
    work: Work,
}

impl BodyStream for Coded {
    fn poll_chunk(&mut self, cx: &mut Task<'_>) -> Poll<Option<Result<Chunk, Failure>>> {
        loop {
            match &mut self.work {
                Work::Gathering(plain) => match ready!(self.inner.poll_chunk(cx)) {
                    Some(Ok(Chunk::Piece(piece))) => {
                        plain.extend_from_slice(piece.in_memory().unwrap_or_default());
                        if plain.len() as u64 > DICTIONARY_BODY_BYTES_MAX {
                            // Cut off: what has been announced in the head cannot be corrected.
                            return Poll::Ready(Some(Err(Failure::broken(
                                "the body is longer than announced",
                            ))));
                        }
                    }
                    Some(Ok(Chunk::Flush)) => {}
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => {
                        let plain = std::mem::take(plain);
                        let Some(How { coding, level, dictionary, hash, held }) = self.how.take() else {
                            return Poll::Ready(None);
                        };
                        // The coding has been announced, and megabytes take too long for the event loop. At most DICTIONARY_BODIES_MAX jobs
                        // come on top of a full queue.
                        let job = blocking::run_in_any_case(move || {
                            // Held by the job: a client that goes away does not make room for more work.
                            let _held = held;
                            encode::encode(coding, level, &dictionary, &hash, &plain)
                        });
                        self.work = Work::Away(job);
                    }
                },
                Work::Away(job) => {
                    let out = ready!(Pin::new(job).poll(cx));
                    self.work = Work::Over;
                    return Poll::Ready(Some(piece(out)));
                }
                Work::Over => return Poll::Ready(None),
            }
        }
    }
}

/// The compressed body.
fn piece(out: io::Result<Vec<u8>>) -> Result<Chunk, Failure> {
    out.map(|out| Chunk::Piece(Piece::Bytes(out.into()))).map_err(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{accepted, refused};

    #[test]
    fn parameters_are_checked() {
        refused(&[
            ("use_as_dictionary app;", "invalid pattern \"app\""),
            ("use_as_dictionary /a(b);", "invalid pattern \"/a(b)\""),
            ("use_as_dictionary off id=x;", "invalid parameter \"id=x\""),
            ("use_as_dictionary /a/* ttl=5;", "invalid parameter \"ttl=5\""),
            ("use_as_dictionary /a id=;", "invalid text \"\""),
        ]);
        accepted(&["dictionary_store 1m; use_as_dictionary /a/* id=one match-dest=script,document;"]);
    }

    #[test]
    fn bodies_in_memory_are_counted() {
        static BODIES: Bodies = Bodies(AtomicUsize::new(0));
        let mut held: Vec<Held> = std::iter::from_fn(|| BODIES.hold()).collect();
        assert_eq!(held.len(), DICTIONARY_BODIES_MAX);
        held.pop();
        assert!(BODIES.hold().is_some());
    }

    #[test]
    fn hashes_of_clients() {
        let text = format!(":{}:", STANDARD.encode([5; 32]));
        assert_eq!(parse_hash(text.as_bytes()), Some([5; 32]));
        for bad in ["", ":", "::", ":AAAA:", ":!:", &text[1..], &text[..text.len() - 1]] {
            assert_eq!(parse_hash(bad.as_bytes()), None, "{bad}");
        }
    }
}
