//! Where a request is led: the URI as rewrites and redirects have made it, the location, and the place in the phases.

use crate::conf::ids::{LocationId, ServerId};
use crate::limits::URI_CHANGES_MAX;
use brisk_http::Method;
use std::mem::take;

/// nginx's phases. `post_rewrite` and `post_access` are steps of [`run`](crate::phases::run).
// In the order in which they are gone through; `hint_before_waiting` compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Phase {
    /// `client_body_early_read`; not a phase of nginx's, but what it does before the first one.
    #[default]
    EarlyBody,
    /// `realip`: who the client is.
    PostRead,
    /// The server's own `rewrite`, `return`, `if` and `set`.
    ServerRewrite,
    /// The location is looked for.
    FindConfig,
    /// The location's `rewrite`, `return`, `if` and `set`; if they have changed the URI, the location is looked for again.
    Rewrite,
    /// `limit_req`, `limit_conn`, overload.
    PreAccess,
    /// `allow`, `deny`, `auth_…`, as `satisfy` says. Subrequests are not asked, but for those that are judged as a client.
    Access,
    /// `try_files`, `mirror`.
    PreContent,
    /// The handler that owns the location, or the chain of those that look for a file.
    Content,
    /// The response is there; a filter may have to wait.
    Filters,
}

/// Where in the phases a request is; a handler that waited is asked again at the same place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    /// The phase.
    pub phase: Phase,
    /// Index of the handler within the phase.
    pub handler: u16,
    /// `satisfy any`: the worst refusal so far.
    /// 401 is worse than 403: it can be mended by a password.
    pub(crate) denied: u16,
}

impl Cursor {
    /// At the beginning of a phase.
    pub fn at(phase: Phase) -> Cursor {
        Cursor { phase, ..Cursor::default() }
    }
}

/// What a request is made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Its answer.
    #[default]
    Answer,
    /// Its status: how it would be answered is all that is wanted ([`Parent::look_up`](crate::subrequest::Parent::look_up)). It is judged
    /// as a client's request is, and ends before there is content.
    LookUp,
}

/// See the module's head. The flags are nginx's and independent of each other: a rewrite changes the URI and keeps the
/// location valid, `rewrite … break` does the contrary, a named location keeps the URI as sent, `set $args` does not.
#[derive(Clone)]
pub struct Route {
    /// The method that handlers act on; an error page turns it into GET.
    pub method: Method,
    /// Decoded and normalised; changed by rewrites and internal redirects.
    pub uri: Vec<u8>,
    /// What follows the first `?` of the target; changed by rewrites and internal redirects.
    pub args: Vec<u8>,
    /// The server that was chosen by name and address.
    pub server: ServerId,
    /// The present location; the server's own block until one is found.
    pub loc: LocationId,
    /// The place in the phases.
    pub cursor: Cursor,
    /// 0: what the client asked for; more: a subrequest.
    /// Bounded by SUBREQUEST_DEPTH_MAX, and not asked for access again.
    pub depth: u8,
    /// What it is made for.
    pub purpose: Purpose,
    /// Rewrites and redirects that are left.
    pub uri_changes_left: u8,
    /// Reached by an internal redirect or as a subrequest.
    /// From then on `internal` locations may be reached.
    pub internal: bool,
    /// `try_files` found a file below the `alias` of a regular expression: the URI belongs behind the alias.
    pub add_uri_to_alias: bool,
    /// A subrequest that is judged as if the client had sent it, in the access phase and by `internal` locations: its URI is from a page whose
    /// writer may show no more than clients may see.
    pub as_client: bool,
    /// A rewrite has changed the URI; the location must be found anew.
    pub uri_changed: bool,
    /// The URI belongs to the location; false once `rewrite … break` has changed it there.
    pub location_valid: bool,
    /// The URI is still what the client sent.
    pub unparsed_uri_valid: bool,
    /// `uri` came from text in which `?` or `#` was encoded: decoded, it is part of a path and must not end one.
    /// See [`Template::append_target`](crate::vars::Template::append_target).
    pub has_decoded_delimiter: bool,
}

impl Default for Route {
    fn default() -> Route {
        Route {
            method: Method::Get,
            uri: Vec::new(),
            args: Vec::new(),
            server: ServerId(0),
            loc: LocationId(0),
            cursor: Cursor::default(),
            depth: 0,
            purpose: Purpose::Answer,
            uri_changes_left: URI_CHANGES_MAX,
            internal: false,
            add_uri_to_alias: false,
            as_client: false,
            uri_changed: false,
            location_valid: true,
            unparsed_uri_valid: true,
            has_decoded_delimiter: false,
        }
    }
}

impl Route {
    /// One with room for what most requests bring.
    /// Paths of that length need no second allocation.
    pub(super) fn roomy() -> Route {
        Route { uri: Vec::with_capacity(128), ..Route::default() }
    }

    /// Makes it anew in its place.
    #[inline]
    pub(super) fn renew(&mut self) {
        let (mut uri, mut args) = (take(&mut self.uri), take(&mut self.args));
        uri.clear();
        args.clear();
        *self = Route { uri, args, ..Route::default() };
    }

    /// Whether it is only to be found out how it would be answered. Whatever counts, limits, sends or keeps requests leaves it out.
    pub fn is_look_up(&self) -> bool {
        self.purpose == Purpose::LookUp
    }

    /// Tells a visit of a location from others of the same request: every change of place is counted.
    pub fn visit(&self) -> (LocationId, u8) {
        (self.loc, self.uri_changes_left)
    }

    /// Counts a change of the URI; false if there were too many.
    pub(crate) fn spend_change(&mut self) -> bool {
        // Saturating, so that a circle that is asked once more stays at its end.
        self.uri_changes_left = self.uri_changes_left.saturating_sub(1);
        self.uri_changes_left > 0
    }

    /// The file extension of the URI's last segment, without the dot.
    pub fn extension(&self) -> &[u8] {
        let name = memchr::memrchr(b'/', &self.uri).map_or(&self.uri[..], |at| &self.uri[at + 1..]);
        memchr::memrchr(b'.', name).map_or(&b""[..], |at| &name[at + 1..])
    }
}
