//! How many requests a server has answered, by what it writes into its access logs: nothing is asked for that.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

/// Logs with their length at the beginning.
#[derive(Debug, Default)]
pub struct Logs(BTreeMap<PathBuf, u64>);

/// What was written since.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// One for each request.
    pub lines: u64,
    /// Of these, those with a status of 500 or above.
    pub errors: u64,
}

impl Logs {
    /// Those that these processes have open: files with "access" in their name.
    pub fn of(pids: &[u32]) -> Logs {
        let files = |pid: &u32| {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.filter_map(|file| fs::read_link(file.path()).ok())
        };
        let is_log = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().contains("access")) && path.is_file()
        };
        let length = |path: PathBuf| Some((path.clone(), fs::metadata(&path).ok()?.len()));
        Logs(pids.iter().flat_map(files).filter(is_log).filter_map(length).collect())
    }

    /// What was written into them since.
    pub fn written(&self) -> Written {
        let mut found = Written::default();
        for (path, from) in &self.0 {
            let Ok(mut file) = fs::File::open(path) else { continue };
            if file.seek(SeekFrom::Start(*from)).is_err() {
                continue;
            }
            for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
                found.lines += 1;
                found.errors +=
                    u64::from(status(&String::from_utf8_lossy(&line)).is_some_and(|status| status >= 500));
            }
        }
        found
    }
}

/// The status in a line of the common formats: behind the request in quotation marks.
fn status(line: &str) -> Option<u16> {
    line.split("\" ").skip(1).find_map(|rest| {
        let word = rest.split(' ').next()?;
        word.parse().ok().filter(|status| (100..600).contains(status) && word.len() == 3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_since_the_beginning_are_requests() {
        let path = std::env::temp_dir().join(format!("brisk-doctor-access-{}.log", std::process::id()));
        fs::write(&path, "old\n").unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let logs = Logs::of(&[std::process::id()]);
        writeln!(file, "::1 - - [1/Jan/2026] \"GET / HTTP/1.1\" 200 5 \"-\" \"a 500 b\"").unwrap();
        writeln!(file, "::1 - - [1/Jan/2026] \"GET /x HTTP/1.1\" 502 5 \"-\" \"c\"").unwrap();
        // Other tests of this process may have logs, too.
        let own = Logs(logs.0.into_iter().filter(|(have, _)| *have == path).collect());
        assert_eq!(own.written(), Written { lines: 2, errors: 1 });
        fs::remove_file(path).unwrap();
    }
}
