//! An `upstream` block while it is read.

use super::group::{Groups, Parts, Upstream};
use super::server::Server;
use super::state::Kept;
use super::sticky::Sticky;
use crate::db;
use crate::limits::DRAFT_ZONE_BYTES_MIN;
use brisk_balance::Method;
use brisk_conf::{Context, Diag, Span, Token, value};
use brisk_resolver::Resolver;
use brisk_server::conf::Cx;
use brisk_server::core::CoreConf;
use brisk_server::vars::Template;
use brisk_server::zone::Zone;
use brisk_upstream::backend::Keepalive;
use std::sync::Arc;
use std::time::Duration;

/// The module, and what its zones belong to.
pub(super) const NAME: &str = "upstream";

/// See the module's head.
#[derive(Clone)]
pub(super) struct Draft {
    pub name: String,
    pub span: Span,
    pub servers: Vec<Server>,
    /// `None`: no directive has said.
    pub method: Option<Method>,
    pub key: Option<Arc<Template>>,
    pub sticky: Option<Sticky>,
    pub keepalive: Option<(usize, bool)>,
    pub keepalive_requests: u64,
    pub keepalive_time: Duration,
    pub keepalive_timeout: Duration,
    /// Its name, and its size if that is given here.
    pub zone: Option<(Token, Option<u64>)>,
    pub queue: Option<(usize, Duration)>,
    pub resolver: Option<Arc<Resolver>>,
    pub resolver_timeout: Option<Duration>,
    /// The file that holds the servers.
    pub state: Option<Token>,
    /// `mysql_check` or `pgsql_check`.
    pub database: Option<Arc<db::Check>>,
}

impl Draft {
    /// A block of which nothing has been read yet.
    pub fn new(name: String, span: Span) -> Draft {
        Draft {
            name,
            span,
            servers: Vec::new(),
            method: None,
            key: None,
            sticky: None,
            keepalive: None,
            keepalive_requests: Keepalive::DEFAULT.requests_max,
            keepalive_time: Duration::from_millis(Keepalive::DEFAULT.time_ms),
            keepalive_timeout: Duration::from_millis(Keepalive::DEFAULT.timeout_ms),
            zone: None,
            queue: None,
            resolver: None,
            resolver_timeout: None,
            state: None,
            database: None,
        }
    }

    fn keepalive(&self) -> Keepalive {
        let (idle_max, local) =
            self.keepalive.unwrap_or((Keepalive::DEFAULT.idle_max, Keepalive::DEFAULT.local));
        Keepalive {
            idle_max,
            local,
            requests_max: self.keepalive_requests,
            time_ms: self.keepalive_time.as_millis() as u64,
            timeout_ms: self.keepalive_timeout.as_millis() as u64,
        }
    }

    /// Makes the group when the block is complete.
    pub fn build(mut self, cx: &mut Cx<'_, '_>) -> Result<Arc<Upstream>, Diag> {
        let zone = self.zone.take().map(|(name, bytes)| upstream_zone(cx, &name, bytes)).transpose()?;
        let name = &self.name;
        let fail = |text: String| Err(Diag::emerg(self.span, text));
        // The block's own, else that of `http`, which stands above it in the text.
        let resolver = match &self.resolver {
            Some(own) => Some(own.clone()),
            None => cx.conf_of::<CoreConf>().resolver.clone(),
        };
        let resolves = self.servers.iter().any(|server| server.spec.host.is_some());
        // nginx's rule, kept so that a configuration works in both; the zone is also what keeps addresses over
        // reloads.
        if resolves && zone.is_none() {
            return fail(format!(
                "resolving names at run time requires upstream \"{name}\" to be in shared memory"
            ))
            .map_err(|diag| diag.help("add: zone NAME 64k;"));
        }
        if resolves && resolver.is_none() {
            return fail(format!("no resolver defined to resolve names at run time in upstream \"{name}\""))
                .map_err(|diag| diag.help("add: resolver ADDRESS;"));
        }
        if self.state.is_some() && (!self.servers.is_empty() || zone.is_none()) {
            let (why, help) = if zone.is_none() {
                ("requires \"zone\"", "add: zone NAME 64k;")
            } else {
                ("takes the place of \"server\"", "move the servers into the file, or remove \"state\"")
            };
            return fail(format!("\"state\" {why} in upstream \"{name}\"")).map_err(|diag| diag.help(help));
        }
        // With a state file the servers are in that, and there may be none yet.
        if self.state.is_none() && self.servers.iter().all(|server| server.spec.backup) {
            let help = "add: server HOST:PORT; one at least is no backup";
            return fail(format!("no servers in upstream \"{name}\"")).map_err(|diag| diag.help(help));
        }
        let is_mysql = self.database.as_ref().is_some_and(|check| check.kind == db::Kind::MySql);
        if !is_mysql && self.servers.iter().any(|server| server.is_primary) {
            return fail(format!(
                "\"role=primary\" says nothing without \"mysql_check\" in upstream \"{name}\""
            ))
            .map_err(|diag| diag.help("add: mysql_check user=NAME; or remove role=primary"));
        }
        let sessions = match &self.sticky {
            Some(sticky) => sticky.zone(cx, name)?,
            None => None,
        };
        let state = self.state.as_ref().map(|file| Kept::new(cx, file)).transpose()?;
        if let Some(folder) = state.as_ref().and_then(|state| std::path::Path::new(&state.path).parent()) {
            // The file is replaced by a rename, for which the folder must be writable.
            cx.writes_into(folder);
        }
        let timeout = self.resolver_timeout.unwrap_or(cx.conf_of::<CoreConf>().resolver_timeout);
        let keepalive = self.keepalive();
        Ok(Arc::new(Upstream::new(Parts {
            name: self.name,
            is_of_stream: cx.block == Context::STREAM,
            method: self.method.unwrap_or_default(),
            servers: self.servers,
            key: self.key,
            sticky: self.sticky.map(|sticky| (sticky, sessions)),
            keepalive,
            zone,
            queue: self.queue,
            resolver,
            resolver_timeout: timeout,
            state,
            database: self.database,
        })))
    }
}

/// `zone NAME [SIZE]`.
pub(super) fn parse_zone(tokens: &[Token]) -> Result<(Token, Option<u64>), Diag> {
    let name = &tokens[0];
    if name.bytes().is_empty() {
        return Err(Diag::emerg(name.span, "invalid zone name \"\""));
    }
    let Some(size) = tokens.get(1) else { return Ok((name.clone(), None)) };
    let bytes = value::size(size)
        .map_err(|_| Diag::emerg(size.span, format!("invalid zone size \"{}\"", size.text())))?;
    if bytes < DRAFT_ZONE_BYTES_MIN {
        return Err(Diag::emerg(size.span, format!("zone \"{}\" is too small", name.text()))
            .help("it must have at least 32k"));
    }
    Ok((name.clone(), Some(bytes)))
}

/// The zone of an upstream; several may share one, and one of them gives its size.
fn upstream_zone(cx: &mut Cx<'_, '_>, name: &Token, bytes: Option<u64>) -> Result<Arc<Zone>, Diag> {
    let have = cx.global.zones.iter().find(|zone| *zone.name == *name.str());
    match have {
        Some(zone) if zone.module == NAME => {
            // Which of two sizes was meant cannot be told.
            if bytes.is_some_and(|bytes| bytes != zone.bytes) {
                let (new, old) = (bytes.unwrap_or_default(), zone.bytes);
                return Err(Diag::emerg(
                    name.span,
                    format!(
                        "the size {new} of shared memory zone \"{}\" conflicts with already declared size {old}",
                        name.text()
                    ),
                ));
            }
            Ok(zone.clone())
        }
        _ => {
            let Some(bytes) = bytes else {
                return Err(Diag::emerg(
                    name.span,
                    format!("zero size shared memory zone \"{}\"", name.text()),
                )
                .help("say its size where it is named first: zone NAME 64k;"));
            };
            // The same for all: a reload keeps the zone whatever its upstreams have become; groups in it are
            // compared one by one.
            let meaning = Token { value: b"upstreams"[..].into(), span: name.span, quoted: false };
            cx.global.add_zone(NAME, (name.str().to_string(), bytes), name, &meaning, |_| {
                Arc::new(Groups::default())
            })
        }
    }
}
