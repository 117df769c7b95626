//! The load tools that people know by name: their flags, their reports, our engine.
//!
//! What a tool offers and we do not is refused by name, never ignored.

pub mod ab;
pub mod httperf;
mod options;
mod run;
pub mod siege;
pub mod wrk;

use brisk_cli::Entry;

/// All of them.
pub const ALL: [Entry; 4] = [ab::AB, wrk::WRK, siege::SIEGE, httperf::HTTPERF];

/// The program that a link to ours is named after, if it is one of these.
pub fn by_name(program: &str) -> Option<&'static Entry> {
    let name = program.rsplit('/').next().unwrap_or(program);
    ALL.iter().find(|entry| entry.name == name)
}

/// A command line's words, for tests.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        assert!(by_name("/usr/local/bin/ab").is_some() && by_name("siege").is_some());
        assert!(by_name("/usr/bin/brisk").is_none() && by_name("abc").is_none());
    }
}
