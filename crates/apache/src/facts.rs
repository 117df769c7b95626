//! What expressions and rewrite rules may ask of the request and of the machine.

use crate::Origin;
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

/// A text that is there already, or was made.
pub type Value<'a> = Cow<'a, [u8]>;

/// A variable of the environment that is set, or with `None` removed.
pub type EnvChange = (Vec<u8>, Option<Vec<u8>>);

/// Why an evaluation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A fact is not known yet. The caller waits for it and evaluates once more from the beginning: an evaluation changes
    /// nothing but its own result.
    Wait,
    /// There will be none. The request is answered with 500, and the text is logged.
    Failed(String),
}

/// What is asked of a path in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileTest {
    /// It is a folder.
    Directory,
    /// It exists.
    Exists,
    /// It is a regular file.
    File,
    /// It is a regular file with content.
    NotEmpty,
    /// It is a symbolic link.
    Link,
    /// One of its bits for execution is set.
    Executable,
}

macro_rules! variables {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $where:ident;)*) => {
        /// A variable with a fixed name, as `%{NAME}`.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Variable {
            $($(#[$doc])* $variant,)*
            /// One of mod_ssl's, by its whole name: `SSL_CLIENT_VERIFY`.
            Ssl(Box<str>),
        }

        const ROWS: &[(&str, Variable, In)] = &[$(($name, Variable::$variant, In::$where),)*];
    };
}

/// Where a variable may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Expressions,
    Rules,
    Both,
}

variables! {
    /// The year with four digits.
    TimeYear = "TIME_YEAR", Both;
    /// 01 to 12.
    TimeMon = "TIME_MON", Both;
    /// 01 to 31.
    TimeDay = "TIME_DAY", Both;
    /// 00 to 23.
    TimeHour = "TIME_HOUR", Both;
    /// 00 to 59.
    TimeMin = "TIME_MIN", Both;
    /// 00 to 59.
    TimeSec = "TIME_SEC", Both;
    /// 0 (Sunday) to 6.
    TimeWday = "TIME_WDAY", Both;
    /// Year to second, without anything between.
    Time = "TIME", Both;
    /// The value of the field `Server`.
    ServerSoftware = "SERVER_SOFTWARE", Both;
    /// The number of Apache's module interface.
    ApiVersion = "API_VERSION", Both;
    /// The field `User-Agent`.
    HttpUserAgent = "HTTP_USER_AGENT", Both;
    /// The field `Proxy-Connection`.
    HttpProxyConnection = "HTTP_PROXY_CONNECTION", Both;
    /// The field `Referer`.
    HttpReferer = "HTTP_REFERER", Both;
    /// The field `Cookie`.
    HttpCookie = "HTTP_COOKIE", Both;
    /// The field `Forwarded`.
    HttpForwarded = "HTTP_FORWARDED", Both;
    /// The field `Host`.
    HttpHost = "HTTP_HOST", Both;
    /// The field `Accept`.
    HttpAccept = "HTTP_ACCEPT", Both;
    /// GET, POST …
    RequestMethod = "REQUEST_METHOD", Both;
    /// http or https.
    RequestScheme = "REQUEST_SCHEME", Both;
    /// The path of the URI, decoded.
    RequestUri = "REQUEST_URI", Both;
    /// The file that the URI leads to; before that is known, the path of the URI.
    RequestFilename = "REQUEST_FILENAME", Both;
    /// The same.
    ScriptFilename = "SCRIPT_FILENAME", Both;
    /// The client's host name, or its address.
    RemoteHost = "REMOTE_HOST", Both;
    /// The client's name by RFC 1413.
    RemoteIdent = "REMOTE_IDENT", Both;
    /// The user who has logged in.
    RemoteUser = "REMOTE_USER", Both;
    /// `ServerAdmin`.
    ServerAdmin = "SERVER_ADMIN", Both;
    /// The server's name.
    ServerName = "SERVER_NAME", Both;
    /// The server's port.
    ServerPort = "SERVER_PORT", Both;
    /// Our side's address.
    ServerAddr = "SERVER_ADDR", Rules;
    /// HTTP/1.1 …
    ServerProtocol = "SERVER_PROTOCOL", Both;
    /// 1001 for HTTP/1.1.
    ServerProtocolVersion = "SERVER_PROTOCOL_VERSION", Expressions;
    /// 1 for HTTP/1.1.
    ServerProtocolVersionMajor = "SERVER_PROTOCOL_VERSION_MAJOR", Expressions;
    /// 1 for HTTP/1.1.
    ServerProtocolVersionMinor = "SERVER_PROTOCOL_VERSION_MINOR", Expressions;
    /// What is behind the file in the path.
    PathInfo = "PATH_INFO", Both;
    /// Behind the question mark.
    QueryString = "QUERY_STRING", Both;
    /// true or false.
    IsSubreq = "IS_SUBREQ", Both;
    /// `DocumentRoot`.
    DocumentRoot = "DOCUMENT_ROOT", Both;
    /// Basic or Digest.
    AuthType = "AUTH_TYPE", Both;
    /// The first line of the request.
    TheRequest = "THE_REQUEST", Both;
    /// The response's type.
    ContentType = "CONTENT_TYPE", Expressions;
    /// The handler's name.
    Handler = "HANDLER", Expressions;
    /// The request's name in the error log.
    RequestLogId = "REQUEST_LOG_ID", Expressions;
    /// The connection's name in the error log.
    ConnLogId = "CONN_LOG_ID", Expressions;
    /// The user who owns the file.
    ScriptUser = "SCRIPT_USER", Both;
    /// The group that owns the file.
    ScriptGroup = "SCRIPT_GROUP", Both;
    /// The URI of the request that server-side includes belong to.
    DocumentUri = "DOCUMENT_URI", Expressions;
    /// When the file was changed, as [`Variable::Time`] is written.
    LastModified = "LAST_MODIFIED", Expressions;
    /// The prefix of the URI that an `Alias` or a home folder stands for.
    ContextPrefix = "CONTEXT_PREFIX", Both;
    /// The folder of that prefix.
    ContextDocumentRoot = "CONTEXT_DOCUMENT_ROOT", Both;
    /// The response's status; empty until it is set.
    RequestStatus = "REQUEST_STATUS", Expressions;
    /// The client's address.
    RemoteAddr = "REMOTE_ADDR", Both;
    /// The client's port.
    RemotePort = "REMOTE_PORT", Both;
    /// The address of the connection's other side, whatever `RemoteIPHeader` says.
    ConnRemoteAddr = "CONN_REMOTE_ADDR", Both;
    /// on or off.
    Https = "HTTPS", Both;
    /// on or off.
    Ipv6 = "IPV6", Both;
    /// on or off.
    Http2 = "HTTP2", Expressions;
}

impl Variable {
    /// The variable with this name in an expression, whatever its case.
    pub fn of_expression(name: &str) -> Option<Variable> {
        Variable::named(name, In::Rules).or_else(|| {
            let is_ssl = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("SSL_"));
            is_ssl.then(|| Variable::Ssl(name.into()))
        })
    }

    /// The variable with this name in a rewrite rule, whatever its case.
    pub fn of_rule(name: &str) -> Option<Variable> {
        Variable::named(name, In::Expressions)
    }

    fn named(name: &str, elsewhere: In) -> Option<Variable> {
        let row = |(known, _, place): &&(&str, Variable, In)| {
            *place != elsewhere && known.eq_ignore_ascii_case(name)
        };
        ROWS.iter().find(row).map(|(_, variable, _)| variable.clone())
    }

    /// The request field that the variable is, and that a response may vary by. `Host` is none: every response varies by it.
    pub fn field(&self) -> Option<&'static str> {
        Some(match self {
            Variable::HttpUserAgent => "User-Agent",
            Variable::HttpProxyConnection => "Proxy-Connection",
            Variable::HttpReferer => "Referer",
            Variable::HttpCookie => "Cookie",
            Variable::HttpForwarded => "Forwarded",
            Variable::HttpAccept => "Accept",
            _ => return None,
        })
    }
}

/// What `%t`, `%D`, `%l`, `%i` and `%b` are in `Header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// When the request came, in microseconds since 1970.
    RequestTime,
    /// Microseconds since then.
    Duration,
    /// The machine's load: three numbers, with slashes between.
    Load,
    /// The percentage of workers that are idle.
    Idle,
    /// The percentage of those that are busy.
    Busy,
}

/// A request, and the machine that serves it. What does not exist is an empty text, as in Apache, unless it is an `Option`.
pub trait Facts {
    /// Counts bytes that are made of templates or that a pattern looks at, for [`crate::Work`].
    ///
    /// # Errors
    /// There are too many for one request.
    fn spend(&self, bytes: usize) -> Result<(), Stop>;

    /// Whether the request is one of `brisk why`: lines that decide then call [`Facts::tell`].
    fn is_asked_why(&self) -> bool {
        false
    }

    /// A line says whether it applies, and what it has come to. An evaluation that begins anew says it again.
    fn tell(&self, _: &Origin, _applies: bool, _: fmt::Arguments<'_>) {}

    /// A variable with a fixed name.
    fn variable(&self, variable: &Variable) -> Result<Value<'_>, Stop>;

    /// A field of the request; several with one name are joined by `, `.
    fn request_field(&self, name: &[u8]) -> Option<Value<'_>>;

    /// A field of the response, of the table that is sent with errors if the other has it not.
    fn response_field(&self, name: &[u8]) -> Option<Value<'_>>;

    /// A note that modules leave for each other.
    fn note(&self, name: &[u8]) -> Option<Value<'_>>;

    /// A variable of the request's environment (`SetEnv`, `SetEnvIf`, `[E=…]`).
    fn env(&self, name: &[u8]) -> Option<Value<'_>>;

    /// A variable of the server's own environment.
    fn process_env(&self, name: &[u8]) -> Option<Value<'_>>;

    /// The client's address.
    fn client(&self) -> IpAddr;

    /// A number for `Header`, as text.
    fn measure(&self, measure: Measure) -> Value<'_>;

    /// The client's host name, if its address leads to a name that leads back to the address.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it was looked up.
    fn client_host(&self) -> Result<Option<Value<'_>>, Stop>;

    /// Whether the client's address is one of a host's.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it was looked up.
    fn is_address_of(&self, host: &[u8]) -> Result<bool, Stop>;

    /// Whether the user who has logged in is in a group (`AuthGroupFile`).
    ///
    /// # Errors
    /// [`Stop::Wait`] until the file was read; [`Stop::Failed`] if there is none.
    fn is_in_group(&self, group: &[u8]) -> Result<bool, Stop>;

    /// Whether a path of the file system is what is asked for. What cannot be looked at is not.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it was looked at.
    fn file(&self, path: &[u8], test: FileTest) -> Result<bool, Stop>;

    /// The content of a file, at most 10 MiB; empty if it cannot be read.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it was read.
    fn content(&self, path: &[u8]) -> Result<Value<'_>, Stop>;

    /// The size of a regular file; 0 if it is none.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it was looked at.
    fn size(&self, path: &[u8]) -> Result<u64, Stop>;

    /// The status that a subrequest for a URI of this server would get.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it is known.
    fn status_of_uri(&self, uri: &[u8]) -> Result<u16, Stop>;

    /// The status that a subrequest for a file would get; 404 if it is not there.
    ///
    /// # Errors
    /// [`Stop::Wait`] until it is known.
    fn status_of_file(&self, path: &[u8]) -> Result<u16, Stop>;

    /// Whether a URL with this host and port leads to the virtual host that serves the request.
    fn is_own_host(&self, host: &[u8], port: u16) -> bool;

    /// What a `RewriteMap` has for a key.
    ///
    /// # Errors
    /// [`Stop::Wait`] until the map was read; [`Stop::Failed`] if there is no such map.
    fn map(&self, map: &[u8], key: &[u8]) -> Result<Option<Value<'_>>, Stop>;

    /// A variable as a subrequest for a URI would have it (`%{LA-U:…}`) or for a file (`%{LA-F:…}`).
    ///
    /// # Errors
    /// [`Stop::Wait`] until it is known.
    fn look_ahead(&self, target: &[u8], is_file: bool, variable: &Variable) -> Result<Value<'_>, Stop>;
}
