//! `Options`: what a directory allows.

/// A set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options(u8);

impl Options {
    /// A listing where no index file is.
    pub const INDEXES: Options = Options(1);
    /// Server-side includes.
    pub const INCLUDES: Options = Options(1 << 1);
    /// Programs started by them.
    pub const INCLUDES_EXEC: Options = Options(1 << 2);
    /// Symbolic links are followed.
    pub const FOLLOW_SYM_LINKS: Options = Options(1 << 3);
    /// Symbolic links are followed if link and file have one owner.
    pub const SYM_LINKS_IF_OWNER_MATCH: Options = Options(1 << 4);
    /// Programs are started.
    pub const EXEC_CGI: Options = Options(1 << 5);
    /// A name without its ending is looked for.
    pub const MULTI_VIEWS: Options = Options(1 << 6);
    /// None.
    pub const NONE: Options = Options(0);
    /// All but `MultiViews` and `SymLinksIfOwnerMatch`, as the word `All` means.
    pub const ALL: Options = Options(0b10_1111);

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }

    /// This set without another.
    #[must_use]
    pub const fn without(self, other: Options) -> Options {
        Options(self.0 & !other.0)
    }

    /// Whether all of another set are in this one.
    pub const fn has(self, other: Options) -> bool {
        self.0 & other.0 == other.0
    }

    fn named(name: &str) -> Option<Options> {
        Some(match name.to_ascii_lowercase().as_str() {
            "indexes" => Options::INDEXES,
            "includes" => Options::INCLUDES.or(Options::INCLUDES_EXEC),
            "includesnoexec" => Options::INCLUDES,
            "followsymlinks" => Options::FOLLOW_SYM_LINKS,
            "symlinksifownermatch" => Options::SYM_LINKS_IF_OWNER_MATCH,
            "execcgi" => Options::EXEC_CGI,
            "multiviews" => Options::MULTI_VIEWS,
            _ => return None,
        })
    }
}

impl Default for Options {
    /// Apache's: `FollowSymLinks`.
    fn default() -> Options {
        Options::FOLLOW_SYM_LINKS
    }
}

/// What the lines of one directory do to the options of the directory above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They take their place.
    Set(Options),
    /// `+` and `-`.
    Merge {
        /// Those with `+`.
        add: Options,
        /// Those with `-`.
        remove: Options,
    },
}

impl Default for Change {
    fn default() -> Change {
        Change::Merge { add: Options::NONE, remove: Options::NONE }
    }
}

impl Change {
    /// One more line of the same directory; `allowed` is what `AllowOverride Options=…` leaves to it.
    ///
    /// # Errors
    /// What is wrong with the words, in Apache's.
    pub fn line(self, words: impl Iterator<Item = Vec<u8>>, allowed: Options) -> Result<Change, String> {
        let words: Vec<String> = words.map(|word| String::from_utf8_lossy(&word).into_owned()).collect();
        let mut change = self;
        let (mut has_sign, mut begins_whole) = (false, false);
        for (index, word) in words.iter().enumerate() {
            let is_signed = word.starts_with(['+', '-']);
            // `All` and `None` alone may have signs behind them: `All -Indexes`.
            if index > 0 && is_signed != has_sign && !(is_signed && begins_whole) {
                return Err("Either all Options must start with + or -, or no Option may.".into());
            }
            has_sign = is_signed;
            if index == 0 && !is_signed {
                change = Change::Set(Options::NONE);
            }
            let name = word.strip_prefix(['+', '-']).unwrap_or(word);
            let whole = [("None", Options::NONE), ("All", Options::ALL)];
            let whole =
                whole.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, options)| *options);
            if whole.is_some() && index > 0 {
                return Err(format!("'Options {name}' must be the first Option given."));
            }
            if whole.is_some() && is_signed {
                return Err(format!("You may not use 'Options +{name}' or 'Options -{name}'."));
            }
            begins_whole |= whole.is_some();
            let option =
                whole.or_else(|| Options::named(name)).ok_or_else(|| format!("Illegal option {name}"))?;
            if !allowed.has(option) {
                return Err(format!("Option {name} not allowed here"));
            }
            change = change.with(word.as_bytes().first(), option);
        }
        Ok(change)
    }

    /// Adds or takes away an option, by the sign of its word.
    fn with(self, sign: Option<&u8>, option: Options) -> Change {
        match (self, sign) {
            (Change::Set(set), Some(b'-')) => Change::Set(set.without(option)),
            (Change::Set(set), _) => Change::Set(set.or(option)),
            (Change::Merge { add, remove }, Some(b'-')) => {
                Change::Merge { add: add.without(option), remove: remove.or(option) }
            }
            (Change::Merge { add, remove }, _) => {
                Change::Merge { add: add.or(option), remove: remove.without(option) }
            }
        }
    }

    /// The options of the directory.
    pub fn of(self, above: Options) -> Options {
        match self {
            Change::Set(options) => options,
            Change::Merge { add, remove } => above.without(remove).or(add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Words;

    fn options(lines: &[&str]) -> Result<Options, String> {
        let every = Options(0xff);
        let above = Options::INDEXES.or(Options::FOLLOW_SYM_LINKS);
        let change = lines
            .iter()
            .try_fold(Change::default(), |change, line| change.line(Words(line.as_bytes()), every));
        change.map(|change| change.of(above))
    }

    #[test]
    fn lines_set_or_merge() {
        let (indexes, links) = (Options::INDEXES, Options::FOLLOW_SYM_LINKS);
        for (lines, wanted) in [
            (&[][..], indexes.or(links)),
            (&["-Indexes"], links),
            (&["+MultiViews -indexes"], links.or(Options::MULTI_VIEWS)),
            (&["MultiViews"], Options::MULTI_VIEWS),
            (&["MultiViews", "+Indexes"], Options::MULTI_VIEWS.or(indexes)),
            (&["+MultiViews", "-MultiViews"], indexes.or(links)),
            (&["None"], Options::NONE),
            (&["All"], Options::ALL),
            (&["All -Indexes"], Options::ALL.without(indexes)),
            (&["all -indexes +MultiViews"], Options::ALL.without(indexes).or(Options::MULTI_VIEWS)),
            (&["None +Indexes"], indexes),
            (&["+SymLinksIfOwnerMatch"], indexes.or(links).or(Options::SYM_LINKS_IF_OWNER_MATCH)),
            (&["Includes"], Options::INCLUDES.or(Options::INCLUDES_EXEC)),
        ] {
            assert_eq!(options(lines), Ok(wanted), "{lines:?}");
        }
        for (line, wanted) in [
            ("Indexes -MultiViews", "Either all Options must start with + or -, or no Option may."),
            (
                "All Indexes -MultiViews +ExecCGI MultiViews",
                "Either all Options must start with + or -, or no Option may.",
            ),
            ("+Indexes MultiViews", "Either all Options must start with + or -, or no Option may."),
            ("--Indexes", "Illegal option -Indexes"),
            ("Nonsense", "Illegal option Nonsense"),
            ("Indexes None", "'Options None' must be the first Option given."),
            ("+Indexes +All", "'Options All' must be the first Option given."),
            ("+All", "You may not use 'Options +All' or 'Options -All'."),
        ] {
            assert_eq!(options(&[line]), Err(wanted.to_string()), "{line}");
        }
        let limited = Change::default().line(Words(b"+ExecCGI"), Options::INDEXES);
        assert_eq!(limited, Err("Option ExecCGI not allowed here".into()));
    }
}
