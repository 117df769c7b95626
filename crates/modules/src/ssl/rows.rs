//! The directives.
//!
//! Setters only record what is written, and warn of what has no effect. Whether the settings of a block go
//! together is asked in `build`, when the block is complete: directives may stand in any order.

use super::conf::{Cache, Conf, Ocsp, Protocols};
use crate::limits::CACHE_BYTES_MIN;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Span, Token, value};
use brisk_server::conf::{Cx, LogTarget, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::module::Row;
use brisk_server::tls::Cache as CertificateCache;
use brisk_server::tls::{Answers, SharedSessions, Verify};
use brisk_server::zone::Zone;

use brisk_tls::{Groups, ListError, SessionCache, Suites, Versions, names};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

// Not in `location`: a handshake is over before a request, and thereby a location, is known.
const HS: Context = Context::HTTP.or(Context::SERVER);
/// Those that end TLS in `stream`, too.
const TLS: Context = HS.or(crate::stream::part::BLOCKS);

/// Sessions of `builtin` without a number: OpenSSL's default.
/// SSL_SESSION_CACHE_MAX_SIZE_DEFAULT, which nginx leaves as it is for a plain `builtin`.
const BUILTIN_SESSIONS: usize = 20_480;

/// The words of `ssl_verify_client`.
const VERIFY: [(&str, Verify); 4] = [
    ("off", Verify::Off),
    ("on", Verify::On),
    ("optional", Verify::Optional),
    ("optional_no_ca", Verify::OptionalNoCa),
];

/// The words of `ssl_ocsp`.
const OCSP: [(&str, Ocsp); 3] = [("off", Ocsp::Off), ("on", Ocsp::On), ("leaf", Ocsp::Leaf)];

pub static ROWS: &[Row] = &[
    // Several, since a client may be able to use only one kind: the session chooses by the schemes that the client offers.
    directive("ssl_certificate")
        .doc("A PEM file: the server's certificate, then those that lead to its authority. Several, for RSA and ECDSA, may be named. With variables in the path it is read during the handshake. A file that is replaced is taken up without a reload.")
        .in_(TLS)
        .takes("FILE | data:PEM")
        .many()
        .risk(Risk::Security)
        .example("ssl_certificate /etc/brisk/example.com.pem;")
        .set(|cx, d| {
            let first = cx.first;
            push(&mut cx.conf::<Conf>().certificates, first, d)
        }),
    directive("ssl_certificate_key")
        .doc("The PEM file of the certificate's private key, one for each ssl_certificate and in their order. It need be readable for the master process only, also with variables in the path.")
        .in_(TLS)
        .takes("FILE | data:PEM")
        .many()
        .risk(Risk::Security)
        .example("ssl_certificate_key /etc/brisk/example.com.key;")
        .set(|cx, d| {
            let first = cx.first;
            push(&mut cx.conf::<Conf>().keys, first, d)
        }),
    // For Apache's files, which name it by itself.
    directive("ssl_certificate_chain")
        .doc("A PEM file of the certificates that lead to the authority, for those of ssl_certificate whose own file holds none. It is read with the configuration.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_certificate_chain /etc/brisk/intermediate.pem;")
        .set(|cx, d| {
            cx.conf::<Conf>().chain = some(d);
            Ok(())
        }),
    // Off by default: without it a changed file counts at once, and each handshake reads a disk.
    directive("ssl_certificate_cache")
        .doc("Keeps certificates and keys whose paths have variables: max=N, inactive=time (10s), valid=time (60s).")
        .in_(TLS)
        .arity(Arity::between(1, 3))
        .takes("off | max=NUMBER [inactive=TIME] [valid=TIME]")
        .default("off")
        .risk(Risk::Resource)
        .example("ssl_certificate_cache max=1000 inactive=20s valid=1m;")
        .set(|cx, d| {
            cx.conf::<Conf>().certificate_cache = certificate_cache(d)?.map(Arc::new);
            Ok(())
        }),
    // Read with the configuration, by the master; workers get the passwords with it, not the file.
    directive("ssl_password_file")
        .doc("A file of passwords for private keys, one in a line; all are tried. Keys may be encrypted by AES with PBES2 or in OpenSSL's old way.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_password_file /etc/brisk/passwords;")
        .set(|cx, d| {
            let passwords = brisk_tls::passwords(&cx.read_file(d.arg(0))?);
            cx.conf::<Conf>().passwords = Arc::new(passwords);
            Ok(())
        }),
    // Off, as in nginx. What is compressed is public, so nothing can be guessed from its length.
    directive("ssl_certificate_compression")
        .doc("Certificates are sent compressed to clients that understand it (RFC 8879), by brotli or zlib.")
        .in_(TLS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_certificate_compression on;")
        .sets(|cx, on| cx.conf::<Conf>().compression = on),
    // A switch, since these records are the one part of TLS that is not the library's.
    directive("ssl_own_records")
        .doc("Connections that were sent 128 KiB in pieces of 8 KiB or more go on with records that Brisk seals itself, which takes a quarter less time. Off: all records are the TLS library's.")
        .in_(TLS)
        .takes_flag()
        .default("on")
        .risk(Risk::Security)
        .example("ssl_own_records off;")
        .sets(|cx, on| cx.conf::<Conf>().own_records = on),
    directive("ssl_dhparam")
        .doc("Parameters of Diffie-Hellman ciphers. Those are not offered, so the file is not read.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Safe)
        .example("ssl_dhparam /etc/brisk/dhparam.pem;")
        .set(|cx, d| {
            // A warning only: configurations that were hardened for older OpenSSL name such a file, and lose
            // nothing without it.
            let text = "the \"ssl_dhparam\" directive has no effect here: ciphers with finite-field Diffie-Hellman are not offered";
            cx.warn(Diag::warn(d.span, text).help("remove it; elliptic curves are used, see ssl_ecdh_curve"));
            Ok(())
        }),
    // A hybrid of ML-KEM comes first: what is recorded today could be read by a quantum computer later, and X25519 is in it, too.
    directive("ssl_ecdh_curve")
        .doc("Groups for the exchange of keys, in the order of preference, separated by colons. auto is X25519MLKEM768:X25519:prime256v1:secp384r1.")
        .in_(TLS)
        .takes("CURVE[:CURVE...] | auto")
        .default("auto")
        .risk(Risk::Security)
        .example("ssl_ecdh_curve X25519:prime256v1;")
        .set(|cx, d| {
            let groups = groups(cx, d, d.arg(0).str())?;
            cx.conf::<Conf>().groups = groups;
            Ok(())
        }),
    // RFC 8996 forbids TLS 1.0 and 1.1. A warning and no error: old configurations name them beside the newer ones.
    directive("ssl_protocols")
        .doc("Versions of the protocol. Older ones than TLSv1.2 are insecure and not offered; naming them is a warning.")
        .in_(TLS)
        .arity(Arity::SOME)
        .takes("TLSv1.2 | TLSv1.3 ...")
        .default("TLSv1.2 TLSv1.3")
        .many()
        .risk(Risk::Security)
        .example("ssl_protocols TLSv1.3;")
        .set(|cx, d| {
            let before = cx.conf::<Conf>().versions;
            cx.conf::<Conf>().versions = protocols(cx, d, before)?;
            Ok(())
        }),
    // Of TLS 1.2 only: those of 1.3 are set by `ssl_conf_command Ciphersuites`, as with OpenSSL.
    directive("ssl_ciphers")
        .doc("Cipher suites of TLSv1.2 as an OpenSSL list. Suites with forward secrecy and authenticated encryption are offered; naming others is a warning, a list without any of them an error.")
        .in_(TLS)
        .takes("CIPHERS")
        .default("HIGH:!aNULL:!MD5")
        .risk(Risk::Security)
        .example("ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;")
        .set(|cx, d| {
            let suites = suites(cx, d)?;
            cx.conf::<Conf>().suites = suites;
            Ok(())
        }),
    // 16k is the most that a record may hold (RFC 8446 §5.1); a client can decrypt nothing before it has a whole one.
    directive("ssl_buffer_size")
        .doc("Plaintext of one record, at most. Small ones reach the client sooner on slow networks and cost more.")
        .in_(TLS)
        .takes_size()
        .default("16k")
        .risk(Risk::Safe)
        .example("ssl_buffer_size 4k;")
        .sets(|cx, bytes| cx.conf::<Conf>().buffer_bytes = bytes),
    // `optional_no_ca` is for back ends that judge the certificate by themselves.
    directive("ssl_verify_client")
        .doc("Whether clients must show a certificate: on, off, optional, or optional_no_ca, which lets certificates of unknown authorities pass.")
        .in_(TLS)
        .takes_one_of(&VERIFY)
        .default("off")
        .risk(Risk::Security)
        .example("ssl_verify_client off;")
        .set(|cx, d| {
            cx.conf::<Conf>().verify = value::choice(d.arg(0), &VERIFY)?;
            Ok(())
        }),
    // 1, as in nginx: one authority between the client's certificate and the trusted one.
    directive("ssl_verify_depth")
        .doc("Intermediate certificates in a client's chain, at most.")
        .in_(TLS)
        .takes_number()
        .unit("certificates")
        .default("1")
        .risk(Risk::Security)
        .example("ssl_verify_depth 2;")
        .sets(|cx, count| cx.conf::<Conf>().depth = count),
    directive("ssl_client_certificate")
        .doc("A PEM file of authorities by which clients' certificates are verified; clients are told their names.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_client_certificate /etc/brisk/clients-ca.pem;")
        .set(|cx, d| {
            cx.conf::<Conf>().client_certificate = some(d);
            Ok(())
        }),
    // Not told to clients, so a long list costs handshakes no bytes.
    directive("ssl_trusted_certificate")
        .doc("As ssl_client_certificate, without telling clients; also for the verification of OCSP responses.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_trusted_certificate /etc/brisk/chain.pem;")
        .set(|cx, d| {
            cx.conf::<Conf>().trusted = some(d);
            Ok(())
        }),
    // Every authority needs its list, or its certificates are refused: no list is no proof that nothing was revoked.
    directive("ssl_crl")
        .doc("A PEM file of revocation lists. Every authority of a client's chain needs one in it.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_crl /etc/brisk/revoked.pem;")
        .set(|cx, d| {
            cx.conf::<Conf>().crl = some(d);
            Ok(())
        }),
    // Off: all suites that are offered are good, and a client knows best which its hardware is fast at.
    directive("ssl_prefer_server_ciphers")
        .doc("The server's order of ciphers counts, not the client's.")
        .in_(TLS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_prefer_server_ciphers on;")
        .sets(|cx, on| cx.conf::<Conf>().prefer_server = on),
    // `none`, nginx's default, tells clients that sessions may be resumed and keeps none; `off` does not even say so.
    directive("ssl_session_cache")
        .doc("Where sessions are kept that clients may resume without a ticket: off, none, builtin[:sessions], shared:name:size. All caches are shared by all threads.")
        .in_(TLS)
        .arity(Arity::between(1, 2))
        .takes("off | none | builtin[:NUMBER] | shared:NAME:SIZE ...")
        .default("none")
        .many()
        .risk(Risk::Resource)
        .example("ssl_session_cache shared:sessions:10m;")
        .set(session_cache),
    // Without own files the keys are random and change, so a stolen key opens only what was recorded shortly before.
    directive("ssl_session_tickets")
        .doc("Sessions may be resumed by tickets that the client keeps.")
        .in_(TLS)
        .takes_flag()
        .default("on")
        .risk(Risk::Security)
        .example("ssl_session_tickets off;")
        .sets(|cx, on| cx.conf::<Conf>().tickets = on),
    // For several machines behind one address: each must open what another one has sealed.
    directive("ssl_session_ticket_key")
        .doc("A file of 48 or 80 random bytes that tickets are sealed with; the first one seals, all open. Without it keys are random and change by themselves.")
        .in_(TLS)
        .takes("FILE")
        .many()
        .risk(Risk::Security)
        .example("ssl_session_ticket_key /etc/brisk/ticket.key;")
        .set(|cx, d| {
            let first = cx.first;
            push(&mut cx.conf::<Conf>().ticket_keys, first, d)
        }),
    // Also the lifetime of tickets, and so of their keys: a resumed session proves the client's certificate of so long ago.
    directive("ssl_session_timeout")
        .doc("How long a session may be resumed.")
        .in_(TLS)
        .takes_seconds()
        .default("5m")
        .risk(Risk::Security)
        .example("ssl_session_timeout 1h;")
        .sets(|cx, secs| cx.conf::<Conf>().session_secs = secs),
    // Off: early data can be replayed (RFC 8446 §8), which only the application can judge.
    directive("ssl_early_data")
        .doc("Requests in the first flight of a resumed TLSv1.3 session are answered. They may be replayed by others within the session's time on another server: only GET, HEAD and OPTIONS are carried out, others get 425, and proxied requests carry Early-Data: 1. Sessions are then kept in a cache, each for one use, not in tickets.")
        .in_(HS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_early_data on;")
        .sets(|cx, on| cx.conf::<Conf>().early_data = on),
    // Collected as written and carried out when the block is complete (`command.rs`), so that they win over the directives, as in nginx.
    directive("ssl_conf_command")
        .doc("A command of OpenSSL's configuration: Options, Protocol, MinProtocol, MaxProtocol, CipherString, Ciphersuites, Groups, Curves, SignatureAlgorithms, Certificate, PrivateKey.")
        .in_(TLS)
        .arity(Arity::TWO)
        .takes("NAME VALUE")
        .many()
        .risk(Risk::Security)
        .example("ssl_conf_command MinProtocol TLSv1.3;")
        .set(|cx, d| {
            let first = cx.first;
            let commands = &mut cx.conf::<Conf>().commands;
            if first {
                commands.clear();
            }
            commands.push((d.arg(0).clone(), d.arg(1).clone()));
            Ok(())
        }),
    // For the default server: names that no server names get no certificate that tells whose machine this is.
    directive("ssl_reject_handshake")
        .doc("Handshakes that lead to this server are refused with the alert unrecognized_name.")
        .in_(TLS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_reject_handshake on;")
        .sets(|cx, on| cx.conf::<Conf>().reject = on),
    // HTTP has its own list: what it speaks.
    directive("ssl_alpn")
        .doc("Protocols that are offered to clients by ALPN, the best first. A client that names others only is refused.")
        .in_(crate::stream::part::BLOCKS)
        .arity(Arity::SOME)
        .takes("PROTOCOL ...")
        .default_told("no ALPN")
        .risk(Risk::Security)
        .example("ssl_alpn h2 http/1.1;")
        .set(alpn),
    directive("ssl_handshake_timeout")
        .doc("How long a handshake may take; 60s in stream. nginx has it for stream only.")
        .in_(TLS)
        .takes_time()
        .default_told("client_header_timeout")
        .risk(Risk::Security)
        .example("ssl_handshake_timeout 10s;")
        .sets(|cx, time| cx.conf::<Conf>().handshake_timeout = Some(time)),
    directive("ssl_key_log")
        .doc("A file that the keys of all sessions are written to, in the format SSLKEYLOGFILE: for debugging, whoever reads it reads everything.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_key_log /tmp/keys.log;")
        .set(|cx, d| {
            let path = cx.full_path(d.arg(0).str());
            let target = LogTarget::File(path);
            // Opened with the logs, before the process gives up root; lines are written by the thread that has
            // the session.
            cx.global.log(target.clone(), Some(d.span));
            cx.conf::<Conf>().key_log = Some(target);
            Ok(())
        }),
    directive("ssl_ech_file")
        .doc("A key for Encrypted ClientHello: not supported.")
        .in_(TLS)
        .takes("FILE")
        .many()
        .risk(Risk::Security)
        .example("ssl_ech_file /etc/brisk/ech.pem;")
        .set(|_, d| {
            // An error, unlike what merely has no effect: who asks for it relies on the name being hidden.
            Err(Diag::emerg(d.span, "the \"ssl_ech_file\" directive is not supported")
                .help("the TLS library has no Encrypted ClientHello for servers; remove the directive"))
        }),
    // Off: it needs a way out of the machine, and an authority that still answers.
    directive("ssl_stapling")
        .doc("OCSP responses are fetched from the certificate's authority and sent with the certificate.")
        .in_(TLS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_stapling on;")
        .sets(|cx, on| cx.conf::<Conf>().stapling = on),
    // For machines without a way out. A reload reads it again; its validity is the administrator's care.
    directive("ssl_stapling_file")
        .doc("A file with an OCSP response (DER) to send, in place of asking the authority.")
        .in_(TLS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("ssl_stapling_file /etc/brisk/ocsp.der;")
        .set(|cx, d| {
            cx.conf::<Conf>().stapling_file = some(d);
            Ok(())
        }),
    directive("ssl_stapling_responder")
        .doc("Whom to ask in place of the responder that the certificate names: http://host[:port][/path].")
        .in_(TLS)
        .takes("URL")
        .risk(Risk::Security)
        .example("ssl_stapling_responder http://ocsp.example.com/;")
        .set(|cx, d| {
            cx.conf::<Conf>().stapling_responder = Some(responder(d)?);
            Ok(())
        }),
    // Off: clients verify the response by themselves.
    directive("ssl_stapling_verify")
        .doc("OCSP responses are sent only if ssl_trusted_certificate verifies them.")
        .in_(TLS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("ssl_stapling_verify on;")
        .sets(|cx, on| cx.conf::<Conf>().stapling_verify = on),
    directive("ssl_ocsp")
        .doc("Whether the authorities are asked about clients' certificates: off, on for the whole chain, leaf for the client's own.")
        .in_(TLS)
        .takes_one_of(&OCSP)
        .default("off")
        .risk(Risk::Security)
        .example("ssl_ocsp off;")
        .set(|cx, d| {
            cx.conf::<Conf>().ocsp = value::choice(d.arg(0), &OCSP)?;
            Ok(())
        }),
    directive("ssl_ocsp_responder")
        .doc("Whom to ask about clients' certificates in place of the responder that they name.")
        .in_(TLS)
        .takes("URL")
        .risk(Risk::Security)
        .example("ssl_ocsp_responder http://ocsp.example.com/;")
        .set(|cx, d| {
            cx.conf::<Conf>().ocsp_responder = Some(responder(d)?);
            Ok(())
        }),
    directive("ssl_ocsp_cache")
        .doc("Where answers about clients' certificates are kept: off, or shared:name:size.")
        .in_(TLS)
        .takes("off | shared:NAME:SIZE")
        .default("off")
        .risk(Risk::Resource)
        .example("ssl_ocsp_cache shared:ocsp:1m;")
        .set(|cx, d| {
            let token = d.arg(0);
            let zone = if token.str() == "off" { None } else { Some(zone(cx, token, "OCSP")?) };
            cx.conf::<Conf>().ocsp_cache = zone;
            Ok(())
        }),
];

/// `ssl_alpn`.
fn alpn(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // One byte tells the length of a name (RFC 7301 §3.1).
    if let Some(token) = d.args.iter().find(|token| !(1..=255).contains(&token.bytes().len())) {
        return Err(Diag::emerg(token.span, format!("invalid ALPN protocol \"{}\"", token.text()))
            .help("a protocol's name has 1 to 255 bytes"));
    }
    cx.conf::<Conf>().alpn = d.args.iter().map(|token| token.bytes().to_vec()).collect();
    Ok(())
}

fn push(list: &mut Vec<Token>, first: bool, d: &Directive) -> Result<(), Diag> {
    if first {
        list.clear();
    }
    list.push(d.arg(0).clone());
    Ok(())
}

/// An empty parameter takes an inherited one away.
fn some(d: &Directive) -> Option<Token> {
    (!d.arg(0).bytes().is_empty()).then(|| d.arg(0).clone())
}

fn responder(d: &Directive) -> Result<Token, Diag> {
    let token = d.arg(0);
    if token.str().starts_with("http://") {
        return Ok(token.clone());
    }
    Err(Diag::emerg(token.span, format!("invalid URL prefix in OCSP responder \"{}\"", token.text()))
        .help("write http://HOST[:PORT][/PATH]"))
}

/// Names the versions, beside those `before` in the same block, and warns of those that are not offered.
pub fn protocols(cx: &mut Cx<'_, '_>, d: &Directive, before: Protocols) -> Result<Protocols, Diag> {
    const TLS12: u32 = 1;
    const TLS13: u32 = 2;
    let words = [
        ("SSLv2", 1 << 2),
        ("SSLv3", 1 << 3),
        ("TLSv1", 1 << 4),
        ("TLSv1.1", 1 << 5),
        ("TLSv1.2", TLS12),
        ("TLSv1.3", TLS13),
    ];
    let set = cx.bits(d, &words, before.named)?;
    for token in &d.args {
        if value::choice(token, &words)? & (TLS12 | TLS13) == 0 {
            let text = format!("{} is insecure and not offered", token.text());
            cx.warn(Diag::warn(token.span, text).help("write TLSv1.2 TLSv1.3"));
        }
    }
    let versions = Versions { tls12: set & TLS12 != 0, tls13: set & TLS13 != 0 };
    Ok(Protocols { versions, named: set, span: Some(d.span) })
}

/// The suites of a list, and a warning of those that are not offered.
pub fn suites(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Suites, Diag> {
    let mut suites = Suites::default();
    let missing = suites.set_list(d.arg(0).str()).map_err(|error| no_cipher(d, &error))?;
    warn_missing(cx, d.span, "cipher", &missing);
    Ok(suites)
}

fn no_cipher(d: &Directive, error: &ListError) -> Diag {
    let why = match error {
        ListError::Command => "0A000118:SSL routines::invalid command",
        _ => "0A0000B9:SSL routines::no cipher match",
    };
    let list = d.arg(d.args.len() - 1).text();
    let text = format!("SSL_CTX_set_cipher_list(\"{list}\") failed (SSL: error:{why})");
    Diag::emerg(d.span, text)
        .help("offered are ECDHE-ECDSA and ECDHE-RSA with AES256-GCM-SHA384, AES128-GCM-SHA256 and CHACHA20-POLY1305")
}

pub(super) fn warn_missing(cx: &mut Cx<'_, '_>, span: Span, what: &str, missing: &[String]) {
    if !missing.is_empty() {
        let text = format!("{what} {} cannot be offered", missing.join(", "));
        cx.warn(Diag::warn(span, text).help("what else is in the list is offered"));
    }
}

/// The groups of a list, and a warning of those that are not offered.
pub fn groups(cx: &mut Cx<'_, '_>, d: &Directive, list: &str) -> Result<Groups, Diag> {
    match Groups::from_list(list) {
        Ok((groups, missing)) => {
            warn_groups(cx, d.span, missing);
            Ok(groups)
        }
        Err(_) => Err(Diag::emerg(d.span, format!("SSL_CTX_set1_curves_list(\"{list}\") failed")).help(
            "offered are X25519MLKEM768, SecP256r1MLKEM768, X25519, prime256v1, secp384r1, MLKEM768 and MLKEM1024",
        )),
    }
}

/// Groups that nobody knows may be those of another version of OpenSSL.
pub(super) fn warn_groups(cx: &mut Cx<'_, '_>, span: Span, missing: Vec<String>) {
    let (unknown, missing): (Vec<String>, Vec<String>) =
        missing.into_iter().partition(|name| names::group_number(name).is_none());
    warn_missing(cx, span, "group", &missing);
    if !unknown.is_empty() {
        let text = format!("unknown group \"{}\"", unknown.join("\", \""));
        cx.warn(Diag::warn(span, text).help("what else is in the list is offered"));
    }
}

/// `*_ssl_certificate_cache`; `None`: off.
pub(super) fn certificate_cache(d: &Directive) -> Result<Option<CertificateCache>, Diag> {
    let (mut max, mut inactive, mut valid, mut off) = (0, 10, 60, false);
    for token in &d.args {
        let bad = || invalid_parameter(token);
        let time = |text: &str| value::parse_time(text.as_bytes(), true).ok_or_else(bad);
        match token.str().split_once('=') {
            Some(("max", n)) => max = n.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(bad)?,
            Some(("inactive", text)) => inactive = time(text)?,
            Some(("valid", text)) => valid = time(text)?,
            None if token.str() == "off" => off = true,
            _ => return Err(bad()),
        }
    }
    if !off && max == 0 {
        return Err(Diag::emerg(d.span, format!("\"{}\" must have the \"max\" parameter", d.name())));
    }
    let (inactive, valid) = (Duration::from_secs(inactive), Duration::from_secs(valid));
    // A certificate and its key count as two.
    Ok((!off).then(|| CertificateCache::new(max.div_ceil(2), inactive, valid)))
}

/// Several words, and several directives of a block: the last one about a cache of the server's own counts, and none of it
/// (`off`, `none`) also turns off a shared one.
fn session_cache(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (mut own, mut shared) = if cx.first { (None, None) } else { cx.conf::<Conf>().cache_words.clone() };
    for token in &d.args {
        let invalid = || Diag::emerg(token.span, format!("invalid session cache \"{}\"", token.text()));
        let text = token.str();
        match text {
            "off" | "none" => own = Some(Cache::None),
            "builtin" => own = Some(Cache::Own(BUILTIN_SESSIONS)),
            _ => match text.strip_prefix("builtin:") {
                Some(number) => own = Some(Cache::Own(number.parse().map_err(|_| invalid())?)),
                None if text.starts_with("shared:") => shared = Some(zone(cx, token, "session")?),
                None => return Err(invalid().help("write off, none, builtin[:SESSIONS] or shared:NAME:SIZE")),
            },
        }
    }
    let conf = cx.conf::<Conf>();
    // Beside a shared cache one of the server's own is of no use.
    conf.cache = match (&own, &shared) {
        (Some(Cache::None), _) | (None, None) => Cache::None,
        (_, Some(zone)) => Cache::Shared(zone.clone()),
        (Some(own), None) => own.clone(),
    };
    conf.cache_words = (own, shared);
    Ok(())
}

/// `shared:name:size`; servers that name the same zone share it.
fn zone(cx: &mut Cx<'_, '_>, token: &Token, what: &str) -> Result<Arc<Zone>, Diag> {
    let invalid = || Diag::emerg(token.span, format!("invalid {what} cache \"{}\"", token.text()));
    let (name, size) =
        token.str().strip_prefix("shared:").and_then(|rest| rest.split_once(':')).ok_or_else(invalid)?;
    let size = Token { value: size.as_bytes().into(), ..token.clone() };
    let bytes = value::size(&size).map_err(|_| invalid())?;
    if name.is_empty() {
        return Err(invalid());
    }
    if bytes < CACHE_BYTES_MIN {
        return Err(Diag::emerg(token.span, format!("{what} cache \"{}\" is too small", token.text())));
    }
    let owner = if what == "OCSP" { "ssl_ocsp" } else { "ssl" };
    if let Some(have) = cx.global.zones.iter().find(|zone| *zone.name == *name && zone.module == owner) {
        if have.bytes != bytes {
            let text = format!(
                "the size {bytes} of shared memory zone \"{name}\" conflicts with already declared size {}",
                have.bytes
            );
            return Err(Diag::emerg(token.span, text));
        }
        return Ok(have.clone());
    }
    let meaning = Token { value: Box::default(), ..token.clone() };
    let make = if what == "OCSP" { answers } else { sessions };
    cx.global.add_zone(owner, (name.to_string(), bytes), token, &meaning, make)
}

fn answers(bytes: u64) -> Arc<dyn Any + Send + Sync> {
    Arc::new(Answers::new(bytes))
}

fn sessions(bytes: u64) -> Arc<dyn Any + Send + Sync> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Arc::new(SharedSessions(Arc::new(SessionCache::new(bytes, usize::MAX))))
}

/// The path of a file that a token names, as messages show it.
pub fn path(cx: &Cx<'_, '_>, token: &Token) -> String {
    Path::new(&cx.global.loader.resolve(token.str())).display().to_string()
}
