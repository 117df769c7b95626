//! What the command lines of this crate share.

use crate::client::{Fields, Network, Options, Url, Version};
use brisk_load::cli::args::{self, duration};
use brisk_load::plan::Resolve;
use brisk_load::proxy::Proxy;
use std::time::Duration;

/// Options that mean the same wherever a [client](crate::client) does the work.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// Further header line; "Name:" leaves out one that would be sent
    #[arg(short = 'H', long = "header", value_name = "LINE", value_parser = field)]
    headers: Vec<(String, String)>,
    /// Log in with this name and password (Basic)
    #[arg(short, long, value_name = "NAME:PASSWORD", value_parser = args::login)]
    user: Option<String>,
    /// This name and port are at this address
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = args::resolve)]
    resolve: Vec<Resolve>,
    /// Ask through this HTTP proxy: https and HTTP/2 by CONNECT
    #[arg(short = 'x', long, value_name = "[NAME:PASSWORD@]HOST:PORT", value_parser = Proxy::parse)]
    proxy: Option<Proxy>,
    /// Access to the network: a rate, a round trip, or both, e.g. 10mbit,40ms
    #[arg(long, value_name = "RATE,TIME", value_parser = Network::parse)]
    network: Option<Network>,
    /// Take any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// HTTP/1.1 alone
    #[arg(long = "http1.1", conflicts_with_all = ["http2", "http3"])]
    http1: bool,
    /// HTTP/2 alone: by ALPN, or without TLS by prior knowledge
    #[arg(short = '2', long, conflicts_with = "http3")]
    http2: bool,
    /// HTTP/3 alone, over QUIC; if it cannot be had, why not
    #[arg(short = '3', long)]
    http3: bool,
    /// Longest wait for an answer
    #[arg(long, visible_alias = "max-time", value_name = "TIME", default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// curl's letter for the longest time: it has one meaning here, and says which.
    #[arg(short = 'm', hide = true, value_name = "N", value_parser = no_streams)]
    streams: Option<usize>,
}

impl ClientArgs {
    /// A client's options, which are else as given.
    pub fn options(&self, other: Options) -> Options {
        let version = match (self.http1, self.http2, self.http3) {
            (true, ..) => Version::H1,
            (_, true, _) => Version::H2,
            (.., true) => Version::H3,
            _ => other.version,
        };
        let (resolve, proxy) = (self.resolve.clone(), self.proxy.clone());
        let network = self.network;
        Options { insecure: self.insecure, version, timeout: self.timeout, resolve, proxy, network, ..other }
    }

    /// The header lines.
    pub fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        self.headers.iter().for_each(|(name, value)| fields.push(name, value));
        self.user.iter().for_each(|login| fields.push("Authorization", login));
        fields
    }
}

fn no_streams(_: &str) -> Result<usize, String> {
    Err("that is streams of HTTP/2 where there is load; the longest time is --timeout, or --max-time"
        .to_owned())
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or(format!("\"{line}\" is not a header line: write \"Name: value\""))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// A URL; without a scheme it is http.
pub fn url(text: &str) -> Result<Url, String> {
    Url::given(text).map_err(|error| error.to_string())
}
