//! The resolver of a configuration: `resolver` and `resolver_timeout`.

use crate::cache::{Cache, Fact, Wanted};
use crate::exchange::Exchange;
use crate::flight::{Flight, Told};
use crate::limits::RESOLVER_ALIASES_MAX;
use crate::message::{self, Srv};
use brisk_net::{clock, timeout};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where complaints about servers go, each a line at level `error`.
pub type Log = Rc<dyn Fn(fmt::Arguments<'_>)>;

/// The parameters of `resolver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Not empty. They are asked in turn.
    pub servers: Vec<SocketAddr>,
    /// `valid=`: how long answers hold, whatever they say.
    pub valid_secs: Option<u64>,
    /// Look-ups ask for IPv4 addresses.
    pub ipv4: bool,
    /// Look-ups ask for IPv6 addresses.
    pub ipv6: bool,
}

/// Why a name has no addresses. Displays as nginx logs it, without the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveError(pub u32);

impl ResolveError {
    /// There is no such name (RFC 1035: NXDOMAIN).
    pub const NOT_FOUND: ResolveError = ResolveError(3);
    /// No server has answered in time.
    pub const TIMED_OUT: ResolveError = ResolveError(110);
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not be resolved ({}: {})", self.0, message::code_text(self.0))
    }
}

/// Addresses of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// All addresses that are known.
    pub addresses: Vec<IpAddr>,
    /// The last second (monotonic) in which they hold.
    pub valid_secs: u64,
}

/// See the module's head. Shared by all threads.
pub struct Resolver {
    config: Arc<Config>,
    state: Mutex<State>,
    next_server: AtomicUsize,
}

#[derive(Default)]
struct State {
    cache: Cache,
    flights: HashMap<(Wanted, Box<str>), Arc<Flight>>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resolver").field(&self.config).finish()
    }
}

impl Resolver {
    /// Knows nothing yet. There must be a server, and a family of addresses.
    pub fn new(config: Config) -> Resolver {
        assert!(!config.servers.is_empty() && (config.ipv4 || config.ipv6));
        Resolver { config: Arc::new(config), state: Mutex::default(), next_server: AtomicUsize::new(0) }
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How long an answer that there is nothing is believed, in seconds.
    pub fn negative_secs(&self) -> u64 {
        self.config.valid_secs.unwrap_or(10)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses of a name, or of an address itself. `limit` of zero: no limit.
    pub async fn lookup(
        self: &Arc<Self>,
        name: &str,
        limit: Duration,
        log: &Log,
    ) -> Result<Found, ResolveError> {
        if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Found { addresses: vec![address], valid_secs: u64::MAX });
        }
        match self.within(limit, self.follow(Wanted::Addresses, name, log)).await? {
            (Fact::Addresses(addresses), valid_secs) => {
                Ok(Found { addresses: addresses.to_vec(), valid_secs })
            }
            _ => Err(ResolveError::NOT_FOUND),
        }
    }

    /// The SRV records of a name, and until when they hold.
    pub(crate) async fn services(
        self: &Arc<Self>,
        name: &str,
        limit: Duration,
        log: &Log,
    ) -> Result<(Arc<[Srv]>, u64), ResolveError> {
        match self.within(limit, self.follow(Wanted::Services, name, log)).await? {
            (Fact::Services(services), valid) => Ok((services, valid)),
            _ => Err(ResolveError::NOT_FOUND),
        }
    }

    async fn within(
        &self,
        limit: Duration,
        told: impl Future<Output = Told>,
    ) -> Result<(Fact, u64), ResolveError> {
        let told = if limit.is_zero() {
            told.await
        } else {
            timeout(limit, told).await.map_err(|_| ResolveError::TIMED_OUT)?
        };
        told.map_err(ResolveError)
    }

    /// Follows aliases to their end.
    async fn follow(self: &Arc<Self>, wanted: Wanted, name: &str, log: &Log) -> Told {
        let lower = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let (mut name, mut valid) = (Arc::<str>::from(lower), u64::MAX);
        for _ in 0..=RESOLVER_ALIASES_MAX {
            let (fact, until) = self.fact(wanted, &name, log).await?;
            valid = valid.min(until);
            match fact {
                Fact::Alias(alias) => name = alias,
                fact => return Ok((fact, valid)),
            }
        }
        Err(ResolveError::NOT_FOUND.0)
    }

    async fn fact(self: &Arc<Self>, wanted: Wanted, name: &Arc<str>, log: &Log) -> Told {
        let (flight, is_new) = {
            let mut state = self.lock();
            if let Some((fact, valid)) = state.cache.get(wanted, name, clock::mono_ms() / 1000) {
                return Ok((turned(fact), valid));
            }
            let key = (wanted, Box::<str>::from(&**name));
            match state.flights.get(&key) {
                Some(flight) => (flight.clone(), false),
                None => {
                    let flight = Arc::<Flight>::default();
                    state.flights.insert(key, flight.clone());
                    (flight, true)
                }
            }
        };
        let waiting = flight.join();
        if is_new {
            self.start(wanted, name.clone(), flight, log.clone());
        }
        waiting.await
    }

    /// Asks servers in a task of its own: the first caller may give up while others wait.
    fn start(self: &Arc<Self>, wanted: Wanted, name: Arc<str>, flight: Arc<Flight>, log: Log) {
        let server = self.next_server.fetch_add(1, Ordering::Relaxed);
        let this = self.clone();
        let config = self.config.clone();
        brisk_net::spawn(async move {
            let exchange =
                Exchange { config, wanted, name: name.clone(), flight: flight.clone(), log, server };
            let told = exchange.run().await;
            let mut state = this.lock();
            state.flights.remove(&(wanted, Box::<str>::from(&*name)));
            if let Some(Ok((fact, valid))) = &told {
                state.cache.put(wanted, &name, fact.clone(), *valid, clock::mono_ms() / 1000);
            }
            drop(state);
            // Another caller may have come after it was found that none waits.
            flight.finish(told.unwrap_or(Err(ResolveError::TIMED_OUT.0)));
        });
    }
}

/// What is told again begins elsewhere, so that all addresses are used.
fn turned(fact: Fact) -> Fact {
    match fact {
        Fact::Addresses(addresses) if addresses.len() > 1 => {
            let mut turned = addresses.to_vec();
            let by = random() as usize % turned.len();
            turned.rotate_left(by);
            Fact::Addresses(turned.into())
        }
        other => other,
    }
}

/// A number that need not be secret.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0)
}
