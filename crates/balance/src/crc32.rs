//! CRC-32 as nginx's `hash` uses it (ISO 3309, reflected), in steps: `consistent` goes on from a state in the middle.

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

/// A checksum in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(u32);

impl Crc32 {
    pub fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    #[must_use]
    pub fn update(self, bytes: &[u8]) -> Crc32 {
        Crc32(
            bytes
                .iter()
                .fold(self.0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ crc >> 8),
        )
    }

    pub fn value(self) -> u32 {
        !self.0
    }
}

/// The checksum of a whole text.
pub fn crc32(bytes: &[u8]) -> u32 {
    Crc32::new().update(bytes).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(Crc32::new().update(b"1234").update(b"56789").value(), 0xcbf4_3926);
    }
}
