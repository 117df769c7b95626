//! Files of `name = value` lines in sections: php.ini, PHP-FPM's pools, MariaDB's option files.

use crate::site::Place;
use std::ops::Range;

/// One line that sets something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The section's name; empty before the first one.
    pub section: String,
    /// As written.
    pub name: String,
    /// Without quotes; empty where there is none, as in `skip-name-resolve`.
    pub value: String,
    /// Where it stands.
    pub place: Place,
    /// The bytes of the value in its file, quotes included; without one, none behind the name.
    pub value_at: Range<usize>,
    /// Whether a `=` stands on the line.
    pub has_value: bool,
}

impl Entry {
    /// Whether it sets this. `-` and `_` are one in names, as MariaDB reads them.
    pub fn is_named(&self, name: &str) -> bool {
        is_same(&self.name, name)
    }
}

/// All lines that set something, of one file or of several, in the order in which they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ini {
    entries: Vec<Entry>,
}

/// How a kind of file writes what does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// From `;` on (php.ini, FPM).
    Semicolons,
    /// From `#` on, and lines that begin with `;` (option files).
    Hashes,
}

impl Ini {
    /// Reads one more file: later lines count more.
    pub fn read(&mut self, file: &str, text: &str, comments: Comments) {
        let mut section = String::new();
        let mut next = 0;
        for (index, whole) in text.split_inclusive('\n').enumerate() {
            let start = next;
            next += whole.len();
            if let Some(name) = header_of(whole, comments) {
                section = name.to_string();
                continue;
            }
            let line = uncommented(whole, comments).trim();
            // An include is followed by whom reads the files.
            if line.is_empty() || line.starts_with('!') {
                continue;
            }
            let (name, value, has_value) = match line.split_once('=') {
                Some((name, value)) => (name, value.trim(), true),
                None => (line, "", false),
            };
            let line_at = start + (whole.len() - whole.trim_start().len());
            let value_end = line_at + line.len();
            self.entries.push(Entry {
                section: section.clone(),
                name: name.trim().to_string(),
                value: unquoted(value).to_string(),
                place: Place { file: file.to_string(), line: index + 1 },
                value_at: value_end - value.len()..value_end,
                has_value,
            });
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All lines, in the order in which they were read.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What is set last under this name, in whatever section. `-` and `_` are one in names, as MariaDB reads them.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| is_same(&entry.name, name))
    }

    /// The same in one of these sections.
    pub fn get_in(&self, sections: &[&str], name: &str) -> Option<&Entry> {
        let is_there = |entry: &&Entry| sections.contains(&&*entry.section) && is_same(&entry.name, name);
        self.entries.iter().rev().find(is_there)
    }

    /// The names of the sections, each once, in their order.
    pub fn sections(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !names.contains(&&*entry.section) {
                names.push(&entry.section);
            }
        }
        names
    }
}

/// The section that a line begins.
pub(crate) fn header_of(line: &str, comments: Comments) -> Option<&str> {
    let line = uncommented(line, comments).trim();
    Some(line.strip_prefix('[')?.strip_suffix(']')?.trim())
}

fn is_same(have: &str, wanted: &str) -> bool {
    have.len() == wanted.len()
        && have
            .bytes()
            .zip(wanted.bytes())
            .all(|(a, b)| a == b || (a == b'-' && b == b'_') || (a == b'_' && b == b'-'))
}

fn uncommented(line: &str, comments: Comments) -> &str {
    let begins = line.trim_start().starts_with([';', '#']);
    if begins {
        return "";
    }
    let mark = match comments {
        Comments::Semicolons => ';',
        Comments::Hashes => '#',
    };
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            (None, _) if c == mark => return &line[..at],
            _ => {}
        }
    }
    line
}

fn unquoted(value: &str) -> &str {
    let inner = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// A number of bytes with K, M, G or T behind it, in either case; `None` if it is none. `-1` is none: it means no limit.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        "t" | "tb" => 1u64 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// What PHP and MariaDB take for on and off; `None` if it is neither.
pub fn flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" | "none" | "" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_sections_comments_and_quotes() {
        let mut ini = Ini::default();
        ini.read(
            "a.ini",
            "x = 1\n; no = 1\n[PHP]\nmemory_limit = 128M ; as delivered\npath = \"a;b\"\n[www]\npm.max_children=5\n",
            Comments::Semicolons,
        );
        ini.read(
            "b.cnf",
            "[mysqld]\nskip-name-resolve\nmax_connections = 20 # few\n!includedir /x/\n",
            Comments::Hashes,
        );
        assert_eq!(ini.get("memory_limit").map(|e| (&*e.value, e.place.line)), Some(("128M", 4)));
        assert_eq!(ini.get("path").map(|e| &*e.value), Some("a;b"));
        assert_eq!(ini.get_in(&["www"], "pm.max_children").map(|e| &*e.value), Some("5"));
        assert_eq!(ini.get("skip_name_resolve").map(|e| &*e.value), Some(""));
        assert_eq!(ini.get("max_connections").map(|e| (&*e.value, &*e.place.file)), Some(("20", "b.cnf")));
        assert_eq!(ini.sections(), ["", "PHP", "www", "mysqld"]);
        assert_eq!(ini.get("no"), None);
    }

    #[test]
    fn sizes_and_switches() {
        assert_eq!(
            ["128M", "1g", "4096", "512k", "-1", "x"].map(bytes),
            [Some(128 << 20), Some(1 << 30), Some(4096), Some(512 << 10), None, None]
        );
        assert_eq!(["On", "0", "", "maybe"].map(flag), [Some(true), Some(false), Some(false), None]);
    }
}
