//! Variables, from their rows.

use super::{cell, first_sentence};
use crate::MODULES;
use brisk_server::module::Module;
use brisk_server::vars::Variable;
use std::fmt::Write as _;

/// All rows with their modules, in the order of documentation.
pub fn all() -> impl Iterator<Item = (&'static Module, &'static Variable)> {
    MODULES.iter().flat_map(|module| module.variables.iter().map(move |row| (*module, row)))
}

/// A line per variable, by name.
pub fn list() -> String {
    let mut rows: Vec<_> = all().collect();
    rows.sort_by_key(|(_, row)| row.name);
    let mut out = String::new();
    for (_, row) in rows {
        let _ = writeln!(out, "{:32} {}", shown(row), first_sentence(row.doc));
    }
    out
}

/// Everything about the variable of this name, with or without the dollar sign.
pub fn one(name: &str) -> Option<String> {
    let name = name.trim_start_matches('$');
    let (module, row) = all().find(|(_, row)| row.name == name).or_else(|| {
        all().find(|(_, row)| row.name.strip_suffix('*').is_some_and(|family| name.starts_with(family)))
    })?;
    let set = if row.set.is_some() { "yes" } else { "no" };
    Some(format!("{}\n  {}\n  set: {set}\n  module: {}\n", shown(row), row.doc, module.name))
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
    out
}

fn shown(row: &Variable) -> String {
    format!("${}", row.name.replace('*', "NAME"))
}
