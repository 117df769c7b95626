//! Names of entries: the MD5 of the key, as nginx makes them.

use md5::{Digest as _, Md5};
use std::fmt;
use std::path::{Path, PathBuf};

/// What a byte is as a hexadecimal digit in lower case: a million names are read without a branch per digit.
const DIGITS: [u8; 256] = {
    let mut digits = [0xff; 256];
    let mut digit = 0;
    while digit < 16 {
        digits[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// The MD5 of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The digest of a key.
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
        let (mut out, mut seen) = ([0; 16], 0);
        for (slot, pair) in out.iter_mut().zip(name.chunks_exact(2)) {
            let (high, low) = (DIGITS[usize::from(pair[0])], DIGITS[usize::from(pair[1])]);
            *slot = high << 4 | low & 0xf;
            seen |= high | low;
        }
        (seen < 16).then_some(Digest(out))
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
        self.half(0)
    }

    /// Another one, of which [`Digest::number`] says nothing.
    pub fn other_number(self) -> u64 {
        self.half(8)
    }

    fn half(self, from: usize) -> u64 {
        let mut half = [0; 8];
        half.copy_from_slice(&self.0[from..from + 8]);
        u64::from_le_bytes(half)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
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
        for bad in [
            "",
            "D41D8CD98F00B204E9800998ECF8427E",
            "d41d8cd98f00b204e9800998ecf8427e0",
            "x",
            "d41d8cd98f00b204e9800998ecf8427g",
        ] {
            assert_eq!(Digest::parse(bad.as_bytes()), None);
        }
    }
}
