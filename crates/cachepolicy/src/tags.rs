//! Tags by which groups of answers are purged: `Surrogate-Key` (separated by spaces), `Cache-Tag` and
//! `X-LiteSpeed-Tag` (by commas).

use crate::fields::Fields;
pub use crate::limits::{TAG_BYTES_MAX, TAGS_MAX};

/// The tags of an answer.
#[derive(Debug, Default)]
pub struct Tags {
    /// Each once.
    pub kept: Vec<Box<[u8]>>,
    /// How many are too long or too many: a purge by them leaves the answer.
    pub dropped: usize,
}

/// The tags that an answer, or a purge, names.
pub fn of(fields: Fields<'_>) -> Tags {
    let mut tags = Tags::default();
    let spaced = fields.all("Surrogate-Key").flat_map(|v| v.split(|&b| b == b' '));
    let commas = ["Cache-Tag", "X-LiteSpeed-Tag"];
    let listed = commas.iter().flat_map(|name| fields.all(name)).flat_map(|v| v.split(|&b| b == b','));
    for tag in spaced.chain(listed).map(<[u8]>::trim_ascii) {
        if tag.is_empty() || tags.kept.iter().any(|have| **have == *tag) {
            continue;
        }
        if tag.len() > TAG_BYTES_MAX || tags.kept.len() == TAGS_MAX {
            tags.dropped += 1;
        } else {
            tags.kept.push(tag.into());
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_all_kinds() {
        let list = [("surrogate-key", "a  b"), ("Cache-Tag", "b, c d,"), ("X-LiteSpeed-Tag", "e,a")];
        let fields: Vec<_> = list.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let tags: Vec<_> =
            of(Fields(&fields)).kept.iter().map(|t| String::from_utf8_lossy(t).into_owned()).collect();
        assert_eq!(tags, ["a", "b", "c d", "e"]);
    }

    #[test]
    fn no_more_than_the_limit() {
        let many: Vec<String> = (0..500).map(|n| format!("t{n}")).collect();
        let (many, long) = (many.join(" "), "x".repeat(TAG_BYTES_MAX + 1));
        let fields = [(&b"Surrogate-Key"[..], long.as_bytes()), (b"Surrogate-Key", many.as_bytes())];
        let tags = of(Fields(&fields));
        assert_eq!((tags.kept.len(), tags.dropped), (TAGS_MAX, 500 - TAGS_MAX + 1));
    }
}
