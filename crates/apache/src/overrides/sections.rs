//! Sections whose settings hold for some requests of a directory.

use super::settings::Settings;
use crate::expr::{Condition, Evaluation};
use crate::{Facts, Pattern, Stop, glob};

/// Which requests a section is for.
#[derive(Debug)]
pub enum Scope<P> {
    /// `<Files>`: the last part of the file's path, with wildcards.
    Name(Vec<u8>),
    /// `<Files ~>`, `<FilesMatch>`: a pattern for it.
    NamePattern(P),
    /// `<If>`.
    If(Condition<P>),
    /// `<ElseIf>`: the `<If>` before it does not hold, nor an `<ElseIf>` between them.
    ElseIf(Condition<P>),
    /// `<Else>`.
    Else,
}

/// A section.
#[derive(Debug)]
pub struct ScopedSettings<P> {
    /// Which requests it is for.
    pub scope: Scope<P>,
    /// What holds for them.
    pub settings: Settings<P>,
}

impl<P: Pattern> Scope<P> {
    /// Whether it decides by the file's name; such sections come before those that decide by a condition.
    pub fn is_by_name(&self) -> bool {
        matches!(self, Scope::Name(_) | Scope::NamePattern(_))
    }

    /// Whether a section is for a request. `name` is the last part of the file's path; `has_held` says whether the `<If>`, or an
    /// `<ElseIf>` behind it, was, and is kept up to date.
    ///
    /// # Errors
    /// A fact is to come, or it cannot be told: the request is answered with 500.
    pub fn holds(&self, name: &[u8], facts: &dyn Facts, has_held: &mut bool) -> Result<bool, Stop> {
        facts.spend(name.len() + crate::limits::LINE_WORK_BYTES)?;
        match self {
            Scope::Name(wanted) if glob::is_pattern(wanted) => {
                Ok(glob::matches(wanted, name, glob::Options::default()))
            }
            Scope::Name(wanted) => Ok(wanted == name),
            Scope::NamePattern(pattern) => Ok(pattern.find(name)?.is_some()),
            Scope::If(condition) => {
                *has_held = Evaluation::new(facts).holds(condition)?;
                Ok(*has_held)
            }
            Scope::ElseIf(condition) => {
                let holds = !*has_held && Evaluation::new(facts).holds(condition)?;
                *has_held |= holds;
                Ok(holds)
            }
            Scope::Else => Ok(!std::mem::replace(has_held, true)),
        }
    }
}
