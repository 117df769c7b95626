//! Handlers and filters of a plan in a process that traces: each with its module's name around it.
//!
//! A step does what the handler in it does and notes what that decides. One that would do more than answer is left out.

use super::{Decision, Kind, Note, Source, keep, runs};
use crate::flow::{Flow, Pending, Waiter};
use crate::plan::{Declared, Filter, Handler, Page, Pages, Plan};
use crate::request::Request;
use crate::request::route::Phase;
use brisk_http::Method;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Whose each handler of a plan is, by its address.
#[derive(Default)]
/// By address, since a handler has no name: what is in a plan after a module's `install` and was not before
/// is that module's.
pub(crate) struct Owners(Vec<(*const (), &'static str)>);

fn address<T: ?Sized>(of: &Arc<T>) -> *const () {
    Arc::as_ptr(of).cast()
}

fn lists(plan: &Plan) -> [&Vec<Arc<dyn Handler>>; 4] {
    [&plan.post_read, &plan.preaccess, &plan.access, &plan.precontent]
}

impl Owners {
    /// What is in the plan and was not before is this module's.
    pub fn learn(&mut self, module: &'static str, plan: &Plan) {
        let handlers = lists(plan).into_iter().flatten().chain(&plan.rewrite).chain(&plan.content);
        let handlers = handlers.chain(plan.content_chain.iter().map(|(_, handler)| handler)).map(address);
        let filters = plan.filters.iter().map(|(_, filter)| address(filter));
        let pages = plan.pages.iter().map(address);
        for address in handlers.chain(filters).chain(pages) {
            // One handler may stand in several lists; it belongs to the first who has put it there.
            if self.of(address).is_empty() {
                self.0.push((address, module));
            }
        }
    }

    fn of(&self, address: *const ()) -> &'static str {
        self.0.iter().find(|(known, _)| *known == address).map_or("", |(_, module)| module)
    }

    /// Puts a step around all that the plan has. Nothing is told to logs.
    pub fn enclose(&self, plan: &mut Plan) {
        let step = |handler: &mut Arc<dyn Handler>, is_owner: bool| {
            let module = self.of(address(handler));
            *handler = Arc::new(Step { handler: handler.clone(), module, is_owner });
        };
        let Plan { post_read, preaccess, access, precontent, .. } = plan;
        for list in [post_read, preaccess, access, precontent] {
            list.iter_mut().for_each(|handler| step(handler, false));
        }
        plan.rewrite.iter_mut().for_each(|handler| step(handler, false));
        // A location's own handler makes the answer. Without it the trace ends.
        plan.content.iter_mut().for_each(|handler| step(handler, true));
        plan.content_chain.iter_mut().for_each(|(_, handler)| step(handler, false));
        for (_, filter) in &mut plan.filters {
            let module = self.of(address(filter));
            *filter = Arc::new(Seen { filter: filter.clone(), module });
        }
        if let Some(pages) = &mut plan.pages {
            let module = self.of(address(pages));
            *pages = Arc::new(Shown { pages: pages.clone(), module });
        }
        // A process that traces has no clients, so its lines would be lies in a log.
        plan.log.clear();
    }
}

fn note(r: &Request, module: &'static str, kind: Kind, text: String) {
    keep(Note { module, source: Source::Unknown, ..Note::new(&r.route, kind, text) });
}

/// A handler with its module's name.
struct Step {
    handler: Arc<dyn Handler>,
    module: &'static str,
    /// The location is its own: no other handler is asked for content.
    is_owner: bool,
}

impl Handler for Step {
    fn handle(&self, r: &mut Request) -> Flow {
        if !runs(self.module) {
            // Nothing is sent, stored or counted for a question.
            return self.leave_out(r);
        }
        let flow = self.handler.handle(r);
        told(r, self.module, flow)
    }

    fn identifies(&self) -> bool {
        self.handler.identifies()
    }

    fn decides(&self, r: &Request) -> bool {
        self.handler.decides(r)
    }

    // Unchanged: steps must not make an answer look purer than it is.
    fn declares(&self) -> Declared {
        self.handler.declares()
    }
}

impl Step {
    /// What makes the answer ends the trace. What only decides is taken to have nothing against the request, and one of several that
    /// look for content to have found none, unless the method is one that changes something.
    fn leave_out(&self, r: &Request) -> Flow {
        let phase = r.route.cursor.phase;
        let changes = !matches!(r.route.method, Method::Get | Method::Head);
        let (text, flow) = if self.is_owner || (phase == Phase::Content && changes) {
            ("would make the answer; the trace ends here", Flow::Close)
        } else if phase == Phase::Access {
            ("was not asked; the trace goes on as if it had let the request in", Flow::Next)
        } else {
            ("was not carried out; the trace goes on without it", Flow::Next)
        };
        note(r, self.module, Kind::LeftOut, text.into());
        flow
    }
}

/// Notes what a handler has decided, now or when it has waited.
fn told(r: &Request, module: &'static str, flow: Flow) -> Flow {
    let (decision, text) = match flow {
        Flow::Disk(_) | Flow::Again => return flow,
        Flow::Wait(waiter) => return Flow::Wait(watched(waiter, module)),
        Flow::Pending(pending) => return Flow::Pending(Box::new(Watched { pending, module })),
        Flow::Next => (Decision::Next, String::new()),
        Flow::Allowed => (Decision::Allowed, "lets the request in".into()),
        Flow::Done => {
            let status = if r.resp.status == 0 { 200 } else { r.resp.status };
            (Decision::Done(status), format!("answers with {status}"))
        }
        Flow::Status(status) => (Decision::Status(status), format!("ends the request with {status}")),
        Flow::Redirect { ref uri, .. } | Flow::RedirectAsClient { ref uri, .. } => {
            let text = format!("leads to {} inside of the server", String::from_utf8_lossy(uri));
            (Decision::Elsewhere, text)
        }
        Flow::Named(ref name) => {
            (Decision::Elsewhere, format!("leads to location {}", String::from_utf8_lossy(name)))
        }
        Flow::Anew => {
            (Decision::Elsewhere, "has the steps before there is content gone through once more".into())
        }
        Flow::Enter(_) => (Decision::Elsewhere, "goes on with what files of folders add".into()),
        Flow::Close => (Decision::Close, "closes the connection without an answer".into()),
    };
    note(r, module, Kind::Step(decision), text);
    flow
}

fn watched(waiter: Waiter, module: &'static str) -> Waiter {
    Box::new(move |r| {
        Box::pin(async move {
            let flow = waiter(r).await;
            told(r, module, flow)
        })
    })
}

struct Watched {
    pending: Box<dyn Pending>,
    module: &'static str,
}

impl Pending for Watched {
    fn poll(&mut self, r: &mut Request, cx: &mut Context<'_>) -> Poll<Flow> {
        self.pending.poll(r, cx).map(|flow| told(r, self.module, flow))
    }
}

/// A filter with its module's name.
struct Seen {
    filter: Arc<dyn Filter>,
    module: &'static str,
}

impl Filter for Seen {
    fn filter(&self, r: &mut Request) {
        let fields = |r: &Request| -> Vec<String> {
            let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            r.resp.headers.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
        };
        let before = fields(r);
        self.filter.filter(r);
        for field in fields(r).into_iter().filter(|field| !before.contains(field)) {
            note(r, self.module, Kind::Field, field);
        }
    }

    fn wait(&self, r: &mut Request) -> Option<Waiter> {
        self.filter.wait(r)
    }

    fn reads(&self, r: &Request) -> bool {
        self.filter.reads(r)
    }

    fn declares(&self) -> Declared {
        self.filter.declares()
    }
}

/// Pages of errors with their module's name.
struct Shown {
    pages: Arc<dyn Pages>,
    module: &'static str,
}

impl Pages for Shown {
    fn page(&self, r: &mut Request, status: u16) -> Option<Page> {
        let page = self.pages.page(r, status);
        let text = match &page {
            None => return page,
            Some(Page::Builtin) => "the built-in page".into(),
            Some(Page::Text(_)) => "a text".into(),
            Some(Page::Path(path)) => format!("the page {}", String::from_utf8_lossy(path)),
            Some(Page::Url(url)) => format!("a redirect to {}", String::from_utf8_lossy(url)),
        };
        note(r, self.module, Kind::Page, format!("for {status}: {text}"));
        page
    }

    fn given_up(&self, r: &mut Request) {
        note(r, self.module, Kind::Page, "the page has failed: the built-in one".into());
        self.pages.given_up(r);
    }
}
