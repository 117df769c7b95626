//! From TOML to a scenario. Everything that is wrong is told at once, each with file, line and remedy.

mod arrivals;
mod fields;
mod parts;

use super::keys::{self, Scope};
use super::model::{Check, Scenario, Stage, Step, User};
use super::tally::SESSIONS;
use super::template::Template;
use super::values::is_given;
use crate::client::{Url, Version};
use crate::limits::LENGTH_SECS_MAX;
use brisk_load::proxy::Proxy;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where nothing says otherwise.
const LENGTH: Duration = Duration::from_secs(10);

/// A table of the file.
type Node<'a> = &'a DeTable<'a>;

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, in bytes.
    pub span: Range<usize>,
    /// What.
    pub text: String,
    /// What to do.
    pub help: String,
}

/// Reads a file and what goes with it.
pub(super) struct Reader<'a> {
    folder: &'a Path,
    faults: Vec<Fault>,
}

/// Reads a scenario; the error holds all faults as text.
pub fn file(path: &str) -> Result<Scenario, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    self::text(&text, folder).map_err(|faults| show(path, &text, &faults))
}

/// Reads a scenario's text; files that it names are relative to `folder`.
pub fn text(text: &str, folder: &Path) -> Result<Scenario, Vec<Fault>> {
    let parsed = DeTable::parse(text).map_err(|error| {
        let help = "this is TOML: names = values, [tables], [[lists of tables]]".to_owned();
        vec![Fault { span: error.span().unwrap_or(0..0), text: error.message().to_owned(), help }]
    })?;
    let mut reader = Reader { folder, faults: Vec::new() };
    let scenario = reader.scenario(parsed.get_ref());
    if reader.faults.is_empty() { Ok(scenario) } else { Err(reader.faults) }
}

/// The faults as people like to see them.
pub fn show(path: &str, text: &str, faults: &[Fault]) -> String {
    let mut out = String::new();
    for fault in faults {
        let start =
            (0..=fault.span.start.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let before = &text[..start];
        let (line, column) =
            (before.matches('\n').count() + 1, before.chars().rev().take_while(|&c| c != '\n').count() + 1);
        let source = text.lines().nth(line - 1).unwrap_or_default();
        let length = fault.span.len().clamp(1, source.chars().count().saturating_sub(column - 1).max(1));
        let _ = write!(
            out,
            "{path}:{line}:{column}: {}\n{line:>4} | {source}\n     | {:>column$}{}\n     = help: {}\n",
            fault.text,
            '^',
            "^".repeat(length - 1),
            fault.help
        );
    }
    out.trim_end().to_owned()
}

impl Reader<'_> {
    fn fault(&mut self, span: Range<usize>, text: impl Into<String>, help: impl Into<String>) {
        self.faults.push(Fault { span, text: text.into(), help: help.into() });
    }

    /// Tells of a key of the scenario that `[[stage]]` takes the place of.
    fn meaningless_beside_stages(&mut self, name: &str, span: Range<usize>) {
        self.fault(span, format!("\"{name}\" has no meaning beside [[stage]]"), "leave one of them out");
    }

    /// Tells of keys that do not exist.
    fn known(&mut self, node: Node<'_>, scope: Scope) {
        for (name, _) in node {
            let text = name.get_ref().as_ref();
            if keys::of(scope).any(|key| key.name == text) {
                continue;
            }
            let help = match keys::nearest(scope, text) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => {
                    let all: Vec<&str> = keys::of(scope).map(|key| key.name).collect();
                    format!("known here: {}", all.join(", "))
                }
            };
            self.fault(name.span(), format!("unknown key \"{text}\""), help);
        }
    }

    fn scenario(&mut self, root: Node<'_>) -> Scenario {
        self.known(root, Scope::Root);
        let mut scenario = Scenario::empty();
        if let Some((span, target)) = self.text(root, "target") {
            match Url::parse(&target) {
                Ok(url) => scenario.target = Some(url),
                Err(error) => self.fault(span, error.to_string(), "write http://host:port or https://host"),
            }
        }
        if let Some((span, proxy)) = self.text(root, "proxy") {
            match Proxy::parse(&proxy) {
                Ok(proxy) => scenario.proxy = Some(proxy),
                Err(error) => self.fault(span, error, "write http://host:port"),
            }
        }
        scenario.version = match self.one_of(root, Scope::Root, "http") {
            Some("1.1") => Version::H1,
            Some("2") => Version::H2,
            _ => Version::Any,
        };
        scenario.insecure = self.bool(root, "insecure").unwrap_or(false);
        scenario.redirects = self.bool(root, "redirects").unwrap_or(true);
        scenario.timeout = self.span(root, "timeout").unwrap_or(Duration::from_secs(30));
        scenario.iterations = self.count(root, Scope::Root, "iterations");
        scenario.headers = self.headers(root);
        scenario.variables =
            self.pairs(root, "variables").into_iter().map(|(_, name, value)| (name, value)).collect();
        if let Some(arrivals) = self.arrivals(root) {
            scenario.arrivals = Some(arrivals);
            scenario.stages = self.present_stages(root);
        }
        scenario.data = self.data(root);
        scenario.users = self.users(root);
        if scenario.has_own_stages() {
            self.only_own_stages(root, &scenario);
        } else if scenario.arrivals.is_none() {
            scenario.stages = self.stages(root);
        }
        scenario.thresholds = self.thresholds(root);
        scenario.replay = self.replay(root);
        self.whole(root, &scenario);
        scenario
    }

    /// What no key is wrong by itself for.
    fn whole(&mut self, root: Node<'_>, scenario: &Scenario) {
        let at = |name: &str| find(root, name).map_or(0..0, Spanned::span);
        let first = |span: Range<usize>| span.start..span.start;
        match (find(root, "replay"), find(root, "user")) {
            (None, None) => {
                self.fault(0..0, "there are no users", "write at least one [[user]] with a [[user.step]]");
            }
            (Some(_), Some(user)) => {
                self.fault(first(user.span()), "a replay has no users", "leave out [[user]] or [replay]");
            }
            (Some(replay), None) if scenario.target.is_none() && find(root, "target").is_none() => {
                let help = "write target = \"http://host:port\"";
                self.fault(first(replay.span()), "a replay needs a target", help);
            }
            _ => {}
        }
        if scenario.length() > Duration::from_secs(LENGTH_SECS_MAX) {
            self.fault(at("stage"), "a run of more than a week", "shorten the stages");
        }
        if find(root, "stage").is_some() && scenario.arrivals.is_none() && self.faults.is_empty() {
            let stages = first(at("stage"));
            if scenario.length().is_zero() {
                self.fault(stages, "stages that take no time", "write over = \"10s\" or hold = \"1m\"");
            } else if scenario.users_max() == 0 {
                self.fault(stages, "stages without a user", "write users = 50 in one of them");
            }
        }
        self.names(root, scenario);
        for threshold in &scenario.thresholds {
            let Some(of) = threshold.of.as_ref().filter(|of| scenario.arrivals.is_none() || *of != SESSIONS)
            else {
                continue;
            };
            let mut steps = scenario.users.iter().flat_map(User::all_steps);
            let is_of =
                |step: &Step| step.name == *of || step.group.as_ref() == Some(of) || step.tags.contains(of);
            if scenario.replay.is_none() && !steps.any(is_of) {
                let list = find(root, "thresholds").and_then(|value| value.get_ref().as_array());
                let text = threshold.to_string();
                let item = list
                    .and_then(|list| list.iter().find(|item| item.get_ref().as_str() == Some(text.as_str())));
                self.fault(
                    item.map_or(0..0, Spanned::span),
                    format!("no step and no group is called \"{of}\""),
                    "use the name of a step, group or tag",
                );
            }
        }
    }

    /// Values that nobody gives.
    fn names(&mut self, root: Node<'_>, scenario: &Scenario) {
        let list = |name: &str| find(root, name).and_then(|list| list.get_ref().as_array());
        if list("data").is_some_and(|data| data.len() > scenario.data.len()) {
            // A file that could not be read has been named: what it would give is not known.
            return;
        }
        let nodes = list("user");
        for (at, user) in scenario.users.iter().enumerate() {
            let steps = || user.all_steps();
            let blocks = user.blocks();
            let terms = || steps().map(|step| &step.terms).chain(blocks.iter().map(|block| &block.terms));
            let conditions = || terms().flat_map(|terms| terms.when.iter().chain(&terms.unless));
            let known = |name: &str| {
                let (table, column) = name.split_once('.').unwrap_or(("", name));
                scenario.variables.iter().any(|(have, _)| have == name)
                    || steps().any(|step| step.save.iter().any(|(have, _)| have == name))
                    || scenario.data.iter().any(|data| {
                        data.name == table && data.table.columns.iter().any(|have| have == column)
                    })
                    || is_given(name)
            };
            let all = scenario.headers.iter().map(|(_, value)| value);
            let own = steps().flat_map(|step| {
                let headers = step.headers.iter().map(|(_, value)| value);
                let checks = step.checks.iter().filter_map(Check::template);
                headers.chain([&step.url]).chain(step.body.templates()).chain(checks)
            });
            let own = own.chain(conditions().map(|(_, value)| value));
            let asked = conditions().map(|(name, _)| name.as_str());
            let mut missing: Vec<&str> =
                all.chain(own).flat_map(Template::names).chain(asked).filter(|name| !known(name)).collect();
            missing.sort_unstable();
            missing.dedup();
            for name in missing {
                let in_user = nodes.and_then(|nodes| place_of(nodes.get(at)?, name));
                let in_headers = || find(root, "headers").and_then(|headers| place_of(headers, name));
                let help = "save it in a step, set it in [variables], or name a column of [[data]]";
                self.fault(
                    in_user.or_else(in_headers).unwrap_or(0..0),
                    format!("user \"{}\": nothing gives the value {{{{{name}}}}}", user.name),
                    help,
                );
            }
        }
    }

    /// Where kinds of users come and go each by itself, nothing else says how many there are.
    fn only_own_stages(&mut self, root: Node<'_>, scenario: &Scenario) {
        for name in ["users", "ramp", "duration", "stage", "arrivals"] {
            if let Some(value) = find(root, name) {
                let help = "leave it out, or the stages of kinds of users";
                self.fault(
                    value.span(),
                    format!("\"{name}\" has no meaning beside stages of [[user]]"),
                    help,
                );
            }
        }
        if let Some(user) = scenario.users.iter().find(|user| user.stages.is_empty()) {
            let span = find(root, "user").map_or(0..0, Spanned::span);
            let text = format!("user \"{}\" has no stages, and others have", user.name);
            self.fault(
                span.start..span.start,
                text,
                "write [[user.stage]] for all kinds of users, or for none",
            );
        } else if scenario.length().is_zero() || scenario.present_max() == 0 {
            let span = find(root, "user").map_or(0..0, Spanned::span);
            let help = "write users = 50 and hold = \"1m\" in one of them";
            self.fault(span.start..span.start, "stages without a user, or without time", help);
        }
    }

    fn stages(&mut self, root: Node<'_>) -> Vec<Stage> {
        let users = self.count(root, Scope::Root, "users");
        let (ramp, duration) = (self.time(root, "ramp"), self.span(root, "duration"));
        if find(root, "stage").is_none() {
            let over = ramp.unwrap_or_default();
            if let (Some(value), Some(duration)) = (find(root, "ramp"), duration)
                && over > duration
            {
                let help = "the duration includes the ramp: make it longer, or the ramp shorter";
                self.fault(value.span(), "a ramp that is longer than the duration", help);
            }
            let hold = duration.unwrap_or(LENGTH.max(over)).saturating_sub(over);
            return vec![Stage { users: users.unwrap_or(1) as usize, over, hold }];
        }
        for name in ["users", "ramp", "duration"] {
            if let Some(value) = find(root, name) {
                self.meaningless_beside_stages(name, value.span());
            }
        }
        let mut stages = Vec::new();
        for (span, node) in self.tables(root, "stage") {
            self.known(node, Scope::Stage);
            let users = self.count(node, Scope::Stage, "users").unwrap_or(0) as usize;
            if find(node, "users").is_none() {
                self.fault(span, "a stage without users", "write users = 50");
            }
            let (over, hold) = (self.time(node, "over"), self.time(node, "hold"));
            stages.push(Stage { users, over: over.unwrap_or_default(), hold: hold.unwrap_or_default() });
        }
        stages
    }
}

/// Where a text stands that takes this value.
fn place_of(value: &Spanned<DeValue<'_>>, name: &str) -> Option<Range<usize>> {
    match value.get_ref() {
        DeValue::String(text) => {
            let template = Template::parse(text).ok()?;
            template.names().any(|have| have == name).then(|| value.span())
        }
        DeValue::Array(list) => list.iter().find_map(|item| place_of(item, name)),
        DeValue::Table(table) => table.iter().find_map(|(_, value)| place_of(value, name)),
        _ => None,
    }
}

impl Scenario {
    /// Nothing yet.
    pub fn empty() -> Self {
        Self {
            target: None,
            version: Version::Any,
            resolve: Vec::new(),
            proxy: None,
            network: None,
            insecure: false,
            timeout: Duration::from_secs(30),
            redirects: true,
            headers: Vec::new(),
            variables: Vec::new(),
            data: Vec::new(),
            stages: Vec::new(),
            arrivals: None,
            iterations: None,
            users: Vec::new(),
            thresholds: Vec::new(),
            replay: None,
        }
    }
}

/// The value of a key.
fn find<'a>(node: Node<'a>, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
    node.iter().find(|(have, _)| have.get_ref().as_ref() == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
