//! A list of slots by use, the latest first, in a few bytes per slot.

/// No slot.
pub const NONE: u32 = u32::MAX;

/// A slot's neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    newer: u32,
    older: u32,
}

impl Default for Links {
    fn default() -> Links {
        Links { newer: NONE, older: NONE }
    }
}

/// Where the links of a slot are.
pub trait Slots {
    /// The neighbours of a slot.
    fn links(&mut self, slot: u32) -> &mut Links;
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    newest: u32,
    oldest: u32,
}

impl Default for List {
    fn default() -> List {
        List { newest: NONE, oldest: NONE }
    }
}

impl List {
    /// The slot that was used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The one that was used next after `slot`.
    pub fn newer(&self, slots: &mut impl Slots, slot: u32) -> Option<u32> {
        let newer = slots.links(slot).newer;
        (newer != NONE).then_some(newer)
    }

    /// Adds a slot that is in no list, as the latest.
    pub fn push(&mut self, slots: &mut impl Slots, slot: u32) {
        *slots.links(slot) = Links { newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = slot,
            newest => slots.links(newest).newer = slot,
        }
        self.newest = slot;
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slots: &mut impl Slots, slot: u32) {
        let Links { newer, older } = std::mem::take(slots.links(slot));
        match newer {
            NONE => self.newest = older,
            newer => slots.links(newer).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => slots.links(older).newer = newer,
        }
    }

    /// It is used now.
    pub fn touch(&mut self, slots: &mut impl Slots, slot: u32) {
        if self.newest != slot {
            self.remove(slots, slot);
            self.push(slots, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Slots for Vec<Links> {
        fn links(&mut self, slot: u32) -> &mut Links {
            &mut self[slot as usize]
        }
    }

    fn order(list: &List, slots: &mut Vec<Links>) -> Vec<u32> {
        let mut out = Vec::new();
        let mut at = list.oldest();
        while let Some(slot) = at {
            out.push(slot);
            at = list.newer(slots, slot);
        }
        out
    }

    proptest! {
        #[test]
        fn it_is_what_a_vector_would_be(steps in proptest::collection::vec((0u32..8, 0u8..3), 0..60)) {
            let (mut list, mut slots, mut model) = (List::default(), vec![Links::default(); 8], Vec::new());
            for (slot, step) in steps {
                let is_in = model.contains(&slot);
                match step {
                    0 if !is_in => {
                        list.push(&mut slots, slot);
                        model.push(slot);
                    }
                    1 if is_in => {
                        list.touch(&mut slots, slot);
                        model.retain(|have| *have != slot);
                        model.push(slot);
                    }
                    2 if is_in => {
                        list.remove(&mut slots, slot);
                        model.retain(|have| *have != slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(&order(&list, &mut slots), &model);
            }
        }
    }
}
