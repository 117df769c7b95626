//! Directives, from their rows.

use super::{cell, has_all};
use crate::MODULES;
use brisk_conf::takes::{Range, Takes};
use brisk_conf::{Applies, Default, Inherit, Risk};
use brisk_server::module::{Module, Row, Set};
use std::fmt::Write as _;

/// All rows with their modules, in the order of documentation.
pub fn all() -> impl Iterator<Item = (&'static Module, &'static Row)> {
    MODULES.iter().flat_map(|module| module.rows.iter().map(move |row| (*module, row)))
}

/// All that is known of a directive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// The module that it belongs to.
    pub module: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// As nginx's documents write it.
    pub syntax: String,
    /// `flag`, `number`, `size`, `time`, `word`, `none`, or `other` for a grammar of its own.
    pub kind: &'static str,
    /// What a number counts, or the unit that sizes and times are in; empty without one.
    pub unit: &'static str,
    /// The values that are taken, in the unit; nothing where all are, or where they have no order.
    pub range: Option<Range>,
    /// The words that are taken, of a `word`.
    pub words: Vec<&'static str>,
    /// What holds where it is not written.
    pub default: String,
    /// The blocks that it may stand in, joined by `, `.
    pub contexts: String,
    /// What inner blocks take over.
    pub inherited: &'static str,
    /// What a change of it needs.
    pub applies: Applies,
    /// What a wrong value can do at worst.
    pub risk: Risk,
    /// What nginx does with it and Brisk does not.
    pub note: Option<String>,
    /// As it could stand in a configuration.
    pub example: &'static str,
}

impl Entry {
    fn new(module: &Module, row: &'static Row) -> Entry {
        Entry {
            name: row.name,
            module: module.name,
            doc: row.doc,
            syntax: row.usage(),
            kind: row.takes.kind(),
            unit: row.unit,
            range: row.takes.range().filter(|range| !range.is_any()),
            words: match row.takes {
                Takes::OneOf(words) => words.words(),
                _ => Vec::new(),
            },
            default: default(row),
            contexts: contexts(row),
            inherited: inheritance(row),
            applies: row.applies,
            risk: row.risk,
            note: note(row),
            example: row.example,
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
         current. Variables: [variables.md](variables.md).\n\n\
         - **default**: what holds where it is not written; without one it is off, or empty.\n\
         - **value**: what a number counts, the unit of sizes and times, and the least and the greatest value, both in that unit.\n\
         - **in**: the blocks that it may stand in.\n\
         - **inherited**: where nothing is said, inner blocks have the outer block's value unless they say otherwise; *as a whole*: \
         lines of the inner block replace all lines of the outer one.\n\
         - **change**: what a changed value needs before it counts. Where nothing is said, a reload (`brisk -s reload`), which goes \
         on with the same worker process. A *new worker* is a reload that starts another one and lets the old one finish, a \
         *restart* begins anew.\n\
         - **risk**: what a wrong value can do at worst. *safe*: requests are slower or dearer, answers mean the same. *resource*: \
         memory, disk, connections or processor time run out. *behaviour*: clients, back ends or readers of logs see something \
         else. *security*: access is given where it should not be, or a limit on what strangers may cause is lost.\n",
    );
    for module in MODULES.iter().filter(|m| !m.rows.is_empty()) {
        let _ = writeln!(out, "\n## {}\n", module.name);
        let _ = writeln!(
            out,
            "| directive | what it does |\n\
             |---|---|"
        );
        for row in module.rows {
            let doc = match note(row) {
                Some(note) => format!("{} {note}", row.doc),
                None => row.doc.to_string(),
            };
            let _ = writeln!(out, "| `{}` | {}<br>{} |", cell(&row.usage()), cell(&doc), facts(row));
        }
    }
    out
}

/// What there is to say of a directive besides what it does; what is usual is left out.
fn facts(row: &Row) -> String {
    let default = match row.default {
        Default::Value(text) => Some(format!("`{} {}`", row.name, cell(&format!("{text};")))),
        Default::Told(text) => Some(cell(text)),
        Default::Nothing => None,
    };
    let inherited = match row.inherit {
        Inherit::No => Some("no".to_string()),
        Inherit::Replace if row.many => Some(inheritance(row).to_string()),
        Inherit::Replace | Inherit::Definition => None,
    };
    let change = (row.applies != Applies::Reload).then(|| row.applies.as_str().to_string());
    let facts = [
        ("default", default),
        ("value", value(row)),
        ("in", Some(contexts(row))),
        ("inherited", inherited),
        ("change", change),
        ("risk", Some(row.risk.as_str().to_string())),
    ];
    let said = facts.into_iter().filter_map(|(name, fact)| Some(format!("**{name}** {}", fact?)));
    said.collect::<Vec<_>>().join(" · ")
}

/// Unit and range: `level, 1 to 9`. Nothing where neither says anything.
fn value(row: &Row) -> Option<String> {
    let range = row.takes.range().and_then(Range::describe);
    match (row.unit, range) {
        ("", None) => None,
        ("", Some(range)) => Some(range),
        (unit, None) => Some(unit.to_string()),
        (unit, Some(range)) => Some(format!("{unit}, {range}")),
    }
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
