//! The size of an image, from its header alone.

use crate::exif;
use crate::format::Format;
use crate::wish::Shape;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// In pixels, as it is shown.
    pub width: u32,
    /// In pixels, as it is shown.
    pub height: u32,
    /// A JPEG of which more than a twentieth is not the picture (Exif, XMP, …): it is made anew even if its size is
    /// right, as in nginx.
    pub is_padded: bool,
    /// It has several pictures: made anew it would have one.
    pub is_animated: bool,
    /// The camera was held on its side: width and height are the other way round when it is shown.
    pub is_on_its_side: bool,
}

impl Probe {
    fn of(width: u32, height: u32) -> Option<Probe> {
        let probe = Probe { width, height, is_padded: false, is_animated: false, is_on_its_side: false };
        (width > 0 && height > 0).then_some(probe)
    }

    /// Whether the image need not be made smaller.
    pub fn fits(&self, shape: Shape) -> bool {
        let (width, height) =
            if self.is_on_its_side { (self.height, self.width) } else { (self.width, self.height) };
        match shape {
            Shape::Keep => true,
            Shape::Fit { width: max_width, height: max_height }
            | Shape::Fill { width: max_width, height: max_height } => {
                width <= max_width && height <= max_height
            }
        }
    }
}

/// The size of an image; `None`: it cannot be found.
pub fn probe(format: Format, bytes: &[u8]) -> Option<Probe> {
    match format {
        Format::Jpeg => jpeg(bytes),
        Format::Gif => {
            let probe = Probe::of(little(bytes, 6)?, little(bytes, 8)?)?;
            Some(Probe { is_animated: has_two_frames(bytes).unwrap_or(false), ..probe })
        }
        Format::Png => {
            if bytes.get(12..16)? != b"IHDR" {
                return None;
            }
            let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
            let probe = Probe::of(number(16)?, number(20)?)?;
            // Animations say so before the picture begins.
            let head = &bytes[..bytes.len().min(4096)];
            Some(Probe { is_animated: head.windows(4).any(|chunk| chunk == b"acTL"), ..probe })
        }
        Format::WebP => webp(bytes),
        Format::Avif => None,
    }
}

fn little(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn big(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn jpeg(bytes: &[u8]) -> Option<Probe> {
    let mut at = 2;
    let (mut size, mut padding, mut is_on_its_side) = (None, 0, false);
    // As in nginx: whatever is between segments is passed over.
    while at + 10 <= bytes.len() {
        if bytes[at] != 0xff || matches!(bytes[at + 1], 0xff | 0x00) {
            at += 1;
            continue;
        }
        let marker = bytes[at + 1];
        // Markers without a segment.
        if matches!(marker, 0x01 | 0xd0..=0xd9) {
            at += 2;
            continue;
        }
        let length = big(bytes, at + 2)?;
        match marker {
            0xc0..=0xc3 | 0xc9..=0xcb if size.is_none() => {
                size = Some((big(bytes, at + 7)? as u32, big(bytes, at + 5)? as u32));
            }
            0xe1..=0xef => {
                padding += length;
                let segment = bytes.get(at + 4..at + 2 + length).unwrap_or_default();
                if let Some(exif) = segment.strip_prefix(b"Exif\0\0") {
                    is_on_its_side = exif::orientation(exif).is_some_and(exif::Orientation::is_on_its_side);
                }
            }
            // The picture itself begins: no header follows that would matter.
            0xda => break,
            _ => {}
        }
        at += 2 + length.max(2);
    }
    let (width, height) = size?;
    let probe = Probe::of(width, height)?;
    Some(Probe { is_padded: bytes.len() / 20 < padding, is_on_its_side, ..probe })
}

fn webp(bytes: &[u8]) -> Option<Probe> {
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    if bytes.len() < 30 {
        return None;
    }
    match bytes.get(12..16)? {
        b"VP8 " => {
            let is_key_frame = bytes[20] & 1 == 0 && bytes[23..26] == [0x9d, 0x01, 0x2a];
            if !is_key_frame {
                return None;
            }
            Probe::of(little(bytes, 26)? & 0x3fff, little(bytes, 28)? & 0x3fff)
        }
        b"VP8L" if bytes[20] == 0x2f => {
            let bits = u32::from_le_bytes(bytes[21..25].try_into().ok()?);
            Probe::of((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1)
        }
        b"VP8X" => {
            let three = |at| Some(byte(at)? | byte(at + 1)? << 8 | byte(at + 2)? << 16);
            let probe = Probe::of(three(24)? + 1, three(27)? + 1)?;
            Some(Probe { is_animated: bytes[20] & 2 != 0, ..probe })
        }
        _ => None,
    }
}

/// Whether a GIF has a second picture.
fn has_two_frames(bytes: &[u8]) -> Option<bool> {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut at = 13 + table(*bytes.get(10)?);
    let mut frames = 0;
    loop {
        match *bytes.get(at)? {
            0x21 => at = blocks(bytes, at + 2)?,
            0x2c => {
                frames += 1;
                if frames == 2 {
                    return Some(true);
                }
                at = blocks(bytes, at + 11 + table(*bytes.get(at + 9)?))?;
            }
            _ => return Some(false),
        }
    }
}

/// Behind the blocks that begin at `at`.
fn blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1 + length;
        if length == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found() {
        let gif = b"GIF89a\x0a\x00\x14\x00\x00\x00\x00\x2c\0\0\0\0\x0a\0\x14\0\0\x02\x01\0\0\x3b";
        let found = probe(Format::Gif, gif).unwrap();
        assert_eq!((found.width, found.height, found.is_animated), (10, 20, false));
        let two = [&gif[..gif.len() - 1], &gif[13..]].concat();
        assert!(probe(Format::Gif, &two).unwrap().is_animated);
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\x01\0\0\0\0\0\x02\x08\x06\0\0\0";
        let found = probe(Format::Png, png).unwrap();
        assert_eq!((found.width, found.height), (65_536, 2));
        let jpeg = b"\xff\xd8\xff\xe1\0\x06abcd\xff\xc2\0\x11\x08\0\x02\x01\x03\x03\x01\x22\0\x02";
        let found = probe(Format::Jpeg, jpeg).unwrap();
        assert_eq!((found.width, found.height, found.is_padded), (259, 2, true));
    }

    #[test]
    fn what_has_no_size_is_none() {
        for format in [Format::Jpeg, Format::Gif, Format::Png, Format::WebP] {
            for length in [0, 1, 10, 16, 29, 100] {
                assert_eq!(probe(format, &vec![0; length]), None);
                let _ = probe(format, &vec![0xff; length]);
            }
        }
    }
}
