//! Name constraints: an authority that may issue only for some names (RFC 5280 §4.2.1.10).

use crate::certificate::{Certificate, NAME_CONSTRAINTS};
use crate::der::{self, Reader};
use crate::verify::Refusal;

const MAIL: u8 = 1;
const HOST: u8 = 2;
const DIRECTORY: u8 = 4;
const URI: u8 = 6;
const ADDRESS: u8 = 7;

/// Whether all names of the certificates `below` are within what `authority` may issue for.
pub fn check(authority: &Certificate<'_>, below: &[Certificate<'_>]) -> Result<(), Refusal> {
    let Some(value) = authority.extension(NAME_CONSTRAINTS) else { return Ok(()) };
    let (permitted, excluded) = trees(value).ok_or(Refusal::MALFORMED)?;
    for (index, cert) in below.iter().enumerate() {
        // §6.1.4 b: certificates that issue themselves are exempt, unless one is the last.
        if index > 0 && cert.is_self_issued() {
            continue;
        }
        for (kind, name) in names(cert) {
            let of_kind = |trees: &[(u8, &[u8])]| trees.iter().any(|(have, _)| *have == kind);
            let is_in = |trees: &[(u8, &[u8])]| {
                let mut found = Ok(false);
                for (_, tree) in trees.iter().filter(|(have, _)| *have == kind) {
                    match is_within(kind, name, tree) {
                        Some(true) => return Ok(true),
                        Some(false) => {}
                        None => found = Err(Refusal::CONSTRAINT_TYPE),
                    }
                }
                found
            };
            if is_in(&excluded)? {
                return Err(Refusal::EXCLUDED);
            }
            if of_kind(&permitted) && !is_in(&permitted)? {
                return Err(Refusal::NOT_PERMITTED);
            }
        }
    }
    Ok(())
}

type Trees<'a> = Vec<(u8, &'a [u8])>;

fn trees(value: &[u8]) -> Option<(Trees<'_>, Trees<'_>)> {
    let mut r = Reader(value).sequence()?;
    let mut read = |tag| {
        let mut out = Vec::new();
        if let Some(list) = r.optional(tag)? {
            let mut list = list.inner();
            while !list.is_empty() {
                let base = list.sequence()?.any()?;
                out.push((base.tag & 0x1f, base.body));
            }
        }
        Some(out)
    };
    Some((read(der::context(0))?, read(der::context(1))?))
}

/// All names of a certificate, the subject among them. A common name counts as a host where there is no other.
fn names<'a>(cert: &Certificate<'a>) -> Trees<'a> {
    let mut out = cert.alternative_names();
    if out.iter().all(|(kind, _)| *kind != HOST)
        && let Some(name) = cert.common_name().filter(|name| is_host(name))
    {
        out.push((HOST, name));
    }
    if Reader(cert.subject).sequence().is_some_and(|parts| !parts.is_empty()) {
        out.push((DIRECTORY, cert.subject));
    }
    out
}

fn is_host(name: &[u8]) -> bool {
    name.contains(&b'.')
        && name.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'*'))
}

/// `None`: constraints of this kind are not understood.
fn is_within(kind: u8, name: &[u8], tree: &[u8]) -> Option<bool> {
    let ends = |name: &[u8], end: &[u8]| {
        name.len() >= end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
    };
    match kind {
        HOST => {
            let is_end = ends(name, tree);
            let before = name.len().checked_sub(tree.len() + 1).map(|at| name[at]);
            Some(tree.is_empty() || is_end && (before.is_none_or(|b| b == b'.') || tree.starts_with(b".")))
        }
        MAIL => {
            let host = name.rsplit(|&b| b == b'@').next().unwrap_or_default();
            Some(match tree.first() {
                Some(b'.') => ends(host, tree),
                _ if tree.contains(&b'@') => name.eq_ignore_ascii_case(tree),
                _ => host.eq_ignore_ascii_case(tree),
            })
        }
        ADDRESS => {
            let (base, mask) = tree.split_at_checked(name.len())?;
            if base.len() != mask.len() {
                return Some(false);
            }
            Some(name.iter().zip(base).zip(mask).all(|((n, b), m)| n & m == b & m))
        }
        DIRECTORY => {
            let parts = |name| Reader(name).sequence().map(|parts| parts.0);
            // The constraint is the name itself within its tag.
            Some(parts(name)?.starts_with(parts(tree)?))
        }
        URI => None,
        _ => None,
    }
}
