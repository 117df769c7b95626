//! `stream` while the configuration is built: what other modules add to it and look up in it.

use super::sockets::{Named, Spec, resolve};
use brisk_conf::{Context, Diag, Span};
use brisk_host::log::LogLevel;
use brisk_host::snapshot::{Finished, Part as HostPart};
use brisk_host::tls::Allowed;
use brisk_host::vars::{Eval, Names, Table, Template, VarId};
use brisk_server::conf::Cx;
use brisk_stream::Session;
use brisk_stream::conf::{Balanced, Stream};
use hashbrown::HashMap;
use std::sync::Arc;

/// `stream` and its servers.
pub const BLOCKS: Context = Context::STREAM.or(Context::STREAM_SERVER);

/// See the module's head.
pub struct Part {
    /// The variables of sessions.
    pub vars: Table<Session>,
    /// The servers that are complete.
    pub servers: Vec<Named>,
    /// The `upstream` blocks, by name in lower case.
    pub upstreams: HashMap<String, Arc<dyn Balanced>>,
    /// Each with the number of its server.
    pub listens: Vec<Spec>,
    allowed: Allowed,
}

/// What a configuration begins with.
pub fn begin() -> Box<dyn HostPart> {
    let mut vars = Table::default();
    vars.add_builtin(brisk_stream::VARIABLES);
    vars.add_builtin(crate::limit_conn::SESSION_VARIABLES);
    vars.add_builtin(crate::ssl::variables::SESSION_VARIABLES);
    Box::new(Part {
        vars,
        servers: Vec::new(),
        upstreams: HashMap::new(),
        listens: Vec::new(),
        allowed: Allowed::default(),
    })
}

/// Whether a block belongs to `stream`.
pub fn is_in_stream(block: Context) -> bool {
    BLOCKS.or(Context::STREAM_UPSTREAM).has(block)
}

/// The part of `stream` in the configuration that is being built.
pub fn part<'c>(cx: &'c mut Cx<'_, '_>) -> &'c mut Part {
    cx.part_mut()
}

/// Makes an `upstream` block of `stream` known.
pub fn add_upstream(cx: &mut Cx<'_, '_>, name: &str, upstream: Arc<dyn Balanced>) {
    part(cx).upstreams.insert(name.to_ascii_lowercase(), upstream);
}

/// Defines a computed variable of sessions; `None` if there is a built-in one of this name.
pub fn define(
    cx: &mut Cx<'_, '_>,
    name: &str,
    eval: Arc<dyn Eval<Session>>,
    volatile: bool,
) -> Option<VarId> {
    part(cx).vars.define_eval(name, eval, volatile)
}

impl Part {
    /// Whether the server that is being read listens somewhere.
    pub fn has_listen(&self) -> bool {
        self.listens.last().is_some_and(|spec| spec.server == self.servers.len())
    }

    /// The first address of the server that is being read.
    pub fn first_listen(&self) -> String {
        let own = self.listens.iter().find(|spec| spec.server == self.servers.len());
        own.map(|spec| spec.address.to_string()).unwrap_or_default()
    }
}

impl HostPart for Part {
    fn contexts(&self) -> Context {
        BLOCKS.or(Context::STREAM_UPSTREAM)
    }

    fn names(&mut self) -> &mut dyn Names {
        &mut self.vars
    }

    fn undefined(&self) -> Vec<(String, Option<Span>)> {
        self.vars.undefined().map(|(name, span)| (name.to_string(), span)).collect()
    }

    fn known(&self) -> Vec<String> {
        self.vars.known().map(str::to_string).collect()
    }

    fn allowed(&mut self, names: &[Template], prefix: &str) -> Allowed {
        self.allowed = Allowed::new(names, &self.vars, prefix);
        self.allowed.clone()
    }

    fn finish(mut self: Box<Self>, diags: &mut Vec<Diag>) -> Finished {
        self.vars.settle();
        // A server that was refused has none of its own: what it listens on would be another's.
        let is_refused = diags.iter().any(Diag::is_error);
        let (sockets, listens) =
            if is_refused { (Vec::new(), Vec::new()) } else { resolve(&self.listens, &self.servers, diags) };
        let wants_debug = |named: &Named| named.server.error_log.iter().any(|to| to.level >= LogLevel::Debug);
        let debugs = self.servers.iter().any(wants_debug);
        let stream = Stream {
            servers: self.servers.iter().map(|named| named.server.clone()).collect(),
            vars: Arc::new(self.vars),
            listens,
            upstreams: self.upstreams,
            allowed: self.allowed,
        };
        Finished { sockets, data: Arc::new(stream), debugs }
    }
}
