//! Names of servers that are looked up while the server runs: those with `resolve`, and those that nobody knew at the
//! start.
//!
//! Tasks here belong to a configuration: a reload ends them, and the next configuration begins its own.
//! Addresses that were found live in the group's zone and outlive that.

use super::group::Upstream;
use super::state::Kept;
use crate::limits::RETRY_TIME_MIN;
use brisk_balance::{Endpoint, PeerId, Resolved};
use brisk_host::thread::Live;
use brisk_net::{clock, sleep, sleep_until};
use brisk_resolver::{Log, ResolveError, Resolver};
use brisk_server::core::LogLevel;
use brisk_server::service::{Service, Work};
use brisk_server::worker::log_error;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// An unknown name is asked for again this much later.
const UNKNOWN_TIME: Duration = Duration::from_secs(5);

impl Service for Upstream {
    fn start(self: Arc<Self>, work: &Work) {
        // Now, if no request has come before: checks of the configuration before end with it.
        self.group();
        let log = Logged { live: work.live.clone() };
        if let Some(why) = self.parts.state.as_ref().and_then(Kept::complaint) {
            let name = &self.parts.name;
            log.error(format_args!(
                "the servers of upstream \"{name}\" could not be read, and changes are not kept: {why}"
            ));
        }
        if let Some(resolver) = self.parts.resolver.clone() {
            let (this, log, inner) = (self.clone(), log.clone(), work.clone());
            work.spawn(async move { this.watch_names(&resolver, &log, &inner).await });
        }
        for (at, server) in self.parts.servers.iter().enumerate() {
            // Only those that DNS did not know at the start; nothing else is looked up without `resolve`.
            if let Some(host) = server.unknown.clone() {
                let (this, log) = (self.clone(), log.clone());
                work.spawn(async move { this.find_out(at, host, &log).await });
            }
        }
    }
}

/// A server's name.
struct Named {
    id: PeerId,
    host: Arc<str>,
    service: Option<Arc<str>>,
}

/// Where messages that belong to no request go.
#[derive(Clone)]
pub(super) struct Logged {
    pub live: Rc<Live>,
}

impl Logged {
    /// Writes to the main error logs.
    pub fn error(&self, message: fmt::Arguments<'_>) {
        log_error(&self.live, LogLevel::Error, message);
    }

    fn for_resolver(&self) -> Log {
        let this = self.clone();
        Rc::new(move |message| this.error(message))
    }
}

impl Upstream {
    /// Starts looking up each name, those of servers that are added later too.
    async fn watch_names(self: &Arc<Self>, resolver: &Arc<Resolver>, log: &Logged, work: &Work) {
        let mut known: Vec<PeerId> = Vec::new();
        loop {
            let names = self.group().to_resolve();
            // A server that is gone and comes back is a new one, with a task of its own.
            known.retain(|id| names.iter().any(|(have, ..)| have == id));
            for (id, host, service) in names {
                if known.contains(&id) {
                    continue;
                }
                known.push(id);
                let (this, resolver, log) = (self.clone(), resolver.clone(), log.clone());
                let name = Named { id, host, service };
                work.spawn(async move { this.keep_resolved(&resolver, &name, &log).await });
            }
            // Woken when servers are added or taken away over the API.
            self.names.changed().await;
        }
    }

    /// Looks a name up again whenever what was told has expired, as long as its server is there.
    async fn keep_resolved(&self, resolver: &Arc<Resolver>, name: &Named, log: &Logged) {
        while self.group().to_resolve().iter().any(|(id, ..)| *id == name.id) {
            let now = clock::mono_ms() / 1000;
            match self.look_up(resolver, name, log).await {
                Ok((found, valid)) => {
                    self.group().resolved(name.id, &found);
                    // The last second in which it holds is still to pass.
                    sleep_until((valid.max(now) + 1) * 1000).await;
                }
                // The name server says that there is no such name: its old addresses may be somebody else's by
                // now.
                Err(ResolveError::NOT_FOUND) => {
                    self.group().resolved(name.id, &[]);
                    sleep_until((now + resolver.negative_secs() + 1) * 1000).await;
                }
                // Whatever was known goes on.
                Err(_) => sleep(self.parts.resolver_timeout.max(RETRY_TIME_MIN)).await,
            }
        }
    }

    async fn look_up(
        &self,
        resolver: &Arc<Resolver>,
        name: &Named,
        log: &Logged,
    ) -> Result<(Vec<Resolved>, u64), ResolveError> {
        let (limit, lines, host) = (self.parts.resolver_timeout, log.for_resolver(), &name.host);
        let Some(service) = &name.service else {
            let found = resolver.lookup(host, limit, &lines).await;
            let found = found.inspect_err(|error| log.error(format_args!("{host} {error}")))?;
            let port = self.port_of(name.id);
            let endpoint = |ip| Endpoint::Ip(SocketAddr::new(ip, port));
            let peers =
                found.addresses.into_iter().map(|ip| Resolved { endpoint: endpoint(ip), service: None });
            return Ok((peers.collect(), found.valid_secs));
        };
        let result = resolver.lookup_service(service, host, limit, &lines).await;
        let failed = match &result {
            Ok(found) | Err((_, found)) => &found.failed,
        };
        for (target, error) in failed {
            log.error(format_args!("{target} {error} while resolving service {service} of {host}"));
        }
        let found = result.map_err(|(error, _)| {
            log.error(format_args!("service {service} of {host} {error}"));
            error
        })?;
        let peers = found.places.into_iter().map(|place| Resolved {
            endpoint: Endpoint::Ip(place.address),
            service: Some((place.name, u32::from(place.weight), place.priority)),
        });
        Ok((peers.collect(), found.valid_secs))
    }

    /// The port that a server's addresses get.
    fn port_of(&self, id: PeerId) -> u16 {
        let servers = self.group().servers();
        servers.iter().find(|server| server.id == id).map_or(80, |server| server.spec.port())
    }

    /// Asks the system for a name until it is known.
    async fn find_out(&self, at: usize, host: String, log: &Logged) {
        let port = self.parts.servers[at].port;
        // Servers have their numbers in the order of the configuration only until some are added or taken away: the name
        // and the place in it tell which is meant.
        let spec = &self.parts.servers[at].spec;
        loop {
            sleep(UNKNOWN_TIME).await;
            let name = host.clone();
            // getaddrinfo(3) blocks, and reads /etc/hosts, which the resolver does not.
            let Ok(job) = brisk_net::blocking::run(move || {
                (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>)
            }) else {
                continue;
            };
            let Ok(found) = job.await else { continue };
            let peers: Vec<_> = found
                .into_iter()
                .map(|address| Resolved { endpoint: Endpoint::Ip(address), service: None })
                .collect();
            let servers = self.group().servers();
            let same = |server: &&brisk_balance::ServerStatus| {
                server.spec.server == spec.server && server.spec.endpoints.is_empty()
            };
            let Some(server) = servers.iter().find(same).filter(|_| !peers.is_empty()) else { continue };
            self.group().resolved(server.id, &peers);
            let name = &self.parts.name;
            log_error(
                &log.live,
                LogLevel::Notice,
                format_args!("host {host} in upstream \"{name}\" was found"),
            );
            return;
        }
    }
}
