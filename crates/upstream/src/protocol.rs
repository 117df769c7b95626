//! What a `*_pass` module adds to the engine.

use crate::backend::Backend;
use crate::codec::Codec;
use crate::conf::Settings;
use crate::origin::Ask;
use crate::tls::Tls;
use brisk_http::HeaderId;
use brisk_server::flow::Flow;
use brisk_server::request::Request;
use std::rc::Rc;
use std::sync::Arc;

/// Where a request goes.
pub struct Target<W> {
    /// Which peers may be asked.
    pub peers: Peers,
    /// `None`: connections are plain.
    pub tls: Option<Tls>,
    /// `http://`, and what is asked for: how messages name the back end, between them its address.
    pub scheme: &'static str,
    /// What is asked for, as messages show it.
    pub uri: Rc<[u8]>,
    /// What the module has worked out for its codec.
    /// The module's own type, so that nothing is found out again for another attempt.
    pub way: W,
}

/// Servers to choose from.
pub enum Peers {
    /// A group that is known.
    Group(Arc<dyn Backend>),
    /// A name or address that is known only now; names are resolved.
    Host {
        /// A name, an address, or `unix:` and a path.
        host: String,
        /// The port; 0 with a path.
        port: u16,
    },
}

/// The body that follows a request's head.
/// Known before the codec is made: a head must tell the length, or that it is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyShape {
    /// There is no body.
    None,
    /// So many bytes.
    Length(u64),
    /// As long as it turns out to be.
    Unknown,
}

/// One `*_pass` location.
pub trait Protocol: Send + Sync + 'static {
    /// What a module has found out about a request, for all attempts.
    type Way;

    /// The location's settings.
    fn settings(&self) -> &Settings;

    /// Which servers are asked. The error is what the request ends with.
    fn target(&self, r: &mut Request, ask: &Ask) -> Result<Target<Self::Way>, Flow>;

    /// A codec with the request's head in it.
    fn codec(&self, r: &Request, way: &Self::Way, ask: &Ask, body: BodyShape)
    -> Result<Box<dyn Codec>, Flow>;

    /// Whether there is a body in place of the client's.
    fn has_own_body(&self) -> bool {
        false
    }

    /// That body; the client's has been read by then.
    fn own_body(&self, r: &Request) -> Option<Vec<u8>> {
        let _ = r;
        None
    }

    /// Whether a body of unknown length can be sent as it comes.
    /// False for protocols that tell the length first (FastCGI's CONTENT_LENGTH); the body is then read as a
    /// whole.
    fn streams_unknown_length(&self) -> bool {
        true
    }

    /// What is spoken on connections: those of one dialect serve no other.
    fn dialect(&self) -> u8 {
        0
    }

    /// Whether the back end is an origin of its own: answers without `Server` and `Date` get none then. What a gateway passes on
    /// is the server's own answer.
    fn is_proxy(&self) -> bool {
        false
    }

    /// Whether a connection, idle or not, occupies a process of the server.
    /// True for protocols whose servers give a connection to one process until it is closed, as PHP-FPM does.
    fn occupies(&self) -> bool {
        false
    }

    /// The key of a cache where none is configured; protocols without one add nothing.
    fn default_key(&self, r: &Request, out: &mut Vec<u8>) {
        let _ = (r, out);
    }

    /// Another value for a `Location`, or for the URL of a `Refresh`.
    fn rewrite_location(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        let _ = (r, value);
        None
    }

    /// Another value for a `Set-Cookie`.
    fn rewrite_cookie(&self, r: &Request, value: &[u8]) -> Option<Vec<u8>> {
        let _ = (r, value);
        None
    }
}

/// Whether a back end may make the connection a tunnel: the client has asked for it (RFC 9110 §7.8), and the answer is for the
/// client. A subrequest, and a refresh of the cache in the background, have nobody to connect.
pub fn wants_upgrade(r: &Request) -> bool {
    r.route.depth == 0 && r.has_header(HeaderId::Upgrade)
}
