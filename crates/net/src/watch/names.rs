//! What is registered under the names of one watched directory.
//!
//! There may be a hundred thousand directories, most of them with one or two names that somebody looks at: a hash table for each would take
//! more memory than all else that is known of it.

use super::Flag;
use crate::limits::NAMES_LISTED_MAX;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::{Arc, Weak};

/// The flags of one name, of which those that nobody else holds are of no use.
#[derive(Debug)]
pub(super) enum Flags {
    One(Weak<Flag>),
    Several(Vec<Weak<Flag>>),
}

impl Flags {
    fn add(&mut self, flag: &Arc<Flag>) {
        let new = Arc::downgrade(flag);
        match self {
            Flags::Several(flags) => flags.push(new),
            Flags::One(first) => *self = Flags::Several(vec![std::mem::take(first), new]),
        }
    }

    fn lower(&self) {
        let flags = match self {
            Flags::One(flag) => std::slice::from_ref(flag),
            Flags::Several(flags) => flags,
        };
        flags.iter().filter_map(Weak::upgrade).for_each(|flag| flag.lower());
    }

    /// Whether somebody holds one of them; the others are forgotten.
    fn retain_held(&mut self) -> bool {
        match self {
            Flags::One(flag) => flag.strong_count() > 0,
            Flags::Several(flags) => {
                flags.retain(|flag| flag.strong_count() > 0);
                // The folder above a hundred thousand others has a flag of each for a while.
                if flags.len() < flags.capacity() / 4 {
                    flags.shrink_to(2 * flags.len());
                }
                !flags.is_empty()
            }
        }
    }
}

/// See the module's head. The empty name is the watched file or directory itself.
#[derive(Debug)]
pub(super) enum Names {
    /// Up to [`NAMES_LISTED_MAX`].
    Few(Vec<(Box<OsStr>, Flags)>),
    Many(BTreeMap<Box<OsStr>, Flags>),
}

impl Default for Names {
    fn default() -> Names {
        Names::Few(Vec::new())
    }
}

impl Names {
    /// Registers a flag under a name.
    pub fn add(&mut self, name: &OsStr, flag: &Arc<Flag>) {
        if let Some(flags) = self.get_mut(name) {
            flags.add(flag);
            return;
        }
        let (name, flags) = (name.into(), Flags::One(Arc::downgrade(flag)));
        match self {
            Names::Few(list) if list.len() < NAMES_LISTED_MAX => {
                // Room for one or two: the usual growth begins with four.
                if list.len() == list.capacity() {
                    list.reserve_exact(list.len().max(1));
                }
                list.push((name, flags));
            }
            Names::Few(list) => {
                let mut table: BTreeMap<_, _> = std::mem::take(list).into_iter().collect();
                table.insert(name, flags);
                *self = Names::Many(table);
            }
            Names::Many(table) => _ = table.insert(name, flags),
        }
    }

    fn get_mut(&mut self, name: &OsStr) -> Option<&mut Flags> {
        match self {
            Names::Few(list) => list.iter_mut().find(|(known, _)| **known == *name).map(|(_, flags)| flags),
            Names::Many(table) => table.get_mut(name),
        }
    }

    /// Lowers the flags of a name, which are not needed any more then.
    pub fn lower(&mut self, name: &OsStr) {
        let flags = match self {
            Names::Few(list) => {
                let at = list.iter().position(|(known, _)| **known == *name);
                at.map(|at| list.swap_remove(at).1)
            }
            Names::Many(table) => table.remove(name),
        };
        if let Some(flags) = flags {
            flags.lower();
        }
    }

    /// The same of all names.
    pub fn lower_all(&mut self) {
        match std::mem::take(self) {
            Names::Few(list) => list.iter().for_each(|(_, flags)| flags.lower()),
            Names::Many(table) => table.values().for_each(Flags::lower),
        }
    }

    /// Whether somebody holds a flag; the others are forgotten.
    pub fn retain_held(&mut self) -> bool {
        match self {
            Names::Few(list) => list.retain_mut(|(_, flags)| flags.retain_held()),
            Names::Many(table) => table.retain(|_, flags| flags.retain_held()),
        }
        match self {
            Names::Few(list) => !list.is_empty(),
            Names::Many(table) => !table.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lowered_each_by_itself_and_all_together() {
        let name = |number: usize| std::ffi::OsString::from(format!("name{number}"));
        for count in [1, 2, NAMES_LISTED_MAX, NAMES_LISTED_MAX + 1, 100] {
            let mut names = Names::default();
            let flags: Vec<_> =
                (0..count).map(|_| (Flag::raised(), Flag::raised(), Flag::raised())).collect();
            for (number, (one, other, unheld)) in flags.iter().enumerate() {
                names.add(&name(number), one);
                names.add(&name(number), other);
                names.add(&name(number), unheld);
            }
            assert_eq!(matches!(names, Names::Few(_)), count <= NAMES_LISTED_MAX);
            let flags: Vec<_> = flags.into_iter().map(|(one, other, _)| (one, other)).collect();
            assert!(names.retain_held());
            names.lower(&name(0));
            names.lower(&name(count));
            let up = flags.iter().filter(|(one, other)| one.is_up() && other.is_up()).count();
            assert_eq!((up, flags[0].0.is_up(), flags[0].1.is_up()), (count - 1, false, false));
            names.lower_all();
            assert!(!flags.iter().any(|(one, other)| one.is_up() || other.is_up()));
            assert!(!names.retain_held());
        }
    }

    /// What the module's head promises, on a machine of 64 bits.
    #[test]
    fn a_directory_with_one_name_is_small() {
        assert!(size_of::<(i32, Names)>() <= 40, "{}", size_of::<(i32, Names)>());
        assert!(size_of::<(Box<OsStr>, Flags)>() <= 40, "{}", size_of::<(Box<OsStr>, Flags)>());
        let mut names = Names::default();
        names.add(OsStr::new(".htaccess"), &Flag::raised());
        assert!(matches!(&names, Names::Few(list) if list.capacity() == 1));
    }
}
