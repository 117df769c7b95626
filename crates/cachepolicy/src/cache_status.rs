//! The text of `Cache-Status` (RFC 9211).

use std::fmt::Write as _;

/// Why a request was forwarded (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// The cache was not to be asked.
    Bypass,
    /// The method is not one that is cached.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// Something is stored under the key, but not for such a request.
    VaryMiss,
    /// The request's directives forbid what is stored.
    Request,
    /// What is stored is stale.
    Stale,
    /// Only a part is stored, and another is wanted.
    Partial,
}

impl Forwarded {
    fn token(self) -> &'static str {
        match self {
            Forwarded::Bypass => "bypass",
            Forwarded::Method => "method",
            Forwarded::UriMiss => "uri-miss",
            Forwarded::VaryMiss => "vary-miss",
            Forwarded::Request => "request",
            Forwarded::Stale => "stale",
            Forwarded::Partial => "partial",
        }
    }
}

/// What the cache did with a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// `None`: answered from the cache.
    pub forwarded: Option<Forwarded>,
    /// What the back end answered, if it was asked.
    pub forwarded_status: Option<u16>,
    /// Seconds of freshness that are left; negative if it is stale.
    pub ttl: Option<i64>,
    /// The answer was stored.
    pub stored: bool,
    /// Another request's answer was waited for.
    pub collapsed: bool,
    /// One word, e.g. why it was not stored.
    pub detail: Option<&'a str>,
    /// The cache's name and the key, for clients that may know them.
    pub place: Option<(&'a [u8], &'a [u8])>,
}

impl Status<'_> {
    /// The member for this cache; `name` must be a token.
    pub fn text(&self, name: &str) -> Vec<u8> {
        let mut out = name.to_string();
        match self.forwarded {
            None => out.push_str("; hit"),
            Some(why) => {
                out.push_str("; fwd=");
                out.push_str(why.token());
            }
        }
        if let Some(status) = self.forwarded_status {
            let _ = write!(out, "; fwd-status={status}");
        }
        if let Some(ttl) = self.ttl {
            let _ = write!(out, "; ttl={ttl}");
        }
        if self.stored {
            out.push_str("; stored");
        }
        if self.collapsed {
            out.push_str("; collapsed");
        }
        if let Some(detail) = self.detail {
            let _ = write!(out, "; detail={detail}");
        }
        if let Some((zone, key)) = self.place {
            // The key comes last: readers that look for what is before it need not know strings.
            let _ = write!(out, "; zone={}; key={}", string(zone), string(key));
        }
        out.into_bytes()
    }
}

/// A string of structured fields (RFC 9651 §3.3.3); what it cannot hold is escaped as in URIs.
fn string(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_structured() {
        let check = |status: Status<'_>, want: &str| {
            let text = status.text("brisk");
            assert_eq!(String::from_utf8_lossy(&text), want);
        };
        check(Status { ttl: Some(376), ..Status::default() }, "brisk; hit; ttl=376");
        let miss = Status {
            forwarded: Some(Forwarded::UriMiss),
            forwarded_status: Some(200),
            stored: true,
            collapsed: true,
            ..Status::default()
        };
        check(miss, "brisk; fwd=uri-miss; fwd-status=200; stored; collapsed");
        let refused =
            Status { forwarded: Some(Forwarded::Bypass), detail: Some("set-cookie"), ..Status::default() };
        check(refused, "brisk; fwd=bypass; detail=set-cookie");
        let placed = Status { place: Some((b"one", b"a\"b\\ \xff")), ..Status::default() };
        check(placed, "brisk; hit; zone=\"one\"; key=\"a\\\"b\\\\ %FF\"");
    }
}
