//! What a scenario is: pure data.

use super::data::Table;
use super::extract::Source;
use super::template::{Template, form};
use super::threshold::Threshold;
use crate::client::{Url, Version};
use brisk_load::arrivals::{Distribution, Schedule};
use brisk_load::plan::{Resolve, Think};
use brisk_load::proxy::Proxy;
use brisk_load::request::{FormField, multipart};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A whole file.
#[derive(Debug)]
pub struct Scenario {
    /// What paths are relative to.
    pub target: Option<Url>,
    /// What is spoken.
    pub version: Version,
    /// Where names are, in place of look-ups.
    pub resolve: Vec<Resolve>,
    /// What requests go through.
    pub proxy: Option<Proxy>,
    /// Any certificate is taken.
    pub insecure: bool,
    /// The longest wait for a response.
    pub timeout: Duration,
    /// Redirects are followed.
    pub redirects: bool,
    /// Sent with each request.
    pub headers: Vec<(String, Template)>,
    /// Values that every user begins with.
    pub variables: Vec<(String, String)>,
    /// Rows of CSV files.
    pub data: Vec<Data>,
    /// How many users there are when; empty if they arrive.
    pub stages: Vec<Stage>,
    /// Users arrive, whatever becomes of those before, and go when they are done.
    pub arrivals: Option<Arrivals>,
    /// Rounds after which a user is done.
    pub iterations: Option<u64>,
    /// Kinds of users; empty only for a replay.
    pub users: Vec<User>,
    /// What must hold in the end.
    pub thresholds: Vec<Threshold>,
    /// A log to be played again, in place of users.
    pub replay: Option<Replay>,
}

impl Scenario {
    /// How long it takes at most.
    pub fn length(&self) -> Duration {
        match &self.arrivals {
            Some(arrivals) => arrivals.schedule.length(),
            None => self.stages.iter().map(|stage| stage.over + stage.hold).sum(),
        }
    }

    /// What was asked for, as names and values for people.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
        if let Some(replay) = &self.replay {
            row("log", replay.log.display().to_string());
            row("speed", replay.speed.to_string());
            row("connections", replay.connections.to_string());
        } else {
            if let Some(Arrivals { distribution, schedule, users_max }) = &self.arrivals {
                let how = match distribution {
                    Distribution::Constant => "evenly",
                    Distribution::Poisson => "independently of each other (Poisson)",
                };
                let (count, length) = (schedule.arrivals(), schedule.length());
                row(
                    "arrivals",
                    format!("{count:.0} users within {length:?}, {how}; {users_max} at a time at most"),
                );
            }
            for Stage { users, over, hold } in &self.stages {
                row("stage", format!("{users} users, reached in {over:?}, held for {hold:?}"));
            }
            if let Some(iterations) = self.iterations {
                row("iterations", iterations.to_string());
            }
        }
        for user in &self.users {
            let order = if user.random { "drawn by weight" } else { "in turn" };
            let (start, steps) = (user.start.len(), user.steps.len());
            row(
                "users",
                format!("{}: weight {}, {start} steps at the start, {steps} {order}", user.name, user.weight),
            );
        }
        row("timeout", format!("{:?}", self.timeout));
        let version = match self.version {
            Version::Any => "HTTP/2 where TLS agrees on it, else HTTP/1.1",
            Version::H1 => "HTTP/1.1",
            Version::H2 => "HTTP/2",
        };
        row("protocol", version.to_owned());
        row("certificates", if self.insecure { "any is taken" } else { "are verified" }.to_owned());
        row("redirects", if self.redirects { "are followed" } else { "are not followed" }.to_owned());
        rows
    }

    /// The most users at a time.
    pub fn users_max(&self) -> usize {
        match &self.arrivals {
            Some(arrivals) => arrivals.users_max,
            None => self.stages.iter().map(|stage| stage.users).max().unwrap_or(0),
        }
    }

    /// When the user of this number (from 0) is there: from, to.
    pub fn presence(&self, number: usize) -> Vec<(Duration, Duration)> {
        let mut spans = Vec::new();
        let (mut now, mut before, mut since) = (Duration::ZERO, 0, None);
        for stage in &self.stages {
            let (from, to) = (before.min(stage.users), before.max(stage.users));
            // In a ramp users come and go one by one, evenly.
            let step = |place: usize| stage.over.mul_f64(place as f64 / (to - from).max(1) as f64);
            if stage.users > before && (from..to).contains(&number) {
                since = Some(now + step(number - from));
            } else if stage.users < before && (from..to).contains(&number) {
                spans.extend(since.take().map(|since| (since, now + step(to - number))));
            }
            now += stage.over + stage.hold;
            before = stage.users;
        }
        spans.extend(since.map(|since| (since, now)));
        spans
    }
}

/// How users arrive.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrivals {
    /// How they lie around the moments that their rate gives them.
    pub distribution: Distribution,
    /// Users per second, and for how long.
    pub schedule: Schedule,
    /// Users at a time, at most: who arrives beyond it counts as not sent.
    pub users_max: usize,
}

/// A stretch of time: a ramp from as many users as there were, then a plateau.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// So many at the end of the ramp.
    pub users: usize,
    /// The ramp.
    pub over: Duration,
    /// The plateau.
    pub hold: Duration,
}

/// Rows that users take values from: `{{name.column}}`.
#[derive(Debug)]
pub struct Data {
    /// The name.
    pub name: String,
    /// The rows.
    pub table: Table,
    /// A random row each time, not the next.
    pub random: bool,
}

/// A kind of user.
#[derive(Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// How many of all users are of this kind, against the others' weights.
    pub weight: u32,
    /// After each step that says nothing else.
    pub think: Option<Think>,
    /// Steps are drawn by their weights, one per round, not taken in order.
    pub random: bool,
    /// Taken once, when the user comes.
    pub start: Vec<Step>,
    /// Taken again and again.
    pub steps: Vec<Step>,
}

/// One request and what is done with its answer.
#[derive(Debug)]
pub struct Step {
    /// In reports.
    pub name: String,
    /// Steps of one group are also summed up together.
    pub group: Option<String>,
    /// Among steps that are drawn.
    pub weight: u32,
    /// Taken so many times, one after the other.
    pub repeat: u64,
    /// The share of times that it is taken at all, from 0 to 1.
    pub chance: f64,
    /// Values of the user that must be these; else it is left out.
    pub when: Vec<(String, Template)>,
    /// The method.
    pub method: String,
    /// A path on the target, or a whole URL.
    pub url: Template,
    /// Beside the scenario's own.
    pub headers: Vec<(String, Template)>,
    /// What is sent.
    pub body: Body,
    /// Values to remember.
    pub save: Vec<(String, Source)>,
    /// What the answer must be like.
    pub checks: Vec<Check>,
    /// After it.
    pub think: Option<Think>,
}

/// What a step sends.
#[derive(Debug)]
pub enum Body {
    /// Nothing.
    None,
    /// A text, and how values are put into it.
    Text(Template, Escape),
    /// The fields of a form (URL Standard §5.2).
    Form(Vec<(String, Template)>),
    /// A form with files (RFC 7578).
    Multipart(Vec<(String, Template)>, Vec<FormField>),
    /// A file as it is.
    File(Arc<[u8]>),
}

impl Body {
    /// Where values go.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (text, fields) = match self {
            Self::None | Self::File(_) => (None, &[][..]),
            Self::Text(text, _) => (Some(text), &[][..]),
            Self::Form(fields) | Self::Multipart(fields, _) => (None, &fields[..]),
        };
        text.into_iter().chain(fields.iter().map(|(_, value)| value))
    }

    /// The body with its values, and its `Content-Type` if that follows from it; the name of the first value that is
    /// missing is the error.
    pub fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<(Vec<u8>, Option<String>), String> {
        let filled = |fields: &[(String, Template)]| -> Result<Vec<(String, String)>, String> {
            fields.iter().map(|(name, text)| Ok((name.clone(), text.fill(Escape::None, value)?))).collect()
        };
        Ok(match self {
            Self::None => (Vec::new(), None),
            Self::Text(text, escape) => (text.fill(*escape, value)?.into_bytes(), None),
            Self::Form(fields) => {
                let pairs = filled(fields)?;
                let pairs: Vec<String> =
                    pairs.iter().map(|(name, value)| format!("{}={}", form(name), form(value))).collect();
                (pairs.join("&").into_bytes(), None)
            }
            Self::Multipart(fields, files) => {
                let field = |(name, value): (String, String)| FormField {
                    name,
                    file_name: None,
                    value: value.into_bytes(),
                };
                let mut parts: Vec<FormField> = filled(fields)?.into_iter().map(field).collect();
                parts.extend(files.iter().cloned());
                let (kind, body) = multipart(&parts);
                (body, Some(kind))
            }
            Self::File(bytes) => (bytes.to_vec(), None),
        })
    }
}

/// How values are put into a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// As they are.
    None,
    /// For a JSON string.
    Json,
}

/// What an answer must be like.
#[derive(Debug)]
pub enum Check {
    /// One of these statuses.
    Status(Vec<u16>),
    /// The body holds this.
    Contains(Template),
    /// The body matches.
    Matches(regex::bytes::Regex),
    /// This value is the same.
    Equal(Source, Template),
    /// It took no longer.
    Within(Duration),
}

impl Check {
    /// Where values go.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Contains(text) | Self::Equal(_, text) => Some(text),
            Self::Status(_) | Self::Matches(_) | Self::Within(_) => None,
        }
    }
}

/// A log to be played again.
#[derive(Debug, Clone)]
pub struct Replay {
    /// In the common or combined format.
    pub log: PathBuf,
    /// 2 is twice as fast.
    pub speed: f64,
    /// Requests under way at most; what is due then counts as not sent.
    pub connections: usize,
    /// Lines that are read.
    pub lines_max: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(stages: &[(usize, u64, u64)]) -> Scenario {
        let secs = Duration::from_secs;
        let stages = stages
            .iter()
            .map(|&(users, over, hold)| Stage { users, over: secs(over), hold: secs(hold) })
            .collect();
        Scenario { stages, ..Scenario::empty() }
    }

    #[test]
    fn users_come_and_go_with_the_ramps() {
        let secs = Duration::from_secs;
        let scenario = scenario(&[(10, 10, 5), (4, 6, 0), (10, 0, 10)]);
        assert_eq!(scenario.presence(0), [(secs(0), secs(31))]);
        assert_eq!(scenario.presence(5), [(secs(5), secs(15 + 5)), (secs(21), secs(31))]);
        assert_eq!(scenario.presence(9), [(secs(9), secs(16)), (secs(21), secs(31))]);
        assert_eq!(scenario.presence(10), []);
        assert_eq!((scenario.length(), scenario.users_max()), (secs(31), 10));
    }
}
