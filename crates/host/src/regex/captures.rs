//! What the groups of an expression matched.

/// Start and end of a group; the end lies before the start of one that took no part.
pub type Span = (usize, usize);

/// The groups of the last match of a request or session.
#[derive(Clone, Default)]
pub struct Captures {
    pub(super) subject: Vec<u8>,
    /// Start and end per group, group 0 first; `usize::MAX` for a group that took no part.
    pub(super) spans: Vec<Span>,
}

impl Captures {
    /// Forgets the last match.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.spans.clear();
    }

    /// The bytes of a group; empty for one that took no part.
    pub fn group(&self, index: u8) -> &[u8] {
        match self.spans.get(usize::from(index)) {
            Some(&(start, end)) if start <= end && end <= self.subject.len() => &self.subject[start..end],
            _ => b"",
        }
    }

    /// Appends the bytes of a group.
    pub fn append(&self, index: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(self.group(index));
    }
}
