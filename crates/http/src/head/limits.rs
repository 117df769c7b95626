//! How nginx's header buffers limit a head.
//!
//! nginx reads into one buffer of `client_header_buffer_size`. A line that reaches its end moves to a new buffer of
//! `large_client_header_buffers`; a line longer than such a buffer, or the need for one more buffer than configured,
//! is an error. We keep the head in one piece of memory and only count as if there were buffers.

use super::HeadOptions;

/// The state of the imagined buffers at the beginning of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Room {
    /// Free bytes in the buffer that is being filled.
    left: usize,
    /// Large buffers in use.
    buffers: usize,
}

impl Room {
    pub(crate) fn new(opts: &HeadOptions) -> Self {
        Room { left: opts.first_buffer, buffers: 0 }
    }

    /// The most bytes, with its line end, that the line beginning here may have.
    #[inline]
    pub(crate) fn line_limit(&self, opts: &HeadOptions) -> usize {
        if self.left < opts.line_max && self.buffers < opts.buffers_max { opts.line_max } else { self.left }
    }

    /// A line of `len` bytes, not above the limit, was read.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, opts: &HeadOptions) {
        if let Some(left) = self.left.checked_sub(len) {
            self.left = left;
        } else {
            self.buffers += 1;
            self.left = opts.line_max - len;
        }
    }

    /// Empty lines before a request fill the first buffer, but never need another one.
    pub(crate) fn take_leading(&mut self, len: usize) {
        self.left = self.left.saturating_sub(len);
    }
}
