//! Where a benchmark happens: options, a directory in /tmp, the files served.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the small file.
pub const SMALL_BYTES: usize = 100;
/// Bytes of the medium file.
pub const MEDIUM_BYTES: usize = 10 * 1024;
/// Bytes of the page that is compressed.
pub const PAGE_BYTES: usize = 20 * 1024;
/// Bytes of the large file.
pub const LARGE_BYTES: usize = 10 * 1024 * 1024;
/// Small files with names of their own, under `/many/`.
pub const MANY_FILES: usize = 5000;

/// The CPU that the server under test has to itself.
pub const SERVER_CPU: usize = 0;
/// The CPU of the load generator.
pub const LOAD_CPU: usize = 1;

/// What the command line asks for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Brisk's binary.
    pub brisk: PathBuf,
    /// nginx's binary.
    pub nginx: PathBuf,
    /// h2o's binary.
    pub h2o: PathBuf,
    /// HAProxy's binary.
    pub haproxy: PathBuf,
    /// Varnish's binary.
    pub varnish: PathBuf,
    /// Apache's binary.
    pub apache: PathBuf,
    /// Rounds of each part.
    pub rounds: usize,
    /// Length of one measurement.
    pub measure: Duration,
    /// What comes before it and is not counted.
    pub warmup: Duration,
    /// Where the results go.
    pub out: PathBuf,
    /// The options as given, for the command that repeats a part.
    pub given: String,
}

/// A directory of this run, removed at its end.
#[derive(Debug)]
pub struct Lab {
    /// What was asked for.
    pub options: Options,
    /// What the servers serve.
    pub docroot: PathBuf,
    dir: PathBuf,
}

impl Lab {
    /// Makes the directory and the files; removes what killed runs have left.
    pub fn new(options: Options) -> io::Result<Self> {
        remove_leftovers();
        let dir = PathBuf::from(format!("{PREFIX}{}", std::process::id()));
        let docroot = dir.join("docroot");
        fs::create_dir_all(docroot.join("many"))?;
        let lab = Self { options, docroot, dir };
        lab.write_file("index.html", SMALL_BYTES)?;
        lab.write_file("small.txt", SMALL_BYTES)?;
        lab.write_file("medium.txt", MEDIUM_BYTES)?;
        lab.write_file("large.bin", LARGE_BYTES)?;
        fs::write(lab.docroot.join("page.html"), page(PAGE_BYTES))?;
        for index in 0..MANY_FILES {
            lab.write_file(&many_path(index)[1..], SMALL_BYTES)?;
        }
        Ok(lab)
    }

    /// A fresh directory for one server.
    pub fn server_dir(&self, name: &str) -> io::Result<PathBuf> {
        let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let mut dir = self.dir.join(&plain);
        let mut number = 1;
        while dir.exists() {
            number += 1;
            dir = self.dir.join(format!("{plain}-{number}"));
        }
        fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    fn write_file(&self, path: &str, bytes: usize) -> io::Result<()> {
        let line = b"The quick brown fox jumps over the lazy dog, again and again.\n";
        fs::write(self.docroot.join(path), line.iter().copied().cycle().take(bytes).collect::<Vec<u8>>())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// A page that compresses as pages do: to about a quarter.
fn page(bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 24] = [
        "server",
        "request",
        "the",
        "of",
        "and",
        "page",
        "connection",
        "cache",
        "with",
        "is",
        "file",
        "answer",
        "by",
        "client",
        "in",
        "a",
        "to",
        "measured",
        "core",
        "time",
        "header",
        "body",
        "for",
        "each",
    ];
    let mut text =
        b"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"></head>\n<body>\n".to_vec();
    let mut state = 1u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    while text.len() < bytes {
        let class = random(40);
        text.extend(format!("<p class=\"c{class}\"><a href=\"/page/{}\">", random(10_000)).bytes());
        for _ in 0..4 + random(20) {
            text.extend(WORDS[random(WORDS.len())].bytes());
            // Now and then a word that occurs once.
            if random(6) == 0 {
                text.extend(format!("{:x}", random(1 << 16)).bytes());
            }
            text.push(b' ');
        }
        text.extend(b"</a></p>\n");
    }
    text.truncate(bytes);
    text
}

/// The nth of the many small files.
pub fn many_path(index: usize) -> String {
    format!("/many/page-{index:04}.html")
}

const PREFIX: &str = "/tmp/brisk-bench-";

fn remove_leftovers() {
    let entries = fs::read_dir("/tmp").into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let Some(pid) = path.to_str().and_then(|path| path.strip_prefix(PREFIX)) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            drop(fs::remove_dir_all(&path));
        }
    }
}
