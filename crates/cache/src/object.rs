//! An entry in use: its header, and its body or the open file that holds it.

use crate::digest::Digest;
use crate::format::Meta;
use brisk_net::Content;
use brisk_net::watch::Flag;
use rustix::fd::OwnedFd;
use std::any::Any;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

/// Where a body is.
#[derive(Clone, Debug)]
pub enum Body {
    /// In memory. The file of the entry, if it is there, is where it stands, too.
    Memory(Arc<Content>),
    /// From `offset` on.
    File {
        /// The file.
        fd: Arc<OwnedFd>,
        /// Where the body begins.
        offset: u64,
        /// Bytes of the body.
        len: u64,
    },
}

impl Body {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::Memory(bytes) => bytes.len() as u64,
            Body::File { len, .. } => *len,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Device and inode: whether a path still leads to the same file.
pub type Identity = (u64, u64);

/// See the module's head. It never changes; a newer one takes its place.
#[derive(Debug)]
pub struct Object {
    /// Of its key.
    pub digest: Digest,
    /// What is known beside the body.
    pub meta: Meta,
    /// The body.
    pub body: Body,
    /// Of the file.
    pub(crate) header_bytes: u32,
    pub(crate) body_crc: u32,
    /// Not set while the file is being written.
    pub(crate) identity: OnceLock<Identity>,
    /// Lowered when the entry is purged or replaced: prepared answers hold it.
    pub flag: Arc<Flag>,
    /// The last second in which its file was looked at.
    checked: AtomicI64,
    /// What the user of the cache made of the head, once for all.
    pub parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// What an object takes beside what it points to, roughly.
const OBJECT_BYTES: usize = 512;

impl Object {
    pub(crate) fn new(digest: Digest, meta: Meta, body: Body, header_bytes: u32, body_crc: u32) -> Object {
        Object {
            digest,
            meta,
            body,
            header_bytes,
            body_crc,
            identity: OnceLock::new(),
            flag: Flag::raised(),
            checked: AtomicI64::new(i64::MIN),
            parsed: OnceLock::new(),
        }
    }

    /// What it takes of the memory tier.
    pub fn memory_bytes(&self) -> usize {
        let Meta { key, vary, tags, head, .. } = &self.meta;
        let body = match &self.body {
            Body::Memory(bytes) => bytes.len(),
            Body::File { .. } => 0,
        };
        // The head is there twice: as text, and as what was made of it.
        OBJECT_BYTES + key.len() + vary.len() + tags.len() + head.len() * 2 + body
    }

    pub(crate) fn holds_descriptor(&self) -> bool {
        matches!(self.body, Body::File { .. })
    }

    /// True once per second: the file is to be looked at.
    pub(crate) fn is_due(&self, now: i64) -> bool {
        self.checked.load(Ordering::Relaxed) != now && self.checked.swap(now, Ordering::Relaxed) != now
    }

    pub(crate) fn note_checked(&self, now: i64) {
        self.checked.store(now, Ordering::Relaxed);
    }
}
