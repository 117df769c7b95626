//! The variables of one configuration, by name and by number.

use super::context::{Context, Eval};
use super::spelled::Spelled;
use brisk_conf::Span;
use std::collections::HashMap;
use std::sync::Arc;

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

/// What a name stands for, where the configuration does not mention it.
pub enum Found<C: 'static> {
    /// It has a number.
    Id(VarId),
    /// Built in, but not mentioned.
    Source(Source<C>),
    /// Nothing has this name.
    Nothing,
}

/// All variables of a configuration.
pub struct Table<C: 'static> {
    vars: Vec<Var<C>>,
    names: HashMap<Box<str>, VarId>,
    builtin: HashMap<&'static str, Variable<C>>,
    families: Vec<(&'static str, Variable<C>)>,
    /// The unix sockets of which the configuration speaks.
    pub spelled: Spelled,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Table {
            vars: Vec::new(),
            names: HashMap::new(),
            builtin: HashMap::new(),
            families: Vec::new(),
            spelled: Spelled::default(),
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

    /// The variable of this number, which the table has given.
    pub fn get(&self, id: VarId) -> &Var<C> {
        &self.vars[id.0 as usize]
    }

    /// The number of a variable that is used at `span`; it may be defined later.
    pub fn refer(&mut self, name: &str, span: Option<Span>) -> VarId {
        let name = name.to_ascii_lowercase();
        if let Some(&id) = self.names.get(name.as_str()) {
            return id;
        }
        let (kind, row) = self.builtin_kind(&name);
        let id = VarId(self.vars.len() as u32);
        let (assign, reads) = (row.set, row.reads);
        self.vars.push(Var { name: name.as_str().into(), kind, assign, reads, used_at: span });
        self.names.insert(name.into(), id);
        id
    }

    /// What `name` stands for, without regard to case.
    pub(super) fn find(&self, name: &str) -> Found<C> {
        let name = name.to_ascii_lowercase();
        if let Some(&id) = self.names.get(name.as_str()) {
            return Found::Id(id);
        }
        match self.builtin_kind(&name) {
            (Kind::Source(source), _) => Found::Source(source),
            _ => Found::Nothing,
        }
    }

    /// What a built-in variable is, and its row.
    fn builtin_kind(&self, name: &str) -> (Kind<C>, Variable<C>) {
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
        let var = &mut self.vars[id.0 as usize];
        match var.kind {
            Kind::Undefined => var.kind = Kind::Assigned,
            Kind::Source(Source::Fixed(_)) if var.assign.is_none() => return None,
            _ => {}
        }
        Some(id)
    }

    /// Whether anything in the configuration names this variable (in lower case).
    pub fn is_used(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Defines a variable that a named group or a module fills; `None` if it is built in and cannot be assigned.
    pub fn define_slot(&mut self, name: &str) -> Option<VarId> {
        let id = self.refer(name, None);
        let var = &mut self.vars[id.0 as usize];
        match var.kind {
            Kind::Source(Source::Fixed(_)) if var.assign.is_none() => return None,
            Kind::Source(Source::Fixed(_) | Source::Once(_)) | Kind::Eval { .. } => {}
            _ => var.kind = Kind::Slot,
        }
        Some(id)
    }

    /// Defines a computed variable; a later definition replaces an earlier one, as in nginx. `None` if it is built in
    /// and cannot be assigned.
    pub fn define_eval(&mut self, name: &str, eval: Arc<dyn Eval<C>>, volatile: bool) -> Option<VarId> {
        let id = self.refer(name, None);
        let var = &mut self.vars[id.0 as usize];
        if matches!(var.kind, Kind::Source(Source::Fixed(_))) && var.assign.is_none() {
            return None;
        }
        for value in eval.values().into_iter().flatten() {
            self.spelled.note(value.as_literal().unwrap_or_default());
        }
        var.kind = Kind::Eval { eval, volatile };
        Some(id)
    }

    /// Names that are used and not defined, with the place of their first use.
    pub fn undefined(&self) -> impl Iterator<Item = (&str, Option<Span>)> {
        self.vars.iter().filter(|v| matches!(v.kind, Kind::Undefined)).map(|v| (&*v.name, v.used_at))
    }

    /// All names that could be meant, for "did you mean".
    pub fn known(&self) -> impl Iterator<Item = &str> {
        self.builtin
            .keys()
            .copied()
            .chain(self.vars.iter().filter(|v| !matches!(v.kind, Kind::Undefined)).map(|v| &*v.name))
    }
}
