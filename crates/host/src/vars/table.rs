//! The variables of one configuration, by name and by number.

use super::context::{Context, Eval};
use super::spelled::Spelled;
use super::template::Template;
use crate::limits::LATE_VARIABLES_MAX;
use brisk_conf::Span;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A variable's number in its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// Computes a variable of fixed name.
pub type Get<C> = fn(&C, &mut Vec<u8>) -> bool;

/// Carries out an assignment to a built-in variable.
pub type Assign<C> = fn(&mut C, &[u8]);

/// Where a built-in variable's value comes from.
pub enum Source<C: 'static> {
    /// Computed each time.
    Fixed(Get<C>),
    /// See [`VariableGet::Once`].
    Once(Get<C>),
    /// A family such as `$arg_…`: the function gets the rest of the name.
    Family(fn(&C, &str, &mut Vec<u8>) -> bool, Arc<str>),
}

impl<C> Source<C> {
    pub(super) fn append(&self, r: &C, out: &mut Vec<u8>) -> bool {
        match self {
            Source::Fixed(get) | Source::Once(get) => get(r, out),
            Source::Family(get, rest) => get(r, rest, out),
        }
    }
}

/// A built-in variable, as a row.
pub struct Variable<C: 'static> {
    /// A name that ends with `*` is a family: `arg_*`.
    pub name: &'static str,
    /// Where its value comes from.
    pub get: VariableGet<C>,
    /// Called when `set` assigns to it; `None`: the variable cannot be assigned.
    pub set: Option<Assign<C>>,
    /// What its value depends on.
    pub reads: Reads,
    /// For docs/variables.md: what it is, in one or two sentences.
    pub doc: &'static str,
}

impl<C> Variable<C> {
    /// The values of parts that a row leaves out: for struct update syntax.
    pub const SILENT: Variable<C> = Variable {
        name: "",
        get: VariableGet::Fixed(|_, _| false),
        set: None,
        reads: Reads::Anything,
        doc: "",
    };
}

impl<C> Clone for Variable<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Variable<C> {}

/// See [`Variable::get`].
pub enum VariableGet<C: 'static> {
    /// Computed each time.
    Fixed(Get<C>),
    /// Computed at its first use in a request and kept. `set`, `map` and the like may put another value in its place.
    Once(Get<C>),
    /// A family such as `$arg_…`: the function gets the rest of the name.
    Family(fn(&C, &str, &mut Vec<u8>) -> bool),
}

impl<C> Clone for VariableGet<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for VariableGet<C> {}

/// What a variable is.
pub enum Kind<C: 'static> {
    /// Built in; computed each time it is asked for.
    Source(Source<C>),
    /// Holds what `set` puts there; reading it before is worth a warning.
    Assigned,
    /// Holds what a named group captured or a module put there; not found before.
    Slot,
    /// Computed by a module and kept for the request unless volatile.
    Eval {
        /// The module's code.
        eval: Arc<dyn Eval<C>>,
        /// It is computed each time.
        volatile: bool,
    },
    /// Used somewhere but not defined (yet).
    Undefined,
}

/// What a value depends on: what is made of it is for others only if that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// On nothing but other variables, read through [`Context::var`], and on what accessors record that are read by its
    /// function.
    Recorded,
    /// It is not known on what.
    #[default]
    Anything,
}

/// One variable of a configuration.
pub struct Var<C: 'static> {
    /// Its name, without the dollar sign.
    pub name: Box<str>,
    /// What it is.
    pub kind: Kind<C>,
    /// See [`Variable::set`].
    pub assign: Option<Assign<C>>,
    /// See [`Variable::reads`].
    pub(super) reads: Reads,
    /// First use, for the error if it is never defined.
    used_at: Option<Span>,
}

impl<C> Var<C> {
    /// It is built in and cannot be assigned.
    fn is_fixed(&self) -> bool {
        matches!(self.kind, Kind::Source(Source::Fixed(_))) && self.assign.is_none()
    }
}

/// What the table of a part has that was compiled after the start. It defines variables for its part alone.
struct Late<C: 'static> {
    outer: Arc<Table<C>>,
    numbers: Arc<LateNumbers>,
    own: Vec<(VarId, Var<C>)>,
    is_full: bool,
}

/// The numbers of names that have come up since the start. All parts that were compiled since then have the same ones: a value
/// that a request brings from one to the other keeps its name, and a number never gets a second meaning.
#[derive(Debug)]
pub struct LateNumbers {
    first: u32,
    names: Mutex<HashMap<Box<str>, u32>>,
}

impl LateNumbers {
    /// The number of a name; `None` if there are too many.
    fn of(&self, name: &str) -> Option<VarId> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let count = names.len();
        if let Some(have) = names.get(name) {
            return Some(VarId(self.first + have));
        }
        (count < LATE_VARIABLES_MAX).then(|| {
            names.insert(name.into(), count as u32);
            VarId(self.first + count as u32)
        })
    }
}

/// What a name stands for, where the configuration does not mention it.
pub enum Found<C: 'static> {
    /// It has a number.
    Id(VarId),
    /// Built in, but not mentioned.
    Source(Source<C>),
    /// Nothing has this name.
    Nothing,
}

/// All variables of a configuration, or of a part that was compiled after the start.
pub struct Table<C: 'static> {
    vars: Vec<Var<C>>,
    names: HashMap<Box<str>, VarId>,
    builtin: HashMap<&'static str, Variable<C>>,
    families: Vec<(&'static str, Variable<C>)>,
    /// The unix sockets of which the configuration speaks.
    spelled: Spelled,
    /// What `set` gives to variables, until the configuration has been read.
    assigned: HashMap<VarId, HashSet<Template>>,
    late: Option<Late<C>>,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Table {
            vars: Vec::new(),
            names: HashMap::new(),
            builtin: HashMap::new(),
            families: Vec::new(),
            spelled: Spelled::default(),
            assigned: HashMap::new(),
            late: None,
        }
    }
}

/// The names of variables while the configuration is built, whatever their values are computed of.
pub trait Names {
    /// See [`Table::refer`].
    fn refer(&mut self, name: &str, span: Option<Span>) -> VarId;
    /// See [`Table::define_slot`].
    fn define_slot(&mut self, name: &str) -> Option<VarId>;
    /// The unix sockets of which the configuration speaks.
    fn spelled(&mut self) -> &mut Spelled;
}

impl<C: Context> Names for Table<C> {
    fn refer(&mut self, name: &str, span: Option<Span>) -> VarId {
        Table::refer(self, name, span)
    }

    fn define_slot(&mut self, name: &str) -> Option<VarId> {
        Table::define_slot(self, name)
    }

    fn spelled(&mut self) -> &mut Spelled {
        &mut self.spelled
    }
}

impl<C: Context> Table<C> {
    /// Makes built-in variables known.
    pub fn add_builtin(&mut self, rows: &'static [Variable<C>]) {
        for row in rows {
            match row.name.strip_suffix('*') {
                Some(prefix) => self.families.push((prefix, *row)),
                None => {
                    self.builtin.insert(row.name, *row);
                }
            }
        }
        // The longest prefix wins: `sent_http_` before `sent_`.
        self.families.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    }

    /// A table for what is compiled after the start, beside the whole configuration's. `numbers` are those of all such tables.
    pub fn beside(outer: Arc<Table<C>>, numbers: Arc<LateNumbers>) -> Table<C> {
        Table { late: Some(Late { outer, numbers, own: Vec::new(), is_full: false }), ..Table::default() }
    }

    /// Numbers of names that come up after the start.
    pub fn late_numbers(&self) -> LateNumbers {
        LateNumbers { first: self.vars.len() as u32, names: Mutex::default() }
    }

    /// There were more names after the start than [`LATE_VARIABLES_MAX`]: numbers that this table gave are none.
    pub fn is_full(&self) -> bool {
        self.late.as_ref().is_some_and(|late| late.is_full)
    }

    /// Whether the configuration as it was started spells out this unix socket. What is compiled later adds none: its authors may
    /// be others than the configuration's.
    pub fn has_socket(&self, path: &[u8]) -> bool {
        self.late.as_ref().map_or(&self.spelled, |late| &late.outer.spelled).has_socket(path)
    }

    /// The configuration has been read to its end.
    pub fn settle(&mut self) {
        self.spelled.settle();
        self.assigned = HashMap::new();
    }

    /// The variable of this number, which the table has given.
    #[inline]
    pub fn get(&self, id: VarId) -> &Var<C> {
        match self.vars.get(id.0 as usize) {
            Some(var) => var,
            None => self.get_late(id),
        }
    }

    #[cold]
    fn get_late(&self, id: VarId) -> &Var<C> {
        let late = self.late.as_ref().expect("the table has given the number");
        let own =
            || &late.own.iter().find(|(have, _)| *have == id).expect("the table has given the number").1;
        late.outer.vars.get(id.0 as usize).unwrap_or_else(own)
    }

    /// The variable of this number for a definition; `None` if it is the whole configuration's, which stays as it is.
    fn own_mut(&mut self, id: VarId) -> Option<&mut Var<C>> {
        match &mut self.late {
            None => self.vars.get_mut(id.0 as usize),
            Some(late) => late.own.iter_mut().find(|(have, _)| *have == id).map(|(_, var)| var),
        }
    }

    /// The number of a name (in lower case) that something mentions.
    pub fn number(&self, name: &str) -> Option<VarId> {
        self.names.get(name).copied().or_else(|| self.late.as_ref()?.outer.number(name))
    }

    /// The number of a variable that is used at `span`; it may be defined later.
    pub fn refer(&mut self, name: &str, span: Option<Span>) -> VarId {
        let name = name.to_ascii_lowercase();
        if let Some(id) = self.number(&name) {
            return id;
        }
        let (kind, row) = self.builtin_kind(&name);
        let (assign, reads) = (row.set, row.reads);
        let var = Var { name: name.as_str().into(), kind, assign, reads, used_at: span };
        let id = match &mut self.late {
            None => {
                self.vars.push(var);
                VarId(self.vars.len() as u32 - 1)
            }
            Some(late) => {
                let id = late.numbers.of(&name);
                late.is_full |= id.is_none();
                let id = id.unwrap_or(VarId(u32::MAX));
                late.own.push((id, var));
                id
            }
        };
        self.names.insert(name.into(), id);
        id
    }

    /// What `name` stands for, without regard to case.
    pub(super) fn find(&self, name: &str) -> Found<C> {
        let name = name.to_ascii_lowercase();
        if let Some(id) = self.number(&name) {
            return Found::Id(id);
        }
        match self.builtin_kind(&name) {
            (Kind::Source(source), _) => Found::Source(source),
            _ => Found::Nothing,
        }
    }

    /// What a built-in variable is, and its row.
    fn builtin_kind(&self, name: &str) -> (Kind<C>, Variable<C>) {
        if let Some(late) = &self.late {
            return late.outer.builtin_kind(name);
        }
        if let Some(row) = self.builtin.get(name) {
            match row.get {
                VariableGet::Fixed(get) => return (Kind::Source(Source::Fixed(get)), *row),
                VariableGet::Once(get) => return (Kind::Source(Source::Once(get)), *row),
                VariableGet::Family(_) => {}
            }
        }
        for (prefix, row) in &self.families {
            // A family's bare prefix is a name too; it just never has a value.
            if let (Some(rest), VariableGet::Family(get)) = (name.strip_prefix(prefix), row.get) {
                return (Kind::Source(Source::Family(get, rest.into())), *row);
            }
        }
        (Kind::Undefined, Variable::SILENT)
    }

    /// Defines a variable that `set` assigns to; `None` if it is built in and cannot be assigned. What others define
    /// by that name, and families such as `$http_…`, still give its value where nothing was assigned.
    pub fn define_assigned(&mut self, name: &str) -> Option<VarId> {
        let id = self.refer(name, None);
        if self.get(id).is_fixed() {
            return None;
        }
        if let Some(var) = self.own_mut(id)
            && matches!(var.kind, Kind::Undefined)
        {
            var.kind = Kind::Assigned;
        }
        Some(id)
    }

    /// Whether anything in the configuration names this variable (in lower case).
    pub fn is_used(&self, name: &str) -> bool {
        self.number(name).is_some()
    }

    /// Whether a variable shows what a ClientHello offers. It is kept only then: a ClientHello is large, and connections are many.
    pub fn shows_hello(&self) -> bool {
        ["ssl_ciphers", "ssl_curves", "ssl_sigalgs"].iter().any(|name| self.is_used(name))
    }

    /// Defines a variable that a named group or a module fills; `None` if it is built in and cannot be assigned.
    pub fn define_slot(&mut self, name: &str) -> Option<VarId> {
        let id = self.refer(name, None);
        if self.get(id).is_fixed() {
            return None;
        }
        if let Some(var) = self.own_mut(id) {
            match var.kind {
                Kind::Source(Source::Fixed(_) | Source::Once(_)) | Kind::Eval { .. } => {}
                _ => var.kind = Kind::Slot,
            }
        }
        Some(id)
    }

    /// Defines a computed variable; a later definition replaces an earlier one, as in nginx. `None` if it is built in
    /// and cannot be assigned, or if it is compiled late and the whole configuration has one of this name.
    pub fn define_eval(&mut self, name: &str, eval: Arc<dyn Eval<C>>, volatile: bool) -> Option<VarId> {
        let id = self.refer(name, None);
        if self.get(id).is_fixed() {
            return None;
        }
        self.own_mut(id)?;
        for value in eval.values().into_iter().flatten() {
            self.spelled.note(value.as_literal().unwrap_or_default());
        }
        self.own_mut(id)?.kind = Kind::Eval { eval, volatile };
        Some(id)
    }

    /// `set` gives this value to a variable.
    pub fn note_assigned(&mut self, id: VarId, value: &Template) {
        if self.late.is_none() {
            self.assigned.entry(id).or_default().insert(value.clone());
        }
    }

    /// What `set` gives to a variable anywhere, until the table is settled.
    pub fn assigned(&self, id: VarId) -> impl Iterator<Item = &Template> {
        self.assigned.get(&id).into_iter().flatten()
    }

    /// Names that are used and not defined, with the place of their first use.
    pub fn undefined(&self) -> impl Iterator<Item = (&str, Option<Span>)> {
        self.own().filter(|v| matches!(v.kind, Kind::Undefined)).map(|v| (&*v.name, v.used_at))
    }

    /// All names that could be meant, for "did you mean".
    pub fn known(&self) -> impl Iterator<Item = &str> {
        let outer = self.late.as_ref().map(|late| &*late.outer);
        outer.into_iter().chain([self]).flat_map(|table| {
            let defined = table.own().filter(|v| !matches!(v.kind, Kind::Undefined));
            table.builtin.keys().copied().chain(defined.map(|v| &*v.name))
        })
    }

    /// The variables of this table alone.
    fn own(&self) -> impl Iterator<Item = &Var<C>> {
        self.vars.iter().chain(self.late.iter().flat_map(|late| late.own.iter().map(|(_, var)| var)))
    }
}
