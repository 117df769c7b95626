//! Variables, from their rows.

use super::{cell, has_all};
use crate::MODULES;
use brisk_server::module::Module;
use brisk_server::vars::Variable;
use std::fmt::Write as _;

/// All rows with their modules, in the order of documentation.
pub fn all() -> impl Iterator<Item = (&'static Module, &'static Variable)> {
    MODULES.iter().flat_map(|module| module.variables.iter().map(move |row| (*module, row)))
}

/// All that is known of a variable.
#[derive(Clone, Debug)]
pub struct Entry {
    /// With its dollar sign.
    pub name: String,
    /// The module that it belongs to.
    pub module: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// `set` may change it.
    pub is_settable: bool,
}

impl Entry {
    fn new(module: &Module, row: &Variable) -> Entry {
        Entry { name: shown(row), module: module.name, doc: row.doc, is_settable: row.set.is_some() }
    }
}

/// The variable of this name, with or without the dollar sign, or all whose names or texts have all the words, by name;
/// those come first whose names do.
pub fn find(words: &[String]) -> Vec<Entry> {
    if let [name] = words {
        let name = name.trim_start_matches('$');
        let family =
            |row: &Variable| row.name.strip_suffix('*').is_some_and(|family| name.starts_with(family));
        let found = all().find(|(_, row)| row.name == name).or_else(|| all().find(|(_, row)| family(row)));
        if let Some((module, row)) = found {
            return vec![Entry::new(module, row)];
        }
    }
    let mut found: Vec<_> = all()
        .filter(|(_, row)| has_all(words, row.name, &[row.doc]))
        .map(|(module, row)| (!has_all(words, row.name, &[]), Entry::new(module, row)))
        .collect();
    found.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    found.into_iter().map(|(_, entry)| entry).collect()
}

/// `docs/variables.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Variables\n\nGenerated from the variable rows by `brisk variables --markdown` (`make docs`); a test keeps it \
         current. A name that ends in *NAME* is a family. `set`, `map`, `geo`, `split_clients` and named groups of \
         regular expressions define more. Directives: [directives.md](directives.md).\n",
    );
    for module in MODULES.iter().filter(|m| !m.variables.is_empty()) {
        let _ = writeln!(out, "\n## {}\n", module.name);
        let _ = writeln!(out, "| variable | `set` | value |\n|---|---|---|");
        for row in module.variables {
            let set = if row.set.is_some() { "yes" } else { "" };
            let _ = writeln!(out, "| `{}` | {set} | {} |", shown(row), cell(row.doc));
        }
    }
    out.push_str(
        "\n## stream\n\nVariables of sessions, in `stream`. Those of `ssl` above and `$limit_conn_status` are there, too.\n\n| variable | value |\n|---|---|\n",
    );
    for row in brisk_stream::VARIABLES {
        let _ = writeln!(out, "| `${}` | {} |", row.name, cell(row.doc));
    }
    out
}

fn shown(row: &Variable) -> String {
    format!("${}", row.name.replace('*', "NAME"))
}
