//! Sections whose settings hold for some requests of a directory.

use super::settings::Settings;
use crate::expr::{Condition, Evaluation};
use crate::{Facts, Pattern, Stop, Variable, glob};

/// Which requests a section is for.
#[derive(Debug)]
pub enum Scope<P> {
    /// `<DirectoryMatch>`, `<Directory ~>`: a pattern for the file's path.
    FolderPattern(P),
    /// `<Files>`: the last part of the file's path, with wildcards.
    Name(Vec<u8>),
    /// `<Files ~>`, `<FilesMatch>`: a pattern for it.
    NamePattern(P),
    /// `<Location>`: the beginning of the URI's path, in whole segments, or a path with wildcards.
    Path(Vec<u8>),
    /// `<LocationMatch>`, `<Location ~>`: a pattern for the URI's path.
    PathPattern(P),
    /// `<If>`.
    If(Condition<P>),
    /// `<ElseIf>`: the `<If>` before it does not hold, nor an `<ElseIf>` between them.
    ElseIf(Condition<P>),
    /// `<Else>`.
    Else,
}

/// The order in which sections count: all of one rank, then those of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// `<DirectoryMatch>`.
    Folder,
    /// `<Files>`.
    Name,
    /// `<Location>`.
    Path,
    /// `<If>`.
    Condition,
}

impl Rank {
    /// All, in their order.
    pub const ALL: [Rank; 4] = [Rank::Folder, Rank::Name, Rank::Path, Rank::Condition];
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
    /// When it counts.
    pub fn rank(&self) -> Rank {
        match self {
            Scope::FolderPattern(_) => Rank::Folder,
            Scope::Name(_) | Scope::NamePattern(_) => Rank::Name,
            Scope::Path(_) | Scope::PathPattern(_) => Rank::Path,
            Scope::If(_) | Scope::ElseIf(_) | Scope::Else => Rank::Condition,
        }
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
            Scope::FolderPattern(pattern) => {
                Ok(pattern.find(&facts.variable(&Variable::RequestFilename)?)?.is_some())
            }
            Scope::PathPattern(pattern) => {
                Ok(pattern.find(&facts.variable(&Variable::RequestUri)?)?.is_some())
            }
            Scope::Path(wanted) => Ok(is_below(&facts.variable(&Variable::RequestUri)?, wanted)),
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

/// Whether a URI's path is a `<Location>`'s.
fn is_below(path: &[u8], wanted: &[u8]) -> bool {
    if glob::is_pattern(wanted) {
        return glob::matches(wanted, path, glob::Options { is_path: true, ignores_case: false });
    }
    let is_whole = |rest: &[u8]| rest.is_empty() || rest[0] == b'/' || wanted.ends_with(b"/");
    path.strip_prefix(wanted).is_some_and(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_whole_segments() {
        for (wanted, path, is_wanted) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/", "/a/b", true),
            ("/a/", "/a", false),
            ("/", "/x", true),
            ("/*/x", "/a/x", true),
            ("/*/x", "/a/b/x", false),
        ] {
            assert_eq!(is_below(path.as_bytes(), wanted.as_bytes()), is_wanted, "{wanted} {path}");
        }
    }
}
