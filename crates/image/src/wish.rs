//! What is to be made of an image.

use crate::format::Format;

/// What becomes of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As it is.
    Keep,
    /// Made smaller, in proportion, until it fits.
    Fit {
        /// The most, in pixels.
        width: u32,
        /// The most, in pixels.
        height: u32,
    },
    /// Made smaller, in proportion, until one side fits; what is left over of the other is cut off.
    Fill {
        /// The most, in pixels.
        width: u32,
        /// The most, in pixels.
        height: u32,
    },
}

/// Quarters of a turn against the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// It stays as it is.
    #[default]
    None,
    /// A quarter against the clock.
    Left,
    /// Upside down.
    Half,
    /// A quarter with the clock.
    Right,
}

/// What is to be made of an image.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What becomes of the size.
    pub shape: Shape,
    /// How far it is turned.
    pub turn: Turn,
    /// The format of the result; another one than the source's is used only if it makes the image smaller.
    pub format: Format,
    /// From 1 to 100.
    pub jpeg_quality: u8,
    /// From 1 to 100.
    pub webp_quality: u8,
    /// From 1 to 100.
    pub avif_quality: u8,
    /// Per cent; 0: none.
    pub sharpen: u32,
    /// Transparency of images with a palette is kept.
    pub transparency: bool,
    /// The result is interlaced: progressive, for JPEG.
    pub interlace: bool,
    /// Larger images are refused.
    pub pixels_max: u64,
}
