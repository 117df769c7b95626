//! `health_check` in `stream`: a connection, or a datagram, and a few bytes in both directions.

use super::dial::{dial, failed};
use super::pace::{Asks, Pace};
use super::round;
use super::talk::{self, Judged, Talk};
use crate::limits::ANSWER_BYTES_MAX;
use crate::ssl::peer::PeerTls;
use crate::upstream::conf::Conf;
use crate::upstream::group::Upstream;
use brisk_balance::{CheckId, Endpoint, PeerInfo};
use brisk_conf::{Diag, Directive, Span};
use brisk_net::connect::{Options, datagrams};
use brisk_net::timeout;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::service::{Service, Work};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// nginx Plus's, where nothing else is to be sent.
const DATAGRAM: &[u8] = b"nginx health check";

/// One `health_check`.
pub struct SessionCheck {
    pace: Pace,
    is_udp: bool,
    talk: Arc<Talk>,
    span: Span,
    /// Set when the server is complete.
    target: OnceLock<Target>,
}

/// Whom a check asks, and by what.
pub struct Target {
    /// The check among those of the group.
    pub id: CheckId,
    /// The group that sessions are passed to.
    pub upstream: Arc<Upstream>,
    /// `proxy_connect_timeout`.
    pub connect_timeout: Duration,
    /// `proxy_ssl`.
    pub tls: Option<Arc<PeerTls>>,
    /// `health_check_timeout`.
    pub timeout: Duration,
}

/// The setter.
pub fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (mut pace, mut is_udp, mut found) = (Pace::default(), false, Arc::default());
    for token in &d.args {
        if pace.parameter(token)? {
            continue;
        }
        match token.str().split_once('=') {
            Some(("match", name)) => found = talk::found(cx, name, token)?,
            None if token.str() == "udp" => is_udp = true,
            _ => return Err(invalid_parameter(token)),
        }
    }
    pace.check(d)?;
    let check = Arc::new(SessionCheck { pace, is_udp, talk: found, span: d.span, target: OnceLock::new() });
    // Pushed before it knows whom to ask: services start when the configuration is in force.
    cx.global.services.push(check.clone());
    cx.conf::<Conf>().session_check = Some(check);
    Ok(())
}

/// Tells the check of a server that is complete whom to ask; nothing without a check.
pub fn complete(
    cx: &Cx<'_, '_>,
    upstream: Option<&Arc<Upstream>>,
    connect_timeout: Duration,
    tls: Option<&Arc<PeerTls>>,
) -> Result<(), Diag> {
    let conf = cx.conf_of::<Conf>();
    let Some(check) = &conf.session_check else { return Ok(()) };
    let Some(upstream) = upstream else {
        return Err(Diag::emerg(check.span, "\"health_check\" has no group of servers to ask").help(
            "write it beside a proxy_pass that names an upstream block or an address without variables",
        ));
    };
    let tls = tls.filter(|_| !check.is_udp).cloned();
    let timeout = conf.session_check_timeout;
    // Before any session: with `mandatory` its servers get none until they were asked.
    check.target.get_or_init(|| {
        let id = upstream.will_be_checked(&check.pace);
        Target { id, upstream: upstream.clone(), connect_timeout, tls, timeout }
    });
    Ok(())
}

impl Service for SessionCheck {
    fn start(self: Arc<Self>, work: &Work) {
        if let Some(target) = self.target.get() {
            let asks = Rc::new(Questions(self.clone()));
            round::start(target.id, &self.pace, &target.upstream, asks, work);
        }
    }
}

struct Questions(Arc<SessionCheck>);

impl Asks for Questions {
    fn ask<'a>(
        &'a self,
        endpoint: Endpoint,
        _: &'a Arc<PeerInfo>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + 'a>> {
        Box::pin(async move {
            let check = &*self.0;
            let Some(target) = check.target.get() else { return Err("it is not known whom to ask".into()) };
            if check.is_udp {
                return ask_by_datagram(&check.talk, target.timeout, &endpoint).await;
            }
            let tls = target.tls.as_ref().map(|tls| tls.alone(&target.upstream.parts.name));
            let io = dial(&endpoint, tls.as_ref(), target.connect_timeout).await?;
            // One limit for the whole exchange: a server that sends byte by byte is not well.
            let asked = timeout(target.timeout, exchange(&check.talk, &io)).await;
            asked.map_err(|_| "the answer timed out".to_string())?
        })
    }
}

async fn exchange(talk: &Talk, io: &brisk_net::Stream) -> Result<(), String> {
    io.write_all(&talk.send).await.map_err(|error| format!("send() failed ({error})"))?;
    let Some(expect) = &talk.expect else { return Ok(()) };
    let (mut answer, mut piece) = (Vec::new(), vec![0; 4096]);
    loop {
        match expect.judge(&answer) {
            Judged::Good => return Ok(()),
            Judged::Open if answer.len() < ANSWER_BYTES_MAX => {}
            Judged::Open | Judged::Bad => return Err("the answer does not match".into()),
        }
        match io.read(&mut piece).await.map_err(|error| format!("recv() failed ({error})"))? {
            0 => return Err("the connection was closed before the answer matched".into()),
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
}

/// Without `expect` a server is well of which the kernel learns nothing else in time: datagrams that nobody takes are refused by ICMP.
async fn ask_by_datagram(talk: &Talk, limit: Duration, endpoint: &Endpoint) -> Result<(), String> {
    let Endpoint::Ip(address) = endpoint else { return Err("UDP is not spoken to unix sockets".into()) };
    let io = datagrams(*address, &Options::default()).map_err(failed)?;
    let send = if talk.send.is_empty() { DATAGRAM } else { &talk.send };
    let refused = |call: &str, error: io::Error| format!("{call}() failed ({})", brisk_conf::os_text(&error));
    io.try_write(send).map_err(|error| refused("send", error))?;
    let answered = async {
        let mut buffer = vec![0; 65_535];
        loop {
            match io.try_read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => io.readable().await,
                Err(error) => return Err(refused("recv", error)),
                Ok(count) => {
                    // A read that is shorter than its room says nothing of the datagrams behind it.
                    io.mark_readable();
                    match talk.expect.as_ref().map(|expect| expect.judge(&buffer[..count])) {
                        None | Some(Judged::Good) => return Ok(()),
                        Some(Judged::Bad | Judged::Open) => return Err("the answer does not match".into()),
                    }
                }
            }
        }
    };
    match timeout(limit, answered).await {
        Ok(done) => done,
        Err(_) if talk.expect.is_none() => Ok(()),
        Err(_) => Err("the answer timed out".into()),
    }
}
