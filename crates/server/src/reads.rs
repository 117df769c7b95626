//! What is read of a request, and recorded: the accessors for all who make answers.
//!
//! An answer that depends on something of the request beyond its host and target is for this request alone. So each of
//! these notes in the request what was read ([`Request::declared`]); that costs one store. What answers are kept by, and
//! what a prepared answer is never used with, is not noted: it says so where that is the case.
//!
//! The raw head and the connection are the core's own. There `head` and `buf` are read directly to frame the request, to
//! find its host and target, to choose its server, and to write logs; a test in `tidy` lists the files that may.

use crate::connection::Connection;
use crate::purity::{Declared, Dependencies, Effects};
use crate::request::Request;
use crate::request::state::Sender;
use crate::tls::facts::Facts;
use brisk_host::memory::Account;
use brisk_host::peer::Peer;
use brisk_host::tls::Verdict;
use brisk_http::framing::BodyFraming;
use brisk_http::head::Header;
use brisk_http::negotiate::Preference;
use brisk_http::{HeaderId, Method, RequestHead, Version};
use brisk_net::clock::{self, Now};
use brisk_proxy_protocol::ProxyHeader;
use brisk_tls::Session;
use std::net::SocketAddr;
use std::rc::Rc;

impl Request {
    /// Notes what the answer depends on, and what is done on its way.
    #[inline]
    pub fn note(&self, declared: Declared) {
        // Only added to: nothing takes back what was read.
        self.evidence.declared.set(self.evidence.declared.get().and(declared));
    }

    /// Notes what the answer depends on.
    #[inline]
    pub fn depends_on(&self, dependencies: Dependencies) {
        self.note(Declared::RECORDED.depends_on(dependencies));
    }

    /// Notes what is done besides.
    #[inline]
    pub fn does(&self, effects: Effects) {
        self.note(Declared::RECORDED.does(effects));
    }

    /// All that was noted.
    pub fn declared(&self) -> Declared {
        self.evidence.declared.get()
    }

    /// Notes that a field was looked at, unless answers are kept by it (`Host`), or requests with it get no prepared one.
    fn note_field(&self, id: HeaderId) {
        // `Host` is in the key; a request with an unusual field never gets a prepared answer.
        if id != HeaderId::Host && !self.live.snap.unusual.has(id) {
            self.depends_on(Dependencies::FIELD);
        }
    }

    fn note_name(&self, name: &[u8]) {
        if !name.eq_ignore_ascii_case(b"host") && !self.live.snap.unusual.has_named(name) {
            self.depends_on(Dependencies::FIELD);
        }
    }

    /// The value of a request header.
    pub fn header(&self, id: HeaderId) -> Option<&[u8]> {
        self.note_field(id);
        self.head.field(id)
    }

    /// Whether there is a header.
    pub fn has_header(&self, id: HeaderId) -> bool {
        self.note_field(id);
        self.head.parsed.has(id)
    }

    /// How the body comes. Fields do not say it alone: a stream of HTTP/2 or HTTP/3 may have a body without any.
    pub fn body_framing(&self) -> BodyFraming {
        // A request with a body gets no prepared answer: one has a field of these, the other comes on a stream.
        self.note_field(HeaderId::ContentLength);
        self.note_field(HeaderId::TransferEncoding);
        self.head.framing
    }

    /// The values of all headers of one name, in their order.
    pub fn headers(&self, id: HeaderId) -> impl Iterator<Item = &[u8]> {
        self.note_field(id);
        self.head.fields(id)
    }

    /// The value of the first request header with this name.
    pub fn header_named(&self, name: &[u8]) -> Option<&[u8]> {
        self.note_name(name);
        self.head.parsed.named(&self.head.buf, name).next().map(|h| h.value.of(&self.head.buf))
    }

    /// The values of all headers with this name, in their order.
    pub fn headers_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.note_name(name);
        self.head.parsed.named(&self.head.buf, name).map(|h| h.value.of(&self.head.buf))
    }

    /// Has handlers, subrequests and back ends see another value of a field, or none: for trace contexts, which each server writes anew.
    /// Whoever does so declares [`Declared::ANYTHING`].
    pub fn replace_field(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.note(Declared::ANYTHING);
        self.head.replace(name, value);
    }

    /// Names and values of all headers.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.depends_on(Dependencies::FIELD);
        self.head
            .parsed
            .headers
            .iter()
            .map(|h: &Header| (h.name.of(&self.head.buf), h.value.of(&self.head.buf)))
    }

    /// The head as it was parsed, and the bytes that its spans are of.
    pub fn sent_head(&self) -> (&RequestHead, &[u8]) {
        // Whoever has all of it may have read anything.
        self.depends_on(Dependencies::FIELD.or(Dependencies::MESSAGE));
        (&self.head.parsed, &self.head.buf)
    }

    /// The method as sent. Prepared answers are for GET alone, so this is not noted.
    pub fn sent_method(&self) -> Method {
        self.head.parsed.method
    }

    /// Its name; not noted either.
    pub fn sent_method_name(&self) -> &[u8] {
        self.head.parsed.method_name.of(&self.head.buf)
    }

    /// Bytes of the head; for buffers, so not noted.
    pub fn head_len(&self) -> usize {
        self.head.buf.len()
    }

    /// What the connection makes the process hold. No answer depends on it.
    pub fn account(&self) -> Option<&Rc<Account>> {
        self.client.connection().map(|conn| &conn.account)
    }

    /// The version of the protocol. Answers are kept for each version apart, so this is not noted.
    pub fn version(&self) -> Version {
        // HTTP/1.1 asks `is_usual` for the version; HTTP/2 and 3 have lists of their own.
        self.head.parsed.version
    }

    /// Which content codings the client accepts. One answer is kept per [`Request::encoding_class`], which has it.
    pub fn accepted_codings(&self) -> Preference {
        self.depends_on(Dependencies::CODINGS);
        self.raw_codings()
    }

    fn raw_codings(&self) -> Preference {
        let value = self.head.field(HeaderId::AcceptEncoding);
        value.map(Preference::parse).unwrap_or_default()
    }

    /// Whether the client is a proxy; part of [`Request::encoding_class`].
    pub fn is_proxied(&self) -> bool {
        // RFC 9110 §12.5.3 is about codings; nginx's `gzip_proxied` makes them depend on proxies, too.
        self.depends_on(Dependencies::CODINGS);
        self.head.parsed.has(HeaderId::Via)
    }

    /// Whether it is, and sends credentials; part of [`Request::encoding_class`].
    pub fn is_proxied_with_credentials(&self) -> bool {
        self.is_proxied() && self.head.parsed.has(HeaderId::Authorization)
    }

    /// What answers depend on that note [`Dependencies::CODINGS`]: the codings that the client accepts, whether it is a
    /// proxy, and whether that sends credentials.
    pub fn encoding_class(&self) -> u8 {
        let via = self.head.parsed.has(HeaderId::Via);
        let credentials = via && self.head.parsed.has(HeaderId::Authorization);
        // Six bits of codings and two of these: a class fits a byte.
        self.raw_codings().number() | u8::from(via) << 6 | u8::from(credentials) << 7
    }

    /// The connection.
    ///
    /// # Panics
    /// If the request has none: only templates of tests do without.
    #[inline]
    pub(crate) fn conn(&self) -> &Rc<Connection> {
        self.client.connection().expect("a request has a connection")
    }

    /// The address of the client: of the connection's other side, or what `real_ip_header` found.
    pub fn client_addr(&self) -> Peer {
        self.depends_on(Dependencies::CLIENT);
        self.state.shared.sender.get().map_or_else(|| self.conn().peer(), |sender| sender.peer)
    }

    /// [`Request::client_addr`] as `$remote_addr` shows it.
    pub fn client_text(&self) -> &[u8] {
        self.depends_on(Dependencies::CLIENT);
        self.state.shared.sender.get().map_or_else(|| self.conn().peer_text(), |sender| &sender.text)
    }

    /// Believes that the request comes from there; only once.
    pub fn set_sender(&self, sender: Sender) {
        let _ = self.state.shared.sender.set(sender);
    }

    /// The connection's other side. A proxy that is trusted may have told of another client: [`Request::client_addr`].
    pub fn peer(&self) -> Peer {
        self.depends_on(Dependencies::CLIENT);
        self.conn().peer()
    }

    /// The same as text, without the port.
    pub fn peer_text(&self) -> &[u8] {
        self.depends_on(Dependencies::CLIENT);
        self.conn().peer_text()
    }

    /// What a PROXY header has told.
    pub fn proxy_header(&self) -> Option<&ProxyHeader> {
        self.depends_on(Dependencies::CLIENT);
        self.conn().proxy()
    }

    /// Our side's address; `None` for a unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.depends_on(Dependencies::CONNECTION);
        self.conn().local()
    }

    /// The port of it. Answers are kept for each listening socket apart, so this is not noted.
    pub fn local_port(&self) -> Option<u16> {
        // The wildcard's port is the same for all addresses behind it.
        self.conn().local().map(|addr| addr.port())
    }

    /// Looks at the TLS session; `None` without one.
    pub fn tls_session<T>(&self, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.depends_on(Dependencies::TLS);
        self.conn().io.tls().map(|tls| tls.session(|session| look(session)))
    }

    /// What is known of the client from its handshake.
    pub fn tls_facts(&self) -> Option<&Facts> {
        self.depends_on(Dependencies::TLS);
        self.conn().secure.get().map(|facts| &**facts)
    }

    /// Whether the client's certificate is trusted, by the rules of its handshake.
    pub fn tls_verdict<'f>(&self, facts: &'f Facts) -> &'f Verdict {
        self.depends_on(Dependencies::TLS);
        facts.verdict(&self.conn().io)
    }

    /// The scheme as clients see it. It is the socket's, and answers are kept for each socket apart.
    pub fn scheme(&self) -> &'static str {
        if self.client.connection().is_some_and(|conn| conn.io.tls().is_some()) { "https" } else { "http" }
    }

    /// The present second (since 1970), for what the answer says of it. The answer is kept for the rest of it, and no longer.
    pub fn this_second(&self) -> i64 {
        let now = clock::now().unix_secs;
        self.good_until(now);
        now
    }

    /// The answer is the same up to the end of this second (since 1970): it is kept no longer.
    pub fn good_until(&self, second: i64) {
        // Only earlier: several times in one answer mean the first of them.
        self.evidence.same_until.set(self.evidence.same_until.get().min(second));
    }

    /// The present time, for what an answer says of it beyond that.
    pub fn now(&self) -> Now {
        self.depends_on(Dependencies::TIME);
        clock::now()
    }
}
