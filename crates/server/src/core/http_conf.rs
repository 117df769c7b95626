//! What `ngx_http_core_module` keeps per block.

use super::type_map::TypeMap;
use crate::conf::ids::LocationId;
use crate::purity::{Declared, Effects};
use brisk_conf::Context;
use brisk_host::log::{LogLevel, LogTo};
use brisk_host::module::ModuleConf;
use brisk_host::temp_file::TempPath;
use brisk_host::vars::Template;
use brisk_quic::Retry;
use brisk_resolver::Resolver;
use std::sync::Arc;
use std::time::Duration;

/// Where files of a location are: `root` or `alias`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Root {
    /// As written, with variables.
    pub path: Template,
    /// `alias`: the location's own text is replaced by the path. For regular expressions the path is the whole.
    /// nginx compiles both into one field; the two map a URI in different ways, so they are told apart here.
    pub alias: Option<AliasOf>,
}

/// What `alias` replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AliasOf {
    /// The first bytes of the URI.
    Prefix(usize),
    /// The whole URI (regular expression locations).
    Whole,
}

/// Where an `error_page` leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageTarget {
    /// A URI of this server, or (if it starts with a scheme) a redirect.
    Uri(Template),
    /// A named location.
    Named(Box<[u8]>),
}

/// One `error_page`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// Statuses that it is for.
    /// 404 and 500 in one directive are one entry: pages are found by looking through the list, which is
    /// short.
    pub codes: Box<[u16]>,
    /// `=code`, `=` (take the target's), or nothing (keep the original).
    pub overwrite: Option<Option<u16>>,
    /// Where they lead.
    pub target: PageTarget,
    /// A file of a folder names it: it leads where clients may go.
    pub is_of_file: bool,
}

/// `server_tokens`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServerTokens {
    /// `on`: name and version.
    #[default]
    On,
    /// `off`: the name alone.
    Off,
    /// `build`: with the name of the build.
    Build,
}

/// `if_modified_since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IfModifiedSince {
    /// `off`: the field is ignored.
    #[default]
    Off,
    /// `exact`: the times must be equal.
    Exact,
    /// `before`: the file must not be newer.
    Before,
}

/// `satisfy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Satisfy {
    /// `all`: every handler of the access phase must allow.
    #[default]
    All,
    /// `any`: one of them is enough.
    Any,
}

/// `lingering_close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LingeringClose {
    /// `off`: the connection is closed at once.
    #[default]
    Off,
    /// `on`: bytes that may still come are read and dropped.
    On,
    /// `always`: in any case.
    Always,
}

/// `client_body_in_file_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BodyFile {
    /// `off`.
    #[default]
    Off,
    /// Always in a file, which stays.
    Keep,
    /// Always in a file, which goes with the request.
    Clean,
}

impl CoreConf {
    /// Whether some error log wants messages of this level.
    pub fn logs(&self, level: LogLevel) -> bool {
        self.error_log.iter().any(|to| to.level >= level)
    }

    /// What the core's own steps depend on and do in a block, beyond what their accessors record as they run.
    ///
    /// Step by step: `keepalive_disable`, `msie_refresh`, `error_page`, `limit_rate`, `root`, `client_body_early_read` and
    /// `early_hints` read the request through accessors and templates; `absolute_redirect`, `port_in_redirect`,
    /// `server_name_in_redirect`, `merge_slashes`, `limit_except` (for GET), captures of `server_name` and the choice of a
    /// location follow from socket, host and target. Limits of a connection (`keepalive_requests`, `keepalive_time`,
    /// a drain, HTTP/2's) are checked again before a prepared answer is sent. A request that is refused before
    /// the phases, or fails in them, is noted by [`fail`](crate::phases::fail).
    /// A step that is forgotten here would give one client's answer to another one. The difference test looks
    /// for that.
    pub(crate) fn declares(&self) -> Declared {
        let mut effects = Effects::NONE;
        // The option stays with the connection, so the next response would be affected by an answer that was
        // only copied.
        if !self.tcp_nodelay {
            effects = effects.or(Effects::CONNECTION);
        }
        // Each request has one of its own. A prepared answer would be sent without it.
        if self.post_action.is_some() {
            effects = effects.or(Effects::ASKS);
        }
        Declared::RECORDED.does(effects)
    }

    /// `client_body_temp_path`, or its default in the folder `state`.
    pub fn body_temp_path(&self, state: &str) -> Arc<TempPath> {
        self.client_body_temp_path.clone().unwrap_or_else(|| Arc::new(TempPath::client_body(state)))
    }
}

/// `limit_rate`, `limit_rate_after`: bytes per second, or a template that gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many bytes per second; 0: no limit.
    Bytes(u64),
    /// With variables.
    Template(Template),
}

/// `disable_symlinks`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Symlinks {
    /// Always.
    /// Nothing is walked: open(2) takes the path as a whole.
    #[default]
    Follow,
    /// No link is followed.
    Refuse {
        /// The beginning of paths that may have links.
        from: Option<Template>,
    },
    /// A link is followed if its owner is its target's.
    SameOwner {
        /// The beginning of paths that may have any links.
        from: Option<Template>,
    },
}

impl Default for Rate {
    fn default() -> Rate {
        Rate::Bytes(0)
    }
}

impl Symlinks {
    /// True if paths must be walked component by component.
    pub fn is_guarded(&self) -> bool {
        *self != Symlinks::Follow
    }
}

/// `limit_except`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitExcept {
    /// Methods that are not limited.
    pub methods: Box<[Box<[u8]>]>,
    /// The block's configuration.
    pub block: LocationId,
}

/// `charset` and `source_charset` live with their module; this is what a response carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charset(pub Arc<[u8]>);

/// Directives of `http`, `server` and `location`.
#[derive(Clone, Debug, Default)]
pub struct CoreConf {
    /// `absolute_redirect`.
    pub absolute_redirect: bool,
    /// `chunked_transfer_encoding`.
    pub chunked_transfer_encoding: bool,
    /// `client_body_buffer_size`, in bytes.
    pub client_body_buffer_size: u64,
    /// `client_body_early_read`.
    pub client_body_early_read: Arc<[Template]>,
    /// `client_body_in_file_only`.
    pub client_body_in_file_only: BodyFile,
    /// `None`: `client_body_temp` in the prefix.
    pub client_body_temp_path: Option<Arc<TempPath>>,
    /// `client_body_timeout`.
    pub client_body_timeout: Duration,
    /// `client_header_buffer_size`, in bytes.
    pub client_header_buffer_size: u64,
    /// `client_header_timeout`.
    pub client_header_timeout: Duration,
    /// `client_max_body_size`, in bytes.
    pub client_max_body_size: u64,
    /// `default_type`.
    pub default_type: Arc<[u8]>,
    /// Hints are sent if one of these is neither empty nor `0`.
    pub early_hints: Arc<[Template]>,
    /// Values of `Link` fields to hint at.
    pub early_hints_add: Arc<[Template]>,
    /// `early_hints_learn`.
    pub early_hints_learn: bool,
    /// `error_log`.
    pub error_log: Arc<[LogTo]>,
    /// `error_page`.
    pub error_pages: Arc<[ErrorPage]>,
    /// `etag`.
    pub etag: bool,
    /// Directives of HTTP/2.
    pub http2: Http2Conf,
    /// See [`Http3Conf`].
    pub http3: Http3Conf,
    /// Requests of HTTP/0.9 are answered.
    pub allow_http09: bool,
    /// `if_modified_since`.
    pub if_modified_since: IfModifiedSince,
    /// `ignore_invalid_headers`.
    pub ignore_invalid_headers: bool,
    /// `internal`.
    pub internal: bool,
    /// Browsers that get no keep-alive: `msie6`, `safari`.
    /// As two flags, since each depends on another part of the request.
    pub keepalive_disable_msie6: bool,
    /// `keepalive_disable safari`.
    pub keepalive_disable_safari: bool,
    /// `keepalive_min_timeout`.
    pub keepalive_min_timeout: Duration,
    /// `keepalive_requests`.
    pub keepalive_requests: u64,
    /// `keepalive_time`.
    pub keepalive_time: Duration,
    /// `keepalive_timeout`.
    pub keepalive_timeout: Duration,
    /// The second parameter of `keepalive_timeout`, in seconds.
    /// Told to the client only; the server keeps to `keepalive_timeout`.
    pub keepalive_header: Option<u64>,
    /// `large_client_header_buffers`: number and bytes of each.
    pub large_client_header_buffers: (u64, u64),
    /// `limit_except`.
    pub limit_except: Option<Arc<LimitExcept>>,
    /// `limit_rate`.
    pub limit_rate: Rate,
    /// `limit_rate_after`.
    pub limit_rate_after: Rate,
    /// `lingering_close`.
    pub lingering_close: LingeringClose,
    /// `lingering_time`.
    pub lingering_time: Duration,
    /// `lingering_timeout`.
    pub lingering_timeout: Duration,
    /// `log_not_found`.
    pub log_not_found: bool,
    /// `log_subrequest`.
    pub log_subrequest: bool,
    /// `max_headers`.
    pub max_headers: u64,
    /// `None`: no limit but that of [`brisk_http::range::parse_ranges`].
    pub max_ranges: Option<usize>,
    /// `merge_slashes`.
    pub merge_slashes: bool,
    /// `port_in_redirect`.
    pub port_in_redirect: bool,
    /// `post_action`.
    pub post_action: Option<Arc<[u8]>>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,
    /// `msie_refresh`.
    pub msie_refresh: bool,
    /// `reset_timedout_connection`.
    pub reset_timedout_connection: bool,
    /// `resolver`.
    pub resolver: Option<Arc<Resolver>>,
    /// How long a name may take to be looked up.
    pub resolver_timeout: Duration,
    /// `root`, or `alias`.
    pub root: Arc<Root>,
    /// `satisfy`.
    pub satisfy: Satisfy,
    /// `send_timeout`.
    pub send_timeout: Duration,
    /// `sendfile`.
    pub sendfile: bool,
    /// Zero: no limit.
    pub sendfile_max_chunk: u64,
    /// `server_name_in_redirect`.
    pub server_name_in_redirect: bool,
    /// `server_tokens`.
    pub server_tokens: ServerTokens,
    /// Bytes of a subrequest's answer that is to be a value.
    pub subrequest_output_buffer_size: u64,
    /// `disable_symlinks`.
    pub symlinks: Arc<Symlinks>,
    /// `tcp_nodelay`.
    pub tcp_nodelay: bool,
    /// `types`.
    pub types: Arc<TypeMap>,
    /// `underscores_in_headers`.
    pub underscores_in_headers: bool,
    /// Owned by the rewrite module; whoever reads variables looks here.
    /// A warning for each use of an empty variable; which module made the variable does not matter.
    pub uninitialized_variable_warn: bool,
    /// `auth_delay`.
    pub auth_delay: Duration,
    /// The text of the location this block belongs to, for `alias`.
    pub location_text: Arc<[u8]>,
    /// Whether that location is a regular expression.
    pub location_is_regex: bool,
    /// Which of `root` and `alias` was seen in this block, for the duplicate check.
    pub(super) root_here: bool,
}

impl ModuleConf for CoreConf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    // `error_log`, `resolver` and what sockets have in common.
    fn is_for_all_protocols(&self) -> bool {
        true
    }

    // Only these two are not inherited. Everything else is shared with the outer block until it is changed.
    fn must_enter(&self, _: Context) -> bool {
        self.limit_except.is_some() || self.root_here
    }

    fn enter(&mut self, into: Context) -> bool {
        // `internal` is inherited, as nginx does it: what lies inside of a closed location is closed.
        // What is compiled late has its requests after the block around was chosen by the method.
        if !Context::LOCATION_IF.or(Context::LIMIT_EXCEPT).has(into) {
            self.limit_except = None;
        }
        self.root_here = false;
        true
    }
}

/// HTTP/2, as a part of [`CoreConf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Http2Conf {
    /// `http2 on`. Where it is off, `listen … http2` may still allow it.
    pub enabled: bool,
    /// `http2_upgrade`: without TLS also by `Upgrade: h2c`.
    pub upgrade: bool,
    /// Streams of one connection at a time.
    pub max_concurrent_streams: u32,
    /// Bytes of a request body that a client may send before anybody reads it.
    pub body_preread_size: u32,
    /// Most bytes of a DATA frame.
    pub chunk_size: u32,
}

/// HTTP/3, as a part of [`CoreConf`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Http3Conf {
    /// `http3 on`: requests that come over QUIC are answered.
    pub enabled: bool,
    /// Streams of one connection at a time.
    pub max_concurrent_streams: u32,
    /// Bytes of a stream that a client may send before anybody reads them.
    pub stream_buffer_size: u32,
    /// `quic_retry`.
    pub retry: Retry,
    /// `quic_gso`: several datagrams may leave in one system call.
    pub gso: bool,
}
