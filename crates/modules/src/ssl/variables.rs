//! The variables. Without TLS, and where there is nothing to show, they are not found.
//!
//! All of them read through accessors that record: an answer that shows one of them is not prepared for others.

// Method paths are not general enough over the certificate's lifetime.
#![allow(clippy::redundant_closure_for_method_calls)]

use brisk_server::request::Request;
use brisk_server::tls::{Facts, Verdict, Verify};
use brisk_server::vars::{Variable, VariableGet};
use brisk_tls::certificate::{self, Certificate};
use brisk_tls::{Session, names};
use std::fmt::Write as _;

type Out = Vec<u8>;

macro_rules! fixed {
    ($name:literal, $get:expr, $doc:literal) => {
        Variable { name: $name, get: VariableGet::Fixed($get), doc: $doc, ..Variable::SILENT }
    };
}

pub static VARIABLES: &[Variable] = &[
    fixed!(
        "ssl_protocol",
        |r, out| of_session(r, out, |s| s.version().into()),
        "The protocol: TLSv1.2 or TLSv1.3."
    ),
    fixed!(
        // OpenSSL's names and not those of the RFCs: logs and conditions were written for them.
        "ssl_cipher",
        |r, out| of_session(r, out, |s| s.cipher().into()),
        "The cipher suite, as OpenSSL calls it."
    ),
    fixed!(
        "ssl_curve",
        |r, out| of_session(r, out, |s| s.group().into()),
        "The group in which keys were exchanged."
    ),
    fixed!(
        "ssl_sigalg",
        |_, _| false,
        "The algorithm that the server has signed the handshake by: not known here, always empty."
    ),
    fixed!(
        "ssl_ciphers",
        |r, out| of_hello(r, out, |hello| names::list(&hello.ciphers, names::cipher)),
        "The cipher suites that the client offers, separated by colons."
    ),
    fixed!(
        "ssl_curves",
        |r, out| of_hello(r, out, |hello| names::list(&hello.groups, names::group)),
        "The groups that the client offers."
    ),
    fixed!(
        "ssl_sigalgs",
        |r, out| of_hello(r, out, |hello| names::list(&hello.schemes, names::scheme)),
        "The signature schemes that the client offers."
    ),
    fixed!(
        "ssl_session_id",
        |_, _| false,
        "The session's number: sessions are found by tickets and have none here, always empty."
    ),
    fixed!(
        "ssl_session_reused",
        |r, out| of_session(r, out, |s| if s.is_resumed() { "r".into() } else { ".".into() }),
        "r if the session was resumed, a dot if not."
    ),
    fixed!(
        // Not constant for a request: once the handshake is complete it cannot be a replay any more.
        "ssl_early_data",
        |r, out| of_session(r, out, |s| if s.is_early() { "1".into() } else { String::new() }),
        "1 while the request may be a replay: it came with the client's first flight and the handshake is not complete."
    ),
    fixed!(
        "ssl_server_name",
        |r, out| facts(r).and_then(|facts| facts.name.as_ref()).is_some_and(|name| put(out, name)),
        "The server name that the client asked for."
    ),
    fixed!(
        "ssl_alpn_protocol",
        |r, out| {
            of_session(r, out, |s| {
                s.alpn().map(|name| String::from_utf8_lossy(name).into_owned()).unwrap_or_default()
            })
        },
        "The protocol chosen by ALPN."
    ),
    fixed!(
        "ssl_ech_status",
        |r, out| r.scheme() == "https" && put(out, "NOT_TRIED"),
        "What has become of Encrypted ClientHello: NOT_TRIED."
    ),
    fixed!("ssl_ech_outer_server_name", |_, _| false, "The outer name of Encrypted ClientHello: empty."),
    fixed!(
        // Kept for old configurations: a field over several lines is refused by most servers today (RFC 9112 §5.2).
        "ssl_client_cert",
        |r, out| of_certificate(r, out, |c| tabbed(&pem(c))),
        "The client's certificate in PEM, every line but the first with a tab before it."
    ),
    fixed!("ssl_client_raw_cert", |r, out| of_certificate(r, out, pem), "The client's certificate in PEM."),
    fixed!(
        "ssl_client_escaped_cert",
        |r, out| of_certificate(r, out, |c| escaped(&pem(c))),
        "The client's certificate in PEM, URL-encoded."
    ),
    fixed!(
        "ssl_client_s_dn",
        |r, out| of_certificate(r, out, |c| certificate::rfc2253(c.subject)),
        "The subject of the client's certificate (RFC 2253)."
    ),
    fixed!(
        "ssl_client_i_dn",
        |r, out| of_certificate(r, out, |c| certificate::rfc2253(c.issuer)),
        "The issuer of the client's certificate (RFC 2253)."
    ),
    fixed!(
        "ssl_client_s_dn_legacy",
        |r, out| of_certificate(r, out, |c| certificate::oneline(c.subject)),
        "The subject as /C=…/CN=…."
    ),
    fixed!(
        "ssl_client_i_dn_legacy",
        |r, out| of_certificate(r, out, |c| certificate::oneline(c.issuer)),
        "The issuer as /C=…/CN=…."
    ),
    fixed!(
        "ssl_client_serial",
        |r, out| of_certificate(r, out, |c| c.serial_text()),
        "The serial number of the client's certificate."
    ),
    fixed!(
        // SHA-1, as in nginx: it names a certificate and proves nothing.
        "ssl_client_fingerprint",
        |r, out| of_certificate(r, out, |c| c.fingerprint()),
        "The SHA-1 fingerprint of the client's certificate."
    ),
    fixed!(
        "ssl_client_verify",
        verify,
        "SUCCESS, FAILED:reason, or NONE if the client has shown no certificate."
    ),
    fixed!(
        "ssl_client_v_start",
        |r, out| of_certificate(r, out, |c| certificate::time_text(c.not_before)),
        "When the client's certificate has become valid."
    ),
    fixed!(
        "ssl_client_v_end",
        |r, out| of_certificate(r, out, |c| certificate::time_text(c.not_after)),
        "Until when the client's certificate is valid."
    ),
    fixed!(
        // Reads the time, so an answer that shows it is not prepared.
        "ssl_client_v_remain",
        |r, out| of_certificate(r, out, |c| ((c.not_after - r.now().unix_secs).max(0) / 86_400).to_string()),
        "Days until the client's certificate is no longer valid."
    ),
    fixed!(
        "ssl_client_sigalg",
        |r, out| of_certificate(r, out, |c| c.signature_name().unwrap_or_default().to_string()),
        "The algorithm that the client's certificate is signed by."
    ),
];

fn put(out: &mut Out, text: &str) -> bool {
    out.extend_from_slice(text.as_bytes());
    // An empty value is none, as in nginx.
    !text.is_empty()
}

fn facts(r: &Request) -> Option<&Facts> {
    r.tls_facts()
}

fn of_session(r: &Request, out: &mut Out, look: impl FnOnce(&Session) -> String) -> bool {
    r.tls_session(look).is_some_and(|value| put(out, &value))
}

fn of_hello(r: &Request, out: &mut Out, look: impl FnOnce(&brisk_tls::Hello) -> String) -> bool {
    facts(r).and_then(|facts| facts.hello.as_ref()).is_some_and(|hello| put(out, &look(hello)))
}

fn of_certificate(r: &Request, out: &mut Out, look: impl FnOnce(&Certificate<'_>) -> String) -> bool {
    // The certificate was asked for by the server that the handshake named. A request for another server of the
    // same connection must not be shown it (RFC 9110 §7.4).
    if !facts(r).is_some_and(|facts| facts.are_of(r)) {
        return false;
    }
    let found = r.tls_session(|session| {
        // Parsed each time it is asked for: few requests show it, and every session would have to hold the result.
        let leaf = session.peer_certificates().first().and_then(|der| Certificate::parse(der).ok());
        leaf.is_some_and(|leaf| put(out, &look(&leaf)))
    });
    found.unwrap_or(false)
}

fn verify(r: &Request, out: &mut Out) -> bool {
    // Without TLS the variable is empty, not NONE: `if ($ssl_client_verify != SUCCESS)` refuses either.
    let Some(facts) = facts(r).filter(|_| r.scheme() == "https") else { return false };
    // A certificate that another server asked for has no verdict by the rules of this one.
    let is_asked = facts.rules.verify != Verify::Off && facts.are_of(r);
    let verdict = if is_asked { r.tls_verdict(facts) } else { &Verdict::None };
    match verdict {
        Verdict::None => put(out, "NONE"),
        Verdict::Bad(refusal) => put(out, &format!("FAILED:{}", refusal.text)),
        // OCSP is asked after the handshake, so its verdict stands beside the one of the chain.
        Verdict::Good => match &*facts.revocation.borrow() {
            Some(why) => put(out, &format!("FAILED:{why}")),
            None => put(out, "SUCCESS"),
        },
    }
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
