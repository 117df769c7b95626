//! Why an image cannot be made.

use std::fmt;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The size cannot be found out.
    NoSize,
    /// More than `pixels_max`.
    TooLarge {
        /// In pixels.
        width: u32,
        /// In pixels.
        height: u32,
    },
    /// What the decoder or encoder says.
    Codec(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSize => f.write_str("size of the image not found"),
            Error::TooLarge { width, height } => write!(f, "too large image: {width}x{height}"),
            Error::Codec(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// What a decoder or encoder says.
    pub(crate) fn codec(error: impl fmt::Display) -> Error {
        Error::Codec(error.to_string())
    }
}
