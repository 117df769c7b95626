//! What the steps of a location know of its `directory_overrides`.

use super::carried::Carried;
use super::plan::{Ground, Store};
use super::site::Site;
use brisk_apache::directives::Places;
use brisk_conf::Span;
use brisk_server::request::Request;
use std::sync::Arc;

/// The files' name.
pub const FILE: &[u8] = b".htaccess";

/// `directory_overrides on`.
#[derive(Clone)]
pub struct Htaccess {
    /// `AllowOverride`.
    pub classes: Places,
    /// The named location that runs PHP, and where it is named.
    pub php: Option<(Arc<[u8]>, Span)>,
    /// What Apache's own files say.
    pub site: Option<Arc<Site>>,
    /// What files have become so far.
    pub store: Arc<Store>,
}

impl Local {
    /// Whether the location's content is a back end's, so that a request is for no file.
    pub fn asks_back_end(&self, r: &Request) -> bool {
        !self.runs_scripts && r.snap().location(r.route.loc).plan.content.is_some()
    }

    /// Whether a rule with the flag P has led the request here, behind the judgement of its folder.
    pub fn is_asked_by_rule(&self, r: &Request) -> bool {
        let server = r.snap().server(r.route.server);
        self.asks_back_end(r)
            && server.named.values().any(|&id| id == r.route.loc)
            && Carried::of(r).borrow().said.proxy_url.is_some()
    }
}

/// What all steps of one location know.
pub struct Local {
    /// The directive.
    pub htaccess: Htaccess,
    /// What files are added to.
    pub ground: Ground,
    /// The location's content is made by FastCGI: its scripts are files.
    pub runs_scripts: bool,
}
