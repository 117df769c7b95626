//! The configuration that requests are served by: typed, merged, immutable.

use super::ids::{ListenId, LocationId, ServerId};
use crate::core::http_conf::CoreConf;
use crate::location::LocationTree;
use crate::server_name::NameTable;
use crate::serving::{Http, Served};
use crate::unusual::Unusual;
use brisk_host::tls::{Allowed, Rules};
use brisk_net::listen::Address;
use hashbrown::HashMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

/// Plain or PROXY-protocol, TLS or not: how a socket's connections begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// `listen … proxy_protocol`: a PROXY header comes first.
    pub proxy_protocol: bool,
    /// `listen … ssl`: a ClientHello comes next.
    pub tls: bool,
    /// `listen … http2`.
    pub http2: bool,
    /// `listen … quic`: datagrams.
    pub quic: bool,
}

impl Prefix {
    /// Connections begin with a request of HTTP/1.1.
    fn is_plain(self) -> bool {
        !(self.proxy_protocol || self.tls || self.http2 || self.quic)
    }

    /// What either of two `listen` directives for an address says: it holds for all its connections.
    #[must_use]
    pub fn or(self, other: Prefix) -> Prefix {
        Prefix {
            proxy_protocol: self.proxy_protocol || other.proxy_protocol,
            tls: self.tls || other.tls,
            http2: self.http2 || other.http2,
            quic: self.quic || other.quic,
        }
    }
}

/// One socket to listen on, and who answers there.
pub struct Listen {
    /// What is listened on.
    pub address: Address,
    /// How its connections begin.
    pub prefix: Prefix,
    /// The servers by the names that requests give.
    pub names: NameTable<ServerId>,
    /// The server for requests whose name no server has.
    pub default_server: ServerId,
    /// `listen` of a wildcard address stands for others of the same port: the local address decides.
    pub by_local: Vec<LocalListen>,
}

/// An address that a wildcard's socket stands for.
pub struct LocalListen {
    /// The address that the client has connected to.
    pub address: Address,
    /// How connections to it begin.
    pub prefix: Prefix,
    /// The servers by the names that requests give.
    pub names: NameTable<ServerId>,
    /// The server for requests whose name no server has.
    pub default_server: ServerId,
}

impl Listen {
    /// All its connections begin with a request of HTTP/1.1.
    /// Asked for each new connection: without PROXY, TLS and QUIC none of the steps before a request is
    /// looked at.
    pub fn is_plain(&self) -> bool {
        self.prefix.is_plain() && self.by_local.iter().all(|local| local.prefix.is_plain())
    }

    /// The entry for a local address, where a wildcard socket stands for several. The address is asked for only there.
    /// getsockname(2) is a system call, and only wildcards with several servers need it.
    #[inline]
    pub fn local(&self, address: impl FnOnce() -> Option<SocketAddr>) -> Option<&LocalListen> {
        if self.by_local.is_empty() {
            return None;
        }
        let address = address()?;
        let is_at = |local: &&LocalListen| match local.address {
            Address::Ip(ip) | Address::Quic(ip, _) => ip == address,
            Address::Unix(_) | Address::Udp(_) => false,
        };
        self.by_local.iter().find(is_at)
    }
}

/// A `server` block.
pub struct Server {
    /// The first name, as `$server_name` shows it.
    pub name: Box<[u8]>,
    /// The block itself as a location: server-level rewrite, defaults.
    pub root: LocationId,
    /// Named locations (`@name`).
    pub named: HashMap<Box<[u8]>, LocationId>,
    /// What its `ssl_…` directives say; nothing without any that matters.
    pub tls: Option<Arc<Rules>>,
}

/// A `location` block, a server block as such, or the inside of an `if` or `limit_except`.
pub struct Location<S: Served = Http> {
    /// As written, for messages and `$…`.
    pub name: Box<[u8]>,
    /// The core's directives, merged.
    pub core: Arc<CoreConf>,
    /// The handlers and filters that are configured here.
    pub plan: S::Plan,
    /// The locations inside; nothing without any.
    pub tree: Option<Box<LocationTree>>,
    /// `if` and `limit_except` blocks: content handlers see through to the location around.
    pub anonymous: bool,
}

/// Locations that were compiled after the start, beside all others: one with the `if` and `limit_except` blocks inside.
pub struct Late<S: Served = Http> {
    /// The number of the first one. No other one has it, however many are compiled later.
    pub first: LocationId,
    /// By their number behind the first one's.
    pub locations: Box<[Arc<Location<S>>]>,
    /// The location into which they were compiled.
    pub into: LocationId,
}

/// A whole configuration.
pub struct Snapshot<S: Served = Http> {
    /// What concerns no protocol.
    pub base: Arc<brisk_host::snapshot::Snapshot>,
    /// The main level's.
    pub core: Arc<CoreConf>,
    /// Listening sockets by [`ListenId`].
    pub listens: Arc<[Listen]>,
    /// Servers by [`ServerId`].
    pub servers: Arc<[Arc<Server>]>,
    /// Those of the files that were read at the start.
    pub locations: Arc<[Arc<Location<S>>]>,
    /// Those that were compiled later; only requests that are led to them have a snapshot with any.
    pub late: Option<Late<S>>,
    /// What later ones are compiled with; nothing where no location can be.
    pub ground: Option<Arc<S::Ground>>,
    /// The variables of requests.
    pub vars: Arc<S::Vars>,
    /// All modules, in the order in which they install themselves.
    pub modules: &'static [&'static S::Module],
    /// Somebody may ask for the numbers of requests: they are recorded.
    pub records_requests: bool,
    /// Request fields that prepared answers take no account of.
    pub unusual: Unusual,
    /// Files that are read while connections are served.
    pub allowed: Arc<Allowed>,
    /// `quic_host_key`.
    pub quic_host_key: Option<HostKey>,
}

/// A secret that is read from a file.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey(pub Arc<[u8]>);

impl<S: Served> Deref for Snapshot<S> {
    type Target = brisk_host::snapshot::Snapshot;

    fn deref(&self) -> &brisk_host::snapshot::Snapshot {
        &self.base
    }
}

impl<S: Served> Snapshot<S> {
    /// Only what the last part of a response needs: one location, whose number becomes 0, and its server, likewise.
    ///
    /// A response that takes hours must not keep a configuration of thousands of hosts alive. Nothing can be looked up
    /// in the result, so it is not for requests that may still be redirected.
    #[must_use]
    /// Thousands of long downloads would otherwise each hold a configuration of the past, with its
    /// certificates and zones.
    pub fn reduced(&self, server: ServerId, location: LocationId) -> Snapshot<S> {
        let own = self.server(server);
        let alone = Server { name: own.name.clone(), root: LocationId(0), named: HashMap::new(), tls: None };
        Snapshot {
            base: Arc::new(self.base.reduced()),
            core: self.core.clone(),
            listens: Arc::default(),
            servers: [Arc::new(alone)].into(),
            locations: [self.shared_location(location).clone()].into(),
            late: None,
            ground: None,
            vars: self.vars.clone(),
            modules: self.modules,
            records_requests: self.records_requests,
            unusual: Unusual::default(),
            allowed: Arc::default(),
            quic_host_key: None,
        }
    }

    /// Makes it one for a process that [traces](crate::trace): nothing goes on beside its requests, and these say everything.
    pub fn trace(&mut self) {
        // Nobody else holds it before it is served.
        // Health checks and look-ups of names would be sent by a process that only answers a question.
        if let Some(base) = Arc::get_mut(&mut self.base) {
            base.services.clear();
            base.debugs = true;
        }
        // Workers of the same server would be told of this process, and pass packets on to it.
        for listen in Arc::get_mut(&mut self.listens).into_iter().flatten() {
            listen.prefix.quic = false;
        }
    }

    /// The location of this number.
    ///
    /// # Panics
    /// If the number is another configuration's.
    #[inline]
    pub fn location(&self, id: LocationId) -> &Location<S> {
        self.shared_location(id)
    }

    #[inline]
    // The common case is a plain index: late locations are few, and their path is cold.
    fn shared_location(&self, id: LocationId) -> &Arc<Location<S>> {
        match self.locations.get(id.0 as usize) {
            Some(location) => location,
            None => self.late_location(id),
        }
    }

    #[cold]
    fn late_location(&self, id: LocationId) -> &Arc<Location<S>> {
        let late = self.late.as_ref().expect("the number is of this configuration");
        &late.locations[(id.0 - late.first.0) as usize]
    }

    /// Where requests of a location are counted: those that were compiled late have a list of their own.
    pub fn place_of(&self, id: LocationId) -> usize {
        match &self.late {
            Some(late) if id.0 >= late.first.0 => (id.0 - late.first.0) as usize,
            _ => id.0 as usize,
        }
    }

    /// The location of the files that were read at the start which this one is, or was compiled into.
    /// Counters and prepared answers of a late location are told with the location that it stands in.
    pub fn at_start(&self, id: LocationId) -> LocationId {
        match &self.late {
            Some(late) if id.0 >= late.first.0 => late.into,
            _ => id,
        }
    }

    /// The same configuration with what was compiled late beside it.
    #[must_use]
    pub fn with_late(&self, late: Late<S>, vars: Arc<S::Vars>) -> Snapshot<S> {
        Snapshot {
            base: self.base.clone(),
            core: self.core.clone(),
            listens: self.listens.clone(),
            servers: self.servers.clone(),
            locations: self.locations.clone(),
            late: Some(late),
            ground: self.ground.clone(),
            vars,
            modules: self.modules,
            records_requests: self.records_requests,
            unusual: self.unusual.clone(),
            allowed: self.allowed.clone(),
            // Read at a start only; a late snapshot starts nothing.
            quic_host_key: None,
        }
    }

    /// The server of this number.
    ///
    /// # Panics
    /// If the number is another configuration's.
    pub fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.0 as usize]
    }

    /// The listening socket of this number.
    ///
    /// # Panics
    /// If the number is another configuration's.
    pub fn listen(&self, id: ListenId) -> &Listen {
        &self.listens[id.0 as usize]
    }
}
