//! The memory tier of one shard: entries in use, the latest first.

use crate::list::{Links, List, Slots};
use crate::object::Object;
use std::sync::Arc;

struct Slot {
    links: Links,
    /// The entry in the index.
    entry: u32,
    object: Option<Arc<Object>>,
}

#[derive(Default)]
struct Slab(Vec<Slot>);

impl Slots for Slab {
    fn links(&mut self, slot: u32) -> &mut Links {
        &mut self.0[slot as usize].links
    }
}

/// See the module's head.
#[derive(Default)]
pub struct Memory {
    slab: Slab,
    free: Vec<u32>,
    list: List,
    /// Bytes of all objects.
    pub bytes: usize,
    /// Of them, those of tags.
    pub tag_bytes: usize,
    /// Descriptors that objects hold.
    pub descriptors: usize,
}

impl Memory {
    /// The object of a slot, which counts as used now.
    pub fn get(&mut self, slot: u32) -> &Arc<Object> {
        self.list.touch(&mut self.slab, slot);
        self.peek(slot)
    }

    /// Without counting as use.
    pub fn peek(&self, slot: u32) -> &Arc<Object> {
        self.slab.0[slot as usize].object.as_ref().expect("a slot that is in use")
    }

    /// Adds the object of an entry, and gives its slot.
    pub fn insert(&mut self, entry: u32, object: Arc<Object>) -> u32 {
        self.bytes += object.memory_bytes();
        self.tag_bytes += object.meta.tags.len();
        self.descriptors += usize::from(object.holds_descriptor());
        let slot = Slot { links: Links::default(), entry, object: Some(object) };
        let at = match self.free.pop() {
            Some(at) => {
                self.slab.0[at as usize] = slot;
                at
            }
            None => {
                self.slab.0.push(slot);
                self.slab.0.len() as u32 - 1
            }
        };
        self.list.push(&mut self.slab, at);
        at
    }

    /// Removes the object of a slot, and gives it.
    pub fn remove(&mut self, slot: u32) -> Option<Arc<Object>> {
        self.list.remove(&mut self.slab, slot);
        self.free.push(slot);
        let object = self.slab.0[slot as usize].object.take()?;
        self.bytes -= object.memory_bytes();
        self.tag_bytes -= object.meta.tags.len();
        self.descriptors -= usize::from(object.holds_descriptor());
        Some(object)
    }

    /// The slot and entry used longest ago.
    pub fn oldest(&self) -> Option<(u32, u32)> {
        let slot = self.list.oldest()?;
        Some((slot, self.slab.0[slot as usize].entry))
    }

    /// All objects with their entries.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Object>)> {
        self.slab.0.iter().filter_map(|slot| Some((slot.entry, slot.object.as_ref()?)))
    }
}
