//! Source files and places in them.

use std::sync::{Arc, OnceLock};

/// Index of a file in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(pub u32);

/// A byte range in one source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte.
    pub start: u32,
    /// The byte behind the last one.
    pub end: u32,
}

impl Span {
    /// From the start of `self` to the end of `other`, which lies in the same file.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span { end: other.end.max(self.start), ..self }
    }
}

impl Span {
    /// The place right behind, where something is missing.
    #[must_use]
    pub fn behind(self) -> Span {
        Span { start: self.end, end: self.end + 1, ..self }
    }
}

/// One file that took part in a configuration.
pub struct SourceFile {
    /// The path as nginx would print it: absolute, as given to `include` after prefixing.
    pub name: String,
    /// Its bytes.
    pub text: Arc<[u8]>,
    /// Where its lines begin, once somebody asks: a file may have 100,000 of them, and each may be asked for.
    lines: OnceLock<Vec<u32>>,
}

impl SourceFile {
    fn lines(&self) -> &[u32] {
        self.lines.get_or_init(|| {
            let ends = self.text.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
            std::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1)).collect()
        })
    }

    /// Where a line, counted from 1, begins and ends; `None` behind the last one.
    pub fn line(&self, number: usize) -> Option<std::ops::Range<usize>> {
        let lines = self.lines();
        let start = *lines.get(number.checked_sub(1)?)? as usize;
        let end = lines.get(number).map_or(self.text.len(), |next| *next as usize - 1);
        Some(start..end)
    }
}

/// All files of one configuration, in the order in which they were first read (the order of `-T`).
#[derive(Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a file and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<[u8]>>) -> FileId {
        self.files.push(SourceFile { name: name.into(), text: text.into(), lines: OnceLock::new() });
        FileId(self.files.len() as u32 - 1)
    }

    /// Takes back the file added last: text that was needed for a moment only.
    pub fn pop(&mut self) {
        self.files.pop();
    }

    /// The file with this id, which [`SourceMap::add`] gave.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// All files, by id.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Line number of the span's end, from 1: nginx counts lines as it reads, so it names the line on which a
    /// directive ends.
    pub fn end_line(&self, span: Span) -> usize {
        self.line_at(span.file, span.end.saturating_sub(1))
    }

    /// Line and column of the span's start, both from 1; the column counts bytes.
    pub fn start(&self, span: Span) -> (usize, usize) {
        let text = &self.file(span.file).text;
        let at = (span.start as usize).min(text.len());
        let column = at - text[..at].iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1) + 1;
        (self.line_at(span.file, span.start), column)
    }

    /// The line that holds the span's start, without its line end.
    pub fn line_bytes(&self, span: Span) -> &[u8] {
        let text = &self.file(span.file).text;
        let at = (span.start as usize).min(text.len());
        let from = text[..at].iter().rposition(|&b| b == b'\n').map_or(0, |p| p + 1);
        let to = text[at..].iter().position(|&b| b == b'\n').map_or(text.len(), |p| at + p);
        let line = &text[from..to];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    fn line_at(&self, file: FileId, offset: u32) -> usize {
        self.file(file).lines().partition_point(|&start| start <= offset)
    }
}
