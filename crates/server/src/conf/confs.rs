//! What the directives of a block have set, module by module.

use crate::module::{ModuleConf, Modules};
use brisk_conf::Context;
use std::any::{Any, TypeId};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Where in a list of configurations the first one of each type is.
#[derive(Default)]
struct Places {
    by_type: hashbrown::HashMap<TypeId, usize, BuildHasherDefault<TypeIdHasher>>,
    /// By place: whether it is the first of its type.
    is_first: Vec<bool>,
}

/// The modules' configurations of one block, copied when written to.
/// Inheriting copies a list of pointers. A configuration of thousands of hosts has each module's values once,
/// as long as no host changes them.
#[derive(Clone)]
pub struct Confs {
    list: Vec<Arc<dyn ModuleConf>>,
    /// The defaults.
    fresh: Arc<[Arc<dyn ModuleConf>]>,
    places: Arc<Places>,
}

impl Confs {
    pub(super) fn new(modules: Modules) -> Confs {
        let list: Vec<_> = modules.iter().map(|m| (m.conf)()).collect();
        let mut places = Places::default();
        for (index, conf) in list.iter().enumerate() {
            let conf: &dyn Any = &**conf;
            let first = *places.by_type.entry(conf.type_id()).or_insert(index);
            places.is_first.push(first == index);
        }
        Confs { fresh: list.as_slice().into(), list, places: Arc::new(places) }
    }

    /// What they are now is the defaults.
    pub(super) fn are_defaults(&mut self) {
        self.fresh = self.list.as_slice().into();
    }

    /// What an inner block starts with.
    /// Most modules have nothing that a block must not inherit, so they are not copied.
    pub(super) fn enter(&self, into: Context) -> Confs {
        let mut list = self.list.clone();
        for (conf, fresh) in list.iter_mut().zip(&*self.fresh) {
            // `http` is read with the main level's settings, and what it says is not for another protocol: the variables in it are of requests.
            if into == Context::STREAM && !conf.is_for_all_protocols() {
                *conf = fresh.clone();
            }
            if conf.must_enter(into) {
                unique(conf).enter(into);
            }
        }
        Confs { list, fresh: self.fresh.clone(), places: self.places.clone() }
    }

    pub(super) fn get_mut<T: ModuleConf>(&mut self, module: usize) -> &mut T {
        let conf: &mut dyn Any = unique(&mut self.list[module]);
        conf.downcast_mut().expect("a setter asks for its own module's configuration")
    }

    /// Where the first configuration of this type is. No generic code: it would be there a hundred times.
    fn position(&self, wanted: TypeId) -> usize {
        *self.places.by_type.get(&wanted).expect("the module is in the list")
    }

    /// The same for a module that asks: most ask for their own, in every block, two million times in a configuration of ten thousand hosts.
    #[inline]
    fn position_for<T: ModuleConf>(&self, module: usize) -> usize {
        let own: &dyn Any = &*self.list[module];
        if self.places.is_first[module] && own.is::<T>() { module } else { self.position(TypeId::of::<T>()) }
    }

    /// The configuration of the module whose type it is, as this block has it.
    ///
    /// # Panics
    /// If no module has this type.
    pub fn find<T: ModuleConf>(&self) -> &T {
        let conf: &dyn Any = &*self.list[self.position(TypeId::of::<T>())];
        conf.downcast_ref().expect("found by type")
    }

    /// The same, asked for by a module.
    #[inline]
    pub(super) fn find_for<T: ModuleConf>(&self, module: usize) -> &T {
        let own: &dyn Any = &*self.list[module];
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
        let conf: Arc<dyn Any + Send + Sync> = self.list[index].clone();
        conf.downcast().expect("found by type")
    }
}

/// The configuration, made unshared if need be.
/// An `Arc` and not a `Box`: what a block has not changed it shares with its parent, which must not see a
/// change of the child.
fn unique(conf: &mut Arc<dyn ModuleConf>) -> &mut dyn ModuleConf {
    if Arc::get_mut(conf).is_none() {
        *conf = conf.duplicate();
    }
    Arc::get_mut(conf).expect("just made")
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
