//! The formats of images, and how they are told apart.

/// Kinds of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// PNG.
    Png,
    /// WebP.
    WebP,
    /// Written only, and only with the feature `avif`.
    Avif,
}

/// Whether AVIF can be written.
pub const CAN_AVIF: bool = cfg!(feature = "avif");

impl Format {
    /// What begins with these bytes (16 are enough), as nginx tells images.
    pub fn of(head: &[u8]) -> Option<Format> {
        if head.len() < 16 {
            return None;
        }
        match head {
            [0xff, 0xd8, ..] => Some(Format::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Format::Gif),
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::WebP),
            _ => None,
        }
    }

    /// `jpeg`, `gif`, …
    pub fn name(self) -> &'static str {
        &self.media_type()[6..]
    }

    /// `image/jpeg`, …
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Jpeg => "image/jpeg",
            Format::Gif => "image/gif",
            Format::Png => "image/png",
            Format::WebP => "image/webp",
            Format::Avif => "image/avif",
        }
    }
}
