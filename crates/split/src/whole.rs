//! A session that is not split, since its account is not known here: the primary judges the client, and then bytes pass. If the client
//! compresses, so does the primary: what they have agreed on is in the login that is passed on. What the client sends is looked at for other
//! accounts only.

use crate::backend::{Greeted, OFFERS_LESS, of_form};
use crate::known::Claimed;
use crate::opening::{Beginning, Newcomer, denied, greet, lost, no_primary};
use crate::split::Split;
use crate::watch::Watch;
use crate::wire::{self, Broken, Wire};
use brisk_balance::Lease;
use brisk_db::{News, ServerId};
use brisk_host::log::LogLevel;
use brisk_host::vars::Context as _;
use brisk_mysql::login::{Login, Switch};
use brisk_mysql::password::NATIVE;
use brisk_mysql::reply::{EOF, ERR, ErrPacket, OK as OK_PACKET};
use brisk_mysql::{Capabilities, ProtocolError};
use brisk_net::timeout;
use brisk_stream::conf::Proxy;
use brisk_stream::{BAD_GATEWAY, BAD_REQUEST, OK, Session, Status, handler};
use std::future::poll_fn;
use std::task::Poll;

/// See the module's head.
pub struct Whole {
    client: Wire,
    server: Wire,
    id: ServerId,
    /// What holds for messages.
    capabilities: Capabilities,
    charset: u16,
    _lease: Option<Lease>,
}

/// Has the primary judge the client: it gets the primary's nonce, and what it answers is passed on. Frames have numbers of their own on
/// each side.
pub async fn open(
    split: &Split,
    session: &Session,
    proxy: &Proxy,
    news: &mut News,
    mut newcomer: Newcomer,
    greeted: Option<Greeted>,
) -> Result<Beginning, Status> {
    if newcomer.is_secure || proxy.tls.is_some() {
        // Plugins tell passwords in clear where they take a connection for one of TLS, and each side would take it for another one.
        let text = "This account is not known to the proxy, and TLS ends there";
        session.log(LogLevel::Error, format_args!("{text}: write it into the file of mysql_accounts"));
        newcomer.tell(session, &ErrPacket::new(1045, b"28000", text).write()).await?;
        return Err(BAD_REQUEST);
    }
    let greeted = match greeted {
        Some(greeted) => Ok(greeted),
        None => greet(split, session, proxy, news).await,
    };
    let greeted = match greeted {
        Ok(greeted) => greeted,
        Err(unready) => {
            let error = no_primary(session, news, &unready);
            newcomer.tell(session, &error.write()).await?;
            return Err(BAD_GATEWAY);
        }
    };
    session.log(LogLevel::Info, format_args!("the client's account is not known: its session is not split"));
    let judged = timeout(proxy.connect_timeout, judge(session, proxy, newcomer, greeted)).await;
    judged.unwrap_or_else(|_| Err(lost(session, &Broken::Silent)))
}

async fn judge(
    session: &Session,
    proxy: &Proxy,
    mut newcomer: Newcomer,
    greeted: Greeted,
) -> Result<Beginning, Status> {
    let refuse = |broken: Broken| {
        session.log(LogLevel::Error, format_args!("the server {broken} while a client was logging in"));
        BAD_GATEWAY
    };
    let login = ask_again(session, &mut newcomer, &greeted).await?;
    let (capabilities, charset) = (login.fixed.capabilities, login.fixed.charset.into());
    let Some(login) = login.write() else {
        return Err(lost(session, &ProtocolError::Malformed("login").into()));
    };
    let id = greeted.id();
    let Some(mut server) = greeted.into_handshake(session, proxy) else { return Err(refuse(Broken::Lost)) };
    server.send(&login).await.map_err(refuse)?;
    loop {
        let message = server.next().await.map_err(refuse)?;
        newcomer.tell(session, &message).await?;
        match message.first() {
            Some(&OK_PACKET) => {
                let client = newcomer.wire;
                let Some((server, lease)) = server.into_parts() else { return Err(refuse(Broken::Lost)) };
                let whole = Whole { client, server, id, capabilities, charset, _lease: lease };
                return Ok(Beginning::Whole(Box::new(whole)));
            }
            Some(&ERR) => return Err(BAD_REQUEST),
            // The short way of caching_sha2_password has worked: its OK packet follows.
            Some(1) if message == [1, 3] => continue,
            Some(&(EOF | 1)) => {}
            _ => return Err(refuse(ProtocolError::Unexpected("a message").into())),
        }
        let answer = newcomer.answer_of(session, server.plugin()).await?;
        server.send(&answer).await.map_err(refuse)?;
    }
}

/// The client's login with an answer to the server's own nonce.
async fn ask_again(session: &Session, newcomer: &mut Newcomer, greeted: &Greeted) -> Result<Login, Status> {
    let greeting = &greeted.greeting;
    let mut login = newcomer.login.clone();
    let wanted = login.fixed.capabilities;
    login.fixed.capabilities = wanted & (greeting.capabilities | Capabilities::MYSQL);
    if wanted.has(Capabilities::COMPRESS) && !login.fixed.capabilities.has(Capabilities::COMPRESS) {
        // It was greeted as the primary before this one greets. The next session is greeted as this one does.
        let text = "The primary has changed, and has no compression: connect again";
        session.log(LogLevel::Info, format_args!("{text}"));
        newcomer.tell(session, &ErrPacket::new(2013, b"HY000", text).write()).await?;
        return Err(BAD_GATEWAY);
    }
    if of_form(login.fixed.capabilities) != of_form(wanted) {
        // What passes has the form that the client was told of, by another primary.
        session.log(LogLevel::Error, format_args!("no primary for the session: {OFFERS_LESS}"));
        let text = "Can't connect to MySQL server: it offers less than the client was told of";
        newcomer.tell(session, &ErrPacket::new(2003, b"HY000", text).write()).await?;
        return Err(BAD_GATEWAY);
    }
    if !login.fixed.capabilities.has(Capabilities::PLUGIN_AUTH) {
        // The only plugin that it can know; and nobody can ask it anew.
        let text = "This account is not known to the proxy, and the client is too old to be passed on";
        newcomer.tell(session, &ErrPacket::new(1045, b"28000", text).write()).await?;
        return Err(BAD_REQUEST);
    }
    let plugin = if greeting.plugin.is_empty() { NATIVE.to_vec() } else { greeting.plugin.clone() };
    let switch = Switch { plugin: plugin.clone(), data: [&greeting.nonce[..], b"\0"].concat() };
    newcomer.tell(session, &switch.write()).await?;
    login.answer = newcomer.answer_of(session, &plugin).await?;
    login.plugin = plugin;
    Ok(login)
}

impl Whole {
    /// Passes on until a side has closed, the server is not the primary any more, or the client wants an account that the primary must not
    /// judge.
    pub async fn relay(self, split: &Split, session: &Session, proxy: &Proxy, news: &mut News) -> Status {
        let id = self.id;
        let (cluster, mut watch) = (news.cluster().clone(), Watch::new(self.capabilities));
        let mut wanted = Vec::new();
        let look = |bytes: &[u8]| {
            watch.look(bytes, |name, charset| {
                name.clone_into(&mut wanted);
                split.known(session, &cluster, name, charset.unwrap_or(self.charset)) == Claimed::Elsewhere
            })
        };
        let unfit = poll_fn(|cx| {
            while news.poll_changed(cx).is_ready() {
                if news.view().primary().map(|server| server.id) != Ok(id) {
                    let text = "the server is lost, or has another role now: the session ends";
                    session.log(LogLevel::Warn, format_args!("{text}"));
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        let (client, server) = (&self.client, &self.server);
        let client = (client.stream(), client.unread());
        let server = (server.stream(), server.unread());
        if !handler::relay(session, proxy, client, server, look, unfit).await {
            return OK;
        }
        let error = denied(session, &wanted, true);
        if !self.capabilities.has(Capabilities::COMPRESS) {
            self.client.send_at_once(&wire::framed(1, &error.write()));
        }
        BAD_REQUEST
    }
}
