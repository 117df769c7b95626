//! What is rewritten, and what comes of it.

use crate::EnvChange;

/// What is rewritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The path of the URI for the rules of a server; the file that it leads to for those of a directory.
    pub path: Vec<u8>,
    /// Behind the question mark; `None` without one.
    pub query: Option<Vec<u8>>,
    /// What is behind the file in the path.
    pub path_info: Vec<u8>,
    /// It belongs to a subrequest: rules with the flags NS and R do not apply.
    pub is_subrequest: bool,
    /// It is on its way to a proxy: `path` begins with `proxy:`.
    pub is_proxied: bool,
}

/// What is to be done with a request after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on with the path it had.
    Continue {
        /// Its query, which rules may have changed.
        query: Option<Vec<u8>>,
    },
    /// It is answered with a status.
    Status(u16),
    /// It is answered with a status and the field `Location`.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// The whole URL, escaped.
        location: Vec<u8>,
    },
    /// A back end is asked for a URL.
    Proxy {
        /// The URL, with its query if it `is_raw`.
        url: Vec<u8>,
        /// The query, if the URL is not raw.
        query: Option<Vec<u8>>,
        /// It is sent as it is (flag NE).
        is_raw: bool,
    },
    /// The request begins anew with another URI: new location, new directories, `REDIRECT_` variables.
    Internal {
        /// The path of the URI.
        uri: Vec<u8>,
        /// Its query.
        query: Option<Vec<u8>>,
    },
    /// It goes on with another path.
    Path {
        /// A file's, or a URI's.
        path: Vec<u8>,
        /// Its query.
        query: Option<Vec<u8>>,
        /// How the path is to be understood.
        meaning: Meaning,
    },
}

/// What a path is that the rules of a server have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A file, whatever `DocumentRoot` says.
    File,
    /// A path below `DocumentRoot`; aliases do not count.
    DocumentRoot,
    /// A URI that aliases and all other mappings see (flag PT).
    Uri,
}

/// What rules do besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Variables of the environment, in this order.
    pub env: Vec<EnvChange>,
    /// Cookies that are set, unless one of the same name was set for this request.
    pub cookies: Vec<Cookie>,
    /// Fields of the request for `Vary`.
    pub vary: Vec<Vec<u8>>,
    /// The response's type (flag T).
    pub content_type: Option<Vec<u8>>,
    /// The handler (flag H).
    pub handler: Option<Vec<u8>>,
    /// No rule applies to this request any more (flag END), not after an internal redirect either.
    pub is_last_pass: bool,
}

/// A cookie of the flag CO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its domain.
    pub domain: Vec<u8>,
    /// How long it lives, in minutes; without it until the browser ends.
    pub lifetime_mins: Option<i64>,
    /// Its path; `/` without one.
    pub path: Option<Vec<u8>>,
    /// Over TLS alone.
    pub is_secure: bool,
    /// Not for scripts.
    pub is_http_only: bool,
    /// `SameSite`.
    pub same_site: Option<Vec<u8>>,
}
