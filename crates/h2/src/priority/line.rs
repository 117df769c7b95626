//! Eight lines, one per urgency, of the streams that can send.

use std::collections::VecDeque;

/// Stream ids by urgency. Whoever stands in front is asked first.
#[derive(Debug, Default)]
pub(crate) struct Lines([VecDeque<u32>; 8]);

impl Lines {
    pub(crate) fn push(&mut self, urgency: u8, id: u32) {
        self.0[usize::from(urgency & 7)].push_back(id);
    }

    /// The most urgent one.
    pub(crate) fn front(&self) -> Option<(u8, u32)> {
        self.0.iter().zip(0..).find_map(|(line, urgency)| line.front().map(|&id| (urgency, id)))
    }

    pub(crate) fn pop(&mut self, urgency: u8) {
        self.0[usize::from(urgency & 7)].pop_front();
    }

    /// It has had its turn.
    pub(crate) fn rotate(&mut self, urgency: u8) {
        self.0[usize::from(urgency & 7)].rotate_left(1);
    }

    /// Takes out a stream that ends wherever it stands.
    pub(crate) fn remove(&mut self, id: u32) {
        for line in &mut self.0 {
            if let Some(at) = line.iter().position(|&have| have == id) {
                line.remove(at);
                return;
            }
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.0.iter().map(|line| line.capacity() * size_of::<u32>()).sum()
    }

    /// Gives memory back.
    pub(crate) fn trim(&mut self) {
        self.0.iter_mut().filter(|line| line.is_empty()).for_each(|line| *line = VecDeque::new());
    }
}
