//! Changes of configuration files by place: what a setting needs is written over, every other byte stays.
//!
//! The readers find the places, one per language; what comes of them is a list of [`Edit`]s that can be applied and taken back.

mod apache;
mod lines;
mod nginx;

pub use lines::DATABASE_SECTIONS;

use std::fmt;
use std::ops::Range;

/// One of a site's files, as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path.
    pub name: String,
    /// Its bytes.
    pub text: Vec<u8>,
}

/// A language of configuration files, and where in it a setting belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// nginx's, which Brisk reads too. Where the directive stands nowhere it is written into the first of these blocks; empty: outside
    /// of all blocks.
    Nginx {
        /// The block's name: `http`, `events`.
        block: &'static str,
    },
    /// A parameter of a directive of nginx's language: `backlog=` of `listen`. It is changed only where the directive stands.
    NginxParameter {
        /// The directive.
        directive: &'static str,
        /// The parameter up to its value, with the blank before it.
        prefix: &'static str,
    },
    /// php.ini.
    Php,
    /// PHP-FPM's pools: the section of the pool that is named.
    Pool,
    /// MariaDB's and MySQL's option files: sections that the server reads.
    Database,
    /// Apache's.
    Apache,
    /// `sysctl.conf`.
    Sysctl,
}

impl Language {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx { .. } | Self::NginxParameter { .. } => "nginx",
            Self::Php => "php.ini",
            Self::Pool => "php-fpm",
            Self::Database => "my.cnf",
            Self::Apache => "apache",
            Self::Sysctl => "sysctl",
        }
    }
}

/// What of a file is replaced by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which file of those that were given.
    pub file: usize,
    /// The first byte.
    pub at: usize,
    /// What stands there.
    pub old: Vec<u8>,
    /// What will.
    pub new: Vec<u8>,
}

impl Edit {
    fn over(file: usize, text: &[u8], range: Range<usize>, new: impl Into<Vec<u8>>) -> Edit {
        Edit { file, at: range.start, old: text[range].to_vec(), new: new.into() }
    }
}

/// Why a setting cannot be read or written, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl Refused {
    fn new(why: impl Into<String>) -> Refused {
        Refused(why.into())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// A setting: its language, its name there, and for pools the section.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The language and the place in it.
    pub language: Language,
    /// Its name as a directive.
    pub name: &'a str,
    /// The pool; other languages do not read it.
    pub pool: &'a str,
}

/// The value that holds, as written: the last one where a later line wins, the outermost one in nginx's language. `None`: it stands
/// nowhere, or in locations alone.
///
/// # Errors
/// A file that cannot be understood.
pub fn read(files: &[File], wanted: &Wanted<'_>) -> Result<Option<String>, Refused> {
    let places = places(files, wanted)?;
    let is_parameter = matches!(wanted.language, Language::NginxParameter { .. });
    let first = places.written.first().filter(|place| !(is_parameter && place.range.is_empty()));
    Ok(first.map(|place| place.text(files)))
}

/// What the first location says of a setting that stands in locations alone: a value outside of them would not hold there.
///
/// # Errors
/// A file that cannot be understood.
pub fn read_in_location(files: &[File], wanted: &Wanted<'_>) -> Result<Option<String>, Refused> {
    Ok(places(files, wanted)?.in_location.map(|place| place.text(files)))
}

/// What is to be changed so that the setting has this value wherever it holds. In nginx's language a place with another value than the one
/// that [`read`] gives is an exception that somebody has made, and stays; where it gives none, so is each place.
///
/// # Errors
/// A file that cannot be understood, or no file in which the setting could stand.
pub fn set(files: &[File], wanted: &Wanted<'_>, value: &str) -> Result<Vec<Edit>, Refused> {
    if value.bytes().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        return Err(Refused::new("a value is one line"));
    }
    let places = places(files, wanted)?;
    let over = |place: &Place| {
        Edit::over(place.file, &files[place.file].text, place.range.clone(), place.wrapped(value))
    };
    let mut edits: Vec<Edit> = places.written.iter().map(over).filter(|edit| edit.old != edit.new).collect();
    match places.missing {
        Some((file, at, line)) if places.written.is_empty() || places.is_inside_only => {
            edits.push(Edit { file, at, old: Vec::new(), new: line.replace(VALUE, value).into_bytes() });
        }
        None if places.written.is_empty() => {
            return Err(Refused::new(format!(
                "{} has no place in these files: name the file that it belongs into",
                wanted.name
            )));
        }
        _ => {}
    }
    Ok(edits)
}

/// What a directive needs beside it in its block: written where the block has none of this name, or, of those that `repeats`, none with the same
/// first parameter. Other blocks have their own say.
///
/// # Errors
/// A file that cannot be understood, or no file with such a block; a language other than nginx's.
pub fn add(files: &[File], wanted: &Wanted<'_>, value: &str, repeats: bool) -> Result<Vec<Edit>, Refused> {
    let Language::Nginx { block } = wanted.language else {
        return Err(Refused::new(format!("{} has no blocks", wanted.language.name())));
    };
    let first = repeats.then(|| value.split(' ').next().unwrap_or(value));
    if nginx::stands(files, wanted.name, block, first)? {
        return Ok(Vec::new());
    }
    let missing = places(files, wanted)?.missing;
    let (file, at, line) =
        missing.ok_or_else(|| Refused::new(format!("there is no block \"{block}\" in these files")))?;
    Ok(vec![Edit { file, at, old: Vec::new(), new: line.replace(VALUE, value).into_bytes() }])
}

/// The files after the edits.
///
/// # Errors
/// An edit whose place holds something else by now: somebody has changed the file.
pub fn apply(files: &[File], edits: &[Edit]) -> Result<Vec<File>, Refused> {
    changed(files, edits, |edit| (&edit.old, &edit.new), false)
}

/// The files before the edits, of what they are after them.
///
/// # Errors
/// See [`apply`].
pub fn undo(files: &[File], edits: &[Edit]) -> Result<Vec<File>, Refused> {
    changed(files, edits, |edit| (&edit.new, &edit.old), true)
}

fn changed(
    files: &[File],
    edits: &[Edit],
    way: impl Fn(&Edit) -> (&Vec<u8>, &Vec<u8>),
    is_undo: bool,
) -> Result<Vec<File>, Refused> {
    let mut files = files.to_vec();
    let mut order: Vec<&Edit> = edits.iter().collect();
    order.sort_by_key(|edit| edit.at);
    // Places are those of the file before all edits. From the end on none moves another one; on the way back the first edit is
    // where it was, and with it undone the next one is.
    if !is_undo {
        order.reverse();
    }
    for edit in order {
        let (from, to) = way(edit);
        let file =
            files.get_mut(edit.file).ok_or_else(|| Refused::new("an edit of a file that is not there"))?;
        let end = edit.at + from.len();
        if file.text.get(edit.at..end) != Some(&from[..]) {
            return Err(Refused::new(format!(
                "\"{}\" was changed meanwhile: it is left as it is",
                file.name
            )));
        }
        file.text.splice(edit.at..end, to.iter().copied());
    }
    Ok(files)
}

/// Stands for the value in a line that is to be inserted.
const VALUE: &str = "\u{1}";

/// Where a setting stands.
#[derive(Clone, Debug)]
struct Place {
    file: usize,
    /// The value without what surrounds it.
    range: Range<usize>,
    /// What is written before the value, where there was none: `=`.
    before: &'static str,
}

impl Place {
    fn wrapped(&self, value: &str) -> String {
        format!("{}{value}", self.before)
    }

    /// What stands there.
    fn text(&self, files: &[File]) -> String {
        String::from_utf8_lossy(&files[self.file].text[self.range.clone()]).trim().to_string()
    }
}

/// Where a setting stands, or would.
#[derive(Debug, Default)]
struct Places {
    /// Those that hold, the one that is read first.
    written: Vec<Place>,
    /// File, offset and line with [`VALUE`] in it.
    missing: Option<(usize, usize, String)>,
    /// It stands in inner blocks alone: that line is needed, too, so that it holds everywhere.
    is_inside_only: bool,
    /// The first location's, where it stands in locations alone.
    in_location: Option<Place>,
}

fn places(files: &[File], wanted: &Wanted<'_>) -> Result<Places, Refused> {
    match wanted.language {
        Language::Nginx { block } => nginx::directive(files, wanted.name, block),
        Language::NginxParameter { directive, prefix } => nginx::parameter(files, directive, prefix),
        Language::Php => lines::places(files, &lines::Kind::PHP, wanted),
        Language::Pool => lines::places(files, &lines::Kind::POOL, wanted),
        Language::Database => lines::places(files, &lines::Kind::DATABASE, wanted),
        Language::Sysctl => lines::places(files, &lines::Kind::SYSCTL, wanted),
        Language::Apache => apache::places(files, wanted.name),
    }
}

#[cfg(test)]
mod tests;
