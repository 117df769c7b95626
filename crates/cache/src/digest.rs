//! Names of entries: the MD5 of the key, as nginx makes them.

use md5::{Digest as _, Md5};
use std::fmt;
use std::path::{Path, PathBuf};

/// The MD5 of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    pub fn of(key: &[u8]) -> Digest {
        Digest(Md5::digest(key).into())
    }

    /// Of a variant: `text` tells it from others (RFC 9111 §4.1).
    #[must_use]
    pub fn variant(self, text: &[u8]) -> Digest {
        Digest(Md5::new().chain_update(self.0).chain_update(text).finalize().into())
    }

    /// Reads 32 hexadecimal digits in lower case.
    pub fn parse(name: &[u8]) -> Option<Digest> {
        if name.len() != 32 {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut out = [0; 16];
        for (slot, pair) in out.iter_mut().zip(name.chunks_exact(2)) {
            *slot = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Digest(out))
    }

    /// Where an entry's file lies: as in nginx, the last digits name the folders of the levels.
    pub fn path(self, folder: &Path, levels: &[u8]) -> PathBuf {
        let name = self.to_string();
        let mut path = folder.to_owned();
        let mut end = name.len();
        for &level in levels {
            path.push(&name[end - usize::from(level)..end]);
            end -= usize::from(level);
        }
        path.push(name);
        path
    }

    /// A number that is as good as random.
    pub fn number(self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_nginxs() {
        let digest = Digest::of(b"http://127.0.0.1:8081/t.html");
        assert_eq!(Digest::parse(digest.to_string().as_bytes()), Some(digest));
        let name = digest.to_string();
        let path = digest.path(Path::new("/c"), &[1, 2]);
        assert_eq!(path.to_str().unwrap(), format!("/c/{}/{}/{name}", &name[31..], &name[29..31]));
        assert_eq!(digest.path(Path::new("/c"), &[]), Path::new("/c").join(name));
        assert_eq!(Digest::of(b"").to_string(), "d41d8cd98f00b204e9800998ecf8427e");
        for bad in ["", "D41D8CD98F00B204E9800998ECF8427E", "d41d8cd98f00b204e9800998ecf8427e0", "x"] {
            assert_eq!(Digest::parse(bad.as_bytes()), None);
        }
    }
}
