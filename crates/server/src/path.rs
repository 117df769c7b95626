//! From a URI to a path in the file system: `root` and `alias`.

use crate::core::http_conf::{Root, Symlinks};
use crate::request::Request;
use brisk_net::file;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A mapped path.
/// Both parts are kept apart: `$document_root` and links in the path depend on where the one ends.
pub struct Mapped {
    /// The path's bytes.
    pub bytes: Vec<u8>,
    /// Length of the part that `root` (or `alias`) gave.
    pub root_len: usize,
}

impl Mapped {
    /// The path.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }
}

/// Maps the request's URI. `None` if the path would leave the location's folder or is empty: the caller answers 404 or
/// 500; it has been logged. `reserve` bytes of capacity are added for a suffix.
pub fn map(r: &Request, reserve: usize) -> Option<Mapped> {
    map_uri(r, &r.route.uri, reserve)
}

/// Maps another URI by the present location's rules.
pub fn map_uri(r: &Request, uri: &[u8], reserve: usize) -> Option<Mapped> {
    let core = r.core();
    let root: &Root = &core.root;
    // `alias` replaces the location's text. After a rewrite the URI may have another beginning.
    if root.alias.is_some() && !r.route.location_valid {
        let name = String::from_utf8_lossy(&core.location_text);
        crate::rlog!(r, Alert, "\"alias\" cannot be used in location \"{name}\" where URI was rewritten");
        return None;
    }
    let mut bytes = Vec::with_capacity(uri.len() + 64 + reserve);
    append_full(r, &root.path, &mut bytes);
    let tail = match &root.alias {
        None => uri,
        Some(crate::core::http_conf::AliasOf::Whole) if r.route.add_uri_to_alias => uri,
        Some(crate::core::http_conf::AliasOf::Whole) => &[],
        Some(crate::core::http_conf::AliasOf::Prefix(len)) => {
            // A location's text is always a prefix of the URI here; a shorter URI would have found another
            // location.
            let tail = uri.get(*len..).unwrap_or_default();
            // `location /a { alias /srv/b/; }` must not serve /srv/secret for "/a../secret": what follows the prefix
            // would be a different name, not something below it. nginx serves it; we do not.
            if leaves_alias(&core.location_text, tail) {
                crate::rlog!(r, Error, "\"{}\" is outside its location", String::from_utf8_lossy(uri));
                return None;
            }
            tail
        }
    };
    let root_len = bytes.len();
    bytes.extend_from_slice(tail);
    // open(2) ends a path at a NUL, so what is checked and what is opened would be two files.
    if bytes.contains(&0) {
        return None;
    }
    Some(Mapped { bytes, root_len })
}

/// The path of a name directly behind the location's root or alias, whatever the URI is. `None` if it holds a NUL.
pub fn under_root(r: &Request, name: &[u8]) -> Option<Mapped> {
    let mut bytes = Vec::with_capacity(name.len() + 64);
    append_full(r, &r.core().root.path, &mut bytes);
    let root_len = bytes.len();
    bytes.extend_from_slice(name);
    (!bytes.contains(&0)).then_some(Mapped { bytes, root_len })
}

/// Whether the tail climbs out: with a prefix that ends in no slash, `..` may directly follow it.
fn leaves_alias(prefix: &[u8], tail: &[u8]) -> bool {
    !prefix.ends_with(b"/") && (tail == b".." || tail.starts_with(b"../"))
}

/// The root's value, made absolute: variables may give a relative path.
fn append_full(r: &Request, template: &brisk_host::vars::Template, out: &mut Vec<u8>) {
    // The common case: no variable, and made absolute when the configuration was read.
    if let Some(text) = template.as_literal() {
        out.extend_from_slice(text);
        return;
    }
    let start = out.len();
    template.append(r, out);
    // A variable may come to a relative path, which would depend on the process' working folder.
    if out.len() > start && out[start] != b'/' {
        let prefix = r.snap().prefix.as_bytes().to_vec();
        out.splice(start..start, prefix);
    }
}

/// `$document_root`.
pub fn document_root(r: &Request, out: &mut Vec<u8>) {
    append_full(r, &r.core().root.path, out);
}

/// The location's rule for symbolic links, for a mapped path.
pub fn symlinks(r: &Request, mapped: &Mapped) -> file::Symlinks {
    let (template, owner) = match &*r.core().symlinks {
        Symlinks::Follow => return file::Symlinks::Follow,
        Symlinks::Refuse { from } => (from, false),
        Symlinks::SameOwner { from } => (from, true),
    };
    let trusted = template.as_ref().map_or_else(Vec::new, |template| template.eval(r));
    // The trusted part must end at a slash: `/srv/a` does not vouch for `/srv/ab`.
    let from = match mapped.bytes.strip_prefix(&*trusted) {
        // The whole path is trusted.
        Some([]) => return file::Symlinks::Follow,
        Some([next, ..]) if *next == b'/' || trusted.ends_with(b"/") => trusted.len(),
        _ => 0,
    };
    if owner { file::Symlinks::SameOwner { from } } else { file::Symlinks::Refuse { from } }
}
