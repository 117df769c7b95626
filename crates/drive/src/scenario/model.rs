//! What a scenario is: pure data.

use super::data::Table;
use super::extract::Source;
use super::template::{Escape, Template, form};
use super::threshold::Threshold;
use crate::client::{Network, Url, Version};
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
    /// Each user's access to the network; None for what the machine has.
    pub network: Option<Network>,
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
    /// Leaves only steps with one of the tags `only`, if there are any, and none with one of `without`. The error says what is left.
    pub fn choose(&mut self, only: &[String], without: &[String]) -> Result<(), String> {
        if only.is_empty() && without.is_empty() {
            return Ok(());
        }
        let known =
            |tag: &String| self.users.iter().flat_map(User::all_steps).any(|step| step.tags.contains(tag));
        if let Some(tag) = only.iter().chain(without).find(|tag| !known(tag)) {
            return Err(format!("no step has the tag \"{tag}\""));
        }
        for user in &mut self.users {
            let is_chosen = |step: &Step| {
                (only.is_empty() || step.tags.iter().any(|tag| only.contains(tag)))
                    && !step.tags.iter().any(|tag| without.contains(tag))
            };
            let (start, steps) = (&user.start, &user.steps);
            keep(&mut user.start_acts, &|at| is_chosen(&start[at]));
            keep(&mut user.acts, &|at| is_chosen(&steps[at]));
        }
        self.users.retain(|user| !user.acts.is_empty());
        if self.users.is_empty() {
            Err("no step is left: see --tags and --exclude-tags".to_owned())
        } else {
            Ok(())
        }
    }

    /// How long it takes at most.
    pub fn length(&self) -> Duration {
        let sum = |stages: &[Stage]| stages.iter().map(|stage| stage.over + stage.hold).sum::<Duration>();
        let arrivals = self.arrivals.as_ref().map_or(Duration::ZERO, |arrivals| arrivals.schedule.length());
        let own = self.users.iter().map(|user| sum(&user.stages)).max().unwrap_or_default();
        arrivals.max(own).max(sum(&self.stages))
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
            let mut stage = |name: &str, Stage { users, over, hold }: &Stage| {
                let reached = if over.is_zero() { "at once".to_owned() } else { format!("in {over:?}") };
                row(name, format!("{users} users, reached {reached}, held for {hold:?}"));
            };
            self.stages.iter().for_each(|each| stage("stage", each));
            for user in &self.users {
                user.stages.iter().for_each(|each| stage(&format!("stage of {}", user.name), each));
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
            Version::H3 => "HTTP/3",
        };
        row("protocol", version.to_owned());
        row("certificates", if self.insecure { "any is taken" } else { "are verified" }.to_owned());
        row("redirects", if self.redirects { "are followed" } else { "are not followed" }.to_owned());
        rows
    }

    /// Whether there are moments without a request of a user: a think time follows a step, or a number of rounds ends the user. Arrivals and a log have no
    /// fixed number of users.
    pub fn has_pauses(&self) -> bool {
        let pauses = |user: &User| {
            user.think.is_some()
                || user.iterations.is_some()
                || user.all_steps().any(|step| step.think.is_some())
        };
        self.arrivals.is_some()
            || self.replay.is_some()
            || self.iterations.is_some()
            || self.users.iter().any(pauses)
    }

    /// The most users at a time.
    pub fn users_max(&self) -> usize {
        self.arrivals.as_ref().map_or(0, |arrivals| arrivals.users_max) + self.present_max()
    }

    /// The most users at a time who do not arrive, but are there. With stages of their own, kinds are numbered one behind the other.
    pub fn present_max(&self) -> usize {
        if self.has_own_stages() {
            self.users.iter().map(|user| most(&user.stages)).sum()
        } else {
            most(&self.stages)
        }
    }

    /// Whether kinds of users come and go each by itself.
    pub fn has_own_stages(&self) -> bool {
        self.users.iter().any(|user| !user.stages.is_empty())
    }

    /// Takes away the stages that kinds of users have of their own. What remains of them is how many users are of which kind.
    pub fn forget_own_stages(&mut self) {
        if self.has_own_stages() {
            for user in &mut self.users {
                let most = most(&std::mem::take(&mut user.stages));
                user.weight = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
            }
        }
    }

    /// The kind of the user of this number, where kinds have stages of their own, and the place within that kind.
    pub fn own_place(&self, number: usize) -> Option<(usize, usize)> {
        let mut left = number;
        for (kind, user) in self.users.iter().enumerate() {
            match left.checked_sub(most(&user.stages)) {
                Some(rest) => left = rest,
                None => return Some((kind, left)),
            }
        }
        None
    }

    /// When the user of this number (from 0) is there: from, to.
    pub fn presence(&self, number: usize) -> Vec<(Duration, Duration)> {
        match self.own_place(number) {
            Some((kind, place)) => presence(&self.users[kind].stages, place),
            None => presence(&self.stages, number),
        }
    }
}

fn most(stages: &[Stage]) -> usize {
    stages.iter().map(|stage| stage.users).max().unwrap_or(0)
}

/// When the user of this number is there, of as many as the stages say.
fn presence(stages: &[Stage], number: usize) -> Vec<(Duration, Duration)> {
    let mut spans = Vec::new();
    let (mut now, mut before, mut since) = (Duration::ZERO, 0, None);
    for stage in stages {
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
    /// All requests that are made once, when the user comes.
    pub start: Vec<Step>,
    /// In which order.
    pub start_acts: Vec<Act>,
    /// All requests that are made again and again.
    pub steps: Vec<Step>,
    /// In which order.
    pub acts: Vec<Act>,
    /// How many of this kind there are when; empty: as the scenario says.
    pub stages: Vec<Stage>,
    /// Rounds after which one of this kind is done; `None`: as the scenario says.
    pub iterations: Option<u64>,
}

impl User {
    /// All of its requests.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.start.iter().chain(&self.steps)
    }

    /// All of its blocks, those inside of others included.
    pub fn blocks(&self) -> Vec<&Block> {
        fn add<'a>(acts: &'a [Act], found: &mut Vec<&'a Block>) {
            for act in acts {
                if let Act::Block(block) = act {
                    found.push(block);
                    add(&block.acts, found);
                }
            }
        }
        let mut found = Vec::new();
        add(&self.start_acts, &mut found);
        add(&self.acts, &mut found);
        found
    }
}

/// What a user does next.
#[derive(Debug)]
pub enum Act {
    /// The step of this place in the list.
    Step(usize),
    /// Several, as one.
    Block(Block),
}

/// Leaves only acts with steps that are chosen.
fn keep(acts: &mut Vec<Act>, is_chosen: &dyn Fn(usize) -> bool) {
    acts.retain_mut(|act| match act {
        Act::Step(at) => is_chosen(*at),
        Act::Block(block) => {
            keep(&mut block.acts, is_chosen);
            !block.acts.is_empty()
        }
    });
}

/// Acts that are taken, repeated or left out together.
#[derive(Debug)]
pub struct Block {
    /// Whether and how often.
    pub terms: Terms,
    /// One of them is drawn by weight each time, not all are taken in order.
    pub random: bool,
    /// What it holds.
    pub acts: Vec<Act>,
}

/// Whether and how often something is done.
#[derive(Debug)]
pub struct Terms {
    /// Among those that are drawn.
    pub weight: u32,
    /// So many times, one after the other.
    pub repeat: u64,
    /// The share of times that it is done at all, from 0 to 1.
    pub chance: f64,
    /// Values of the user that must be these; else it is left out.
    pub when: Vec<(String, Template)>,
    /// It is left out where all these values of the user are these.
    pub unless: Vec<(String, Template)>,
}

/// One request and what is done with its answer.
#[derive(Debug)]
pub struct Step {
    /// In reports.
    pub name: String,
    /// Steps of one group are also summed up together.
    pub group: Option<String>,
    /// Steps with the same tag are also summed up together, and chosen or left out together.
    pub tags: Vec<String>,
    /// Whether and how often it is taken.
    pub terms: Terms,
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
    /// What these values are where the answer has none; without it the step fails.
    pub otherwise: Vec<(String, String)>,
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

/// What an answer must be like.
#[derive(Debug)]
pub enum Check {
    /// One of these statuses.
    Status(Vec<u16>),
    /// The body holds this.
    Contains(Template),
    /// The body does not hold this.
    Lacks(Template),
    /// The body matches.
    Matches(regex::bytes::Regex),
    /// This value is the same.
    Equal(Source, Template),
    /// It took no longer.
    Within(Duration),
}

impl Step {
    /// Whether something is looked for in the body of its answer.
    pub fn looks_into_body(&self) -> bool {
        self.save.iter().any(|(_, source)| source.is_in_body()) || self.checks.iter().any(Check::is_of_body)
    }
}

impl Check {
    fn is_of_body(&self) -> bool {
        match self {
            Self::Contains(_) | Self::Lacks(_) | Self::Matches(_) => true,
            Self::Equal(source, _) => source.is_in_body(),
            Self::Status(_) | Self::Within(_) => false,
        }
    }

    /// Where values go.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Contains(text) | Self::Lacks(text) | Self::Equal(_, text) => Some(text),
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

    #[test]
    fn kinds_with_stages_of_their_own_come_and_go_by_themselves() {
        let secs = Duration::from_secs;
        let user = |users, hold| User {
            name: String::new(),
            weight: 1,
            think: None,
            random: false,
            start: Vec::new(),
            start_acts: Vec::new(),
            steps: Vec::new(),
            acts: Vec::new(),
            stages: vec![Stage { users, over: Duration::ZERO, hold: secs(hold) }],
            iterations: None,
        };
        let own = Scenario { users: vec![user(2, 5), user(3, 9)], ..Scenario::empty() };
        assert_eq!((own.present_max(), own.length()), (5, secs(9)));
        assert_eq!(
            [1, 2, 4, 5].map(|number| own.own_place(number)),
            [Some((0, 1)), Some((1, 0)), Some((1, 2)), None]
        );
        assert_eq!(own.presence(1), [(secs(0), secs(5))]);
        assert_eq!(own.presence(4), [(secs(0), secs(9))]);
    }
}
