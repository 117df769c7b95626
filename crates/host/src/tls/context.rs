//! What the sessions of a server are made with.

use super::named::Named;
use super::source::{Source, Sources};
use crate::limits::TLS_KINDS_MAX;
use crate::log::{LogTarget, present};
use crate::zone::Zone;
use brisk_tls::{Certificates, Certified, KeyLogger, ServerContext, ServerOptions, SessionCache, TicketKeys};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Memory for sessions that may be resumed with early data, where no cache is configured.
const EARLY_SESSIONS_BYTES: usize = 4 << 20;

/// Where certificates come from.
pub enum Certs {
    /// Read with the configuration.
    Fixed(Arc<Sources>),
    /// Their paths have variables in them: read when they are needed.
    Named(Named),
}

/// Where sessions are kept.
#[derive(Clone)]
pub enum Sessions {
    /// None is kept.
    None,
    /// In a cache of the worker's own memory.
    Own(Arc<SessionCache>),
    /// Kept in shared memory.
    Shared(Arc<Zone>),
    /// In [`early_sessions`]: there is early data, and no cache is configured.
    Early,
}

/// See [`Rules::context`](super::rules::Rules::context).
pub struct Context {
    /// The certificates.
    pub certs: Certs,
    /// What handshakes are made of.
    pub options: ServerOptions,
    /// Where sessions are kept.
    pub sessions: Sessions,
    /// `ssl_key_log`.
    pub key_log: Option<LogTarget>,
    /// By the number that the protocol gives the kind of a connection.
    built: [OnceLock<Result<ServerContext, String>>; TLS_KINDS_MAX],
}

/// The state of a zone of sessions.
pub struct SharedSessions(pub Arc<SessionCache>);

impl Context {
    /// Nothing is built before it is needed.
    pub fn new(certs: Certs, options: ServerOptions, sessions: Sessions) -> Context {
        Context { certs, options, sessions, key_log: None, built: Default::default() }
    }

    /// What sessions on one kind of connection are made with; put together at the first handshake. `complete` adds what is peculiar to
    /// the kind: what is offered by ALPN, what carries it.
    ///
    /// # Panics
    /// If the kind has a number of `TLS_KINDS_MAX` or more.
    pub fn get(
        &self,
        kind: usize,
        complete: impl FnOnce(&mut ServerOptions),
    ) -> Result<&ServerContext, &str> {
        let make = || self.build(complete);
        self.built[kind].get_or_init(make).as_ref().map_err(String::as_str)
    }

    /// The same with certificates that were read for this handshake, if there are any.
    pub fn with(
        &self,
        kind: usize,
        complete: impl FnOnce(&mut ServerOptions),
        certified: Option<Arc<[Certified]>>,
    ) -> Result<ServerContext, String> {
        let base = self.get(kind, complete)?;
        Ok(match certified {
            None => base.clone(),
            Some(certified) => base.with_certificates(Arc::new(brisk_tls::Fixed(certified))),
        })
    }

    fn build(&self, complete: impl FnOnce(&mut ServerOptions)) -> Result<ServerContext, String> {
        let mut options = self.options.clone();
        options.resumption.cache = match &self.sessions {
            Sessions::None => None,
            Sessions::Own(cache) => Some(cache.clone()),
            Sessions::Shared(zone) => Some(zone.state::<SharedSessions>().0.clone()),
            Sessions::Early => Some(early_sessions()),
        };
        options.key_log = self.key_log.clone().map(key_logger);
        complete(&mut options);
        let certificates: Arc<dyn Certificates> = match &self.certs {
            Certs::Fixed(sources) => sources.clone(),
            Certs::Named(_) => Arc::new(brisk_tls::Fixed(Arc::new([]))),
        };
        ServerContext::new(&options, certificates)
    }

    /// The sources of certificates that are read with the configuration.
    pub fn sources(&self) -> &[Arc<Source>] {
        match &self.certs {
            Certs::Fixed(sources) => &sources.list,
            Certs::Named(_) => &[],
        }
    }
}

/// Writes to the log as the thread has it open at that time.
fn key_logger(target: LogTarget) -> KeyLogger {
    Arc::new(move |line| {
        if let Some(log) = present::open(&target) {
            log.write(line.as_bytes());
        }
    })
}

/// The keys of tickets where no files are named: one set per lifetime, of the process, so that a reload does not end
/// sessions.
pub fn ticket_keys(lifetime_secs: u32) -> Arc<TicketKeys> {
    static KEYS: Mutex<Option<HashMap<u32, Arc<TicketKeys>>>> = Mutex::new(None);
    let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
    let keys = keys.get_or_insert_default();
    keys.entry(lifetime_secs)
        .or_insert_with(|| Arc::new(TicketKeys::turning(u64::from(lifetime_secs))))
        .clone()
}

/// The sessions of servers with early data and without a cache of their own.
pub fn early_sessions() -> Arc<SessionCache> {
    static SESSIONS: OnceLock<Arc<SessionCache>> = OnceLock::new();
    SESSIONS.get_or_init(|| Arc::new(SessionCache::new(EARLY_SESSIONS_BYTES, usize::MAX))).clone()
}
