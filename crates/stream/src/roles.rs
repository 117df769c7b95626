//! Sessions with servers that have roles: which of them fit, and whether the one that was chosen still does.

use brisk_db::{Attrs, Cluster, News, NoPrimary, ServerId, Tally};
use brisk_net::timeout;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a session wants of its server, and what it knows of all of them.
pub struct Roles {
    news: News,
    attrs: Attrs,
    peer: Option<ServerId>,
}

/// Why no server fits.
pub enum Unfit {
    NoPrimary(NoPrimary),
    NoServer,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NoPrimary(why) => why.fmt(f),
            Unfit::NoServer => f.write_str("no server fits target_session_attrs"),
        }
    }
}

impl Roles {
    pub fn new(cluster: &Arc<Cluster>, attrs: Attrs) -> Roles {
        Tally::add(&cluster.tally.sessions);
        Tally::add(&cluster.tally.open_sessions);
        Roles { news: cluster.news(), attrs, peer: None }
    }

    /// The servers that fit. At a start the first answers are waited for, at most so long.
    pub async fn fitting(&mut self, limit: Duration) -> Result<Vec<ServerId>, Unfit> {
        let answered = poll_fn(|cx| self.news.poll_asked(cx));
        // What was not answered in time is looked at as it is: nobody fits.
        let _ = timeout(limit, answered).await;
        let fitting = self.news.view().fitting(self.attrs);
        let fitting = match fitting {
            Ok(none) if none.is_empty() => Err(Unfit::NoServer),
            Ok(some) => Ok(some),
            Err(why) => Err(Unfit::NoPrimary(why)),
        };
        if fitting.is_err() {
            Tally::add(&self.news.cluster().tally.failed_sessions);
        }
        fitting
    }

    /// A server could not be connected to: it is looked at sooner than it would be.
    pub fn doubt(&self) {
        self.news.cluster().doubt();
    }

    /// The session has this server.
    pub fn is_given_to(&mut self, peer: ServerId) {
        self.peer = Some(peer);
    }

    /// Ready when the session must leave its server.
    pub fn poll_unfit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(peer) = self.peer else { return Poll::Pending };
        while self.news.poll_changed(cx).is_ready() {
            if !self.news.view().still_fits(self.attrs, peer) {
                self.peer = None;
                Tally::add(&self.news.cluster().tally.moved_sessions);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for Roles {
    fn drop(&mut self) {
        Tally::subtract(&self.news.cluster().tally.open_sessions);
    }
}
