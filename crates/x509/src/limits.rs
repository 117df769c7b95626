//! What the certificates of a stranger may cost.

/// Certificates of a peer that are looked at besides its own.
pub const EXTRA_MAX: usize = 32;
/// All certificates of a peer together. The TLS library takes no longer messages.
pub const CHAIN_BYTES_MAX: usize = 64 * 1024;
/// Intermediate certificates of a chain, whatever the configuration allows: a chain costs a signature check for each of its
/// certificates, and one more where revocation lists are asked for.
pub const DEPTH_MAX: u32 = 62;
/// Products of a peer's names and the name constraints in its own certificates. AWS-LC has a limit of its own for each pair
/// of certificates (2^20), but a chain has many pairs.
pub const COMPARISONS_MAX: usize = 1 << 18;
/// RSA keys of a peer's authorities. Checking a signature takes the square of their length.
pub const RSA_BITS_MAX: u32 = 8192;
/// What OpenSSL's security level 2 asks of keys and signatures, as the strength of a symmetric key: RSA of 2048 bits,
/// curves of 224, SHA-224. It is the level of Debian's OpenSSL, and so of its nginx.
pub const SECURITY_BITS_MIN: u32 = 112;
/// Clocks differ: nginx allows OCSP responders five minutes.
pub const OCSP_SLACK_SECS: i64 = 300;
