//! An HTTP proxy between a client and its servers.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use brisk_http::h1::{Client, Event, Rules};
use brisk_http::response::RequestKind;

use crate::response::RESPONSE_HEAD_BYTES_MAX;
use crate::url::{Endpoint, Origin, Place, Url, UrlError};

/// A proxy that speaks HTTP/1.1 (RFC 9110 §3.7): plain requests are sent to it with their whole URL, all others through a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    url: Url,
    /// `Basic` and the base64 of name and password (RFC 7617).
    login: Option<String>,
}

impl Proxy {
    /// Reads `[http://][NAME:PASSWORD@]HOST[:PORT]`; the port is 80 if none is given.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            None => text,
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) => {
                return Err(format!("a proxy of {scheme} is not supported: write http://HOST:PORT"));
            }
        };
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let login = match login {
            Some(login) if login.contains(':') && !login.contains(char::is_control) => {
                Some(format!("Basic {}", BASE64_STANDARD.encode(login)))
            }
            Some(_) => return Err("a proxy's login is NAME:PASSWORD@ in front of its host".to_owned()),
            None => None,
        };
        let url = Url::parse(&format!("http://{place}")).map_err(|error| error.to_string())?;
        match url.origin.place {
            Place::Name(..) if url.path == "/" => Ok(Self { url, login }),
            Place::Name(..) => Err(format!("\"{text}\" is not a proxy: write HOST:PORT, without a path")),
            Place::Unix(_) => Err("a proxy is reached by TCP: write HOST:PORT".to_owned()),
        }
    }

    /// Where it is.
    pub fn origin(&self) -> &Origin {
        &self.url.origin
    }

    /// Its address: its name is looked up.
    pub fn endpoint(&self) -> Result<Endpoint, UrlError> {
        self.url.endpoint()
    }

    /// The value of `Proxy-Authorization`, if it wants one.
    pub fn login(&self) -> Option<&str> {
        self.login.as_deref()
    }

    /// What is asked of it for a tunnel to this server (RFC 9110 §9.3.6). The error says why it cannot be reached so.
    pub fn connect(&self, origin: &Origin) -> Result<Vec<u8>, String> {
        let Place::Name(host, port) = &origin.place else { return Err(no_unix()) };
        // The port is never left out.
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(login) = &self.login {
            head.extend(["Proxy-Authorization: ", login, "\r\n"]);
        }
        head += "\r\n";
        Ok(head.into_bytes())
    }

    /// What a plain request asks it for: the whole URL (RFC 9112 §3.2.2). The error says why there is none.
    pub fn target(&self, url: &Url) -> Result<String, String> {
        match url.origin.place {
            Place::Name(..) => Ok(url.to_string()),
            Place::Unix(_) => Err(no_unix()),
        }
    }
}

fn no_unix() -> String {
    "a unix socket is not asked through a proxy: leave --proxy out".to_owned()
}

/// A tunnel that was asked for ([`Proxy::connect`]): bytes of the answer in, what came of it out.
#[derive(Debug)]
pub struct Tunnel {
    client: Client,
    /// What has come of the answer.
    answer: Vec<u8>,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Not all of it has come.
    More,
    /// The tunnel is open; these bytes have come through it.
    Open(Vec<u8>),
    /// There is none, and why.
    Refused(String),
}

impl Default for Tunnel {
    fn default() -> Self {
        Self { client: Client::new(Rules::Tolerant, RequestKind::Connect), answer: Vec::new() }
    }
}

impl Tunnel {
    /// Takes what the proxy sends.
    pub fn receive(&mut self, input: &[u8]) -> Answer {
        self.answer.extend_from_slice(input);
        loop {
            let Ok(received) = self.client.receive(&self.answer) else {
                return Answer::Refused("the proxy's answer is not HTTP".to_owned());
            };
            match received.event {
                Event::Interim => drop(self.answer.drain(..received.used)),
                Event::NeedMore if self.answer.len() > RESPONSE_HEAD_BYTES_MAX => {
                    return Answer::Refused("the proxy's answer is too long".to_owned());
                }
                Event::NeedMore => return Answer::More,
                _ => {
                    let status = self.client.known().map_or(0, |known| known.status);
                    if !(200..300).contains(&status) {
                        return Answer::Refused(format!("the proxy answered CONNECT with {status}"));
                    }
                    return Answer::Open(self.answer.split_off(received.used));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_is_and_what_it_is_asked() {
        let plain = Proxy::parse("proxy.example:3128").unwrap();
        assert_eq!((plain.origin().authority().as_str(), plain.login()), ("proxy.example:3128", None));
        let login = Proxy::parse("http://Aladdin:open@sesame@[::1]").unwrap();
        assert_eq!(login.origin().authority(), "[::1]");
        assert_eq!(login.login(), Some("Basic QWxhZGRpbjpvcGVuQHNlc2FtZQ=="));
        let secure = Url::parse("https://a.example/x").unwrap();
        assert_eq!(
            String::from_utf8(login.connect(&secure.origin).unwrap()).unwrap(),
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuQHNlc2FtZQ==\r\n\r\n"
        );
        let url = Url::parse("http://a.example:8080/x?y").unwrap();
        assert_eq!(plain.target(&url).unwrap(), "http://a.example:8080/x?y");
        let unix = Url::parse("http://unix:/s.sock:/").unwrap();
        assert!(plain.connect(&unix.origin).is_err() && plain.target(&unix).is_err());
    }

    #[test]
    fn what_is_no_proxy() {
        for (text, want) in [
            ("socks5://h:1", "a proxy of socks5 is not supported"),
            ("https://h:1", "a proxy of https is not supported"),
            ("me@h:1", "NAME:PASSWORD@"),
            ("h:1/path", "without a path"),
            ("unix:/s", "reached by TCP"),
            ("", "needs a host"),
            ("h:0", "port"),
        ] {
            let found = Proxy::parse(text).unwrap_err();
            assert!(found.contains(want), "{text}: {found}");
        }
    }

    #[test]
    fn answers_in_whatever_pieces() {
        let check = |text: &str, want: &Answer| {
            assert_eq!(&Tunnel::default().receive(text.as_bytes()), want, "{text}");
            let mut tunnel = Tunnel::default();
            let found = text.bytes().map(|byte| tunnel.receive(&[byte])).find(|found| *found != Answer::More);
            let found = found.unwrap_or(Answer::More);
            match want {
                Answer::Open(_) => assert_eq!(found, Answer::Open(Vec::new()), "{text}"),
                want => assert_eq!(&found, want, "{text}"),
            }
        };
        check("HTTP/1.1 200 Connection established\r\n\r\n", &Answer::Open(Vec::new()));
        // What a 2xx says of a body does not hold (RFC 9110 §9.3.6).
        check("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", &Answer::Open(b"hello".to_vec()));
        check("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", &Answer::Open(Vec::new()));
        check("HTTP/1.1 200 OK\r\nA: b\r\n", &Answer::More);
        let refused = |why: &str| Answer::Refused(why.to_owned());
        check("HTTP/1.1 407 Who\r\n\r\n", &refused("the proxy answered CONNECT with 407"));
        check("SSH-2.0-OpenSSH\r\n\r\n", &refused("the proxy's answer is not HTTP"));
    }
}
