//! A session's beginning: the client is greeted as the primary greets, shows who it is, and the primary is opened by what its answer or
//! `mysql_accounts` gives. The nonce and the number of the connection are ours: no server is asked for anything before the client is
//! known, and no number of a client's greeting is that of another one's connection (`KILL`).

use crate::backend::{Backend, Greeted, Unready, unless_lost};
use crate::known::{Claimed, Known};
use crate::placing::tell;
use crate::split::{Face, Split};
use crate::whole::{self, Whole};
use crate::wire::{self, Broken, Wire};
use brisk_db::{News, Tally};
use brisk_host::log::LogLevel;
use brisk_host::peer::Peer;
use brisk_host::vars::Context as _;
use brisk_mysql::classify::is_of_clients;
use brisk_mysql::client::Account;
use brisk_mysql::greeting::{Greeting, NONCE_BYTES};
use brisk_mysql::limits::LOGIN_BYTES_MAX;
use brisk_mysql::login::{First, Login, Switch};
use brisk_mysql::password::{CACHING_SHA2, NATIVE, Secret, is_answer};
use brisk_mysql::reply::{ErrPacket, OkPacket, status};
use brisk_mysql::session::{Role, Session as Course};
use brisk_mysql::{Capabilities, ProtocolError};
use brisk_net::timeout;
use brisk_stream::conf::{Client, Proxy};
use brisk_stream::{BAD_GATEWAY, BAD_REQUEST, INTERNAL, Session, Status, handler};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A client that has shown who it is, and its primary.
pub struct Opened {
    /// The client.
    pub client: Wire,
    /// The connection to the primary.
    pub primary: Backend,
    /// What opens other servers.
    pub account: Account,
    /// The primary's status.
    pub status: u16,
    /// What the client's answers are mixed with.
    pub nonce: [u8; NONCE_BYTES],
}

/// How a session begins.
pub enum Beginning {
    /// It is split.
    Split(Box<Opened>),
    /// Its account is not known here: it goes to the primary as it is.
    Whole(Box<Whole>),
}

/// A client while it logs in.
pub struct Newcomer {
    /// Its connection.
    pub wire: Wire,
    /// What it has said.
    pub login: Login,
    /// It has begun TLS.
    pub is_secure: bool,
    /// The number of the next frame.
    sequence: u8,
    nonce: [u8; NONCE_BYTES],
}

/// Goes from a connection to a session that takes commands.
pub async fn open(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
    client: Client,
) -> Result<Beginning, Status> {
    // At a start; what was not answered in time is looked at as it is.
    let _ = timeout(proxy.connect_timeout, poll_fn(|cx| news.poll_asked(cx))).await;
    let (face, greeted) = match split.face() {
        Some(face) => (face, None),
        None => match greet(split, session, proxy, news).await {
            Ok(greeted) => (Face::of(&greeted.greeting), Some(greeted)),
            Err(unready) => {
                let error = no_primary(session, news, &unready);
                let _ = wire::put(&client.io, &wire::framed(0, &early(&error))).await;
                return Err(BAD_GATEWAY);
            }
        },
    };
    let welcomed = timeout(proxy.connect_timeout, welcome(session, proxy, client, face)).await;
    let mut newcomer = welcomed.unwrap_or_else(|_| Err(lost(session, &Broken::Silent)))?;
    let login = &newcomer.login;
    let proved = match split.known(session, news.cluster(), &login.user, login.fixed.charset.into()) {
        Claimed::Elsewhere => return whole::open(split, session, proxy, news, newcomer, greeted).await,
        Claimed::Barred => Ok(None),
        Claimed::Known(known) => {
            let proved = timeout(proxy.connect_timeout, newcomer.prove(&known)).await;
            proved.unwrap_or(Err(Broken::Silent))
        }
    };
    match proved {
        Ok(Some(secret)) => open_split(split, session, proxy, news, newcomer, greeted, secret).await,
        Ok(None) => {
            let error = denied(session, &newcomer.login.user, !newcomer.login.answer.is_empty());
            newcomer.tell(session, &error.write()).await?;
            Err(BAD_REQUEST)
        }
        Err(broken) => Err(lost(session, &broken)),
    }
}

async fn open_split(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
    mut newcomer: Newcomer,
    greeted: Option<Greeted>,
    secret: Secret,
) -> Result<Beginning, Status> {
    let login = &newcomer.login;
    let agreed = login.fixed.capabilities;
    let account = Account {
        user: login.user.clone(),
        secret,
        database: login.database.clone(),
        // The client compresses for the way to us.
        capabilities: agreed.without(Capabilities::COMPRESS),
        charset: login.fixed.charset.into(),
        attributes: login.attributes.clone(),
        wants_tls: proxy.tls.is_some(),
    };
    match open_primary(split, session, proxy, news, greeted, &account, None).await {
        Ok((primary, status)) => {
            let ok = OkPacket { status, ..OkPacket::default() };
            newcomer.tell(session, &ok.write()).await?;
            let (mut client, nonce) = (newcomer.wire, newcomer.nonce);
            if agreed.has(Capabilities::COMPRESS) {
                client.compress();
            }
            Ok(Beginning::Split(Box::new(Opened { client, primary, account, status, nonce })))
        }
        Err(unready) => {
            let error = no_primary(session, news, &unready);
            newcomer.tell(session, &error.write()).await?;
            Err(BAD_GATEWAY)
        }
    }
}

/// Reaches the primary, which waits for a login.
pub async fn greet(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
) -> Result<Greeted, Unready> {
    let lease = split.lease_primary(news)?;
    let (id, mut watch) = (lease.peer.id, news.cluster().news());
    let work = split.greet_primary(session, proxy, news, lease);
    unless_lost(&mut watch, id, work).await.unwrap_or(Err(Unready::from(Broken::Lost)))
}

/// A connection to the primary that has logged in and was told of these settings, with its status. `greeted`: one that has begun already.
pub async fn open_primary(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
    greeted: Option<Greeted>,
    account: &Account,
    course: Option<&Course>,
) -> Result<(Backend, u16), Unready> {
    let id = match &greeted {
        Some(greeted) => greeted.id(),
        None => Split::primary(news)?,
    };
    let cluster = news.cluster().clone();
    let mut watch = cluster.news();
    let work = async {
        let (mut primary, status) = reach_primary(split, session, proxy, news, greeted, account).await?;
        let told = match course {
            Some(course) => tell(&mut primary, course, Role::Primary, &cluster.tally).await?,
            None => None,
        };
        Ok::<_, Unready>((primary, told.unwrap_or(status)))
    };
    unless_lost(&mut watch, id, work).await.unwrap_or(Err(Unready::from(Broken::Lost)))
}

async fn reach_primary(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
    greeted: Option<Greeted>,
    account: &Account,
) -> Result<(Backend, u16), Unready> {
    let (cluster, purpose) = (news.cluster().clone(), Split::writes(news));
    let greeted = match greeted {
        Some(greeted) => greeted,
        None => {
            let lease = split.lease_primary(news)?;
            match split.again(session, proxy, &cluster, lease, account, purpose).await {
                Ok(begun) => return Ok(begun),
                Err(lease) => split.greet_primary(session, proxy, news, lease).await?,
            }
        }
    };
    let mut primary = split.log_in(session, proxy, &cluster, greeted, account).await?;
    let status = primary.begin(purpose).await?;
    Ok((primary, status))
}

/// What the client is told, and the log.
pub fn no_primary(session: &Session, news: &News, unready: &Unready) -> ErrPacket {
    Tally::add(&news.cluster().tally.failed_sessions);
    match unready {
        Unready::Refused(error) => {
            session.log(LogLevel::Info, format_args!("the primary refused the session: {error}"));
            error.clone()
        }
        Unready::Lost(_) | Unready::Gone => {
            session.log(LogLevel::Error, format_args!("no primary for the session: {unready}"));
            // As a client says it of a server that it cannot reach.
            ErrPacket::new(2003, b"HY000", "Can't connect to MySQL server: no server takes writes at present")
        }
    }
}

/// As servers say it.
pub fn denied(session: &Session, user: &[u8], has_password: bool) -> ErrPacket {
    let host = match session.client.get() {
        Peer::Ip(address) => address.ip().to_string(),
        Peer::Unix => "localhost".to_string(),
    };
    let (user, using) = (String::from_utf8_lossy(user), if has_password { "YES" } else { "NO" });
    session.log(LogLevel::Info, format_args!("access denied for database user \"{}\"", user.escape_debug()));
    ErrPacket::new(
        1045,
        b"28000",
        &format!("Access denied for user '{user}'@'{host}' (using password: {using})"),
    )
}

/// Servers take it for a broken handshake, of ours.
pub fn not_of_clients() -> ErrPacket {
    ErrPacket::new(1115, b"42000", "Unknown character set")
}

/// The client is gone, or sends what it should not.
pub fn lost(session: &Session, broken: &Broken) -> Status {
    session.log(LogLevel::Info, format_args!("the client {broken}"));
    BAD_REQUEST
}

/// An error in the place of a greeting, which has no SQLSTATE.
fn early(error: &ErrPacket) -> Vec<u8> {
    let mut message = error.write();
    message.drain(3..9);
    message
}

/// Greets the client as the primary greets us, and takes its login.
async fn welcome(session: &Session, proxy: &Proxy, client: Client, face: Face) -> Result<Newcomer, Status> {
    let Some(nonce) = nonce() else {
        session.log(LogLevel::Error, format_args!("getrandom() failed"));
        return Err(INTERNAL);
    };
    let wants_tls = client.wants_tls;
    let mut offered = face.capabilities;
    if wants_tls {
        offered = offered | Capabilities::TLS;
    }
    let greeting = greeting(face, offered, nonce);
    let put = wire::put(&client.io, &wire::framed(0, &greeting.write())).await;
    put.map_err(|broken| lost(session, &broken))?;
    let mut newcomer = if wants_tls {
        secure_login(session, proxy, client, nonce).await?
    } else {
        let plain = plain_login(session, proxy, client, nonce).await;
        plain.map_err(|broken| lost(session, &broken))?
    };
    // What was not offered is not agreed on.
    let fixed = &mut newcomer.login.fixed;
    fixed.capabilities = fixed.capabilities & (offered | Capabilities::MYSQL);
    if !is_of_clients(fixed.charset.into()) {
        newcomer.tell(session, &not_of_clients().write()).await?;
        return Err(BAD_REQUEST);
    }
    Ok(newcomer)
}

/// The login of a client that has no TLS.
async fn plain_login(
    session: &Session,
    proxy: &Proxy,
    client: Client,
    nonce: [u8; NONCE_BYTES],
) -> Result<Newcomer, Broken> {
    let stream = Rc::new(brisk_net::Stream::from(client.io));
    let mut wire = Wire::new(stream, proxy, &session.account);
    match First::parse(&wire.message(1, LOGIN_BYTES_MAX).await?)? {
        First::Login(login) => Ok(Newcomer { wire, login: *login, is_secure: false, sequence: 2, nonce }),
        First::TlsRequest(_) => Err(ProtocolError::Unexpected("a request for TLS").into()),
    }
}

/// The login of a client that must have TLS.
async fn secure_login(
    session: &Session,
    proxy: &Proxy,
    client: Client,
    nonce: [u8; NONCE_BYTES],
) -> Result<Newcomer, Status> {
    let first = async {
        let message = wire::first_message(&client.io, 1, LOGIN_BYTES_MAX, &session.account).await?;
        Ok::<First, Broken>(First::parse(&message)?)
    };
    match first.await.map_err(|broken| lost(session, &broken))? {
        First::TlsRequest(_) => {
            let mut wire = Wire::new(handler::begin_tls(session, client).await?, proxy, &session.account);
            let message = wire.message(2, LOGIN_BYTES_MAX).await;
            let message = message.map_err(|broken| lost(session, &broken))?;
            match First::parse(&message) {
                Ok(First::Login(login)) => {
                    Ok(Newcomer { wire, login: *login, is_secure: true, sequence: 3, nonce })
                }
                _ => Err(lost(session, &ProtocolError::Malformed("login").into())),
            }
        }
        First::Login(_) => {
            // Somebody on the way may have taken TLS out of the greeting.
            session.log(
                LogLevel::Info,
                format_args!("the client logs in without TLS, which \"listen\" asks for"),
            );
            let error = ErrPacket::new(3159, b"HY000", "Connections using insecure transport are prohibited");
            let _ = wire::put(&client.io, &wire::framed(2, &error.write())).await;
            Err(BAD_REQUEST)
        }
    }
}

fn greeting(face: Face, offered: Capabilities, nonce: [u8; NONCE_BYTES]) -> Greeting {
    /// Numbers that no server has come to give.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    Greeting {
        version: face.version,
        thread: NEXT.fetch_add(1, Ordering::Relaxed) | 1 << 31,
        nonce,
        capabilities: offered,
        charset: face.charset,
        status: status::AUTOCOMMIT,
        plugin: NATIVE.to_vec(),
    }
}

/// Drawn; of the characters that servers draw, which no client takes for an end.
pub fn nonce() -> Option<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let count = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
    for byte in &mut nonce {
        *byte &= 0x7f;
        if matches!(*byte, 0 | b'$') {
            *byte += 1;
        }
    }
    (count == Ok(NONCE_BYTES)).then_some(nonce)
}

impl Newcomer {
    /// Sends a message of the login.
    pub async fn tell(&mut self, session: &Session, message: &[u8]) -> Result<(), Status> {
        self.send(message).await.map_err(|broken| lost(session, &broken))
    }

    async fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.sequence = self.wire.send_message(self.sequence, message).await?;
        Ok(())
    }

    /// Waits for what the client answers.
    async fn answer(&mut self) -> Result<Vec<u8>, Broken> {
        answer(&mut self.wire, &mut self.sequence).await
    }

    /// Waits for an answer of a plugin that a server may be given.
    pub async fn answer_of(&mut self, session: &Session, plugin: &[u8]) -> Result<Vec<u8>, Status> {
        let answer = self.answer().await.map_err(|broken| lost(session, &broken))?;
        if is_answer(plugin, &answer) {
            return Ok(answer);
        }
        let error = denied(session, &self.login.user, !answer.is_empty());
        self.tell(session, &error.write()).await?;
        Err(BAD_REQUEST)
    }

    async fn prove(&mut self, known: &Known) -> Result<Option<Secret>, Broken> {
        let claim = Claim {
            plugin: &self.login.plugin,
            answer: &self.login.answer,
            capabilities: self.login.fixed.capabilities,
            nonce: &self.nonce,
        };
        claim.prove(known, &mut self.wire, &mut self.sequence).await
    }
}

async fn answer(wire: &mut Wire, sequence: &mut u8) -> Result<Vec<u8>, Broken> {
    let message = wire.message(*sequence, LOGIN_BYTES_MAX).await?;
    *sequence = sequence.wrapping_add(1);
    Ok(message)
}

/// What a client says to prove who it is.
pub struct Claim<'c> {
    /// The plugin that the answer is of; empty: it is not told.
    pub plugin: &'c [u8],
    /// The answer.
    pub answer: &'c [u8],
    /// What the client knows.
    pub capabilities: Capabilities,
    /// What it was given for the answer.
    pub nonce: &'c [u8; NONCE_BYTES],
}

impl Claim<'_> {
    /// What opens servers for this client; `None`: its answer is wrong. `sequence`: the number of the next frame.
    pub async fn prove(
        &self,
        known: &Known,
        wire: &mut Wire,
        sequence: &mut u8,
    ) -> Result<Option<Secret>, Broken> {
        let plugin = if self.plugin.is_empty() { NATIVE } else { self.plugin };
        if let Some(secret) = known.prove(plugin, self.answer, self.nonce) {
            if plugin == CACHING_SHA2 {
                // The short way of this plugin has worked.
                *sequence = wire.send_message(*sequence, &[1, 3]).await?;
            }
            return Ok(Some(secret));
        }
        // An answer of another plugin, or to another nonce, is not known to be wrong: the client is asked for one that can be judged.
        if !self.capabilities.has(Capabilities::PLUGIN_AUTH) {
            return Ok(None);
        }
        let Some(nonce) = nonce() else { return Ok(None) };
        let switch = Switch { plugin: NATIVE.to_vec(), data: [&nonce[..], b"\0"].concat() };
        *sequence = wire.send_message(*sequence, &switch.write()).await?;
        let answer = answer(wire, sequence).await?;
        Ok(known.prove(NATIVE, &answer, &nonce))
    }
}
