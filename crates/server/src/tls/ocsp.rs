//! Asking about clients' certificates before their first requests, and where HTTP's responders are looked up.

use crate::connection::Connection;
use crate::core::http_conf::CoreConf;
use crate::live::Live;
use brisk_host::log::LogLevel;
use brisk_host::tls::Verdict;
use brisk_host::tls::ocsp::{Names, UNANSWERED, revocation};

/// By whom a location's responders are found.
pub(super) fn names(core: &CoreConf) -> Names {
    Names { resolver: core.resolver.clone(), timeout: core.resolver_timeout }
}

/// Whether the authorities have to be asked about this client, before its first request.
pub(crate) fn must_ask(conn: &Connection) -> bool {
    let Some(facts) = conn.secure.get() else { return false };
    facts.rules.ocsp.is_some() && !facts.is_asked.get() && *facts.verdict(&conn.io) == Verdict::Good
}

/// Asks; what is wrong stands in the facts then.
pub(crate) async fn ask_about_client(live: &Live, conn: &Connection) {
    let Some((facts, tls)) = conn.secure.get().zip(conn.io.tls()) else { return };
    // Set first: a connection is asked about once, whatever comes of it.
    facts.is_asked.set(true);
    let root = live.snap.servers.get(facts.server.0 as usize).map(|server| server.root);
    // A reload in between has given the server's number to another one: refused, since it is not known by which rules
    // to ask.
    let Some(root) = root.filter(|_| facts.generation == live.generation) else {
        *facts.revocation.borrow_mut() = Some(UNANSWERED.to_string());
        return;
    };
    let names = names(&live.snap.location(root).core);
    let log = |text: std::fmt::Arguments<'_>| crate::log::connection(live, conn, LogLevel::Error, text);
    if let Some(why) = revocation(&facts.rules, tls, &names, log).await {
        *facts.revocation.borrow_mut() = Some(why.to_string());
    }
}
