//! What a configuration says of `stream`: typed, immutable.

use crate::proxy::Status;
use crate::session::Session;
use crate::stats::Stats;
use brisk_balance::Group;
use brisk_conf::cidr::Cidr;
use brisk_db::{Attrs, Cluster};
use brisk_host::log::LogTo;
use brisk_host::peer::Peer;
use brisk_host::server_name::NameTable;
use brisk_host::snapshot::ListenId;
use brisk_host::tls::{Allowed, Rules};
use brisk_host::vars::{Table, Template, VarId};
use brisk_net::Io;
use brisk_net::listen::Address;
use brisk_resolver::Resolver;
use hashbrown::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The part of `stream` in a configuration, which is in the snapshot's data.
pub struct Stream {
    /// All servers, in their order.
    pub servers: Vec<Arc<Server>>,
    /// The variables of sessions.
    pub vars: Arc<Table<Session>>,
    /// By [`ListenId`].
    pub listens: Vec<Listen>,
    /// The `upstream` blocks, by name in lower case: `proxy_pass` with variables may name them.
    pub upstreams: HashMap<String, Arc<dyn Balanced>>,
    /// Files that may be read for handshakes.
    pub allowed: Allowed,
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
    pub place: Arc<Place>,
    /// A wildcard's socket stands for other addresses of its port: the local address decides.
    pub by_local: Vec<(SocketAddr, Arc<Place>)>,
}

impl Listen {
    /// What answers at a local address, which is asked for only where several are possible.
    pub fn place(&self, local: impl FnOnce() -> Option<SocketAddr>) -> &Arc<Place> {
        if self.by_local.is_empty() {
            return &self.place;
        }
        let local = local();
        let found = self.by_local.iter().find(|(address, _)| Some(*address) == local);
        found.map_or(&self.place, |(_, place)| place)
    }
}

/// The servers of one address.
pub struct Place {
    /// Each connection begins with a PROXY header.
    pub proxy_protocol: bool,
    /// Each connection is one of TLS, which is ended here.
    pub tls: bool,
    /// What serves until a name has led to another one.
    pub server: Arc<Server>,
    /// Numbers in `servers` by the name that a client of TLS wants.
    pub names: NameTable<u32>,
    /// All servers of the address.
    pub servers: Vec<Arc<Server>>,
}

/// A `server` block.
pub struct Server {
    /// `$server_name`: the first name.
    pub name: Box<[u8]>,
    /// `set_real_ip_from`: proxies whose PROXY header gives the client's address.
    pub real_ip: Option<RealIp>,
    /// `set`, in order.
    pub sets: Vec<(VarId, Template)>,
    /// Limits and access rules, in the order in which they are checked.
    pub checks: Vec<Arc<dyn Check>>,
    /// `proxy_protocol_timeout`.
    pub proxy_protocol_timeout: Duration,
    /// `ssl_…`: how TLS is ended here.
    pub tls: Option<Arc<Rules>>,
    /// `ssl_preread`: the ClientHello is read, and left in the socket.
    pub preread: Option<Preread>,
    /// What it does.
    pub action: Arc<Action>,
    /// `error_log`.
    pub error_log: Arc<[LogTo]>,
    /// `access_log`.
    pub logs: Vec<Arc<dyn AccessLog>>,
    /// `resolver`: for names that are made of variables.
    pub resolver: Option<Arc<Resolver>>,
    /// `resolver_timeout`.
    pub resolver_timeout: Duration,
    /// `tcp_nodelay`.
    pub tcp_nodelay: bool,
    /// Directives of the proxy.
    pub proxy: Proxy,
    /// What it has done.
    pub stats: Arc<Stats>,
}

/// The proxies whose PROXY header gives the client's address.
#[derive(Clone, Debug, Default)]
pub struct RealIp {
    /// By address.
    pub proxies: Vec<Cidr>,
    /// Peers on unix sockets, too.
    pub trusts_unix: bool,
}

impl RealIp {
    /// Whether this peer is one of them.
    pub fn trusts(&self, peer: Peer) -> bool {
        match peer.ip() {
            Some(ip) => self.proxies.iter().any(|proxy| proxy.contains_unmapped(ip)),
            None => self.trusts_unix,
        }
    }
}

/// How a connection's beginning is looked at before it is passed on.
#[derive(Clone, Copy, Debug)]
pub struct Preread {
    /// `preread_buffer_size`.
    pub buffer_bytes: usize,
    /// `preread_timeout`.
    pub timeout: Duration,
}

/// Whether a session may go on. What a check counts is given back with what it [keeps](Session::keep).
pub trait Check: Send + Sync {
    /// The error is the status that the session ends with.
    fn check(&self, session: &Session) -> Result<(), Status>;
}

/// What a server does with a session.
pub enum Action {
    /// `return`: sends a text and closes.
    Return(Template),
    /// `proxy_pass`.
    Pass(Pass),
    /// `pass`: gives the connection to another server of this process, as if it had come there.
    HandOver(Template),
    /// Its protocol is spoken here.
    Serve(Arc<dyn Handler>),
}

/// What serves the sessions of a server by itself, and what [`handler`](crate::handler) is for.
pub trait Handler: Send + Sync {
    /// Serves one to its end; gives the status that it ends with.
    fn serve<'s>(
        &'s self,
        session: &'s Session,
        client: Client,
    ) -> Pin<Box<dyn Future<Output = Status> + 's>>;
}

/// A client's connection before anything of its protocol.
pub struct Client {
    /// The connection.
    pub io: Io,
    /// Its address has `listen … ssl`: the session must be one of TLS, from where the protocol has it begin.
    pub wants_tls: bool,
}

/// `proxy_bind`.
#[derive(Clone)]
pub struct Bind {
    /// The address, with or without a port; empty: the kernel's choice.
    pub address: Template,
    /// The address may be another machine's (`IP_TRANSPARENT`).
    pub transparent: bool,
}

/// `proxy_pass`.
pub enum Pass {
    /// An `upstream` block, or a group made for an address.
    Group(Arc<dyn Balanced>),
    /// A text with variables: the name of an `upstream` block, or an address or a name with a port.
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
    /// Datagrams with which a back end answers each of a client's; `None`: any number.
    pub responses: Option<u64>,
    /// Datagrams of a client after which the next one begins another session; 0: none.
    pub requests: u64,
    /// `proxy_half_close`: each side may close by itself.
    pub half_close: bool,
    /// `proxy_socket_keepalive`.
    pub socket_keepalive: bool,
    /// `proxy_socket_rcvbuf`; 0: the kernel's choice.
    pub socket_rcvbuf: usize,
    /// `proxy_socket_sndbuf`; 0: the kernel's choice.
    pub socket_sndbuf: usize,
    /// `proxy_bind`.
    pub bind: Option<Bind>,
    /// `proxy_protocol`: a PROXY header goes to peers first.
    pub proxy_protocol: bool,
    /// `target_session_attrs`: which server of a group whose servers have roles.
    pub attrs: Attrs,
    /// `proxy_ssl`.
    pub tls: Option<Arc<dyn PeerTls>>,
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
            socket_rcvbuf: 0,
            socket_sndbuf: 0,
            bind: None,
            proxy_protocol: false,
            attrs: Attrs::default(),
            tls: None,
            upload_rate: Template::default(),
            download_rate: Template::default(),
        }
    }
}

/// TLS with peers.
pub trait PeerTls: Send + Sync {
    /// A session with a peer over a connection to it, complete and checked. `host`: the name of the peer's group. The error is for
    /// the log.
    fn begin<'s>(
        &'s self,
        session: &'s Session,
        io: Io,
        host: &'s str,
    ) -> Pin<Box<dyn Future<Output = Result<brisk_net::Stream, String>> + 's>>;
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

    /// What is known of the roles of its servers, where they have roles.
    fn cluster(&self) -> Option<&Arc<Cluster>> {
        None
    }
}

/// An `access_log`.
pub trait AccessLog: Send + Sync {
    /// Writes the line about a session that has ended.
    fn log(&self, session: &Session);
}
