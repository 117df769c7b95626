//! The block `otel_exporter`.

use crate::computed::lines;
use crate::ssl::build::trust_of;
use brisk_conf::{Diag, Directive, Token, value};
use brisk_http::field::is_token_byte;
use brisk_otlp::Pair;
use brisk_server::conf::{Cx, invalid_value};
use brisk_tls::{ClientContext, ClientOptions, Trust, Verification};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Authorities of the system, for an endpoint of https without `trusted_certificate`.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Where the collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ip(Vec<SocketAddr>),
    Unix(Box<Path>),
}

/// What the block says.
#[derive(Clone)]
pub(super) struct Draft {
    pub place: Place,
    /// As it was written, for messages and `:authority`.
    pub host: Box<str>,
    pub tls: Option<ClientContext>,
    /// The certificates that the collector's is verified by, as they were read.
    pub authorities: Option<Arc<[u8]>>,
    pub headers: Vec<Pair>,
    pub interval: Duration,
    pub batch_size: usize,
    pub batch_count: usize,
    /// All of it as text: an equal block that leads to the same place goes on with the same queue after a reload.
    pub key: String,
}

impl Place {
    /// Whether what is sent here after a reload may go on as before it. Addresses may come in another order; a name that is not found
    /// now keeps those that it had.
    pub fn is_still(&self, found: &Place) -> bool {
        match (self, found) {
            (Place::Ip(have), Place::Ip(found)) => {
                let sorted = |addresses: &[SocketAddr]| {
                    let mut sorted = addresses.to_vec();
                    sorted.sort_unstable();
                    sorted
                };
                found.is_empty() || sorted(have) == sorted(found)
            }
            (have, found) => have == found,
        }
    }
}

/// Reads the block.
pub(super) fn read(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Draft, Diag> {
    let (mut endpoint, mut trusted, mut headers) = (None, None, Vec::new());
    let (mut interval, mut batch_size, mut batch_count) = (Duration::from_secs(5), 512, 4);
    let mut key = String::new();
    for line in lines(cx, d) {
        let count = if line.name() == "header" { 2 } else { 1 };
        let known = ["endpoint", "trusted_certificate", "header", "interval", "batch_size", "batch_count"];
        if !known.contains(&line.name()) {
            let text = format!("unknown directive \"{}\" in \"otel_exporter\"", line.name());
            return Err(Diag::emerg(line.span, text).help(format!("it has {}", known.join(", "))));
        }
        if line.args.len() != count {
            let name = line.name();
            let text = format!("invalid number of arguments in \"{name}\" directive of \"otel_exporter\"");
            let takes = if count == 2 { "a name and a value" } else { "one value" };
            return Err(Diag::emerg(line.span, text).help(format!("\"{name}\" takes {takes}")));
        }
        let words: Vec<_> = line.args.iter().map(Token::bytes).collect();
        let _ = write!(key, "{:?}", (line.name(), words));
        match line.name() {
            "endpoint" => endpoint = Some(line.arg(0)),
            "trusted_certificate" => trusted = Some(line.arg(0).clone()),
            "header" => headers.push(header(line)?),
            "interval" => interval = value::msec(line.arg(0))?.max(Duration::from_millis(1)),
            "batch_size" => batch_size = positive(line)?,
            _ => batch_count = positive(line)?,
        }
    }
    let missing = || {
        Diag::emerg(d.span, "\"otel_exporter\" requires \"endpoint\"")
            .help("write endpoint HOST:4317; or endpoint https://HOST:4317;")
    };
    let token = endpoint.ok_or_else(missing)?;
    let (is_tls, address) = without_scheme(token.str());
    if address.is_empty() {
        return Err(missing());
    }
    let place = place(cx, token, address)?;
    let (tls, authorities) = if is_tls {
        let (tls, authorities) = client(cx, token, trusted.as_ref())?;
        (Some(tls), Some(authorities))
    } else {
        (None, None)
    };
    let host = if address.starts_with("unix:") { "localhost" } else { address };
    Ok(Draft { place, host: host.into(), tls, authorities, headers, interval, batch_size, batch_count, key })
}

/// `https://` asks for TLS; both schemes in any case, as in nginx.
fn without_scheme(text: &str) -> (bool, &str) {
    for (scheme, is_tls) in [("https://", true), ("http://", false)] {
        if let Some((head, rest)) = text.split_at_checked(scheme.len())
            && head.eq_ignore_ascii_case(scheme)
        {
            return (is_tls, rest);
        }
    }
    (false, text)
}

fn positive(line: &Directive) -> Result<usize, Diag> {
    match value::number(line.arg(0))? {
        0 => Err(invalid_value(line, line.arg(0), "at least 1")),
        number => Ok(number as usize),
    }
}

/// gRPC's names are small; nginx writes them so itself.
fn header(line: &Directive) -> Result<Pair, Diag> {
    let wrong = |what: &str, help: &str| {
        let text = format!("\"header\" directive of \"otel_exporter\" has invalid header {what}");
        Diag::emerg(line.span, text).help(help)
    };
    let (name, value) = (line.arg(0).bytes().to_ascii_lowercase(), line.arg(1).bytes());
    if name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte)) {
        return Err(wrong("name", "a name has letters, digits and hyphens"));
    }
    if !value.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return Err(wrong("value", "a value has printable ASCII characters only"));
    }
    Ok((name.into(), value.into()))
}

fn place(cx: &mut Cx<'_, '_>, token: &Token, address: &str) -> Result<Place, Diag> {
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(Place::Unix(Path::new(path).into()));
    }
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    let split = address.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.ends_with(':'));
    let Some((host, port)) = split.and_then(|(host, text)| Some((host, port(text)?))) else {
        return Err(Diag::emerg(token.span, format!("no port in endpoint \"{address}\""))
            .help("collectors listen for OTLP over gRPC at port 4317"));
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let all = match bare.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => cx.global.loader.addresses(bare).unwrap_or_default(),
    };
    if all.is_empty() {
        // As for back ends: a name server that does not answer for a moment must not prevent the start.
        let text = format!("host not found in endpoint \"{address}\"");
        cx.warn(
            Diag::warn(token.span, text)
                .help("spans are dropped until a reload finds it: check the name, or write an address"),
        );
    }
    Ok(Place::Ip(all.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()))
}

/// What TLS is spoken with, and the certificates in it as they were read.
fn client(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    trusted: Option<&Token>,
) -> Result<(ClientContext, Arc<[u8]>), Diag> {
    let (trust, authorities) = match trusted {
        Some(file) => (trust_of(cx, &[Some(file.clone())], None)?, cx.read_file(file)?),
        None => {
            let system = cx.global.loader.read(SYSTEM_AUTHORITIES);
            let mut trust = Trust::default();
            let read =
                system.map_err(|error| error.to_string()).and_then(|text| trust.add(&text).map(|()| text));
            let text = read.map_err(|why| {
                Diag::emerg(token.span, format!("cannot load \"{SYSTEM_AUTHORITIES}\" ({why})"))
                    .help("name the collector's authority: trusted_certificate FILE;")
            })?;
            (Arc::new(trust), text)
        }
    };
    let options = ClientOptions {
        alpn: vec![b"h2".to_vec()],
        ..ClientOptions::new(Verification::On { trust, depth: u32::MAX })
    };
    let client = ClientContext::new(&options).map_err(|why| Diag::emerg(token.span, why))?;
    Ok((client, authorities))
}
