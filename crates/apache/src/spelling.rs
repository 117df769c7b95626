//! `CheckSpelling`: names in a folder that may have been meant by one that is not there (mod_speling).

/// How a name differs from what was asked for, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Capital letters.
    Capitals,
    /// Two neighbours have changed places.
    Transposed,
    /// A character is missing.
    Missing,
    /// There is one too many.
    Extra,
    /// One is another.
    Typo,
    /// Only what stands before the last dot is the same.
    Basename,
}

/// How names are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spelling {
    /// `CheckSpelling`.
    pub is_on: Option<bool>,
    /// `CheckCaseOnly`: nothing but capital letters may differ, or the ending.
    pub case_only: Option<bool>,
    /// `CheckBasenameMatch`: names with another ending count; on where nothing is said.
    pub basenames: Option<bool>,
}

impl Spelling {
    /// In a folder below another.
    #[must_use]
    pub fn below(self, above: Spelling) -> Spelling {
        Spelling {
            is_on: self.is_on.or(above.is_on),
            case_only: self.case_only.or(above.case_only),
            basenames: self.basenames.or(above.basenames),
        }
    }

    /// How a name of the folder is like one that is not there; `None`: it is not.
    pub fn likeness(self, wanted: &[u8], name: &[u8]) -> Option<Likeness> {
        if wanted.eq_ignore_ascii_case(name) {
            return Some(Likeness::Capitals);
        }
        let near = if self.case_only == Some(true) { None } else { distance(wanted, name) };
        near.or_else(|| {
            let base = |text: &[u8]| memchr::memrchr(b'.', text).unwrap_or(text.len());
            let (end, other) = (base(wanted), base(name));
            let is_same = end == other && wanted[..end].eq_ignore_ascii_case(&name[..end]);
            (self.basenames != Some(false) && is_same).then_some(Likeness::Basename)
        })
    }
}

/// Names that are one step apart.
fn distance(wanted: &[u8], name: &[u8]) -> Option<Likeness> {
    let common = wanted.iter().zip(name).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let (s, t) = (&wanted[common..], &name[common..]);
    if let ([a, b, s_rest @ ..], [c, d, t_rest @ ..]) = (s, t)
        && a.eq_ignore_ascii_case(d)
        && b.eq_ignore_ascii_case(c)
        && s_rest.eq_ignore_ascii_case(t_rest)
    {
        return Some(Likeness::Transposed);
    }
    match (s, t) {
        ([_, s_rest @ ..], [_, t_rest @ ..]) if s_rest.eq_ignore_ascii_case(t_rest) => Some(Likeness::Typo),
        ([_, s_rest @ ..], t) if s_rest.eq_ignore_ascii_case(t) => Some(Likeness::Extra),
        (s, [_, t_rest @ ..]) if s.eq_ignore_ascii_case(t_rest) => Some(Likeness::Missing),
        _ => None,
    }
}

/// What becomes of a request for a name that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing is like it.
    Nothing,
    /// One is meant.
    One(Vec<u8>),
    /// It may be any of these.
    Several(Vec<Vec<u8>>),
}

/// Chooses among the names of a folder.
pub fn choose(spelling: Spelling, wanted: &[u8], names: impl Iterator<Item = Vec<u8>>) -> Found {
    let mut alike: Vec<(Likeness, Vec<u8>)> =
        names.filter_map(|name| Some((spelling.likeness(wanted, &name)?, name))).collect();
    alike.sort();
    let is_clear = match alike.as_slice() {
        [] => return Found::Nothing,
        [one] => one.0 != Likeness::Basename,
        [first, second, ..] => first.0 != Likeness::Basename && first.0 != second.0,
    };
    let mut names = alike.into_iter().map(|(_, name)| name);
    if is_clear { Found::One(names.next().unwrap_or_default()) } else { Found::Several(names.collect()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike() {
        let all = Spelling { is_on: Some(true), ..Spelling::default() };
        let case = Spelling { case_only: Some(true), ..all };
        let names =
            || ["good.html", "several1.html", "several2.html"].iter().map(|name| name.as_bytes().to_vec());
        let shown = |found: Found| match found {
            Found::Nothing => "-".to_string(),
            Found::One(name) => String::from_utf8(name).unwrap(),
            Found::Several(names) => format!("{} names", names.len()),
        };
        for (wanted, of_all, of_case) in [
            ("god.html", "good.html", "-"),
            ("goood.html", "good.html", "-"),
            ("godo.html", "good.html", "-"),
            ("go_d.html", "good.html", "-"),
            ("GOOD.html", "good.html", "good.html"),
            ("good.wrong_ext", "1 names", "1 names"),
            ("GOOD.wrong_ext", "1 names", "1 names"),
            ("Bad.html", "-", "-"),
            ("dogo.html", "-", "-"),
            ("XooX.html", "-", "-"),
            ("several0.html", "2 names", "-"),
        ] {
            let got = |spelling| shown(choose(spelling, wanted.as_bytes(), names()));
            assert_eq!((got(all).as_str(), got(case).as_str()), (of_all, of_case), "{wanted}");
        }
    }
}
