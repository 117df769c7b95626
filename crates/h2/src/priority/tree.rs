//! The dependency tree of RFC 7540 §5.3, with a bounded number of nodes.
//!
//! A node shares its parent's turn with its siblings by weight, and comes before its own children (§5.3.1). Shares are
//! kept by virtual time: a node that has sent n bytes has used n / weight of it, and who would be through first with
//! another frame is next.

use super::Dependency;

type Index = u16;
const ROOT: Index = 0;

#[derive(Debug)]
struct Node {
    id: u32,
    parent: Index,
    children: Vec<Index>,
    weight: u16,
    /// Virtual time that was used, in 1/256 bytes per weight.
    used: u64,
    /// The `used` of the child that sent last: whoever joins begins here.
    clock: u64,
    /// The stream can send.
    ready: bool,
    /// Streams that can send, this one included, from here down.
    active: u32,
    /// There is no stream (yet, or any more): the node may be dropped.
    vacant: bool,
    /// When it became vacant.
    since: u64,
}

impl Node {
    fn new(id: u32, parent: Index) -> Node {
        Node {
            id,
            parent,
            children: Vec::new(),
            weight: Dependency::default().weight,
            used: 0,
            clock: 0,
            ready: false,
            active: 0,
            vacant: true,
            since: 0,
        }
    }

    /// When a frame of it would be through: of two that have used as much, the heavier one comes first.
    fn due(&self) -> u64 {
        self.used + cost(FRAME_BYTES, self.weight)
    }
}

/// A usual frame.
const FRAME_BYTES: usize = 8 << 10;

/// Virtual time for so many bytes.
fn cost(bytes: usize, weight: u16) -> u64 {
    ((bytes as u64) << 8) / u64::from(weight) + 1
}

#[derive(Debug)]
pub(crate) struct Tree {
    /// The root is the first. Slots of dropped nodes are used again at once.
    nodes: Vec<Node>,
    nodes_max: usize,
    turn: u64,
}

impl Tree {
    /// `nodes_max`: more than there can be streams at a time.
    pub(crate) fn new(nodes_max: usize) -> Tree {
        let nodes_max = nodes_max.min(usize::from(Index::MAX) - 1);
        Tree { nodes: vec![Node::new(0, ROOT)], nodes_max, turn: 0 }
    }

    pub(crate) fn memory(&self) -> usize {
        let children: usize = self.nodes.iter().map(|n| n.children.capacity() * size_of::<Index>()).sum();
        self.nodes.capacity() * size_of::<Node>() + children
    }

    fn find(&self, id: u32) -> Option<Index> {
        self.nodes.iter().position(|node| node.id == id).map(|at| at as Index)
    }

    fn node(&mut self, at: Index) -> &mut Node {
        &mut self.nodes[usize::from(at)]
    }

    /// The node of a stream, made below the root if there is none. `keep` is not dropped for it.
    fn find_or_make(&mut self, id: u32, keep: Option<Index>) -> Option<Index> {
        if let Some(at) = self.find(id) {
            return Some(at);
        }
        let at = if self.nodes.len() <= self.nodes_max {
            self.nodes.push(Node::new(id, ROOT));
            self.nodes.len() as Index - 1
        } else {
            let at = self.oldest_vacant(keep)?;
            self.dissolve(at);
            self.nodes[usize::from(at)] = Node::new(id, ROOT);
            at
        };
        self.turn += 1;
        self.node(at).since = self.turn;
        self.node(ROOT).children.push(at);
        Some(at)
    }

    fn oldest_vacant(&self, keep: Option<Index>) -> Option<Index> {
        let all = self.nodes.iter().zip(0..).skip(1);
        let vacant = all.filter(|&(node, at)| node.vacant && Some(at) != keep);
        vacant.min_by_key(|(node, _)| node.since).map(|(_, at)| at)
    }

    /// Takes a node out; its children get its place and share its weight (RFC 7540 §5.3.4).
    fn dissolve(&mut self, at: Index) {
        let (children, parent, weight) = {
            let node = self.node(at);
            (std::mem::take(&mut node.children), node.parent, u32::from(node.weight))
        };
        let total: u32 = children.iter().map(|&c| u32::from(self.nodes[usize::from(c)].weight)).sum();
        let clock = self.nodes[usize::from(parent)].clock;
        for &child in &children {
            let node = self.node(child);
            node.parent = parent;
            node.weight = (weight * u32::from(node.weight) / total.max(1)).clamp(1, 256) as u16;
            node.used = clock;
        }
        let siblings = &mut self.node(parent).children;
        siblings.retain(|&sibling| sibling != at);
        siblings.extend(children);
    }

    /// A stream has begun.
    pub(crate) fn open(&mut self, id: u32) {
        if let Some(at) = self.find_or_make(id, None) {
            self.node(at).vacant = false;
        }
    }

    /// A stream has ended; others may go on depending on it for a while.
    pub(crate) fn close(&mut self, id: u32) {
        let Some(at) = self.find(id) else { return };
        self.set_ready(id, false);
        self.turn += 1;
        let turn = self.turn;
        let node = self.node(at);
        (node.vacant, node.since) = (true, turn);
    }

    /// RFC 7540 §5.3.1, §5.3.3. The stream need not exist yet.
    pub(crate) fn depend(&mut self, id: u32, dependency: Dependency) {
        let Some(at) = self.find_or_make(id, self.find(dependency.on)) else { return };
        self.node(at).weight = dependency.weight;
        // §5.3.1: what depends on a stream that is not in the tree gets a default priority.
        let (parent, exclusive) = match self.find(dependency.on) {
            Some(parent) if parent != at => (parent, dependency.exclusive),
            _ => (ROOT, false),
        };
        if self.is_below(parent, at) {
            // §5.3.3: the new parent first moves to where its new child was.
            let before = self.nodes[usize::from(at)].parent;
            self.move_to(parent, before);
        }
        self.move_to(at, parent);
        if exclusive {
            let others: Vec<Index> =
                self.nodes[usize::from(parent)].children.iter().copied().filter(|&c| c != at).collect();
            others.into_iter().for_each(|other| self.move_to(other, at));
        }
    }

    fn is_below(&self, mut at: Index, above: Index) -> bool {
        while at != ROOT {
            at = self.nodes[usize::from(at)].parent;
            if at == above {
                return true;
            }
        }
        false
    }

    fn move_to(&mut self, at: Index, parent: Index) {
        let (old, active) = (self.nodes[usize::from(at)].parent, self.nodes[usize::from(at)].active);
        if old == parent {
            return;
        }
        self.add_active(old, -i64::from(active));
        self.node(old).children.retain(|&child| child != at);
        self.node(parent).children.push(at);
        let clock = self.nodes[usize::from(parent)].clock;
        let node = self.node(at);
        (node.parent, node.used) = (parent, clock);
        self.add_active(parent, i64::from(active));
    }

    /// Adds to the counts of active streams from `at` up.
    fn add_active(&mut self, mut at: Index, by: i64) {
        if by == 0 {
            return;
        }
        loop {
            let was = self.nodes[usize::from(at)].active;
            let now = (i64::from(was) + by) as u32;
            let parent = self.nodes[usize::from(at)].parent;
            let clock = self.nodes[usize::from(parent)].clock;
            let node = self.node(at);
            node.active = now;
            if was == 0 {
                // Time that was not used is lost: nobody saves up turns.
                node.used = node.used.max(clock);
            }
            if at == ROOT {
                return;
            }
            at = parent;
        }
    }

    pub(crate) fn set_ready(&mut self, id: u32, ready: bool) {
        let Some(at) = self.find(id).filter(|&at| at != ROOT) else { return };
        if std::mem::replace(&mut self.node(at).ready, ready) != ready {
            self.add_active(at, if ready { 1 } else { -1 });
        }
    }

    /// Whose turn it is.
    pub(crate) fn next(&self) -> Option<u32> {
        let mut at = ROOT;
        loop {
            let node = &self.nodes[usize::from(at)];
            if node.active == 0 {
                return None;
            }
            if node.ready {
                return Some(node.id);
            }
            let children = node.children.iter().copied();
            let active = children.filter(|&child| self.nodes[usize::from(child)].active > 0);
            at = active.min_by_key(|&child| self.nodes[usize::from(child)].due())?;
        }
    }

    /// A stream has sent this much.
    pub(crate) fn sent(&mut self, id: u32, bytes: usize) {
        let Some(mut at) = self.find(id) else { return };
        while at != ROOT {
            let node = self.node(at);
            let (before, parent) = (node.used, node.parent);
            node.used += cost(bytes, node.weight);
            self.node(parent).clock = before;
            at = parent;
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(rows: &[(u32, u32, bool, u16)]) -> Tree {
        let mut tree = Tree::new(20);
        for &(id, on, exclusive, weight) in rows {
            tree.depend(id, Dependency { on, exclusive, weight });
            tree.open(id);
            tree.set_ready(id, true);
        }
        tree
    }

    /// Who sends in the first turns of 1000 bytes each.
    fn turns(tree: &mut Tree, count: usize) -> Vec<u32> {
        let mut order = Vec::new();
        for _ in 0..count {
            let id = tree.next().unwrap();
            tree.sent(id, 1000);
            order.push(id);
        }
        order
    }

    #[test]
    fn parents_come_first() {
        let mut tree = tree(&[(1, 0, false, 16), (3, 1, false, 16), (5, 3, false, 256)]);
        assert_eq!(turns(&mut tree, 3), [1, 1, 1]);
        tree.set_ready(1, false);
        assert_eq!(turns(&mut tree, 2), [3, 3]);
        tree.set_ready(3, false);
        tree.close(3);
        assert_eq!(tree.next(), Some(5));
        tree.set_ready(5, false);
        assert_eq!(tree.next(), None);
    }

    #[test]
    fn siblings_share_by_weight() {
        let mut tree = tree(&[(1, 0, false, 64), (3, 0, false, 128), (5, 0, false, 64)]);
        let order = turns(&mut tree, 400);
        let share = |id: u32| order.iter().filter(|&&have| have == id).count();
        let shares = [share(1), share(3), share(5)];
        assert!(
            shares.iter().zip([100, 200, 100]).all(|(have, want)| have.abs_diff(want) <= 5),
            "{shares:?}"
        );
    }

    #[test]
    fn who_was_idle_does_not_catch_up() {
        let mut tree = tree(&[(1, 0, false, 16), (3, 0, false, 16)]);
        tree.set_ready(3, false);
        turns(&mut tree, 100);
        tree.set_ready(3, true);
        let order = turns(&mut tree, 10);
        assert_eq!(order.iter().filter(|&&id| id == 3).count(), 5);
    }

    #[test]
    fn exclusive_dependencies_take_the_children() {
        // RFC 7540 §5.3.1, figure 4.
        let mut tree = tree(&[(3, 0, false, 16), (5, 0, false, 16), (7, 0, true, 16)]);
        assert_eq!(turns(&mut tree, 2), [7, 7]);
        tree.set_ready(7, false);
        assert_eq!(turns(&mut tree, 4).iter().filter(|&&id| id == 3).count(), 2);
    }

    #[test]
    fn a_stream_may_depend_on_its_own_descendant() {
        // RFC 7540 §5.3.3, figure 5: A(1) with B(3), C(5); C with D(7), E(9); A then depends on D.
        let rows =
            [(1, 0, false, 16), (3, 1, false, 16), (5, 1, false, 16), (7, 5, false, 16), (9, 5, false, 16)];
        for exclusive in [false, true] {
            let mut tree = tree(&rows);
            tree.depend(1, Dependency { on: 7, exclusive, weight: 16 });
            assert_eq!(turns(&mut tree, 2), [7, 7]);
            tree.set_ready(7, false);
            assert_eq!(tree.next(), Some(1));
            tree.set_ready(1, false);
            assert!(matches!(tree.next(), Some(3 | 5)));
        }
    }

    #[test]
    fn nodes_are_bounded() {
        let mut tree = tree(&[(1, 0, false, 16), (3, 1, false, 16)]);
        for id in (101..9999).step_by(2) {
            tree.depend(id, Dependency { on: id - 2, exclusive: id % 3 == 0, weight: 1 + (id % 256) as u16 });
            assert!(tree.len() <= 20);
        }
        assert_eq!(tree.next(), Some(1), "streams that live are never dropped");
        tree.close(1);
        assert_eq!(tree.next(), Some(3));
    }
}
