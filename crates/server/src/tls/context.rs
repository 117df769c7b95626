//! What the sessions of a server are made with.

use super::source::{Source, Sources};
use crate::zone::Zone;
use brisk_host::log::LogTarget;
use brisk_host::thread::Thread;
use brisk_host::vars::Template;
use brisk_tls::{Certificates, KeyLogger, ServerContext, ServerOptions, SessionCache, TicketKeys, Transport};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Memory for sessions that may be resumed with early data, where no cache is configured.
const EARLY_SESSIONS_BYTES: usize = 4 << 20;

/// Where certificates come from.
pub enum Certs {
    /// Read with the configuration.
    Fixed(Arc<Sources>),
    /// Their paths have variables in them: read when they are needed.
    Named {
        /// Certificates and keys: paths, `data:` and the PEM, or variables that hold one of them.
        pairs: Vec<(Template, Template)>,
        /// The main file's folder, where relative paths begin.
        prefix: String,
        /// `ssl_password_file`.
        passwords: Arc<Vec<Vec<u8>>>,
        /// `ssl_certificate_cache`.
        cache: Option<Arc<super::source::Cache>>,
    },
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
    /// By [`Carries::index`].
    built: [OnceLock<Result<ServerContext, String>>; 3],
}

/// What a session is carried by, and spoken on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// TCP.
    Tcp {
        /// HTTP/2 is offered.
        http2: bool,
    },
    /// QUIC.
    Quic,
}

impl Carries {
    /// TCP, before it is known what is spoken.
    pub(super) const TCP: Carries = Carries::Tcp { http2: false };

    fn index(self) -> usize {
        match self {
            Carries::Tcp { http2 } => usize::from(http2),
            Carries::Quic => 2,
        }
    }
}

/// The state of a zone of sessions.
pub struct SharedSessions(pub Arc<SessionCache>);

impl Context {
    /// Nothing is built before it is needed.
    pub fn new(certs: Certs, options: ServerOptions, sessions: Sessions) -> Context {
        Context { certs, options, sessions, key_log: None, built: Default::default() }
    }

    /// What sessions are made with; put together at the first handshake.
    pub(super) fn get(&self, carrier: Carries) -> Result<&ServerContext, &str> {
        self.built[carrier.index()].get_or_init(|| self.build(carrier)).as_ref().map_err(String::as_str)
    }

    fn build(&self, carrier: Carries) -> Result<ServerContext, String> {
        let mut options = self.options.clone();
        options.resumption.cache = match &self.sessions {
            Sessions::None => None,
            Sessions::Own(cache) => Some(cache.clone()),
            Sessions::Shared(zone) => Some(zone.state::<SharedSessions>().0.clone()),
            Sessions::Early => Some(early_sessions()),
        };
        options.key_log = self.key_log.clone().map(key_logger);
        options.alpn = alpn(carrier).iter().map(|name| name.to_vec()).collect();
        if carrier == Carries::Quic {
            options.transport = Transport::Quic;
        }
        let certificates: Arc<dyn Certificates> = match &self.certs {
            Certs::Fixed(sources) => sources.clone(),
            Certs::Named { .. } => Arc::new(brisk_tls::Fixed(Arc::new([]))),
        };
        ServerContext::new(&options, certificates)
    }

    /// The sources of certificates that are read with the configuration.
    pub fn sources(&self) -> &[Arc<Source>] {
        match &self.certs {
            Certs::Fixed(sources) => &sources.list,
            Certs::Named { .. } => &[],
        }
    }
}

/// nginx's lists; a client that offers none of these is refused.
pub(super) fn alpn(carrier: Carries) -> &'static [&'static [u8]] {
    const NAMES: &[&[u8]] = &[b"h2", b"http/1.1", b"http/1.0", b"http/0.9"];
    match carrier {
        Carries::Tcp { http2 } => &NAMES[usize::from(!http2)..],
        Carries::Quic => {
            if cfg!(debug_assertions) {
                &[b"h3", b"hq-interop"]
            } else {
                &[b"h3"]
            }
        }
    }
}

/// Writes to the log as the thread has it open at that time.
fn key_logger(target: LogTarget) -> KeyLogger {
    Arc::new(move |line| {
        let live = Thread::current().map(|thread| thread.live());
        if let Some(log) = live.as_ref().and_then(|live| live.logs.iter().find(|log| log.target == target)) {
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
