//! What an answer to an unsafe request makes invalid (RFC 9111 §4.4).

use crate::fields::Fields;

/// Methods that change nothing (RFC 9110 §9.2.1); any other makes what is stored of its target doubtful.
pub fn is_safe(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PROPFIND" | b"REPORT" | b"SEARCH")
}

/// The paths (with arguments) below the request's own origin that are to be forgotten: the target's, and those that
/// `Location` and `Content-Location` name. None after an error.
pub fn targets(status: u16, target: &[u8], origin: &[u8], response: Fields<'_>) -> Vec<Vec<u8>> {
    if !(200..400).contains(&status) {
        return Vec::new();
    }
    let mut out = vec![target.to_vec()];
    for name in ["Location", "Content-Location"] {
        if let Some(path) = response.first(name).and_then(|value| resolve(value, target, origin))
            && !out.contains(&path)
        {
            out.push(path);
        }
    }
    out
}

/// A reference as a path of the same origin (`scheme://host[:port]`); `None` if it leads elsewhere.
fn resolve(reference: &[u8], base: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.trim_ascii();
    let reference = &reference[..memchr::memchr(b'#', reference).unwrap_or(reference.len())];
    if reference.starts_with(b"//") {
        let scheme = &origin[..memchr::memmem::find(origin, b"//")?];
        return resolve(&[scheme, reference].concat(), base, origin);
    }
    if memchr::memmem::find(reference, b"://").is_some() {
        let same = reference.get(..origin.len())?.eq_ignore_ascii_case(origin);
        let path = same.then(|| &reference[origin.len()..])?;
        return match path.first() {
            None => Some(b"/".to_vec()),
            Some(b'/') => Some(path.to_vec()),
            Some(_) => None,
        };
    }
    if reference.is_empty() {
        return None;
    }
    if reference.starts_with(b"/") {
        return Some(reference.to_vec());
    }
    let path = &base[..memchr::memchr(b'?', base).unwrap_or(base.len())];
    let folder = &path[..=memchr::memrchr(b'/', path)?];
    Some([folder, reference].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_paths_only() {
        let check = |status, fields: &[(&str, &str)], want: &[&str]| {
            let fields: Vec<_> = fields.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
            let have = targets(status, b"/a/b?c", b"http://h:80", Fields(&fields));
            let have: Vec<_> = have.iter().map(|p| String::from_utf8_lossy(p).into_owned()).collect();
            assert_eq!(have, want, "{fields:?}");
        };
        check(500, &[("Location", "/x")], &[]);
        check(204, &[], &["/a/b?c"]);
        check(201, &[("Location", "/x"), ("Content-Location", "d")], &["/a/b?c", "/x", "/a/d"]);
        check(201, &[("Location", "http://h:80/x#y")], &["/a/b?c", "/x"]);
        check(201, &[("Location", "HTTP://H:80")], &["/a/b?c", "/"]);
        check(201, &[("Location", "//h:80/x")], &["/a/b?c", "/x"]);
        check(201, &[("Location", "http://other/x")], &["/a/b?c"]);
        check(201, &[("Location", "http://h:801/x")], &["/a/b?c"]);
    }

    #[test]
    fn safe_methods() {
        assert!(is_safe(b"GET") && is_safe(b"HEAD") && !is_safe(b"POST") && !is_safe(b"M-SEARCH"));
    }
}
