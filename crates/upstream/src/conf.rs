//! What all `*_pass` modules can be told: time-outs, buffers, retries, which fields pass. One definition, under each
//! module's prefix.

use brisk_conf::{Context, Diag, Span};
use brisk_http::HeaderId;
use brisk_server::core::TempPath;
use brisk_server::module::ModuleConf;
use brisk_server::request::Request;
use brisk_server::vars::Template;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bits of `*_next_upstream` and `*_cache_use_stale`.
/// One set for both: a cache asks of a failure what a retry asks.
pub mod next {
    /// A connection cannot be made, or fails before a head has come.
    pub const ERROR: u32 = 1 << 0;
    /// The peer takes too long.
    pub const TIMEOUT: u32 = 1 << 1;
    /// The peer's answer is no answer.
    pub const INVALID_HEADER: u32 = 1 << 2;
    /// 500.
    pub const HTTP_500: u32 = 1 << 3;
    /// 502.
    pub const HTTP_502: u32 = 1 << 4;
    /// 503.
    pub const HTTP_503: u32 = 1 << 5;
    /// 504.
    pub const HTTP_504: u32 = 1 << 6;
    /// 403.
    pub const HTTP_403: u32 = 1 << 7;
    /// 404.
    pub const HTTP_404: u32 = 1 << 8;
    /// 429.
    pub const HTTP_429: u32 = 1 << 9;
    /// Requests of methods such as `POST`, which may have been carried out, go on, too.
    pub const NON_IDEMPOTENT: u32 = 1 << 10;

    /// What `*_next_upstream` calls it.
    pub fn word(bit: u32) -> &'static str {
        match bit {
            ERROR => "error",
            TIMEOUT => "timeout",
            INVALID_HEADER => "invalid_header",
            HTTP_500 => "http_500",
            HTTP_502 => "http_502",
            HTTP_503 => "http_503",
            HTTP_504 => "http_504",
            HTTP_403 => "http_403",
            HTTP_404 => "http_404",
            HTTP_429 => "http_429",
            _ => "non_idempotent",
        }
    }

    /// The bit of a status that may send a request to the next server.
    pub fn of_status(status: u16) -> Option<u32> {
        Some(match status {
            403 => HTTP_403,
            404 => HTTP_404,
            429 => HTTP_429,
            500 => HTTP_500,
            502 => HTTP_502,
            503 => HTTP_503,
            504 => HTTP_504,
            _ => return None,
        })
    }
}

/// `*_bind`.
#[derive(Clone)]
pub struct Bind {
    /// The address; empty: the kernel's choice.
    pub address: Template,
    /// The address may be another machine's (`IP_TRANSPARENT`).
    pub transparent: bool,
}

/// `*_store`.
#[derive(Clone)]
pub enum Store {
    /// Nothing is stored.
    Off,
    /// Where `root` or `alias` puts the URI.
    On,
    /// At this path.
    Path(Arc<Template>),
}

/// A module's configuration that has [`Settings`] in it.
pub trait HasSettings: ModuleConf {
    /// The settings of the block that is being read.
    fn settings(&mut self) -> &mut Settings;
}

/// The configuration of a module with a `*_pass` directive in one block.
///
/// Settings and what the module adds are inherited by inner blocks. Where requests go is not: an inner location does something
/// else. Blocks of `if` and `limit_except` are still the same location, and keep it.
#[derive(Clone)]
pub struct PassConf<P, M> {
    /// What all such modules can be told.
    pub settings: Settings,
    /// What the `*_pass` directive names; `None` without one.
    pub pass: Option<P>,
    /// The module's own directives.
    pub module: M,
}

impl<P, M> PassConf<P, M> {
    /// Before any directive: the module's defaults, and no back end.
    pub fn new(settings: Settings, module: M) -> PassConf<P, M> {
        PassConf { settings, pass: None, module }
    }
}

impl<P, M> HasSettings for PassConf<P, M>
where
    P: Clone + Send + Sync + 'static,
    M: Clone + Send + Sync + 'static,
{
    fn settings(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl<P, M> ModuleConf for PassConf<P, M>
where
    P: Clone + Send + Sync + 'static,
    M: Clone + Send + Sync + 'static,
{
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        // Only blocks that would lose something are copied.
        self.pass.is_some() && into == Context::LOCATION
    }

    fn enter(&mut self, _: Context) -> bool {
        self.pass = None;
        true
    }
}

/// Names of fields, in lower case.
/// Shared: a location that says nothing of its own has its parent's list.
pub type Names = Arc<Vec<Box<[u8]>>>;

/// See the module's head.
#[derive(Clone)]
pub struct Settings {
    /// `*_connect_timeout`.
    pub connect_timeout: Duration,
    /// `*_send_timeout`: between two writes.
    pub send_timeout: Duration,
    /// `*_read_timeout`: between two reads.
    pub read_timeout: Duration,
    /// Bits of [`next`].
    pub next_upstream: u32,
    /// 0: as many as there are servers.
    pub next_upstream_tries: u64,
    /// `*_next_upstream_timeout`; zero: no limit.
    pub next_upstream_timeout: Duration,
    /// `*_buffering`: answers are read ahead of slow clients.
    pub buffering: bool,
    /// `*_request_buffering`: bodies are read as a whole before a peer is asked.
    /// nginx's default. A client that sends slowly then holds no place at a back end, and a second peer can
    /// be given the same body.
    pub request_buffering: bool,
    /// For the response head.
    pub buffer_size: u64,
    /// Number and size.
    pub buffers: (u64, u64),
    /// `*_busy_buffers_size`, in bytes; only checked.
    pub busy_buffers_size: Option<u64>,
    /// `*_max_temp_file_size`, in bytes; 0: no file.
    pub max_temp_file_size: Option<u64>,
    /// `*_temp_file_write_size`, in bytes.
    pub temp_file_write_size: Option<u64>,
    /// Where one of these sizes was said last.
    pub sizes_at: Option<Span>,
    /// `None`: in the folder for state, see [`Settings::temp_path`].
    pub temp_path: Option<Arc<TempPath>>,
    /// Bytes per second.
    pub limit_rate: Option<Arc<Template>>,
    /// Bits of [`ignored`](crate::origin::ignored).
    pub ignore_headers: u32,
    /// `*_hide_header` and `*_pass_header`.
    pub hide: Names,
    /// `*_pass_header`.
    pub pass: Names,
    /// `*_pass_request_headers`.
    pub pass_request_headers: bool,
    /// `*_pass_request_body`.
    pub pass_request_body: bool,
    /// `*_pass_trailers`.
    pub pass_trailers: bool,
    /// `*_ignore_client_abort`: a request goes on when its client is gone.
    pub ignore_client_abort: bool,
    /// `*_intercept_errors`: `error_page` holds for a peer's errors, too.
    pub intercept_errors: bool,
    /// The server's own 404 takes the place of a back end's, with or without an `error_page`.
    pub intercept_404: bool,
    /// `*_force_ranges`.
    pub force_ranges: bool,
    /// `*_bind`; `None`: the kernel's choice.
    pub bind: Option<Arc<Bind>>,
    /// `*_socket_keepalive`.
    pub socket_keepalive: bool,
    /// 0: the kernel's choice.
    pub socket_rcvbuf: u64,
    /// `*_socket_sndbuf`, in bytes; 0: the kernel's choice.
    pub socket_sndbuf: u64,
    /// `*_store`.
    pub store: Store,
    /// `*_store_access`: a file's rights.
    pub store_access: u32,
    /// Fields that are never passed on unless `*_pass_header` says so; the module's own list.
    pub hidden: &'static [&'static str],
    /// Where temporary files go unless a directive says: below the prefix.
    pub temp_name: &'static str,
    /// Known fields that are hidden; filled at the first use.
    /// Made when the first answer comes, when `hide` and `pass` do not change any more. What a module puts
    /// into a plan is a clone that was made before.
    hidden_ids: OnceLock<u64>,
}

impl Settings {
    /// nginx's defaults. `hidden` and `temp_name` are the module's.
    pub fn new(hidden: &'static [&'static str], temp_name: &'static str) -> Settings {
        let minute = Duration::from_mins(1);
        Settings {
            connect_timeout: minute,
            send_timeout: minute,
            read_timeout: minute,
            next_upstream: next::ERROR | next::TIMEOUT,
            next_upstream_tries: 0,
            next_upstream_timeout: Duration::ZERO,
            buffering: true,
            request_buffering: true,
            buffer_size: 4096,
            buffers: (8, 4096),
            busy_buffers_size: None,
            max_temp_file_size: None,
            temp_file_write_size: None,
            sizes_at: None,
            temp_path: None,
            limit_rate: None,
            ignore_headers: 0,
            hide: Arc::default(),
            pass: Arc::default(),
            pass_request_headers: true,
            pass_request_body: true,
            pass_trailers: false,
            ignore_client_abort: false,
            intercept_errors: false,
            intercept_404: false,
            force_ranges: false,
            bind: None,
            socket_keepalive: false,
            socket_rcvbuf: 0,
            socket_sndbuf: 0,
            store: Store::Off,
            store_access: 0o600,
            hidden,
            temp_name,
            hidden_ids: OnceLock::new(),
        }
    }

    /// The larger of the head's buffer and one of the others.
    fn largest_buffer(&self) -> u64 {
        self.buffer_size.max(self.buffers.1)
    }

    /// Bytes of an answer that may wait in memory.
    pub fn memory_bytes_max(&self) -> usize {
        // A bound that an address space can hold: the numbers are the configuration's and may be anything.
        (self.buffers.0.saturating_mul(self.buffers.1)).min(1 << 40) as usize
    }

    /// Bytes of an answer that may wait in a file; 0: no file.
    pub fn file_bytes_max(&self) -> u64 {
        // nginx's defaults for this one and the next follow from other directives: they are made when they are
        // asked for, so that rows may stand in any order.
        // Limits follow from what was configured, not from what the disk has: a full disk is an error of the
        // one answer.
        self.max_temp_file_size.unwrap_or(1 << 30)
    }

    /// Bytes that are written to the file at a time.
    pub fn file_write_bytes(&self) -> usize {
        self.temp_file_write_size.unwrap_or(2 * self.largest_buffer()) as usize
    }

    /// `*_temp_path`, or its default in the folder `state`.
    pub fn temp_path(&self, state: &str) -> Arc<TempPath> {
        self.temp_path.clone().unwrap_or_else(|| {
            Arc::new(TempPath { path: format!("{state}{}", self.temp_name), levels: vec![1, 2] })
        })
    }

    /// Whether a field of an answer stays here.
    pub fn hides(&self, name: &[u8]) -> bool {
        let is = |have: &[u8]| have.eq_ignore_ascii_case(name);
        // `hide` wins over `pass`, as in nginx: naming a field in both hides it.
        if self.hide.iter().any(|have| is(have)) {
            return true;
        }
        self.hidden.iter().any(|have| is(have.as_bytes())) && !self.pass.iter().any(|have| is(have))
    }

    /// As [`Settings::hides`], where the name's id is known.
    pub fn hides_field(&self, id: HeaderId, name: &[u8]) -> bool {
        // One bit per known field: answers have a dozen fields each, and the lists are compared once per
        // location.
        let known = *self.hidden_ids.get_or_init(|| {
            let hidden = HeaderId::known().iter().filter(|id| self.hides(id.name().as_bytes()));
            hidden.fold(0, |all, id| all | id.bit())
        });
        if id == HeaderId::Other { self.hides(name) } else { known & id.bit() != 0 }
    }

    /// Whether a field that means something to the engine is to be ignored.
    pub fn ignores(&self, bit: u32) -> bool {
        self.ignore_headers & bit != 0
    }

    /// `*_limit_rate` for a request; 0: no limit.
    pub fn rate(&self, r: &Request) -> u64 {
        let Some(template) = &self.limit_rate else { return 0 };
        // The parser of sizes reads tokens; this one stands nowhere.
        let token = brisk_conf::Token {
            value: template.eval(r).into(),
            span: Span { file: brisk_conf::FileId(0), start: 0, end: 0 },
            quoted: false,
        };
        // A variable that is no size limits nothing, as in nginx.
        brisk_conf::value::size(&token).unwrap_or(0)
    }

    /// Checks what several directives say together; `prefix` is the module's. For [`Module::finish`].
    ///
    /// [`Module::finish`]: brisk_server::module::Module::finish
    pub fn check(&self, prefix: &str) -> Result<(), Diag> {
        let (count, size) = self.buffers;
        let largest = self.largest_buffer();
        let busy = self.busy_buffers_size.unwrap_or(2 * largest);
        // Made for an error alone: every block of every host is checked.
        let of = || {
            format!(
                "the maximum of the value of \"{prefix}_buffer_size\" and one of the \"{prefix}_buffers\""
            )
        };
        // nginx's checks, in its words. Buffers are one sum here, but a configuration that nginx refuses must
        // not be found out only when it goes back.
        let text = if count < 2 {
            format!("there must be at least 2 \"{prefix}_buffers\"")
        } else if busy < largest {
            format!("\"{prefix}_busy_buffers_size\" must be equal to or greater than {}", of())
        } else if busy > (count - 1).saturating_mul(size) {
            format!(
                "\"{prefix}_busy_buffers_size\" must be less than the size of all \"{prefix}_buffers\" minus one buffer"
            )
        } else if self.temp_file_write_size.is_some_and(|write| write < largest) {
            format!("\"{prefix}_temp_file_write_size\" must be equal to or greater than {}", of())
        } else if self.max_temp_file_size.is_some_and(|max| max != 0 && max < largest) {
            format!(
                "\"{prefix}_max_temp_file_size\" must be equal to zero to disable temporary files usage or must be equal to or greater than {}",
                of()
            )
        } else {
            return Ok(());
        };
        let help = format!(
            "as it stands: {prefix}_buffer_size {}; {prefix}_buffers {count} {size}; {prefix}_busy_buffers_size {busy};",
            self.buffer_size
        );
        Err(self.sizes_at.map_or_else(|| Diag::global(&*text), |at| Diag::emerg(at, &*text)).help(help))
    }
}
