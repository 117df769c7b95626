//! The buffer into which a thread reads from back ends: one for all connections, since a read is taken at once.

use std::cell::RefCell;

/// Bytes taken from a back end in one read.
pub(crate) const READ_BYTES: usize = 64 * 1024;

thread_local! {
    /// Reads go here first, so that a connection without bytes to read holds no buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends out the thread's buffer of [`READ_BYTES`].
/// It is taken out while it is lent: a destructor in `work` that leads back here gets one of its own, and no
/// borrow can panic.
pub(crate) fn scratch<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    let mut buf = SCRATCH.take();
    buf.resize(READ_BYTES, 0);
    let result = work(&mut buf);
    SCRATCH.set(buf);
    result
}
