//! The story for a terminal.

use super::places::Place;
use super::story::{Field, Step, Story};
use std::fmt::Write as _;

/// Columns of the names at the left.
const LABEL: usize = 15;

/// All of it; with `steps`, also those that changed nothing. `color`: for a terminal.
pub fn text(story: &Story, steps: bool, color: bool) -> String {
    let bold = |text: &str| if color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() };
    let mut out = format!("{} → {}\n", clean(&story.request), bold(&clean(&outcome(story))));
    if let Some(at) = story.because {
        let step = &story.steps[at];
        let _ = writeln!(out, "\n{}", bold(&clean(&because(step))));
        for place in &step.places {
            let _ = writeln!(out, "    {}", at_place(place));
        }
        for reason in &story.reasons {
            let _ = writeln!(out, "    {}", clean(reason));
        }
    }
    out.push('\n');
    let mut last = "";
    for step in story.steps.iter().filter(|step| steps || !step.is_detail) {
        let label = if step.what == last { "" } else { step.what };
        last = step.what;
        line(&mut out, label, step);
    }
    if !story.fields.is_empty() {
        out.push('\n');
    }
    for (at, field) in story.fields.iter().enumerate() {
        let _ = writeln!(out, "{:LABEL$} {}", if at == 0 { "fields" } else { "" }, clean(&field_text(field)));
    }
    if let Some(end) = &story.end {
        let _ = writeln!(out, "\nThe trace ends here: {end}.");
    }
    for hint in &story.hints {
        let _ = writeln!(out, "\n{}", clean(hint));
    }
    let _ = writeln!(out, "\nAsked by {}. Files were looked at {}.", story.from, story.user);
    out
}

/// What strangers have written must not look like lines of ours.
fn clean(text: &str) -> String {
    brisk_conf::escape_controls(text).replace('\n', "\\n")
}

fn outcome(story: &Story) -> String {
    match story.status {
        Some(status) => format!("{status} {}", story.reason).trim().to_string(),
        None => "no answer".into(),
    }
}

fn because(step: &Step) -> String {
    let who = if step.module.is_empty() { String::new() } else { format!("{} ", step.module) };
    let place = if step.location.is_empty() { String::new() } else { format!(", in {}", step.location) };
    format!("Decided by {who}({}): {}{place}", step.what, step.text)
}

fn line(out: &mut String, label: &str, step: &Step) {
    let part = if step.is_part { "(part) " } else { "" };
    let who = if step.module.is_empty() { String::new() } else { format!("{}: ", step.module) };
    let _ = writeln!(out, "{label:LABEL$} {part}{who}{}", clean(&step.text));
    for place in &step.places {
        let _ = writeln!(out, "{:LABEL$}     {}", "", at_place(place));
    }
}

fn at_place(place: &Place) -> String {
    clean(&format!("{}:{}: {}", place.file, place.line, place.text))
}

fn field_text(field: &Field) -> String {
    let mut text = format!("{}: {}", field.name, field.value);
    if !field.by.is_empty() {
        let _ = write!(text, "  ← {}", field.by);
    }
    for place in &field.places {
        let _ = write!(text, ", {}:{}", place.file, place.line);
    }
    text
}
