//! Places in files of `name = value` lines: php.ini, pools, option files, `sysctl.conf`.

use super::{File, Place, Places, Refused, VALUE, Wanted};
use crate::ini::{Comments, Entry, Ini, header_of};

/// The sections of an option file that the server reads.
pub const DATABASE_SECTIONS: &[&str] =
    &["mysqld", "mariadb", "mariadbd", "server", "mariadb-10.11", "mysqld-8.0"];

/// What such files differ in.
pub(super) struct Kind {
    comments: Comments,
    sections: Sections,
}

/// In which sections a setting counts.
#[derive(Clone, Copy)]
enum Sections {
    /// In all but those for single hosts and folders.
    PhpIni,
    /// In the pool's.
    Pool,
    /// In one of these.
    Named(&'static [&'static str]),
    /// There are none.
    None,
}

impl Kind {
    pub(super) const PHP: Kind = Kind { comments: Comments::Semicolons, sections: Sections::PhpIni };
    pub(super) const POOL: Kind = Kind { comments: Comments::Semicolons, sections: Sections::Pool };
    pub(super) const DATABASE: Kind =
        Kind { comments: Comments::Hashes, sections: Sections::Named(DATABASE_SECTIONS) };
    pub(super) const SYSCTL: Kind = Kind { comments: Comments::Hashes, sections: Sections::None };
}

impl Sections {
    fn has(self, section: &str, pool: &str) -> bool {
        match self {
            Sections::PhpIni => {
                let upper = section.to_ascii_uppercase();
                !upper.starts_with("HOST=") && !upper.starts_with("PATH=")
            }
            Sections::Pool => section == pool,
            Sections::Named(names) => names.contains(&section),
            Sections::None => true,
        }
    }

    /// The section that is written where there is none.
    fn header(self, pool: &str) -> Option<&str> {
        match self {
            Sections::PhpIni | Sections::None => None,
            Sections::Pool => Some(pool),
            Sections::Named(names) => names.first().copied(),
        }
    }
}

/// The last line that sets it in any file: later ones win. Where there is none, the end of the section.
pub(super) fn places(files: &[File], kind: &Kind, wanted: &Wanted<'_>) -> Result<Places, Refused> {
    let mut places = Places::default();
    let mut last = None;
    for (index, file) in files.iter().enumerate() {
        let text = std::str::from_utf8(&file.text).map_err(|error| {
            let at = error.valid_up_to();
            let line = file.text[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
            Refused::new(format!("{}:{line}: this line is not UTF-8: save the file as UTF-8", file.name))
        })?;
        let mut ini = Ini::default();
        ini.read(&file.name, text, kind.comments);
        let counts = |entry: &&Entry| kind.sections.has(&entry.section, wanted.pool);
        let found = ini.entries().iter().rev().filter(counts).find(|entry| entry.is_named(wanted.name));
        if let Some(entry) = found {
            let before = if entry.has_value { "" } else { " = " };
            last = Some(Place { file: index, range: entry.value_at.clone(), before });
        }
        if let Some(at) = end_of_section(text, kind, wanted.pool) {
            let line = format!("{}{} = {VALUE}\n", newline_before(&text[..at]), wanted.name);
            places.missing = Some((index, at, line));
        }
    }
    if places.missing.is_none()
        && let (Some(header), Some(file)) = (kind.sections.header(wanted.pool), files.last())
    {
        let text = String::from_utf8_lossy(&file.text);
        let line = format!("{}[{header}]\n{} = {VALUE}\n", newline_before(&text), wanted.name);
        places.missing = Some((files.len() - 1, file.text.len(), line));
    }
    places.written = last.into_iter().collect();
    Ok(places)
}

fn newline_before(text: &str) -> &'static str {
    if text.is_empty() || text.ends_with('\n') { "" } else { "\n" }
}

/// Behind the last line of the last section that counts, without the blank lines and comments before the next one. A file without
/// sections is one.
fn end_of_section(text: &str, kind: &Kind, pool: &str) -> Option<usize> {
    let mut counts = kind.sections.has("", pool);
    let (mut at, mut end) = (0, counts.then_some(0));
    for line in text.split_inclusive('\n') {
        at += line.len();
        let trimmed = line.trim();
        let header = header_of(line, kind.comments);
        if let Some(name) = header {
            counts = kind.sections.has(name, pool);
        }
        if counts && !trimmed.is_empty() && (header.is_some() || !trimmed.starts_with([';', '#', '!'])) {
            end = Some(at);
        }
    }
    end
}
