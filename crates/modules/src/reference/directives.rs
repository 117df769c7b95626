//! Directives, from their rows.

use super::{cell, first_sentence};
use crate::MODULES;
use brisk_conf::{Arity, Default, Inherit};
use brisk_server::module::{Module, Row, Set};
use std::fmt::Write as _;

/// All rows with their modules, in the order of documentation.
pub fn all() -> impl Iterator<Item = (&'static Module, &'static Row)> {
    MODULES.iter().flat_map(|module| module.rows.iter().map(move |row| (*module, row)))
}

/// A line per directive, by name.
pub fn list() -> String {
    let mut rows: Vec<_> = all().collect();
    rows.sort_by_key(|(_, row)| row.name);
    let mut out = String::new();
    for (_, row) in rows {
        let _ = writeln!(out, "{:32} {}", row.name, first_sentence(row.doc));
    }
    out
}

/// Everything about the directive of this name.
pub fn one(name: &str) -> Option<String> {
    let mut out = String::new();
    for (module, row) in all().filter(|(_, row)| row.name == name) {
        let _ = writeln!(out, "{}\n  {}", row.name, row.doc);
        let _ = writeln!(out, "  syntax:    {}", syntax(row));
        let _ = writeln!(out, "  default:   {}", default(row));
        let _ = writeln!(out, "  context:   {}", contexts(row));
        let _ = writeln!(out, "  inherited: {}", inheritance(row));
        let _ = writeln!(out, "  module:    {}", module.name);
        if let Some(note) = note(row) {
            let _ = writeln!(out, "  note:      {note}");
        }
    }
    (!out.is_empty()).then_some(out)
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
                cell(&syntax(row)),
                cell(&default(row)),
                contexts(row),
                inheritance(row),
                cell(&doc)
            );
        }
    }
    out
}

fn syntax(row: &Row) -> String {
    let arguments = match row.arity {
        Arity { min: 0, max: 0, .. } => String::new(),
        Arity { min: 1, max: 1, .. } => " VALUE".into(),
        Arity { min, max: u8::MAX, .. } => format!(" VALUE{}", if min == 0 { "*" } else { " …" }),
        Arity { min, max, .. } if min == max => " VALUE".repeat(min.into()),
        Arity { min, max, .. } => {
            format!("{}{}", " VALUE".repeat(min.into()), " [VALUE]".repeat((max - min).into()))
        }
    };
    let end = if row.arity.block { " { … }" } else { ";" };
    format!("{}{arguments}{end}", row.name)
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
