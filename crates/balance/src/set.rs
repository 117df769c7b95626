//! What the methods choose from: the peers of one kind, and those that a request has asked already.

use crate::peer::{Peer, PeerId};

/// Peers that stand for each other: all servers of a group, or all its backups.
#[derive(Default)]
pub(crate) struct Set {
    pub peers: Vec<Peer>,
    /// Sum of configured weights, in whole numbers.
    pub total_weight: u64,
}

/// The peers that a request has asked already.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    /// Mostly there is no other.
    first: Option<PeerId>,
    more: Vec<PeerId>,
    /// If there is one, only its peers may be asked.
    only: Option<Box<[PeerId]>>,
}

impl Tried {
    /// Whether it was tried, or is not to be.
    pub fn has(&self, id: PeerId) -> bool {
        self.is_tried(id) || !self.may_be(id)
    }

    /// Whether it is one of those that may be asked.
    pub fn may_be(&self, id: PeerId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&id))
    }

    /// The only one that may be asked, if there is no choice.
    pub fn only_one(&self) -> Option<PeerId> {
        self.only.as_deref().and_then(|only| if let [one] = only { Some(*one) } else { None })
    }

    /// Whether it was tried.
    pub fn is_tried(&self, id: PeerId) -> bool {
        self.first == Some(id) || self.more.contains(&id)
    }

    /// From now on only these may be asked.
    pub fn restrict(&mut self, only: &[PeerId]) {
        self.only = Some(only.into());
    }

    /// It is being tried.
    pub fn add(&mut self, id: PeerId) {
        if self.first.is_none() {
            self.first = Some(id);
        } else {
            self.more.push(id);
        }
    }

    /// From now on no peer counts as tried. Those that may be asked stay the same.
    pub fn clear(&mut self) {
        self.first = None;
        self.more.clear();
    }
}
