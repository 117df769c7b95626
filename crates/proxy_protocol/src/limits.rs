//! Every limit of this crate, in one place. Units are in the names.

/// The longest header of version 1, with its CRLF (§2.1).
pub const PROXY_V1_BYTES_MAX: usize = 107;
/// The longest header of version 2 that is taken, TLVs included (nginx: `NGX_PROXY_PROTOCOL_MAX_HEADER`).
pub const PROXY_V2_BYTES_MAX: usize = 4096;
/// What is quoted of something that is no header.
pub const PROXY_TEXT_BYTES_MAX: usize = 1024;
