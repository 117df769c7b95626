//! A client's connection as data.

use crate::limits::{ANSWER_BYTES_MAX, ROWS_MAX};
use crate::message;
use crate::scram::{self, Final, First};
use md5::{Digest as _, Md5};
use std::fmt;

/// What a client logs in with.
#[derive(Clone)]
pub struct Login {
    /// The account.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The database.
    pub database: String,
    /// The connection is encrypted and the server's certificate was checked: the server may ask for the password itself.
    pub is_proved: bool,
}

/// What the server's messages have led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// The login is complete: a query may be sent.
    LoggedIn,
    /// The answer to a query.
    Rows(Vec<Vec<Option<String>>>),
}

/// Why a connection cannot be used any more.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// The server refuses, with its code (SQLSTATE) and text.
    Refused(String, String),
    /// The server has sent a message that is not allowed now.
    Unexpected,
    /// The server asks for the password itself over a connection that is not trusted with it.
    Password,
    /// The server asks for an authentication method that is not supported.
    UnknownMethod,
    /// The server has not proved that it knows the password.
    Impostor,
    /// Its answer is too large.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(code, text) => write!(f, "the server answers: {text} ({code})"),
            Error::Unexpected => f.write_str("the server sends what is not expected"),
            Error::Password => f.write_str("the server asks for the password in clear text"),
            Error::UnknownMethod => {
                f.write_str("the server asks for an authentication that is not supported")
            }
            Error::Impostor => f.write_str("the server does not know the password"),
            Error::TooLarge => f.write_str("the server's answer is too large"),
        }
    }
}

/// A connection from its first byte on (behind TLS, if there is that).
pub struct Client {
    login: Login,
    state: State,
    received: Vec<u8>,
}

enum State {
    /// The server has not chosen a method; the random part for SCRAM is there.
    Begun([u8; 18]),
    Challenged(First),
    Proving(Final),
    /// The login is accepted; ReadyForQuery is awaited.
    LoggedIn,
    Idle,
    Asked {
        rows: Vec<Vec<Option<String>>>,
        bytes: usize,
        error: Option<Error>,
    },
    /// It has failed.
    Over,
}

impl Client {
    /// Begins a login: `out` gets the first message. `random` must be new for each login.
    pub fn new(login: Login, random: [u8; 18], out: &mut Vec<u8>) -> Client {
        message::write_startup(&login.user, &login.database, out);
        Client { login, state: State::Begun(random), received: Vec::new() }
    }

    /// Sends a query; the last one must have been answered.
    ///
    /// # Panics
    /// If it was not.
    pub fn ask(&mut self, query: &str, out: &mut Vec<u8>) {
        assert!(matches!(self.state, State::Idle), "one question at a time");
        message::write(b'Q', &[query.as_bytes(), &[0]], out);
        self.state = State::Asked { rows: Vec::new(), bytes: 0, error: None };
    }

    /// Takes what has come; `out` gets what is to be sent. After an error the connection is to be closed, but for
    /// [`Error::Refused`] of a query ([`Client::is_usable`]).
    pub fn handle(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<Event>, Error> {
        self.received.extend_from_slice(bytes);
        let received = std::mem::take(&mut self.received);
        let mut at = 0;
        let outcome = loop {
            match message::first(&received[at..]) {
                Err(()) => break Err(Error::TooLarge),
                Ok(None) => break Ok(None),
                Ok(Some((letter, body, length))) => {
                    at += length;
                    match self.message(letter, body, out) {
                        Ok(None) => {}
                        done => break done,
                    }
                }
            }
        };
        self.received = received[at..].to_vec();
        if outcome.is_err() && !self.is_usable() {
            self.state = State::Over;
        }
        outcome
    }

    /// Whether a query may be sent.
    pub fn is_usable(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    fn message(&mut self, letter: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Option<Event>, Error> {
        match letter {
            // Notices, settings of the session and notifications may come at any time.
            b'N' | b'S' | b'A' => return Ok(None),
            b'E' if !matches!(self.state, State::Asked { .. }) => {
                let (code, text) = message::error(body);
                return Err(Error::Refused(code, text));
            }
            _ => {}
        }
        match std::mem::replace(&mut self.state, State::Over) {
            // AuthenticationOk follows the end of SCRAM.
            State::LoggedIn if letter != b'R' => self.ready(letter),
            State::Asked { rows, bytes, error } => self.answer(letter, body, rows, bytes, error),
            state if letter == b'R' => {
                self.state = self.authenticate(state, body, out)?;
                Ok(None)
            }
            _ => Err(Error::Unexpected),
        }
    }

    /// The server's settings, and that it is ready.
    fn ready(&mut self, letter: u8) -> Result<Option<Event>, Error> {
        match letter {
            // The key of cancel requests.
            b'K' => {
                self.state = State::LoggedIn;
                Ok(None)
            }
            b'Z' => {
                self.state = State::Idle;
                Ok(Some(Event::LoggedIn))
            }
            _ => Err(Error::Unexpected),
        }
    }

    fn authenticate(&self, state: State, body: &[u8], out: &mut Vec<u8>) -> Result<State, Error> {
        let (method, rest) = message::number(body).ok_or(Error::Unexpected)?;
        match (method, state) {
            // A false server could skip its proof by this.
            (0, State::Begun(_) | State::LoggedIn) => Ok(State::LoggedIn),
            (3, State::Begun(random)) if self.login.is_proved => {
                message::write(b'p', &[self.login.password.as_bytes(), &[0]], out);
                Ok(State::Begun(random))
            }
            (3, State::Begun(_)) => Err(Error::Password),
            (5, State::Begun(random)) if rest.len() == 4 => {
                let proof = md5_proof(&self.login.user, &self.login.password, rest);
                message::write(b'p', &[proof.as_bytes(), &[0]], out);
                Ok(State::Begun(random))
            }
            (10, State::Begun(random)) => {
                if !rest.split(|byte| *byte == 0).any(|name| name == scram::MECHANISM.as_bytes()) {
                    return Err(Error::UnknownMethod);
                }
                let first = First::new(random);
                let text = first.message();
                let length = (text.len() as u32).to_be_bytes();
                message::write(b'p', &[scram::MECHANISM.as_bytes(), &[0], &length, text.as_bytes()], out);
                Ok(State::Challenged(first))
            }
            (11, State::Challenged(first)) => {
                let (text, end) = first.answer(rest, &self.login.password).ok_or(Error::Unexpected)?;
                message::write(b'p', &[text.as_bytes()], out);
                Ok(State::Proving(end))
            }
            (12, State::Proving(end)) if end.is_proved(rest) => Ok(State::LoggedIn),
            (12, State::Proving(_)) => Err(Error::Impostor),
            (0 | 3 | 5 | 10 | 11 | 12, _) => Err(Error::Unexpected),
            _ => Err(Error::UnknownMethod),
        }
    }

    fn answer(
        &mut self,
        letter: u8,
        body: &[u8],
        mut rows: Vec<Vec<Option<String>>>,
        mut bytes: usize,
        mut error: Option<Error>,
    ) -> Result<Option<Event>, Error> {
        match letter {
            b'D' => {
                let row = message::row(body).ok_or(Error::Unexpected)?;
                bytes += body.len();
                if rows.len() >= ROWS_MAX || bytes > ANSWER_BYTES_MAX {
                    return Err(Error::TooLarge);
                }
                rows.push(row);
            }
            b'E' => {
                let (code, text) = message::error(body);
                error = Some(Error::Refused(code, text));
            }
            // The columns, the end of a command, an empty one.
            b'T' | b'C' | b'I' => {}
            b'Z' => {
                self.state = State::Idle;
                return match error {
                    Some(error) => Err(error),
                    None => Ok(Some(Event::Rows(rows))),
                };
            }
            _ => return Err(Error::Unexpected),
        }
        self.state = State::Asked { rows, bytes, error };
        Ok(None)
    }
}

/// `md5` and the hash of the hashed password with the server's salt.
fn md5_proof(user: &str, password: &str, salt: &[u8]) -> String {
    let inner = hex(&Md5::digest([password.as_bytes(), user.as_bytes()].concat()));
    format!("md5{}", hex(&Md5::digest([inner.as_bytes(), salt].concat())))
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(is_proved: bool) -> Client {
        let login =
            Login { user: "probe".into(), password: "secret".into(), database: "postgres".into(), is_proved };
        let mut out = Vec::new();
        let client = Client::new(login, [7; 18], &mut out);
        assert_eq!(out[..8], [0, 0, 0, out.len() as u8, 0, 3, 0, 0]);
        client
    }

    fn message(letter: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        message::write(letter, &[body], &mut out);
        out
    }

    /// What a client makes of messages, given byte by byte as well as at once.
    fn course(is_proved: bool, bytes: &[u8]) -> (Result<Option<Event>, Error>, Vec<u8>) {
        let (mut client, mut out) = (self::client(is_proved), Vec::new());
        let at_once = client.handle(bytes, &mut out);
        let (mut client, mut again) = (self::client(is_proved), Vec::new());
        let mut last = Ok(None);
        for byte in bytes {
            last = client.handle(&[*byte], &mut again);
            if last != Ok(None) {
                break;
            }
        }
        assert_eq!((&at_once, &out), (&last, &again));
        (at_once, out)
    }

    fn auth(method: u8, rest: &[u8]) -> Vec<u8> {
        message(b'R', &[&[0, 0, 0, method], rest].concat())
    }

    fn ready() -> Vec<u8> {
        [auth(0, b""), message(b'S', b"TimeZone\0UTC\0"), message(b'K', &[0; 8]), message(b'Z', b"I")]
            .concat()
    }

    #[test]
    fn log_in_by_md5() {
        let (done, out) = course(false, &[auth(5, b"salt"), ready()].concat());
        assert_eq!(done, Ok(Some(Event::LoggedIn)));
        // md5(md5("secretprobe") + "salt"), by md5sum.
        assert_eq!(out[..5], *b"p\0\0\0\x28");
        assert!(out[5..].starts_with(b"md5") && out.ends_with(b"\0") && out.len() == 41);
    }

    /// The server's part was computed apart from this crate (Python's hashlib).
    #[test]
    fn log_in_by_scram_to_its_end() {
        const FIRST: &[u8] = b"r=BwcHBwcHBwcHBwcHBwcHBwcHserver,s=c2FsdCBvZiBhIHNlcnZlcg==,i=4096";
        const END: &[u8] = b"v=tkMnCA3Huh/6xmOUWHVA8iGta5pwlb3/2G6C7/vvGaE=";
        let sent = [
            message(b'p', b"SCRAM-SHA-256\0\0\0\0\x20n,,n=,r=BwcHBwcHBwcHBwcHBwcHBwcH"),
            message(
                b'p',
                b"c=biws,r=BwcHBwcHBwcHBwcHBwcHBwcHserver,p=hj73WdxCscHHTM1aVoDIqaiVRrHr0psY3U8vLrrdcRY=",
            ),
        ]
        .concat();
        let challenge = [auth(10, b"SCRAM-SHA-256\0\0"), auth(11, FIRST)].concat();
        // AuthenticationOk follows the server's proof.
        let proved = [challenge.clone(), auth(12, END), ready()].concat();
        assert_eq!(course(false, &proved), (Ok(Some(Event::LoggedIn)), sent));
        let impostor = [challenge.clone(), auth(12, b"v=AAAA"), ready()].concat();
        assert_eq!(course(false, &impostor).0, Err(Error::Impostor));
        let unproved = [challenge.clone(), ready()].concat();
        assert_eq!(course(false, &unproved).0, Err(Error::Unexpected));
        // Nothing is proved anew once it is.
        let again = [challenge, auth(12, END), auth(5, b"salt")].concat();
        assert_eq!(course(false, &again).0, Err(Error::Unexpected));
    }

    #[test]
    fn passwords_go_over_encrypted_connections_only() {
        assert_eq!(course(false, &auth(3, b"")), (Err(Error::Password), vec![]));
        let (done, out) = course(true, &[auth(3, b""), ready()].concat());
        assert_eq!((done, &out[..]), (Ok(Some(Event::LoggedIn)), &b"p\0\0\0\x0bsecret\0"[..]));
    }

    #[test]
    fn impostors_and_nonsense() {
        let check = |bytes: &[u8], error: Error| assert_eq!(course(false, bytes).0, Err(error));
        let challenge = auth(10, b"SCRAM-SHA-256\0\0");
        check(&auth(10, b"SCRAM-SHA-256-PLUS\0\0"), Error::UnknownMethod);
        check(&auth(7, b""), Error::UnknownMethod);
        // "Welcome" instead of a proof.
        check(&[challenge.clone(), auth(0, b"")].concat(), Error::Unexpected);
        check(&[challenge.clone(), auth(12, b"v=AAAA")].concat(), Error::Unexpected);
        check(&[challenge.clone(), auth(11, b"r=x,s=,i=1")].concat(), Error::Unexpected);
        check(&[challenge, auth(5, b"salt")].concat(), Error::Unexpected);
        check(&auth(5, b"longer"), Error::Unexpected);
        check(&message(b'Z', b"I"), Error::Unexpected);
        check(b"HTTP/1.1 400 Bad Request\r\n\r\n", Error::TooLarge);
        let refused = Error::Refused("28P01".into(), "wrong".into());
        check(&message(b'E', b"SFATAL\0C28P01\0Mwrong\0\0"), refused);
    }

    #[test]
    fn questions() {
        let mut client = client(false);
        let mut out = Vec::new();
        assert_eq!(client.handle(&ready(), &mut out), Ok(Some(Event::LoggedIn)));
        client.ask("SELECT 1", &mut out);
        assert_eq!(out, b"Q\0\0\0\x0dSELECT 1\0");
        let row = message(b'D', b"\0\x01\0\0\0\x011");
        let end = [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        let answer = [message(b'T', b""), row.clone(), end.clone()].concat();
        assert_eq!(client.handle(&answer, &mut out), Ok(Some(Event::Rows(vec![vec![Some("1".into())]]))));
        client.ask("SELECT", &mut out);
        let refused = [message(b'E', b"C42601\0Msyntax\0\0"), message(b'Z', b"I")].concat();
        assert_eq!(client.handle(&refused, &mut out), Err(Error::Refused("42601".into(), "syntax".into())));
        assert!(client.is_usable());
        client.ask("SELECT 1", &mut out);
        let many: Vec<u8> = row.iter().copied().cycle().take(row.len() * (ROWS_MAX + 1)).collect();
        assert_eq!(client.handle(&many, &mut out), Err(Error::TooLarge));
        assert!(!client.is_usable());
        assert_eq!(client.handle(&end, &mut out), Err(Error::Unexpected));
    }
}
