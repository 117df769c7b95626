//! Name constraints: an authority that may issue only for some names (RFC 5280 §4.2.1.10).

use crate::certificate::{Certificate, NAME_CONSTRAINTS, comparable};
use crate::der::{self, Reader};
use crate::verify::Refusal;

const MAIL: u8 = 1;
const HOST: u8 = 2;
const DIRECTORY: u8 = 4;
const URI: u8 = 6;
const ADDRESS: u8 = 7;

/// Comparisons of names with constraints, at most: both come from strangers' certificates. OpenSSL has such a limit too.
const COMPARISONS_MAX: usize = 1 << 18;

/// Whether all names of the certificates `below` are within what `authority` may issue for.
pub fn check(authority: &Certificate<'_>, below: &[Certificate<'_>]) -> Result<(), Refusal> {
    let Some(value) = authority.extension(NAME_CONSTRAINTS) else { return Ok(()) };
    let (permitted, excluded) = trees(value)?;
    let mut left = COMPARISONS_MAX;
    for (index, cert) in below.iter().enumerate() {
        // §6.1.4 b: certificates that issue themselves are exempt, unless one is the last.
        if index > 0 && cert.is_self_issued() {
            continue;
        }
        for (kind, name) in names(cert) {
            left = left.checked_sub(permitted.len() + excluded.len()).ok_or(Refusal::MALFORMED)?;
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
            if is_in(&excluded)? || kind == HOST && covers_some(name, &excluded) {
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

fn trees(value: &[u8]) -> Result<(Trees<'_>, Trees<'_>), Refusal> {
    let mut whole = Reader(value);
    let mut r = whole.sequence().filter(|_| whole.is_empty()).ok_or(Refusal::MALFORMED)?;
    let both = (tree_list(&mut r, 0)?, tree_list(&mut r, 1)?);
    if r.is_empty() { Ok(both) } else { Err(Refusal::MALFORMED) }
}

fn tree_list<'a>(r: &mut Reader<'a>, number: u8) -> Result<Trees<'a>, Refusal> {
    let mut out = Vec::new();
    let Some(list) = r.optional(der::context(number)).ok_or(Refusal::MALFORMED)? else { return Ok(out) };
    let mut list = list.inner();
    while !list.is_empty() {
        let mut tree = list.sequence().ok_or(Refusal::MALFORMED)?;
        let base = tree.any().filter(|base| base.tag & 0xc0 == 0x80).ok_or(Refusal::MALFORMED)?;
        // Minimum and maximum: nobody may use them.
        if !tree.is_empty() {
            return Err(Refusal::SUBTREE_LIMITS);
        }
        out.push((base.tag & 0x1f, base.body));
    }
    Ok(out)
}

/// Whether a name with a wildcard stands for one that is within a tree.
fn covers_some(name: &[u8], trees: &[(u8, &[u8])]) -> bool {
    let Some(rest) = name.strip_prefix(b"*") else { return false };
    trees.iter().any(|&(kind, tree)| {
        // The tree's own first label is what the star would stand for.
        let at = tree.iter().skip(1).position(|&b| b == b'.').map_or(tree.len(), |at| at + 1);
        kind == HOST && tree[at..].eq_ignore_ascii_case(rest) && !tree.starts_with(b".")
    })
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
            // The constraint is the name itself within its tag.
            let (name, tree) = (comparable(name)?, comparable(tree)?);
            Some(name.starts_with(&tree))
        }
        URI => None,
        _ => None,
    }
}
