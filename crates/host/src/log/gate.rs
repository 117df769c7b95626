//! What passes to an error log besides its level: `filter=` and `rate=`, as Angie has them (nginx mainline has neither).

use super::entry::{Entry, Format};
use super::level::LogLevel;
use crate::regex::Adhoc;
use brisk_net::clock;
use std::sync::Mutex;

/// The filters and the rate of one `error_log`.
#[derive(Default)]
pub struct Gate {
    /// All must match.
    pub filters: Vec<Filter>,
    /// `rate=`.
    pub limit: Option<Limit>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate of {} filters", self.filters.len())
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It is written.
    Write,
    /// Instead of this one and those to come: that there are too many.
    Announce,
    /// It is not written.
    Drop,
}

/// `filter=PART:PATTERN`.
pub struct Filter {
    part: Part,
    pattern: Pattern,
}

enum Part {
    /// The message alone.
    Message,
    /// The whole line.
    Line,
    /// One of the values behind the message.
    Field(&'static str),
}

/// The values behind messages.
const FIELDS: [&str; 6] = ["client", "server", "request", "upstream", "host", "referrer"];

enum Pattern {
    Contains(Box<str>),
    Is(Box<str>),
    Regex(Adhoc),
}

impl Filter {
    /// Reads `message:text`, `client:=text`, `logline:~regex`. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let Some((part, pattern)) = text.split_once(':') else {
            return Err(format!("missing filter type in \"{text}\""));
        };
        let part = match part {
            "message" => Part::Message,
            "logline" => Part::Line,
            name => match FIELDS.iter().find(|have| **have == name) {
                Some(name) => Part::Field(name),
                None => return Err(format!("unknown filter type \"{name}\"")),
            },
        };
        let pattern = match pattern.as_bytes() {
            [] | [b'=' | b'~'] => return Err(format!("empty filter pattern \"{text}\"")),
            [b'=', ..] => Pattern::Is(pattern[1..].into()),
            [b'~', ..] => Pattern::Regex(Adhoc::compile(&pattern[1..])?),
            _ => Pattern::Contains(pattern.into()),
        };
        Ok(Filter { part, pattern })
    }

    /// What [`Filter::parse`] takes.
    pub fn help() -> String {
        format!(
            "write filter=message:PATTERN, logline:PATTERN or one of {}; =PATTERN is the whole, ~PATTERN a regex",
            FIELDS.join(", ")
        )
    }

    fn matches(&self, entry: &Entry<'_>) -> bool {
        match self.part {
            Part::Message => self.pattern.matches(&entry.message()),
            Part::Line => self.pattern.matches(entry.line(Format::Text).trim_end_matches('\n')),
            Part::Field(name) => entry.field(name).is_some_and(|value| self.pattern.matches(value)),
        }
    }
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Contains(part) => text.contains(&**part),
            Pattern::Is(whole) => text == &**whole,
            // Where the engine gives up, the message is written rather than lost.
            Pattern::Regex(regex) => regex.groups(text.as_bytes()).map_or(true, |found| found.is_some()),
        }
    }
}

/// `rate=`: a bucket that leaks so many messages a second. More urgent messages find a deeper one.
pub struct Limit {
    per_second: u64,
    /// Of the `error_log`.
    level: LogLevel,
    state: Mutex<Excess>,
}

#[derive(Default)]
struct Excess {
    /// In thousandths of a message.
    amount: u64,
    at_ms: u64,
    announced: bool,
}

impl Limit {
    /// So many messages a second of this level and less urgent ones; each level that is more urgent has as many again.
    pub fn new(per_second: u64, level: LogLevel) -> Limit {
        Limit { per_second, level, state: Mutex::default() }
    }

    fn passage(&self, level: LogLevel, now_ms: u64) -> Passage {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let leaked = self.per_second.saturating_mul(now_ms.saturating_sub(state.at_ms));
        let amount = state.amount.saturating_sub(leaked).saturating_add(1000);
        let steps = (self.level as u64).saturating_sub(level as u64) + 1;
        if amount > steps.saturating_mul(self.per_second).saturating_mul(1000) {
            return if std::mem::replace(&mut state.announced, true) {
                Passage::Drop
            } else {
                Passage::Announce
            };
        }
        // Urgent messages in the room that only they have do not end what was announced.
        let announced = state.announced && amount > self.per_second.saturating_mul(1000);
        *state = Excess { amount, at_ms: now_ms, announced };
        Passage::Write
    }
}

impl Gate {
    /// Whether a message is written.
    pub fn passage(&self, entry: &Entry<'_>) -> Passage {
        if !self.filters.iter().all(|filter| filter.matches(entry)) {
            return Passage::Drop;
        }
        self.limit.as_ref().map_or(Passage::Write, |limit| limit.passage(entry.level, clock::mono_ms()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_look_at_message_line_and_values() {
        let check = |filters: &[&str], want: bool| {
            let filters = filters.iter().map(|text| Filter::parse(text).unwrap()).collect();
            let gate = Gate { filters, limit: None };
            let mut entry = Entry::new(LogLevel::Error, Some(7), format_args!("open() failed"));
            entry.about("client", b"127.0.0.1", false);
            assert_eq!(gate.passage(&entry) == Passage::Write, want);
        };
        check(&[], true);
        check(&["message:open"], true);
        check(&["message:=open"], false);
        check(&["message:=open() failed"], true);
        check(&["message:client"], false);
        check(&["logline:client"], true);
        check(&["logline:~\\[error\\].*\\*7 "], true);
        check(&["client:~^127\\."], true);
        check(&["client:=127.0.0.2"], false);
        check(&["host:a"], false);
        check(&["message:open", "client:10."], false);
    }

    #[test]
    fn broken_filters_are_refused() {
        let said = |text: &str| Filter::parse(text).err().unwrap();
        assert_eq!(said("open"), "missing filter type in \"open\"");
        assert_eq!(said("tag:x"), "unknown filter type \"tag\"");
        assert_eq!(said("message:"), "empty filter pattern \"message:\"");
        assert_eq!(said("message:~"), "empty filter pattern \"message:~\"");
        assert!(Filter::parse("message:~(").is_err());
    }

    #[test]
    fn too_many_messages_are_announced_once_and_then_dropped() {
        let limit = Limit::new(2, LogLevel::Warn);
        let some = |level, now, count| (0..count).map(|_| limit.passage(level, now)).collect::<Vec<_>>();
        use Passage::{Announce, Drop, Write};
        assert_eq!(some(LogLevel::Warn, 0, 5), [Write, Write, Announce, Drop, Drop]);
        // Errors have room for twice as many.
        assert_eq!(some(LogLevel::Error, 0, 3), [Write, Write, Drop]);
        assert_eq!(some(LogLevel::Warn, 1500, 3), [Write, Announce, Drop]);
        assert_eq!(some(LogLevel::Warn, 60_000, 3), [Write, Write, Announce]);
    }
}
