//! What pools' programs say, as messages of the server's log, and what the log is told of a pool that cannot be started.

use brisk_server::core::LogLevel;

/// A line of a pool master, `[LEVEL] TEXT`; others come from libraries.
pub fn note(line: &str) -> (LogLevel, String) {
    let levels = [
        ("[notice] ", LogLevel::Notice),
        ("[warn] ", LogLevel::Warn),
        ("[error] ", LogLevel::Error),
        ("[alert] ", LogLevel::Alert),
    ];
    let known = levels.iter().find_map(|(head, level)| Some((*level, line.strip_prefix(head)?.to_string())));
    known.or_else(|| fpm_note(line)).unwrap_or_else(|| (LogLevel::Error, format!("PHP: {line}")))
}

/// A line of PHP-FPM, `[DATE] LEVEL: TEXT`.
fn fpm_note(line: &str) -> Option<(LogLevel, String)> {
    let (level, text) = line.strip_prefix('[')?.split_once("] ")?.1.split_once(": ")?;
    let level = match level {
        "DEBUG" | "NOTICE" => LogLevel::Notice,
        "WARNING" => LogLevel::Warn,
        "ERROR" => LogLevel::Error,
        "ALERT" => LogLevel::Alert,
        _ => return None,
    };
    Some((level, format!("PHP-FPM: {text}")))
}

/// The line of a program's that may tell why it does not go on: the first error of its start, and the last one when it has served.
#[derive(Default)]
pub struct Reason {
    text: Option<String>,
    has_served: bool,
}

impl Reason {
    /// The program has said this.
    pub fn note(&mut self, (level, text): &(LogLevel, String)) {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // PHP tells of the end of a script in several lines, the first of which has the reason. Most of what it warns of is none.
        let is_other =
            has(&["Warning: ", "Notice: ", "Deprecated: ", "PHP: Stack trace:", "PHP: #", "PHP:   "]);
        let is_error = matches!(level, LogLevel::Error | LogLevel::Alert) && !is_other
            || has(&["Fatal error: ", "Parse error: "]);
        if is_error && (self.has_served || self.text.is_none()) {
            self.text = Some(text.clone());
        }
    }

    /// Its start was a success.
    pub fn serves(&mut self) {
        *self = Reason { text: None, has_served: true };
    }

    /// That line, else `other`.
    pub fn or<'a>(&'a self, other: &'a str) -> &'a str {
        self.text.as_deref().unwrap_or(other)
    }
}

/// What the log is told when requests to a pool begin to be refused.
pub fn refusal(pool: &str, why: &str) -> String {
    format!(
        "PHP pool \"{pool}\" cannot be started ({why}): {}. Its requests get 503 until then; it is tried again after pauses of 0.2 to 5 s, and at once by \"brisk php reload {pool}\"",
        remedy(why)
    )
}

/// What helps, by what the program has said.
fn remedy(why: &str) -> &'static str {
    let why = why.to_ascii_lowercase();
    let remedies: &[(&[&str], &str)] = &[
        (
            &["error while loading shared libraries"],
            "install PHP's library (Debian: libphp-embed), or build what embeds the one that is installed (\"make php\")",
        ),
        (
            &[
                "there is no user",
                "there is no group",
                "does not run as root",
                "changing to user",
                "initgroups",
            ],
            "name a \"user\" and \"group\" in the pool that exist and are not root's",
        ),
        (
            &["memory", "mmap(", "exited on signal 9", "unable to allocate", "fork"],
            "give it memory: raise the limit of the container or service, or lower opcache.memory_consumption and max_children",
        ),
        (
            &["its user may not read"],
            "let the pool's user read it (chown, chmod, setfacl), inside of \"chroot\" if the pool has one",
        ),
        (&["chdir", "chroot"], "make the folder that \"chdir\" or \"chroot\" names, or name another one"),
        (
            &["did not start in time"],
            "see what its start waits for (\"worker\" and opcache.preload run scripts then)",
        ),
        (&["no space left", "disk quota"], "free space on the disk that it names"),
        (&["ended without an answer", "fatal error", "parse error", "uncaught"], "mend the script"),
    ];
    let helps = |words: &[&str]| words.iter().any(|word| why.contains(word));
    let found = remedies.iter().find(|(words, _)| helps(words));
    found.map_or("mend what it says, here and above", |(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_levels() {
        assert_eq!(note("[warn] a pool"), (LogLevel::Warn, "a pool".into()));
        let notice = (LogLevel::Notice, "PHP-FPM: ready to handle connections".into());
        assert_eq!(note("[23-Nov-2026 02:00:00] NOTICE: ready to handle connections"), notice);
        assert_eq!(note("Segmentation"), (LogLevel::Error, "PHP: Segmentation".into()));
    }

    #[test]
    fn the_reason_is_the_first_error_and_has_its_remedy() {
        let mut reason = Reason::default();
        assert_eq!(reason.or("exited with code 1"), "exited with code 1");
        for line in [
            "[notice] pool www begins",
            "PHP Warning:  PHP Startup: Unable to load dynamic library 'x'",
            "[notice] PHP message: PHP Fatal error:  Uncaught Exception: no in /srv/worker.php:3",
            "Stack trace:",
            "#0 {main}",
            "[alert] pool www: PHP could not be started; what it says stands above",
        ] {
            reason.note(&note(line));
        }
        let why = reason.or("");
        assert_eq!(why, "PHP message: PHP Fatal error:  Uncaught Exception: no in /srv/worker.php:3");
        let told = refusal("www", why);
        assert!(
            told.contains("(PHP message: PHP Fatal error:") && told.contains(": mend the script. Its"),
            "{told}"
        );
        reason.serves();
        assert_eq!(reason.or("other"), "other");
        for line in ["[error] worker process 7 of pool www exited on signal 11", "[alert] pool www ends"] {
            reason.note(&note(line));
        }
        assert_eq!(reason.or("other"), "pool www ends");
    }

    #[test]
    fn each_cause_has_its_remedy() {
        for (why, want) in [
            (
                "PHP: brisk-php8.2: error while loading shared libraries: libphp8.2.so: cannot open",
                "libphp-embed",
            ),
            ("pool www: there is no user \"54321\"", "name a \"user\""),
            ("pool www: PHP does not run as root; set \"user\"", "name a \"user\""),
            ("exited on signal 9", "give it memory"),
            ("PHP: mmap() failed: [12] Cannot allocate memory", "give it memory"),
            (
                "pool www: its user may not read \"/etc/php.ini\" inside of \"chroot\" (x)",
                "let the pool's user read",
            ),
            ("pool www: chdir(\"/srv/x\") failed (No such file or directory)", "make the folder"),
            ("the script /srv/w.php of pool www has ended without an answer", "mend the script"),
            ("exited with code 7", "mend what it says"),
        ] {
            assert!(remedy(why).contains(want), "{why}: {}", remedy(why));
        }
    }
}
