//! A TLS client over a blocking socket, and certificates to test with.

use crate::wait::DEADLINE;
use brisk_tls::issue::{Issued, Wish};
use brisk_tls::{ClientContext, ClientOptions, Session};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

/// One connection.
pub struct TlsClient {
    stream: TcpStream,
    session: Session,
    plain: Vec<u8>,
}

impl TlsClient {
    /// Connects to 127.0.0.1 and shakes hands with whom `name` leads to. The error is the protocol's or the socket's.
    pub fn connect(port: u16, context: &ClientContext, name: &str) -> Result<TlsClient, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|e| e.to_string())?;
        TlsClient::over(stream, context, name)
    }

    /// Shakes hands over a socket that is connected already.
    pub fn over(stream: TcpStream, context: &ClientContext, name: &str) -> Result<TlsClient, String> {
        let text = |error: io::Error| error.to_string();
        stream.set_read_timeout(Some(DEADLINE)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let session = context.session(name, true).map_err(|e| e.to_string())?;
        let mut client = TlsClient { stream, session, plain: Vec::new() };
        client.turn(&mut [])?;
        while !client.session.is_established() {
            if client.read()? == 0 {
                return Err("closed".to_string());
            }
        }
        Ok(client)
    }

    fn turn(&mut self, input: &mut [u8]) -> Result<(), String> {
        let mut out = Vec::new();
        let plain = &mut self.plain;
        let result = self.session.receive(input, &mut |text| plain.extend_from_slice(text), &mut out);
        self.stream.write_all(&out).map_err(|e| e.to_string())?;
        result.map_err(|e| e.to_string())
    }

    fn read(&mut self) -> Result<usize, String> {
        let mut buf = vec![0; 64 << 10];
        let count = loop {
            match self.stream.read(&mut buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done.map_err(|e| e.to_string())?,
            }
        };
        self.turn(&mut buf[..count])?;
        Ok(count)
    }

    /// Seals and sends.
    pub fn send(&mut self, text: impl AsRef<[u8]>) -> Result<(), String> {
        let mut out = Vec::new();
        self.session.seal(text.as_ref(), &mut out).map_err(|e| e.to_string())?;
        self.stream.write_all(&out).map_err(|e| e.to_string())
    }

    /// Sends bytes as they are, past the session.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Everything until the server closes; an error unless it has said so by a close_notify.
    pub fn rest(&mut self) -> Result<String, String> {
        while !self.session.is_peer_closed() {
            if self.read()? == 0 {
                return Err("cut off".to_string());
            }
        }
        Ok(String::from_utf8_lossy(&std::mem::take(&mut self.plain)).into_owned())
    }

    /// Reads until this text has come.
    pub fn wait_for(&mut self, text: &str) -> Result<String, String> {
        loop {
            let have = String::from_utf8_lossy(&self.plain).into_owned();
            if have.contains(text) {
                self.plain.clear();
                return Ok(have);
            }
            if self.read()? == 0 {
                return Err("closed".to_string());
            }
        }
    }

    /// Everything up to the end of this text.
    pub fn until(&mut self, text: &str) -> Result<String, String> {
        let mut looked = 0;
        loop {
            let found = self.plain[looked..].windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = found {
                let count = looked + at + text.len();
                return self.exactly(count).map(|have| String::from_utf8_lossy(&have).into_owned());
            }
            looked = self.plain.len().saturating_sub(text.len());
            if self.read()? == 0 {
                return Err("closed".to_string());
            }
        }
    }

    /// Reads so many bytes.
    pub fn exactly(&mut self, count: usize) -> Result<Vec<u8>, String> {
        while self.plain.len() < count {
            if self.read()? == 0 {
                return Err("closed".to_string());
            }
        }
        Ok(self.plain.drain(..count).collect())
    }

    /// Changes the own keys and asks for the server's to be changed.
    pub fn update_keys(&mut self) -> Result<(), String> {
        let mut out = Vec::new();
        self.session.update_keys(&mut out).map_err(|e| e.to_string())?;
        self.stream.write_all(&out).map_err(|e| e.to_string())
    }

    /// One request on a connection of its own; gives the whole response.
    pub fn get(port: u16, context: &ClientContext, host: &str, target: &str) -> Result<String, String> {
        let mut client = TlsClient::connect(port, context, host)?;
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))?;
        client.rest()
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The server's certificate as DER.
    pub fn certificate(&self) -> Vec<u8> {
        self.session.peer_certificates().first().map(|cert| cert.to_vec()).unwrap_or_default()
    }
}

/// A client that trusts everybody and resumes nothing.
pub fn stranger() -> ClientContext {
    let options = ClientOptions { no_resumption: true, ..ClientOptions::unverified() };
    ClientContext::new(&options).expect("the usual client")
}

/// A client that resumes sessions.
pub fn returning() -> ClientContext {
    ClientContext::new(&ClientOptions::unverified()).expect("the usual client")
}

/// A certificate that is valid today; of `by`, or its own.
pub fn issue(common_name: &str, authority: bool, by: Option<&Issued>) -> Issued {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64);
    let names = [common_name];
    let wish = Wish {
        common_name,
        names: if authority { &[] } else { &names },
        authority,
        not_before: now - 3600,
        not_after: now + 86_400 * 3 + 60,
    };
    Issued::new(&wish, by).expect("randomness")
}
