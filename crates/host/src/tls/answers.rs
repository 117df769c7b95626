//! What authorities have answered about certificates (RFC 6960), and what is to be asked.

use crate::zone::Zone;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that an answer in a cache takes, roughly.
const ANSWER_BYTES: u64 = 128;

/// `ssl_stapling`, for one certificate.
#[derive(Debug, Default)]
pub struct Stapler {
    /// `ssl_stapling_responder`.
    pub responder: Option<String>,
    /// Where the issuer is looked for if it is not sent with the certificate; DER.
    pub issuers: Vec<Vec<u8>>,
    /// `ssl_stapling_verify`.
    pub verify: bool,
    /// When it is to be asked about next, in Unix seconds.
    pub due: AtomicI64,
    /// A question is under way.
    pub is_busy: AtomicBool,
}

impl Stapler {
    /// Nothing was asked yet.
    pub fn new(responder: Option<String>, issuers: Vec<Vec<u8>>, verify: bool) -> Stapler {
        Stapler { responder, issuers, verify, ..Stapler::default() }
    }

    /// What is known is of another certificate.
    pub(super) fn forget(&self) {
        self.due.store(0, Ordering::Relaxed);
    }
}

/// `ssl_ocsp`.
pub struct Asking {
    /// Only about the client's own certificate, not about those of its authorities.
    pub leaf: bool,
    /// `ssl_ocsp_responder`.
    pub responder: Option<String>,
    /// `ssl_ocsp_cache`.
    pub cache: Option<Arc<Zone>>,
}

/// Answers about clients' certificates: whether revoked, and until when that is known. The state of a zone.
pub struct Answers {
    entries: Mutex<HashMap<[u8; 32], (bool, i64)>>,
    max: usize,
}

impl Answers {
    /// Answers that take at most so many bytes.
    pub fn new(bytes: u64) -> Answers {
        Answers {
            entries: Mutex::default(),
            max: usize::try_from(bytes / ANSWER_BYTES).unwrap_or(usize::MAX),
        }
    }

    /// What is known by now (Unix seconds): whether it is revoked.
    // An answer that has run out is none: the certificate may have been revoked since.
    pub fn get(&self, id: &[u8; 32], now: i64) -> Option<bool> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(id).filter(|(_, until)| now <= *until).map(|(revoked, _)| *revoked)
    }

    /// Keeps an answer until its end. Where there is no room it is not kept.
    pub fn put(&self, id: [u8; 32], revoked: bool, until: i64, now: i64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.max {
            entries.retain(|_, (_, until)| now <= *until);
        }
        // A full cache keeps what it has. What is not kept is asked again, which costs time and opens
        // nothing.
        if entries.len() < self.max {
            entries.insert(id, (revoked, until));
        }
    }
}
