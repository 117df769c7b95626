//! Fetching a page: the document, what it refers to, what that refers to.

use super::html::{self, Kind, Role};
use super::{css, script};
use crate::client::{
    Client, Common, Exchange, Failure, Fields, Origin, Request, Url, decode, is_redirect, unless_interrupted,
};
use crate::limits::{ENTRIES_MAX, FRAMES_MAX, PAGE_REDIRECTS_MAX, TEXT_BYTES_MAX};
use brisk_load::jar::Jar;
use brisk_net::spawn;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

/// Streams of one HTTP/2 connection that are used at a time.
const STREAMS: usize = 100;

/// How a page is fetched.
#[derive(Debug, Clone)]
pub struct Browser {
    /// HTTP/1.1 connections to one origin at a time.
    pub connections: usize,
    /// Sent with every request.
    pub fields: Fields,
}

/// One request of a page.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was asked for.
    pub request: Request,
    /// What for.
    pub kind: Kind,
    /// Nothing is painted before it has come.
    pub blocks: bool,
    /// When it was known to be needed, from the page's beginning.
    pub known: Duration,
    /// When it was asked for.
    pub begun: Duration,
    /// When it was done.
    pub done: Duration,
    /// What came; its body is dropped.
    pub result: Result<Exchange, Failure>,
    /// Bytes of the body with its codings undone.
    pub plain_bytes: u64,
    /// Bytes that gzip would have made of a text that came without a coding.
    pub gzip_bytes: Option<u64>,
}

impl Entry {
    /// The status; 0 without an answer.
    pub fn status(&self) -> u16 {
        self.result.as_ref().map_or(0, |exchange| exchange.status)
    }

    /// How long it took, from when it was asked for.
    pub fn took(&self) -> Duration {
        self.done.saturating_sub(self.begun)
    }

    /// Bytes that came: head and body.
    pub fn bytes(&self) -> u64 {
        self.result.as_ref().map_or(0, |exchange| exchange.head_bytes + exchange.body_bytes)
    }

    /// Whether it is one of the redirects on the way.
    pub fn is_redirect(&self) -> bool {
        self.next().is_some()
    }

    fn next(&self) -> Option<Url> {
        let exchange = self.result.as_ref().ok()?;
        let location = exchange.fields.get("location").filter(|_| is_redirect(exchange.status))?;
        self.request.url.join(location)
    }
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// When it began.
    pub date: SystemTime,
    /// In the order in which they were begun.
    pub entries: Vec<Entry>,
    /// What was left out, being too much.
    pub left_out: usize,
}

impl Page {
    /// When everything had come.
    pub fn loaded(&self) -> Duration {
        self.entries.iter().map(|entry| entry.done).max().unwrap_or_default()
    }

    /// When the document, and whatever blocks painting, had come.
    pub fn can_paint(&self) -> Duration {
        let first = self.entries.iter().filter(|entry| entry.blocks);
        first.map(|entry| entry.done).max().unwrap_or_default()
    }

    /// Bytes that came.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::bytes).sum()
    }

    /// The page itself, at the end of its redirects.
    pub fn document(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == Kind::Document && !entry.is_redirect())
    }
}

/// Something to be fetched.
struct Wanted {
    url: Url,
    kind: Kind,
    blocks: bool,
    known: Duration,
    hops: usize,
    /// Frames in frames, and style sheets and modules that others import, have an end.
    depth: usize,
    role: Role,
}

impl Wanted {
    /// What blocks comes first, then what is small and needed early.
    fn rank(&self) -> u8 {
        match self.kind {
            _ if self.blocks => 0,
            Kind::Document | Kind::Style | Kind::Font => 1,
            Kind::Script => 2,
            Kind::Image | Kind::Other => 3,
        }
    }
}

struct State {
    waiting: Vec<Wanted>,
    seen: HashSet<Url>,
    busy: HashMap<Origin, usize>,
    /// How many requests an origin takes at a time, once that is known.
    room: HashMap<Origin, usize>,
    active: usize,
    entries: Vec<Entry>,
    left_out: usize,
    waker: Option<Waker>,
}

/// Fonts that style sheets offer, and the families that rules name: a browser fetches what is in both.
#[derive(Default)]
struct Fonts {
    faces: Vec<(String, Url)>,
    families: Vec<css::Named>,
    classes: HashSet<String>,
}

impl Fonts {
    fn add(&mut self, faces: Vec<(String, Url)>, families: Vec<css::Named>) {
        self.faces.extend(faces);
        self.families.extend(families);
    }

    /// Those that are known to be needed now.
    fn needed(&mut self) -> Vec<Url> {
        let Self { faces, families, classes } = self;
        let is_named = |(family, _): &mut (String, Url)| {
            families.iter().any(|named| named.families.contains(family.as_str()) && named.may_match(classes))
        };
        faces.extract_if(.., is_named).map(|(_, url)| url).collect()
    }
}

struct Loader {
    /// The page's own.
    origin: Origin,
    client: Client,
    browser: Browser,
    began: Instant,
    jar: RefCell<Jar>,
    fonts: RefCell<Fonts>,
    state: RefCell<State>,
}

/// Fetches a page with everything that it needs, or what of that comes before the user wants the end.
pub async fn load(common: Rc<Common>, url: Url, browser: Browser) -> Page {
    let (date, origin) = (SystemTime::now(), url.origin.clone());
    let first = Wanted {
        url: url.clone(),
        kind: Kind::Document,
        blocks: true,
        known: Duration::ZERO,
        hops: 0,
        depth: 0,
        role: Role::Used,
    };
    let state = State {
        waiting: vec![first],
        seen: HashSet::from([url]),
        busy: HashMap::new(),
        room: HashMap::new(),
        active: 0,
        entries: Vec::new(),
        left_out: 0,
        waker: None,
    };
    let loader = Rc::new(Loader {
        client: Client::new(&common),
        origin,
        browser,
        began: Instant::now(),
        jar: RefCell::default(),
        fonts: RefCell::default(),
        state: RefCell::new(state),
    });
    let all = poll_fn(|cx| {
        loop {
            let mut state = loader.state.borrow_mut();
            let Some(wanted) = state.next(&loader.browser) else {
                if state.active == 0 {
                    return Poll::Ready(());
                }
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            state.active += 1;
            *state.busy.entry(wanted.url.origin.clone()).or_default() += 1;
            drop(state);
            let loader = Rc::clone(&loader);
            spawn(async move { loader.fetch(wanted).await });
        }
    });
    // What has come until then is shown.
    let _ = unless_interrupted(all).await;
    loader.client.close();
    let mut state = loader.state.borrow_mut();
    let mut entries = std::mem::take(&mut state.entries);
    entries.sort_by_key(|entry| entry.begun);
    Page { date, entries, left_out: state.left_out }
}

impl State {
    /// The next thing whose origin has room.
    fn next(&mut self, browser: &Browser) -> Option<Wanted> {
        let has_room = |wanted: &Wanted| {
            let origin = &wanted.url.origin;
            // With TLS one request goes ahead: if it agrees on HTTP/2, the others share its connection.
            let unknown = if origin.secure { 1 } else { browser.connections };
            let room = self.room.get(origin).copied().unwrap_or(unknown);
            self.busy.get(origin).copied().unwrap_or(0) < room
        };
        let at = (0..self.waiting.len())
            .filter(|&at| has_room(&self.waiting[at]))
            .min_by_key(|&at| self.waiting[at].rank())?;
        Some(self.waiting.remove(at))
    }

    fn want(&mut self, wanted: Wanted) {
        if self.seen.len() >= ENTRIES_MAX {
            self.left_out += 1;
        } else if self.seen.insert(wanted.url.clone()) {
            self.waiting.push(wanted);
        }
    }
}

impl Loader {
    async fn fetch(&self, wanted: Wanted) {
        let request = Request { fields: self.fields(&wanted), ..Request::get(wanted.url.clone()) };
        let request = request.with_cookies(&self.jar.borrow());
        let begun = self.began.elapsed();
        let result = self.client.exchange(&request).await;
        let done = self.began.elapsed();
        if let Ok(exchange) = &result {
            exchange.fill(&mut self.jar.borrow_mut(), &request);
        }
        let mut entry = Entry {
            request,
            kind: wanted.kind,
            blocks: wanted.blocks,
            known: wanted.known,
            begun,
            done,
            result,
            plain_bytes: 0,
            gzip_bytes: None,
        };
        let mut found = Vec::new();
        if let Some(url) = entry.next().filter(|_| wanted.hops < PAGE_REDIRECTS_MAX) {
            found.push(Wanted { url, known: done, hops: wanted.hops + 1, ..wanted });
        } else {
            found = self.look_into(&mut entry, &wanted, done);
        }
        let mut state = self.state.borrow_mut();
        let origin = entry.request.url.origin.clone();
        if let Ok(exchange) = &mut entry.result {
            exchange.body = Vec::new();
            let room = if exchange.version == "HTTP/2" { STREAMS } else { self.browser.connections };
            state.room.insert(origin.clone(), room);
        }
        found.into_iter().for_each(|wanted| state.want(wanted));
        state.entries.push(entry);
        state.active -= 1;
        if let Some(busy) = state.busy.get_mut(&origin) {
            *busy -= 1;
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn fields(&self, wanted: &Wanted) -> Fields {
        let mut fields = self.browser.fields.clone();
        if wanted.url.origin != self.origin {
            // What was meant for one server is no other's business.
            let is_private =
                |name: &str| ["authorization", "cookie"].iter().any(|own| name.eq_ignore_ascii_case(own));
            fields.0.retain(|(name, _)| !is_private(name));
        }
        let accept = match wanted.kind {
            Kind::Document => "text/html,application/xhtml+xml,*/*;q=0.8",
            Kind::Style => "text/css,*/*;q=0.1",
            Kind::Image => "image/avif,image/webp,image/*,*/*;q=0.8",
            _ => "*/*",
        };
        for (name, value) in [
            ("User-Agent", "Mozilla/5.0 (compatible; brisk)"),
            ("Accept", accept),
            ("Accept-Encoding", decode::ACCEPT_ENCODING),
        ] {
            if fields.get(name).is_none() {
                fields.push(name, value);
            }
        }
        fields
    }

    /// What an answer refers to; its sizes.
    fn look_into(&self, entry: &mut Entry, asked: &Wanted, now: Duration) -> Vec<Wanted> {
        let depth = asked.depth;
        let Ok(exchange) = &entry.result else { return Vec::new() };
        let coding = exchange.fields.get("content-encoding");
        let plain = decode::decode(&exchange.body, coding.unwrap_or_default(), TEXT_BYTES_MAX).ok().flatten();
        let plain = plain.unwrap_or_else(|| exchange.body.clone());
        entry.plain_bytes = plain.len() as u64;
        let kind = exchange.fields.get("content-type").unwrap_or_default().to_ascii_lowercase();
        let is_picture = matches!(entry.kind, Kind::Image | Kind::Font) && !kind.contains("svg");
        if coding.is_none() && is_text(&kind) && !is_picture && plain.len() > 256 {
            entry.gzip_bytes = gzip_bytes(&plain);
        }
        if exchange.status >= 400 {
            return Vec::new();
        }
        if asked.role == Role::Kept {
            return Vec::new();
        }
        let wanted_as = |url, kind, blocks, role| Wanted {
            url,
            kind,
            blocks,
            known: now,
            hops: 0,
            depth: depth + 1,
            role,
        };
        let wanted = |url, kind, blocks| wanted_as(url, kind, blocks, Role::Used);
        let url = &entry.request.url;
        let mut found: Vec<Wanted> = match entry.kind {
            // Frames have frames, too.
            Kind::Document if depth < FRAMES_MAX && (kind.contains("html") || kind.is_empty()) => {
                let needs = html::needs(&plain, url);
                let mut fonts = self.fonts.borrow_mut();
                fonts.add(needs.faces, needs.families);
                fonts.classes.extend(needs.classes);
                let blocks = |blocks: bool| blocks && depth == 0;
                needs
                    .resources
                    .into_iter()
                    .map(|r| wanted_as(r.url, r.kind, blocks(r.blocks), r.role))
                    .collect()
            }
            Kind::Style if depth < 6 => {
                let text = String::from_utf8_lossy(&plain);
                let (faces, families) = css::fonts(&text);
                let faces = faces.into_iter().filter_map(|face| Some((face.family, url.join(&face.url)?)));
                self.fonts.borrow_mut().add(faces.collect(), families);
                let found = css::references(&text).into_iter();
                let resolved = found.filter_map(|(text, kind)| Some((url.join(&text)?, kind)));
                resolved.map(|(url, kind)| wanted(url, kind, entry.blocks && kind == Kind::Style)).collect()
            }
            Kind::Script if depth < 6 && asked.role == Role::Module => {
                let imports = script::imports(&String::from_utf8_lossy(&plain));
                let resolved = imports.into_iter().filter_map(|text| url.join(&text));
                resolved.map(|url| wanted_as(url, Kind::Script, false, Role::Module)).collect()
            }
            _ => Vec::new(),
        };
        let fonts = self.fonts.borrow_mut().needed();
        found.extend(fonts.into_iter().map(|url| wanted(url, Kind::Font, false)));
        found
    }
}

/// What compresses well.
pub fn is_text(content_type: &str) -> bool {
    ["text/", "javascript", "json", "xml", "svg", "font/ttf", "wasm", "manifest"]
        .iter()
        .any(|word| content_type.contains(word))
}

fn gzip_bytes(plain: &[u8]) -> Option<u64> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).ok()?;
    Some(encoder.finish().ok()?.len() as u64)
}
