//! What was made of texts, by location and name: bounded, and found by the very texts alone.

use crate::conf::ids::LocationId;
use crate::conf::late::Text;
use crate::limits::{LATE_ENTRIES_MAX, LATE_TEXT_BYTES_MAX};
use hashbrown::HashMap;

struct Entry<T> {
    texts: Vec<Text>,
    made: T,
}

type Key = (LocationId, Box<[u8]>);

/// See the module's head. At most [`LATE_ENTRIES_MAX`] entries, whose texts have at most [`LATE_TEXT_BYTES_MAX`] bytes together.
pub struct Kept<T> {
    entries: HashMap<Key, Entry<T>>,
    /// Of all texts.
    bytes: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept { entries: HashMap::new(), bytes: 0 }
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
        self.bytes -= bytes(&old.texts);
        Some(old.made)
    }

    /// Keeps what was made of texts in the place of what has its name, and gives back what is dropped for it.
    pub fn put(&mut self, location: LocationId, name: Box<[u8]>, texts: Vec<Text>, made: T) -> Vec<T> {
        let mut dropped: Vec<T> = self.take(location, &name).into_iter().collect();
        self.make_room(bytes(&texts), &mut dropped);
        self.bytes += bytes(&texts);
        self.entries.insert((location, name), Entry { texts, made });
        dropped
    }

    /// Bytes of all texts: as counted, and added up.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.bytes, self.entries.values().map(|entry| bytes(&entry.texts)).sum())
    }

    /// Drops half of the entries if there is no room for so many bytes: what is in use comes back with its next request.
    fn make_room(&mut self, more: usize, dropped: &mut Vec<T>) {
        if self.entries.len() < LATE_ENTRIES_MAX && self.bytes + more <= LATE_TEXT_BYTES_MAX {
            return;
        }
        let mut turn = false;
        self.entries.retain(|_, entry| {
            turn = !turn;
            if !turn {
                self.bytes -= bytes(&entry.texts);
                dropped.push(entry.made.clone());
            }
            turn
        });
    }
}
