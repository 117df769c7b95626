//! TLS to back ends: `proxy_ssl_…`. One implementation, for any module's prefix.

use super::build::{source, trust_of};
use super::command::{self, Command, Commanded, Offered};
use super::conf::Protocols;
use super::rows;
use crate::stream::part::BLOCKS;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::tls::{Allowed, Cache, Pair};
use brisk_server::vars::{Context as Computed, Template};
use brisk_tls::{ClientContext, ClientOptions, Groups, Suites, Verification};
use brisk_upstream::tls::Tls;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whose directives, as [`Conf`]'s parameter.
pub const PROXY: usize = 0;
pub const UWSGI: usize = 1;
pub const GRPC: usize = 2;

/// The names before `_ssl`, by number.
// The order of the constants above, which stand in types.
const PREFIXES: [&str; 3] = ["proxy", "uwsgi", "grpc"];

pub static PROXY_MODULE: Module = Module {
    name: "proxy_ssl",
    rows: PROXY_ROWS,
    conf: || Arc::new(Conf::<PROXY>::default()),
    ..Module::EMPTY
};

pub static UWSGI_MODULE: Module = Module {
    name: "uwsgi_ssl",
    rows: UWSGI_ROWS,
    conf: || Arc::new(Conf::<UWSGI>::default()),
    ..Module::EMPTY
};

pub static GRPC_MODULE: Module =
    Module { name: "grpc_ssl", rows: GRPC_ROWS, conf: || Arc::new(Conf::<GRPC>::default()), ..Module::EMPTY };

/// What a block says of TLS to its back ends.
#[derive(Clone)]
pub struct Conf<const P: usize> {
    // All of it is inherited as a whole by copying; `commands` are carried out last, on the copy that `build`
    // makes.
    versions: Protocols,
    suites: Suites,
    groups: Groups,
    session_reuse: bool,
    name: Option<Arc<Template>>,
    send_name: bool,
    verify: bool,
    depth: u64,
    trusted: Option<Token>,
    crl: Option<Token>,
    certificate: Option<Token>,
    key: Option<Token>,
    passwords: Arc<Vec<Vec<u8>>>,
    /// Of certificates whose names contain variables.
    cache: Option<Arc<Cache>>,
    commands: Vec<(Token, Token)>,
    /// `proxy_ssl_alpn`, of `stream`.
    alpn: Vec<Template>,
}

impl<const P: usize> Default for Conf<P> {
    fn default() -> Conf<P> {
        Conf {
            versions: Protocols::default(),
            suites: Suites::default(),
            groups: Groups::default(),
            session_reuse: true,
            name: None,
            send_name: false,
            verify: false,
            depth: 1,
            trusted: None,
            crl: None,
            certificate: None,
            key: None,
            passwords: Arc::default(),
            cache: None,
            commands: Vec::new(),
            alpn: Vec::new(),
        }
    }
}

impl<const P: usize> ModuleConf for Conf<P> {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// One location's way to speak TLS to its back ends.
pub struct PeerTls {
    context: ClientContext,
    name: Option<Arc<Template>>,
    send_name: bool,
    named: Option<Named>,
    alpn: Vec<Template>,
    id: u64,
}

/// A certificate whose name, or its key's, contains variables.
struct Named {
    certificate: Template,
    key: Template,
    /// Where relative names begin.
    prefix: String,
    passwords: Arc<Vec<Vec<u8>>>,
    cache: Option<Arc<Cache>>,
}

static IDS: AtomicU64 = AtomicU64::new(1);

impl PeerTls {
    /// For a request, or a session of `stream`, whose back end is called `host`, with or without a port. `allowed` are the files that its
    /// configuration means: a variable may hold what a client has sent.
    pub fn of(&self, r: &impl Computed, host: &str, allowed: &Allowed) -> Tls {
        let name = match &self.name {
            Some(name) => String::from_utf8_lossy(&name.eval(r)).into_owned(),
            None => host.to_string(),
        };
        let tls = self.named(&name);
        let Some(named) = &self.named else { return tls };
        let certificate = named.certificate.eval(r);
        // An empty value switches it off for this request, as in nginx.
        if certificate.is_empty() {
            return tls;
        }
        let pair = Pair::named(&certificate, &named.key.eval(r), &named.prefix);
        let rules = [allowed.rule(&named.certificate), allowed.rule(&named.key)];
        tls.presenting(pair, rules, named.passwords.clone(), named.cache.clone())
    }

    /// Where there is no request (health checks): a name that needs one gives way to the back end's, and a certificate
    /// that needs one is not shown.
    pub fn alone(&self, host: &str) -> Tls {
        let constant = self.name.as_ref().and_then(|name| name.as_literal()).map(String::from_utf8_lossy);
        self.named(&constant.unwrap_or(host.into()))
    }

    /// What a session of `stream` offers by ALPN; `None`: nothing. Values that are empty are left out, and so are those that are too long
    /// for a name (RFC 7301 §3.1).
    pub fn alpn(&self, of: &impl Computed) -> Option<Vec<Vec<u8>>> {
        let values = self.alpn.iter().map(|protocol| protocol.eval(of));
        let protocols: Vec<Vec<u8>> = values.filter(|name| (1..=255).contains(&name.len())).collect();
        (!protocols.is_empty()).then_some(protocols)
    }

    fn named(&self, name: &str) -> Tls {
        // The name of a certificate has no port, and neither has the server_name extension (RFC 6066 §3).
        let bare = match name.rsplit_once(':') {
            // A colon inside brackets is part of an IPv6 address.
            Some((bare, port)) if !port.contains(']') => bare,
            _ => name,
        };
        Tls::new(self.context.clone(), bare, self.send_name, self.id)
    }
}

/// What a block's directives come to: for the `finish` of a module that passes requests on over TLS.
/// `http2`: it is what is offered to back ends.
pub fn build<const P: usize>(cx: &mut Cx<'_, '_>, http2: bool) -> Result<Arc<PeerTls>, Diag> {
    let prefix = PREFIXES[P];
    let mut conf = cx.conf_of::<Conf<P>>().clone();
    command::carry_out(cx, &mut conf)?;
    // Off by default, as nginx has it: back ends usually have certificates of no authority.
    let verification = if conf.verify {
        if conf.trusted.is_none() {
            return Err(Diag::global(format!("no {prefix}_ssl_trusted_certificate for {prefix}_ssl_verify"))
                .help("name a file of the authorities that back ends' certificates have"));
        }
        let trust = trust_of(cx, std::slice::from_ref(&conf.trusted), conf.crl.as_ref())?;
        Verification::On { trust, depth: u32::try_from(conf.depth).unwrap_or(u32::MAX) }
    } else {
        Verification::Off
    };
    let mut named = None;
    let certificate = match (&conf.certificate, &conf.key) {
        (None, _) => None,
        (Some(certificate), None) => {
            let text = format!(
                "no \"{prefix}_ssl_certificate_key\" is defined for certificate \"{}\"",
                certificate.text()
            );
            return Err(Diag::emerg(certificate.span, text)
                .help(format!("add: {prefix}_ssl_certificate_key FILE; beside it")));
        }
        (Some(certificate), Some(key)) => {
            let templates = (cx.template(certificate)?, cx.template(key)?);
            if templates.0.is_literal() && templates.1.is_literal() {
                let source = source(cx, certificate, key, &conf.passwords)?;
                Some(source.get().map_err(|why| Diag::emerg(certificate.span, why))?)
            } else {
                // Which files these will be is known when a connection is made: workers read no others, and the master reads
                // no others for them.
                cx.reads_later(&templates.0);
                cx.reads_later(&templates.1);
                named = Some(Named {
                    certificate: templates.0,
                    key: templates.1,
                    prefix: cx.global.loader.resolve(""),
                    passwords: conf.passwords.clone(),
                    cache: conf.cache.clone(),
                });
                None
            }
        }
    };
    let options = ClientOptions {
        versions: conf.versions.offered()?,
        suites: conf.suites,
        groups: conf.groups,
        verification,
        certificate,
        alpn: if http2 { vec![b"h2".to_vec()] } else { Vec::new() },
        no_resumption: !conf.session_reuse,
        key_log: None,
    };
    let context = ClientContext::new(&options).map_err(Diag::global)?;
    // Never used again while the process runs, so a connection that was kept before a reload matches no
    // settings after it.
    let id = IDS.fetch_add(1, Ordering::Relaxed);
    Ok(Arc::new(PeerTls { context, name: conf.name, send_name: conf.send_name, named, alpn: conf.alpn, id }))
}

impl<const P: usize> Commanded for Conf<P> {
    fn take_commands(&mut self) -> Vec<(Token, Token)> {
        std::mem::take(&mut self.commands)
    }

    fn offered(&mut self) -> Offered<'_> {
        Offered { versions: &mut self.versions.versions, suites: &mut self.suites, groups: &mut self.groups }
    }

    fn switch(&mut self, cx: &mut Cx<'_, '_>, command: &Command, name: &str, on: bool) -> Result<bool, Diag> {
        match name {
            "SessionTicket" => self.session_reuse &= on,
            // They are for servers.
            "KTLS" | "ServerPreference" => command.without_effect(cx, name),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&mut self, command: &Command) -> Result<bool, Diag> {
        match command.name.str() {
            "Certificate" => self.certificate = Some(command.argument.clone()),
            "PrivateKey" => self.key = Some(command.argument.clone()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A certificate or a key; an empty name takes back what is inherited.
fn pem(d: &Directive) -> Option<Token> {
    let token = d.arg(0);
    (!token.bytes().is_empty()).then(|| token.clone())
}

/// A file; an empty name takes back what is inherited.
fn file(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Option<Token>, Diag> {
    let token = d.arg(0);
    if !cx.template(token)?.is_literal() {
        return Err(Diag::emerg(
            token.span,
            format!("\"{}\" with variables is not supported (yet)", d.name()),
        )
        .help("name the file as it is"));
    }
    Ok((!token.bytes().is_empty()).then(|| token.clone()))
}

fn command<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_first = cx.first;
    let list = &mut cx.conf::<Conf<P>>().commands;
    if is_first {
        list.clear();
    }
    list.push((d.arg(0).clone(), d.arg(1).clone()));
    Ok(())
}

/// `proxy_ssl_alpn`.
pub fn alpn<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let protocols = d.args.iter().map(|token| cx.template(token)).collect::<Result<Vec<_>, _>>()?;
    cx.conf::<Conf<P>>().alpn = protocols;
    Ok(())
}

fn passwords<const P: usize>(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let text = cx.read_file(d.arg(0))?;
    cx.conf::<Conf<P>>().passwords = Arc::new(brisk_tls::passwords(&text));
    Ok(())
}

macro_rules! peer_rows {
    ($prefix:literal, $p:ident, $blocks:expr $(, $more:expr)*) => {
        &[
            directive(concat!($prefix, "_ssl_certificate"))
                .doc("The certificate that is shown to back ends which ask for one; may contain variables.")
                .in_($blocks)
                .takes("FILE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_certificate /etc/brisk/client.pem;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().certificate = pem(d);
                    Ok(())
                }),
            directive(concat!($prefix, "_ssl_certificate_key"))
                .doc("The key of that certificate; may contain variables.")
                .in_($blocks)
                .takes("FILE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_certificate_key /etc/brisk/client.key;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().key = pem(d);
                    Ok(())
                }),
            directive(concat!($prefix, "_ssl_certificate_cache"))
                .doc("Keeps certificates and keys whose names contain variables: max=N, inactive=time (10s), valid=time (60s).")
                .in_($blocks)
                .arity(Arity::between(1, 3))
                .takes("off | max=NUMBER [inactive=TIME] [valid=TIME]")
                .default("off")
                .risk(Risk::Resource)
                .example(concat!($prefix, "_ssl_certificate_cache max=1000 inactive=20s valid=1m;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().cache = rows::certificate_cache(d)?.map(Arc::new);
                    Ok(())
                }),
            directive(concat!($prefix, "_ssl_ciphers"))
                .doc("Cipher suites that are offered to back ends.")
                .in_($blocks)
                .takes("CIPHERS")
                .default("DEFAULT")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_ciphers HIGH:!aNULL;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().suites = rows::suites(cx, d)?;
                    Ok(())
                }),
            directive(concat!($prefix, "_ssl_conf_command"))
                .doc("A command of OpenSSL's configuration: CipherString, Ciphersuites, Groups, Certificate or PrivateKey with its value.")
                .in_($blocks)
                .arity(Arity::TWO)
                .many()
                .takes("NAME VALUE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;"))
                .set(command::<$p>),
            directive(concat!($prefix, "_ssl_crl"))
                .doc("A file of revocation lists that back ends' certificates are checked against.")
                .in_($blocks)
                .takes("FILE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_crl /etc/brisk/revoked.pem;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().crl = file(cx, d)?;
                    Ok(())
                }),
            // For a group of servers it is the group's name unless it is said, which is seldom what a certificate names.
            directive(concat!($prefix, "_ssl_name"))
                .doc("The name that a back end's certificate must have, and that is sent to it; may contain variables.")
                .in_($blocks)
                .takes("NAME")
                .default_told("the host of the pass directive")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_name app.example.com;"))
                .set(|cx, d| {
                    let name = Arc::new(cx.template(d.arg(0))?);
                    cx.conf::<Conf<$p>>().name = Some(name);
                    Ok(())
                }),
            directive(concat!($prefix, "_ssl_password_file"))
                .doc("A file of passphrases for keys, one in a line.")
                .in_($blocks)
                .takes("FILE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_password_file /etc/brisk/passwords;"))
                .set(passwords::<$p>),
            // Nothing below 1.2 (RFC 8996).
            directive(concat!($prefix, "_ssl_protocols"))
                .doc("Versions of TLS that are offered to back ends: TLSv1.2 and TLSv1.3.")
                .in_($blocks)
                .arity(Arity::SOME)
                .takes("TLSv1.2 | TLSv1.3 ...")
                .default("TLSv1.2 TLSv1.3")
                .many()
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_protocols TLSv1.3;"))
                .set(|cx, d| {
                    let before = cx.conf::<Conf<$p>>().versions;
                    cx.conf::<Conf<$p>>().versions = rows::protocols(cx, d, before)?;
                    Ok(())
                }),
            // Off, as in nginx. A back end with several certificates chooses by it (RFC 6066 §3).
            directive(concat!($prefix, "_ssl_server_name"))
                .doc("Whether the name is sent to back ends (SNI).")
                .in_($blocks)
                .takes_flag()
                .default("off")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_server_name on;"))
                .sets(|cx, on| cx.conf::<Conf<$p>>().send_name = on),
            directive(concat!($prefix, "_ssl_session_reuse"))
                .doc("Whether TLS sessions with back ends are resumed.")
                .in_($blocks)
                .takes_flag()
                .default("on")
                .risk(Risk::Safe)
                .example(concat!($prefix, "_ssl_session_reuse off;"))
                .sets(|cx, on| cx.conf::<Conf<$p>>().session_reuse = on),
            directive(concat!($prefix, "_ssl_trusted_certificate"))
                .doc("A file of the authorities that back ends' certificates must have.")
                .in_($blocks)
                .takes("FILE")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;"))
                .set(|cx, d| {
                    cx.conf::<Conf<$p>>().trusted = file(cx, d)?;
                    Ok(())
                }),
            // Off, as in nginx: the connection is private, but anybody on the way may be its other end.
            directive(concat!($prefix, "_ssl_verify"))
                .doc("Whether back ends' certificates are checked.")
                .in_($blocks)
                .takes_flag()
                .default("off")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_verify off;"))
                .sets(|cx, on| cx.conf::<Conf<$p>>().verify = on),
            directive(concat!($prefix, "_ssl_verify_depth"))
                .doc("How many authorities may stand between a back end's certificate and a trusted one.")
                .in_($blocks)
                .takes_number()
                .unit("certificates")
                .default("1")
                .risk(Risk::Security)
                .example(concat!($prefix, "_ssl_verify_depth 2;"))
                .sets(|cx, count| cx.conf::<Conf<$p>>().depth = count),
            $($more,)*
        ]
    };
}

static PROXY_ROWS: &[Row] = peer_rows!(
    "proxy",
    PROXY,
    Context::HSL.or(BLOCKS),
    // nginx has it for `stream` only.
    directive("proxy_ssl_alpn")
        .doc("Protocols that are offered to servers by ALPN, the best first; may contain variables.")
        .in_(BLOCKS)
        .arity(Arity::SOME)
        .takes("PROTOCOL ...")
        .default_told("no ALPN")
        .risk(Risk::Security)
        .example("proxy_ssl_alpn h2 http/1.1;")
        .set(alpn::<PROXY>)
);
static UWSGI_ROWS: &[Row] = peer_rows!("uwsgi", UWSGI, Context::HSL);
static GRPC_ROWS: &[Row] = peer_rows!("grpc", GRPC, Context::HSL);

#[cfg(test)]
mod tests {
    use crate::check::{http, refused};

    #[test]
    fn what_cannot_be_is_refused() {
        refused(&[
            (
                "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_verify on; } }",
                "no proxy_ssl_trusted_certificate for proxy_ssl_verify",
            ),
            (
                "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_certificate a; } }",
                "no \"proxy_ssl_certificate_key\" is defined for certificate \"a\"",
            ),
            (
                "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_conf_command Bad x; } }",
                "SSL_CONF_cmd(\"Bad\", \"x\") failed",
            ),
            (
                "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_conf_command MinProtocol SSLv9; } }",
                "SSL_CONF_cmd(\"MinProtocol\", \"SSLv9\") failed",
            ),
            (
                "server { location / { proxy_pass https://127.0.0.1; proxy_ssl_conf_command Options -Bad; } }",
                "SSL_CONF_cmd(\"Options\", \"-Bad\") failed",
            ),
            (
                "proxy_ssl_certificate_cache valid=1s;",
                "\"proxy_ssl_certificate_cache\" must have the \"max\" parameter",
            ),
            ("proxy_ssl_crl $a;", "\"proxy_ssl_crl\" with variables is not supported (yet)"),
            (
                "proxy_ssl_trusted_certificate $a;",
                "\"proxy_ssl_trusted_certificate\" with variables is not supported (yet)",
            ),
            (
                "server { location / { uwsgi_pass suwsgi://127.0.0.1:1; uwsgi_ssl_verify on; } }",
                "no uwsgi_ssl_trusted_certificate for uwsgi_ssl_verify",
            ),
            ("uwsgi_ssl_crl $a;", "\"uwsgi_ssl_crl\" with variables is not supported (yet)"),
            (
                "uwsgi_ssl_password_file /nowhere;",
                "open() \"/nowhere\" failed (2: No such file or directory)",
            ),
            ("proxy_ssl_protocols SSLv9;", "invalid value \"SSLv9\""),
            (
                "proxy_ssl_ciphers none;",
                "SSL_CTX_set_cipher_list(\"none\") failed (SSL: error:0A0000B9:SSL routines::no cipher match)",
            ),
            (
                "proxy_ssl_password_file /nowhere;",
                "open() \"/nowhere\" failed (2: No such file or directory)",
            ),
        ]);
    }

    #[test]
    fn a_location_may_speak_tls() {
        let text = "proxy_ssl_session_reuse off; proxy_ssl_verify_depth 2; proxy_ssl_certificate_cache off;
            server { location / { proxy_pass https://127.0.0.1; proxy_ssl_name $host; proxy_ssl_server_name on;
                proxy_ssl_conf_command MinProtocol TLSv1.2; proxy_ssl_conf_command MaxProtocol TLSv1.3;
                proxy_ssl_conf_command Protocol ALL,-TLSv1.1; proxy_ssl_conf_command Options -SessionTicket,UnsafeLegacyRenegotiation; } }";
        assert!(http(text).is_ok());
        let text = "uwsgi_ssl_ciphers DEFAULT; uwsgi_ssl_protocols TLSv1.3; uwsgi_ssl_session_reuse off;
            uwsgi_ssl_verify_depth 2; uwsgi_ssl_conf_command Groups X25519; uwsgi_ssl_certificate_cache max=2 valid=1m;
            uwsgi_ssl_certificate $host.pem; uwsgi_ssl_certificate_key $host.key;
            server { location / { uwsgi_pass suwsgi://127.0.0.1:1; uwsgi_ssl_name $host; uwsgi_ssl_server_name on; } }";
        assert!(http(text).is_ok());
    }
}
