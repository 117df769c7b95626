//! Chooses among the streams that have something to send and room for it.

use super::line::Lines;
use super::tree::Tree;
use super::{Dependency, Priority};
use crate::streams::{Stream, Streams};

/// By what order, which is by what the peer has told.
#[derive(Debug)]
enum Mode {
    /// Nothing: everybody in turn.
    Fair,
    /// RFC 7540 dependencies.
    Tree(Box<Tree>),
    /// RFC 9218 priorities. Who uses them is not heard on dependencies any more.
    Urgency,
}

#[derive(Debug)]
pub(crate) struct Scheduler {
    mode: Mode,
    lines: Lines,
    nodes_max: usize,
}

impl Scheduler {
    pub(crate) fn new(nodes_max: usize) -> Scheduler {
        Scheduler { mode: Mode::Fair, lines: Lines::default(), nodes_max }
    }

    pub(crate) fn memory(&self) -> usize {
        let tree = if let Mode::Tree(tree) = &self.mode { tree.memory() } else { 0 };
        self.lines.memory() + tree
    }

    pub(crate) fn trim(&mut self) {
        self.lines.trim();
    }

    /// The peer knows RFC 9218.
    pub(crate) fn use_urgency<T>(&mut self, streams: &mut Streams<T>) {
        if matches!(self.mode, Mode::Urgency) {
            return;
        }
        let was_tree = matches!(self.mode, Mode::Tree(_));
        self.mode = Mode::Urgency;
        if was_tree {
            streams.iter_mut().filter(|s| s.ready).for_each(|s| self.update(s));
        }
    }

    /// The peer has told a dependency.
    pub(crate) fn depend<T>(&mut self, id: u32, dependency: Dependency, streams: &mut Streams<T>) {
        match &mut self.mode {
            Mode::Urgency => {}
            Mode::Tree(tree) => tree.depend(id, dependency),
            // What holds anyway needs no tree.
            Mode::Fair if dependency == Dependency::default() => {}
            Mode::Fair => {
                let mut tree = Box::new(Tree::new(self.nodes_max));
                let mut ids: Vec<u32> = streams.iter().map(|stream| stream.id).collect();
                ids.sort_unstable();
                ids.into_iter().for_each(|id| tree.open(id));
                tree.depend(id, dependency);
                self.mode = Mode::Tree(tree);
                self.lines = Lines::default();
                for stream in streams.iter_mut() {
                    stream.queued = false;
                    self.update(stream);
                }
            }
        }
    }

    /// A stream has begun.
    pub(crate) fn open(&mut self, id: u32) {
        if let Mode::Tree(tree) = &mut self.mode {
            tree.open(id);
        }
    }

    /// A stream has ended.
    pub(crate) fn close<T>(&mut self, stream: &Stream<T>) {
        if stream.queued {
            self.lines.remove(stream.id);
        }
        if let Mode::Tree(tree) = &mut self.mode {
            tree.close(stream.id);
        }
    }

    /// What a stream has to send, its window or its priority has changed.
    pub(crate) fn update<T>(&mut self, stream: &mut Stream<T>) {
        let can_send = stream.ready && stream.send_window.room() > 0;
        if let Mode::Tree(tree) = &mut self.mode {
            return tree.set_ready(stream.id, can_send);
        }
        // Who cannot send (any more) is found out in front of the line.
        if can_send && !stream.queued {
            stream.queued = true;
            self.lines.push(stream.priority.urgency, stream.id);
        }
    }

    /// A stream has another priority.
    pub(crate) fn reprioritise<T>(&mut self, stream: &mut Stream<T>, priority: Priority) {
        if stream.queued && stream.priority.urgency != priority.urgency {
            self.lines.remove(stream.id);
            stream.queued = false;
        }
        stream.priority = priority;
        self.update(stream);
    }

    /// The stream whose turn it is.
    pub(crate) fn next<T>(&mut self, streams: &mut Streams<T>) -> Option<u32> {
        if let Mode::Tree(tree) = &self.mode {
            return tree.next();
        }
        loop {
            let (urgency, id) = self.lines.front()?;
            let Some(stream) = streams.get_mut(id) else {
                self.lines.pop(urgency);
                continue;
            };
            if stream.ready && stream.send_window.room() > 0 {
                return Some(id);
            }
            stream.queued = false;
            self.lines.pop(urgency);
        }
    }

    /// The stream in turn has sent a frame.
    pub(crate) fn sent<T>(&mut self, stream: &mut Stream<T>, bytes: usize) {
        let shares = match &mut self.mode {
            Mode::Tree(tree) => {
                tree.sent(stream.id, bytes);
                if stream.send_window.room() == 0 {
                    tree.set_ready(stream.id, false);
                }
                return;
            }
            Mode::Fair => true,
            Mode::Urgency => stream.priority.incremental,
        };
        let urgency = stream.priority.urgency;
        if shares && stream.queued && self.lines.front() == Some((urgency, stream.id)) {
            self.lines.rotate(urgency);
        }
    }
}
