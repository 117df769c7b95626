//! Diagnostics: what is wrong, where, and what to do about it.

use crate::excerpt::{Excerpt, escape_controls};
use crate::source::{SourceMap, Span};
use std::fmt::Write as _;

/// nginx's log levels, as far as a configuration can produce them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing can be done.
    Emerg,
    /// An error that needs attention at once.
    Alert,
    /// A critical error.
    Crit,
    /// An error.
    Error,
    /// The configuration is used, but probably not what is meant.
    Warn,
    /// The configuration is used as it stands; something is worth knowing.
    Notice,
}

impl Level {
    /// nginx's word for it: `emerg`, `alert`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Emerg => "emerg",
            Level::Alert => "alert",
            Level::Crit => "crit",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Notice => "notice",
        }
    }
}

/// How an error relates to others: one cause is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Own,
    /// Quotes or braces do not match: what stands where is not known from here on.
    Structure,
    /// A directive in a block where it may not be, which is what unmatched braces look like.
    Misplaced,
    /// The same message elsewhere has the same cause: a zone that nothing declares.
    Repeated,
}

/// One message about a configuration. The message itself keeps nginx's wording, without the `in FILE:LINE`.
#[derive(Clone, Debug)]
pub struct Diag {
    /// How bad it is.
    pub level: Level,
    /// What is wrong, in nginx's words where nginx has any.
    pub message: String,
    /// The place; `None` if it concerns no single one.
    pub span: Option<Span>,
    /// What the excerpt shows, where that is another place than the one that nginx's first line names.
    place: Option<Span>,
    /// What the user can do about it, in a sentence.
    pub help: Option<String>,
    /// nginx ends some messages with `:LINE`, others with nothing; true leaves the place out of the first line.
    bare: bool,
    /// The message is a reason that follows the directive's name.
    reason: bool,
    cause: Cause,
}

impl Diag {
    /// An error that refuses the configuration.
    pub fn emerg(span: Span, message: impl Into<String>) -> Diag {
        Diag {
            level: Level::Emerg,
            message: message.into(),
            span: Some(span),
            place: None,
            help: None,
            bare: false,
            reason: false,
            cause: Cause::Own,
        }
    }

    /// A reason why a value is refused: nginx's generic setters give one (`invalid number`), and the headline is
    /// `"NAME" directive REASON` once [`Diag::about`] has told the name.
    pub fn reason(span: Span, reason: &str) -> Diag {
        Diag { reason: true, ..Diag::emerg(span, reason) }
    }

    /// Tells which directive a [`Diag::reason`] is about.
    #[must_use]
    pub fn about(mut self, directive: &str) -> Diag {
        if std::mem::take(&mut self.reason) {
            self.message = format!("\"{directive}\" directive {}", self.message);
        }
        self
    }

    /// An error that belongs to no place in a file.
    pub fn global(message: impl Into<String>) -> Diag {
        Diag {
            level: Level::Emerg,
            message: message.into(),
            span: None,
            place: None,
            help: None,
            bare: true,
            reason: false,
            cause: Cause::Own,
        }
    }

    /// Something that works but is probably not meant.
    pub fn warn(span: Span, message: impl Into<String>) -> Diag {
        Diag { level: Level::Warn, ..Diag::emerg(span, message) }
    }

    /// Something that does nothing here.
    pub fn notice(span: Span, message: impl Into<String>) -> Diag {
        Diag { level: Level::Notice, ..Diag::emerg(span, message) }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diag {
        self.help = Some(help.into());
        self
    }

    /// Points the excerpt at another place than the first line names: where a `;` is missing.
    #[must_use]
    pub fn at(mut self, place: Span) -> Diag {
        self.place = Some(place);
        self
    }

    /// Marks an error about quotes or braces that do not match.
    #[must_use]
    pub fn structural(self) -> Diag {
        Diag { cause: Cause::Structure, ..self }
    }

    /// Marks an error about a directive that stands in the wrong block.
    #[must_use]
    pub fn misplaced(self) -> Diag {
        Diag { cause: Cause::Misplaced, ..self }
    }

    /// Marks an error that is told at its first place only, however many there are.
    #[must_use]
    pub fn once(self) -> Diag {
        Diag { cause: Cause::Repeated, ..self }
    }

    /// nginx prints this message without a place; the excerpt below it still shows one.
    #[must_use]
    pub fn bare(mut self) -> Diag {
        self.bare = true;
        self
    }

    /// Whether the configuration cannot be used.
    pub fn is_error(&self) -> bool {
        self.level <= Level::Error
    }

    /// nginx's own line: `[emerg] message in FILE:LINE`.
    pub fn headline(&self, sources: &SourceMap) -> String {
        let mut out = format!("[{}] {}", self.level.as_str(), escape_controls(&self.message));
        if let (Some(span), false) = (self.span, self.bare) {
            let name = escape_controls(&sources.file(span.file).name);
            let _ = write!(out, " in {name}:{}", sources.end_line(span));
        }
        out
    }

    /// The headline followed by the line itself with a caret under the offending token, and the remedy.
    pub fn render(&self, sources: &SourceMap) -> String {
        let mut out = self.headline(sources);
        if let Some(span) = self.place.or(self.span) {
            let _ = write!(out, "{}", Excerpt::new(sources, span));
        }
        for (index, line) in self.help.iter().flat_map(|help| help.lines()).enumerate() {
            let lead = if index == 0 { "   = help: " } else { "           " };
            let _ = write!(out, "\n{lead}{}", escape_controls(line));
        }
        out
    }
}

/// Leaves one error for each cause.
pub fn settle(diags: &mut Vec<Diag>) {
    let is_broken = diags.iter().any(|diag| diag.cause == Cause::Structure);
    let mut broken_files = Vec::new();
    let mut told = Vec::new();
    let mut seen = std::collections::HashSet::new();
    // A block that is looked at from several sides (an "if" in it inherits what it says) says the same several times.
    diags.retain(|diag| seen.insert((diag.message.clone(), diag.span.map(|s| (s.file.0, s.start, s.end)))));
    diags.retain(|diag| match diag.cause {
        Cause::Own => true,
        Cause::Misplaced => !is_broken,
        Cause::Structure => {
            let file = diag.span.map(|span| span.file);
            let is_first = !broken_files.contains(&file);
            broken_files.push(file);
            is_first
        }
        Cause::Repeated => {
            let is_first = !told.contains(&diag.message);
            told.push(diag.message.clone());
            is_first
        }
    });
}

/// The candidate closest to `name`, if it is close enough to be a slip of the keyboard.
pub fn did_you_mean<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.len() / 3).clamp(1, 3);
    candidates
        .map(|c| (distance(name.as_bytes(), c.as_bytes()), c))
        .filter(|&(d, _)| d <= limit)
        .min()
        .map(|(_, c)| c)
}

/// Edit distance with transpositions (optimal string alignment).
fn distance(a: &[u8], b: &[u8]) -> usize {
    if a.len().abs_diff(b.len()) > 3 {
        return usize::MAX;
    }
    let mut two = vec![0; b.len() + 1];
    let mut one: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (one[j] + 1).min(row[j - 1] + 1).min(one[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(two[j - 2] + 1);
            }
        }
        two = std::mem::replace(&mut one, row);
    }
    one[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["root", "return", "open_file_cache_errors", "sendfile"];
        let check = |given, want| assert_eq!(did_you_mean(given, names.into_iter()), want, "{given}");
        check("rooot", Some("root"));
        check("sendfiel", Some("sendfile"));
        check("retrun", Some("return"));
        check("zzzz", None);
    }

    #[test]
    fn the_caret_stands_under_the_token() {
        let mut sources = SourceMap::default();
        let file = sources.add("/etc/x.conf", b"http {\n\tfoo on;\n}\n".to_vec());
        let diag =
            Diag::emerg(Span { file, start: 8, end: 11 }, "unknown directive \"foo\"").help("remove it");
        assert_eq!(
            diag.render(&sources),
            "[emerg] unknown directive \"foo\" in /etc/x.conf:2\n  --> /etc/x.conf:2:2\n 2 | \tfoo on;\n   | \t^^^\n   = help: remove it"
        );
    }
}
