//! What the `ssl_…` directives of a block say.

use brisk_conf::{Diag, Span, Token};
use brisk_server::conf::LogTarget;
use brisk_server::module::ModuleConf;
use brisk_server::tls::{Cache as CertificateCache, Verify};
use brisk_server::zone::Zone;
use brisk_tls::{Groups, Suites, Versions};
use std::sync::Arc;
use std::time::Duration;

/// `ssl_protocols`.
#[derive(Clone, Copy, Default)]
pub struct Protocols {
    /// What is offered.
    pub versions: Versions,
    /// All that were named, as bits.
    pub named: u32,
    /// Where they were named; `None`: the default, which always leaves something.
    pub span: Option<Span>,
}

impl Protocols {
    /// What is offered, if anything is.
    pub fn offered(&self) -> Result<Versions, Diag> {
        match self.span {
            Some(span) if !self.versions.tls12 && !self.versions.tls13 => {
                // `ssl_protocols TLSv1 TLSv1.1;` alone is a warning for each word, and here an error: nothing
                // could connect.
                Err(Diag::emerg(span, "no protocol is left: only TLSv1.2 and TLSv1.3 are offered")
                    .help("write: ssl_protocols TLSv1.2 TLSv1.3;"))
            }
            _ => Ok(self.versions),
        }
    }
}

/// `ssl_session_cache`.
#[derive(Clone, Default)]
pub enum Cache {
    /// `off`, `none`.
    #[default]
    None,
    /// `builtin`, with its number of sessions.
    Own(usize),
    Shared(Arc<Zone>),
}

/// `ssl_ocsp`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Ocsp {
    #[default]
    Off,
    On,
    Leaf,
}

/// See the module's head.
#[derive(Clone, Default)]
pub struct Conf {
    // Tokens, not contents: files are read when the server block is complete, and an error points to the place
    // in the text.
    pub certificates: Vec<Token>,
    pub keys: Vec<Token>,
    pub chain: Option<Token>,
    pub passwords: Arc<Vec<Vec<u8>>>,
    pub certificate_cache: Option<Arc<CertificateCache>>,
    pub versions: Protocols,
    pub suites: Suites,
    pub groups: Groups,
    pub schemes: Option<Vec<u16>>,
    pub prefer_server: bool,
    pub buffer_bytes: u64,
    pub verify: Verify,
    pub depth: u64,
    pub client_certificate: Option<Token>,
    pub trusted: Option<Token>,
    pub crl: Option<Token>,
    pub cache: Cache,
    /// What `ssl_session_cache` has named in this block: a cache of its own or none of it, and a shared one.
    pub cache_words: (Option<Cache>, Option<Arc<Zone>>),
    pub tickets: bool,
    pub ticket_keys: Vec<Token>,
    pub session_secs: u64,
    pub early_data: bool,
    pub reject: bool,
    pub compression: bool,
    /// Records of those that are sent much are sealed without the TLS library.
    pub own_records: bool,
    /// Records may be sealed by the kernel.
    pub kernel: bool,
    pub commands: Vec<(Token, Token)>,
    /// `ssl_alpn`: of `stream`.
    pub alpn: Vec<Vec<u8>>,
    pub handshake_timeout: Option<Duration>,
    pub key_log: Option<LogTarget>,
    pub stapling: bool,
    pub stapling_file: Option<Token>,
    pub stapling_responder: Option<Token>,
    pub stapling_verify: bool,
    pub ocsp: Ocsp,
    pub ocsp_responder: Option<Token>,
    pub ocsp_cache: Option<Arc<Zone>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}
