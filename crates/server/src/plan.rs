//! What a request does in one location: only what is configured there.

use crate::flow::{Flow, Waiter};
pub use crate::purity::{Declared, Dependencies, Effects, Purity};
use crate::request::Request;
use brisk_conf::Diag;
use std::any::Any;
use std::sync::Arc;

/// One step of a phase. Plain functions: a handler that must wait says so with [`Flow::Disk`] or [`Flow::Wait`].
pub trait Handler: Send + Sync {
    /// Does its step, and says how the request goes on. After [`Flow::Disk`] it is called again.
    /// What it has done before `Disk` it does twice, so nothing is counted or changed before all files are
    /// there.
    fn handle(&self, r: &mut Request) -> Flow;

    /// Whether it lets in only who has said, and proven, who they are: not by an address.
    /// `.htaccess` and `satisfy` ask: an address can be shared, a password cannot be met by accident.
    fn identifies(&self) -> bool {
        false
    }

    /// Whether it lets in or refuses whoever sends this request, of handlers that decide about access: a list that names others only has
    /// nothing to say of it.
    fn decides(&self, r: &Request) -> bool {
        let _ = r;
        self.identifies()
    }

    /// What its decision depends on, and what it does besides.
    /// The default is everything, so one who forgets costs speed and leaks nothing.
    fn declares(&self) -> Declared {
        Declared::default()
    }
}

impl<F: Fn(&mut Request) -> Flow + Send + Sync> Handler for F {
    fn handle(&self, r: &mut Request) -> Flow {
        self(r)
    }
}

/// A handler with what it declares: for functions, which cannot say it themselves.
pub struct Declaring<H>(pub Declared, pub H);

impl<H: Handler> Handler for Declaring<H> {
    fn handle(&self, r: &mut Request) -> Flow {
        self.1.handle(r)
    }

    fn declares(&self) -> Declared {
        self.0
    }
}

/// Works on a response before it is sent: changes headers, wraps the body.
pub trait Filter: Send + Sync {
    /// Changes the response; neither waits nor fails.
    fn filter(&self, r: &mut Request);

    /// Asked instead of [`filter`](Filter::filter) where the head depends on the whole body: what must be awaited
    /// first. [`Flow::Next`] then goes on with the filters that follow; anything else takes the response's place.
    fn wait(&self, r: &mut Request) -> Option<Waiter> {
        let _ = r;
        None
    }

    /// Whether it would read or change the content of this response, whose type is known. Asked of filters of the stages that work on content
    /// only: what was compressed beforehand would pass them by.
    fn reads(&self, r: &Request) -> bool {
        let _ = r;
        true
    }

    /// What its work depends on, and what it does besides.
    fn declares(&self) -> Declared {
        Declared::default()
    }
}

/// What is answered with a status in the place of what `error_page` says.
pub enum Page {
    /// The built-in page.
    Builtin,
    /// A page of HTML.
    Text(Vec<u8>),
    /// A path of this server, with arguments behind its `?`, by an internal redirect.
    Path(Vec<u8>),
    /// A URL, by a redirect.
    Url(Vec<u8>),
}

/// Pages for statuses that are found out for each request.
pub trait Pages: Send + Sync {
    /// The page for a status; `None`: what `error_page` says.
    fn page(&self, r: &mut Request, status: u16) -> Option<Page>;

    /// The page that it has named last has failed: the built-in one of the first error is sent. Puts the request back to where it had that.
    fn given_up(&self, r: &mut Request);
}

/// Writes a line, counts a request: runs when the response is sent or given up.
pub trait LogHandler: Send + Sync {
    /// Is called once for each request, also for one that was given up before its response was complete.
    fn log(&self, r: &Request);

    /// Whether it is called for subrequests, too, where `log_subrequest` is on. What counts requests or tells of them counts those of clients.
    fn logs_subrequests(&self) -> bool {
        false
    }

    /// What it writes depends on beyond what a request with a prepared answer has: its own fields and facts, the
    /// response's status and length, and what is in [`State::own`](crate::request::State::own).
    fn declares(&self) -> Declared {
        Declared::default()
    }
}

/// Fields that are computed when the body is at its end.
pub trait Trailers {
    /// Adds them to [`Response::sent_trailers`](crate::response::Response::sent_trailers).
    fn append(&self, r: &Request);

    /// Whether they are worth chunks in place of a known length, where it takes that to send them.
    fn needs_chunks(&self) -> bool {
        true
    }
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
    /// Whether the filters work on content as it is before it is coded.
    fn is_on_content(self) -> bool {
        (Stage::Substitution..=Stage::Surroundings).contains(&self)
    }

    /// Whether the filters also work on subrequests: on what becomes part of another response, which has its own
    /// headers.
    pub(crate) fn is_for_parts(self) -> bool {
        // From the first to the last that works on content. Conditions, headers, coding and ranges belong to
        // the whole response.
        (Stage::Decoding..=Stage::Surroundings).contains(&self)
    }
}

/// What handlers of a plan rely on in a named location of the server, to which they lead requests; kept by [`Plan::put`]. The configuration is
/// refused where that location lacks it.
pub struct Needs {
    /// The location's name.
    pub location: Box<[u8]>,
    /// Whether its plan has it.
    pub holds: fn(&Plan) -> bool,
    /// What is said otherwise.
    pub mistake: Diag,
}

/// Takes of a request what its copies need that begin at the content handler ([`Again`](crate::subrequest::Again)): they do not pass the
/// steps that have found it out. What it returns gives that to each copy.
pub type Carry = fn(&Request) -> Carried;

/// See [`Carry`].
pub type Carried = Box<dyn Fn(&mut Request)>;

/// Handlers and filters of one location, by phase.
#[derive(Default)]
pub struct Plan {
    /// What copies of a request at the content handler need of it.
    pub carried: Vec<Carry>,
    /// Of the server block: once, before anything else is done with the request.
    pub post_read: Vec<Arc<dyn Handler>>,
    /// The script of `rewrite`, `return`, `if` and `set`, in the server rewrite or the rewrite phase.
    pub rewrite: Option<Arc<dyn Handler>>,
    /// Limits: what counts requests before it is asked whether they may come in.
    pub preaccess: Vec<Arc<dyn Handler>>,
    /// Who may come in: `satisfy` says whether one or all must allow it.
    pub access: Vec<Arc<dyn Handler>>,
    /// What leads elsewhere before there is content: `try_files`, `mirror`.
    pub precontent: Vec<Arc<dyn Handler>>,
    /// The one handler that owns the location, e.g. a proxy; `None`: the chain below.
    pub content: Option<Arc<dyn Handler>>,
    /// The handler's URIs lie below the location: `/x` is redirected to `/x/` if that is the location (proxies).
    pub auto_redirect: bool,
    /// Asked before `error_page`. It reads the request through accessors that record, and does nothing besides.
    pub pages: Option<Arc<dyn Pages>>,
    /// More directives may be compiled into the location after the start ([`late`](crate::late)).
    pub is_extended_later: bool,
    /// Asked in order when nobody owns the location.
    pub content_chain: Vec<(u8, Arc<dyn Handler>)>,
    /// What changes the response, in the order of stages once the plan is sealed.
    pub filters: Vec<(Stage, Arc<dyn Filter>)>,
    /// What tells of the request at its end.
    pub log: Vec<Arc<dyn LogHandler>>,
    declared: Steps,
    /// What modules' variables look up here, by type.
    data: Vec<Arc<dyn Any + Send + Sync>>,
}

/// What the steps of a plan declare, each with all its handlers. Anything until the plan is sealed.
#[derive(Clone, Copy, Default)]
struct Steps {
    post_read: Declared,
    rewrite: Declared,
    rest: Declared,
}

impl Plan {
    /// Whether a filter would read or change the content of the response as it is.
    pub fn reads_content(&self, r: &Request) -> bool {
        self.filters.iter().any(|(stage, filter)| stage.is_on_content() && filter.reads(r))
    }

    /// Adds a filter.
    pub fn add_filter(&mut self, stage: Stage, filter: Arc<dyn Filter>) {
        self.filters.push((stage, filter));
    }

    /// Adds a content handler to the chain; a lower `order` is asked first (nginx: random_index 10, index 20,
    /// autoindex 30, dav 40, gzip_static 50, static 60).
    pub fn add_content(&mut self, order: u8, handler: Arc<dyn Handler>) {
        self.content_chain.push((order, handler));
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        let handlers = [&self.post_read, &self.preaccess, &self.access, &self.precontent];
        handlers.iter().all(|handlers| handlers.is_empty())
            && (self.content_chain.is_empty() && self.filters.is_empty() && self.log.is_empty())
            && (self.rewrite.is_none() && self.content.is_none() && self.pages.is_none())
            && !(self.auto_redirect || self.is_extended_later)
            && self.data.is_empty()
            && self.carried.is_empty()
    }

    /// Keeps something for [`Plan::data`].
    pub fn put<T: Any + Send + Sync>(&mut self, value: Arc<T>) {
        // Few values, so a list is searched by type.
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

    /// What the handlers before anything else declare.
    pub fn of_post_read(&self) -> Declared {
        self.declared.post_read
    }

    /// What the rewrite handler declares.
    pub fn of_rewrite(&self) -> Declared {
        self.declared.rewrite
    }

    /// What all others declare, and the core's own steps.
    pub fn of_rest(&self) -> Declared {
        self.declared.rest
    }

    /// Who may get an answer that went through the whole plan, as far as that is known before there is a request.
    pub fn purity(&self) -> Purity {
        let steps = &self.declared;
        steps.post_read.and(steps.rewrite).and(steps.rest).purity()
    }

    /// Puts everything into its final order and adds up what is declared; called once, when the location is complete.
    /// `core`: what the core's own steps declare.
    /// Before that nothing may be prepared: a handler that is added later would be missing in the sum.
    pub(crate) fn seal(&mut self, core: Declared) {
        let of = |handlers: &[Arc<dyn Handler>]| {
            handlers.iter().fold(Declared::RECORDED, |sum, handler| sum.and(handler.declares()))
        };
        let content = self.content_chain.iter().map(|(_, handler)| handler).chain(&self.content);
        let content = content.fold(core, |sum, handler| sum.and(handler.declares()));
        let filters = self.filters.iter().fold(content, |sum, (_, filter)| sum.and(filter.declares()));
        let logs = self.log.iter().fold(filters, |sum, handler| sum.and(handler.declares()));
        self.declared = Steps {
            post_read: of(&self.post_read),
            rewrite: self.rewrite.as_ref().map_or(Declared::RECORDED, |handler| handler.declares()),
            rest: logs.and(of(&self.preaccess)).and(of(&self.access)).and(of(&self.precontent)),
        };
        // Stable: filters of one stage keep the order of their modules.
        self.filters.sort_by_key(|(stage, _)| *stage);
        self.content_chain.sort_by_key(|(order, _)| *order);
        // Plans live as long as their configuration, and there may be thousands.
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
