//! `brisk directives`, `brisk variables` and `brisk coverage`: the reference in the terminal, from the same rows as
//! `docs/`.

use brisk_cli::{Call, Entry, terminal};
use brisk_conf::diag::did_you_mean;
use brisk_conf::takes::Range;
use brisk_load::output;
use brisk_modules::reference::{coverage, directives, first_sentence, variables};
use clap::{CommandFactory as _, Parser};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::IsTerminal as _;

pub const DIRECTIVES: Entry =
    Entry { name: "directives", define: Directives::command, run: directives, inner: &[], usage_code: 1 };
pub const VARIABLES: Entry =
    Entry { name: "variables", define: Variables::command, run: variables, inner: &[], usage_code: 1 };
pub const COVERAGE: Entry =
    Entry { name: "coverage", define: Coverage::command, run: coverage, inner: &[], usage_code: 1 };

/// Explains a directive, or looks for words in all of them.
#[derive(Debug, Parser)]
#[command(
    after_help = "Without a name all directives are listed. Of several words, each must be in a directive's name or text."
)]
struct Directives {
    /// A directive's name, or words to look for
    #[arg(value_name = "NAME|WORD")]
    words: Vec<String>,
    #[command(flatten)]
    form: Form,
}

/// Explains a variable, or looks for words in all of them.
#[derive(Debug, Parser)]
#[command(
    after_help = "Without a name all variables are listed. Of several words, each must be in a variable's name or text."
)]
struct Variables {
    /// A variable's name, or words to look for
    #[arg(value_name = "NAME|WORD")]
    words: Vec<String>,
    #[command(flatten)]
    form: Form,
}

/// Lists what becomes of each of nginx's directives and variables, or of Apache's directives in .htaccess.
#[derive(Debug, Parser)]
struct Coverage {
    /// nginx or apache [default: nginx]
    #[arg(value_name = "OF", hide_possible_values = true)]
    of: Option<Of>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whose directives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    Nginx,
    Apache,
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the page of the documentation
    #[arg(long, conflicts_with = "words")]
    markdown: bool,
}

fn directives(call: &Call<'_>) -> i32 {
    let Directives { words, form } = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if form.markdown {
        output::print(directives::markdown());
        return 0;
    }
    let found = directives::find(&words);
    match found.is_empty() {
        true => unknown("directive", &words, directives::all().map(|(_, row)| row.name)),
        false if form.json => print_json(found.iter().map(directive_json).collect()),
        false if words.is_empty() || found.iter().any(|entry| entry.name != found[0].name) => {
            list(found.iter().map(|entry| (entry.name, entry.doc)))
        }
        false => {
            found.iter().for_each(|entry| output::print(directive(entry)));
            0
        }
    }
}

fn variables(call: &Call<'_>) -> i32 {
    let Variables { words, form } = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    if form.markdown {
        output::print(variables::markdown());
        return 0;
    }
    let found = variables::find(&words);
    match found.is_empty() {
        true => unknown("variable", &words, variables::all().map(|(_, row)| row.name)),
        false if form.json => print_json(found.iter().map(variable_json).collect()),
        false if found.len() > 1 => list(found.iter().map(|entry| (entry.name.as_str(), entry.doc))),
        false => {
            output::print(variable(&found[0]));
            0
        }
    }
}

fn coverage(call: &Call<'_>) -> i32 {
    match call.parse::<Coverage>() {
        Ok(Coverage { json: true, of }) => {
            let entries = if of == Some(Of::Apache) { coverage::apache() } else { coverage::all() };
            print_json(entries.iter().map(coverage_json).collect())
        }
        Ok(Coverage { of, .. }) => {
            output::print(if of == Some(Of::Apache) { coverage::apache_tsv() } else { coverage::tsv() });
            0
        }
        Err(code) => code,
    }
}

/// Columns before the texts of an entry.
const INDENT: usize = 13;
/// Columns before the texts of a list.
const NAMES: usize = 33;

fn directive(entry: &directives::Entry) -> String {
    let mut out = heading(entry.name) + &terminal::wrap(entry.doc, terminal::columns(), 2) + "\n";
    let note = entry.note.as_deref().unwrap_or_default();
    let range = entry.range.and_then(Range::describe).unwrap_or_default();
    for (title, text) in [
        ("syntax:", entry.syntax.as_str()),
        ("unit:", entry.unit),
        ("range:", &range),
        ("default:", &entry.default),
        ("context:", &entry.contexts),
        ("inherited:", entry.inherited),
        ("change:", entry.applies.as_str()),
        ("risk:", entry.risk.as_str()),
        ("module:", entry.module),
        ("note:", note),
        ("example:", entry.example),
    ] {
        out += &row(title, text);
    }
    out
}

fn variable(entry: &variables::Entry) -> String {
    let set = if entry.is_settable { "yes" } else { "no" };
    let doc = terminal::wrap(entry.doc, terminal::columns(), 2);
    heading(&entry.name) + &doc + "\n" + &row("set:", set) + &row("module:", entry.module)
}

/// A line in the terminal's colours, if it has some.
fn heading(name: &str) -> String {
    let (on, off) = if has_color() { ("\x1b[1;32m", "\x1b[0m") } else { ("", "") };
    format!("{on}{name}{off}\n")
}

fn row(title: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let (on, off) = if has_color() { ("\x1b[33m", "\x1b[0m") } else { ("", "") };
    let text = terminal::wrap(text, terminal::columns(), INDENT);
    format!("  {on}{title}{off}{}", text.get(title.len() + 2..).unwrap_or_default())
}

fn has_color() -> bool {
    terminal::has_color(&std::io::stdout())
}

/// A line for each, with as much of its first sentence as the columns hold; all of it where there are no columns.
fn list<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> i32 {
    let room = std::io::stdout().is_terminal().then(|| terminal::columns().saturating_sub(NAMES));
    let mut out = String::new();
    for (name, doc) in rows {
        let text = first_sentence(doc);
        let text = match room.filter(|room| text.chars().count() > *room) {
            Some(room) => {
                let cut: String = text.chars().take(room.saturating_sub(2)).collect();
                format!("{} …", cut.rsplit_once(' ').map_or(cut.as_str(), |(whole, _)| whole))
            }
            None => text.to_owned(),
        };
        let _ = writeln!(out, "{name:32} {text}");
    }
    output::print(out);
    0
}

fn directive_json(entry: &directives::Entry) -> Value {
    let range = entry.range.map(|range| {
        let max = (range.max < i64::MAX).then_some(range.max);
        json!({ "min": range.min, "max": max })
    });
    json!({ "name": entry.name, "module": entry.module, "syntax": entry.syntax, "default": entry.default,
        "type": entry.kind, "unit": (!entry.unit.is_empty()).then_some(entry.unit), "range": range, "words": entry.words,
        "change": entry.applies.as_str(), "risk": entry.risk.as_str(),
        "contexts": entry.contexts.split(", ").collect::<Vec<_>>(), "inherited": entry.inherited, "doc": entry.doc,
        "note": entry.note, "example": entry.example })
}

fn variable_json(entry: &variables::Entry) -> Value {
    json!({ "name": entry.name, "module": entry.module, "set": entry.is_settable, "doc": entry.doc })
}

fn coverage_json(entry: &coverage::Entry) -> Value {
    let contexts: Vec<&str> = entry.contexts.split(',').filter(|context| !context.is_empty()).collect();
    json!({ "name": entry.name, "module": entry.module, "contexts": contexts, "state": entry.state, "detail": entry.detail })
}

fn print_json(value: Value) -> i32 {
    output::line(format_args!("{value:#}"));
    0
}

fn unknown<'a>(kind: &str, words: &[String], names: impl Iterator<Item = &'a str>) -> i32 {
    let name = words.join(" ");
    let hint = did_you_mean(&name, names).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    output::note(format_args!("brisk: no {kind} \"{name}\"{hint}"));
    1
}
