//! The one thing of Exif that matters to a picture: how the camera was held (Exif 2.32 §4.6.4, tag 0x0112).

use crate::pixels::Pixels;
use crate::wish::Turn;

/// From 1, upright, to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orientation(u8);

impl Orientation {
    /// Whether width and height are exchanged when it is shown.
    pub fn is_on_its_side(self) -> bool {
        self.0 >= 5
    }

    /// The picture as it should be looked at.
    pub fn upright(self, image: Pixels) -> Pixels {
        let (turn, is_mirrored) = match self.0 {
            2 => (Turn::None, true),
            3 => (Turn::Half, false),
            4 => (Turn::Half, true),
            5 => (Turn::Right, true),
            6 => (Turn::Right, false),
            7 => (Turn::Left, true),
            8 => (Turn::Left, false),
            _ => (Turn::None, false),
        };
        let image = image.turned(turn);
        if is_mirrored { image.mirrored() } else { image }
    }
}

/// The orientation in Exif data (a TIFF header with its first directory).
pub fn orientation(exif: &[u8]) -> Option<Orientation> {
    let is_little = match exif.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let (low, high) = (usize::from(short(4)?), usize::from(short(6)?));
    let directory = if is_little { high << 16 | low } else { low << 16 | high };
    let count = usize::from(short(directory)?);
    let entries = (0..count).map(|entry| directory + 2 + entry * 12);
    // Ends where the data do, whatever the count says: a file may have thousands of such directories.
    let mut entries = entries.map_while(|at| Some((short(at)?, short(at + 8)?)));
    entries.find_map(|(tag, value)| {
        (tag == 0x0112 && (1..=8).contains(&value)).then_some(Orientation(value as u8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orientations_are_found() {
        let big = b"MM\0*\0\0\0\x08\0\x02\x01\0\0\x04\0\0\0\x01\0\0\0\x05\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
        assert_eq!(orientation(big), Some(Orientation(6)));
        let little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x03\0\0\0";
        assert_eq!(orientation(little), Some(Orientation(3)));
        for cut in 0..little.len() - 2 {
            assert_eq!(orientation(&little[..cut]), None, "{cut}");
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff\x01\0"), None);
    }

    #[test]
    fn pictures_are_put_upright() {
        // a b
        // c d
        // e f   as the camera held in each of the eight ways writes it.
        let check = |number: u8, width: u32, text: &str| {
            let data = text.bytes().flat_map(|b| [b, b, b, 255]).collect();
            let image = Pixels::new(width, 6 / width, data);
            let image = Orientation(number).upright(image);
            let got: String = image.data.chunks(4).map(|p| char::from(p[0])).collect();
            assert_eq!((image.width, &*got), (2, "abcdef"), "{number}");
        };
        check(1, 2, "abcdef");
        check(2, 2, "badcfe");
        check(3, 2, "fedcba");
        check(4, 2, "efcdab");
        check(5, 3, "acebdf");
        check(6, 3, "bdface");
        check(7, 3, "fdbeca");
        check(8, 3, "ecafdb");
    }
}
