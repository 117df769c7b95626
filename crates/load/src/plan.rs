//! What a run does: targets and their request bytes, connections, limits. Pure data.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use brisk_tls::ClientContext;

use crate::arrivals::{Distribution, Rate};
pub use crate::h3::ClientSettings;
use crate::jar::Jar;
pub use crate::request::{RequestOptions, Target};
use crate::rng::Rng;
pub use crate::url::{Endpoint, Place, Resolve, Url, UrlError};

/// The targets of one server; a connection stays with its endpoint.
#[derive(Debug, Clone)]
pub struct Site {
    /// Where to connect.
    pub endpoint: Endpoint,
    /// A request for a tunnel to it, if the endpoint is a proxy that makes one.
    pub tunnel: Option<Arc<[u8]>>,
    /// What to ask for there; never empty.
    pub targets: Vec<Target>,
}

/// In which order a site's targets are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One after another, over all connections of a thread.
    #[default]
    RoundRobin,
    /// Independently at random.
    Random,
}

/// The protocol spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2: agreed on by ALPN with TLS, by prior knowledge without (RFC 9113 §3.3).
    H2,
    /// HTTP/3, over QUIC.
    H3,
}

impl Version {
    /// What the command lines' `-2`, `-3` and `-m` (which alone means HTTP/2) ask for.
    pub fn asked(http2: bool, http3: bool, has_streams: bool) -> Self {
        match (http3, http2 || has_streams) {
            (true, _) => Self::H3,
            (false, true) => Self::H2,
            (false, false) => Self::H1,
        }
    }

    /// Whether a connection carries many requests at a time, in streams.
    pub fn has_streams(self) -> bool {
        self != Self::H1
    }

    /// Its name for ALPN (RFC 7301).
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::H1 => b"http/1.1",
            Self::H2 => b"h2",
            Self::H3 => b"h3",
        }
    }
}

/// The pause of a user between a response and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Always the same.
    Constant(Duration),
    /// Anything between the two, evenly.
    Uniform(Duration, Duration),
    /// Exponential with this mean: what independent people do.
    Exponential(Duration),
}

impl Think {
    /// One pause.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(pause) => pause,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(rng.unit()),
            // No pause is longer than twenty times the mean: that is one in half a billion.
            Self::Exponential(mean) => mean.mul_f64((-(1.0 - rng.unit()).ln()).min(20.0)),
        }
    }
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After this time, not counting the warm-up. What is under way then is waited for.
    After(Duration),
    /// After this many requests in all.
    Requests(u64),
    /// After this many requests in all, or when this time is over, as with [`Self::After`]: whichever comes first.
    RequestsWithin(u64, Duration),
    /// After this many requests on each connection.
    RequestsPerConnection(u64),
    /// When the caller says so.
    Told,
}

impl Stop {
    /// How long it may take, not counting the warm-up, if that ends it.
    pub fn time(self) -> Option<Duration> {
        match self {
            Self::After(time) | Self::RequestsWithin(_, time) => Some(time),
            _ => None,
        }
    }

    /// How many requests end it, if any do.
    pub fn requests(self) -> Option<u64> {
        match self {
            Self::Requests(count) | Self::RequestsWithin(count, _) => Some(count),
            _ => None,
        }
    }
}

/// TLS to all sites.
#[derive(Debug, Clone)]
pub struct Tls {
    /// What handshakes are made with; it keeps the sessions, if they are to be resumed.
    pub context: Arc<ClientContext>,
    /// The server's name.
    pub name: String,
}

/// Everything the engine needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Servers and their targets; connections are dealt out over them in turn.
    pub sites: Vec<Site>,
    /// TLS, or plain connections.
    pub tls: Option<Tls>,
    /// QUIC, for HTTP/3; with TLS's sessions and name.
    pub quic: Option<ClientSettings>,
    /// With HTTP/3: each connection moves to another port so often.
    pub migrate: Option<Duration>,
    /// Connections in all; in a closed loop, users: its clock starts when all of them are connected, see [`Self::gathers`].
    pub connections: usize,
    /// Threads, each with its own loop and its share of the connections.
    pub threads: usize,
    /// The CPUs that threads are pinned to, in turn; empty leaves it to the scheduler.
    pub cpus: Vec<usize>,
    /// What is spoken with the servers.
    pub version: Version,
    /// Requests in flight per connection; 1 waits for each response. With HTTP/2 and HTTP/3: streams.
    pub pipeline: usize,
    /// A connection is closed after so many responses; `None`: never by us.
    pub per_connection: Option<u64>,
    /// Connections are opened at this rate; `None`: at once, as far as `opening_max` allows.
    pub dial_rate: Option<Rate>,
    /// In a closed loop, the pause between a response and the connection's next request.
    pub think: Option<Think>,
    /// An open loop: requests are due at this rate whatever becomes of those before them, and wait for a connection if
    /// all are busy. `None` is a closed loop, in which every connection asks again when it was answered.
    pub rate: Option<Rate>,
    /// How its requests lie around the moments that the rate gives them.
    pub distribution: Distribution,
    /// Order of the targets.
    pub order: Order,
    /// End of the run.
    pub stop: Stop,
    /// Whether finished connections are kept open until the caller stops the run.
    pub hold: bool,
    /// Responses in this first part are not counted in the statistics.
    pub warmup: Duration,
    /// A response that takes longer is an error and costs the connection.
    pub timeout: Duration,
    /// At most this many connections of a thread are between connect and the end of their handshake.
    pub opening_max: usize,
    /// The width of the slices of [`Outcome::series`](crate::engine::Outcome); `None`: there is no series.
    pub series: Option<Duration>,
    /// Keeps a [`Record`](crate::stats::Record) of each request, so many at most.
    pub record: Option<usize>,
    /// The time to the first byte of responses is kept too.
    pub phases: bool,
    /// Each connection's user sends back the cookies that answers have set, and begins with these; connections that
    /// follow a closed one are the same user's. `None`: cookies are not looked at.
    pub jar: Option<Jar>,
    /// The kernel's buffer for what is sent, in bytes.
    pub send_buffer: Option<usize>,
    /// The kernel's buffer for what is received, in bytes.
    pub recv_buffer: Option<usize>,
}

impl Plan {
    /// A closed loop over the given sites with everything else at its default.
    pub fn new(sites: Vec<Site>, connections: usize, stop: Stop) -> Self {
        Self {
            sites,
            tls: None,
            quic: None,
            migrate: None,
            connections,
            threads: 1,
            cpus: Vec::new(),
            version: Version::H1,
            pipeline: 1,
            per_connection: None,
            dial_rate: None,
            think: None,
            rate: None,
            distribution: Distribution::Constant,
            order: Order::RoundRobin,
            stop,
            hold: false,
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(10),
            opening_max: 128,
            series: None,
            record: None,
            phases: false,
            jar: None,
            send_buffer: None,
            recv_buffer: None,
        }
    }

    /// Why it cannot be carried out, if it cannot.
    pub fn fault(&self) -> Option<&'static str> {
        if self.sites.is_empty() || self.sites.iter().any(|site| site.targets.is_empty()) {
            return Some("a plan needs at least one target per site");
        }
        if self.connections == 0 || self.threads == 0 || self.pipeline == 0 || self.opening_max == 0 {
            return Some("connections, threads, pipeline depth and opening limit start at one");
        }
        if self.per_connection == Some(0) {
            return Some("a connection carries at least one request");
        }
        let rates = [self.rate, self.dial_rate];
        if rates.iter().flatten().any(|rate| !rate.is_sound()) {
            return Some("rates are positive and below a billion per second");
        }
        if self.rate.is_some() && (self.think.is_some() || self.pipeline > 1 && self.version == Version::H1) {
            return Some(
                "an open loop has neither pauses nor pipelining: requests are due when they are due",
            );
        }
        if self.version == Version::H3 {
            let is_tcp = |site: &Site| matches!(site.endpoint, Endpoint::Tcp(_));
            if self.tls.is_none() || self.quic.is_none() {
                return Some("HTTP/3 needs https");
            }
            if !self.sites.iter().all(|site| is_tcp(site) && site.tunnel.is_none()) {
                return Some("HTTP/3 goes over UDP: neither unix sockets nor proxies carry it");
            }
        } else if self.migrate.is_some() {
            return Some("only connections of HTTP/3 can move to another port");
        }
        if self.series.is_some_and(|width| width < Duration::from_millis(10)) {
            return Some("slices of a series are at least 10 ms wide");
        }
        None
    }

    /// Whether the clock starts when all users are there: in a closed loop, unless users come at a rate, or idle connections
    /// are what it is about.
    pub fn gathers(&self) -> bool {
        self.rate.is_none() && self.dial_rate.is_none() && !self.hold
    }

    /// Opens `connections`, asks once on each, and keeps them open until told.
    pub fn idle(sites: Vec<Site>, connections: usize) -> Self {
        Self { hold: true, ..Self::new(sites, connections, Stop::RequestsPerConnection(1)) }
    }
}

/// Groups URLs by endpoint, in the order in which endpoints first appear. Names are looked up.
pub fn sites(urls: &[Url], options: &RequestOptions) -> Result<Vec<Site>, UrlError> {
    let mut sites: Vec<Site> = Vec::new();
    for url in urls {
        let way = way_to(url, options)?;
        let mut options = RequestOptions { secure: url.origin.secure, ..options.clone() };
        options.headers.extend(way.login.map(|login| format!("Proxy-Authorization: {login}")));
        let mut target = options.target(&url.origin.authority(), &way.path);
        target.url = Some(url.clone());
        match sites.iter_mut().find(|site| site.endpoint == way.endpoint && site.tunnel == way.tunnel) {
            Some(site) => site.targets.push(target),
            None => {
                sites.push(Site { endpoint: way.endpoint, tunnel: way.tunnel, targets: vec![target] });
            }
        }
    }
    Ok(sites)
}

/// How a URL is asked for.
struct Way {
    endpoint: Endpoint,
    tunnel: Option<Arc<[u8]>>,
    /// What stands in the request's first line.
    path: String,
    /// What a proxy is told with each request.
    login: Option<String>,
}

fn way_to(url: &Url, options: &RequestOptions) -> Result<Way, UrlError> {
    let known = options.resolve.iter().find(|known| known.is_of(&url.origin.place));
    let known = known.map(|known| Endpoint::Tcp(SocketAddr::new(known.address, known.port)));
    let path = url.path.clone();
    let Some(proxy) = &options.proxy else {
        let endpoint = known.map_or_else(|| url.endpoint(), Ok)?;
        return Ok(Way { endpoint, tunnel: None, path, login: None });
    };
    // A proxy looks names up itself: an address is what it is told in place of the name.
    let mut to = url.clone();
    if let (Place::Name(host, _), Some(Endpoint::Tcp(address))) = (&mut to.origin.place, known) {
        *host = address.ip().to_string();
    }
    let refuse = |why: String| url.refuse(why);
    let endpoint = proxy.endpoint()?;
    if url.origin.secure || options.tunnels {
        let tunnel = Some(proxy.connect(&to.origin).map_err(refuse)?.into());
        return Ok(Way { endpoint, tunnel, path, login: None });
    }
    let login = proxy.login().map(str::to_owned);
    Ok(Way { endpoint, tunnel: None, path: proxy.target(&to).map_err(refuse)?, login })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Proxy;

    #[test]
    fn urls_of_one_server_share_a_site() {
        let urls: Vec<Url> = ["http://127.0.0.1:1/a", "http://127.0.0.1:2/b", "http://127.0.0.1:1/c"]
            .iter()
            .map(|url| Url::parse(url).unwrap())
            .collect();
        let sites = sites(&urls, &RequestOptions::default()).unwrap();
        assert_eq!(sites.iter().map(|site| site.targets.len()).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_proxy_is_asked_for_whole_urls_or_for_tunnels() {
        let url = |text: &str| Url::parse(text).unwrap();
        let proxy = Proxy::parse("me:secret@127.0.0.1:3128").unwrap();
        let options = RequestOptions { proxy: Some(proxy), ..RequestOptions::default() };
        let urls = [url("http://a.test/x"), url("http://b.test/y")];
        let plain = sites(&urls, &options).unwrap();
        let [site] = &plain[..] else { panic!("{plain:?}") };
        assert_eq!(site.endpoint, Endpoint::Tcp("127.0.0.1:3128".parse().unwrap()));
        let first = String::from_utf8_lossy(&site.targets[0].request).into_owned();
        assert_eq!(
            first,
            "GET http://a.test/x HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n"
        );
        let tunnels = sites(&urls, &RequestOptions { tunnels: true, ..options.clone() }).unwrap();
        assert_eq!(tunnels.len(), 2);
        let secure = sites(&[url("https://a.test/x")], &options).unwrap();
        assert!(secure[0].tunnel.as_deref().unwrap().starts_with(b"CONNECT a.test:443 HTTP/1.1\r\n"));
        // What the proxy is told is no business of the server behind it.
        let inner = String::from_utf8_lossy(&secure[0].targets[0].request).into_owned();
        assert_eq!(inner, "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let resolve = vec![Resolve { host: "a.test".into(), port: 443, address: "::1".parse().unwrap() }];
        let known =
            sites(&[url("https://a.test/x")], &RequestOptions { resolve, ..options.clone() }).unwrap();
        assert!(known[0].tunnel.as_deref().unwrap().starts_with(b"CONNECT [::1]:443 "));
        assert!(sites(&[url("http://unix:/s:/")], &options).is_err());
    }

    #[test]
    fn pauses_have_the_mean_that_they_should() {
        let mut rng = Rng::new(4);
        let (ms, count) = (Duration::from_millis, 20_000);
        for (think, want) in [
            (Think::Constant(ms(30)), 30.0),
            (Think::Uniform(ms(10), ms(30)), 20.0),
            (Think::Exponential(ms(50)), 50.0),
        ] {
            let sum: Duration = (0..count).map(|_| think.draw(&mut rng)).sum();
            let mean = sum.as_secs_f64() * 1e3 / f64::from(count);
            assert!((mean - want).abs() < want * 0.03, "{think:?}: {mean} ms");
        }
    }

    #[test]
    fn plans_that_mean_nothing_are_refused() {
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        let sites = sites(&[url], &RequestOptions::default()).unwrap();
        let plan = Plan::new(sites, 2, Stop::Requests(1));
        assert_eq!(plan.fault(), None);
        let with = |change: fn(&mut Plan)| {
            let mut plan = plan.clone();
            change(&mut plan);
            plan.fault()
        };
        assert!(with(|plan| plan.sites.clear()).is_some());
        assert!(with(|plan| plan.connections = 0).is_some());
        assert!(with(|plan| plan.per_connection = Some(0)).is_some());
        assert!(with(|plan| plan.rate = Some(Rate::constant(0.0))).is_some());
        assert!(with(|plan| plan.series = Some(Duration::ZERO)).is_some());
    }
}
