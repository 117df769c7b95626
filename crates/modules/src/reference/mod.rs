//! The reference, rendered from the rows: one definition serves the parser, the terminal and `docs/`.
//!
//! `brisk directives`, `brisk variables` and `brisk coverage` print it, `make docs` writes it to `docs/`, and a test
//! compares the two.

pub mod coverage;
pub mod directives;
#[cfg(test)]
mod rows_tests;
pub mod variables;

/// The first sentence of a row's doc, for lists.
pub fn first_sentence(doc: &str) -> &str {
    doc.split_once(". ").map_or(doc, |(first, _)| first).trim_end_matches('.')
}

/// Text inside a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Whether a name or a text has all the words, whatever their case.
fn has_all(words: &[String], name: &str, texts: &[&str]) -> bool {
    let all = texts.iter().fold(name.to_lowercase(), |all, text| all + "\n" + &text.to_lowercase());
    words.iter().all(|word| all.contains(&word.to_lowercase()))
}
