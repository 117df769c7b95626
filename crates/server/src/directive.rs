//! Rows are built by name: `directive("gzip_comp_level").in_(HSL).takes_number().range(1, 9)…`.
//!
//! All of it happens while the program is compiled: a table of rows is static data. What is left out has the most
//! frequent or the most cautious value: one parameter, replaced in inner blocks, a reload, [`Risk::Behaviour`].

use crate::conf::cx::Cx;
use crate::module::{Row, Set};
use brisk_conf::takes::{Range, Takes, Words};
use brisk_conf::{Applies, Arity, Context, Default as RowDefault, Diag, Directive, Inherit, Risk};
use std::marker::PhantomData;
use std::time::Duration;

/// A row that is being described. `V` is the type of its value, where [`Draft::sets`] gets one.
pub struct Draft<V> {
    row: Row,
    value: PhantomData<fn() -> V>,
}

/// The mark of a directive whose setter reads the parameters itself.
/// A typed row cannot get such a setter by accident: the compiler tells them apart by this type.
pub struct Own;

/// Begins the row of a directive.
/// It refuses what is forgotten when the program is compiled, see [`Draft::done`].
pub const fn directive(name: &'static str) -> Draft<Own> {
    Draft {
        row: Row {
            name,
            contexts: Context(0),
            arity: Arity::ONE,
            takes: Takes::Own(""),
            unit: "",
            default: RowDefault::Nothing,
            inherit: Inherit::Replace,
            many: false,
            // A reload is what most directives need; those that need more must say so, and a test compares it
            // with what the master does.
            applies: Applies::Reload,
            // Cautious: a program that changes values by itself leaves alone what was not judged.
            risk: Risk::Behaviour,
            doc: "",
            example: "",
            set: Set::Ignored(""),
        },
        value: PhantomData,
    }
}

impl Draft<Own> {
    /// Parameters with a grammar of their own, as the documents write them.
    #[must_use]
    pub const fn takes(self, arguments: &'static str) -> Draft<Own> {
        self.typed(Takes::Own(arguments))
    }

    /// `on` or `off`.
    #[must_use]
    pub const fn takes_flag(self) -> Draft<bool> {
        self.typed(Takes::Flag)
    }

    /// A number without unit.
    #[must_use]
    pub const fn takes_number(self) -> Draft<u64> {
        self.typed(Takes::Number(Range::ANY))
    }

    /// A number without unit that may be negative.
    #[must_use]
    pub const fn takes_signed(self) -> Draft<i64> {
        self.typed(Takes::Signed(Range { min: i64::MIN, max: i64::MAX }))
    }

    /// Bytes, with `k` or `m`.
    #[must_use]
    pub const fn takes_size(self) -> Draft<u64> {
        self.typed(Takes::Size(Range::ANY))
    }

    /// Bytes, with `k`, `m` or `g`.
    #[must_use]
    pub const fn takes_offset(self) -> Draft<u64> {
        self.typed(Takes::Offset(Range::ANY))
    }

    /// A time in milliseconds.
    #[must_use]
    pub const fn takes_time(self) -> Draft<Duration> {
        self.typed(Takes::Time(Range::ANY))
    }

    /// A time in whole seconds.
    #[must_use]
    pub const fn takes_seconds(self) -> Draft<u64> {
        self.typed(Takes::Seconds(Range::ANY))
    }

    /// One of the words of a table, which the setter reads with the same table ([`brisk_conf::value::choice`]).
    #[must_use]
    pub const fn takes_one_of(self, words: &'static dyn Words) -> Draft<Own> {
        self.typed(Takes::OneOf(words))
    }

    const fn typed<V>(self, takes: Takes) -> Draft<V> {
        Draft { row: Row { takes, unit: takes.unit(), ..self.row }, value: PhantomData }
    }
}

impl<V> Draft<V> {
    const fn with(self, row: Row) -> Draft<V> {
        Draft { row, value: self.value }
    }

    /// One to three sentences: what it does, how it differs from nginx.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> Draft<V> {
        let row = Row { doc, ..self.row };
        self.with(row)
    }

    /// The blocks that it may stand in.
    /// A directive in a block that is not among them is an error that names these.
    #[must_use]
    pub const fn in_(self, contexts: Context) -> Draft<V> {
        let row = Row { contexts, ..self.row };
        self.with(row)
    }

    /// How many parameters it has, if not one.
    #[must_use]
    pub const fn arity(self, arity: Arity) -> Draft<V> {
        let row = Row { arity, ..self.row };
        self.with(row)
    }

    /// The least and the greatest value, in the unit of the type.
    #[must_use]
    pub const fn range(self, min: i64, max: i64) -> Draft<V> {
        let takes = self.row.takes.within(Range { min, max });
        let row = Row { takes, ..self.row };
        self.with(row)
    }

    /// The least value, in the unit of the type.
    #[must_use]
    pub const fn at_least(self, min: i64) -> Draft<V> {
        self.range(min, i64::MAX)
    }

    /// What a number counts, in the plural: `connections`, `requests`.
    #[must_use]
    pub const fn unit(self, unit: &'static str) -> Draft<V> {
        let row = Row { unit, ..self.row };
        self.with(row)
    }

    /// What holds where it is not written, as one would write it. The setter is run on it.
    /// One definition: what the documents show is what the code does without the directive.
    #[must_use]
    pub const fn default(self, value: &'static str) -> Draft<V> {
        let row = Row { default: RowDefault::Value(value), ..self.row };
        self.with(row)
    }

    /// What holds where it is not written, for the documents alone: the code derives it from something else.
    /// Nothing runs it, so it may be prose.
    #[must_use]
    pub const fn default_told(self, text: &'static str) -> Draft<V> {
        let row = Row { default: RowDefault::Told(text), ..self.row };
        self.with(row)
    }

    /// It may stand several times in one block.
    #[must_use]
    pub const fn many(self) -> Draft<V> {
        let row = Row { many: true, ..self.row };
        self.with(row)
    }

    /// It acts only in the block in which it stands.
    #[must_use]
    pub const fn not_inherited(self) -> Draft<V> {
        let row = Row { inherit: Inherit::No, ..self.row };
        self.with(row)
    }

    /// It defines something: inheritance does not apply.
    #[must_use]
    pub const fn definition(self) -> Draft<V> {
        let row = Row { inherit: Inherit::Definition, ..self.row };
        self.with(row)
    }

    /// What a change of it needs, if not a reload.
    #[must_use]
    pub const fn applies(self, applies: Applies) -> Draft<V> {
        let row = Row { applies, ..self.row };
        self.with(row)
    }

    /// What a wrong value can do at worst, if not [`Risk::Behaviour`].
    #[must_use]
    pub const fn risk(self, risk: Risk) -> Draft<V> {
        let row = Row { risk, ..self.row };
        self.with(row)
    }

    /// A whole statement, as it could stand in a configuration. A test builds it.
    #[must_use]
    pub const fn example(self, example: &'static str) -> Draft<V> {
        let row = Row { example, ..self.row };
        self.with(row)
    }

    /// Ends the row with a setter that reads the parameters itself.
    pub const fn set(self, set: fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>) -> Row {
        self.done(Set::Simple(set))
    }

    /// Ends the row of a directive whose block holds directives.
    pub const fn block(self, set: fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>) -> Row {
        assert!(self.row.arity.block, "a block needs an arity with a block");
        self.done(Set::Block(set))
    }

    /// Ends the row of a directive that is carried out in its place, then as a block.
    pub const fn set_and_block(
        self,
        set: fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>,
        block: fn(&mut Cx<'_, '_>, &Directive) -> Result<(), Diag>,
    ) -> Row {
        self.done(Set::Both(set, block))
    }

    /// Ends the row of a directive that is accepted for compatibility and does nothing: why.
    /// The reason is a part of the notice at the start: an administrator should know what the line does not
    /// do.
    pub const fn ignored(self, why: &'static str) -> Row {
        let row = Row { inherit: Inherit::Definition, risk: Risk::Safe, ..self.row };
        self.with(row).done(Set::Ignored(why))
    }

    const fn done(self, set: Set) -> Row {
        let row = self.row;
        // Both at compile time. A row that breaks them never reaches a test.
        assert!(row.contexts.0 != 0, "a directive stands somewhere");
        let is_own = matches!(row.takes, Takes::Own(_));
        assert!(is_own || (row.arity.min == 1 && row.arity.max == 1), "a typed directive has one parameter");
        Row { set, ..row }
    }
}

impl Draft<bool> {
    /// Ends the row: the setter gets whether it is on.
    pub const fn sets(self, set: fn(&mut Cx<'_, '_>, bool)) -> Row {
        self.done(Set::Flag(set))
    }
}

impl Draft<u64> {
    /// Ends the row: the setter gets a value within the range.
    pub const fn sets(self, set: fn(&mut Cx<'_, '_>, u64)) -> Row {
        self.done(Set::Number(set))
    }
}

impl Draft<i64> {
    /// Ends the row: the setter gets a value within the range.
    pub const fn sets(self, set: fn(&mut Cx<'_, '_>, i64)) -> Row {
        self.done(Set::Signed(set))
    }
}

impl Draft<Duration> {
    /// Ends the row: the setter gets a value within the range.
    pub const fn sets(self, set: fn(&mut Cx<'_, '_>, Duration)) -> Row {
        self.done(Set::Time(set))
    }
}
