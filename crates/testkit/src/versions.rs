//! Scenarios of HTTP/1.1 played over HTTP/2 and HTTP/3: what is said of a request there holds for all versions; and functions that
//! ask over each of the three ([`over_each`]).
//!
//! A case is carried over if its bytes are whole requests that any version can carry, with a response for each. What speaks of
//! connections, of chunks or of malformed bytes is HTTP/1.1's own, and so are lines about its fields
//! ([`OWN_FIELDS`]).

use crate::client::Client;
use crate::h2::H2Client;
use crate::h3::H3Client;
use crate::quic::Visitor;
use crate::response::{End, Response, parse_field};
use crate::server::{Builder, Server};
use crate::tls::issue;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Fields that only HTTP/1.1 has.
pub const OWN_FIELDS: [&str; 5] =
    ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"];

/// The name that requests without one are for.
const HOST: &str = "localhost";

/// A version of HTTP.
#[derive(Clone)]
pub enum Version {
    /// Over cleartext.
    One,
    /// Over cleartext, with prior knowledge.
    Two,
    /// As this client of QUIC.
    Three(Visitor),
}

impl Version {
    /// How `$server_protocol` names it.
    pub fn name(&self) -> &'static str {
        match self {
            Version::One => "HTTP/1.1",
            Version::Two => "HTTP/2.0",
            Version::Three(_) => "HTTP/3.0",
        }
    }

    /// What a scenario expects of HTTP/1.1, as it is over this one: what is made of `$scheme` may be another.
    pub(crate) fn expectation(&self, text: &str) -> String {
        let text = text.replace("HTTP/1.1", self.name()).replace("HTTP/1.0", self.name());
        if text.starts_with('=') { text } else { text.replace("http://", "https?://") }
    }
}

/// Asks a site over HTTP/1.1, HTTP/2 and HTTP/3, each time a server of its own.
pub fn over_each(builder: impl Fn() -> Builder, ask: impl Fn(&Server, &Version)) {
    for at in 0..3 {
        let (builder, mut versions) = everywhere(builder());
        versions.insert(0, Version::One);
        eprintln!("over {}", versions[at].name());
        ask(&builder.start(), &versions[at]);
    }
}

/// A site for HTTP/1.1 on `{{PORT}}` speaks HTTP/2 there, too, and HTTP/3 on UDP's port of that number.
pub fn everywhere(builder: Builder) -> (Builder, Vec<Version>) {
    let issued = issue(HOST, false, None);
    let builder =
        builder.file("a.crt", issued.certificate_pem()).file("a.key", issued.key_pem()).edit_http(|text| {
            format!("http2 on; ssl_certificate a.crt; ssl_certificate_key a.key;\n{}", sockets(text))
        });
    (builder, vec![Version::Two, Version::Three(Visitor::new(&issued.certificate, &["h3"]))])
}

/// Every `listen` of the first port has one of QUIC beside it.
fn sockets(text: &str) -> String {
    const LISTEN: &str = "listen 127.0.0.1:{{PORT}}";
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(LISTEN) {
        let end = at + rest[at..].find(';').map_or(rest.len() - at, |end| end + 1);
        out.push_str(&rest[..end]);
        let is_default = rest[at..end].contains("default_server");
        let more = if is_default { " default_server" } else { "" };
        out.extend([" ", LISTEN, " quic", more, ";"]);
        rest = &rest[end..];
    }
    out + rest
}

/// A request as any version carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The host.
    pub authority: String,
    /// Path and arguments.
    pub target: String,
    /// Other fields, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body; `None`: there is none.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// A request without a body.
    pub fn get(target: &str) -> Request {
        let (method, authority) = ("GET".to_string(), HOST.to_string());
        Request { method, authority, target: target.into(), fields: Vec::new(), body: None }
    }

    /// A request with this body, whose length it tells.
    pub fn post(target: &str, body: &[u8]) -> Request {
        let length = body.len().to_string();
        let request = Request { method: "POST".into(), body: Some(body.to_vec()), ..Request::get(target) };
        request.with("content-length", &length)
    }

    /// The same with another field; the name is in lower case.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Request {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// As HTTP/1.1 carries it.
    fn text(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.authority);
        for (name, value) in &self.fields {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        [text.as_bytes(), self.body.as_deref().unwrap_or_default()].concat()
    }
}

/// The requests that these bytes of HTTP/1.1 are; `None` if one of them is only that version's.
pub(crate) fn requests(mut bytes: &[u8]) -> Option<Vec<Request>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        bytes = &bytes[end + 4..];
        let mut request = head_of(head)?;
        let length = request.fields.iter().find(|(name, _)| name == "content-length");
        if let Some((_, length)) = length {
            let (body, rest) = bytes.split_at_checked(length.parse().ok()?)?;
            request.body = Some(body.to_vec());
            bytes = rest;
        }
        all.push(request);
    }
    (!all.is_empty()).then_some(all)
}

fn head_of(head: &str) -> Option<Request> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_plain = method.bytes().all(|byte| byte.is_ascii_uppercase()) && method != "CONNECT";
    let is_path = target.starts_with('/') && target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if !is_plain || !is_path || !matches!(version, "HTTP/1.0" | "HTTP/1.1") || words.next().is_some() {
        return None;
    }
    let (mut authority, mut fields, mut lengths) = (None, Vec::new(), 0);
    for line in lines {
        let (name, value) = parse_field(line)?;
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "host" if authority.is_none() && !value.is_empty() => authority = Some(value),
            "host" | "expect" | "te" => return None,
            name if OWN_FIELDS.contains(&name) => return None,
            _ => {
                lengths += usize::from(name == "content-length");
                fields.push((name, value));
            }
        }
    }
    if lengths > 1 || (authority.is_none() && version == "HTTP/1.1") {
        return None;
    }
    let authority = authority.unwrap_or_else(|| HOST.to_string());
    Some(Request { method: method.into(), authority, target: target.into(), fields, body: None })
}

/// A connection of one of these versions.
pub enum Connected {
    /// Over HTTP/1.1.
    One(Box<Client>),
    /// Over HTTP/2.
    Two(Box<H2Client>),
    /// Over HTTP/3.
    Three(Box<H3Client>),
}

impl Connected {
    /// To the server's first port.
    pub fn new(server: &Server, version: &Version) -> Connected {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        match version {
            Version::One => Connected::One(Box::new(server.client())),
            Version::Two => Connected::Two(Box::new(H2Client::connect(server.port()))),
            Version::Three(visitor) => Connected::Three(Box::new(H3Client::connect(visitor, address, HOST))),
        }
    }

    /// The answer to a request. The error says that there was none.
    pub fn ask(&mut self, request: &Request) -> Result<Response, String> {
        let asked = AssertUnwindSafe(|| self.exchange(request));
        catch_unwind(asked).unwrap_or_else(|_| Err("no valid answer in time".into()))
    }

    /// The answer to a request without a body.
    ///
    /// # Panics
    /// If there is none.
    pub fn get(&mut self, target: &str) -> Response {
        self.ask(&Request::get(target)).unwrap_or_else(|why| panic!("{target}: {why}"))
    }

    /// Begins a request without a body and waits for the head of its answer; gives the stream.
    ///
    /// # Panics
    /// If it does not come.
    pub fn begin(&mut self, target: &str) -> u64 {
        match self {
            Connected::One(client) => {
                client.send(Request::get(target).text());
                client.wait_for("\r\n\r\n");
                0
            }
            Connected::Two(client) => {
                let id = client.begin(&H2Client::get_fields(target), true);
                client.until(|client| client.answers[&id].status != 0);
                u64::from(id)
            }
            Connected::Three(client) => {
                let id = client.begin(&client.fields("GET", HOST, target), true);
                client.until("head", |client| client.answers.get(&id).is_some_and(|it| it.status != 0));
                id
            }
        }
    }

    /// The body of what was [begun](Connected::begin).
    ///
    /// # Panics
    /// If it is cut off.
    pub fn finish(&mut self, stream: u64) -> Vec<u8> {
        let (ended, body) = match self {
            Connected::One(client) => (true, client.response().body),
            Connected::Two(client) => {
                let it = client.wait(u32::try_from(stream).expect("a stream of HTTP/2"));
                (it.ended, it.body)
            }
            Connected::Three(client) => {
                let it = client.wait(stream);
                (it.ended, it.body)
            }
        };
        assert!(ended, "{} bytes, and then nothing", body.len());
        body
    }

    /// Ends the connection so that the server notices at once.
    pub fn leave(self) {
        if let Connected::Three(mut client) = self {
            client.quic.close();
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Response, String> {
        let scheme = if matches!(self, Connected::Three(_)) { "https" } else { "http" };
        let Request { method, authority, target, fields, body } = request;
        let mut all =
            vec![(":method", &**method), (":scheme", scheme), (":authority", authority), (":path", target)];
        all.extend(fields.iter().map(|(name, value)| (&**name, &**value)));
        match self {
            Connected::One(client) => {
                client.try_send(request.text()).map_err(|error| error.to_string())?;
                client.try_response(method).map_err(|failure| failure.to_string())
            }
            Connected::Two(client) => {
                let stream = client.begin(&all, body.is_none());
                if let Some(body) = body {
                    client.send(stream, body, true);
                }
                let it = client.wait(stream);
                let reset = it.reset.filter(|_| !it.ended).map(|code| format!("{code:?}"));
                told(reset, it.status, (it.fields, it.trailers), it.body, it.interim)
            }
            Connected::Three(client) => {
                let stream = client.begin(&all, body.is_none());
                if let Some(body) = body {
                    client.send(stream, body, true);
                }
                let it = client.wait(stream);
                let reset = it.reset.filter(|_| !it.ended).map(|code| format!("{code:#x}"));
                told(reset, it.status, (it.fields, it.trailers), it.body, it.interim)
            }
        }
    }
}

type Fields = Vec<(String, String)>;

/// An answer as scenarios look at it.
fn told(
    reset: Option<String>,
    status: u16,
    (fields, trailers): (Fields, Fields),
    body: Vec<u8>,
    interim: Vec<(u16, Fields)>,
) -> Result<Response, String> {
    if let Some(code) = reset {
        return Err(format!("the stream was reset: {code}, status {status}"));
    }
    if status == 0 {
        return Err("no answer".into());
    }
    let show = |fields: &Fields| {
        let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        lines.concat()
    };
    if let Some((name, _)) = fields.iter().find(|(name, _)| OWN_FIELDS.contains(&&**name)) {
        return Err(format!("{name} is HTTP/1.1's alone:\n{}", show(&fields)));
    }
    let head = show(&fields);
    let headers = fields.into_iter().filter(|(name, _)| !name.starts_with(':')).collect();
    Ok(Response {
        status,
        reason: String::new(),
        headers,
        body,
        trailers,
        end: End::Close,
        interim_heads: interim.iter().map(|(_, fields)| show(fields)).collect(),
        interim: interim.into_iter().map(|(status, _)| status).collect(),
        head,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_any_version_carries() {
        let text =
            "POST /a?b HTTP/1.1\r\nHost: x\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.0\r\n\r\n";
        let all = requests(text.as_bytes()).unwrap();
        assert_eq!(all[0].body.as_deref(), Some(&b"hi"[..]));
        assert_eq!(all[0].fields[0], ("x-y".to_string(), "z".to_string()));
        assert_eq!((&*all[1].authority, &*all[1].target, &all[1].body), ("localhost", "/", &None));
        for own in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123",
            "GET / HTTP/1.1\nHost: a\n\n",
        ] {
            assert_eq!(requests(own.as_bytes()), None, "{own:?}");
        }
    }

    #[test]
    fn sockets_of_quic_stand_beside_the_others() {
        let text =
            "server { listen 127.0.0.1:{{PORT}} default_server; } server { listen 127.0.0.1:{{PORT2}}; }";
        let with = sockets(text);
        assert!(with.contains("default_server; listen 127.0.0.1:{{PORT}} quic default_server; }"), "{with}");
        assert_eq!(with.matches("quic").count(), 1);
    }
}
