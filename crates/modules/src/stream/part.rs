//! `stream` while the configuration is built.

use super::BLOCKS;
use super::listen::{Spec, resolve};
use brisk_conf::{Context, Diag, Span};
use brisk_host::snapshot::{Finished, Part as HostPart};
use brisk_host::vars::{Names, Table};
use brisk_stream::Session;
use brisk_stream::conf::{Balanced, Server, Stream};
use hashbrown::HashMap;
use std::sync::Arc;

/// See the module's head.
pub struct Part {
    pub vars: Table<Session>,
    pub servers: Vec<Arc<Server>>,
    pub upstreams: HashMap<String, Arc<dyn Balanced>>,
    /// Each with the number of its server.
    pub listens: Vec<Spec>,
}

/// What a configuration begins with.
pub fn begin() -> Box<dyn HostPart> {
    let mut vars = Table::default();
    vars.add_builtin(brisk_stream::VARIABLES);
    Box::new(Part { vars, servers: Vec::new(), upstreams: HashMap::new(), listens: Vec::new() })
}

impl Part {
    /// Whether the server that is being read listens somewhere.
    pub fn has_listen(&self) -> bool {
        self.listens.last().is_some_and(|spec| spec.server == self.servers.len())
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

    fn finish(self: Box<Self>, diags: &mut Vec<Diag>) -> Finished {
        // A server that was refused has none of its own: what it listens on would be another's.
        let is_refused = diags.iter().any(Diag::is_error);
        let (sockets, listens) =
            if is_refused { (Vec::new(), Vec::new()) } else { resolve(&self.listens, &self.servers, diags) };
        let stream = Stream { vars: Arc::new(self.vars), listens, upstreams: self.upstreams };
        Finished { sockets, data: Arc::new(stream) }
    }
}
