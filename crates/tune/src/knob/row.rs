//! What a row says.

use crate::audit::Tier;
use crate::edit::{Language, Wanted};

/// What must happen for a new value to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A reload of the program.
    Reload,
    /// A restart of it.
    Restart,
}

/// What a new value can do at worst, but for the site being slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// Nothing.
    Safe,
    /// What was confirmed to a visitor may be lost with the power.
    Durability,
    /// Others may see what they must not, or what happened is no longer written down.
    Security,
    /// Visitors may get old or others' pages, or be refused what they got.
    Correctness,
}

impl Risk {
    /// Its word in reports and for `--allow`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Durability => "durability",
            Self::Security => "security",
            Self::Correctness => "correctness",
        }
    }
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// This number.
    Fixed(u64),
    /// So many per CPU of the machine.
    PerCpu(u64),
    /// This part of the machine's memory, in percent; in bytes.
    OfMemory(u64),
}

/// How values are spread over a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In equal steps.
    Linear,
    /// In equal factors: what doubling does is alike everywhere.
    Logarithmic,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As it is.
    Count,
    /// Bytes with `k` or `m`.
    Bytes,
    /// Mebibytes, as a number.
    Megabytes,
    /// Seconds, as a number; nginx's times are read.
    Seconds,
}

/// The values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Numbers.
    Number {
        /// The least.
        low: Bound,
        /// The greatest.
        high: Bound,
        /// How they are spread.
        scale: Scale,
        /// How they are written.
        unit: Unit,
    },
    /// One of these, as written.
    Choice(&'static [&'static str]),
}

/// A directive that another one needs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub value: &'static str,
    /// Whether it may stand several times in a block, once for each first parameter.
    pub repeats: bool,
}

/// A setting that the tuner may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Spelled as its directive; parameters have the directive's name before theirs.
    pub name: &'static str,
    /// Which part of the site it belongs to.
    pub tier: Tier,
    /// Its language, and where it stands in it.
    pub language: Language,
    /// What holds where it is not written.
    pub default: &'static str,
    /// Which values there are.
    pub domain: Domain,
    /// A number that is good for many sites: the search looks there before it goes step by step.
    pub usual: Option<Bound>,
    /// A choice than which no other one is faster: where it holds, there is nothing to try.
    pub settled: Option<&'static str>,
    /// Less than the present number is not tried: work that finds this limit reached is refused or fails, and a load that does not reach it says nothing of it.
    pub never_less: bool,
    /// The value with `{}` for the number, where more than a number is written.
    pub form: &'static str,
    /// Words that mean a number: `auto`.
    pub words: &'static [(&'static str, Bound)],
    /// What a change needs.
    pub needs: Needs,
    /// What it can do at worst. Anything but [`Risk::Safe`] is a proposal and not tried, unless the caller allows it.
    pub risk: Risk,
    /// Whether Brisk does the same with it; else it is for nginx alone.
    pub is_for_brisk: bool,
    /// Causes of the diagnosis that make it eligible.
    pub causes: &'static [&'static str],
    /// Findings of the audit that do.
    pub findings: &'static [&'static str],
    /// What is written with another value than the default, into the same block, where it does not stand there.
    pub companions: &'static [Companion],
    /// Directives of which one must stand somewhere; empty: it helps without any.
    pub needs_any: &'static [&'static str],
    /// Directives that make it unsafe: where one of them stands, in whichever block and with whichever value, it is left out.
    pub not_with: &'static [&'static str],
    /// Another setting, and the value of it with which this one does nothing.
    pub idle_with: Option<(&'static str, &'static str)>,
    /// Who advises it.
    pub source: &'static str,
}

impl Knob {
    /// What finds its place in files. `pool`: the pool whose setting is meant, if it is a pool's.
    pub fn wanted<'a>(&'a self, pool: &'a str) -> Wanted<'a> {
        Wanted { language: self.language, name: self.name, pool }
    }

    /// Whether this level is the choice than which no other one is faster.
    pub fn is_settled(&self, level: usize) -> bool {
        match self.domain {
            Domain::Choice(texts) => self.settled.is_some() && texts.get(level).copied() == self.settled,
            Domain::Number { .. } => false,
        }
    }

    /// Whether the limit that was found, or one of the audit's findings, is a reason to try it.
    pub fn is_eligible(&self, cause: &str, findings: &[&str]) -> bool {
        self.causes.contains(&cause) || self.findings.iter().any(|finding| findings.contains(finding))
    }
}
