//! A session's connection to one server: reached, logged in, told of the session's settings.

use crate::limits::LOGIN_AGE_MS_MAX;
use crate::preamble::Preamble;
use crate::unanswered::Handshake;
use crate::wire::{self, Broken, Wire};
use brisk_balance::{Lease, PeerId, Stats};
use brisk_db::{News, Role};
use brisk_mysql::Capabilities;
use brisk_mysql::ProtocolError;
use brisk_mysql::client::{Account, Answer, Connecting, LoginError, Opened, Query, Step};
use brisk_mysql::command::{INIT_DB, Kind, PREPARE, QUERY, RESET_CONNECTION};
use brisk_mysql::follow::{Follower, Next, Prepared};
use brisk_mysql::greeting::Greeting;
use brisk_mysql::limits::{ANSWER_PREFIX_BYTES_MAX, HANDSHAKE_BYTES_MAX};
use brisk_mysql::packet::{HEADER_BYTES, put_message};
use brisk_mysql::password::Secret;
use brisk_mysql::reply::{ERR, ErrPacket, Tracked};
use brisk_mysql::settings::{Setting, Settings};
use brisk_mysql::statements::Places;
use brisk_net::{Io, Stream, clock, timeout};
use brisk_stream::conf::Proxy;
use brisk_stream::{Session, handler};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// A server that has said its greeting and waits.
pub struct Greeted {
    id: PeerId,
    /// The connection and its place, until somebody takes them.
    reached: Option<(Io, Lease)>,
    /// The greeting.
    pub greeting: Greeting,
    message: Vec<u8>,
}

/// A connection that takes commands.
pub struct Backend {
    /// Which server it is.
    pub id: PeerId,
    /// The connection.
    pub wire: Wire,
    /// What holds for messages.
    pub capabilities: Capabilities,
    /// Whether its OK packets tell of what was written.
    pub tracks: bool,
    /// The number of the session's writes that it was found to have.
    pub confirmed: u64,
    /// How it tells of what it has written.
    pub tracking: Tracking,
    /// What is prepared on it.
    pub places: Places,
    greeting: Box<Greeting>,
    login: Box<Login>,
    /// The number of the last of the session's settings that it was told of.
    told: u64,
    lease: Lease,
}

/// What a session wants a connection for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Everything; its OK packets tell what was written if there are others to be asked for that.
    Writes {
        /// There are.
        told: bool,
    },
    /// Reads alone.
    Reads,
}

/// What a connection has logged in with, and when.
struct Login {
    secret: Secret,
    database: Vec<u8>,
    charset: u16,
    attributes: Vec<u8>,
    at_ms: u64,
    /// The last reset, which was answered as it should be.
    reset: Option<Reset>,
}

/// How a connection was made ready for another session.
#[derive(Clone, Copy)]
struct Reset {
    purpose: Purpose,
    /// What the server has said then.
    status: u16,
}

impl Login {
    fn of(account: &Account) -> Login {
        let Account { secret, database, charset, attributes, .. } = account.clone();
        Login { secret, database, charset, attributes, at_ms: clock::mono_ms(), reset: None }
    }

    /// Whether COM_RESET_CONNECTION and its default database make the connection what it would be after another login with this account of the
    /// same name. The server judges an account from time to time. MySQL takes its own character set in place of the login's then.
    fn is_as_of(&self, account: &Account, greeting: &Greeting) -> bool {
        greeting.is_mariadb()
            && self.secret == account.secret
            && self.database == account.database
            && self.charset == account.charset
            && self.attributes == account.attributes
            && clock::mono_ms().saturating_sub(self.at_ms) < LOGIN_AGE_MS_MAX
    }
}

/// Why a server is not there for a session.
#[derive(Debug)]
pub enum Unready {
    /// It cannot be reached, or has failed, or there is none.
    Lost(String),
    /// It refuses the session, which the client is told as it is.
    Refused(ErrPacket),
    /// With its connection something of the session is gone.
    Gone,
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unready::Lost(why) => f.write_str(why),
            Unready::Refused(error) => write!(f, "the server refused the session: {error}"),
            Unready::Gone => f.write_str("the primary that has the session's transaction or state is gone"),
        }
    }
}

impl From<Broken> for Unready {
    fn from(broken: Broken) -> Unready {
        Unready::Lost(format!("the server {broken}"))
    }
}

impl From<LoginError> for Unready {
    fn from(error: LoginError) -> Unready {
        match error {
            LoginError::Refused(error) => Unready::Refused(error),
            error => Unready::Lost(error.to_string()),
        }
    }
}

/// Reaches a server and waits for its greeting.
pub async fn greet(session: &Session, proxy: &Proxy, lease: Lease) -> Result<Greeted, Unready> {
    let begun = timeout(proxy.connect_timeout, begin(session, proxy, &lease)).await;
    match begun.unwrap_or(Err(Unready::from(Broken::Silent))) {
        Ok((io, greeting, message)) => {
            Ok(Greeted { id: lease.peer.id, reached: Some((io, lease)), greeting, message })
        }
        Err(unready) => {
            lease.failed(clock::mono_ms());
            Err(unready)
        }
    }
}

async fn begin(session: &Session, proxy: &Proxy, lease: &Lease) -> Result<(Io, Greeting, Vec<u8>), Unready> {
    let io = handler::reach(session, proxy, lease).await.map_err(Unready::Lost)?;
    let message = wire::first_message(&io, 0, HANDSHAKE_BYTES_MAX, &session.account).await?;
    if message.first() == Some(&ERR) {
        return Err(Unready::Refused(ErrPacket::parse(&message).map_err(Broken::from)?));
    }
    let greeting = Greeting::parse(&message).map_err(Broken::from)?;
    Ok((io, greeting, message))
}

impl Greeted {
    /// Which server it is.
    pub fn id(&self) -> PeerId {
        self.id
    }

    /// The connection as it is, for a login that is not ours.
    pub fn into_handshake(mut self, session: &Session, proxy: &Proxy) -> Option<Handshake> {
        let (io, lease) = self.reached.take()?;
        let server = Wire::new(Rc::new(Stream::from(io)), proxy, &session.account);
        Some(Handshake::greeted(server, Some(lease), &self.greeting))
    }

    /// Logs in. `group`: what its group is called.
    pub async fn log_in(
        self,
        session: &Session,
        proxy: &Proxy,
        group: &str,
        account: &Account,
    ) -> Result<Backend, Unready> {
        let done = timeout(proxy.connect_timeout, self.shake_hands(session, proxy, group, account)).await;
        done.unwrap_or(Err(Unready::from(Broken::Silent)))
    }

    async fn shake_hands(
        mut self,
        session: &Session,
        proxy: &Proxy,
        group: &str,
        account: &Account,
    ) -> Result<Backend, Unready> {
        let mut connecting = Connecting::new(account.clone());
        let mut out = Vec::new();
        let step = connecting.next(&mut &wire::framed(0, &self.message)[..], &mut out)?;
        let Some((io, lease)) = self.reached.take() else { return Err(Unready::from(Broken::Lost)) };
        let stream = if step == Step::BeginTls {
            wire::put(&io, &out).await?;
            out.clear();
            let stream = handler::secure(session, proxy, io, group).await.map_err(Unready::Lost)?;
            // Passwords are proved to servers, never told.
            connecting.tls_begun(false, &mut out)?;
            stream
        } else {
            Stream::from(io)
        };
        let wire = Wire::new(Rc::new(stream), proxy, &session.account);
        let (wire, opened) = finish(wire, connecting, out).await?;
        if !is_agreed(opened.capabilities, account.capabilities) {
            return Err(Unready::Lost(OFFERS_LESS.to_string()));
        }
        let backend = Backend::new(lease, wire, *opened, Box::new(Login::of(account)));
        if u8::try_from(account.charset).is_ok() {
            return Ok(backend);
        }
        // The login had no room for it.
        let (parked, lease) = backend.part();
        Ok(parked.log_in(session, proxy, account).await?.at(lease))
    }
}

impl Drop for Greeted {
    fn drop(&mut self) {
        if let Some((io, lease)) = self.reached.take() {
            let server = Wire::of_handshake(Rc::new(Stream::from(io)));
            drop(Handshake::greeted(server, Some(lease), &self.greeting));
        }
    }
}

/// Sends what is to be sent and takes what comes, until the login is over.
async fn finish(
    mut wire: Wire,
    mut connecting: Connecting,
    mut out: Vec<u8>,
) -> Result<(Wire, Box<Opened>), Unready> {
    loop {
        if !out.is_empty() {
            wire.send(&std::mem::take(&mut out)).await?;
        }
        if wire.unread().is_empty() {
            wire.fill().await?;
        }
        let mut rest = wire.unread();
        let before = rest.len();
        let step = connecting.next(&mut rest, &mut out)?;
        let taken = before - rest.len();
        wire.take(taken);
        if let Step::Open(opened) = step {
            return Ok((wire, opened));
        }
    }
}

/// What the log says then.
pub const OFFERS_LESS: &str = "the server offers less than the session was told of";

/// Whether a server has agreed on all that decides about the form of messages.
fn is_agreed(have: Capabilities, wanted: Capabilities) -> bool {
    of_form(have) == of_form(wanted)
}

/// What of it decides about the form of messages: all but what a login is made of.
pub fn of_form(capabilities: Capabilities) -> Capabilities {
    capabilities.without(Capabilities::TLS | Capabilities::CONNECT_WITH_DB)
}

/// Whether what was agreed on holds after a reset: the mode and the timeout that these two set do not.
fn lasts(capabilities: Capabilities) -> bool {
    [Capabilities::IGNORE_SPACE, Capabilities::INTERACTIVE].iter().all(|one| !capabilities.has(*one))
}

/// A connection without a session.
pub struct Parked {
    wire: Wire,
    capabilities: Capabilities,
    greeting: Box<Greeting>,
    login: Box<Login>,
    /// Its default database is that of the login.
    is_home: bool,
}

impl Parked {
    /// Whether nothing can be done with it any more.
    pub fn is_stale(&self) -> bool {
        self.wire.is_stale()
    }

    /// Takes its leave.
    pub fn quit(self) {
        self.wire.send_at_once(&wire::framed(0, &[1]));
    }

    /// For another session of the account: with nothing left of the one before, and its first statement carried out. Gives the status, and
    /// the place back if nothing comes of it.
    pub async fn begin(
        mut self,
        session: &Session,
        proxy: &Proxy,
        account: &Account,
        purpose: Purpose,
        lease: Lease,
    ) -> Result<(Backend, u16), Lease> {
        self.wire.charge_to(&session.account);
        // No default database is none that could be chosen.
        let can_be_home = self.is_home || !self.login.database.is_empty();
        if self.login.is_as_of(account, &self.greeting) && can_be_home {
            if let Some(reset) = self.login.reset.filter(|reset| reset.purpose == purpose && self.is_home) {
                let (commands, answers) = self.resetting(purpose);
                self.wire.precede(Preamble::new(commands, answers, reset.status));
                return Ok((self.reset_for(purpose, lease), reset.status));
            }
            match timeout(proxy.connect_timeout, self.reset(purpose)).await {
                Ok(Ok(Some(status))) => {
                    self.login.reset = Some(Reset { purpose, status });
                    return Ok((self.reset_for(purpose, lease), status));
                }
                // It cannot do that: servers before 2015.
                Ok(Ok(None)) => {}
                Ok(Err(_)) | Err(_) => return Err(lease),
            }
        }
        let Ok(logged_in) = self.log_in(session, proxy, account).await else { return Err(lease) };
        let mut backend = logged_in.at(lease);
        match timeout(proxy.connect_timeout, backend.begin(purpose)).await {
            Ok(Ok(status)) => Ok((backend, status)),
            Ok(Err(_)) | Err(_) => Err(backend.part().1),
        }
    }

    fn reset_for(self, purpose: Purpose, lease: Lease) -> Backend {
        let Parked { wire, capabilities, greeting, login, .. } = self;
        let mut backend = Backend::of(lease, wire, capabilities, greeting, login);
        backend.tracks = purpose == Purpose::Writes { told: true };
        backend
    }

    /// COM_RESET_CONNECTION, the database of the login, and the first statement. The connection may have that database, but variables that come
    /// from it (`collation_database`) are the server's own after a reset.
    fn resetting(&self, purpose: Purpose) -> (Vec<u8>, Vec<Query>) {
        let database = &self.login.database[..];
        let database = (!database.is_empty()).then(|| [&[INIT_DB], database].concat());
        let first = Tracking::of(&self.greeting).first(purpose, self.capabilities);
        let first = first.map(|statement| [&[QUERY], statement].concat());
        let commands = [Some(vec![RESET_CONNECTION]), database, first];
        let mut out = Vec::new();
        let mut command = |message: Vec<u8>| Query::command(&message, self.capabilities, &mut out).followed();
        let queries = commands.into_iter().flatten().map(&mut command).collect();
        (out, queries)
    }

    /// All of that in one write: servers carry out what they have been sent one after the other. Gives the status; `None` if something is
    /// refused.
    async fn reset(&mut self, purpose: Purpose) -> Result<Option<u16>, Broken> {
        let (out, queries) = self.resetting(purpose);
        self.wire.send(&out).await?;
        let (mut status, mut is_refused) = (0, false);
        for query in queries {
            match answer(&mut self.wire, query).await? {
                Answer::Ok(ok) => status = ok.status,
                Answer::Err(_) | Answer::Rows(_) => is_refused = true,
            }
        }
        if !self.wire.unread().is_empty() {
            return Err(ProtocolError::Unexpected("data behind an answer").into());
        }
        Ok((!is_refused).then_some(status))
    }

    /// Logs in anew, for another session.
    async fn log_in(self, session: &Session, proxy: &Proxy, account: &Account) -> Result<LoggedIn, Unready> {
        let Parked { mut wire, capabilities, greeting, .. } = self;
        wire.charge_to(&session.account);
        let mut out = Vec::new();
        let connecting = Connecting::change(account.clone(), *greeting, capabilities, &mut out)?;
        let done = timeout(proxy.connect_timeout, finish(wire, connecting, out)).await;
        let (wire, opened) = done.unwrap_or(Err(Unready::from(Broken::Silent)))?;
        Ok(LoggedIn { wire, opened, login: Box::new(Login::of(account)) })
    }
}

/// A connection of a session, without its place at the server.
struct LoggedIn {
    wire: Wire,
    opened: Box<Opened>,
    login: Box<Login>,
}

impl LoggedIn {
    /// With its place.
    fn at(self, lease: Lease) -> Backend {
        Backend::new(lease, self.wire, *self.opened, self.login)
    }
}

/// Waits for the answer of a command that was sent.
async fn answer(wire: &mut Wire, mut query: Query) -> Result<Answer, Broken> {
    loop {
        let mut rest = wire.unread();
        let before = rest.len();
        let answer = query.next(&mut rest)?;
        let taken = before - rest.len();
        wire.take(taken);
        match answer {
            Some(answer) => return Ok(answer),
            None => wire.fill().await?,
        }
    }
}

impl Backend {
    fn new(lease: Lease, wire: Wire, opened: Opened, login: Box<Login>) -> Backend {
        Backend::of(lease, wire, opened.capabilities, Box::new(opened.greeting), login)
    }

    fn of(
        lease: Lease,
        wire: Wire,
        capabilities: Capabilities,
        greeting: Box<Greeting>,
        login: Box<Login>,
    ) -> Backend {
        Backend {
            id: lease.peer.id,
            wire,
            capabilities,
            tracks: false,
            confirmed: 0,
            tracking: Tracking::of(&greeting),
            places: Places::default(),
            greeting,
            login,
            told: 0,
            lease,
        }
    }

    /// Whether the next session can have it: what its login has asked for besides a database holds after a reset as well.
    pub fn can_be_left(&self) -> bool {
        lasts(self.capabilities)
    }

    /// Gives up the session, of which nothing is in the connection, and the place at the server. `is_home`: its default database is that of the
    /// login.
    pub fn park(self, is_home: bool) -> Parked {
        Parked { is_home, ..self.part().0 }
    }

    fn part(mut self) -> (Parked, Lease) {
        // No session is charged for it now. If no command was sent, it is as it was before the session.
        self.wire.charge_to(&Rc::default());
        self.wire.precede_no_more();
        let Backend { wire, capabilities, greeting, login, lease, .. } = self;
        (Parked { wire, capabilities, greeting, login, is_home: false }, lease)
    }

    /// A statement of our own, whose answer is taken here.
    pub async fn ask(&mut self, statement: &[u8]) -> Result<Answer, Broken> {
        let mut out = Vec::new();
        let query = Query::new(statement, self.capabilities, &mut out);
        self.carry_out(query, &out).await
    }

    /// Prepares a statement, whose answer the client does not get.
    pub async fn prepare(&mut self, text: &[u8]) -> Result<Result<Prepared, ErrPacket>, Broken> {
        let sequence = self.wire.send_message(0, &[&[PREPARE], text].concat()).await?;
        let mut follower = Follower::new(Kind::Prepare, self.capabilities, sequence);
        let mut beginning = Vec::new();
        loop {
            let mut rest = self.wire.unread();
            let before = rest.len();
            let next = follower.next(&mut rest)?;
            let taken = before - rest.len();
            let room = (HEADER_BYTES + ANSWER_PREFIX_BYTES_MAX).saturating_sub(beginning.len());
            beginning.extend_from_slice(&self.wire.unread()[..taken.min(room)]);
            self.wire.take(taken);
            match next {
                Next::Done => break,
                Next::More => self.wire.fill().await?,
                Next::File => return Err(ProtocolError::Unexpected("a request for a file").into()),
            }
        }
        let outcome = follower.outcome();
        match outcome.prepared {
            Some(prepared) if outcome.error.is_none() => Ok(Ok(prepared)),
            _ => Ok(Err(ErrPacket::parse(beginning.get(HEADER_BYTES..).unwrap_or_default())?)),
        }
    }

    /// Has the server forget all that is prepared on the connection.
    pub async fn close_statements(&mut self) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        for close in self.places.remove_all() {
            put_message(&mut bytes, &mut 0, &close);
        }
        if bytes.is_empty() { Ok(()) } else { self.wire.send(&bytes).await }
    }

    /// Carries a command out whose answer is short.
    pub async fn command(&mut self, message: &[u8]) -> Result<Answer, Broken> {
        let mut out = Vec::new();
        let query = Query::command(message, self.capabilities, &mut out);
        self.carry_out(query, &out).await
    }

    async fn carry_out(&mut self, query: Query, command: &[u8]) -> Result<Answer, Broken> {
        self.wire.send(command).await?;
        answer(&mut self.wire, query).await
    }

    /// The first statement on a connection, and after COM_RESET_CONNECTION. Gives the status. A server that cannot tell what was written is none
    /// the worse: that is asked for, or not known.
    pub async fn begin(&mut self, purpose: Purpose) -> Result<u16, Broken> {
        self.tracks = false;
        if let Some(statement) = self.tracking.first(purpose, self.capabilities)
            && let Answer::Ok(ok) = self.ask(statement).await?
        {
            self.tracks = purpose == Purpose::Writes { told: true };
            return Ok(ok.status);
        }
        if purpose != Purpose::Reads {
            return self.must(b"DO 0").await;
        }
        // The variable has another name in old and in new servers.
        self.must(b"SET SESSION autocommit = 1").await?;
        self.must(b"SET SESSION TRANSACTION READ ONLY").await
    }

    /// Carries out a statement that cannot fail. Gives the status.
    async fn must(&mut self, statement: &[u8]) -> Result<u16, Broken> {
        match self.ask(statement).await? {
            Answer::Ok(ok) => Ok(ok.status),
            Answer::Err(_) | Answer::Rows(_) => {
                let what = "another answer than OK to the first statement of a session";
                Err(ProtocolError::Unexpected(what).into())
            }
        }
    }

    /// The number of the last of the session's settings that it was told of.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Carries out the next of the session's settings. Gives the status.
    pub async fn set(&mut self, setting: &Setting) -> Result<u16, Unready> {
        match self.command(&setting.message).await? {
            Answer::Ok(ok) => {
                self.told = setting.number;
                Ok(ok.status)
            }
            Answer::Err(_) | Answer::Rows(_) => {
                Err(Unready::Lost("the server does not take the session's settings".to_string()))
            }
        }
    }

    /// The present settings are its own: they were made on it.
    pub fn knows(&mut self, settings: &Settings) {
        self.told = settings.position();
    }

    /// Adds what has moved to the server's figures.
    pub fn count(&mut self) {
        let (received, sent) = self.wire.moved();
        let stats = &self.lease.peer.stats;
        Stats::add(&stats.received_bytes, received);
        Stats::add(&stats.sent_bytes, sent);
    }

    /// Takes its leave between two commands. Never within one: what is sent then might be taken for its end.
    pub fn quit(self) {
        self.wire.send_at_once(&wire::framed(0, &[1]));
    }
}

/// Waits for `work`, unless the check finds meanwhile that the server does not answer.
pub async fn unless_lost<T>(news: &mut News, id: PeerId, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        while news.poll_changed(cx).is_ready() {
            let server = news.view().server(id);
            if server.is_some_and(|server| server.role == Role::Unknown && server.trouble.is_some()) {
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    })
    .await
}

/// How a server tells of what it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// MariaDB: a session variable.
    LastGtid,
    /// MySQL: GTIDs.
    OwnGtid,
}

impl Tracking {
    /// Of a server with this greeting.
    pub fn of(greeting: &Greeting) -> Tracking {
        if greeting.is_mariadb() { Tracking::LastGtid } else { Tracking::OwnGtid }
    }

    /// The first statement on a connection, if it needs one. To the primary: has its OK packets tell what was written, if the client takes such
    /// packets. To a replica, whatever `init_connect` and global settings say: each statement sees what is there when it comes, not what was there
    /// when the first one came; and what a statement calls (functions in views) writes nothing, which the primary may do.
    fn first(self, purpose: Purpose, capabilities: Capabilities) -> Option<&'static [u8]> {
        match purpose {
            Purpose::Writes { told } => {
                (told && capabilities.has(Capabilities::SESSION_TRACK)).then(|| self.statement())
            }
            Purpose::Reads => Some(self.reads_only()),
        }
    }

    fn statement(self) -> &'static [u8] {
        match self {
            // What the client would be told of without us stays.
            Tracking::LastGtid => {
                b"SET SESSION session_track_system_variables = IF(@@session.session_track_system_variables = '*', '*', \
                  CONCAT_WS(',', NULLIF(@@session.session_track_system_variables, ''), 'last_gtid'))"
            }
            Tracking::OwnGtid => b"SET SESSION session_track_gtids = OWN_GTID",
        }
    }

    /// Asks for what the session has written last, or for no less.
    pub fn question(self) -> &'static [u8] {
        match self {
            Tracking::LastGtid => b"SELECT @@last_gtid",
            Tracking::OwnGtid => b"SELECT @@GLOBAL.gtid_executed",
        }
    }

    /// What the answer is.
    pub fn read(self, value: &[u8]) -> Tracked {
        match self {
            Tracking::LastGtid => Tracked::last_gtid(value),
            Tracking::OwnGtid => Tracked::gtids(value),
        }
    }

    /// Has each statement be a transaction of its own that writes nothing.
    fn reads_only(self) -> &'static [u8] {
        match self {
            Tracking::LastGtid => b"SET SESSION autocommit = 1, SESSION tx_read_only = 1",
            Tracking::OwnGtid => b"SET SESSION autocommit = 1, SESSION transaction_read_only = 1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_as_good_as_a_login_where_it_leaves_the_same() {
        let account = Account::new(b"app", b"secret");
        let login = Login::of(&account);
        let greeting = |version: &[u8]| Greeting {
            version: version.to_vec(),
            thread: 1,
            nonce: *b"aBcDeFgHiJkLmNoPqRsT",
            capabilities: Capabilities::FOLLOWED,
            charset: 45,
            status: 2,
            plugin: Vec::new(),
        };
        assert!(login.is_as_of(&account, &greeting(b"5.5.5-10.6.1-MariaDB-log")));
        assert!(!login.is_as_of(&account, &greeting(b"8.4.5")));
        for other in [
            Account { database: b"other".to_vec(), ..account.clone() },
            Account { charset: 33, ..account.clone() },
            Account { attributes: b"\x01a\x01b".to_vec(), ..account.clone() },
            Account { secret: Secret::Password(b"other"[..].into()), ..account.clone() },
        ] {
            assert!(!login.is_as_of(&other, &greeting(b"11.8.3-MariaDB")));
        }
    }
}
