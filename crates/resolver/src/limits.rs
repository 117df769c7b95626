//! Every limit of this crate that is not a directive, with its unit in its name.

// cache.rs

/// Names that are kept at most; when there are more, those that have expired go, then any.
pub const ENTRIES_MAX: usize = 16_384;

// exchange.rs

/// More than a server may send over UDP.
pub const UDP_BYTES_MAX: usize = 4096;

// message.rs

/// RFC 1035 §2.3.4 has two less, nginx asks for four labels of 63 too.
pub const NAME_BYTES_MAX: usize = 257;
/// The longest label of a name, in bytes (RFC 1035 §2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;
/// As many are enough for a name of 255 bytes; more are a loop.
pub const POINTERS_MAX: usize = 128;
/// Aliases that are followed within an answer: more are a loop, or an attempt to keep us busy.
pub const MESSAGE_ALIASES_MAX: usize = 32;

// resolver.rs

/// Aliases of aliases that are followed.
pub const RESOLVER_ALIASES_MAX: usize = 50;

// service.rs

/// Records of one service that are looked at.
pub const RECORDS_MAX: usize = 256;
