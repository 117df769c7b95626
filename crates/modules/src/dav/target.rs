//! What a request of RFC 4918 says in its URI and its fields: how deep, whereto, and whether over what is there.

use brisk_http::uri::unsafe_uri;
use brisk_server::locate::{self, Found};
use brisk_server::request::Request;
use brisk_server::rlog;

/// `Depth` (RFC 4918 §10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    Zero,
    One,
    Infinity,
}

/// The field `Depth`; `None` if there is none.
pub fn depth(r: &Request) -> Result<Option<Depth>, u16> {
    let Some(value) = r.header_named(b"Depth") else { return Ok(None) };
    match value {
        b"0" => Ok(Some(Depth::Zero)),
        b"1" => Ok(Some(Depth::One)),
        // The word in lower case only, as in nginx.
        b"infinity" => Ok(Some(Depth::Infinity)),
        _ => {
            rlog!(r, Error, "client sent invalid \"Depth\" header: \"{}\"", String::from_utf8_lossy(value));
            Err(400)
        }
    }
}

/// The field `Overwrite` (RFC 4918 §10.6); without one, yes.
pub fn overwrites(r: &Request) -> Result<bool, u16> {
    match r.header_named(b"Overwrite") {
        // RFC 4918 §10.6: without the field the destination is overwritten.
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(value) => {
            let value = String::from_utf8_lossy(value);
            rlog!(r, Error, "client sent invalid \"Overwrite\" header: \"{value}\"");
            Err(400)
        }
    }
}

/// Segments of a path that are not empty: 2 for `/a/b`, 1 for `/a/`.
pub fn segments(uri: &[u8]) -> u64 {
    uri.split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).count() as u64
}

/// The decoded path of `Destination` (RFC 4918 §10.3), if it is one that this location is responsible for.
pub fn destination(r: &mut Request) -> Result<Vec<u8>, u16> {
    // Copied: the rewriting below needs the request.
    let Some(value) = r.header_named(b"Destination").map(<[u8]>::to_vec) else {
        rlog!(r, Error, "client sent no \"Destination\" header");
        return Err(400);
    };
    let text = String::from_utf8_lossy(&value);
    // A copy to another server would be a request of ours to it, which nobody has allowed: RFC 4918 §9.8.5 has
    // 502 for it, nginx 400.
    let path = match without_authority(&value, r.scheme(), &r.head.host) {
        Ok(path) => path,
        Err(Elsewhere::Invalid) => {
            rlog!(r, Error, "client sent invalid \"Destination\" header: \"{text}\"");
            return Err(400);
        }
        Err(Elsewhere::OtherHost) => {
            let what = "is handled by different repository than the source URI";
            rlog!(r, Error, "\"Destination\" URI \"{text}\" {what}");
            return Err(400);
        }
    };
    // The same check as for the request's own target: `..`, encoded or not, does not lead out.
    let Ok(safe) = unsafe_uri(path) else {
        rlog!(r, Error, "client sent invalid \"Destination\" header: \"{text}\"");
        return Err(400);
    };
    let path = safe.path.into_owned();
    // A folder over a file, or the other way, would need what is there to be removed first.
    if r.route.uri.ends_with(b"/") != path.ends_with(b"/") {
        let uri = String::from_utf8_lossy(&r.route.uri);
        let what = "should be either collections or non-collections";
        rlog!(r, Error, "both URI \"{uri}\" and \"Destination\" URI \"{text}\" {what}");
        return Err(409);
    }
    if !is_here(r, &path)? {
        rlog!(r, Error, "\"Destination\" URI \"{text}\" belongs to another location than the source URI");
        return Err(403);
    }
    Ok(path)
}

/// Why a destination is not ours.
#[derive(Debug, PartialEq, Eq)]
enum Elsewhere {
    Invalid,
    OtherHost,
}

/// A destination's path: it is a path, or a URI with the request's scheme and host, with or without a port.
fn without_authority<'a>(value: &'a [u8], scheme: &str, host: &[u8]) -> Result<&'a [u8], Elsewhere> {
    if value.starts_with(b"/") {
        return Ok(value);
    }
    // With the request's own scheme: over another one the same host may be another server.
    let rest = value.strip_prefix(scheme.as_bytes()).and_then(|rest| rest.strip_prefix(b"://"));
    let rest = rest.ok_or(Elsewhere::Invalid)?;
    let slash = memchr::memchr(b'/', rest);
    let authority = &rest[..slash.unwrap_or(rest.len())];
    // A name that only begins with ours is another one.
    // (A request without a host matches nothing: HTTP/1.0 without Host has paths only.)
    let is_ours = |name: &[u8]| !host.is_empty() && name.eq_ignore_ascii_case(host);
    let is_port = |port: &[u8]| port.iter().all(u8::is_ascii_digit);
    let is_here = is_ours(authority)
        || memchr::memrchr(b':', authority)
            .is_some_and(|at| is_ours(&authority[..at]) && is_port(&authority[at + 1..]));
    if !is_here {
        return Err(Elsewhere::OtherHost);
    }
    // Without a path it names no file.
    slash.map(|at| &rest[at..]).ok_or(Elsewhere::Invalid)
}

/// Whether a URI of this server belongs to the same location as the request's. Another one has its own folder and its own
/// rules of access, which were not asked for this request.
fn is_here(r: &mut Request, path: &[u8]) -> Result<bool, u16> {
    let live = r.live.clone();
    // As the router begins: at the server's root.
    let snap = &live.snap;
    let root = snap.location(snap.server(r.route.server).root);
    // Asked by the same code that routes requests, with the other URI in place; put back whatever comes of it.
    let uri = std::mem::replace(&mut r.route.uri, path.to_vec());
    let there = locate::find(snap, r, root);
    r.route.uri = uri;
    // Last: what the location's pattern has found is of the request's own URI again, and folders and rules of access may hang on it.
    let here = locate::find(snap, r, root);
    match (here, there) {
        // A location that would only redirect to its name with a slash has served nothing and allowed nothing.
        (Ok(here), Ok(there)) => Ok(here == there && !matches!(there, Found::Slash(_))),
        // What a regular expression costs is bounded; which one gave up has been logged.
        _ => Err(500),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations() {
        let path = |value: &'static str| {
            without_authority(value.as_bytes(), "http", b"host")
                .map(|path| std::str::from_utf8(path).unwrap())
        };
        assert_eq!(path("/a/b"), Ok("/a/b"));
        assert_eq!(path("http://host/a"), Ok("/a"));
        assert_eq!(path("http://HOST:8080/a"), Ok("/a"));
        for invalid in
            ["", "a", "ftp://host/a", "https://host/a", "http://host", "http://host:80", "http:/host/a"]
        {
            assert_eq!(path(invalid), Err(Elsewhere::Invalid), "{invalid}");
        }
        for other in
            ["http://hostess/a", "http://hos/a", "http://host:x/a", "http://host@evil/a", "http:///a"]
        {
            assert_eq!(path(other), Err(Elsewhere::OtherHost), "{other}");
        }
        assert_eq!(without_authority(b"http://[::1]:80/a", "http", b"[::1]"), Ok(&b"/a"[..]));
        assert_eq!(without_authority(b"http:///a", "http", b""), Err(Elsewhere::OtherHost));
    }

    #[test]
    fn segments_are_counted() {
        for (uri, count) in [("/", 0), ("/a", 1), ("/a/", 1), ("/a/b", 2), ("//a//b", 2)] {
            assert_eq!(segments(uri.as_bytes()), count, "{uri}");
        }
    }
}
