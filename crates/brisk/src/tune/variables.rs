//! Settings of a MariaDB that runs. It reads its option files when it starts only, so `--apply` writes them there for its next start, and sets them by
//! `SET GLOBAL` as well. What counts after a restart alone is refused before anything is changed: a restart would end the connections of the
//! site's visitors.

use crate::doctor::database::account;
use crate::limits::TUNE_RELOAD_TIME_MAX;
use brisk_load::watch::Session;
use brisk_tune::edit::{self, File, Language, Wanted};
use brisk_tune::ini::bytes;
use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How far a change of the buffer pool's size has come: MariaDB makes it behind the statement's back.
const RESIZING: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status'";

/// A running MariaDB, and those of its settings that are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variables {
    /// Where it listens.
    socket: String,
    /// The option file with the account that may set them; empty: root at the socket.
    login: String,
    /// The settings, spelled as in option files, with the values that held before the first change.
    before: Vec<(String, String)>,
}

impl Variables {
    /// Those with these names, of the server at this socket. The error names one that cannot be set while it runs.
    pub fn find<'a>(
        socket: String,
        login: Option<&str>,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Variables, String> {
        // The journal is read from other folders, too.
        let login = login.map(std::path::absolute).transpose().map_err(|error| error.to_string())?;
        let login = login.map_or_else(String::new, |file| file.display().to_string());
        let mut found = Variables { socket, login, before: Vec::new() };
        let mut session = found.session()?;
        for name in names {
            let value = present(&mut session, name)?;
            found.before.push((name.to_owned(), value));
        }
        Ok(found)
    }

    /// As words of the journal.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let values = self.before.iter().flat_map(|(name, value)| [name, value]);
        [&self.socket, &self.login].into_iter().chain(values).map(|word| word.clone().into_bytes()).collect()
    }

    /// What these words say.
    pub fn of(words: &[String]) -> Option<Variables> {
        let [socket, login, values @ ..] = words else { return None };
        let (pairs, []) = values.as_chunks() else { return None };
        let before = pairs.iter().map(|[name, value]| (name.clone(), value.clone())).collect();
        Some(Variables { socket: socket.clone(), login: login.clone(), before })
    }

    /// Its socket.
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Sets what these option files say; what stands in none has the value from before.
    pub fn take(&self, files: &[File]) -> Result<(), String> {
        let value = |(name, before): &(String, String)| {
            let wanted = Wanted { language: Language::Database, name, pool: "" };
            let written = edit::read(files, &wanted).map_err(|refused| refused.to_string())?;
            Ok((name.clone(), written.unwrap_or_else(|| before.clone())))
        };
        let values: Vec<_> = self.before.iter().map(value).collect::<Result<_, String>>()?;
        self.set(&values)
    }

    /// Sets what held before the first change.
    pub fn take_back(&self) -> Result<(), String> {
        self.set(&self.before)
    }

    fn set(&self, values: &[(String, String)]) -> Result<(), String> {
        let mut session = self.session()?;
        for (name, value) in values {
            let variable = variable(name)?;
            let statement = format!("SET GLOBAL {variable} = {}", literal(name, value)?);
            session
                .rows(&statement)
                .map_err(|error| format!("MariaDB does not set {name} to {value} ({error})"))?;
        }
        settle(&mut session)
    }

    /// A connection. One that is refused is tried again for a moment: all may be in use by requests that are just ending.
    fn session(&self) -> Result<Session, String> {
        let login = Some(&*self.login).filter(|file| !file.is_empty());
        let account = account(login, &self.socket)?;
        let begun = Instant::now();
        loop {
            match Session::open(&account) {
                Ok(session) => return Ok(session),
                Err(error) if begun.elapsed() > TUNE_RELOAD_TIME_MAX => {
                    return Err(format!("MariaDB at {} cannot be asked ({error})", self.socket));
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

/// The present value of a setting that can be changed while the server runs.
fn present(session: &mut Session, name: &str) -> Result<String, String> {
    // MySQL has no such table.
    let asked = format!(
        "SELECT GLOBAL_VALUE, READ_ONLY, GLOBAL_VALUE_ORIGIN FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = '{}'",
        variable(name)?
    );
    let rows = session.rows(&asked).map_err(|error| {
        format!("{name} cannot be set while the database runs: it is no MariaDB of 10.1 or later ({error})")
    })?;
    match rows.first().map(Vec::as_slice) {
        Some([_, read_only, _]) if read_only == "YES" => Err(format!(
            "{name} counts after a restart of MariaDB, which is left to you: apply the patches by hand"
        )),
        Some([_, _, origin]) if origin == "COMMAND-LINE" => Err(format!(
            "{name} is set on MariaDB's command line, which counts for more than its option files: change it there"
        )),
        Some([value, ..]) => Ok(value.clone()),
        _ => Err(format!("MariaDB has no variable {name}")),
    }
}

/// The variable of a setting: option files take both spellings, `skip-name-resolve` too.
fn variable(name: &str) -> Result<String, String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_plain { Ok(name.replace('-', "_")) } else { Err(format!("\"{name}\" is no variable of MariaDB")) }
}

/// A value as a statement has it: without the units of option files, which only they know.
fn literal(name: &str, value: &str) -> Result<String, String> {
    if let Some(number) = bytes(value) {
        return Ok(number.to_string());
    }
    if value.contains(['\'', '\\']) || value.contains(char::is_control) {
        return Err(format!("the value \"{}\" of {name} cannot be set", value.escape_debug()));
    }
    Ok(format!("'{value}'"))
}

/// Waits until the buffer pool has its size; not for long: the measurements tell what comes of it.
fn settle(session: &mut Session) -> Result<(), String> {
    let begun = Instant::now();
    while begun.elapsed() < TUNE_RELOAD_TIME_MAX {
        let status = session.pairs(RESIZING).map_err(|error| error.to_string())?;
        if status.into_values().all(|status| is_settled(&status)) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn is_settled(status: &str) -> bool {
    status.is_empty() || status.starts_with("Completed") || status.contains("did not change")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_journal() {
        let own = |text: &str| text.to_owned();
        let all = Variables {
            socket: own("/run/m.sock"),
            login: String::new(),
            before: vec![(own("max_connections"), own("151")), (own("tmp_table_size"), own("16777216"))],
        };
        let words: Vec<String> =
            all.words().into_iter().map(|word| String::from_utf8(word).unwrap()).collect();
        assert_eq!(Variables::of(&words), Some(all));
        assert_eq!((Variables::of(&words[..3]), Variables::of(&words[..1])), (None, None));
    }

    #[test]
    fn values_as_statements_have_them() {
        let literal = |value| literal("x", value).ok();
        for (value, wanted) in
            [("16m", "16777216"), ("1G", "1073741824"), ("0", "0"), ("ON", "'ON'"), ("", "''")]
        {
            assert_eq!(literal(value).as_deref(), Some(wanted));
        }
        // What somebody has written into an option file stays a value.
        for value in ["1'; DROP TABLE t; --", "a\\", "a\nb"] {
            assert_eq!(literal(value), None, "{value}");
        }
        assert_eq!(variable("skip-name-resolve").as_deref(), Ok("skip_name_resolve"));
        assert!(variable("a = 1; DROP").is_err());
    }

    #[test]
    fn sizes_that_are_reached() {
        assert!(is_settled("") && is_settled("Completed resizing buffer pool at 261128  0:00:00."));
        assert!(is_settled("Size did not change (old size = new size). Nothing to do."));
        assert!(!is_settled("Resizing buffer pool from 8388608 to 134217728."));
    }
}
