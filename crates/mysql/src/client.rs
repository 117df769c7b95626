//! A client of our own: a login with a known account, and statements whose answer is collected. Bytes in, bytes out.
//!
//! The owner moves bytes: what [`Connecting::next`] and [`Query::next`] are given is what the server has sent, `out` what it is to get.

use crate::capability::Capabilities;
use crate::error::ProtocolError;
use crate::greeting::Greeting;
use crate::limits::{
    COLLECTED_BYTES_MAX, COLLECTED_COLUMNS_MAX, COLLECTED_MESSAGE_BYTES_MAX, HANDSHAKE_BYTES_MAX,
};
use crate::login::{ChangeUser, Fixed, Login, Switch};
use crate::packet::{Messages, put_message};
use crate::password::{CACHING_SHA2, NATIVE, Secret, wrong_answer};
use crate::reply::{self, ErrPacket, OkPacket, parse_eof};
use crate::wire::Reader;
use std::fmt;

/// The message size that a client of our own tells servers of.
const MESSAGE_BYTES: u32 = 1 << 24;
/// utf8mb4_general_ci: every server since 5.5 has it.
const UTF8MB4: u16 = 45;
/// COM_QUERY.
const QUERY: u8 = 3;

/// The account to log in with, and how.
#[derive(Clone, Debug)]
pub struct Account {
    /// The name.
    pub user: Vec<u8>,
    /// The password, or what stands in for it.
    pub secret: Secret,
    /// The first database; empty: none.
    pub database: Vec<u8>,
    /// Capabilities that are asked for; those that the server lacks are left out.
    pub capabilities: Capabilities,
    /// The number of the collation.
    pub charset: u16,
    /// Attributes of the connection as they are written.
    pub attributes: Vec<u8>,
    /// TLS is begun before the name is sent; a server without TLS is refused.
    pub wants_tls: bool,
}

impl Account {
    /// A login by name and password, without a database and TLS.
    pub fn new(user: &[u8], password: &[u8]) -> Account {
        Account {
            user: user.to_vec(),
            secret: Secret::Password(password.into()),
            database: Vec::new(),
            capabilities: Capabilities::OWN,
            charset: UTF8MB4,
            attributes: Vec::new(),
            wants_tls: false,
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The server says no.
    Refused(ErrPacket),
    /// The server has broken the protocol.
    Protocol(ProtocolError),
    /// TLS is required, and the server has none.
    NoTls,
    /// The server asks for a plugin that is not supported, or that needs the password itself.
    Plugin(Vec<u8>),
    /// The plugin needs the password in clear text, and TLS has not proved who the server is.
    NeedsTls,
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoginError::Refused(error) => write!(f, "the server refused the login: {error}"),
            LoginError::Protocol(error) => write!(f, "the server sent {error}"),
            LoginError::NoTls => f.write_str("the server has no TLS"),
            LoginError::Plugin(name) => {
                write!(
                    f,
                    "the server asks for authentication by {}, which is not known here",
                    name.escape_ascii()
                )
            }
            LoginError::NeedsTls => {
                f.write_str("the server asks for the password, which is told only over TLS with a certificate that was checked")
            }
        }
    }
}

impl std::error::Error for LoginError {}

impl From<ProtocolError> for LoginError {
    fn from(error: ProtocolError) -> LoginError {
        LoginError::Protocol(error)
    }
}

/// What the owner does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends what is to be sent, and gives more of what comes.
    More,
    /// Sends what is to be sent, begins TLS, and calls [`Connecting::tls_begun`].
    BeginTls,
    /// The connection is open.
    Open(Box<Opened>),
}

/// A connection that takes commands.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// The server's greeting.
    pub greeting: Greeting,
    /// What holds for messages.
    pub capabilities: Capabilities,
    /// The last message of the login.
    pub ok: OkPacket,
}

#[derive(Debug)]
enum State {
    Greeting,
    /// TLS is being begun.
    Tls,
    /// The name and the first answer are told; the plugin that was answered last.
    Answered(Vec<u8>),
    /// The server was given what it must refuse. A handshake that is broken off would count against the address that it came from: after some
    /// of them servers let nobody in from there (`max_connect_errors`).
    Hopeless(LoginError),
    Open,
}

/// A login.
#[derive(Debug)]
pub struct Connecting {
    account: Account,
    messages: Messages,
    state: State,
    greeting: Option<Greeting>,
    capabilities: Capabilities,
    /// The password may be told.
    is_proved: bool,
}

impl Connecting {
    /// Before the server's greeting.
    pub fn new(account: Account) -> Connecting {
        Connecting {
            account,
            messages: Messages::new(0, HANDSHAKE_BYTES_MAX),
            state: State::Greeting,
            greeting: None,
            capabilities: Capabilities::default(),
            is_proved: false,
        }
    }

    /// Another login on a connection that is open (COM_CHANGE_USER), after which nothing of the session before is left. `greeting` and
    /// `capabilities` are the connection's.
    pub fn change(
        account: Account,
        greeting: Greeting,
        capabilities: Capabilities,
        out: &mut Vec<u8>,
    ) -> Result<Connecting, LoginError> {
        let change = ChangeUser {
            user: account.user.clone(),
            answer: account.secret.native(&greeting.nonce),
            database: account.database.clone(),
            charset: Some(account.charset),
            plugin: NATIVE.to_vec(),
            attributes: account.attributes.clone(),
        };
        let message = change.write(capabilities).ok_or(ProtocolError::Malformed("login"))?;
        let mut sequence = 0;
        put_message(out, &mut sequence, &message);
        Ok(Connecting {
            messages: Messages::new(sequence, HANDSHAKE_BYTES_MAX),
            state: State::Answered(NATIVE.to_vec()),
            greeting: Some(greeting),
            capabilities,
            ..Connecting::new(account)
        })
    }

    /// Takes one message of what the server has sent. Nothing may follow the login's last message, nor the greeting of a server that
    /// TLS is begun with: what was sent in clear must not be taken for what came by TLS.
    pub fn next(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Step, LoginError> {
        let Some(message) = self.messages.next(input)? else { return Ok(Step::More) };
        let step = self.take(&message, out)?;
        if !input.is_empty() && step != Step::More {
            return Err(ProtocolError::Unexpected("data behind a message of the login").into());
        }
        Ok(step)
    }

    fn take(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<Step, LoginError> {
        if let State::Hopeless(why) = &self.state {
            return Err(why.clone());
        }
        if message.first() == Some(&reply::ERR) {
            return Err(LoginError::Refused(ErrPacket::parse(message)?));
        }
        match &self.state {
            State::Greeting => self.greeted(Greeting::parse(message)?, out),
            State::Answered(plugin) => match message {
                [reply::OK, ..] => {
                    let ok = OkPacket::parse(message, self.capabilities)?;
                    self.state = State::Open;
                    let Some(greeting) = self.greeting.take() else {
                        return Err(ProtocolError::Unexpected("an OK packet").into());
                    };
                    Ok(Step::Open(Box::new(Opened { greeting, capabilities: self.capabilities, ok })))
                }
                [reply::EOF, ..] => {
                    let switch = Switch::parse(message)?;
                    match self.answer(&switch.plugin, switch.nonce()) {
                        Ok(answer) => {
                            self.send(out, &answer);
                            self.state = State::Answered(switch.plugin);
                        }
                        Err(why) => self.give_up(why, &wrong_answer(&switch.plugin), out),
                    }
                    Ok(Step::More)
                }
                // The short way has worked; an OK packet follows.
                [1, 3] if plugin == CACHING_SHA2 => Ok(Step::More),
                [1, 4] if plugin == CACHING_SHA2 => {
                    self.tell_password(out);
                    Ok(Step::More)
                }
                _ => Err(ProtocolError::Unexpected("a message").into()),
            },
            State::Tls | State::Hopeless(_) | State::Open => {
                Err(ProtocolError::Unexpected("a message").into())
            }
        }
    }

    fn greeted(&mut self, greeting: Greeting, out: &mut Vec<u8>) -> Result<Step, LoginError> {
        let offered = greeting.capabilities;
        let mut wanted = self.account.capabilities.without(Capabilities::TLS | Capabilities::CONNECT_WITH_DB);
        if !self.account.database.is_empty() {
            wanted = wanted | Capabilities::CONNECT_WITH_DB;
        }
        let mut agreed = wanted & offered | wanted & Capabilities::MYSQL;
        if self.account.wants_tls {
            if !offered.has(Capabilities::TLS) {
                let refused = Login::nobody(&greeting).write().unwrap_or_default();
                self.give_up(LoginError::NoTls, &refused, out);
                return Ok(Step::More);
            }
            agreed = agreed | Capabilities::TLS;
        }
        self.capabilities = agreed;
        self.greeting = Some(greeting);
        if self.account.wants_tls {
            let request = self.fixed().write();
            self.send(out, &request);
            self.state = State::Tls;
            return Ok(Step::BeginTls);
        }
        self.log_in(out).map(|()| Step::More)
    }

    /// TLS has begun: the name may be sent, and if the server's certificate was checked (`is_proved`), the password, too.
    pub fn tls_begun(&mut self, is_proved: bool, out: &mut Vec<u8>) -> Result<(), LoginError> {
        match self.state {
            State::Tls => {
                self.is_proved = is_proved;
                self.log_in(out)
            }
            _ => Err(ProtocolError::Unexpected("TLS").into()),
        }
    }

    fn fixed(&self) -> Fixed {
        // A login has one byte for it; COM_CHANGE_USER has room for all.
        let charset = u8::try_from(self.account.charset).unwrap_or(UTF8MB4 as u8);
        Fixed { capabilities: self.capabilities, message_bytes_max: MESSAGE_BYTES, charset }
    }

    fn log_in(&mut self, out: &mut Vec<u8>) -> Result<(), LoginError> {
        let Some(greeting) = &self.greeting else { return Err(ProtocolError::Unexpected("a login").into()) };
        // If the plugin is not supported here, the server asks for it again, or for another one.
        let plugin = if greeting.plugin == CACHING_SHA2 && matches!(self.account.secret, Secret::Password(_))
        {
            CACHING_SHA2
        } else {
            NATIVE
        };
        let answer = self.answer(plugin, &greeting.nonce)?;
        let login = Login {
            fixed: self.fixed(),
            user: self.account.user.clone(),
            answer,
            database: self.account.database.clone(),
            plugin: plugin.to_vec(),
            attributes: self.account.attributes.clone(),
        };
        let message = login.write().ok_or(ProtocolError::Malformed("login"))?;
        self.send(out, &message);
        self.state = State::Answered(plugin.to_vec());
        Ok(())
    }

    fn answer(&self, plugin: &[u8], nonce: &[u8]) -> Result<Vec<u8>, LoginError> {
        let refused = || LoginError::Plugin(plugin.to_vec());
        match plugin {
            NATIVE => Ok(self.account.secret.native(nonce)),
            CACHING_SHA2 => self.account.secret.caching_sha2(nonce).ok_or_else(refused),
            _ => Err(refused()),
        }
    }

    /// The long way of `caching_sha2_password`.
    fn tell_password(&mut self, out: &mut Vec<u8>) {
        let Secret::Password(password) = &self.account.secret else {
            return self.give_up(LoginError::Plugin(CACHING_SHA2.to_vec()), b"\0", out);
        };
        if !self.is_proved {
            return self.give_up(LoginError::NeedsTls, b"\0", out);
        }
        let message = [password, &b"\0"[..]].concat();
        self.send(out, &message);
    }

    /// Says what the server must refuse; when it has, the login fails for the reason that is given here.
    fn give_up(&mut self, why: LoginError, message: &[u8], out: &mut Vec<u8>) {
        self.send(out, message);
        self.state = State::Hopeless(why);
    }

    fn send(&mut self, out: &mut Vec<u8>, message: &[u8]) {
        let mut sequence = self.messages.frames().sequence();
        put_message(out, &mut sequence, message);
        self.messages.frames().set_sequence(sequence);
    }
}

/// The result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No rows.
    Ok(OkPacket),
    /// The server says no.
    Err(ErrPacket),
    /// Rows.
    Rows(Rows),
}

/// A result set. NULL is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Names of columns.
    pub columns: Vec<Vec<u8>>,
    /// Values, in the order of columns.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Rows {
    /// The value of a column in a row; names are compared without case.
    pub fn get(&self, row: usize, name: &str) -> Option<&[u8]> {
        let at = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name.as_bytes()))?;
        self.rows.get(row)?.get(at)?.as_deref()
    }
}

#[derive(Debug)]
enum Part {
    First,
    Columns(u64),
    ColumnsEnd,
    Rows,
}

/// One statement with one result, whose answer is collected up to limits.
#[derive(Debug)]
pub struct Query {
    messages: Messages,
    capabilities: Capabilities,
    part: Part,
    bytes: usize,
    rows: Rows,
    /// Other commands were sent behind it.
    is_followed: bool,
}

impl Query {
    /// Writes the command to `out`.
    pub fn new(statement: &[u8], capabilities: Capabilities, out: &mut Vec<u8>) -> Query {
        Query::command(&[&[QUERY], statement].concat(), capabilities, out)
    }

    /// Writes another command with such an answer: its byte, its arguments.
    pub fn command(message: &[u8], capabilities: Capabilities, out: &mut Vec<u8>) -> Query {
        let mut sequence = 0;
        put_message(out, &mut sequence, message);
        let messages = Messages::new(sequence, COLLECTED_MESSAGE_BYTES_MAX);
        let rows = Rows::default();
        Query { messages, capabilities, part: Part::First, bytes: 0, rows, is_followed: false }
    }

    /// Other commands are sent behind it without waiting: their answers follow its own.
    #[must_use]
    pub fn followed(self) -> Query {
        Query { is_followed: true, ..self }
    }

    /// Takes what the server has sent; the answer when it is whole.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, ProtocolError> {
        while let Some(message) = self.messages.next(input)? {
            self.bytes += message.len() + self.values() * size_of::<Option<Vec<u8>>>();
            if self.bytes > COLLECTED_BYTES_MAX {
                return Err(ProtocolError::TooLarge { limit_bytes: COLLECTED_BYTES_MAX });
            }
            if let Some(answer) = self.take(&message)? {
                return if input.is_empty() || self.is_followed {
                    Ok(Some(answer))
                } else {
                    Err(ProtocolError::Unexpected("data behind an answer"))
                };
            }
        }
        Ok(None)
    }

    /// Values that the next message may have: each occupies more than its bytes, of which there may be one.
    fn values(&self) -> usize {
        match self.part {
            Part::Rows => self.rows.columns.len(),
            Part::First | Part::Columns(_) | Part::ColumnsEnd => 1,
        }
    }

    fn take(&mut self, message: &[u8]) -> Result<Option<Answer>, ProtocolError> {
        if message.first() == Some(&reply::ERR) {
            return ErrPacket::parse(message).map(|error| Some(Answer::Err(error)));
        }
        let ends_with_ok = self.capabilities.has(Capabilities::DEPRECATE_EOF);
        match self.part {
            // COM_SET_OPTION is answered by EOF.
            Part::First if message.first() == Some(&reply::EOF) && message.len() == 5 => {
                let (warnings, status) = parse_eof(message)?;
                return Ok(Some(Answer::Ok(OkPacket { status, warnings, ..OkPacket::default() })));
            }
            Part::First if message.first() == Some(&reply::OK) => {
                return OkPacket::parse(message, self.capabilities).map(|ok| Some(Answer::Ok(ok)));
            }
            Part::First => {
                let count = Reader::new(message).number();
                let count = count.filter(|count| (1..=COLLECTED_COLUMNS_MAX).contains(count));
                self.part = Part::Columns(count.ok_or(ProtocolError::Malformed("number of columns"))?);
            }
            Part::Columns(left) => {
                self.rows.columns.push(column_name(message).ok_or(ProtocolError::Malformed("column"))?);
                self.part = match left {
                    1 if ends_with_ok => Part::Rows,
                    1 => Part::ColumnsEnd,
                    _ => Part::Columns(left - 1),
                };
            }
            Part::ColumnsEnd => {
                parse_eof(message)?;
                self.part = Part::Rows;
            }
            Part::Rows if message.first() == Some(&reply::EOF) && (ends_with_ok || message.len() < 9) => {
                return Ok(Some(Answer::Rows(std::mem::take(&mut self.rows))));
            }
            Part::Rows => {
                let mut from = Reader::new(message);
                let row: Option<Vec<_>> = self
                    .rows
                    .columns
                    .iter()
                    .map(|_| from.value().map(|value| value.map(<[u8]>::to_vec)))
                    .collect();
                self.rows.rows.push(row.filter(|_| from.is_empty()).ok_or(ProtocolError::Malformed("row"))?);
            }
        }
        Ok(None)
    }
}

/// A column's name: catalogue, database, table, the table's own name, name.
fn column_name(message: &[u8]) -> Option<Vec<u8>> {
    let mut from = Reader::new(message);
    for _ in 0..4 {
        from.text()?;
    }
    from.text().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests;
