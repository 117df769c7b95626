//! Subrequests: a location's answer as a part of another answer, or as a condition for it (SSI, `auth_request`,
//! `addition`, `mirror`, `slice`).
//!
//! A subrequest is a request of its own that re-enters the phases: same connection, same head, same variables, another
//! URI. Its response is not serialised: whoever asked takes its status and headers, and pulls its body.

use crate::body::{Content, RequestBody};
use crate::common::Common;
use crate::conf::ServerId;
use crate::connection::Connection;
use crate::h2::Exchange;
use crate::limits::SUBREQUEST_DEPTH_MAX;
use crate::phases::{self, Cursor, Phase, Run};
use crate::request::Request;
use crate::thread::{Live, Thread};
use crate::vars::Store;
use brisk_http::uri::Target;
use brisk_http::{Method, RequestHead};
use brisk_net::clock::Now;
use std::rc::Rc;

/// What subrequests of one request start from. Body streams keep it to ask later.
pub struct Parent {
    buf: Rc<[u8]>,
    head: RequestHead,
    target: Target,
    host: Vec<u8>,
    port: Option<u16>,
    conn: Option<Rc<Connection>>,
    link: Option<Rc<Exchange>>,
    thread: Rc<Thread>,
    live: Rc<Live>,
    server: ServerId,
    vars: Rc<Store>,
    common: Rc<Common>,
    /// The body, if the request has read it. A subrequest never reads: what comes is the request's.
    body: Rc<Content>,
    depth: u8,
    started: Now,
}

impl Parent {
    pub fn of(r: &Request) -> Rc<Parent> {
        let body = r.body.content().cloned().unwrap_or_else(|| Rc::new(Content::None));
        Rc::new(Parent::with_body(r, body))
    }

    /// For subrequests that are not to see the body.
    pub fn without_body(r: &Request) -> Rc<Parent> {
        Rc::new(Parent::with_body(r, Rc::new(Content::None)))
    }

    fn with_body(r: &Request, body: Rc<Content>) -> Parent {
        Parent {
            buf: r.buf.as_slice().into(),
            head: r.head.clone(),
            target: r.target.clone(),
            host: r.host.clone(),
            port: r.port,
            conn: r.conn.clone(),
            link: r.link.clone(),
            thread: r.thread.clone(),
            live: r.live.clone(),
            server: r.server,
            vars: r.vars.clone(),
            common: r.common.clone(),
            body,
            depth: r.depth,
            started: r.started,
        }
    }

    /// Runs a GET (or HEAD) of `uri` and gives the finished subrequest; its response is in
    /// [`resp`](Request::resp). `None` if subrequests are nested too deeply or the location closed the connection.
    pub async fn run(&self, method: Method, uri: &[u8], args: &[u8]) -> Option<Box<Request>> {
        if self.depth >= SUBREQUEST_DEPTH_MAX {
            return None;
        }
        let mut r = self.begin(method, uri, args);
        let run = phases::run(&mut r);
        match phases::drive(&mut r, run).await {
            Run::Respond => Some(r),
            _ => None,
        }
    }

    fn begin(&self, method: Method, uri: &[u8], args: &[u8]) -> Box<Request> {
        let mut r = self.thread.take_request();
        r.live = self.live.clone();
        r.buf.extend_from_slice(&self.buf);
        r.head = self.head.clone();
        r.target = self.target.clone();
        r.host.extend_from_slice(&self.host);
        r.port = self.port;
        r.conn.clone_from(&self.conn);
        r.link.clone_from(&self.link);
        r.server = self.server;
        r.loc = self.live.snap.server(self.server).root;
        r.vars = self.vars.clone();
        r.common = self.common.clone();
        r.body = RequestBody::Whole { content: self.body.clone(), given: 0 };
        r.uri.extend_from_slice(uri);
        r.args.extend_from_slice(args);
        r.method = method;
        r.cursor = Cursor::at(Phase::ServerRewrite);
        r.depth = self.depth + 1;
        r.internal = true;
        r.unparsed_uri_valid = false;
        r.started = self.started;
        r
    }
}
