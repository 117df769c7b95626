//! The variables. Without TLS, and where there is nothing to show, they are not found.
//!
//! All of them read through accessors that record: an answer that shows one of them is not prepared for others.

// Method paths are not general enough over the certificate's lifetime.
#![allow(clippy::redundant_closure_for_method_calls)]

use brisk_host::vars::{Context, Reads, Variable, VariableGet};
use brisk_server::request::Request;
use brisk_server::tls::{Verdict, Verify};
use brisk_stream::Session as StreamSession;
use brisk_tls::certificate::{self, Certificate};
use brisk_tls::{Hello, Session, names};
use std::fmt::Write as _;
use std::marker::PhantomData;

type Out = Vec<u8>;

/// What the values are of: a request, or a session of `stream`.
trait Handshake {
    /// The session, if the connection is one of TLS.
    fn session<T>(&self, look: impl FnOnce(&Session) -> T) -> Option<T>;

    /// The name that the client asked for.
    fn name(&self) -> Option<&str>;

    /// What the client has offered, where that is kept.
    fn hello(&self) -> Option<&Hello>;

    /// Whether it is one of TLS.
    fn is_secure(&self) -> bool;

    /// Whether the client's certificate was asked for by the rules of the server that this is of. A request for another server of the
    /// same connection must not be shown it (RFC 9110 §7.4).
    fn may_show_certificate(&self) -> bool;

    /// `$ssl_client_verify`, where a certificate was asked for.
    fn verified(&self) -> String;

    /// Unix seconds.
    fn now_secs(&self) -> i64;
}

impl Handshake for Request {
    fn session<T>(&self, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.tls_session(look)
    }

    fn name(&self) -> Option<&str> {
        self.tls_facts()?.name.as_deref()
    }

    fn hello(&self) -> Option<&Hello> {
        self.tls_facts()?.hello.as_deref()
    }

    fn is_secure(&self) -> bool {
        self.tls_facts().is_some() && self.scheme() == "https"
    }

    fn may_show_certificate(&self) -> bool {
        self.tls_facts().is_some_and(|facts| facts.are_of(self))
    }

    fn verified(&self) -> String {
        // A certificate that another server asked for has no verdict by the rules of this one.
        let asked = self.tls_facts().filter(|facts| facts.rules.verify != Verify::Off && facts.are_of(self));
        let Some(facts) = asked else { return text_of(&Verdict::None) };
        match (self.tls_verdict(facts), &*facts.revocation.borrow()) {
            // OCSP is asked after the handshake, so its verdict stands beside the one of the chain.
            (Verdict::Good, Some(why)) => format!("FAILED:{why}"),
            (verdict, _) => text_of(verdict),
        }
    }

    fn now_secs(&self) -> i64 {
        self.now().unix_secs
    }
}

impl Handshake for StreamSession {
    fn session<T>(&self, look: impl FnOnce(&Session) -> T) -> Option<T> {
        self.secure.get()?.session(look)
    }

    fn name(&self) -> Option<&str> {
        self.asked_name.get().map(|name| &**name)
    }

    fn hello(&self) -> Option<&Hello> {
        self.secure.get()?.hello.as_deref()
    }

    fn is_secure(&self) -> bool {
        self.secure.get().is_some()
    }

    fn may_show_certificate(&self) -> bool {
        let own = self.server().tls.as_ref().and_then(|rules| rules.clients);
        self.secure.get().is_some_and(|secure| secure.rules.clients == own)
    }

    fn verified(&self) -> String {
        let asked = self.secure.get().filter(|_| self.may_show_certificate());
        let Some(secure) = asked else { return text_of(&Verdict::None) };
        match (secure.verdict(), secure.revocation.get()) {
            (Verdict::Good, Some(why)) => format!("FAILED:{why}"),
            (verdict, _) => text_of(verdict),
        }
    }

    fn now_secs(&self) -> i64 {
        StreamSession::now_secs(self)
    }
}

fn text_of(verdict: &Verdict) -> String {
    match verdict {
        Verdict::None => "NONE".to_string(),
        Verdict::Good => "SUCCESS".to_string(),
        Verdict::Bad(refusal) => format!("FAILED:{}", refusal.text),
    }
}

/// The rows, of either.
struct Rows<C>(PhantomData<C>);

impl<C: Handshake + Context> Rows<C> {
    const ALL: &'static [Variable<C>] = &[
        Rows::fixed(
            "ssl_protocol",
            |r, out| of_session(r, out, |s| s.version().into()),
            "The protocol: TLSv1.2 or TLSv1.3.",
        ),
        Rows::fixed(
            // OpenSSL's names and not those of the RFCs: logs and conditions were written for them.
            "ssl_cipher",
            |r, out| of_session(r, out, |s| s.cipher().into()),
            "The cipher suite, as OpenSSL calls it.",
        ),
        Rows::fixed(
            "ssl_curve",
            |r, out| of_session(r, out, |s| s.group().into()),
            "The group in which keys were exchanged.",
        ),
        Rows::fixed(
            "ssl_sigalg",
            |_, _| false,
            "The algorithm that the server has signed the handshake by: not known here, always empty.",
        ),
        Rows::fixed(
            "ssl_ciphers",
            |r, out| of_hello(r, out, |hello| names::list(&hello.ciphers, names::cipher)),
            "The cipher suites that the client offers, separated by colons.",
        ),
        Rows::fixed(
            "ssl_curves",
            |r, out| of_hello(r, out, |hello| names::list(&hello.groups, names::group)),
            "The groups that the client offers.",
        ),
        Rows::fixed(
            "ssl_sigalgs",
            |r, out| of_hello(r, out, |hello| names::list(&hello.schemes, names::scheme)),
            "The signature schemes that the client offers.",
        ),
        Rows::fixed(
            "ssl_session_id",
            |_, _| false,
            "The session's number: sessions are found by tickets and have none here, always empty.",
        ),
        Rows::fixed(
            "ssl_session_reused",
            |r, out| of_session(r, out, |s| if s.is_resumed() { "r".into() } else { ".".into() }),
            "r if the session was resumed, a dot if not.",
        ),
        Rows::fixed(
            // Not constant for a request: once the handshake is complete it cannot be a replay any more.
            "ssl_early_data",
            |r, out| of_session(r, out, |s| if s.is_early() { "1".into() } else { String::new() }),
            "1 while the request may be a replay: it came with the client's first flight and the handshake is not complete.",
        ),
        Rows::fixed(
            "ssl_server_name",
            |r, out| r.name().is_some_and(|name| put(out, name)),
            "The server name that the client asked for.",
        ),
        Rows::fixed(
            "ssl_alpn_protocol",
            |r, out| {
                of_session(r, out, |s| {
                    s.alpn().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
                })
            },
            "The protocol chosen by ALPN.",
        ),
        Rows::fixed(
            "ssl_ech_status",
            |r, out| r.is_secure() && put(out, "NOT_TRIED"),
            "What has become of Encrypted ClientHello: NOT_TRIED.",
        ),
        Rows::fixed(
            "ssl_ech_outer_server_name",
            |_, _| false,
            "The outer name of Encrypted ClientHello: empty.",
        ),
        Rows::fixed(
            // Kept for old configurations: a field over several lines is refused by most servers today (RFC 9112 §5.2).
            "ssl_client_cert",
            |r, out| of_certificate(r, out, |c| tabbed(&pem(c))),
            "The client's certificate in PEM, every line but the first with a tab before it.",
        ),
        Rows::fixed(
            "ssl_client_raw_cert",
            |r, out| of_certificate(r, out, pem),
            "The client's certificate in PEM.",
        ),
        Rows::fixed(
            "ssl_client_escaped_cert",
            |r, out| of_certificate(r, out, |c| escaped(&pem(c))),
            "The client's certificate in PEM, URL-encoded.",
        ),
        Rows::fixed(
            "ssl_client_s_dn",
            |r, out| of_certificate(r, out, |c| certificate::rfc2253(c.subject)),
            "The subject of the client's certificate (RFC 2253).",
        ),
        Rows::fixed(
            "ssl_client_i_dn",
            |r, out| of_certificate(r, out, |c| certificate::rfc2253(c.issuer)),
            "The issuer of the client's certificate (RFC 2253).",
        ),
        Rows::fixed(
            "ssl_client_s_dn_legacy",
            |r, out| of_certificate(r, out, |c| certificate::oneline(c.subject)),
            "The subject as /C=…/CN=….",
        ),
        Rows::fixed(
            "ssl_client_i_dn_legacy",
            |r, out| of_certificate(r, out, |c| certificate::oneline(c.issuer)),
            "The issuer as /C=…/CN=….",
        ),
        Rows::fixed(
            "ssl_client_serial",
            |r, out| of_certificate(r, out, |c| c.serial_text()),
            "The serial number of the client's certificate.",
        ),
        Rows::fixed(
            // SHA-1, as in nginx: it names a certificate and proves nothing.
            "ssl_client_fingerprint",
            |r, out| of_certificate(r, out, |c| c.fingerprint()),
            "The SHA-1 fingerprint of the client's certificate.",
        ),
        Rows::fixed(
            "ssl_client_verify",
            verify,
            "SUCCESS, FAILED:reason, or NONE if the client has shown no certificate.",
        ),
        Rows::fixed(
            "ssl_client_v_start",
            |r, out| of_certificate(r, out, |c| certificate::time_text(c.not_before)),
            "When the client's certificate has become valid.",
        ),
        Rows::fixed(
            "ssl_client_v_end",
            |r, out| of_certificate(r, out, |c| certificate::time_text(c.not_after)),
            "Until when the client's certificate is valid.",
        ),
        Rows::fixed(
            // Reads the time, so an answer that shows it is not prepared.
            "ssl_client_v_remain",
            |r, out| of_certificate(r, out, |c| ((c.not_after - r.now_secs()).max(0) / 86_400).to_string()),
            "Days until the client's certificate is no longer valid.",
        ),
        Rows::fixed(
            "ssl_client_sigalg",
            |r, out| of_certificate(r, out, |c| c.signature_name().unwrap_or_default().to_string()),
            "The algorithm that the client's certificate is signed by.",
        ),
    ];

    const fn fixed(name: &'static str, get: fn(&C, &mut Out) -> bool, doc: &'static str) -> Variable<C> {
        Variable { name, get: VariableGet::Fixed(get), set: None, reads: Reads::Anything, doc }
    }
}

pub static VARIABLES: &[Variable<Request>] = Rows::<Request>::ALL;

/// The same of sessions of `stream`.
pub static SESSION_VARIABLES: &[Variable<StreamSession>] = Rows::<StreamSession>::ALL;

/// The value of one of them; empty if there is none.
pub fn shown(r: &Request, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(VariableGet::Fixed(get)) = VARIABLES.iter().find(|row| row.name == name).map(|row| &row.get) {
        get(r, &mut out);
    }
    out
}

/// What the client's certificate says; empty if it has shown none.
pub fn of_client(r: &Request, look: impl FnOnce(&Certificate<'_>) -> String) -> Vec<u8> {
    let mut out = Vec::new();
    of_certificate(r, &mut out, look);
    out
}

fn put(out: &mut Out, text: &str) -> bool {
    out.extend_from_slice(text.as_bytes());
    // An empty value is none, as in nginx.
    !text.is_empty()
}

fn of_session(of: &impl Handshake, out: &mut Out, look: impl FnOnce(&Session) -> String) -> bool {
    of.session(look).is_some_and(|value| put(out, &value))
}

fn of_hello(of: &impl Handshake, out: &mut Out, look: impl FnOnce(&Hello) -> String) -> bool {
    of.hello().is_some_and(|hello| put(out, &look(hello)))
}

fn of_certificate(of: &impl Handshake, out: &mut Out, look: impl FnOnce(&Certificate<'_>) -> String) -> bool {
    if !of.may_show_certificate() {
        return false;
    }
    let found = of.session(|session| {
        // Parsed each time it is asked for: few requests show it, and every session would have to hold the result.
        let leaf = session.peer_certificates().first().and_then(|der| Certificate::parse(der).ok());
        leaf.is_some_and(|leaf| put(out, &look(&leaf)))
    });
    found.unwrap_or(false)
}

fn verify(of: &impl Handshake, out: &mut Out) -> bool {
    // Without TLS the variable is empty, not NONE: `if ($ssl_client_verify != SUCCESS)` refuses either.
    of.is_secure() && put(out, &of.verified())
}

/// Without its last newline.
fn pem(certificate: &Certificate<'_>) -> String {
    let mut text = brisk_tls::pem_encode("CERTIFICATE", certificate.der);
    text.pop();
    text
}

/// A header that is continued over lines (obsolete since RFC 7230).
fn tabbed(pem: &str) -> String {
    pem.replace('\n', "\n\t")
}

fn escaped(pem: &str) -> String {
    let mut text = String::with_capacity(pem.len() * 2);
    for byte in pem.bytes() {
        match byte {
            // The unreserved characters of RFC 3986 §2.3: everything else would mean something in the URL or
            // header it is put into.
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte));
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}
