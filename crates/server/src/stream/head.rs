//! Requests from header blocks: fields become the request's head as HTTP/1.1's parser would have left it, so that the
//! code behind this need not know where it came from.
//!
//! It is the same for HTTP/2 and HTTP/3. What a field means is not known here but for pseudo headers, `Host` and cookies; frames and
//! codings are the crates' `h2` and `h3`.

use crate::conf::ids::ListenId;
use crate::connection::Connection;
use crate::extended::{self, ExtendedConnect};
use crate::h1::intake;
use crate::request::Request;
use crate::request::reply::Persistence;
use crate::table::Thread;
use crate::tls::admit;
use brisk_h2::hpack;
use brisk_h3::qpack;
use brisk_http::framing::{BodyFraming, request_framing};
use brisk_http::head::{Header, Span};
use brisk_http::{HeaderId, Method, Version};
use brisk_mux::message::{HeadRules, Kind, Malformed, Pseudo};
use brisk_mux::{Checks, Field, FieldSink, HeadKind, HeadSink, LimitError};
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

/// Entries of the larger of the two static tables, and the place that HPACK leaves free.
const STATIC_IDS: usize = qpack::table::STATIC.len() + 1;

/// Ids of a static table's names, by the indexes of its coding.
type Ids = [u8; STATIC_IDS];

/// Once per process: a header of a browser is known by its index alone.
fn ids(names: impl Iterator<Item = &'static [u8]>, first: usize) -> Ids {
    let mut ids = [0; STATIC_IDS];
    names.zip(&mut ids[first..]).for_each(|(name, id)| *id = HeaderId::from_name(name) as u8);
    ids
}

/// HPACK counts from 1, QPACK from 0.
static HPACK_IDS: LazyLock<Ids> = LazyLock::new(|| ids(hpack::table::STATIC.iter().map(|entry| entry.0), 1));
static QPACK_IDS: LazyLock<Ids> = LazyLock::new(|| ids(qpack::table::STATIC.iter().map(|entry| entry.0), 0));

/// What stands between two crumbs of a cookie (RFC 9113 §8.2.3).
const CRUMB_SEPARATOR: &[u8] = b"; ";
/// How often a pseudo header's value is stored at most: `:path` as it came, in the request line, and as the target's path, the
/// request's path and its arguments.
/// Counted for all copies at once, since what is stored later must have had room when it came.
const PSEUDO_COPIES: usize = 5;

/// Why a request gets a 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Malformed(Malformed),
    /// With the name at fault.
    Named(Malformed, Box<str>),
    /// A message of its own.
    Text(&'static str),
    /// It breaks no rule of the protocol, but is larger than it may be.
    TooLarge(LimitError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(malformed) => malformed.fmt(f),
            Fault::Named(malformed, name) => write!(f, "{malformed}: \"{name}\""),
            Fault::Text(text) => f.write_str(text),
            Fault::TooLarge(limit) => write!(f, "client sent {limit}"),
        }
    }
}

impl Fault {
    /// Whether the stream ends with an error, whatever is answered (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
    pub fn is_malformed(&self) -> bool {
        !matches!(self, Fault::TooLarge(_))
    }
}

/// What came of a head.
/// `None` of [`Intake::finish`] is a head without a request: trailers.
pub enum Taken {
    /// A request, with the fault that makes it one to be refused.
    Request(Box<Request>, Option<Fault>),
    /// Nothing was kept: it would occupy more than the connection's heads may.
    Refused,
}

/// Takes the fields of a head. Each is counted before it is stored, with the copies that are made of it later.
pub struct Intake<'a> {
    thread: &'a Rc<Thread>,
    conn: &'a Connection,
    /// Of the connection's protocol.
    version: Version,
    // By index and without hashing: most fields of a browser's request are entries of the static table.
    ids: &'static Ids,
    /// The request whose head is being taken.
    r: Option<Box<Request>>,
    so_far: SoFar,
    fault: Option<Fault>,
    /// Crumbs that came behind another field, each with its separator: they are joined to the header at the end.
    crumbs: Vec<u8>,
}

/// What is known of the head that is being taken. Each head begins with a new one.
#[derive(Clone, Copy)]
struct SoFar {
    kind: HeadKind,
    /// How much more the head may occupy.
    room: usize,
    /// There was no room for it.
    refused: bool,
    rules: HeadRules,
    method: Span,
    scheme: Span,
    authority: Option<Span>,
    path: Span,
    protocol: Option<Span>,
    /// Index of the cookie header.
    cookie: Option<usize>,
    /// There are names of which a server may want to know nothing.
    odd: bool,
}

impl SoFar {
    fn new(kind: HeadKind, room: usize) -> SoFar {
        SoFar {
            kind,
            room,
            refused: false,
            rules: HeadRules::default(),
            method: Span::default(),
            scheme: Span::default(),
            authority: None,
            path: Span::default(),
            protocol: None,
            cookie: None,
            odd: false,
        }
    }
}

impl<'a> Intake<'a> {
    /// For connections of this version, HTTP/2 or HTTP/3.
    /// A new one per read; it keeps nothing from one read to the next.
    pub fn new(thread: &'a Rc<Thread>, conn: &'a Connection, version: Version) -> Intake<'a> {
        let so_far = SoFar::new(HeadKind::Request, 0);
        let ids: &Ids = if version == Version::Http3 { &QPACK_IDS } else { &HPACK_IDS };
        Intake { thread, conn, version, ids, r: None, so_far, fault: None, crumbs: Vec::new() }
    }

    /// What is wrong with the trailers that came.
    pub fn trailer_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    /// What came of the head, whose block had this many bytes.
    pub fn finish(&mut self, bytes: usize) -> Option<Taken> {
        let mut r = self.r.take()?;
        // It has not begun: its stream is refused, and it is neither counted nor logged as a request.
        if self.so_far.refused {
            self.thread.put_request(r);
            return Some(Taken::Refused);
        }
        // Behind the last field, when it is known that no crumb follows.
        self.join_crumbs(&mut r);
        let fault = self.judge(&mut r);
        // As it came, compressed: what `$request_length` counts.
        r.head.parsed.len = bytes;
        Some(Taken::Request(r, fault))
    }

    /// Whether a head of a request has begun that was not taken to its end.
    pub fn has_begun(&self) -> bool {
        self.r.is_some()
    }

    /// What came of a head that is not taken to its end: a request to be refused, of which perhaps nothing is known. `None`: nothing was kept, as with
    /// [`Taken::Refused`].
    pub fn cut_off(&mut self) -> Option<Box<Request>> {
        let Some(mut r) = self.r.take() else { return Some(unknown(self.thread, self.version)) };
        if self.so_far.refused {
            self.thread.put_request(r);
            return None;
        }
        // What stands above the field at which it ends may be all that a request line needs: then it is known which site was meant.
        self.judge(&mut r);
        Some(r)
    }

    /// Makes a request of what was stored; or says what is wrong with it.
    fn judge(&mut self, r: &mut Request) -> Option<Fault> {
        let fault = self.fault.take().or_else(|| self.seal(r).err());
        // Nothing of it was understood for certain, so no location may take it for a GET.
        if fault.is_some() {
            // What it is, is not known: an error page is another request.
            r.head.parsed.method = Method::Other;
            r.route.method = Method::Other;
        }
        fault
    }

    /// Counts bytes that are to be stored; false if there is no room for them.
    #[inline]
    fn count(&mut self, bytes: usize) -> bool {
        match self.so_far.room.checked_sub(bytes) {
            Some(room) => self.so_far.room = room,
            None => self.so_far.refused = true,
        }
        // Once refused, refused: fields that would still fit must not make a head with holes.
        !self.so_far.refused
    }

    /// Whether names are to be looked at again by the chosen server's rules.
    pub fn has_odd_names(&self) -> bool {
        self.so_far.odd
    }

    /// Puts the request line and `Host` together from the pseudo headers.
    fn seal(&mut self, r: &mut Request) -> Result<(), Fault> {
        // RFC 9113 §8.3.1: which pseudo fields must be there depends on the method.
        // CONNECT has no scheme and no path unless it is an extended one.
        let is_connect = self.so_far.method.of(&r.head.buf) == b"CONNECT";
        self.so_far.rules.end_request(is_connect, true).map_err(Fault::Malformed)?;
        if !is_scheme(self.so_far.scheme.of(&r.head.buf)) {
            return Err(Fault::Text("client sent invalid :scheme header"));
        }
        // RFC 8441: for all that follows it is the HTTP/1.1 request that it stands for.
        let upgrade = self.so_far.protocol.filter(|_| is_connect);
        // The request line is put together behind the fields, as logs and `$request` show it.
        let start = r.head.buf.len();
        if let Some(protocol) = upgrade {
            if !extended::is_protocol(protocol.of(&r.head.buf)) {
                return Err(Fault::Text("client sent invalid :protocol header"));
            }
            // RFC 9110 §9.3.6: what follows is not content.
            if r.head.parsed.has(HeaderId::ContentLength) {
                return Err(Fault::Text("client sent extended CONNECT with \"Content-Length\" header"));
            }
            r.head.buf.extend_from_slice(b"GET");
        } else {
            r.head.buf.extend_from_within(range(self.so_far.method));
        }
        r.head.parsed.method_name = Span::new(start, r.head.buf.len());
        r.head.buf.push(b' ');
        let target = r.head.buf.len();
        // CONNECT has no path: its target is the authority, as in HTTP/1.1.
        let path = if self.so_far.path.is_empty() {
            self.so_far.authority.unwrap_or_default()
        } else {
            self.so_far.path
        };
        r.head.buf.extend_from_within(range(path));
        r.head.parsed.target = Span::new(target, r.head.buf.len());
        r.head.buf.push(b' ');
        let protocol = r.head.buf.len();
        r.head.buf.extend_from_slice(self.version.as_str().as_bytes());
        r.head.parsed.protocol = Span::new(protocol, r.head.buf.len());
        r.head.parsed.request_line = Span::new(start, r.head.buf.len());
        r.head.parsed.method = Method::from_name(r.head.parsed.method_name.of(&r.head.buf));
        // Longer names of methods than `Method` knows are allowed, but not what could not stand in a request line.
        let is_method = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'_' | b'-');
        if r.head.parsed.method == Method::Other
            && !r.head.parsed.method_name.of(&r.head.buf).iter().all(is_method)
        {
            return Err(Fault::Text("client sent invalid method"));
        }
        self.host(r)?;
        if let Some(protocol) = upgrade {
            upgrade_head(r, protocol)?;
        }
        Ok(())
    }

    /// RFC 9113 §8.3.1: `:authority` is what `Host` was.
    fn host(&self, r: &mut Request) -> Result<(), Fault> {
        let Some(authority) = self.so_far.authority else {
            // RFC 9112 §3.2 requires a host of HTTP/1.1, and so does this server of HTTP/2, as nginx does.
            return match r.head.parsed.find(HeaderId::Host) {
                Some(host) if !host.value.is_empty() => Ok(()),
                _ => Err(Fault::Text("client sent neither \":authority\" nor \"Host\" header")),
            };
        };
        // RFC 9113 §8.3.1 has a server treat them as malformed if they differ: two servers could choose different
        // hosts.
        if let Some(host) = r.head.parsed.find(HeaderId::Host) {
            let same = host.value.of(&r.head.buf) == authority.of(&r.head.buf);
            return if same {
                Ok(())
            } else {
                Err(Fault::Text("client sent \":authority\" and \"Host\" headers with different values"))
            };
        }
        // Stored under the old name, so that `$http_host` and those who read `Host` find it.
        // In lower case, as names over HTTP/2 are (RFC 9113 §8.2).
        let name = push(r, b"host");
        add(r, Header { name, value: authority, id: HeaderId::Host });
        Ok(())
    }

    fn regular(&mut self, field: &Field<'_>) {
        let value =
            // Surrounding space is no part of a value, and would be an error in HTTP/1.1's parser only behind
            // the colon.
            if field.checks.has(Checks::PADDED_VALUE) { field.value.trim_ascii() } else { field.value };
        // The table of the decoder gives the number of a known name, so no name is compared.
        let id = HeaderId::from_number(field.tag);
        // Noted only: what is to be done with such names (`underscores_in_headers`, `ignore_invalid_headers`)
        // the server decides, which is not chosen yet.
        self.so_far.odd |= field.checks.has(Checks(Checks::UNDERSCORE.0 | Checks::ODD.0));
        if id == HeaderId::Cookie
            && let Some(at) = self.so_far.cookie
        {
            return self.crumb(at, value);
        }
        // Counted before it is stored, or one block of headers could take more than the connection may hold.
        if !self.count(field.name.len() + value.len() + size_of::<Header>()) {
            return;
        }
        let Some(r) = self.r.as_deref_mut() else { return };
        if id == HeaderId::Cookie {
            self.so_far.cookie = Some(r.head.parsed.headers.len());
        }
        let name = push(r, field.name);
        let value = push(r, value);
        add(r, Header { name, value, id });
    }

    /// RFC 9113 §8.2.3: crumbs of a cookie are one field again. While nothing else has come behind the cookie a crumb is appended to
    /// it. Later ones are collected, so that each is copied once more, not once for each that follows.
    fn crumb(&mut self, at: usize, crumb: &[u8]) {
        let Some(r) = self.r.as_deref() else { return };
        // A cookie of a browser with HTTP/2 is a dozen crumbs.
        let have = r.head.parsed.headers[at].value;
        // Where the cookie is the last that was stored, its value can grow in place.
        let is_last = self.crumbs.is_empty() && have.end as usize == r.head.buf.len();
        let bytes = CRUMB_SEPARATOR.len() + crumb.len();
        let counted = match (is_last, self.crumbs.is_empty()) {
            (true, _) => bytes,
            // What there is of the cookie is copied, too.
            (false, true) => 2 * bytes + have.len(),
            (false, false) => 2 * bytes,
        };
        if !self.count(counted) {
            return;
        }
        let Some(r) = self.r.as_deref_mut() else { return };
        let to = if is_last { &mut r.head.buf } else { &mut self.crumbs };
        to.extend_from_slice(CRUMB_SEPARATOR);
        to.extend_from_slice(crumb);
        if is_last {
            r.head.parsed.headers[at].value = Span::new(have.start as usize, r.head.buf.len());
        }
    }

    /// Makes one value of the cookie and the crumbs that were collected.
    fn join_crumbs(&mut self, r: &mut Request) {
        let Some(at) = self.so_far.cookie.filter(|_| !self.crumbs.is_empty()) else { return };
        let start = r.head.buf.len();
        // To the byte: that is what was counted.
        // The size is known, so growing by doubling would take more than was counted.
        r.head.buf.reserve_exact(r.head.parsed.headers[at].value.len() + self.crumbs.len());
        r.head.buf.extend_from_within(range(r.head.parsed.headers[at].value));
        r.head.buf.append(&mut self.crumbs);
        r.head.parsed.headers[at].value = Span::new(start, r.head.buf.len());
    }

    fn pseudo(&mut self, pseudo: Pseudo, field: &Field<'_>) {
        if !self.count(PSEUDO_COPIES * field.value.len()) {
            return;
        }
        let Some(r) = self.r.as_deref_mut() else { return };
        let span = push(r, field.value);
        match pseudo {
            Pseudo::Method => self.so_far.method = span,
            Pseudo::Scheme => self.so_far.scheme = span,
            Pseudo::Authority => self.so_far.authority = Some(span),
            Pseudo::Path => self.so_far.path = span,
            Pseudo::Protocol => self.so_far.protocol = Some(span),
            Pseudo::Status => {}
        }
    }
}

fn range(span: Span) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

fn push(r: &mut Request, bytes: &[u8]) -> Span {
    let start = r.head.buf.len();
    r.head.buf.extend_from_slice(bytes);
    Span::new(start, r.head.buf.len())
}

fn add(r: &mut Request, header: Header) {
    let head = &mut r.head.parsed;
    // Before `present` gets the bit: it tells whether this is the second of its name.
    head.repeated |= head.present & header.id.bit();
    head.present |= header.id.bit();
    head.headers.push(header);
}

/// What HTTP/1.1 would have asked with for what RFC 8441 §5 asks with extended CONNECT.
fn upgrade_head(r: &mut Request, protocol: Span) -> Result<(), Fault> {
    let asked = ExtendedConnect::new(protocol.of(&r.head.buf))
        // Without randomness the switch could not be proven.
        .map_err(|_| Fault::Text("no random numbers for \"Sec-WebSocket-Key\""))?;
    let name = push(r, b"upgrade");
    add(r, Header { name, value: protocol, id: HeaderId::Upgrade });
    let (name, value) = (push(r, b"connection"), push(r, b"upgrade"));
    add(r, Header { name, value, id: HeaderId::Connection });
    // A key that the client has chosen proves nothing (RFC 8441 §5).
    r.head.parsed.headers.retain(|header| header.id != HeaderId::SecWebSocketKey);
    r.head.parsed.present &= !HeaderId::SecWebSocketKey.bit();
    if let Some(key) = asked.key() {
        let (name, value) = (push(r, b"sec-websocket-key"), push(r, key.as_bytes()));
        add(r, Header { name, value, id: HeaderId::SecWebSocketKey });
    }
    r.head.extended = Some(Box::new(asked));
    Ok(())
}

/// RFC 3986 §3.1.
#[inline]
fn is_scheme(scheme: &[u8]) -> bool {
    matches!(scheme, b"https" | b"http")
        || scheme.iter().enumerate().all(|(at, b)| {
            b.is_ascii_alphabetic() || at > 0 && (b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'))
        })
}

impl FieldSink for Intake<'_> {
    fn tag(&mut self, name: &[u8]) -> u8 {
        HeaderId::from_name(name) as u8
    }

    /// Without a comparison: most names are in the static table.
    #[inline]
    fn static_tag(&mut self, index: usize, _: &[u8]) -> u8 {
        self.ids[index]
    }

    fn field(&mut self, field: Field<'_>) {
        // The decoder goes on to the end of the block all the same: its table must stay that of the client.
        if self.so_far.refused || self.fault.is_some() {
            return;
        }
        let judged = match self.so_far.kind {
            HeadKind::Request => self.so_far.rules.request(&field),
            HeadKind::Trailers | HeadKind::Response => self.so_far.rules.trailer(&field),
        };
        match judged {
            Ok(Kind::Regular) if self.so_far.kind == HeadKind::Request => self.regular(&field),
            // Trailers of requests are judged and dropped: nobody asks for them.
            // Checked, since a malformed trailer makes the request malformed.
            Ok(Kind::Regular) => {}
            Ok(Kind::Pseudo(pseudo)) => self.pseudo(pseudo, &field),
            Err(malformed @ (Malformed::Name | Malformed::UnknownPseudo | Malformed::Value)) => {
                let name = String::from_utf8_lossy(field.name).into_owned();
                self.fault = Some(Fault::Named(malformed, name.into()));
            }
            Err(malformed) => self.fault = Some(Fault::Malformed(malformed)),
        }
    }
}

impl HeadSink for Intake<'_> {
    fn begin(&mut self, _: u64, kind: HeadKind) {
        let r = (kind == HeadKind::Request).then(|| {
            let mut r = self.r.take().unwrap_or_else(|| self.thread.take_request());
            r.head.parsed.version = self.version;
            r
        });
        // What the other heads of the connection hold leaves less for this one.
        let room = self.thread.shared.budget.head_room(&self.conn.account, self.conn.io.received());
        self.r = r;
        self.so_far = SoFar::new(kind, room);
        self.fault = None;
        self.crumbs.clear();
    }
}

/// A request of which nothing is known but its version.
pub fn unknown(thread: &Rc<Thread>, version: Version) -> Box<Request> {
    let mut r = thread.take_request();
    r.head.parsed.version = version;
    r.head.parsed.method = Method::Other;
    r
}

/// Logs why a head was refused and gives the status, as [`intake::refused`] does for HTTP/1.1.
pub fn refused(r: &mut Request, listen: ListenId, fault: &Fault) -> u16 {
    if fault.is_malformed() {
        crate::rlog!(r, Info, "{fault}");
        return 400;
    }
    // What stands above the field at fault was good, so that line and error page are those of the site that was meant.
    if let Err(status) = intake::recognise(r, listen) {
        return status;
    }
    crate::rlog!(r, Info, "{fault}");
    494
}

/// Fills in what follows from the head, as [`intake::complete`] does for HTTP/1.1. `end`: there is no body. The error is
/// the status to answer with; it has been logged.
pub fn complete(r: &mut Request, listen: ListenId, end: bool, odd: bool) -> Result<(), u16> {
    r.route.method = r.head.parsed.method;
    if r.route.method == Method::Connect {
        crate::rlog!(r, Info, "client sent CONNECT method");
        return Err(405);
    }
    // Chooses the server, by whose rules all that follows is judged.
    // As in `intake::complete`, in the order that streams need: there is no framing to be judged first.
    intake::target(r, listen)?;
    if !is_enabled(r, listen) {
        crate::rlog!(
            r,
            Info,
            "client attempted to request the server name for which the negotiated protocol is disabled"
        );
        // RFC 9110 §15.5.20: the client may ask for this host on another connection.
        return Err(421);
    }
    // Before anything of the request is acted upon: it may be a replay, or its client may lack a certificate.
    admit::admit(r)?;
    if odd {
        drop_invalid(r);
    }
    let apart = |id: HeaderId| usize::from(r.head.parsed.has(id));
    // As nginx counts: neither cookies nor what `:authority` has become.
    let count = r.head.parsed.headers.len() - apart(HeaderId::Cookie) - apart(HeaderId::Host);
    if count as u64 > r.core().max_headers {
        crate::rlog!(r, Info, "client sent too many header lines");
        return Err(494);
    }
    r.head.framing = match request_framing(&r.head.buf, &r.head.parsed) {
        Ok(BodyFraming::None) if !end && r.head.extended.is_none() => BodyFraming::Chunked,
        // The end came with the head, so nothing of the announced body will.
        Ok(BodyFraming::Length(length)) if end && length > 0 => {
            crate::rlog!(r, Info, "client prematurely closed stream");
            return Err(400);
        }
        Ok(framing) => framing,
        Err(error) => {
            crate::rlog!(r, Info, "{error}");
            return Err(error.status());
        }
    };
    // A length of 0 without END_STREAM: the client has still to say that the request is over, with an empty frame or trailers.
    r.head.awaits_end = !end && r.head.framing == BodyFraming::Length(0);
    if r.route.method == Method::Trace {
        crate::rlog!(r, Info, "client sent TRACE method");
        return Err(405);
    }
    r.reply.persistence = Persistence::KeepAlive;
    Ok(())
}

/// Whether the chosen server speaks the connection's protocol.
fn is_enabled(r: &Request, listen: ListenId) -> bool {
    let core = r.core();
    if r.version() == Version::Http3 {
        return core.http3.enabled;
    }
    let listened = r.live.snap.listen(listen);
    let prefix = listened.local(|| r.conn().local()).map_or(listened.prefix, |local| local.prefix);
    core.http2.enabled || prefix.http2
}

/// `ignore_invalid_headers`, `underscores_in_headers`: for the chosen server to say.
fn drop_invalid(r: &mut Request) {
    let (ignore, underscores) = {
        let core = r.core();
        (core.ignore_invalid_headers, core.underscores_in_headers)
    };
    if !ignore {
        return;
    }
    // Taken out, since names are parts of it while the list is changed.
    let buf = std::mem::take(&mut r.head.buf);
    let is_valid = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-' || (*b == b'_' && underscores);
    let mut dropped = Vec::new();
    r.head.parsed.headers.retain(|header| {
        let valid = header.name.of(&buf).iter().all(is_valid);
        if !valid {
            dropped.push(header.name);
        }
        valid
    });
    r.head.buf = buf;
    for name in dropped {
        // Kept as a name only, for those who must know that something was dropped.
        r.head.parsed.ignored.push(name);
        crate::rlog!(
            r,
            Info,
            "client sent invalid header: \"{}\"",
            String::from_utf8_lossy(name.of(&r.head.buf))
        );
    }
}
