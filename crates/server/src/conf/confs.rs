//! What the directives of a block have set, module by module.

use crate::limits::MODULES_MAX;
use crate::module::{ModuleConf, Modules};
use brisk_conf::Context;
use std::any::{Any, TypeId};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Where in a list of configurations the first one of each type is, and whose module must always be asked.
#[derive(Default)]
struct Places {
    by_type: hashbrown::HashMap<TypeId, usize, BuildHasherDefault<TypeIdHasher>>,
    /// By place: whether it is the first of its type.
    is_first: Vec<bool>,
    /// Modules with work to do in every block.
    never_idle: Marks,
}

/// The modules' configurations of one block, copied when written to.
/// Only those that differ from the defaults are held: with ten thousand hosts and a hundred modules, what each block copies and asks decides
/// how long a start takes.
#[derive(Clone)]
pub struct Confs {
    /// In the order of the modules.
    changed: Vec<Arc<dyn ModuleConf>>,
    /// Whose they are.
    marks: Marks,
    /// The defaults.
    fresh: Arc<[Arc<dyn ModuleConf>]>,
    places: Arc<Places>,
}

impl Confs {
    pub(super) fn new(modules: Modules) -> Confs {
        let fresh: Arc<[_]> = modules.iter().map(|m| (m.conf)()).collect();
        let mut places = Places::default();
        for (index, (module, conf)) in modules.iter().zip(&*fresh).enumerate() {
            let conf: &dyn Any = &**conf;
            let first = *places.by_type.entry(conf.type_id()).or_insert(index);
            places.is_first.push(first == index);
            if !module.idle_by_default && (module.finish.is_some() || module.install.is_some()) {
                places.never_idle.set(index);
            }
        }
        Confs { changed: Vec::new(), marks: Marks::default(), fresh, places: Arc::new(places) }
    }

    /// What they are now is the defaults.
    pub(super) fn are_defaults(&mut self) {
        self.fresh = (0..self.fresh.len()).map(|index| self.at(index).clone()).collect();
        self.changed.clear();
        self.marks = Marks::default();
    }

    /// What an inner block starts with.
    /// Most modules have nothing that a block must not inherit, so they are not copied.
    pub(super) fn enter(&self, into: Context) -> Confs {
        let mut inner = self.clone();
        if into == Context::STREAM {
            inner.forget_protocol();
        }
        let mut next = 0;
        while let Some(index) = inner.next_awake(next) {
            if inner.at(index).must_enter(into) {
                inner.unique(index).enter(into);
            }
            next = index + 1;
        }
        debug_assert!(
            (0..self.fresh.len()).all(|index| inner.is_awake(index) || !inner.fresh[index].must_enter(into)),
            "a module that is idle by default has something to reset"
        );
        inner
    }

    /// `http` is read with the main level's settings, and what it says is not for another protocol: the variables in it are of requests.
    fn forget_protocol(&mut self) {
        let mut kept = Confs { changed: Vec::new(), marks: Marks::default(), ..self.clone() };
        let own = (0..self.fresh.len()).filter(|index| self.marks.has(*index));
        for (index, conf) in own.zip(&self.changed).filter(|(_, conf)| conf.is_for_all_protocols()) {
            kept.marks.set(index);
            kept.changed.push(conf.clone());
        }
        *self = kept;
    }

    /// The first module from `index` on that has something to do in this block: its configuration is not the default, or it never rests.
    pub(super) fn next_awake(&self, index: usize) -> Option<usize> {
        self.marks.or(&self.places.never_idle).next(index)
    }

    pub(super) fn is_awake(&self, index: usize) -> bool {
        self.next_awake(index) == Some(index)
    }

    #[inline]
    fn at(&self, index: usize) -> &Arc<dyn ModuleConf> {
        if self.marks.has(index) { &self.changed[self.marks.before(index)] } else { &self.fresh[index] }
    }

    /// The configuration, made unshared if need be.
    /// An `Arc` and not a `Box`: what a block has not changed it shares with its parent, which must not see a
    /// change of the child.
    fn unique(&mut self, index: usize) -> &mut dyn ModuleConf {
        let at = self.marks.before(index);
        if !self.marks.has(index) {
            self.changed.insert(at, self.fresh[index].duplicate());
            self.marks.set(index);
        }
        let conf = &mut self.changed[at];
        if Arc::get_mut(conf).is_none() {
            *conf = conf.duplicate();
        }
        Arc::get_mut(conf).expect("just made")
    }

    pub(super) fn get_mut<T: ModuleConf>(&mut self, module: usize) -> &mut T {
        let conf: &mut dyn Any = self.unique(module);
        conf.downcast_mut().expect("a setter asks for its own module's configuration")
    }

    /// Where the first configuration of this type is. No generic code: it would be there a hundred times.
    fn position(&self, wanted: TypeId) -> usize {
        *self.places.by_type.get(&wanted).expect("the module is in the list")
    }

    /// The same for a module that asks: most ask for their own, in every block, two million times in a configuration of ten thousand hosts.
    #[inline]
    fn position_for<T: ModuleConf>(&self, module: usize) -> usize {
        let own: &dyn Any = &**self.at(module);
        if self.places.is_first[module] && own.is::<T>() { module } else { self.position(TypeId::of::<T>()) }
    }

    /// The configuration of the module whose type it is, as this block has it.
    ///
    /// # Panics
    /// If no module has this type.
    pub fn find<T: ModuleConf>(&self) -> &T {
        let conf: &dyn Any = &**self.at(self.position(TypeId::of::<T>()));
        conf.downcast_ref().expect("found by type")
    }

    /// The same, asked for by a module.
    #[inline]
    pub(super) fn find_for<T: ModuleConf>(&self, module: usize) -> &T {
        let own: &dyn Any = &**self.at(module);
        match own.downcast_ref() {
            Some(own) if self.places.is_first[module] => own,
            _ => self.find(),
        }
    }

    /// The same, to be changed: it is copied first where an outer block has it, too.
    pub fn find_mut<T: ModuleConf>(&mut self) -> &mut T {
        let index = self.position(TypeId::of::<T>());
        self.get_mut(index)
    }

    /// The same, to be kept.
    pub fn shared<T: ModuleConf>(&self) -> Arc<T> {
        self.shared_at(self.position(TypeId::of::<T>()))
    }

    /// The same, asked for by a module, to be kept by what it installs.
    pub(super) fn shared_for<T: ModuleConf>(&self, module: usize) -> Arc<T> {
        self.shared_at(self.position_for::<T>(module))
    }

    fn shared_at<T: ModuleConf>(&self, index: usize) -> Arc<T> {
        let conf: Arc<dyn Any + Send + Sync> = self.at(index).clone();
        conf.downcast().expect("found by type")
    }
}

/// Some of the modules, by their places.
#[derive(Clone, Copy, Default)]
struct Marks([u64; MODULES_MAX / 64]);

impl Marks {
    fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 != 0
    }

    fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn or(&self, other: &Marks) -> Marks {
        Marks(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// How many are before `index`.
    fn before(&self, index: usize) -> usize {
        let (word, below) = (index / 64, (1 << (index % 64)) - 1);
        let full: u32 = self.0[..word].iter().map(|word| word.count_ones()).sum();
        (full + (self.0[word] & below).count_ones()) as usize
    }

    /// The first from `index` on.
    fn next(&self, index: usize) -> Option<usize> {
        let (first, rest) = (index / 64, u64::MAX << (index % 64));
        let mut words = self.0.iter().enumerate().skip(first);
        let (word, bits) = words.find_map(|(at, bits)| {
            let bits = if at == first { bits & rest } else { *bits };
            (bits != 0).then_some((at, bits))
        })?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

/// A type's id is a hash already.
#[derive(Default)]
struct TypeIdHasher(u64);

impl Hasher for TypeIdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
