//! What a pool's settings mean: checked one by one, then together, and handed to the pool master as lines.

use crate::limits::{
    CHILDREN_DEFAULT_MAX, QUEUE_REQUESTS_MAX, QUEUE_TIMEOUT_DEFAULT, TERMINATE_TIMEOUT_DEFAULT, TIME_MAX,
};
use crate::reporting;
use crate::table::{self, Kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Logs of a pool: what the pool master calls them, and their settings.
const LOGS: [(&str, &str); 2] = [("access", "access.log"), ("slow", "slowlog")];

/// Names of the server's own output, which the pool master knows.
const STANDARD: [&str; 6] =
    ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/1", "/proc/self/fd/2"];

/// PHP's settings of which each line counts.
const ADD_UP: [&str; 4] = ["extension", "zend_extension", "disable_functions", "disable_classes"];

/// Who decides on the number of workers, and how (`pm`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manager {
    /// Always `max_children`.
    Static,
    /// As many as are busy, and some spare ones.
    Dynamic,
    /// As many as are needed, none when nothing is asked.
    Ondemand,
    /// The server finds the number.
    #[default]
    Auto,
}

impl Manager {
    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Manager::Static => "static",
            Manager::Dynamic => "dynamic",
            Manager::Ondemand => "ondemand",
            Manager::Auto => "auto",
        }
    }
}

/// `queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How many requests may wait for a worker; `None`: what [`Room`](crate::Room) makes of the pool's pace.
    pub max: Option<usize>,
    /// How long each of them may.
    pub timeout: Duration,
}

/// What is wrong with a setting, or worth knowing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The pool cannot be made.
    Error {
        /// What is wrong.
        message: String,
        /// What to do.
        help: String,
    },
    /// It is without effect here.
    Notice(String),
}

impl Problem {
    fn error(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem::Error { message: message.into(), help: help.into() }
    }
}

/// A pool's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The pool's name.
    pub pool: String,
    manager: Option<Manager>,
    /// By their whole names; times in milliseconds.
    values: BTreeMap<&'static str, String>,
    extensions: Option<Vec<String>>,
    suppressed: Vec<String>,
    env: Vec<(String, String)>,
    php: Vec<(String, String)>,
    php_admin: Vec<(String, String)>,
    queue: Option<Queue>,
    /// `php`: the version of PHP, as `8.2`.
    pub version: Option<String>,
    /// `php_retry`.
    pub retries: bool,
    /// `php_cgi`: php-cgi may stand in, which knows no `security.limit_extensions`.
    pub allows_cgi: bool,
    /// `watch`: folders of code; when it changes, the pool gets new processes.
    pub watched: Vec<String>,
    prefix: Option<String>,
}

impl Settings {
    /// A pool of which only the name is known.
    pub fn new(pool: &str) -> Settings {
        Settings {
            pool: pool.to_string(),
            manager: None,
            values: BTreeMap::new(),
            extensions: None,
            suppressed: Vec::new(),
            env: Vec::new(),
            php: Vec::new(),
            php_admin: Vec::new(),
            queue: None,
            version: None,
            retries: true,
            allows_cgi: false,
            watched: Vec::new(),
            prefix: None,
        }
    }

    /// Takes one setting, by FPM's name, or one of Brisk's own. `value` is as written, its words joined by blanks.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            return Err(Problem::error(
                format!("the value of \"{name}\" has a control character"),
                "line feeds, carriage returns and NUL would end the setting, and begin another one",
            ));
        }
        let value = value.replace("$pool", &self.pool);
        if let Some((kind, key)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            return self.set_keyed(name, kind, key, value);
        }
        match name {
            "pm" => self.manager = Some(manager(&value)?),
            "security.limit_extensions" => {
                self.extensions = Some(value.split_whitespace().map(str::to_string).collect());
            }
            "access.suppress_path" => return self.suppress(name, value),
            "rlimit_core" => {
                if value != "unlimited" {
                    count(name, &value, 0, i64::MAX)?;
                }
                self.values.insert("rlimit_core", value);
            }
            "prefix" => self.prefix = Some(value),
            "queue" => self.queue = Some(queue(&value)?),
            "php" => self.version = Some(version(value)?),
            "php_retry" => self.retries = flag(name, &value)?,
            "watch" => {
                let folders = value.split_whitespace().map(str::to_string);
                self.watched.extend(folders);
                if let Some(folder) = self.watched.iter().find(|folder| !folder.starts_with('/')) {
                    let text = format!("the folder \"{folder}\" of \"watch\" is no full path");
                    return Err(Problem::error(text, "write watch /srv/app/src;"));
                }
            }
            "php_cgi" => self.allows_cgi = flag(name, &value)?,
            _ => return self.set_row(name, &value),
        }
        Ok(())
    }

    fn set_keyed(&mut self, name: &str, kind: &str, key: &str, value: String) -> Result<(), Problem> {
        if kind == "access.suppress_path" {
            if !key.is_empty() {
                let text = format!("\"{name}\" has a name in its brackets, which would mean nothing");
                return Err(Problem::error(text, "write access.suppress_path[] = /ping"));
            }
            return self.suppress(kind, value);
        }
        let is_name = |key: &str| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic() && !b"=\"'[];".contains(&byte))
        };
        if !is_name(key) {
            return Err(Problem::error(
                format!("\"{name}\" has no name in its brackets"),
                "write env[NAME], php_value[NAME] …",
            ));
        }
        let list = match kind {
            "env" => &mut self.env,
            "php_value" | "php_flag" => &mut self.php,
            "php_admin_value" | "php_admin_flag" => &mut self.php_admin,
            _ => return Err(unknown(name)),
        };
        let value = match kind {
            "php_flag" | "php_admin_flag" => if flag(name, &value)? { "1" } else { "0" }.to_string(),
            "php_value" | "php_admin_value" => reporting::number(name, value)?,
            _ => value,
        };
        list.retain(|(have, _)| have != key || ADD_UP.contains(&key));
        list.push((key.to_string(), value));
        Ok(())
    }

    fn suppress(&mut self, name: &str, path: String) -> Result<(), Problem> {
        if !path.starts_with('/') {
            return Err(begins_with_slash(name));
        }
        self.suppressed.push(path);
        Ok(())
    }

    fn set_row(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        let (name, kind) = table::find(name).ok_or_else(|| unknown(name))?;
        let value = match kind {
            Kind::Text | Kind::Path => value.to_string(),
            Kind::Count(min, max) => count(name, value, min, max)?.to_string(),
            Kind::Time => time(name, value)?.as_millis().to_string(),
            Kind::Flag => if flag(name, value)? { "yes" } else { "no" }.to_string(),
            Kind::Unused(why) => {
                return Err(Problem::Notice(format!(
                    "\"{name}\" of pool \"{}\" has no effect: {why}",
                    self.pool
                )));
            }
            Kind::Refused(why) => {
                return Err(Problem::error(
                    format!("\"{name}\" is not supported in pool \"{}\"", self.pool),
                    why,
                ));
            }
        };
        if (name.ends_with("_path") || name == "ping.path") && !value.starts_with('/') {
            return Err(begins_with_slash(name));
        }
        self.values.insert(name, value);
        Ok(())
    }

    /// `$prefix` is known when all settings are, and so is where relative names of logs begin: at `prefix`, else at `folder`.
    fn place(&mut self, folder: &str) {
        let prefix = self.prefix.clone().unwrap_or_else(|| folder.to_string());
        let prefix = prefix.trim_end_matches('/');
        for (name, value) in &mut self.values {
            if matches!(table::find(name), Some((_, Kind::Path))) {
                *value = value.replace("$prefix", prefix);
                if LOGS.iter().any(|(_, log)| log == name) && !value.starts_with('/') {
                    *value = format!("{prefix}/{value}");
                }
            }
        }
    }

    /// Who decides on the number of workers.
    pub fn manager(&self) -> Manager {
        self.manager.unwrap_or_default()
    }

    /// The most workers that there may be.
    pub fn children_max(&self) -> u32 {
        self.number("pm.max_children").unwrap_or(CHILDREN_DEFAULT_MAX)
    }

    /// How many requests may wait for a worker, and how long.
    pub fn queue(&self) -> Queue {
        self.queue.unwrap_or(Queue { max: None, timeout: QUEUE_TIMEOUT_DEFAULT })
    }

    /// How long a request may take; zero: as long as it does.
    pub fn terminate_timeout(&self) -> Duration {
        match self.values.get("request_terminate_timeout") {
            Some(ms) => Duration::from_millis(ms.parse().unwrap_or(0)),
            None => TERMINATE_TIMEOUT_DEFAULT,
        }
    }

    /// The user that the pool runs as, if it is named.
    pub fn user(&self) -> Option<&str> {
        self.values.get("user").map(String::as_str)
    }

    /// The group that the pool runs as, if it is named.
    pub fn group(&self) -> Option<&str> {
        self.values.get("group").map(String::as_str)
    }

    /// The files that its processes write to, each with the name by which the pool master is told of another one. Those that go where the
    /// server's own output goes are none.
    pub fn logs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let path = |(name, key): &(&'static str, &str)| Some((*name, self.values.get(*key)?.as_str()));
        LOGS.iter().filter_map(path).filter(|(_, path)| !STANDARD.contains(path))
    }

    /// Whether a script stays in memory and answers all requests (`worker`).
    pub fn has_worker(&self) -> bool {
        self.values.contains_key("worker")
    }

    /// `php_ini`, if it is written.
    pub fn php_ini(&self) -> Option<&str> {
        self.values.get("php_ini").map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.values.get(name)?.parse().ok()
    }

    /// Checks what several settings say together; to be called when all are known. `folder` is where relative paths begin that no `prefix`
    /// gives another beginning.
    pub fn finish(&mut self, folder: &str) -> Result<(), Problem> {
        self.place(folder);
        let max = self.children_max();
        self.values.entry("pm.max_children").or_insert_with(|| max.to_string());
        if self.manager() == Manager::Dynamic {
            self.finish_dynamic(max)?;
        }
        if self.values.contains_key("request_slowlog_timeout") && !self.values.contains_key("slowlog") {
            return Err(Problem::error(
                "\"request_slowlog_timeout\" needs \"slowlog\"",
                "name the file that slow requests are written to",
            ));
        }
        if self.values.get("worker").is_some_and(|path| !path.starts_with('/')) {
            return Err(Problem::error("\"worker\" is no full path", "write /srv/app/public/worker.php"));
        }
        let limit = self.terminate_timeout().as_millis().to_string();
        self.values.entry("request_terminate_timeout").or_insert(limit);
        Ok(())
    }

    fn finish_dynamic(&mut self, max: u32) -> Result<(), Problem> {
        let need = |name: &str| {
            let help = "write it, or use \"pm = auto\", which finds the number of workers by itself";
            Problem::error(format!("\"pm = dynamic\" needs \"{name}\""), help)
        };
        let least = self.number("pm.min_spare_servers").ok_or_else(|| need("pm.min_spare_servers"))?;
        let most = self.number("pm.max_spare_servers").ok_or_else(|| need("pm.max_spare_servers"))?;
        if least > max || most > max || most < least {
            return Err(Problem::error(
                format!(
                    "\"pm.min_spare_servers\" ({least}) and \"pm.max_spare_servers\" ({most}) do not fit \"pm.max_children\" ({max})"
                ),
                "min_spare_servers may not be greater than max_spare_servers, nor that greater than max_children",
            ));
        }
        let start = self.number("pm.start_servers").unwrap_or(least + (most - least) / 2);
        if start < least || start > most {
            return Err(Problem::error(
                format!(
                    "\"pm.start_servers\" ({start}) is not between \"pm.min_spare_servers\" ({least}) and \"pm.max_spare_servers\" ({most})"
                ),
                "leave it out: then it is in the middle of both",
            ));
        }
        self.values.insert("pm.start_servers", start.to_string());
        Ok(())
    }

    /// What the pool master reads: lines of name, tab and value. `user` is the pool's unless it names one; `start` are the workers
    /// of `pm auto` at the start.
    pub fn encode(&self, user: Option<&str>, ini: (Option<&str>, Option<&str>), start: u32) -> String {
        let mut out = String::new();
        let mut put = |name: &str, value: &str| {
            let _ = writeln!(out, "{name}\t{value}");
        };
        put("pool", &self.pool);
        put("pm", self.manager().name());
        if let (None, Some(user)) = (self.user(), user) {
            put("user", user);
        }
        for (name, value) in self.values.iter().filter(|(name, _)| **name != "php_ini") {
            put(name, value);
        }
        if self.manager() == Manager::Auto {
            put("pm.start_servers", &start.to_string());
        }
        if let Some(file) = ini.0 {
            put("php_ini", file);
        }
        if let Some(folder) = ini.1 {
            put("php_ini_folder", folder);
        }
        let usual = [String::from(".php"), String::from(".phar")];
        let extensions = self.extensions.as_deref().unwrap_or(&usual);
        extensions.iter().for_each(|one| put("security.limit_extensions", one));
        self.suppressed.iter().for_each(|one| put("access.suppress_path", one));
        for (kind, list) in
            [("env", &self.env), ("php_value", &self.php), ("php_admin_value", &self.php_admin)]
        {
            list.iter().for_each(|(name, value)| put(&format!("{kind}[{name}]"), value));
        }
        out
    }
}

/// A value as PHP's parser of ini files reads it back.
fn quoted(value: &str) -> String {
    if value.contains('\'') { format!("\"{}\"", escaped(value)) } else { format!("'{value}'") }
}

/// The same between double quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$")
}

/// A setting for php-cgi, which would forget what php.ini disables.
fn assigned(name: &str, value: &str) -> String {
    if name.starts_with("disable_") && ADD_UP.contains(&name) {
        return format!("{name}=\"${{{name}}},{}\"", escaped(value));
    }
    format!("{name}={}", quoted(value))
}

impl Settings {
    /// PHP's own settings as arguments of php-cgi.
    pub fn php_arguments(&self) -> Vec<String> {
        let ini = self.php_ini().map(|file| ["-c".to_string(), file.to_string()]);
        let all = self.php.iter().chain(&self.php_admin);
        let values = all.flat_map(|(name, value)| ["-d".to_string(), assigned(name, value)]);
        // Without security.limit_extensions PHP must not look for a script in the path before the one that is asked for.
        let last = ["-d".to_string(), "cgi.fix_pathinfo=0".to_string()];
        ini.into_iter().flatten().chain(values).chain(last).collect()
    }

    /// The pool as PHP-FPM's configuration, for machines without a pool master: `listen` is the socket that it inherits, `user` as in
    /// [`Settings::encode`]. `pm auto` becomes FPM's `ondemand`, which makes workers as they are needed.
    pub fn fpm_file(&self, user: Option<&str>, listen: &str) -> String {
        let mut out = String::from("[global]\nerror_log = /proc/self/fd/2\ndaemonize = no\n");
        let mut put = |name: &str, value: &str| {
            let _ = writeln!(out, "{name} = {value}");
        };
        put(&format!("[{}]\nlisten", self.pool), listen);
        let manager = if self.manager() == Manager::Auto { Manager::Ondemand } else { self.manager() };
        put("pm", manager.name());
        if let (None, Some(user)) = (self.user(), user) {
            put("user", user);
        }
        for (name, value) in self.values.iter().filter(|(name, _)| **name != "php_ini") {
            // FPM knows no milliseconds.
            let is_time = matches!(table::find(name), Some((_, Kind::Time)));
            match value.parse::<u64>() {
                Ok(ms) if is_time => put(name, &ms.div_ceil(1000).to_string()),
                _ => put(name, &quoted(value)),
            }
        }
        if let Some(extensions) = &self.extensions {
            put("security.limit_extensions", &quoted(&extensions.join(" ")));
        }
        self.suppressed.iter().for_each(|one| put("access.suppress_path[]", &quoted(one)));
        for (kind, list) in
            [("env", &self.env), ("php_value", &self.php), ("php_admin_value", &self.php_admin)]
        {
            list.iter().for_each(|(name, value)| put(&format!("{kind}[{name}]"), &quoted(value)));
        }
        out
    }
}

fn begins_with_slash(name: &str) -> Problem {
    Problem::error(format!("\"{name}\" must begin with \"/\""), "it is a URI, such as /fpm-status")
}

fn unknown(name: &str) -> Problem {
    Problem::error(
        format!("unknown setting \"{name}\" of a PHP pool"),
        "a pool has the settings of FPM's pool files, with or without \"pm.\", and queue, worker, watch, php, php_ini, php_retry, php_cgi",
    )
}

fn manager(value: &str) -> Result<Manager, Problem> {
    let all = [Manager::Static, Manager::Dynamic, Manager::Ondemand, Manager::Auto];
    all.into_iter().find(|manager| manager.name() == value).ok_or_else(|| {
        Problem::error(
            format!("invalid value \"{value}\" of \"pm\""),
            "it is static, dynamic, ondemand or auto",
        )
    })
}

fn count(name: &str, value: &str, min: i64, max: i64) -> Result<i64, Problem> {
    let number = value.parse::<i64>().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        let range = if max == i64::MAX { format!("from {min} on") } else { format!("from {min} to {max}") };
        Problem::error(format!("invalid value \"{value}\" of \"{name}\""), format!("it is a number {range}"))
    })
}

fn time(name: &str, value: &str) -> Result<Duration, Problem> {
    let wrong = || {
        Problem::error(
            format!("invalid value \"{value}\" of \"{name}\""),
            "it is a time: a number of seconds, or one with ms, s, m, h or d",
        )
    };
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = value[..digits].parse().map_err(|_| wrong())?;
    let unit_ms = match &value[digits..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let time = Duration::from_millis(number.checked_mul(unit_ms).ok_or_else(wrong)?);
    if time > TIME_MAX { Err(wrong()) } else { Ok(time) }
}

fn flag(name: &str, value: &str) -> Result<bool, Problem> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Ok(true),
        "0" | "no" | "false" | "off" => Ok(false),
        _ => Err(Problem::error(format!("invalid value \"{value}\" of \"{name}\""), "it is yes or no")),
    }
}

/// `NUMBER [timeout=TIME]`
fn queue(value: &str) -> Result<Queue, Problem> {
    let mut words = value.split_whitespace();
    let max = count("queue", words.next().unwrap_or_default(), 0, QUEUE_REQUESTS_MAX.into())? as usize;
    let mut timeout = QUEUE_TIMEOUT_DEFAULT;
    for word in words {
        let Some(value) = word.strip_prefix("timeout=") else {
            return Err(Problem::error(
                format!("invalid parameter \"{word}\" of \"queue\""),
                "it is queue NUMBER [timeout=TIME]",
            ));
        };
        timeout = time("queue", value)?;
    }
    Ok(Queue { max: Some(max), timeout })
}

/// `8.2`
fn version(value: String) -> Result<String, Problem> {
    let is_number =
        |text: &str| !text.is_empty() && text.len() < 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = value.split_once('.').is_some_and(|(major, minor)| is_number(major) && is_number(minor));
    if is_version {
        Ok(value)
    } else {
        Err(Problem::error(
            format!("invalid value \"{value}\" of \"php\""),
            "it is a version of PHP, such as 8.2",
        ))
    }
}

#[cfg(test)]
mod tests;
