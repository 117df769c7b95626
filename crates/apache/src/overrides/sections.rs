//! Sections whose settings hold for some requests of a directory.

use super::settings::Settings;
use crate::expr::{Condition, Evaluation};
use crate::pattern::Spans;
use crate::{EnvChange, Facts, Pattern, Stop, Variable, glob};

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

    /// What stands for a folder where rules of mod_rewrite are in the section, with a slash at its end: Apache takes the section's own
    /// text, so a substitution without a slash at its beginning leads nowhere but in a `<Location>`.
    pub fn folder(&self) -> Vec<u8> {
        let mut folder = match self {
            Scope::Path(path) => path.clone(),
            Scope::Name(name) => name.clone(),
            Scope::FolderPattern(_) | Scope::NamePattern(_) | Scope::PathPattern(_) => b"^".to_vec(),
            Scope::If(_) | Scope::ElseIf(_) | Scope::Else => b"*If".to_vec(),
        };
        if !folder.ends_with(b"/") {
            folder.push(b'/');
        }
        folder
    }

    /// Adds variables `MATCH_NAME` for the named groups of a section's pattern, which matched.
    fn named(pattern: &P, subject: &[u8], found: &Spans, matched: &mut Vec<EnvChange>) {
        for (group, name) in pattern.named() {
            let span = found.get(group).cloned().flatten().unwrap_or(0..0);
            let name = [b"MATCH_", name.to_ascii_uppercase().as_bytes()].concat();
            matched.push((name, Some(subject.get(span).unwrap_or_default().to_vec())));
        }
    }

    /// Whether a section is for a request; variables by the groups of its pattern are added to `matched`. `name` is the last part of the file's path; `has_held` says whether the `<If>`, or an
    /// `<ElseIf>` behind it, was, and is kept up to date.
    ///
    /// # Errors
    /// A fact is to come, or it cannot be told: the request is answered with 500.
    pub fn holds(
        &self,
        name: &[u8],
        facts: &dyn Facts,
        has_held: &mut bool,
        matched: &mut Vec<EnvChange>,
    ) -> Result<bool, Stop> {
        let mut is_found = |pattern: &P, subject: &[u8]| -> Result<bool, Stop> {
            let found = pattern.find(subject)?;
            found.iter().for_each(|found| Scope::named(pattern, subject, found, matched));
            Ok(found.is_some())
        };
        facts.spend(name.len() + crate::limits::LINE_WORK_BYTES)?;
        match self {
            Scope::Name(wanted) if glob::is_pattern(wanted) => {
                Ok(glob::matches(wanted, name, glob::Options::default()))
            }
            Scope::Name(wanted) => Ok(wanted == name),
            Scope::NamePattern(pattern) => is_found(pattern, name),
            Scope::FolderPattern(pattern) => is_found(pattern, &facts.variable(&Variable::RequestFilename)?),
            Scope::PathPattern(pattern) => is_found(pattern, &facts.variable(&Variable::RequestUri)?),
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

/// Whether a URI's path is a `<Location>`'s. Several slashes are one, also where they stay in the path (`MergeSlashes Off`): what a
/// section closes must not be open under another spelling.
fn is_below(path: &[u8], wanted: &[u8]) -> bool {
    let mut merged = path.to_vec();
    merged.dedup_by(|next, before| *next == b'/' && *before == b'/');
    let path = merged.as_slice();
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
            ("/a/b", "/a//b/c", true),
            ("/a", "//a", true),
            ("/*/x", "/a/x", true),
            ("/*/x", "/a/b/x", false),
        ] {
            assert_eq!(is_below(path.as_bytes(), wanted.as_bytes()), is_wanted, "{wanted} {path}");
        }
    }
}
