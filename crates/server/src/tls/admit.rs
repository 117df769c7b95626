//! Whether a request may be carried out, by what is known of its client from the handshake.

use super::facts::Facts;
use crate::purity::Dependencies;
use crate::request::Request;
use brisk_host::tls::{Rejected, Verify};
use brisk_http::Method;

/// A request for another host than the handshake was for, where that makes a difference.
pub(crate) fn misdirected(r: &mut Request) -> Result<(), u16> {
    let Some(facts) = r.conn().secure.get() else { return Ok(()) };
    let rules = r.snap().server(r.route.server).tls.as_ref();
    // Where no certificate is asked for, any connection will do: browsers share them among names of one certificate (RFC 9113 §9.1.1).
    if rules.is_none_or(|rules| rules.verify == Verify::Off) {
        return Ok(());
    }
    if facts.accepted.as_ref().is_some_and(|accepted| **accepted != *r.head.host) {
        crate::rlog!(
            r,
            Info,
            "client attempted to request the server name different from the one that was negotiated"
        );
        return Err(421);
    }
    // Without a name, or with one that no server has, the handshake was the default server's: its authorities have
    // nothing to say here.
    if !facts.are_of(r) && !facts.is_refused_anyway(r) {
        crate::rlog!(
            r,
            Info,
            "client attempted to request a server with other rules for client certificates"
        );
        return Err(421);
    }
    Ok(())
}

/// Whether a request has come before the end of the handshake, so that it may be a replay.
pub fn is_early(r: &Request) -> bool {
    r.tls_session(brisk_tls::Session::is_early).unwrap_or(false)
}

/// Whether a request may be carried out as far as TLS is concerned.
pub(crate) fn admit(r: &mut Request) -> Result<(), u16> {
    if r.conn().plain_on_tls.get() {
        crate::rlog!(r, Info, "client sent plain HTTP request to HTTPS port");
        return Err(497);
    }
    // RFC 8470 §5.2: what may be a replay is carried out only if that changes nothing.
    // (A tunnel's first bytes would be carried out, too.)
    let is_safe =
        matches!(r.route.method, Method::Get | Method::Head | Method::Options) && r.head.extended.is_none();
    if !is_safe && is_early(r) {
        crate::rlog!(r, Info, "client sent a request in early data that is not safe to repeat");
        return Err(425);
    }
    let live = r.live.clone();
    let Some(rules) = live.snap.server(r.route.server).tls.as_ref() else { return Ok(()) };
    if rules.verify == Verify::Off {
        return Ok(());
    }
    // The answer is for this client.
    r.depends_on(Dependencies::TLS);
    let conn = r.conn().clone();
    let Some(facts) = conn.secure.get() else { return Ok(()) };
    if let Err(why) = rules.admit(facts.verdict(&conn.io)) {
        crate::rlog!(r, Info, "{why}");
        return Err(if why == Rejected::Missing { 496 } else { 495 });
    }
    // Over QUIC authorities are not asked: a certificate about which nothing is known opens nothing.
    if super::must_ask(&conn) {
        crate::rlog!(r, Info, "client SSL certificate verify error: {}", brisk_host::tls::ocsp::UNANSWERED);
        return Err(495);
    }
    // After the verdict: a certificate that is not trusted is not asked about.
    if let Some(why) = &*facts.revocation.borrow() {
        crate::rlog!(r, Info, "client SSL certificate verify error: {why}");
        return Err(495);
    }
    Ok(())
}

impl Facts {
    /// Whether the request's server would have judged the client's certificate as the handshake's does.
    pub fn are_of(&self, r: &Request) -> bool {
        let own = r.snap().server(r.route.server).tls.as_ref().and_then(|rules| rules.clients);
        // Digests of all that decides (`Rules::clients`), files' contents included: two servers with equal rules may share a connection.
        own == self.rules.clients
    }

    /// Whether the name has led to the request's server, which has no certificate to shake hands with itself, and the
    /// client has shown none although it must: another connection would end the same way, so [`admit`] refuses it as in nginx.
    fn is_refused_anyway(&self, r: &Request) -> bool {
        let rules = r.snap().server(r.route.server).tls.as_ref();
        self.accepted.is_some()
            && (self.server, self.generation) == (r.route.server, r.live.generation)
            && rules.is_some_and(|rules| rules.verify == Verify::On)
            && r.conn()
                .io
                .tls()
                .is_some_and(|tls| tls.session(|session| session.peer_certificates().is_empty()))
    }
}
