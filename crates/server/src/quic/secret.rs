//! What keys of QUIC are made of.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the secret.
pub const SECRET_BYTES: usize = 32;

/// Static, since workers are forked: they have what the master had.
static SECRET: Mutex<Option<[u8; SECRET_BYTES]>> = Mutex::new(None);

fn secret() -> MutexGuard<'static, Option<[u8; SECRET_BYTES]>> {
    SECRET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drawn by the master before it forks its first worker, so that all its workers have the same: what one has given out, its
/// successor after a crash can answer. A master that takes over from another one has [inherited](inherit) it.
pub fn drawn() -> [u8; SECRET_BYTES] {
    *secret().get_or_insert_with(|| {
        let mut secret = [0; SECRET_BYTES];
        let mut filled = 0;
        while filled < secret.len() {
            match rustix::rand::getrandom(&mut secret[filled..], rustix::rand::GetRandomFlags::empty()) {
                // It may be interrupted after a part.
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                // Keys that can be guessed are worse than no server.
                Err(error) => panic!("the system has no randomness: {error}"),
            }
        }
        secret
    })
}

/// Another process's secret is this one's from now on. To be called before the first worker is started.
pub fn inherit(bytes: [u8; SECRET_BYTES]) {
    *secret() = Some(bytes);
}
