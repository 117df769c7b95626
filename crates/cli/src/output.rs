//! What commands print and write: the one way to the standard output, and files that are known to be writable before the
//! work that fills them.
//!
//! Whoever reads may stop (`| head`), and a disk may be full. Neither stops a command before it has written the files that it
//! was asked for: the output is remembered as lost, and [`finish`] says so with the exit code.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Why nothing more goes to the standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// Its reader has seen enough.
    Closed,
    /// It could not be written, which was said.
    Failed,
}

static LOST: OnceLock<Lost> = OnceLock::new();

/// Prints bytes. What cannot be printed is dropped, see [`finish`].
pub fn write(bytes: &[u8]) {
    if LOST.get().is_some() {
        return;
    }
    let mut out = stdout().lock();
    let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) else { return };
    let lost = if error.kind() == io::ErrorKind::BrokenPipe { Lost::Closed } else { Lost::Failed };
    if LOST.set(lost).is_ok() && lost == Lost::Failed {
        note(format_args!("brisk: cannot write to the standard output: {error}"));
    }
}

/// Prints a text.
pub fn print(text: impl Display) {
    write(text.to_string().as_bytes());
}

/// Prints a text and a line end.
pub fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Writes a text to the standard error. Where that cannot be done there is nobody to tell.
pub fn hint(text: impl Display) {
    let _ = stderr().write_all(text.to_string().as_bytes());
}

/// Writes a text and a line end to the standard error. What comes of peers and files is part of such texts.
pub fn note(text: impl Display) {
    hint(format_args!("{}\n", visible(&text.to_string())));
}

/// A text for a terminal: control characters from strangers are replaced, except tabs and line ends.
pub fn visible(text: &str) -> String {
    let is_command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.chars().map(|c| if is_command(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Whether the reader of the standard output has gone: whoever works for him alone may end.
pub fn is_closed() -> bool {
    LOST.get() == Some(&Lost::Closed)
}

/// The exit code of a command that would end with `code`: 1 if its output could not be written. A reader who has gone changes
/// nothing.
pub fn finish(code: i32) -> i32 {
    if LOST.get() == Some(&Lost::Failed) { 1 } else { code }
}

/// A file that is to be written when the work is done.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    file: File,
}

impl OutFile {
    /// Opens it, and makes it if there is none. What it holds stays until it is [filled](Self::fill).
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces what it holds.
    pub fn fill(mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
        // Pipes and devices have no length.
        let is_regular = self.file.metadata().is_ok_and(|about| about.is_file());
        let empty = if is_regular { self.file.set_len(0) } else { Ok(()) };
        empty.and_then(|()| write(&mut self.file)).map_err(|error| cannot_write(&self.path, &error))
    }

    /// Replaces what it holds by a text.
    pub fn put(self, text: &str) -> Result<(), String> {
        self.fill(|file| file.write_all(text.as_bytes()))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_no_stranger() {
        assert_eq!(visible("a\x1b[2J\tb\r\u{9b}\n\u{fc}"), "a\u{fffd}[2J\tb\u{fffd}\u{fffd}\n\u{fc}");
    }

    #[test]
    fn what_was_there_stays_until_there_is_something_new() {
        let path = std::env::temp_dir().join(format!("brisk-load-output-{}", std::process::id()));
        std::fs::write(&path, "an old and longer report").unwrap();
        let file = OutFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "an old and longer report");
        file.put("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        std::fs::remove_file(&path).unwrap();
        assert!(OutFile::open(Path::new("/no/such/folder/x")).unwrap_err().contains("/no/such/folder/x"));
        assert!(OutFile::open(Path::new("/dev/full")).unwrap().put("x").unwrap_err().contains("/dev/full"));
        OutFile::open(Path::new("/dev/null")).unwrap().put("x").unwrap();
    }
}
