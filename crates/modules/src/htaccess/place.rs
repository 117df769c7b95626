//! Where a request leads in the file system: as far as there are folders and files, and what is behind them in the path.

use crate::directory_overrides::files::{folders, root_len, shown};
use brisk_net::file::{Kind, Symlinks};
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::path::Mapped;
use brisk_server::request::Request;
use brisk_server::rlog;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A place in the file system.
#[derive(Clone)]
pub struct Place {
    /// The file or folder; the first part that is not there, with all before it.
    pub file: Vec<u8>,
    /// What it is; `None`: it is not there.
    pub kind: Option<Kind>,
    /// What is behind it in the path.
    pub path_info: Vec<u8>,
    /// The ends of the folders that lead to it, each behind its slash; a folder itself is the last.
    pub folders: Vec<usize>,
    /// Bytes of the part that the location's `root` or `alias` gave.
    pub root_len: usize,
}

impl Place {
    /// A folder's path, with its slash; `end` is one of [`Place::folders`].
    pub fn folder(&self, end: usize) -> Vec<u8> {
        let mut folder = self.file[..end.min(self.file.len())].to_vec();
        if !folder.ends_with(b"/") {
            folder.push(b'/');
        }
        folder
    }

    /// The last part of the file's path.
    pub fn name(&self) -> &[u8] {
        memchr::memrchr(b'/', &self.file).map_or(&self.file[..], |at| &self.file[at + 1..])
    }

    /// A place before the URI was mapped: its file is the URI's path.
    pub fn nowhere(r: &Request) -> Place {
        let file = r.route.uri.clone();
        Place { file, kind: None, path_info: Vec::new(), folders: Vec::new(), root_len: 0 }
    }

    /// Finds the place that a path leads to. `is_whole`: its folders count from the file system's root on.
    pub fn find(r: &mut Request, mapped: &Mapped, is_whole: bool) -> Result<Place, Flow> {
        let root_len = root_len(r, mapped);
        let from = if is_whole { 0 } else { root_len };
        let all = folders(r, &mapped.bytes, from)?;
        let mut place = Place {
            file: mapped.bytes.clone(),
            kind: kind(r, &mapped.bytes)?,
            path_info: Vec::new(),
            folders: all,
            root_len,
        };
        if place.kind.is_none() {
            place.walk(r)?;
        }
        if memchr::memmem::find(&place.file, b"//").is_some() {
            place.merge_slashes(r, from)?;
        }
        if place.kind == Some(Kind::Directory) && !place.file.ends_with(b"/") {
            place.folders.push(place.file.len() + 1);
        }
        Ok(place)
    }

    /// Names the same file without empty parts: sections are written so, and would not be found otherwise. What is behind the file
    /// stays as it is.
    fn merge_slashes(&mut self, r: &Request, from: usize) -> Result<(), Flow> {
        let within = |end: usize| {
            end - self.file[..end.min(self.file.len())].windows(2).filter(|pair| *pair == b"//").count()
        };
        let (from, root_len) = (within(from), within(self.root_len));
        self.root_len = root_len;
        self.file.dedup_by(|next, before| *next == b'/' && *before == b'/');
        self.folders = folders(r, &self.file, from)?;
        Ok(())
    }

    /// From the root on, to the first part that is no folder.
    fn walk(&mut self, r: &mut Request) -> Result<(), Flow> {
        let Some(&first) = self.folders.first() else { return Ok(()) };
        let ends: Vec<usize> = memchr::memchr_iter(b'/', &self.file[first..]).map(|at| first + at).collect();
        for end in ends {
            if end == first {
                continue;
            }
            match kind(r, &self.file[..end])? {
                Some(Kind::Directory) => {}
                other => {
                    self.path_info = self.file.split_off(end);
                    self.kind = other;
                    self.folders.retain(|&folder| folder <= end);
                    return Ok(());
                }
            }
        }
        // Only the last part is not there.
        Ok(())
    }
}

/// What is at a path.
fn kind(r: &mut Request, path: &[u8]) -> Result<Option<Kind>, Flow> {
    match r.stat_file(Path::new(OsStr::from_bytes(path)), Symlinks::Follow)? {
        Found::File(file) => Ok(Some(file.info.kind)),
        Found::Other(info) => Ok(Some(info.kind)),
        // ENOENT, ENOTDIR, ENAMETOOLONG
        Found::Missing(error) => match error.raw_os_error() {
            Some(2 | 20 | 36) => Ok(None),
            code => {
                rlog!(r, Error, "\"{}\" cannot be looked at ({})", shown(path), reason(&error));
                Err(Flow::Status(if matches!(code, Some(13 | 40)) { 403 } else { 500 }))
            }
        },
    }
}
