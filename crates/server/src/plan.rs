//! What a request does in one location: only what is configured there.

use crate::flow::{Flow, Waiter};
use crate::request::Request;
use std::any::Any;
use std::sync::Arc;

/// One step of a phase. Plain functions: a handler that must wait says so with [`Flow::Disk`] or [`Flow::Wait`].
pub trait Handler: Send + Sync {
    fn handle(&self, r: &mut Request) -> Flow;
}

impl<F: Fn(&mut Request) -> Flow + Send + Sync> Handler for F {
    fn handle(&self, r: &mut Request) -> Flow {
        self(r)
    }
}

/// Works on a response before it is sent: changes headers, wraps the body.
pub trait Filter: Send + Sync {
    fn filter(&self, r: &mut Request);

    /// Asked instead of [`filter`](Filter::filter) where the head depends on the whole body: what must be awaited
    /// first. [`Flow::Next`] then goes on with the filters that follow; anything else takes the response's place.
    fn wait(&self, r: &mut Request) -> Option<Waiter> {
        let _ = r;
        None
    }
}

/// Writes a line, counts a request: runs when the response is sent or given up.
pub trait LogHandler: Send + Sync {
    fn log(&self, r: &Request);
}

/// The order of filters, outermost last. Registration order never matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// `304`/`412` before anything is done to the body.
    NotModified,
    /// `add_header`, `expires`, cookies: as in nginx they see the response before it is recoded or compressed.
    Headers,
    /// Undoes a coding that the client does not accept, or that later filters could not read through.
    Decoding,
    /// Replaces text: `sub_filter`.
    Substitution,
    /// Changes the content as a whole: images.
    Content,
    /// Recodes: charset.
    Charset,
    /// Carries out what the content asks for: SSI. What it includes has passed the filters of its own location, and
    /// so is not touched by those above.
    Inclusion,
    /// Puts other answers before and behind the body: `addition`.
    Surroundings,
    /// Compresses.
    Coding,
    /// Cuts ranges out of the finished body.
    Range,
}

impl Stage {
    /// Whether the filters also work on subrequests: on what becomes part of another response, which has its own
    /// headers.
    pub(crate) fn is_for_parts(self) -> bool {
        (Stage::Decoding..=Stage::Surroundings).contains(&self)
    }
}

/// Whether an answer may be kept and given again to the same request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purity {
    /// Depends only on the request target, the host and the files looked at.
    Pure,
    /// Also on which content codings the client accepts: on [`Request::encoding_class`] and nothing else.
    ByEncoding,
    /// Looks at anything else: other headers, the client, the clock.
    Impure,
}

/// Handlers and filters of one location, by phase.
pub struct Plan {
    /// Of the server block: once, before anything else is done with the request.
    pub post_read: Vec<Arc<dyn Handler>>,
    pub rewrite: Option<Arc<dyn Handler>>,
    pub preaccess: Vec<Arc<dyn Handler>>,
    pub access: Vec<Arc<dyn Handler>>,
    pub precontent: Vec<Arc<dyn Handler>>,
    /// The one handler that owns the location, e.g. a proxy; `None`: the chain below.
    pub content: Option<Arc<dyn Handler>>,
    /// The handler's URIs lie below the location: `/x` is redirected to `/x/` if that is the location (proxies).
    pub auto_redirect: bool,
    /// Asked in order when nobody owns the location.
    pub content_chain: Vec<(u8, Arc<dyn Handler>)>,
    pub filters: Vec<(Stage, Arc<dyn Filter>)>,
    pub log: Vec<Arc<dyn LogHandler>>,
    pub purity: Purity,
    /// What modules' variables look up here, by type.
    data: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            post_read: Vec::new(),
            rewrite: None,
            preaccess: Vec::new(),
            access: Vec::new(),
            precontent: Vec::new(),
            content: None,
            auto_redirect: false,
            content_chain: Vec::new(),
            filters: Vec::new(),
            log: Vec::new(),
            purity: Purity::Pure,
            data: Vec::new(),
        }
    }
}

impl Plan {
    /// Adds a filter; `purity` says whether its result depends on more than the target.
    pub fn add_filter(&mut self, stage: Stage, purity: Purity, filter: Arc<dyn Filter>) {
        self.filters.push((stage, filter));
        self.note(purity);
    }

    /// Adds a content handler to the chain; a lower `order` is asked first (nginx: random_index 10, index 20,
    /// autoindex 30, dav 40, gzip_static 50, static 60).
    pub fn add_content(&mut self, order: u8, handler: Arc<dyn Handler>) {
        self.content_chain.push((order, handler));
    }

    /// Keeps something for [`Plan::data`].
    pub fn put<T: Any + Send + Sync>(&mut self, value: Arc<T>) {
        self.data.push(value);
    }

    /// What a module put here: for variables, which belong to no phase.
    pub fn data<T: Any>(&self) -> Option<&T> {
        self.data.iter().find_map(|value| value.downcast_ref())
    }

    /// As [`Plan::data`], to be kept.
    pub fn shared_data<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.data.iter().find_map(|value| value.clone().downcast().ok())
    }

    pub fn note(&mut self, purity: Purity) {
        self.purity = self.purity.max(purity);
    }

    /// Puts everything into its final order; called once, when the location is complete.
    pub(crate) fn seal(&mut self) {
        self.filters.sort_by_key(|(stage, _)| *stage);
        self.content_chain.sort_by_key(|(order, _)| *order);
        self.post_read.shrink_to_fit();
        self.preaccess.shrink_to_fit();
        self.access.shrink_to_fit();
        self.precontent.shrink_to_fit();
        self.content_chain.shrink_to_fit();
        self.filters.shrink_to_fit();
        self.log.shrink_to_fit();
        self.data.shrink_to_fit();
    }
}
