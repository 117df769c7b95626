//! One message of an error log, in the forms that logs may have.

use super::level::LogLevel;
use super::stamp::stamp;
use super::time::{iso_seconds, offset};
use brisk_net::{clock, sys};
use std::fmt::{self, Write as _};

/// How the lines of an error log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// nginx's.
    #[default]
    Text,
    /// An object per line.
    Json,
    /// nginx's, with colours for a terminal.
    Color,
}

/// One message.
pub struct Entry<'a> {
    /// How urgent it is.
    pub level: LogLevel,
    connection: Option<u64>,
    message: fmt::Arguments<'a>,
    about: Vec<About>,
}

/// A name, a value, and whether nginx has the value in quotes.
pub type About = (&'static str, String, bool);

impl<'a> Entry<'a> {
    /// A message, with the number of the connection that it is about.
    pub fn new(level: LogLevel, connection: Option<u64>, message: fmt::Arguments<'a>) -> Entry<'a> {
        Entry { level, connection, message, about: Vec::new() }
    }

    /// Adds what the message is about, such as the client. It comes behind the message in the order given.
    pub fn about(&mut self, name: &'static str, value: &[u8], quoted: bool) {
        self.about.push((name, String::from_utf8_lossy(value).into_owned(), quoted));
    }

    /// The same for several.
    pub fn all_about(&mut self, about: Vec<About>) {
        self.about.extend(about);
    }

    /// The message alone.
    pub fn message(&self) -> String {
        self.message.to_string()
    }

    /// One of the values that the message is about.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.about.iter().find(|(have, ..)| *have == name).map(|(_, value, _)| value.as_str())
    }

    /// The whole line with its end.
    pub fn line(&self, format: Format) -> String {
        match format {
            Format::Text => self.text("", ""),
            Format::Color => self.text(color(self.level), "\x1b[0m"),
            Format::Json => self.json(),
        }
    }

    /// As nginx writes it: time, level, process and thread, connection, message.
    fn text(&self, color: &str, reset: &str) -> String {
        let pid = rustix::process::getpid().as_raw_nonzero();
        let reset = if color.is_empty() { "" } else { reset };
        let mut out = format!(
            "{} {color}[{}]{reset} {pid}#{pid}: ",
            stamp(clock::now().unix_secs),
            self.level.as_str()
        );
        if let Some(id) = self.connection {
            let _ = write!(out, "*{id} ");
        }
        let mut rest = self.message.to_string();
        for (name, value, quoted) in &self.about {
            let quote = if *quoted { "\"" } else { "" };
            let _ = write!(rest, ", {name}: {quote}{value}{quote}");
        }
        // A message may quote what a stranger sent: one message stays one line, and does nothing to a terminal.
        for c in rest.chars() {
            if c.is_control() {
                let _ = write!(out, "\\x{:02X}", c as u32);
            } else {
                out.push(c);
            }
        }
        out.push('\n');
        out
    }

    fn json(&self) -> String {
        let now = clock::now();
        let t = sys::local_time(now.unix_secs);
        let pid = rustix::process::getpid().as_raw_nonzero();
        let mut out = format!(
            "{{\"time\":\"{}.{:03}{}\",\"level\":\"{}\",\"pid\":{pid}",
            iso_seconds(&t),
            now.unix_millis,
            offset(&t, ":"),
            self.level.as_str(),
        );
        if let Some(id) = self.connection {
            let _ = write!(out, ",\"connection\":{id}");
        }
        let mut member = |name: &str, value: &str| {
            let mut escaped = Vec::with_capacity(value.len() + 8);
            crate::text::escape_json(value.as_bytes(), &mut escaped);
            let _ = write!(out, ",\"{name}\":\"{}\"", String::from_utf8_lossy(&escaped));
        };
        member("message", &self.message.to_string());
        self.about.iter().for_each(|(name, value, _)| member(name, value));
        out.push_str("}\n");
        out
    }
}

/// The colour of a level: what needs somebody is red, what deserves a look yellow.
fn color(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Emerg | LogLevel::Alert | LogLevel::Crit => "\x1b[1;31m",
        LogLevel::Error => "\x1b[31m",
        LogLevel::Warn => "\x1b[33m",
        LogLevel::Notice | LogLevel::Info => "\x1b[36m",
        LogLevel::Debug => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(format: Format) -> String {
        let mut entry = Entry::new(LogLevel::Error, Some(7), format_args!("open() \"/a\x1b\" failed"));
        entry.about("client", b"127.0.0.1", false);
        entry.about("request", b"GET /\"\n HTTP/1.1", true);
        entry.line(format)
    }

    #[test]
    fn a_stranger_ends_no_line_and_steers_no_terminal() {
        let line = entry(Format::Text);
        let pid = std::process::id();
        let want = format!(
            " [error] {pid}#{pid}: *7 open() \"/a\\x1B\" failed, client: 127.0.0.1, request: \"GET /\"\\x0A HTTP/1.1\"\n"
        );
        assert_eq!(line[19..], want);
        let line = entry(Format::Color);
        assert!(line.contains(" \x1b[31m[error]\x1b[0m "), "{line}");
        assert_eq!(line.matches('\x1b').count(), 2);
    }

    #[test]
    fn json_has_a_member_for_each_part() {
        let line = entry(Format::Json);
        let pid = std::process::id();
        let (time, rest) = line.split_once("\",\"level\"").unwrap();
        assert_eq!(time.len(), "{\"time\":\"2026-11-21T02:03:04.005+00:00".len(), "{time}");
        let want = format!(
            ":\"error\",\"pid\":{pid},\"connection\":7,\"message\":\"open() \\\"/a\\u001B\\\" failed\",\"client\":\"127.0.0.1\",\"request\":\"GET /\\\"\\n HTTP/1.1\"}}\n"
        );
        assert_eq!(rest, want);
    }
}
