//! `mysql_split`, `mysql_accounts`, `mysql_pool`: what a server of `stream` says of sessions whose reads go to replicas. The sessions are
//! `brisk_split`'s.

use super::Conf;
use crate::upstream::Upstream;
use brisk_conf::{Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::service::{Service, Work};
use brisk_split::{Accounts, Split};
use brisk_stream::conf::{Action, Balanced as _, Proxy};
use std::sync::Arc;

/// What is said so far.
#[derive(Clone, Default)]
pub(super) struct Splitting {
    pub is_on: bool,
    /// `mysql_pool`.
    pub pool_max: usize,
    accounts: Option<Arc<Accounts>>,
}

/// `mysql_accounts FILE`.
pub(super) fn accounts(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let text = cx.read_secret(token)?;
    let accounts = Accounts::parse(&text).map_err(|line| {
        Diag::emerg(token.span, format!("no account in line {line} of \"{}\"", token.text()))
            .help("each line is a name and a password with a colon between them: shop:secret")
    })?;
    cx.conf::<Conf>().splitting.accounts = Some(Arc::new(accounts));
    Ok(())
}

/// What a server does with its sessions where `mysql_split` is on.
pub(super) fn action(
    cx: &mut Cx<'_, '_>,
    d: &Directive,
    splitting: Splitting,
    group: Option<&Arc<Upstream>>,
    proxy: &Proxy,
) -> Result<Arc<Action>, Diag> {
    let refused = |why: String, help: &str| {
        let text = format!("\"mysql_split\" {why}");
        Err(Diag::emerg(d.span, text).help(help))
    };
    let Some(group) = group else {
        let help = "pass sessions to an upstream block with mysql_check: proxy_pass db;";
        return refused("has no servers to split sessions between".to_string(), help);
    };
    let name = group.name();
    if !group.is_mysql() {
        let help =
            "only a check knows which server takes the writes: mysql_check user=NAME password_file=FILE;";
        return refused(format!("needs \"mysql_check\" in upstream \"{name}\""), help);
    }
    if group.zone_name().is_none() {
        let help = "sessions outlive a reload, and what is known of the servers must, too: zone db 64k;";
        return refused(format!("needs \"zone\" in upstream \"{name}\""), help);
    }
    if splitting.pool_max > 0 && (proxy.proxy_protocol || proxy.bind.is_some()) {
        let help = "remove mysql_pool: with proxy_protocol or proxy_bind a connection is its client's";
        return refused("cannot keep connections that servers know by their client".to_string(), help);
    }
    if splitting.accounts.is_none() {
        let text = "only sessions are split whose account's password hash can be read from the servers";
        cx.warn(Diag::notice(d.span, text).help(
            "let the account of mysql_check read them (GRANT SELECT ON mysql.user), or name accounts: mysql_accounts FILE;",
        ));
    }
    let accounts = splitting.accounts.as_deref().cloned().unwrap_or_default();
    let split = Arc::new(Split::new(group.clone(), accounts, splitting.pool_max));
    cx.global.services.push(Arc::new(Begins(split.clone())));
    Ok(Arc::new(Action::Serve(split)))
}

/// Says when the configuration is in force that accounts are to be read.
struct Begins(Arc<Split>);

impl Service for Begins {
    fn start(self: Arc<Self>, _: &Work) {
        self.0.begin();
    }
}
