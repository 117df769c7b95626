//! The files that a command was asked for.

use std::fs::File;
use std::io;
use std::path::Path;

use super::Outputs;
use crate::output::OutFile;

/// Open files: one that cannot be written is known before the run, not after it.
#[derive(Debug)]
pub struct Files {
    json: Option<OutFile>,
    html: Option<OutFile>,
    csv: Option<OutFile>,
    prometheus: Option<OutFile>,
    raw: Option<OutFile>,
}

/// What goes into them; made only for those that are there.
#[allow(missing_docs, reason = "they are named after the options")]
pub struct Texts<'a> {
    pub json: &'a dyn Fn() -> String,
    pub html: &'a dyn Fn() -> String,
    pub csv: &'a dyn Fn() -> String,
    pub prometheus: &'a dyn Fn() -> String,
    pub raw: &'a dyn Fn(&mut File) -> io::Result<()>,
}

impl Files {
    /// Opens them. The error names the one that cannot be written.
    pub fn open(outputs: &Outputs) -> Result<Self, String> {
        let open = |path: Option<&Path>| path.map(OutFile::open).transpose();
        Ok(Self {
            json: open(outputs.json_file())?,
            html: open(outputs.html.as_deref())?,
            csv: open(outputs.csv.as_deref())?,
            prometheus: open(outputs.prometheus.as_deref())?,
            raw: open(outputs.raw.as_deref())?,
        })
    }

    /// Writes all that can be written; the error is the first of those that could not.
    pub fn write(self, texts: &Texts<'_>) -> Result<(), String> {
        let put = |file: Option<OutFile>, text: &dyn Fn() -> String| match file {
            Some(file) => file.put(&text()),
            None => Ok(()),
        };
        let all = [
            put(self.json, texts.json),
            put(self.html, texts.html),
            put(self.csv, texts.csv),
            put(self.prometheus, texts.prometheus),
            self.raw.map_or(Ok(()), |file| file.fill(|file| (texts.raw)(file))),
        ];
        all.into_iter().collect()
    }
}
