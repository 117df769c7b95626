//! Files of names and passwords: what is in them, and what of them stays in force when they cannot be used any more.

use brisk_net::file::Info;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What this thread knows of a file.
/// By thread, so that no request waits for a lock.
#[derive(Default)]
struct Kept {
    /// What the file was when it could be used last.
    good: Option<(Info, Arc<[u8]>)>,
    complaint: Complaint,
}

/// What of a file's states somebody has complained last.
#[derive(Clone, Copy, Default, PartialEq)]
enum Complaint {
    #[default]
    None,
    /// It cannot be opened.
    Unreadable,
    Of(Info),
}

thread_local! {
    /// As many as configurations have named.
    static FILES: RefCell<HashMap<PathBuf, Kept>> = RefCell::default();
}

/// Whether the file can be used, which is found out once for each of its states.
pub fn is_known_good(path: &Path, info: Info, text: &Arc<[u8]>) -> bool {
    FILES.with_borrow_mut(|files| {
        if let Some(kept) = files.get(path) {
            if kept.good.as_ref().is_some_and(|(good, _)| *good == info) {
                return true;
            }
            // It was found to be broken in this very state: looking again would find the same.
            if kept.complaint == Complaint::Of(info) {
                return false;
            }
        }
        if malformed(text).is_some() {
            return false;
        }
        files.insert(path.to_owned(), Kept { good: Some((info, text.clone())), complaint: Complaint::None });
        true
    })
}

/// What was in the file when it could be used last.
pub fn before(path: &Path) -> Option<Arc<[u8]>> {
    FILES.with_borrow(|files| files.get(path)?.good.as_ref().map(|(_, text)| text.clone()))
}

/// Whether nobody has complained of this state of the file yet.
pub fn is_news(path: &Path, info: Option<Info>) -> bool {
    FILES.with_borrow_mut(|files| {
        let kept = files.entry(path.to_owned()).or_default();
        let complaint = info.map_or(Complaint::Unreadable, Complaint::Of);
        std::mem::replace(&mut kept.complaint, complaint) != complaint
    })
}

/// What is wrong with a file's text, if anything is: a line that is neither a user's nor a comment.
pub fn malformed(text: &[u8]) -> Option<String> {
    let is_bad = |line: &[u8]| {
        // Space around a line is forgiven, as other readers of such files do.
        let line = line.trim_ascii();
        let is_user = memchr::memchr(b':', line).is_some_and(|at| at > 0) && !line.contains(&0);
        !(is_user || line.is_empty() || line.starts_with(b"#"))
    };
    let at = text.split(|&b| b == b'\n').position(is_bad)?;
    Some(format!("line {} is not \"name:password\"", at + 1))
}

/// Reads a file from its beginning. Its descriptor's offset is shared with all who have it open, and is not used.
pub fn reader(file: File) -> impl BufRead {
    BufReader::new(At { file, offset: 0 })
}

/// Reads a file without its offset.
struct At {
    file: File,
    offset: u64,
}

impl io::Read for At {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = std::os::unix::fs::FileExt::read_at(&self.file, buf, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// What a file keeps of a user's password: the first line that begins with the name counts.
pub fn find(mut text: impl BufRead, user: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    while text.read_until(b'\n', &mut line)? > 0 {
        if !line.starts_with(b"#")
            && let Some(rest) = line.strip_prefix(user).and_then(|rest| rest.strip_prefix(b":"))
        {
            // Whatever stands behind a second colon is a comment.
            let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r' | b':')).unwrap_or(rest.len());
            return Ok(Some(rest[..end].to_vec()));
        }
        line.clear();
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found() {
        let file = "# comment\n\n#who:{PLAIN}no\nalice:{PLAIN}a\r\nbob:{PLAIN}b:comment\nalice:second\nlast:{PLAIN}x";
        let check = |user: &str, want: Option<&str>| {
            let got = find(file.as_bytes(), user.as_bytes()).unwrap();
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{user}");
        };
        check("alice", Some("{PLAIN}a"));
        check("bob", Some("{PLAIN}b"));
        check("last", Some("{PLAIN}x"));
        check("ali", None);
        check("#who", None);
        check("", None);
    }

    #[test]
    fn malformed_lines_are_named() {
        let check = |text: &str, want: Option<usize>| {
            let want = want.map(|line| format!("line {line} is not \"name:password\""));
            assert_eq!(malformed(text.as_bytes()), want, "{text:?}");
        };
        check("", None);
        check("# comment\n\n  \r\na:b\r\nc:d:comment", None);
        check("a:", None);
        check("a:b\nc", Some(2));
        check(":b", Some(1));
        check("<html>\n", Some(1));
        check("a:b\n\n\0\0:\0", Some(3));
    }
}
