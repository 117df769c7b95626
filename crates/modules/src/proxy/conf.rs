//! What the directives of a block come to.

use super::cookie::CookieRules;
use super::headers::SetHeaders;
use super::pass::Pass;
use super::redirect::Redirects;
use crate::ssl::peer::PeerTls;
use brisk_http::Version;
use brisk_server::module::ModuleConf;
use brisk_server::vars::Template;
use brisk_upstream::conf::{PassConf, Settings};
use std::sync::Arc;

/// Fields of answers that stay here unless told otherwise.
// nginx's list. `Date` and `Server` are told by the server that the client talks to; the others are orders to it.
const HIDDEN: &[&str] = &[
    "Date",
    "Server",
    "X-Pad",
    "X-Accel-Expires",
    "X-Accel-Redirect",
    "X-Accel-Limit-Rate",
    "X-Accel-Buffering",
    "X-Accel-Charset",
];

// The pass is not inherited by inner locations, the rest is: `PassConf` has that rule for all such modules.
pub(super) type Conf = PassConf<Arc<Pass>, Own>;

/// The module's own directives.
#[derive(Clone)]
pub(super) struct Own {
    /// `proxy_http_version`.
    pub version: Version,
    /// `proxy_set_header`, as written.
    pub set_headers: SetHeaders,
    /// `proxy_set_body`.
    pub set_body: Option<Arc<Template>>,
    /// `proxy_method`.
    pub method: Option<Arc<Template>>,
    pub redirects: Redirects,
    pub cookies: CookieRules,
    /// Made when the block is complete.
    pub tls: Option<Arc<PeerTls>>,
}

/// Before any directive.
pub(super) fn initial() -> Arc<dyn ModuleConf> {
    let own = Own {
        version: Version::Http11,
        set_headers: SetHeaders::default(),
        set_body: None,
        method: None,
        // Follows from `proxy_pass`, which may stand behind it: worked out in `install`.
        redirects: Redirects::Default,
        cookies: CookieRules::default(),
        tls: None,
    };
    Arc::new(Conf::new(Settings::new(HIDDEN, "proxy_temp"), own))
}
