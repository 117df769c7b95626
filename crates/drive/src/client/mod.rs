//! An HTTP client for what is not known beforehand: one exchange at a time over kept connections, with every moment noted.
//!
//! It runs as tasks of `brisk-net`'s event loop and speaks HTTP/1.1 ([`h1`]) and HTTP/2 ([`h2`]) with the same code for
//! framing that the server has. Load of prepared requests is not its business: the engine of `brisk-load` is far cheaper.

mod cookies;
pub mod decode;
mod dial;
mod failure;
mod h1;
mod h2;
mod line;
mod message;
mod run;

pub use brisk_load::url::{Origin, Place, Url};
pub use dial::TlsFacts;
pub use failure::{Failure, Fault};
pub use line::Network;
pub use message::{Exchange, Fields, Moment, Note, Phases, Request, Watcher};
pub use run::{block_on, unless_interrupted};

use brisk_load::plan::Resolve;
use brisk_load::proxy::Proxy;
use brisk_net::timeout;
use brisk_tls::{ClientContext, ClientOptions, Trust, Verification};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dial::Link;
use line::Line;

/// Which versions of HTTP are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/2 if TLS agrees on it, else HTTP/1.1.
    #[default]
    Any,
    /// HTTP/1.1 alone.
    H1,
    /// HTTP/2 alone: by ALPN with TLS, by prior knowledge without (RFC 9113 §3.3).
    H2,
}

/// How a client behaves.
#[derive(Clone)]
pub struct Options {
    /// What is spoken.
    pub version: Version,
    /// Any certificate is taken.
    pub insecure: bool,
    /// The longest time for one exchange, connecting included.
    pub timeout: Duration,
    /// Bytes of a body that are kept; what exceeds them is counted and dropped.
    pub body_max: usize,
    /// Idle HTTP/1.1 connections are kept for the next exchange.
    pub keep_alive: bool,
    /// TLS sessions are resumed.
    pub resume: bool,
    /// Where names are, in place of look-ups.
    pub resolve: Vec<Resolve>,
    /// What requests go through.
    pub proxy: Option<Proxy>,
    /// Each client's access to the network; None for what the machine has.
    pub network: Option<Network>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Version::Any,
            insecure: false,
            timeout: Duration::from_secs(30),
            body_max: 64 << 20,
            keep_alive: true,
            resume: true,
            resolve: Vec::new(),
            proxy: None,
            network: None,
        }
    }
}

/// What all clients of a thread share: TLS settings and looked-up names.
pub struct Common {
    pub(crate) options: Options,
    pub(crate) tls: ClientContext,
    pub(crate) names: RefCell<HashMap<(String, u16), Vec<SocketAddr>>>,
}

/// Where Debian, Fedora and SUSE keep the authorities that everyone trusts.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

impl Common {
    /// Reads the system's authorities, unless any certificate is taken.
    pub fn new(options: Options) -> Result<Rc<Self>, String> {
        let alpn: &[&[u8]] = match options.version {
            Version::Any => &[b"h2", b"http/1.1"],
            Version::H1 => &[b"http/1.1"],
            Version::H2 => &[b"h2"],
        };
        let verification = if options.insecure {
            Verification::Off
        } else {
            Verification::On { trust: Arc::new(system_trust()), depth: 8 }
        };
        let tls = ClientContext::new(&ClientOptions {
            alpn: alpn.iter().map(|name| name.to_vec()).collect(),
            no_resumption: !options.resume,
            ..ClientOptions::new(verification)
        })?;
        let known = |known: &Resolve| {
            let at = SocketAddr::new(known.address, known.port);
            ((known.host.to_ascii_lowercase(), known.port), vec![at])
        };
        let names = RefCell::new(options.resolve.iter().map(known).collect());
        Ok(Rc::new(Self { options, tls, names }))
    }
}

/// The authorities of this machine, or of `SSL_CERT_FILE`; none if there are none: then every certificate is refused.
fn system_trust() -> Trust {
    let mut trust = Trust::default();
    let own = std::env::var_os("SSL_CERT_FILE");
    let paths = own.iter().map(Path::new).chain(AUTHORITIES.iter().map(Path::new));
    for path in paths {
        if let Ok(text) = std::fs::read(path)
            && trust.add(&text).is_ok()
        {
            break;
        }
    }
    trust
}

/// One user's connections.
pub struct Client {
    common: Rc<Common>,
    idle: RefCell<HashMap<Origin, Vec<h1::Conn>>>,
    shared: RefCell<HashMap<Origin, h2::Conn>>,
    watcher: Option<Watcher>,
    line: Option<Rc<Line>>,
}

impl Client {
    /// A client without connections.
    pub fn new(common: &Rc<Common>) -> Self {
        Self {
            common: Rc::clone(common),
            idle: RefCell::default(),
            shared: RefCell::default(),
            watcher: None,
            line: common.options.network.map(Line::new),
        }
    }

    /// Tells everything that happens on the wire.
    #[must_use]
    pub fn watched(mut self, watcher: Watcher) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// One request and its response, within the time that [`Options::timeout`] allows. Redirects are not followed.
    pub async fn exchange(&self, request: &Request) -> Result<Exchange, Failure> {
        let began = Moment::now();
        match timeout(self.common.options.timeout, self.attempt(request, began)).await {
            Ok(done) => done,
            Err(_) => Err(Failure::new(
                Fault::Timeout,
                format!("no whole response within {} ms", self.common.options.timeout.as_millis()),
            )),
        }
    }

    async fn attempt(&self, request: &Request, began: Moment) -> Result<Exchange, Failure> {
        let origin = &request.url.origin;
        let kept = self.shared.borrow().get(origin).filter(|conn| conn.is_usable()).cloned();
        if let Some(conn) = kept {
            return conn.exchange(request, Phases::new(began), true, self.common.options.body_max).await;
        }
        let kept = self.idle.borrow_mut().get_mut(origin).and_then(Vec::pop);
        if let Some(conn) = kept {
            match self.over_h1(conn, request, Phases::new(began), true).await {
                // The server has closed it meanwhile: that says nothing of the request (RFC 9112 §9.3.1).
                Err(failure) if failure.before_response && request.is_repeatable() => {
                    let exchange = self.over_new(request, Phases::new(began)).await?;
                    return Ok(Exchange { asked_again: true, ..exchange });
                }
                done => return done,
            }
        }
        self.over_new(request, Phases::new(began)).await
    }

    async fn over_new(&self, request: &Request, mut phases: Phases) -> Result<Exchange, Failure> {
        let link = dial::dial(&self.common, self.line.as_ref(), &request.url.origin, &mut phases).await?;
        let Link { stream, is_h2, facts, peer } = link;
        if is_h2 {
            let conn = h2::Conn::start(stream, facts, peer, self.watcher.clone());
            self.shared.borrow_mut().insert(request.url.origin.clone(), conn.clone());
            return conn.exchange(request, phases, false, self.common.options.body_max).await;
        }
        self.over_h1(h1::Conn::new(stream, facts, peer), request, phases, false).await
    }

    async fn over_h1(
        &self,
        mut conn: h1::Conn,
        request: &Request,
        phases: Phases,
        reused: bool,
    ) -> Result<Exchange, Failure> {
        let options = &self.common.options;
        let exchange = conn.exchange(request, phases, reused, options, self.watcher.as_ref()).await?;
        if conn.is_reusable() && options.keep_alive {
            self.idle.borrow_mut().entry(request.url.origin.clone()).or_default().push(conn);
        }
        Ok(exchange)
    }

    /// Drops all connections.
    pub fn close(&self) {
        self.idle.borrow_mut().clear();
        self.shared.borrow_mut().clear();
    }
}
