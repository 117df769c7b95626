//! Request methods (RFC 9110 §9, RFC 5789, RFC 4918).

/// The methods that nginx has names for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Method {
    /// `GET`
    #[default]
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `PATCH`
    Patch,
    /// `CONNECT`
    Connect,
    /// `PROPFIND`
    Propfind,
    /// `PROPPATCH`
    Proppatch,
    /// `MKCOL`
    Mkcol,
    /// `COPY`
    Copy,
    /// `MOVE`
    Move,
    /// `LOCK`
    Lock,
    /// `UNLOCK`
    Unlock,
    /// Anything else; the head keeps the name.
    Other,
}

impl Method {
    /// The method with this name; methods are case-sensitive (RFC 9110 §9.1).
    #[inline]
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            b"CONNECT" => Method::Connect,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"MKCOL" => Method::Mkcol,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            _ => Method::Other,
        }
    }

    /// The name of a known method; nothing for [`Method::Other`].
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Connect => "CONNECT",
            Method::Propfind => "PROPFIND",
            Method::Proppatch => "PROPPATCH",
            Method::Mkcol => "MKCOL",
            Method::Copy => "COPY",
            Method::Move => "MOVE",
            Method::Lock => "LOCK",
            Method::Unlock => "UNLOCK",
            Method::Other => "",
        }
    }
}
