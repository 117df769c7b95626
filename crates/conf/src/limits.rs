//! Every limit of this crate that is not a directive, with its unit in its name.

// excerpt.rs

/// Characters of a line that are shown: configurations may be one long line.
pub const LINE_CHARS_MAX: usize = 160;
/// Of those, the ones before the place.
pub const LEAD_CHARS_MAX: usize = 60;

// lexer.rs

/// nginx refuses longer parameters; so do we, with the same words.
pub const TOKEN_BYTES_MAX: usize = 4096;

// row.rs

/// A longer form of a directive is looked up: nobody finds a mistake in it.
pub const USAGE_CHARS_MAX: usize = 100;

// parser.rs

/// How deep blocks and includes may nest; a file that includes itself ends here.
pub const BLOCK_DEPTH_MAX: usize = 32;
