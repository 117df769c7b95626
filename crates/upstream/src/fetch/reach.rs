//! Connections to the server that was chosen: those that were kept, and new ones.

use super::{Attempted, Journey, Miss};
use crate::conf::next;
use crate::connect::{self, Dialed, Dialing, NoLink};
use crate::lend;
use crate::link::Link;
use crate::occupancy::{Occupancy, Wait};
use crate::origin::{FailKind, Failed};
use crate::pool::{self, Key};
use crate::protocol::Protocol;
use crate::turn::Turn;
use brisk_net::clock;
use brisk_server::request::Request;
use brisk_server::{dlog, rlog};
use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Why an attempt has no connection.
pub(crate) enum NoConnection {
    Miss(Miss),
    Over(Failed),
}

impl NoConnection {
    /// What it makes of the attempt.
    pub fn of(self, turn: Box<Turn>) -> Attempted {
        match self {
            NoConnection::Miss(miss) => Attempted::Missed(turn, miss),
            NoConnection::Over(failed) => Attempted::Over(failed),
        }
    }
}

/// How far a connection is.
pub(crate) enum Reached {
    Made(Box<Link>, Queued),
    Begun(Dialing, Queued),
    /// There is more to it than connecting: a handshake, or another thread that may have one.
    More,
    Not(NoConnection),
}

/// A new connection's place among those that wait for a process of their server.
#[derive(Default)]
pub(crate) struct Queued {
    occupancy: Option<Arc<Occupancy>>,
    wait: Option<Wait>,
}

impl Queued {
    /// From now on the place is the connection's.
    pub fn join(self, mut link: Box<Link>) -> Box<Link> {
        if let Some(occupancy) = self.occupancy {
            link.occupancy = Some(occupancy);
            link.wait = self.wait;
        }
        link
    }
}

impl<P: Protocol> Journey<P> {
    /// A connection to the chosen server. The error is what has become of the attempt.
    pub(super) async fn link(&self, r: &mut Request, turn: &Turn) -> Result<Box<Link>, NoConnection> {
        let key = self.key(r, turn);
        if let Some(link) = pool::take_if_kept(&key, &turn.keepalive) {
            dlog!(r, "get keepalive peer: using connection");
            return Ok(link);
        }
        if let Some(link) = lend::take(&key, &turn.group, &turn.keepalive).await {
            dlog!(r, "get keepalive peer: using another thread's connection");
            return Ok(link);
        }
        dlog!(r, "connect to {}", self.state.peer());
        let queued = self.queue_up(&key);
        let connecting = connect::connect(self.settings(), key, self.tls.as_ref());
        let watches = self.watches_client();
        let mut connecting = std::pin::pin!(connecting);
        let connected = poll_fn(|cx| {
            if let Poll::Ready(connected) = connecting.as_mut().poll(cx) {
                return Poll::Ready(Some(connected));
            }
            if watches && r.poll_gone(cx).is_ready() { Poll::Ready(None) } else { Poll::Pending }
        });
        match connected.await {
            Some(Ok(link)) => Ok(queued.join(link)),
            Some(Err(why)) => Err(self.refused(r, why)),
            None => Err(gone(r)),
        }
    }

    /// The same as [`Journey::link`], as far as it gets without waiting.
    pub fn reach(&self, r: &Request, turn: &Turn) -> Reached {
        let key = self.key(r, turn);
        if let Some(link) = pool::take_if_kept(&key, &turn.keepalive) {
            dlog!(r, "get keepalive peer: using connection");
            return Reached::Made(link, Queued::default());
        }
        if self.tls.is_some() || lend::may_have(&key, &turn.group, &turn.keepalive) {
            return Reached::More;
        }
        dlog!(r, "connect to {}", self.state.peer());
        let queued = self.queue_up(&key);
        match connect::dial(self.settings(), key) {
            Ok(Dialed::Made(link)) => Reached::Made(link, queued),
            Ok(Dialed::Begun(dialing)) => Reached::Begun(dialing, queued),
            Err(why) => Reached::Not(self.refused(r, why)),
        }
    }

    /// Goes on with what [`Journey::reach`] has begun.
    pub fn poll_dialing(
        &self,
        r: &Request,
        dialing: &mut Dialing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Box<Link>, NoConnection>> {
        match dialing.poll(cx) {
            Poll::Ready(made) => Poll::Ready(made.map_err(|why| self.refused(r, why))),
            Poll::Pending if self.watches_client() && r.poll_gone(cx).is_ready() => Poll::Ready(Err(gone(r))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn queue_up(&self, key: &Key) -> Queued {
        let occupancy = self.engine.protocol.occupies().then(|| Occupancy::of(&key.endpoint));
        let wait = occupancy.as_ref().map(|occupancy| Wait::begin(occupancy, clock::mono_ms()));
        Queued { occupancy, wait }
    }

    /// What it means that there is no connection.
    fn refused(&self, r: &Request, why: NoLink) -> NoConnection {
        let miss =
            |bit, status, kind| NoConnection::Miss(Miss { bit, status, kind, sent: false, reused: false });
        match why {
            NoLink::TimedOut => {
                rlog!(
                    r,
                    Error,
                    "upstream timed out (110: Connection timed out) while connecting to upstream"
                );
                miss(next::TIMEOUT, 504, FailKind::Timeout)
            }
            NoLink::HandshakeTimedOut => {
                rlog!(
                    r,
                    Error,
                    "upstream timed out (110: Connection timed out) while SSL handshaking to upstream"
                );
                miss(next::TIMEOUT, 504, FailKind::Timeout)
            }
            NoLink::Certificate(why) => {
                rlog!(r, Error, "{why} while SSL handshaking to upstream");
                NoConnection::Over(Failed { status: 500, kind: FailKind::Local })
            }
            NoLink::Tls(error) => {
                rlog!(r, Error, "{error} while SSL handshaking to upstream");
                miss(next::ERROR, 502, FailKind::Error)
            }
            NoLink::Failed { error, at_once } => {
                self.log_refusal(r, &error, at_once);
                miss(next::ERROR, 502, FailKind::Error)
            }
        }
    }

    fn log_refusal(&self, r: &Request, error: &brisk_net::connect::ConnectError, at_once: bool) {
        let text = brisk_conf::os_text(&error.error);
        let call = error.call;
        match (call, at_once) {
            ("connect", false) => rlog!(r, Error, "connect() failed ({text}) while connecting to upstream"),
            ("connect", true) => {
                let peer = self.state.peer();
                let refused = [std::io::ErrorKind::ConnectionRefused, std::io::ErrorKind::WouldBlock];
                if refused.contains(&error.error.kind()) {
                    rlog!(r, Error, "connect() to {peer} failed ({text}) while connecting to upstream");
                } else {
                    rlog!(r, Crit, "connect() to {peer} failed ({text}) while connecting to upstream");
                }
            }
            _ => rlog!(r, Crit, "{call}() failed ({text}) while connecting to upstream"),
        }
    }
}

/// The client has gone before there was a connection.
fn gone(r: &Request) -> NoConnection {
    rlog!(
        r,
        Info,
        "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too while connecting to upstream"
    );
    NoConnection::Over(Failed { status: 499, kind: FailKind::Client })
}
