//! Groups of servers for `stream`.

use super::group::Upstream;
use super::implicit::{registry_of_stream, unnamed};
use super::server::{self, Place};
use crate::db::Kind;
use brisk_balance::{Group, ServerSpec};
use brisk_conf::{Diag, Token};
use brisk_db::Cluster;
use brisk_server::conf::Cx;
use brisk_server::vars::Template;
use brisk_stream::conf::Balanced;
use std::sync::Arc;

impl Upstream {
    /// Whether its servers are MySQL or MariaDB, which are asked for their roles.
    pub fn is_mysql(&self) -> bool {
        self.parts.database.as_ref().is_some_and(|check| check.kind == Kind::MySql)
    }
}

impl Balanced for Upstream {
    fn name(&self) -> &str {
        &self.parts.name
    }

    fn group(&self) -> &Arc<Group> {
        Upstream::group(self)
    }

    fn key(&self) -> Option<&Template> {
        self.parts.key.as_deref()
    }

    fn seed(&self) -> u64 {
        self.draw()
    }

    fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.roles()
    }
}

/// The group that `proxy_pass` of `stream` names: an `upstream` block, or an address with a port.
pub fn for_stream(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Arc<Upstream>, Diag> {
    if let Ok(Place::Name(host, None)) = server::place(token.str())
        && let Some(upstream) = registry_of_stream(cx).0.find(&host, None)
    {
        return Ok(upstream);
    }
    let server = server::locate(cx, token, ServerSpec::new(token.str(), Vec::new()), false)?;
    let is_unknown = server.unknown.is_some();
    let upstream = unnamed(token.str(), server);
    if is_unknown {
        cx.global.services.push(upstream.clone());
    }
    Ok(upstream)
}
