//! Random clients, and what they are answered.

use crate::random::Rng;
use crate::sites::Site;
use brisk_testkit::client::{Failure, socket_from};
use brisk_testkit::tls::stranger;
use brisk_testkit::{Client, H2Client, TlsClient};
use brisk_tls::{ClientContext, ClientOptions, Versions};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// How the text of what is no answer begins: both servers may have the same fault.
pub const MALFORMED: &str = "no answer: ";

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    Tls13,
    Tls12,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Profile {
    pub protocol: Protocol,
    pub source: Ipv4Addr,
    pub to: Ipv4Addr,
    /// Index among the ports.
    pub port: usize,
    pub fields: Vec<(&'static str, &'static str)>,
}

const AGENTS: &[&str] = &[
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605.1 (KHTML, like Gecko) Version/17 Safari/605.1",
    "Mozilla/4.0 (compatible; MSIE 6.0; Windows 98)",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120 Safari/537.36",
    "curl/8",
];

impl Profile {
    pub fn random(rng: &mut Rng, has_tls: bool, has_twin: bool) -> Profile {
        let protocol = match rng.below(10) {
            0..3 => Protocol::Http2,
            3 | 4 if has_tls => Protocol::Tls13,
            5 | 6 if has_tls => Protocol::Tls12,
            _ => Protocol::Http1,
        };
        let to = if has_twin && rng.percent(40) { Ipv4Addr::new(127, 0, 0, 3) } else { Ipv4Addr::LOCALHOST };
        let port = match protocol {
            Protocol::Tls12 | Protocol::Tls13 => 3,
            _ if to == Ipv4Addr::LOCALHOST && rng.percent(25) => 2,
            _ => 1,
        };
        let source =
            *rng.pick(&[Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 7)]);
        let mut fields = Vec::new();
        let mut maybe = |chance: usize, name: &'static str, values: &[&'static str]| {
            if rng.percent(chance) {
                fields.push((name, *rng.pick(values)));
            }
        };
        maybe(45, "User-Agent", AGENTS);
        maybe(30, "X-Test", &["a", "b", "one"]);
        maybe(30, "Cookie", &["a=one", "a=two; b=1", "uid=fwAAAWVnQ0YAAAABAwMCAg=="]);
        maybe(35, "Accept-Encoding", &["gzip", "gzip, br", "gzip;q=0", "identity", "br"]);
        maybe(15, "Accept-Language", &["de", "en"]);
        maybe(15, "Referer", &["http://a.good.test/", "http://bad.test/"]);
        maybe(15, "X-Forwarded-For", &["10.1.2.3", "127.0.0.2, 10.9.9.9"]);
        maybe(12, "Authorization", &["Basic dXNlcjpzZWNyZXQ=", "Basic dXNlcjp3cm9uZw=="]);
        maybe(8, "Via", &["1.1 proxy"]);
        maybe(4, "Range", &["bytes=0-3", "bytes=2-"]);
        maybe(4, "If-Modified-Since", &["Thu, 01 Jan 2099 00:00:00 GMT"]);
        maybe(4, "If-None-Match", &["*", "\"x\""]);
        maybe(4, "Cache-Control", &["no-cache", "max-age=0"]);
        maybe(4, "X_Odd", &["odd"]);
        if protocol == Protocol::Http1 && rng.percent(15) {
            fields.push(("Connection", *rng.pick(&["keep-alive", "close"])));
        }
        if rng.percent(3) {
            for name in
                ["X-A", "X-B", "X-C", "X-D", "X-E", "X-F", "X-G", "X-H", "X-I", "X-J", "X-K", "X-L", "X-M"]
            {
                fields.push((name, "1"));
            }
        }
        Profile { protocol, source, to, port, fields }
    }
}

/// One request of a sequence.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Index of the profile.
    pub who: usize,
    pub method: &'static str,
}

/// What is asked of one site, by some clients.
#[derive(Clone, Debug)]
pub struct Sequence {
    pub site: usize,
    pub host: String,
    pub target: &'static str,
    pub profiles: Vec<Profile>,
    pub asks: Vec<Ask>,
}

impl Sequence {
    /// With `targets` to choose from. `alike`: all clients come by the same way.
    pub fn random(
        rng: &mut Rng,
        site: usize,
        of: &Site,
        targets: &'static [&'static str],
        alike: bool,
    ) -> Sequence {
        let count = 2 + rng.below(2);
        let mut profiles: Vec<Profile> =
            (0..count).map(|_| Profile::random(rng, of.has_tls, of.has_twin)).collect();
        // Who is to get another's answer must come by the same way.
        if alike || rng.percent(75) {
            let first = profiles[0].clone();
            for profile in &mut profiles[1..] {
                let swaps_tls =
                    matches!(first.protocol, Protocol::Tls12 | Protocol::Tls13) && rng.percent(60);
                profile.protocol = match first.protocol {
                    Protocol::Tls13 if swaps_tls => Protocol::Tls12,
                    Protocol::Tls12 if swaps_tls => Protocol::Tls13,
                    same => same,
                };
                (profile.port, profile.to) = (first.port, first.to);
                profile.fields.retain(|(name, _)| *name != "Connection" || first.protocol == Protocol::Http1);
            }
        }
        // Files are watched, and answers kept, from the second or third request on.
        let mut asks: Vec<usize> = vec![0, 0, 0, 1, 0, count - 1, 1];
        asks.extend((0..rng.below(3)).map(|_| rng.below(count)));
        let asks = asks
            .into_iter()
            .map(|who| Ask { who, method: if rng.percent(4) { "HEAD" } else { "GET" } })
            .collect();
        let sub = if rng.percent(10) { "w1." } else { "" };
        let host = if rng.percent(3) { String::new() } else { format!("{sub}{}", of.name) };
        Sequence { site, host, target: rng.pick::<&str>(targets), profiles, asks }
    }
}

/// A connection of one profile.
enum Link {
    None,
    Http1(Client),
    Http2(Box<H2Client>, u16),
    Tls(Box<TlsClient>),
}

/// One server's side of a sequence.
pub struct Session<'s> {
    sequence: &'s Sequence,
    ports: &'s [u16],
    contexts: &'s Contexts,
    links: Vec<Link>,
}

/// How TLS clients shake hands.
pub struct Contexts {
    tls13: ClientContext,
    tls12: ClientContext,
}

impl Contexts {
    pub fn new() -> Contexts {
        let versions = Versions { tls12: true, tls13: false };
        let options = ClientOptions { versions, no_resumption: true, ..ClientOptions::unverified() };
        Contexts { tls13: stranger(), tls12: ClientContext::new(&options).expect("TLS 1.2") }
    }
}

impl<'s> Session<'s> {
    pub fn new(sequence: &'s Sequence, ports: &'s [u16], contexts: &'s Contexts) -> Session<'s> {
        let links = sequence.profiles.iter().map(|_| Link::None).collect();
        Session { sequence, ports, contexts, links }
    }

    /// Asks; gives the answer as text: a line about the connection, the head, the body.
    pub fn ask(&mut self, ask: &Ask) -> String {
        let profile = &self.sequence.profiles[ask.who];
        let link = std::mem::replace(&mut self.links[ask.who], Link::None);
        let link = match link {
            Link::None => match self.connect(profile) {
                Ok(link) => link,
                Err(error) => return format!("no connection: {error}"),
            },
            link => link,
        };
        let (answer, link) = match link {
            Link::Http1(client) => self.over_http1(client, profile, ask),
            Link::Http2(client, port) => self.over_http2(client, port, profile, ask),
            Link::Tls(client) => self.over_tls(client, profile, ask),
            Link::None => unreachable!("it was connected"),
        };
        self.links[ask.who] = link;
        answer
    }

    fn connect(&self, profile: &Profile) -> Result<Link, String> {
        let to = SocketAddr::new(IpAddr::V4(profile.to), self.ports[profile.port - 1]);
        let text = |error: std::io::Error| error.to_string();
        match profile.protocol {
            Protocol::Http1 => Client::connect_from(profile.source, to).map(Link::Http1).map_err(text),
            Protocol::Http2 => {
                let stream = socket_from(profile.source, to).map_err(text)?;
                let port = stream.local_addr().map_or(0, |address| address.port());
                let settings = brisk_h2::Settings { enable_push: false, ..Default::default() };
                Ok(Link::Http2(Box::new(H2Client::over(stream, settings)), port))
            }
            Protocol::Tls12 | Protocol::Tls13 => {
                let stream = socket_from(profile.source, to).map_err(text)?;
                let is_old = profile.protocol == Protocol::Tls12;
                let context = if is_old { &self.contexts.tls12 } else { &self.contexts.tls13 };
                let name = if self.sequence.host.is_empty() { "none" } else { &self.sequence.host };
                TlsClient::over(stream, context, name).map(|client| Link::Tls(Box::new(client)))
            }
        }
    }

    fn head(&self, profile: &Profile, ask: &Ask) -> String {
        let Sequence { host, target, .. } = self.sequence;
        let mut text = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", ask.method);
        for (name, value) in &profile.fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text + "\r\n"
    }

    fn over_http1(&self, mut client: Client, profile: &Profile, ask: &Ask) -> (String, Link) {
        let sent = client.try_send(self.head(profile, ask));
        if let Err(error) = sent {
            return (format!("not sent: {error}"), Link::None);
        }
        match client.try_response(ask.method) {
            Ok(response) => {
                let body = String::from_utf8_lossy(&response.body);
                let interim = response.interim_heads.concat();
                let text = format!("{interim}{}{body}\n{:?}", response.head, response.trailers);
                let ends = response.all("Connection").any(|value| value == "close");
                (text, if ends { Link::None } else { Link::Http1(client) })
            }
            Err(Failure::Closed) => ("closed".to_string(), Link::None),
            // A value that ends with a space is what a configuration asks for.
            Err(Failure::Fault(fault)) if !fault.starts_with("field") => {
                (format!("{MALFORMED}{fault}"), Link::None)
            }
            Err(failure) => (format!("{failure}"), Link::None),
        }
    }

    fn over_http2(
        &self,
        mut client: Box<H2Client>,
        port: u16,
        profile: &Profile,
        ask: &Ask,
    ) -> (String, Link) {
        if client.goaway.is_some() || client.closed {
            return match self.connect(profile) {
                Ok(Link::Http2(client, port)) => self.over_http2(client, port, profile, ask),
                _ => ("no connection".to_string(), Link::None),
            };
        }
        let names: Vec<String> = profile.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let mut fields = vec![(":method", ask.method), (":scheme", "http"), (":path", self.sequence.target)];
        fields.insert(2, (":authority", &self.sequence.host));
        for (name, (_, value)) in names.iter().zip(&profile.fields) {
            fields.push((name, value));
        }
        let stream = client.begin(&fields, true);
        let answer = client.wait(stream);
        let mut text = String::new();
        for (name, value) in &answer.fields {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        text.push_str("\r\n");
        text.push_str(&answer.text());
        let _ = write!(text, "\n{:?} {:?} {:?}", answer.trailers, answer.reset, answer.interim);
        (text, Link::Http2(client, port))
    }

    fn over_tls(&self, mut client: Box<TlsClient>, profile: &Profile, ask: &Ask) -> (String, Link) {
        let answer = (|| {
            client.send(self.head(profile, ask))?;
            let mut head = client.until("\r\n\r\n")?;
            while head.starts_with("HTTP/1.1 1") {
                head.push_str(&client.until("\r\n\r\n")?);
                head = head.split_once("\r\n\r\n").map_or(String::new(), |(_, rest)| rest.to_string());
            }
            if !head.starts_with("HTTP/1.1 ") {
                return Ok((format!("{MALFORMED}{head}"), true));
            }
            let value = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.map(|line| line.trim().to_string())
            };
            let is_bodiless = ask.method == "HEAD" || head.contains(" 304 ") || head.contains(" 204 ");
            let length = value("Content-Length:").and_then(|text| text.parse().ok());
            let body = match length {
                _ if is_bodiless => String::new(),
                Some(length) => String::from_utf8_lossy(&client.exactly(length)?).into_owned(),
                None if value("Transfer-Encoding:").is_some() => chunked(&mut client)?,
                None => client.rest()?,
            };
            let ends = value("Connection:").as_deref() == Some("close");
            Ok::<_, String>((format!("{head}{body}"), ends))
        })();
        match answer {
            Ok((text, ends)) => (text, if ends { Link::None } else { Link::Tls(client) }),
            Err(error) => (format!("failed: {error}"), Link::None),
        }
    }
}

/// A body in chunks, with its trailers.
fn chunked(client: &mut TlsClient) -> Result<String, String> {
    let mut text = String::new();
    loop {
        let line = client.until("\r\n")?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(|_| format!("chunk size {line:?}"))?;
        if size == 0 {
            break;
        }
        text.push_str(&String::from_utf8_lossy(&client.exactly(size + 2)?));
    }
    loop {
        let line = client.until("\r\n")?;
        if line == "\r\n" {
            return Ok(text);
        }
        text.push_str(&line);
    }
}
