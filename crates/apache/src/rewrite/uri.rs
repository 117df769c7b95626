//! URLs in rules.

use crate::escape;

/// Schemes whose URLs lead to another host, and whether their URLs have queries.
const SCHEMES: &[(&str, bool)] = &[
    ("ajp://", true),
    ("balancer://", true),
    ("ftp://", false),
    ("fcgi://", true),
    ("gopher://", false),
    ("http://", true),
    ("https://", true),
    ("h2://", true),
    ("h2c://", true),
    ("ldap://", false),
    ("mailto:", true),
    ("news:", false),
    ("nntp://", false),
    ("scgi://", true),
    ("ws://", true),
    ("wss://", true),
    ("unix://", true),
    ("unix:", true),
];

/// The length of the scheme that a URL begins with, and whether its URLs have queries. `None` for a path.
pub fn scheme(url: &[u8]) -> Option<(usize, bool)> {
    if url.len() <= 5 {
        return None;
    }
    let begins = |(scheme, _): &&(&str, bool)| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    SCHEMES.iter().find(begins).map(|(scheme, has_query)| (scheme.len(), *has_query))
}

/// A URL with its path escaped, not its host.
pub fn escaped(url: &[u8], scheme: usize) -> Vec<u8> {
    let (start, rest) = url.split_at(scheme);
    if start.last() != Some(&b'/') {
        return [start, &escape::uri(rest)].concat();
    }
    let Some(slash) = rest.iter().position(|&byte| byte == b'/') else { return url.to_vec() };
    let (host, path) = rest.split_at(slash + 1);
    let path = if start.eq_ignore_ascii_case(b"ldap://") {
        // RFC 4516: up to four question marks separate its parts.
        let parts = path.splitn(5, |&byte| byte == b'?');
        parts.map(escape::uri).collect::<Vec<_>>().join(&b'?')
    } else {
        escape::uri(path)
    };
    [start, host, &path].concat()
}

/// Replaces a folder at the beginning of a path by a URL's path; nothing if the path is not in the folder.
pub fn replace_prefix(path: &[u8], folder: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let rest = path.strip_prefix(folder)?.strip_prefix(b"/")?;
    let slash: &[u8] = if base.is_empty() || base.ends_with(b"/") { b"" } else { b"/" };
    Some([base, slash, rest].concat())
}

/// Bytes that a query must not have when it leaves: controls and spaces.
pub fn has_controls(query: &[u8]) -> bool {
    query.iter().any(|byte| byte.is_ascii_control() || *byte == b' ')
}
