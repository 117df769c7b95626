//! An HTTP client for what is not known beforehand: one exchange at a time over kept connections, with every moment noted.
//!
//! It runs as tasks of `brisk-net`'s event loop and speaks HTTP/1.1 ([`h1`]), HTTP/2 ([`h2`]) and HTTP/3 ([`h3`]) with the same code for
//! framing that the server has. Load of prepared requests is not its business: the engine of `brisk-load` is far cheaper.

mod common;
mod cookies;
pub mod decode;
mod dial;
mod failure;
mod h1;
mod h2;
mod h3;
mod incoming;
mod line;
mod message;
mod run;
mod shared;

pub use brisk_load::url::{Origin, Place, Url};
pub use common::{Common, Options, Version};
pub use failure::{Failure, Fault};
pub use line::Network;
pub use message::{Exchange, Fields, Moment, Note, Phases, Request, TlsFacts, Watcher, is_redirect};
pub use run::{block_on, unless_interrupted};

use brisk_net::timeout;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use dial::Link;
use line::Line;

/// One user's connections.
pub struct Client {
    common: Rc<Common>,
    idle: RefCell<HashMap<Origin, Vec<h1::Conn>>>,
    shared: RefCell<HashMap<Origin, h2::Conn>>,
    datagrams: RefCell<HashMap<Origin, h3::Conn>>,
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
            datagrams: RefCell::default(),
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
        if self.common.options.version == Version::H3 {
            return self.over_h3(request, Phases::new(began)).await;
        }
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

    async fn over_h3(&self, request: &Request, mut phases: Phases) -> Result<Exchange, Failure> {
        let (origin, body_max) = (&request.url.origin, self.common.options.body_max);
        let kept = self.datagrams.borrow().get(origin).filter(|conn| conn.is_usable()).cloned();
        if let Some(conn) = kept {
            return conn.exchange(request, phases, true, body_max).await;
        }
        let conn = h3::Conn::dial(&self.common, origin, &mut phases, self.watcher.clone()).await?;
        self.datagrams.borrow_mut().insert(origin.clone(), conn.clone());
        conn.exchange(request, phases, false, body_max).await
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
        self.datagrams.borrow_mut().clear();
    }
}
