//! What all sessions of a `server` block share: the group, what is known of its servers, and the accounts.

use crate::accounts::Accounts;
use crate::backend::{self, Backend, Greeted, Purpose, Unready};
use crate::known::Claimed;
use crate::opening::{self, Beginning};
use crate::pool::{self, Key};
use crate::serve::Running;
use brisk_balance::{Lease, PeerId};
use brisk_db::{Cluster, News, Tally};
use brisk_host::log::LogLevel;
use brisk_host::vars::Context as _;
use brisk_mysql::Capabilities;
use brisk_mysql::client::Account;
use brisk_mysql::greeting::Greeting;
use brisk_stream::conf::{Balanced, Client, Handler, Proxy};
use brisk_stream::{INTERNAL, Session, Status};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `mysql_split on`.
pub struct Split {
    /// The servers.
    pub(crate) group: Arc<dyn Balanced>,
    /// `mysql_accounts`.
    accounts: Accounts,
    /// `mysql_pool`: connections to a server that a thread keeps for later sessions of an account.
    pub(crate) pool_max: usize,
    /// Of no other one.
    pub(crate) id: u64,
    /// What clients are greeted with: as the last primary that was connected to greets.
    face: Mutex<Option<Face>>,
}

/// What a client is told of the servers before it has logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Face {
    /// As the server writes it.
    pub version: Vec<u8>,
    /// What it offers of what is followed here, and compression.
    pub capabilities: Capabilities,
    /// Its character set.
    pub charset: u8,
}

impl Face {
    pub fn of(greeting: &Greeting) -> Face {
        let kept = Capabilities::FOLLOWED | Capabilities::MYSQL | Capabilities::COMPRESS;
        let capabilities = greeting.capabilities & kept;
        Face { version: greeting.version.clone(), capabilities, charset: greeting.charset }
    }
}

/// Counts a session while it is open.
struct Present(Arc<Cluster>);

impl Drop for Present {
    fn drop(&mut self) {
        Tally::subtract(&self.0.tally.open_sessions);
    }
}

impl Split {
    /// For a group whose servers are asked for their roles.
    ///
    /// `pool_max`: connections to a server that a thread keeps for later sessions of an account.
    pub fn new(group: Arc<dyn Balanced>, accounts: Accounts, pool_max: usize) -> Split {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Split { group, accounts, pool_max, id, face: Mutex::default() }
    }

    /// A connection that another session of the account has left to the server of this place, as of a new session, with its status. Without one
    /// the place is given back; one that fails is none the worse than none, since another one is made then and tells why.
    pub(crate) async fn again(
        &self,
        session: &Session,
        proxy: &Proxy,
        cluster: &Cluster,
        lease: Lease,
        account: &Account,
        purpose: Purpose,
    ) -> Result<(Backend, u16), Lease> {
        if self.pool_max == 0 {
            return Err(lease);
        }
        let Some(parked) = pool::take(&Key::new(self.id, lease.peer.id, account)) else { return Err(lease) };
        let begun = parked.begin(session, proxy, account, purpose, lease).await?;
        Tally::add(&cluster.tally.reused_connections);
        Ok(begun)
    }

    /// Logs in on a new connection.
    pub(crate) async fn log_in(
        &self,
        session: &Session,
        proxy: &Proxy,
        cluster: &Arc<Cluster>,
        greeted: Greeted,
        account: &Account,
    ) -> Result<Backend, Unready> {
        Tally::add(&cluster.tally.made_connections);
        greeted.log_in(session, proxy, self.group.name(), account).await
    }

    /// Keeps a connection of which nothing of its session is left. `is_home`: its default database is that of the
    /// login.
    pub(crate) fn keep(&self, news: &News, backend: Backend, account: &Account, is_home: bool) {
        if self.pool_max == 0 || !backend.can_be_left() {
            return backend.quit();
        }
        let key = Key::new(self.id, backend.id, account);
        pool::put(key, backend.park(is_home), self.pool_max, news.cluster());
    }

    /// Has the servers' own accounts read from now on. They are needed even where a file names some: it need not name all.
    pub fn begin(&self) {
        if let Some(cluster) = self.group.cluster() {
            cluster.want_accounts();
        }
    }

    pub(crate) fn face(&self) -> Option<Face> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known of the account that a client names, in the character set of this collation.
    pub(crate) fn known(&self, session: &Session, cluster: &Cluster, user: &[u8], collation: u16) -> Claimed {
        let servers = cluster.accounts();
        Claimed::of(&self.accounts, &servers, user, collation, session.client.get().ip())
    }

    /// The server that takes writes.
    pub(crate) fn primary(news: &mut News) -> Result<PeerId, Unready> {
        news.view().primary().map(|server| server.id).map_err(|why| Unready::Lost(why.to_string()))
    }

    /// Writes, told of where another server may have to have them.
    pub(crate) fn writes(news: &mut News) -> Purpose {
        Purpose::Writes { told: news.view().servers.len() > 1 }
    }

    /// A place at the server that takes writes.
    pub(crate) fn lease_primary(&self, news: &mut News) -> Result<Lease, Unready> {
        let lease = self.group.group().lease(Split::primary(news)?);
        lease.ok_or_else(|| Unready::Lost("the primary is out of service".to_string()))
    }

    /// Reaches the server that takes writes.
    pub(crate) async fn greet_primary(
        &self,
        session: &Session,
        proxy: &Proxy,
        news: &News,
        lease: Lease,
    ) -> Result<Greeted, Unready> {
        let greeted = backend::greet(session, proxy, lease).await;
        match &greeted {
            Ok(greeted) => {
                let face = Face::of(&greeted.greeting);
                let mut known = self.face.lock().unwrap_or_else(PoisonError::into_inner);
                if known.as_ref() != Some(&face) {
                    *known = Some(face);
                }
            }
            Err(_) => news.cluster().doubt(),
        }
        greeted
    }
}

impl Handler for Split {
    fn serve<'s>(
        &'s self,
        session: &'s Session,
        client: Client,
    ) -> Pin<Box<dyn Future<Output = Status> + 's>> {
        Box::pin(async move {
            let Some(cluster) = self.group.cluster() else {
                session
                    .log(LogLevel::Error, format_args!("the roles of the upstream's servers are not known"));
                return INTERNAL;
            };
            Tally::add(&cluster.tally.sessions);
            Tally::add(&cluster.tally.open_sessions);
            let _present = Present(cluster.clone());
            let server = session.server();
            let mut news = cluster.news();
            match opening::open(self, session, &server.proxy, &mut news, client).await {
                Ok(Beginning::Split(opened)) => {
                    Running::new(self, session, &server.proxy, news, *opened).run().await
                }
                Ok(Beginning::Whole(whole)) => whole.relay(self, session, &server.proxy, &mut news).await,
                Err(status) => status,
            }
        })
    }
}
