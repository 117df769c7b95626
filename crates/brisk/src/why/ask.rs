//! The client of the one request: it writes to a pair of sockets and reads the head of the answer.

use super::Door;
use crate::limits::{WHY_ANSWER_TIME_MAX, WHY_HEAD_BYTES_MAX};
use brisk_load::url::Url;
use brisk_server::worker::Worker;
use brisk_tls::{ClientContext, ClientOptions, Session};
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;

/// What is asked.
pub struct Question<'a> {
    pub url: &'a Url,
    pub method: &'a str,
    pub headers: &'a [(String, String)],
    pub from: IpAddr,
}

/// The head of an answer.
pub struct Answer {
    pub status: u16,
    pub reason: String,
    pub fields: Vec<(String, String)>,
}

/// The port that the client is said to have.
const CLIENT_PORT: u16 = 50_000;

/// Asks; `None`: the connection was closed without an answer.
pub fn ask(worker: &Worker, door: &Door, question: &Question<'_>) -> Result<Option<Answer>, String> {
    let failed = |error: io::Error| format!("asking failed ({})", brisk_conf::os_text(&error));
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    theirs.set_nonblocking(true).map_err(failed)?;
    ours.set_read_timeout(Some(WHY_ANSWER_TIME_MAX)).map_err(failed)?;
    let client = SocketAddr::new(question.from, CLIENT_PORT);
    worker.bring(theirs.into(), client, door.local, door.listen);
    let mut wire = Wire { socket: ours, session: None, plain: Vec::new() };
    if door.proxy {
        let kind = if client.is_ipv4() && door.local.is_ipv4() { "TCP4" } else { "TCP6" };
        let (from, to) = (client.ip(), door.local.ip());
        let line = format!("PROXY {kind} {from} {to} {} {}\r\n", client.port(), door.local.port());
        wire.socket.write_all(line.as_bytes()).map_err(failed)?;
    }
    if door.tls && !wire.shake_hands(question.url.origin.host())? {
        return Ok(None);
    }
    wire.send(request(question).as_bytes())?;
    wire.answer()
}

fn request(question: &Question<'_>) -> String {
    let Question { url, method, headers, .. } = question;
    let mut text = format!("{method} {} HTTP/1.1\r\n", url.path);
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let usual = [
        ("Host", url.origin.authority()),
        ("User-Agent", format!("brisk-why/{}", env!("CARGO_PKG_VERSION"))),
        ("Accept", "*/*".to_owned()),
        ("Connection", "close".to_owned()),
    ];
    for (name, value) in usual.iter().filter(|(name, _)| !has(name)) {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    for (name, value) in *headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if !matches!(*method, "GET" | "HEAD" | "OPTIONS") && !has("Content-Length") && !has("Transfer-Encoding") {
        text += "Content-Length: 0\r\n";
    }
    text + "\r\n"
}

/// Our end of the connection.
struct Wire {
    socket: UnixStream,
    session: Option<Session>,
    /// What has come and was not read.
    plain: Vec<u8>,
}

impl Wire {
    /// False: the server has ended the connection.
    fn shake_hands(&mut self, host: &str) -> Result<bool, String> {
        let context = ClientContext::new(&ClientOptions::unverified())?;
        let send_name = host.parse::<IpAddr>().is_err();
        let mut session = context.session(host, send_name).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        session.receive(&mut [], &mut |_| {}, &mut out).map_err(|error| error.to_string())?;
        self.write(&out)?;
        self.session = Some(session);
        while self.session.as_ref().is_some_and(|session| !session.is_established()) {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut out = Vec::new();
        match &mut self.session {
            Some(session) => session.seal(bytes, &mut out).map_err(|error| error.to_string())?,
            None => out.extend_from_slice(bytes),
        }
        self.write(&out)
    }

    /// A server that has closed may still have said something.
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self.socket.write_all(bytes) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("asking failed ({error})"))
            }
            _ => Ok(()),
        }
    }

    /// Takes more of what the server says; false at the end.
    fn read(&mut self) -> Result<bool, String> {
        let mut room = [0; 16 << 10];
        let count = match self.socket.read(&mut room) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(format!("no answer within {} s", WHY_ANSWER_TIME_MAX.as_secs()));
            }
            Err(error) => return Err(format!("reading the answer failed ({error})")),
        };
        let Some(session) = &mut self.session else {
            self.plain.extend_from_slice(&room[..count]);
            return Ok(count > 0);
        };
        let (plain, mut out) = (&mut self.plain, Vec::new());
        let done = session.receive(&mut room[..count], &mut |bytes| plain.extend_from_slice(bytes), &mut out);
        self.write(&out)?;
        // An alert: what was noted says why.
        Ok(done.is_ok() && count > 0)
    }

    /// The head of the final answer.
    fn answer(&mut self) -> Result<Option<Answer>, String> {
        loop {
            while let Some(end) = find(&self.plain, b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.plain[..end]).into_owned();
                self.plain.drain(..end + 4);
                let answer = Answer::parse(&head).ok_or("the answer has no status line")?;
                if answer.status >= 200 {
                    return Ok(Some(answer));
                }
            }
            if self.plain.len() > WHY_HEAD_BYTES_MAX {
                return Err("the answer's head does not end".into());
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

impl Answer {
    fn parse(head: &str) -> Option<Answer> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.splitn(3, ' ');
        let (_, status, reason) =
            (first.next()?, first.next()?.parse().ok()?, first.next().unwrap_or_default());
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.into(), value.trim().into())).collect();
        Some(Answer { status, reason: reason.into(), fields })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_taken_apart() {
        let answer = Answer::parse("HTTP/1.1 404 Not Found\r\nServer: brisk\r\nX-A: b: c").unwrap();
        assert_eq!((answer.status, answer.reason.as_str()), (404, "Not Found"));
        assert_eq!(answer.fields[1], ("X-A".to_string(), "b: c".to_string()));
        assert!(Answer::parse("HTTP/1.1").is_none());
    }

    #[test]
    fn requests_are_whole() {
        let url = Url::parse("http://a.test:81/x?y=1").unwrap();
        let headers = [("accept".to_string(), "text/html".to_string())];
        let question =
            Question { url: &url, method: "POST", headers: &headers, from: IpAddr::from([127, 0, 0, 1]) };
        let text = request(&question);
        assert!(text.starts_with("POST /x?y=1 HTTP/1.1\r\nHost: a.test:81\r\n"), "{text}");
        assert!(
            text.ends_with("accept: text/html\r\nContent-Length: 0\r\n\r\n") && !text.contains("*/*"),
            "{text}"
        );
    }
}
