//! A stored head: what is left out of it, and how a later answer brings it up to date (RFC 9111 §3.1, §3.2).

use crate::fields::{Fields, members};

/// A field that owns its bytes.
pub type Owned = (Vec<u8>, Vec<u8>);

/// Fields that belong to a connection and are never kept (RFC 9111 §3.1, RFC 9110 §7.6.1).
const HOP_BY_HOP: &[&[u8]] = &[
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];

/// The fields to be kept: without those of the connection, those that `Connection` names, and `unkept` (in lower case).
pub fn storable<U: AsRef<[u8]>>(fields: Fields<'_>, unkept: &[U]) -> Vec<Owned> {
    let named: Vec<Vec<u8>> =
        fields.all("Connection").flat_map(members).map(<[u8]>::to_ascii_lowercase).collect();
    let is_kept = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        !HOP_BY_HOP.contains(&&*name)
            && !named.contains(&name)
            && !unkept.iter().any(|unkept| *unkept.as_ref() == *name)
    };
    fields.0.iter().filter(|(name, _)| is_kept(name)).map(|(n, v)| (n.to_vec(), v.to_vec())).collect()
}

/// Brings a stored head up to date with a 304's: each field that came takes the place of all stored ones of its name.
/// What describes the stored body stays.
pub fn update(stored: &mut Vec<Owned>, fresh: Vec<Owned>) {
    const OF_THE_BODY: &[&[u8]] =
        &[b"content-length", b"content-encoding", b"content-range", b"transfer-encoding"];
    let fresh: Vec<Owned> =
        fresh.into_iter().filter(|(name, _)| !OF_THE_BODY.contains(&&*name.to_ascii_lowercase())).collect();
    stored.retain(|(name, _)| !fresh.iter().any(|(new, _)| new.eq_ignore_ascii_case(name)));
    stored.extend(fresh);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(list: &[(&str, &str)]) -> Vec<Owned> {
        list.iter().map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec())).collect()
    }

    #[test]
    fn fields_of_the_connection_are_not_kept() {
        let list = [
            ("Connection", "A, close"),
            ("a", "1"),
            ("B", "2"),
            ("TE", "x"),
            ("Set-Cookie", "y"),
            ("C", "3"),
        ];
        let fields: Vec<_> = list.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let kept = storable(Fields(&fields), &[b"c"]);
        assert_eq!(kept, owned(&[("B", "2"), ("Set-Cookie", "y")]));
    }

    #[test]
    fn newer_fields_replace_older_ones() {
        let mut stored = owned(&[("A", "1"), ("B", "2"), ("a", "3"), ("Content-Length", "10")]);
        update(&mut stored, owned(&[("a", "4"), ("a", "5"), ("C", "6"), ("content-length", "0")]));
        assert_eq!(
            stored,
            owned(&[("B", "2"), ("Content-Length", "10"), ("a", "4"), ("a", "5"), ("C", "6")])
        );
    }
}
