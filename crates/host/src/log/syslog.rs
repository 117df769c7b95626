//! Lines for a syslog server, as nginx writes them (RFC 3164 §4.1), one per datagram.

use crate::limits::SYSLOG_TAG_LEN_MAX;
use brisk_conf::{Diag, Loader, Token};
use brisk_net::{clock, sys};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp",
    "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const LOCAL7: u8 = 23;

const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"];
const INFO: u8 = 6;

const PORT: u16 = 514;

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// UDP.
    Ip(SocketAddr),
    /// A unix socket, by its path.
    Unix(Box<str>),
}

/// A syslog server and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    server: Server,
    facility: u8,
    severity: u8,
    tag: Box<str>,
    /// `None`: `nohostname`.
    host: Option<Box<str>>,
}

impl Syslog {
    /// Reads what follows `syslog:`.
    pub fn parse(text: &str, hostname: &str, loader: &dyn Loader, token: &Token) -> Result<Syslog, Diag> {
        let bad = |text: String| Diag::emerg(token.span, text);
        let duplicate = |name: &str| bad(format!("duplicate syslog \"{name}\""));
        let (mut server, mut facility, mut severity, mut tag) = (None, None, None, None);
        let mut host = Some(hostname.into());
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("server", _)) if server.is_some() => return Err(duplicate("server")),
                Some(("facility", _)) if facility.is_some() => return Err(duplicate("facility")),
                Some(("severity", _)) if severity.is_some() => return Err(duplicate("severity")),
                Some(("tag", _)) if tag.is_some() => return Err(duplicate("tag")),
                Some(("server", text)) => server = Some(parse_server(text, loader, token)?),
                Some(("facility", name)) => {
                    let at = FACILITIES.iter().position(|have| *have == name);
                    facility =
                        Some(at.ok_or_else(|| bad(format!("unknown syslog facility \"{name}\"")))? as u8);
                }
                Some(("severity", name)) => {
                    let at = SEVERITIES.iter().position(|have| *have == name);
                    severity =
                        Some(at.ok_or_else(|| bad(format!("unknown syslog severity \"{name}\"")))? as u8);
                }
                Some(("tag", text)) => tag = Some(check_tag(text, token)?),
                None if part == "nohostname" => host = None,
                _ => return Err(bad(format!("unknown syslog parameter \"{part}\""))),
            }
        }
        Ok(Syslog {
            server: server.ok_or_else(|| bad("no syslog server specified".into()))?,
            facility: facility.unwrap_or(LOCAL7),
            severity: severity.unwrap_or(INFO),
            tag: tag.unwrap_or_else(|| "nginx".into()),
            host,
        })
    }

    /// A socket to send from. It is not connected: a server that is away for a while is found again.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        let family = match self.server {
            Server::Ip(SocketAddr::V4(_)) => AddressFamily::INET,
            Server::Ip(SocketAddr::V6(_)) => AddressFamily::INET6,
            Server::Unix(_) => AddressFamily::UNIX,
        };
        Ok(socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
    }

    /// Sends a line. `severity` of `None` is the configured one.
    pub fn send(&self, fd: &OwnedFd, severity: Option<u8>, line: &[u8]) -> io::Result<()> {
        let mut message = self.head(severity.unwrap_or(self.severity), clock::now().unix_secs);
        message.extend_from_slice(line);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match &self.server {
            Server::Ip(addr) => sendto(fd, &message, flags, addr)?,
            Server::Unix(path) => sendto(fd, &message, flags, &SocketAddrUnix::new(&**path)?)?,
        };
        Ok(())
    }

    fn head(&self, severity: u8, secs: i64) -> Vec<u8> {
        let priority = u32::from(self.facility) * 8 + u32::from(severity);
        let t = sys::local_time(secs);
        let month = super::time::month_name(t.month);
        let time = format!("{month} {:2} {:02}:{:02}:{:02}", t.day, t.hour, t.minute, t.second);
        let host = self.host.as_ref().map_or(String::new(), |host| format!("{host} "));
        format!("<{priority}>{time} {host}{}: ", self.tag).into_bytes()
    }
}

impl fmt::Display for Syslog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Server::Ip(addr) => write!(f, "syslog:server={addr}"),
            Server::Unix(path) => write!(f, "syslog:server=unix:{path}"),
        }
    }
}

fn parse_server(text: &str, loader: &dyn Loader, token: &Token) -> Result<Server, Diag> {
    let bad = |why: &str| Diag::emerg(token.span, format!("{why} in syslog server \"{text}\""));
    if let Some(path) = text.strip_prefix("unix:") {
        return match SocketAddrUnix::new(path) {
            Ok(_) if !path.is_empty() => Ok(Server::Unix(path.into())),
            _ => Err(bad("invalid path of a unix socket")),
        };
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(Server::Ip(SocketAddr::new(ip, PORT)));
    }
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(Server::Ip(addr));
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| bad("invalid port"))?),
        None => (text, PORT),
    };
    let found = loader.addresses(host).ok().and_then(|found| found.first().copied());
    found.map(|ip| Server::Ip(SocketAddr::new(ip, port))).ok_or_else(|| bad("host not found"))
}

fn check_tag(text: &str, token: &Token) -> Result<Box<str>, Diag> {
    if text.len() > SYSLOG_TAG_LEN_MAX {
        return Err(Diag::emerg(token.span, "syslog tag length exceeds 32"));
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(Diag::emerg(
            token.span,
            "syslog \"tag\" only allows alphanumeric characters and underscore",
        ));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Syslog, String> {
        let span = brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 };
        let token = Token { value: text.as_bytes().into(), span, quoted: false };
        Syslog::parse(text, "host", &brisk_conf::NoFiles, &token).map_err(|diag| diag.message)
    }

    #[test]
    fn parameters() {
        let check = |text: &str, want: &str| assert_eq!(parse(text).err().as_deref(), Some(want), "{text}");
        check("", "unknown syslog parameter \"\"");
        check("tag=x", "no syslog server specified");
        check("server=1.2.3.4,server=1.2.3.4", "duplicate syslog \"server\"");
        check("server=1.2.3.4,facility=moon", "unknown syslog facility \"moon\"");
        check("server=1.2.3.4,severity=err", "unknown syslog severity \"err\"");
        check("server=1.2.3.4,tag=a-b", "syslog \"tag\" only allows alphanumeric characters and underscore");
        check("server=1.2.3.4,tag=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "syslog tag length exceeds 32");
        check("server=1.2.3.4:x", "invalid port in syslog server \"1.2.3.4:x\"");
        check("server=unix:", "invalid path of a unix socket in syslog server \"unix:\"");
        let check = |text: &str, want: &str| assert_eq!(parse(text).unwrap().to_string(), want, "{text}");
        check("server=1.2.3.4", "syslog:server=1.2.3.4:514");
        check("server=1.2.3.4:5", "syslog:server=1.2.3.4:5");
        check("server=[::1]", "syslog:server=[::1]:514");
        check("server=[::1]:5", "syslog:server=[::1]:5");
        check("nohostname,server=unix:/dev/log", "syslog:server=unix:/dev/log");
    }

    #[test]
    fn heads() {
        let check = |text: &str, severity, want: &str| {
            let head = String::from_utf8(parse(text).unwrap().head(severity, 0)).unwrap();
            // The time depends on the zone.
            let (before, after) = head.split_at(head.find('>').unwrap() + 1);
            assert_eq!(format!("{before}{}", &after[15..]), want, "{head}");
        };
        check("server=1.2.3.4", 6, "<190> host nginx: ");
        check("server=1.2.3.4,facility=user,tag=Web_1", 3, "<11> host Web_1: ");
        check("server=1.2.3.4,nohostname", 0, "<184> nginx: ");
    }
}
