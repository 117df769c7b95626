//! What a configuration says of `stream`: typed, immutable.

use crate::session::Session;
use brisk_balance::Group;
use brisk_host::log::LogTo;
use brisk_host::snapshot::ListenId;
use brisk_host::vars::{Table, Template};
use brisk_net::listen::Address;
use hashbrown::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The part of `stream` in a configuration, which is in the snapshot's data.
pub struct Stream {
    /// The variables of sessions.
    pub vars: Arc<Table<Session>>,
    /// By [`ListenId`].
    pub listens: Vec<Listen>,
    /// The `upstream` blocks, by name in lower case: `proxy_pass` with variables may name them.
    pub upstreams: HashMap<String, Arc<dyn Balanced>>,
}

impl Stream {
    /// The place of a socket.
    pub fn find(&self, address: &Address) -> Option<ListenId> {
        self.listens.iter().position(|listen| listen.address == *address).map(|at| ListenId(at as u32))
    }
}

/// One socket, and what answers there.
pub struct Listen {
    /// What is listened on.
    pub address: Address,
    /// What answers there.
    pub server: Arc<Server>,
    /// A wildcard's socket stands for other addresses of its port: the local address decides.
    pub by_local: Vec<(SocketAddr, Arc<Server>)>,
}

impl Listen {
    /// The server for a local address, which is asked for only where several are possible.
    pub fn server(&self, local: impl FnOnce() -> Option<SocketAddr>) -> &Arc<Server> {
        if self.by_local.is_empty() {
            return &self.server;
        }
        let local = local();
        let found = self.by_local.iter().find(|(address, _)| Some(*address) == local);
        found.map_or(&self.server, |(_, server)| server)
    }
}

/// A `server` block.
pub struct Server {
    /// What it does.
    pub action: Arc<Action>,
    /// `error_log`.
    pub error_log: Arc<[LogTo]>,
    /// `access_log`.
    pub logs: Vec<Arc<dyn AccessLog>>,
    /// `tcp_nodelay`.
    pub tcp_nodelay: bool,
    /// Directives of the proxy.
    pub proxy: Proxy,
}

/// What a server does with a session.
pub enum Action {
    /// `return`: sends a text and closes.
    Return(Template),
    /// `proxy_pass`.
    Pass(Pass),
}

/// `proxy_pass`.
pub enum Pass {
    /// An `upstream` block, or a group made for an address.
    Group(Arc<dyn Balanced>),
    /// A text with variables: the name of an `upstream` block, or an address with a port.
    Text(Template),
}

/// `proxy_…`.
#[derive(Clone)]
pub struct Proxy {
    /// `proxy_connect_timeout`.
    pub connect_timeout: Duration,
    /// Between two reads or writes on either side.
    pub timeout: Duration,
    /// `proxy_next_upstream`: another peer is tried if one cannot be reached.
    pub next_upstream: bool,
    /// 0: no limit.
    pub next_upstream_tries: u32,
    /// Zero: no limit.
    pub next_upstream_timeout: Duration,
    /// `proxy_buffer_size`: of each direction.
    pub buffer_bytes: usize,
    /// Datagrams that a back end answers one of a client's with; `None`: any number.
    pub responses: Option<u64>,
    /// Datagrams of a client after which the next one begins another session; 0: none.
    pub requests: u64,
    /// `proxy_half_close`: each side may close by itself.
    pub half_close: bool,
    /// `proxy_socket_keepalive`.
    pub socket_keepalive: bool,
    /// Bytes per second; empty or 0: no limit.
    pub upload_rate: Template,
    /// As `upload_rate`, to the client.
    pub download_rate: Template,
}

impl Default for Proxy {
    fn default() -> Proxy {
        Proxy {
            connect_timeout: Duration::from_mins(1),
            timeout: Duration::from_mins(10),
            next_upstream: true,
            next_upstream_tries: 0,
            next_upstream_timeout: Duration::ZERO,
            buffer_bytes: 16 << 10,
            responses: None,
            requests: 0,
            half_close: false,
            socket_keepalive: false,
            upload_rate: Template::default(),
            download_rate: Template::default(),
        }
    }
}

/// A group of servers as a session needs it.
pub trait Balanced: Send + Sync {
    /// As it is named in the configuration.
    fn name(&self) -> &str;

    /// The servers with all that is known of them.
    fn group(&self) -> &Arc<Group>;

    /// `hash`.
    fn key(&self) -> Option<&Template>;

    /// Another number for each session, for methods that draw.
    fn seed(&self) -> u64;
}

/// An `access_log`.
pub trait AccessLog: Send + Sync {
    /// Writes the line about a session that has ended.
    fn log(&self, session: &Session);
}
