//! The files of overrides: which folders lead to what a request is for, and what stands in a folder's file.

use crate::limits::{OVERRIDES_BYTES_MAX, OVERRIDES_DEPTH_MAX, OVERRIDES_QUIET_MS_MIN, OVERRIDES_WAITS_MAX};
use brisk_net::clock;
use brisk_net::file::{Info, Symlinks};
use brisk_server::core::AliasOf;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::path::Mapped;
use brisk_server::request::Request;
use brisk_server::rlog;
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Why the text of a file is not there.
pub enum Trouble {
    /// What the handler returns.
    Flow(Flow),
    /// It was written just now, perhaps not to its end: [`again`] after so long.
    BeingWritten(Duration),
}

impl From<Flow> for Trouble {
    fn from(flow: Flow) -> Trouble {
        Trouble::Flow(flow)
    }
}

/// How often a request has waited for files that were being written, wherever it was led meanwhile.
#[derive(Default)]
struct Waits(Cell<u8>);

/// What is known of a file that was looked at twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was left alone for long enough.
    Whole,
    /// It was not, as often as the request has waited for that.
    NeverLeftAlone,
}

/// The text of one file, once it is whole; `None` if there is no such file. What is no file, or cannot be read, is an answer: nothing is
/// opened by it.
pub fn read(r: &mut Request, symlinks: Symlinks, file: &[u8]) -> Result<Option<Arc<[u8]>>, Trouble> {
    let Some(found) = open(r, symlinks, file)? else { return Ok(None) };
    // (After it was opened: what changes from here on shows in the file's times.)
    match settle(r, symlinks, file, &found.info, OVERRIDES_QUIET_MS_MIN)? {
        Settled::Whole => Ok(Some(found.text)),
        Settled::NeverLeftAlone => Err(refuse(r, file, "is being written all the time", 500).into()),
    }
}

/// What stands in a file, and what the file was then.
pub struct Opened {
    /// Its bytes, of which the last may not be written yet.
    pub text: Arc<[u8]>,
    /// For [`settle`].
    pub info: Info,
}

/// As [`read`], also of a file that is being written. To be believed only if it is what was believed before, or [`settle`] finds nothing
/// against it.
pub fn open(r: &mut Request, symlinks: Symlinks, file: &[u8]) -> Result<Option<Opened>, Flow> {
    let path = Path::new(OsStr::from_bytes(file));
    let found = match r.read_text(path, symlinks)? {
        Found::File(found) => found,
        Found::Other(_) => return Err(refuse(r, file, "is no file", 500)),
        // ENOENT, ENOTDIR, ENAMETOOLONG: there is none, nor a file of the folder.
        Found::Missing(error) => match error.raw_os_error() {
            Some(2 | 20 | 36) => return Ok(None),
            Some(13 | 40) => return Err(refuse(r, file, &reason(&error), 403)),
            _ => return Err(refuse(r, file, &reason(&error), 500)),
        },
    };
    let Some(text) = found.bytes().cloned().filter(|text| text.len() <= OVERRIDES_BYTES_MAX) else {
        return Err(refuse(r, file, &format!("is longer than {OVERRIDES_BYTES_MAX} bytes"), 500));
    };
    Ok(Some(Opened { text, info: found.info }))
}

/// Finds out whether a file is whole, as far as that can be told: it was left alone for `quiet_ms`.
pub fn settle(
    r: &mut Request,
    symlinks: Symlinks,
    file: &[u8],
    opened: &Info,
    quiet_ms: i64,
) -> Result<Settled, Trouble> {
    // A write between the look at the file's times and the reading of its text shows in its times now.
    let now = r.stat_file(Path::new(OsStr::from_bytes(file)), symlinks)?;
    let is_same = |now: &Info| {
        let of = |info: &Info| (info.device, info.inode, info.size, info.mtime, info.mtime_nsec);
        of(now) == of(opened)
    };
    let settles_in = match now.info() {
        Some(now) if is_same(now) => unsettled(now, quiet_ms),
        // It has gone or is another file: it is looked at again in a moment.
        _ => Some(Duration::from_millis(OVERRIDES_QUIET_MS_MIN as u64)),
    };
    let Some(rest) = settles_in else { return Ok(Settled::Whole) };
    let waits = r.state.own.get_or(Waits::default);
    if waits.0.get() >= OVERRIDES_WAITS_MAX {
        return Ok(Settled::NeverLeftAlone);
    }
    waits.0.set(waits.0.get() + 1);
    Err(Trouble::BeingWritten(rest))
}

/// Asks a handler once more after `rest`, when what was fetched for the request may be old.
pub fn again(rest: Duration) -> Flow {
    Flow::Wait(Box::new(move |r| {
        Box::pin(async move {
            brisk_net::sleep(rest).await;
            // What was fetched before the wait may be what was being written.
            r.evidence.fetched.clear();
            r.thread.files.must_confirm();
            Flow::Again
        })
    }))
}

/// Where the folders of a mapped path begin to count. An `alias` of a regular expression gives the whole path, so that no part of it is
/// known to be the site's: all folders count, from the file system's root on.
pub fn root_len(r: &Request, mapped: &Mapped) -> usize {
    if r.core().root.alias == Some(AliasOf::Whole) { 0 } else { mapped.root_len }
}

/// The ends of the folders that lead to a path, from its root on, each behind its slash. The error is the answer to a path whose folders
/// are not those that its text names, or are too many.
pub fn folders(r: &Request, path: &[u8], root_len: usize) -> Result<Vec<usize>, Flow> {
    // A URI has no such parts, but a group of a pattern may give the rest of one: `/x(.*)` of `/x../closed`.
    if r.core().root.alias == Some(AliasOf::Whole) && has_dots(path) {
        return Err(refuse(
            r,
            path,
            "has a part that is \".\" or \"..\": what it leads to is not judged",
            403,
        ));
    }
    let folders = leading(path, root_len);
    if folders.len() > OVERRIDES_DEPTH_MAX {
        rlog!(r, Error, "more than {OVERRIDES_DEPTH_MAX} folders lead to \"{}\"", shown(path));
        return Err(Flow::Status(404));
    }
    Ok(folders)
}

fn has_dots(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|part| matches!(part, b"." | b".."))
}

fn leading(path: &[u8], root_len: usize) -> Vec<usize> {
    // A path without a slash lies in no folder.
    let Some(last) = memchr::memrchr(b'/', path) else { return Vec::new() };
    let has_slash = root_len > 0 && path[root_len - 1] == b'/';
    let first = (root_len - usize::from(has_slash)).min(last);
    let slashes = memchr::memchr_iter(b'/', &path[first..]).map(|at| first + at + 1);
    // Two slashes in a row name one folder.
    slashes.filter(|&end| path.get(end) != Some(&b'/')).collect()
}

/// How long a file is to be left alone yet: it was written just now, perhaps not to its end.
fn unsettled(info: &Info, quiet_ms: i64) -> Option<Duration> {
    let now = clock::now();
    let now_ms = now.unix_secs * 1000 + i64::from(now.unix_millis);
    let age_ms = now_ms - (info.mtime * 1000 + i64::from(info.mtime_nsec / 1_000_000));
    // A time that lies ahead tells nothing.
    let rest_ms = quiet_ms - age_ms;
    (1..=2 * quiet_ms).contains(&rest_ms).then(|| Duration::from_millis(rest_ms as u64))
}

/// Answers with a status because of a file, and says why in the log.
pub fn refuse(r: &Request, file: &[u8], why: &str, status: u16) -> Flow {
    rlog!(r, Error, "\"{}\" {why}", shown(file));
    Flow::Status(status)
}

/// For messages.
pub fn shown(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_lead_from_the_root_to_the_file() {
        let check = |root: &str, tail: &str, want: &[&str]| {
            let bytes = format!("{root}{tail}").into_bytes();
            let got: Vec<_> = leading(&bytes, root.len())
                .into_iter()
                .map(|end| shown(&bytes[..end]).into_owned())
                .collect();
            assert_eq!(got, want, "{root} {tail}");
        };
        check("/srv", "/", &["/srv/"]);
        check("/srv", "/a/b.txt", &["/srv/", "/srv/a/"]);
        check("/srv", "/a/b/", &["/srv/", "/srv/a/", "/srv/a/b/"]);
        check("/srv/", "a/b.txt", &["/srv/", "/srv/a/"]);
        check("/srv/file", "", &["/srv/"]);
        check("/srv", "/a//b", &["/srv/", "/srv/a//"]);
        check("", "/a", &["/"]);
        check("", "", &[]);
    }
}
