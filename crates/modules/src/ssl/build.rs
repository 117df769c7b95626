//! From directives to what handshakes need, when a `server` block is complete.

use super::command::{self, Command, Commanded, Offered};
use super::conf::{Cache, Conf, Ocsp};
use super::rows;
use brisk_conf::{Context as Block, Diag, Token};
use brisk_server::conf::{Cx, ServerId};
use brisk_server::tls::{
    Asking, Certs, Chain, Context, Named, Pair, Parsed, Rules, Sessions, Source, Sources, Stapler, Verify,
    ticket_keys,
};
use brisk_server::vars::Template;
use brisk_tls::{Resumption, Sealing, ServerOptions, SessionCache, TicketKeys, Trust, names};
use std::sync::Arc;

/// Runs for every block; makes the rules of a server.
pub fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // The settings of `http` are only what servers inherit: they are checked where they are used, so that an
    // incomplete default that every server overrides is no error.
    if cx.block != Block::SERVER {
        return Ok(());
    }
    let made = rules(cx).inspect_err(|_| {
        // Remembered, so that the check of sockets does not complain a second time of a server without
        // certificates.
        let failed = ServerId(cx.global.servers.len() as u32 - 1);
        cx.global.failed_tls.push(failed);
    })?;
    if let Some(rules) = made {
        let server = cx.global.servers.last_mut().expect("the server is being built");
        server.tls = Some(Arc::new(rules));
    }
    Ok(())
}

/// The rules of the `server` block that is complete, of `http` or of `stream`; nothing where it says nothing of TLS.
pub fn rules(cx: &mut Cx<'_, '_>) -> Result<Option<Rules>, Diag> {
    // Commands are carried out on a copy: inner blocks inherit what is written, and carry their own commands
    // out from there.
    let mut conf = cx.conf_of::<Conf>().clone();
    command::carry_out(cx, &mut conf)?;
    if conf.verify == Verify::Off
        && conf.certificates.is_empty()
        && !conf.reject
        && conf.handshake_timeout.is_none()
    {
        return Ok(None);
    }
    if conf.ocsp != Ocsp::Off && conf.verify == Verify::OptionalNoCa {
        let text = "\"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"";
        return Err(Diag::global(text.to_string()));
    }
    let ocsp = (conf.ocsp != Ocsp::Off).then(|| Asking {
        leaf: conf.ocsp == Ocsp::Leaf,
        responder: conf.ocsp_responder.as_ref().map(|token| token.str().to_string()),
        cache: conf.ocsp_cache.clone(),
    });
    let clients = clients(cx, &conf)?;
    // Whether a certificate is missing is not asked here: only the sockets know whether any `listen` of this
    // server has `ssl`.
    // Authorities first: a mistake in them is told even if a certificate is missing, too.
    let trust = trust(cx, &conf)?;
    let context =
        if conf.certificates.is_empty() { None } else { Some(Arc::new(context(cx, &conf, clients)?)) };
    Ok(Some(Rules {
        verify: conf.verify,
        clients,
        trust,
        ocsp,
        depth: u32::try_from(conf.depth).unwrap_or(u32::MAX),
        reject: conf.reject,
        handshake_timeout: conf.handshake_timeout,
        context,
    }))
}

fn emerg(token: &Token, text: String) -> Diag {
    Diag::emerg(token.span, text)
}

/// A value that many servers have in common is made once for a configuration.
fn shared<T: Send + Sync + 'static>(
    cx: &mut Cx<'_, '_>,
    kind: &'static str,
    key: String,
    make: impl FnOnce(&mut Cx<'_, '_>) -> Result<T, Diag>,
) -> Result<Arc<T>, Diag> {
    if let Some(have) =
        // Thousands of servers with one list of authorities would parse and hold it as often.
        cx.global.named.get(&(kind, key.clone())).and_then(|value| value.downcast_ref::<Arc<T>>())
    {
        return Ok(have.clone());
    }
    let value = Arc::new(make(cx)?);
    cx.global.named.insert((kind, key), Arc::new(value.clone()));
    Ok(value)
}

/// Whom clients' certificates are verified by.
fn trust(cx: &mut Cx<'_, '_>, conf: &Conf) -> Result<Option<Arc<Trust>>, Diag> {
    if conf.verify == Verify::Off || conf.certificates.is_empty() {
        return Ok(None);
    }
    let files = [conf.client_certificate.clone(), conf.trusted.clone()];
    // Without authorities every certificate would be refused; `optional_no_ca` is for applications that judge
    // by themselves.
    if conf.verify != Verify::OptionalNoCa && files.iter().all(Option::is_none) {
        let text = "no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client";
        return Err(Diag::global(text.to_string())
            .help("name a file of the authorities that clients' certificates have"));
    }
    trust_of(cx, &files, conf.crl.as_ref()).map(Some)
}

/// The certificates of some files, and the revocation lists of another.
pub fn trust_of(
    cx: &mut Cx<'_, '_>,
    authorities: &[Option<Token>],
    crl: Option<&Token>,
) -> Result<Arc<Trust>, Diag> {
    let names: Vec<_> = authorities.iter().map(|file| file.as_ref().map(Token::str)).collect();
    // With the revocation lists: the same authorities with and without them are different verdicts.
    let key = format!("{:?}", (names, crl.map(Token::str)));
    shared(cx, "ssl trust", key, |cx| {
        let mut trust = Trust::default();
        for token in authorities.iter().flatten() {
            let (text, path) = (cx.read_file(token)?, rows::path(cx, token));
            trust.add(&text).map_err(|why| {
                emerg(token, format!("SSL_CTX_load_verify_locations(\"{path}\") failed (SSL: error:{why})"))
            })?;
        }
        if let Some(token) = crl {
            let (text, path) = (cx.read_file(token)?, rows::path(cx, token));
            trust.add_crls(&text).map_err(|why| {
                emerg(token, format!("X509_LOOKUP_load_file(\"{path}\") failed (SSL: error:{why})"))
            })?;
        }
        Ok(trust)
    })
}

/// See [`Rules::clients`].
fn clients(cx: &mut Cx<'_, '_>, conf: &Conf) -> Result<Option<[u8; 32]>, Diag> {
    if conf.verify == Verify::Off {
        return Ok(None);
    }
    let files = [&conf.client_certificate, &conf.trusted, &conf.crl];
    let names: Vec<_> = files.iter().map(|file| file.as_ref().map(|token| token.str().to_string())).collect();
    // What is in them counts, so that a copy is no other authority, and another one is of the same name.
    // Read once for all servers that name the same files.
    let contents = shared(cx, "ssl clients", format!("{names:?}"), |cx| {
        let mut text = Vec::new();
        for token in files.into_iter().map(Option::as_ref) {
            // A server without a certificate of its own does without them.
            let id = token.map(|token| match cx.try_file(token) {
                Ok(content) => brisk_tls::context_id(&content),
                Err(_) => brisk_tls::context_id(token.str().as_bytes()),
            });
            text.extend_from_slice(&id.unwrap_or_default());
        }
        Ok(text)
    })?;
    let responder = conf.ocsp_responder.as_ref().map(Token::str);
    let asking = (conf.ocsp != Ocsp::Off).then_some((conf.ocsp == Ocsp::Leaf, responder));
    // All that decides whether a client is let in. What is missing here would let a session of one server into another.
    let rules = format!("{:?}", (conf.verify, conf.depth, asking, &*contents));
    Ok(Some(brisk_tls::context_id(rules.as_bytes())))
}

fn context(cx: &mut Cx<'_, '_>, conf: &Conf, clients: Option<[u8; 32]>) -> Result<Context, Diag> {
    let versions = conf.versions.offered()?;
    let certs = certificates(cx, conf)?;
    let mut options = ServerOptions {
        versions,
        suites: conf.suites.clone(),
        groups: conf.groups.clone(),
        schemes: conf.schemes.clone(),
        prefer_server: conf.prefer_server,
        record_plain: usize::try_from(conf.buffer_bytes).unwrap_or(usize::MAX),
        early_data: conf.early_data,
        alpn: conf.alpn.clone(),
        compress_certificates: conf.compression,
        sealing: sealing(conf),
        context: context_id(conf, clients),
        ..ServerOptions::default()
    };
    if conf.verify != Verify::Off {
        let mut authorities = Vec::new();
        if let Some(token) = &conf.client_certificate {
            let text = cx.read_file(token)?;
            authorities = brisk_tls::chain(&text).unwrap_or_default();
        }
        // Also when empty: RFC 8446 §4.2.4 and RFC 5246 §7.4.4 let clients choose freely then. Only
        // `ssl_client_certificate` is told, as with nginx.
        options.client_authorities = Some(authorities);
    }
    let timeout = u32::try_from(conf.session_secs).unwrap_or(u32::MAX);
    let tickets = if conf.tickets { Some(tickets(cx, conf, timeout)?) } else { None };
    options.resumption = Resumption { tickets, cache: None, timeout };
    let sessions = match &conf.cache {
        // Early data may be replayed as often as its session can be used (RFC 8446 §8.1). A ticket can be used
        // by any process that has the key; a session in the cache is taken out by its first use.
        Cache::None if conf.early_data && conf.tickets => Sessions::Early,
        Cache::None => Sessions::None,
        // Bounded by number, not by bytes, as OpenSSL bounds `builtin`.
        Cache::Own(number) => Sessions::Own(Arc::new(SessionCache::new(usize::MAX, *number))),
        Cache::Shared(zone) => Sessions::Shared(zone.clone()),
    };
    let mut context = Context::new(certs, options, sessions);
    context.key_log.clone_from(&conf.key_log);
    Ok(context)
}

/// Who seals records of those that are sent much.
fn sealing(conf: &Conf) -> Sealing {
    match (conf.own_records, conf.kernel) {
        // The kernel takes over from records that Brisk seals, whose keys and numbers it knows; the library
        // gives neither away.
        (false, _) => Sealing::Library,
        (true, false) => Sealing::Own,
        (true, true) => Sealing::Kernel,
    }
}

/// What of `ssl_stapling` concerns a certificate.
#[derive(Default)]
struct Stapling {
    /// Who asks about it.
    stapler: Option<Stapler>,
    /// The response from a file.
    response: Option<Vec<u8>>,
    /// Tells different ones apart.
    id: String,
}

fn stapling(cx: &mut Cx<'_, '_>, conf: &Conf) -> Result<Stapling, Diag> {
    if !conf.stapling {
        return Ok(Stapling::default());
    }
    if conf.compression {
        // With TLS 1.3 the staple is part of the very message that would be compressed (RFC 8446 §4.4.2.1).
        let text = "\"ssl_stapling\" is incompatible with \"ssl_certificate_compression\"";
        return Err(Diag::global(text.to_string()));
    }
    if let Some(token) = &conf.stapling_file {
        let response = cx.read_file(token)?;
        let (response, id) = (Some(response.to_vec()), format!("file {}", token.text()));
        return Ok(Stapling { stapler: None, response, id });
    }
    let responder = conf.stapling_responder.as_ref().map(|token| token.str().to_string());
    let mut issuers = Vec::new();
    // The issuer is needed to ask about a certificate (RFC 6960 §4.1.1 hashes its name and key). A chain that
    // ends before it finds it here, as with nginx.
    for token in [&conf.trusted, &conf.client_certificate].into_iter().flatten() {
        let text = cx.read_file(token)?;
        issuers.extend(brisk_tls::chain(&text).unwrap_or_default());
    }
    // Two servers with the same files and different ways of asking, or of finding the issuer, need a stapler each.
    let authorities = [&conf.trusted, &conf.client_certificate].map(|file| file.as_ref().map(Token::str));
    let id = format!("{responder:?} {} {authorities:?}", conf.stapling_verify);
    let stapler = Some(Stapler::new(responder, issuers, conf.stapling_verify));
    Ok(Stapling { stapler, response: None, id })
}

/// Sessions are for servers that would have made the same of the handshake: the same certificates and the same rules for
/// clients.
fn context_id(conf: &Conf, clients: Option<[u8; 32]>) -> [u8; 32] {
    let texts = |tokens: &[Token]| tokens.iter().map(|token| token.text().to_string()).collect::<Vec<_>>();
    brisk_tls::context_id(format!("{:?}", (texts(&conf.certificates), texts(&conf.keys), clients)).as_bytes())
}

fn tickets(cx: &mut Cx<'_, '_>, conf: &Conf, timeout: u32) -> Result<Arc<TicketKeys>, Diag> {
    // Keys without files outlive reloads: they belong to the process, one set per lifetime.
    if conf.ticket_keys.is_empty() {
        return Ok(ticket_keys(timeout));
    }
    let mut files = Vec::new();
    for token in &conf.ticket_keys {
        let file = cx.read_file(token)?;
        // Name, AES key and HMAC key: 16 bytes each with AES-128, 16 + 32 + 32 with AES-256. Nothing in the
        // file says which; its length does.
        if !matches!(file.len(), 48 | 80) {
            let path = rows::path(cx, token);
            return Err(emerg(token, format!("\"{path}\" must be 48 or 80 bytes"))
                .help("make one: openssl rand 80 > ticket.key"));
        }
        files.push(file);
    }
    let failed = || Diag::global("the keys of session tickets cannot be used".to_string());
    TicketKeys::from_files(&files).map(Arc::new).ok_or_else(failed)
}

fn certificates(cx: &mut Cx<'_, '_>, conf: &Conf) -> Result<Certs, Diag> {
    // Pairs are made by place. A key too many is ignored by nginx, too; a certificate without one could only
    // fail in handshakes.
    if conf.keys.len() < conf.certificates.len() {
        let token = conf.certificates.last().expect("there are some");
        let path = rows::path(cx, token);
        let text = format!("no \"ssl_certificate_key\" is defined for certificate \"{path}\"");
        return Err(emerg(token, text).help("each ssl_certificate needs its ssl_certificate_key"));
    }
    let mut pairs = Vec::new();
    for (certificate, key) in conf.certificates.iter().zip(&conf.keys) {
        pairs.push((template(cx, certificate)?, template(cx, key)?));
    }
    // Certificates without variables are read and checked now, so that a mistake is an error of the configuration.
    if pairs.iter().all(|(certificate, key)| certificate.is_literal() && key.is_literal()) {
        let more = more_certificates(cx, conf)?;
        let tokens = conf.certificates.iter().zip(&conf.keys);
        let mut list = Vec::new();
        for (certificate, key) in tokens {
            let stapling = stapling(cx, conf)?;
            list.push(source_with(cx, certificate, key, &conf.passwords, stapling, &more)?);
        }
        let is_stapled = list.iter().any(|source| source.stapler.is_some());
        return Ok(Certs::Fixed(Arc::new(Sources { list, is_stapled })));
    }
    if let Some(token) = &conf.chain {
        let text = "\"ssl_certificate_chain\" is incompatible with variables in \"ssl_certificate\"";
        return Err(emerg(token, text.to_string()).help("put the chain behind each certificate, in its file"));
    }
    for (certificate, key) in &pairs {
        cx.reads_later(certificate);
        cx.reads_later(key);
    }
    // One name with variables makes all of them named: which certificates there are is then known in the
    // handshake only.
    let cache = conf.certificate_cache.clone();
    let prefix = cx.global.loader.resolve("");
    Ok(Certs::Named(Named { pairs, prefix, passwords: conf.passwords.clone(), cache }))
}

/// The certificates of `ssl_certificate_chain`.
fn more_certificates(cx: &mut Cx<'_, '_>, conf: &Conf) -> Result<Chain, Diag> {
    let Some(token) = &conf.chain else { return Ok(Chain::default()) };
    let text = read(cx, "certificate", token)?;
    let chain = brisk_tls::chain(&text).map_err(|why| {
        let path = name(cx, token);
        let text =
            format!("cannot load certificate \"{path}\": PEM_read_bio_X509() failed (SSL: error:{why})");
        emerg(token, text)
    })?;
    Ok(chain.into())
}

fn template(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Template, Diag> {
    let text = token.str();
    // Refused by name: read as a path, the message would be of a missing file.
    if text.starts_with("engine:") || text.starts_with("store:") && !text.starts_with("store:file:") {
        return Err(emerg(token, format!("\"{}\" is not supported: keys are read from files", token.text())));
    }
    cx.template(token)
}

/// A certificate and its key, read now.
pub fn source(
    cx: &mut Cx<'_, '_>,
    certificate: &Token,
    key: &Token,
    passwords: &Arc<Vec<Vec<u8>>>,
) -> Result<Arc<Source>, Diag> {
    source_with(cx, certificate, key, passwords, Stapling::default(), &Chain::default())
}

fn source_with(
    cx: &mut Cx<'_, '_>,
    certificate: &Token,
    key: &Token,
    passwords: &Arc<Vec<Vec<u8>>>,
    stapling: Stapling,
    more: &Chain,
) -> Result<Arc<Source>, Diag> {
    // Resolved paths, so that a file that two servers name in different ways is read and watched once.
    let pair = Pair { certificate: name(cx, certificate), key: name(cx, key) };
    // With all that decides what becomes of it. A server that does not have the password must not get the key from one that has. As a hash:
    // this map is no place for passwords.
    let words = brisk_tls::context_id(format!("{passwords:?}").as_bytes());
    let id = format!("{pair:?} {words:?} {:?} {}", brisk_tls::context_id(&more.concat()), stapling.id);
    if let Some(have) =
        cx.global.named.get(&("ssl source", id.clone())).and_then(|v| v.downcast_ref::<Arc<Source>>())
    {
        return Ok(have.clone());
    }
    // By the loader, so the bytes are in the bundle that workers get: they need not be allowed to read the files.
    let texts = (read(cx, "certificate", certificate)?, read(cx, "certificate key", key)?);
    let parsed = Parsed::new(&pair, &texts.0, &texts.1, passwords, more)
        .map_err(|why| Diag::emerg(certificate.span, why))?;
    let source = Arc::new(Source::new(pair, parsed, passwords.clone(), stapling.stapler, stapling.response));
    cx.global.named.insert(("ssl source", id), Arc::new(source.clone()));
    Ok(source)
}

fn name(cx: &Cx<'_, '_>, token: &Token) -> String {
    let text = token.str();
    if text.starts_with("data:") {
        // The PEM itself is the name: two texts are two certificates.
        return text.to_string();
    }
    let path = text.strip_prefix("store:file:").unwrap_or(text);
    cx.global.loader.resolve(path)
}

fn read(cx: &mut Cx<'_, '_>, what: &str, token: &Token) -> Result<Arc<[u8]>, Diag> {
    if let Some(text) = token.str().strip_prefix("data:") {
        return Ok(text.as_bytes().into());
    }
    let path = name(cx, token);
    cx.global.loader.read(&path).map_err(|error| {
        let why = brisk_conf::os_text(&error);
        let text = format!(
            "cannot load {what} \"{path}\": BIO_new_file() failed (SSL: error:80000002:system library::{why})"
        );
        let help = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "make the file, or take \"ssl\" off the listen until there is one"
            }
            std::io::ErrorKind::PermissionDenied => "the user that starts Brisk must be able to read it",
            _ => "a file in PEM format is expected",
        };
        Diag::emerg(token.span, text).help(help)
    })
}

impl Commanded for Conf {
    fn take_commands(&mut self) -> Vec<(Token, Token)> {
        std::mem::take(&mut self.commands)
    }

    fn offered(&mut self) -> Offered<'_> {
        Offered { versions: &mut self.versions.versions, suites: &mut self.suites, groups: &mut self.groups }
    }

    fn switch(&mut self, cx: &mut Cx<'_, '_>, command: &Command, name: &str, on: bool) -> Result<bool, Diag> {
        match name {
            "SessionTicket" => self.tickets = on,
            "KTLS" if on && !self.own_records => {
                let text = "the option KTLS is incompatible with \"ssl_own_records off\"".to_string();
                return Err(emerg(&command.name, text)
                    .help("the kernel goes on from Brisk's own records: choose one"));
            }
            "KTLS" => self.kernel = on && kernel_seals(cx, &command.name)?,
            "ServerPreference" => self.prefer_server = on,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set(&mut self, command: &Command) -> Result<bool, Diag> {
        let argument = &command.argument;
        match command.name.str() {
            "SignatureAlgorithms" => {
                let numbers = argument.str().split(':').map(names::scheme_number).collect::<Option<Vec<_>>>();
                self.schemes = Some(numbers.ok_or_else(|| command.failed())?);
            }
            "Certificate" => self.certificates = vec![argument.clone()],
            "PrivateKey" => self.keys = vec![argument.clone()],
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether the kernel can seal records. It is tried, and told of, once per configuration.
fn kernel_seals(cx: &mut Cx<'_, '_>, command: &Token) -> Result<bool, Diag> {
    let can = shared(cx, "ktls", String::new(), |cx| {
        // By a pair of sockets: whether the module is there, and knows AES-GCM, cannot be told from its
        // version.
        let tried = brisk_net::kernel_seals();
        if let Err(error) = &tried {
            let why = brisk_conf::os_text(error);
            let text =
                format!("the option KTLS has no effect here: the kernel does not seal records ({why})");
            let help = "if this kernel has it as a module, \"modprobe tls\" loads it";
            cx.warn(Diag::notice(command.span, text).help(help));
        }
        Ok(tried.is_ok())
    })?;
    Ok(*can)
}
