//! What was made of texts, by location and name: bounded, and found by the very texts alone.

use crate::conf::ids::LocationId;
use crate::conf::late::Text;
use crate::limits::{LATE_ENTRIES_MAX, LATE_TEXT_BYTES_MAX};
use hashbrown::HashMap;

/// The texts are kept and compared: a hash could be met by other texts, which somebody may write on purpose.
struct Entry<T> {
    texts: Vec<Text>,
    made: T,
    /// Of the texts and of what was made of them.
    /// Without it a short text that becomes a large plan would count as small.
    bytes: usize,
}

type Key = (LocationId, Box<[u8]>);

/// See the module's head. At most [`LATE_ENTRIES_MAX`] entries, whose bytes are bounded together: [`LATE_TEXT_BYTES_MAX`] if nothing else is
/// said.
pub struct Kept<T> {
    entries: HashMap<Key, Entry<T>>,
    /// Of all entries.
    bytes: usize,
    bytes_max: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept::bounded(LATE_TEXT_BYTES_MAX)
    }
}

impl<T> Kept<T> {
    /// With room for so many bytes of texts and of what is made of them.
    pub fn bounded(bytes_max: usize) -> Kept<T> {
        Kept { entries: HashMap::new(), bytes: 0, bytes_max }
    }
}

fn bytes(texts: &[Text]) -> usize {
    texts.iter().map(|text| text.name.len() + text.text.len()).sum()
}

impl<T: Clone> Kept<T> {
    /// What was made of these very texts.
    pub fn find(&self, location: LocationId, name: &[u8], texts: &[Text]) -> Option<T> {
        let entry = self.entries.get(&(location, name.into()))?;
        (entry.texts == texts).then(|| entry.made.clone())
    }

    /// Takes out what has a name, whatever it was made of.
    pub fn take(&mut self, location: LocationId, name: &[u8]) -> Option<T> {
        let old = self.entries.remove(&(location, name.into()))?;
        // Counted back exactly, or the bound would drift.
        self.bytes -= old.bytes;
        Some(old.made)
    }

    /// What was made of the texts of a name, whatever they were.
    pub fn last(&self, location: LocationId, name: &[u8]) -> Option<&T> {
        Some(&self.entries.get(&(location, name.into()))?.made)
    }

    /// Keeps what was made of texts in the place of what has its name, and gives back what is dropped for it. `made_bytes` is what it
    /// holds in memory beside the texts.
    pub fn put(
        &mut self,
        location: LocationId,
        name: Box<[u8]>,
        texts: Vec<Text>,
        made: T,
        made_bytes: usize,
    ) -> Vec<T> {
        let mut dropped: Vec<T> = self.take(location, &name).into_iter().collect();
        let bytes = bytes(&texts) + made_bytes;
        // Before it is entered, so that the new one is not among those that go.
        self.make_room(bytes, &mut dropped);
        self.bytes += bytes;
        self.entries.insert((location, name), Entry { texts, made, bytes });
        dropped
    }

    /// Bytes of all entries: as counted, and added up.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.entries.values().map(|entry| entry.bytes).sum())
    }

    /// Drops half of the entries as long as there is no room for so many bytes: what is in use comes back with its next request.
    fn make_room(&mut self, more: usize, dropped: &mut Vec<T>) {
        while !self.entries.is_empty()
            // A text above the bound is kept alone: it is needed by the request that has brought it.
            && (self.entries.len() >= LATE_ENTRIES_MAX || self.bytes + more > self.bytes_max)
        {
            // The last entry that is left goes, too.
            let mut stays = self.entries.len() == 1;
            self.entries.retain(|_, entry| {
                // Every other one, whatever its age: keeping an order of use would make each request write.
                stays = !stays;
                if !stays {
                    self.bytes -= entry.bytes;
                    dropped.push(entry.made.clone());
                }
                stays
            });
        }
    }
}
