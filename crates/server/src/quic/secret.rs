//! What keys of QUIC are made of.

use std::sync::OnceLock;

/// Drawn by the master before it forks its first worker, so that all its workers have the same: what one has given out, its
/// successor after a crash can answer.
pub(crate) fn drawn() -> &'static [u8; 32] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let mut secret = [0; 32];
        let mut filled = 0;
        while filled < secret.len() {
            match rustix::rand::getrandom(&mut secret[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the system has no randomness: {error}"),
            }
        }
        secret
    })
}
