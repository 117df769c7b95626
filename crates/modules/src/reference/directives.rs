//! Directives, from their rows.

use super::{cell, has_all, usage};
use crate::MODULES;
use brisk_conf::{Default, Inherit};
use brisk_server::module::{Module, Row, Set};
use std::fmt::Write as _;

/// All rows with their modules, in the order of documentation.
pub fn all() -> impl Iterator<Item = (&'static Module, &'static Row)> {
    MODULES.iter().flat_map(|module| module.rows.iter().map(move |row| (*module, row)))
}

/// All that is known of a directive.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: &'static str,
    pub module: &'static str,
    pub doc: &'static str,
    pub syntax: String,
    pub default: String,
    pub contexts: String,
    pub inherited: &'static str,
    /// What nginx does with it and Brisk does not.
    pub note: Option<String>,
    /// As it could stand in a configuration.
    pub example: String,
}

impl Entry {
    fn new(module: &Module, row: &'static Row) -> Entry {
        Entry {
            name: row.name,
            module: module.name,
            doc: row.doc,
            syntax: syntax(module, row),
            default: default(row),
            contexts: contexts(row),
            inherited: inheritance(row),
            note: note(row),
            example: usage::of(module.name, row.name)
                .map_or_else(String::new, |usage| usage.example.into_owned()),
        }
    }
}

/// The directive of this name, or all whose names or texts have all the words, by name; those come first whose names do.
pub fn find(words: &[String]) -> Vec<Entry> {
    let exact = |row: &Row| matches!(words, [name] if name == row.name);
    let is_exact = all().any(|(_, row)| exact(row));
    let mut found: Vec<_> = all()
        .filter(|(_, row)| if is_exact { exact(row) } else { has_all(words, row.name, &[row.doc]) })
        .map(|(module, row)| (!has_all(words, row.name, &[]), Entry::new(module, row)))
        .collect();
    found.sort_by_key(|(only_text, entry)| (*only_text, entry.name));
    found.into_iter().map(|(_, entry)| entry).collect()
}

/// `docs/directives.md`.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Directives\n\nGenerated from the directive rows by `brisk directives --markdown` (`make docs`); a test keeps it \
         current. Variables: [variables.md](variables.md).\n",
    );
    for module in MODULES.iter().filter(|m| !m.rows.is_empty()) {
        let _ = writeln!(out, "\n## {}\n", module.name);
        let _ = writeln!(
            out,
            "| directive | default | context | inherited | what it does |\n|---|---|---|---|---|"
        );
        for row in module.rows {
            let doc = match note(row) {
                Some(note) => format!("{} {note}", row.doc),
                None => row.doc.to_string(),
            };
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} | {} |",
                cell(&syntax(module, row)),
                cell(&default(row)),
                contexts(row),
                inheritance(row),
                cell(&doc)
            );
        }
    }
    out
}

/// As nginx's documents write it: what is given is in small letters or symbols, what is meant is in capitals.
fn syntax(module: &Module, row: &Row) -> String {
    let arguments = usage::of(module.name, row.name).map_or("…", |usage| usage.arguments);
    let space = if arguments.is_empty() { "" } else { " " };
    let end = if row.arity.block { " { … }" } else { ";" };
    format!("{}{space}{arguments}{end}", row.name)
}

fn default(row: &Row) -> String {
    match row.default {
        Default::Value(text) => format!("{} {text};", row.name),
        Default::Told(text) => text.to_string(),
        Default::Nothing => "—".into(),
    }
}

fn inheritance(row: &Row) -> &'static str {
    match row.inherit {
        Inherit::Replace if row.many => "as a whole, unless the inner block has any of its own",
        Inherit::Replace => "unless the inner block says otherwise",
        Inherit::No => "not inherited",
        Inherit::Definition => "—",
    }
}

fn note(row: &Row) -> Option<String> {
    match row.set {
        Set::Ignored(why) => Some(format!("Accepted without effect: {why}.")),
        _ => None,
    }
}

fn contexts(row: &Row) -> String {
    if row.contexts.0 == u32::MAX { "any".into() } else { row.contexts.names() }
}
