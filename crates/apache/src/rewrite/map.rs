//! `RewriteMap`: what a rule looks up by a key.

use crate::escape;

/// A map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Map {
    /// `txt:` and `rnd:`: lines with a key and a value.
    File {
        /// Its path.
        path: Vec<u8>,
        /// One of several values, with `|` between, is taken at random.
        is_random: bool,
    },
    /// `int:`.
    Internal(Internal),
    /// `prg:`: a program, which is never started. A rule that asks it is answered with 500.
    Program,
}

/// What `int:` maps do with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Internal {
    /// `toupper`
    ToUpper,
    /// `tolower`
    ToLower,
    /// `escape`
    Escape,
    /// `unescape`
    Unescape,
}

impl Map {
    /// Reads what stands behind a map's name.
    ///
    /// # Errors
    /// What is wrong, or not supported.
    pub fn parse(source: &[u8]) -> Result<Map, String> {
        let text = String::from_utf8_lossy(source).into_owned();
        let (kind, rest) = text.split_once(':').unwrap_or(("txt", text.as_str()));
        match kind.to_ascii_lowercase().as_str() {
            "txt" | "rnd" if rest.starts_with('/') => {
                Ok(Map::File { path: rest.as_bytes().to_vec(), is_random: kind.eq_ignore_ascii_case("rnd") })
            }
            "txt" | "rnd" => Err(format!("'{rest}' is no absolute path")),
            "int" => Ok(Map::Internal(match rest {
                "toupper" => Internal::ToUpper,
                "tolower" => Internal::ToLower,
                "escape" => Internal::Escape,
                "unescape" => Internal::Unescape,
                _ => return Err(format!("internal map not found:{rest}")),
            })),
            "prg" => Ok(Map::Program),
            "dbm" | "dbd" | "fastdbd" => {
                Err(format!("Brisk has no maps of the type {kind}: write the map as a text (txt:)"))
            }
            _ => Err(format!("unknown type of map '{kind}'")),
        }
    }
}

impl Internal {
    /// The value of a key.
    pub fn of(self, key: &[u8]) -> Vec<u8> {
        match self {
            Internal::ToUpper => key.to_ascii_uppercase(),
            Internal::ToLower => key.to_ascii_lowercase(),
            Internal::Escape => escape::uri(key),
            Internal::Unescape => escape::decode_keeping_slashes(key).unwrap_or_default(),
        }
    }
}

/// The value of a key in the text of a map: that of the first line that begins with it.
pub fn find<'t>(text: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    for line in text.split(|&byte| byte == b'\n') {
        if line.first().is_none_or(|byte| *byte == b'#' || byte.is_ascii_whitespace()) {
            continue;
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if words.next() == Some(key) {
            return words.next();
        }
    }
    None
}

/// One of several values: `number` chooses.
pub fn one_of(value: &[u8], number: u64) -> &[u8] {
    let count = value.split(|&byte| byte == b'|').count() as u64;
    value.split(|&byte| byte == b'|').nth((number % count.max(1)) as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let file = |is_random| Ok(Map::File { path: b"/m".to_vec(), is_random });
        for (source, wanted) in [
            ("txt:/m", file(false)),
            ("rnd:/m", file(true)),
            ("int:tolower", Ok(Map::Internal(Internal::ToLower))),
            ("prg:/x", Ok(Map::Program)),
            ("dbm:/x", Err("Brisk has no maps of the type dbm: write the map as a text (txt:)".to_string())),
            ("int:x", Err("internal map not found:x".to_string())),
            ("txt:m", Err("'m' is no absolute path".to_string())),
        ] {
            assert_eq!(Map::parse(source.as_bytes()), wanted, "{source}");
        }
    }

    #[test]
    fn lines_of_a_map() {
        let text = b"# a b\n a c\na  1 2\r\na 3\nb\tx|y|z\nc\n";
        for (key, wanted) in [("a", Some("1")), ("b", Some("x|y|z")), ("c", None), ("d", None), ("#", None)] {
            assert_eq!(find(text, key.as_bytes()), wanted.map(str::as_bytes), "{key}");
        }
        assert_eq!((one_of(b"x|y|z", 4), one_of(b"x", 7)), (&b"y"[..], &b"x"[..]));
        assert_eq!(Internal::Escape.of(b"a b"), b"a%20b");
    }
}
