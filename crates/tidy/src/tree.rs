//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// One text file.
pub struct File {
    /// Relative to the root, with slashes.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The repository's root.
pub fn root() -> PathBuf {
    // Asked when it runs: a target folder that was copied would name the tree it was built in.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package");
    Path::new(&package).ancestors().nth(2).expect("crates/tidy lies two below the root").into()
}

/// All text files, in order of their paths: not what is built, not what git keeps, nor code of others.
pub fn files() -> Vec<File> {
    let root = root();
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let relative = |path: &Path| path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
    let read = |path: PathBuf| Some(File { path: relative(&path), text: fs::read_to_string(&path).ok()? });
    paths.into_iter().filter_map(read).collect()
}

/// The files whose names end with this.
pub fn files_with(extension: &str) -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(extension)).collect()
}

/// A file of the repository that must be there.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    const NOT_OURS: &[&str] = &[".git", "target", "out", "third_party"];
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("the folder can be read to its end");
        let kind = entry.file_type().expect("file systems of today say what an entry is");
        if kind.is_dir() && !NOT_OURS.contains(&&*entry.file_name().to_string_lossy()) {
            walk(&entry.path(), paths);
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
}
