//! JMeter's test plans. What a plan says and a scenario cannot is refused by line; what is not quite the same is a note.

mod answer;
mod condition;
mod groups;
mod sampler;
mod timer;
mod tree;
mod values;

use super::written::{sound_in, toml_text};
use crate::limits::{LENGTH_SECS_MAX, REPEAT_MAX};
use answer::Answer;
use sampler::{Request, Targets};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use tree::Element;
use values::{Values, name_of};

/// A scenario, and what it does otherwise than the plan.
#[derive(Debug)]
pub struct Converted {
    /// The scenario as TOML.
    pub text: String,
    /// One sentence each, with the line of the plan.
    pub notes: Vec<String>,
}

/// What holds for the samplers of a part of the plan.
#[derive(Clone, Default)]
pub struct Scope<'d> {
    /// HTTP Request Defaults.
    defaults: Vec<Element<'d>>,
    /// Header Managers and Authorization Managers.
    headers: Vec<Element<'d>>,
    timers: Vec<Element<'d>>,
    /// Extractors and assertions.
    answers: Vec<Element<'d>>,
}

/// A step, or a block of them.
enum Item {
    Step { name: String, request: Request, lines: Vec<String>, think: Option<String> },
    Block { lines: Vec<String>, items: Vec<Item> },
}

struct Reader {
    values: Values,
    notes: Vec<String>,
    targets: Targets,
    /// Lines of `[[data]]`.
    data: Vec<String>,
}

/// Makes a scenario. Files that the plan names are relative to `folder`; `properties` are those of `-J`. The error begins with a line.
pub fn convert(
    source: &str,
    folder: &Path,
    target: Option<&str>,
    properties: &[(String, String)],
) -> Result<Converted, String> {
    let document =
        roxmltree::Document::parse(source).map_err(|error| format!("{}: {error}", error.pos().row))?;
    let mut reader = Reader {
        values: Values { properties: properties.iter().cloned().collect(), ..Values::default() },
        notes: Vec::new(),
        targets: Targets::default(),
        data: Vec::new(),
    };
    let top = tree::elements(&document)?;
    // Threads and what they share may stand below the plan, or beside it.
    let all: Vec<Element<'_>> = top.iter().flat_map(with_children).collect();
    if let Some(plan) = top.iter().find(|plan| plan.is("TestPlan.serialize_threadgroups")) {
        return Err(
            plan.fault("thread groups that run one after another are not supported: run them by themselves")
        );
    }
    reader.variables(&all)?;
    all.iter().filter(|element| !groups::is_group(element)).try_for_each(is_supported)?;
    let groups: Vec<Element<'_>> = all.iter().copied().filter(groups::is_group).collect();
    let Some(first) = groups.first() else {
        return Err("1: the plan has no thread group that is enabled".to_owned());
    };
    for group in &groups {
        reader.variables(&below(group))?;
        reader.tables(&below(group), folder)?;
        reader.notes.extend(groups::left_out(group));
    }
    let within = groups.iter().flat_map(below);
    if !all.iter().copied().chain(within).any(|element| element.kind() == "CookieManager") {
        let why = "without a Cookie Manager JMeter sends no cookies back; users here do";
        reader.notes.push(first.fault(why));
    }
    reader.tables(&all, folder)?;
    let scope = reader.scope(&all, &Scope::default())?;
    let mut users = Vec::new();
    for group in &groups {
        let schedule = groups::schedule(group, &reader.values)?;
        if schedule.arrives && groups.len() > 1 {
            return Err(group
                .fault("users who arrive beside other thread groups are not supported: run it by itself"));
        }
        if schedule.is_endless {
            reader.notes.push(
                group.fault(
                    "it never ends: the run lasts a day at most, or as long as -d says, or until Ctrl-C",
                ),
            );
        }
        let mut items = Vec::new();
        reader.walk(&group.children(), &scope, &mut items)?;
        if items.is_empty() {
            return Err(group.fault("it has no HTTP sampler that is enabled"));
        }
        users.push((*group, schedule, items));
    }
    // What is true of a group or of defaults is said once.
    let mut said = BTreeSet::new();
    reader.notes.retain(|note| said.insert(note.clone()));
    let text = reader.write(&users, target, first)?;
    Ok(Converted { text: sound_in(text, folder).map_err(|why| format!("1: {why}"))?, notes: reader.notes })
}

/// An element of the file and those that stand in it. What lies on the workbench is not part of the plan.
fn with_children<'d>(top: &Element<'d>) -> Vec<Element<'d>> {
    let children = if top.kind() == "WorkBench" { Vec::new() } else { top.children() };
    [*top].into_iter().chain(children).collect()
}

/// All elements below one.
fn below<'d>(element: &Element<'d>) -> Vec<Element<'d>> {
    let mut found = Vec::new();
    for child in element.children() {
        found.push(child);
        found.extend(below(&child));
    }
    found
}

impl Reader {
    /// User defined variables.
    fn variables(&mut self, elements: &[Element<'_>]) -> Result<(), String> {
        for element in elements {
            let list = match element.kind() {
                "TestPlan" => element.list("Arguments.arguments"),
                "Arguments" if element.window() == "ArgumentsPanel" || element.window().is_empty() => {
                    element.list("Arguments.arguments")
                }
                "UserParameters" => {
                    return Err(element.fault("values per user are not supported: use a CSV Data Set Config"));
                }
                _ => continue,
            };
            for variable in list {
                let (name, value) = (variable.text("Argument.name"), variable.text("Argument.value"));
                if !name.is_empty() {
                    self.values.variables.insert(name.to_owned(), value.to_owned());
                }
            }
        }
        Ok(())
    }

    /// CSV files: their columns are values.
    fn tables(&mut self, elements: &[Element<'_>], folder: &Path) -> Result<(), String> {
        for element in elements.iter().filter(|element| element.kind() == "CSVDataSet") {
            let file = self.values.literal(element.text("filename")).map_err(|why| element.fault(why))?;
            let delimiter = match element.text("delimiter") {
                "" => ",",
                "\\t" => "\t",
                one => one,
            };
            let mut names: Vec<String> = split_names(element.text("variableNames"), ",");
            let has_names = !names.is_empty();
            if !has_names {
                let path = folder.join(&file);
                let text = std::fs::read_to_string(&path)
                    .map_err(|error| element.fault(format!("cannot read {}: {error}", path.display())))?;
                names = split_names(
                    text.lines().next().unwrap_or_default().trim_start_matches('\u{feff}'),
                    delimiter,
                );
            }
            let table = format!("csv{}", self.data.len() + 1);
            let columns: Vec<String> = names.iter().map(|name| name_of(name)).collect();
            for (name, column) in names.iter().zip(&columns) {
                self.values.columns.insert(name.trim().to_owned(), format!("{table}.{column}"));
            }
            let mut text = format!("[[data]]\nname = {}\nfile = {}\n", toml_text(&table), toml_text(&file));
            if has_names || columns != names {
                let columns: Vec<String> = columns.iter().map(|name| toml_text(name)).collect();
                let _ = writeln!(text, "columns = [{}]", columns.join(", "));
                if element.is("ignoreFirstLine") || !has_names {
                    text.push_str("skip_first = true\n");
                }
            }
            if delimiter != "," {
                let _ = writeln!(text, "delimiter = {}", toml_text(delimiter));
            }
            if !matches!(element.text("shareMode"), "" | "shareMode.all") {
                self.notes.push(element.fault("all users share its rows: each takes the next"));
            }
            if element.text("recycle") == "false" {
                self.notes.push(element.fault("behind the last row the first follows again"));
            }
            self.data.push(text);
        }
        Ok(())
    }

    /// What holds for samplers among these elements and below them.
    fn scope<'d>(&mut self, elements: &[Element<'d>], outer: &Scope<'d>) -> Result<Scope<'d>, String> {
        let mut scope = outer.clone();
        for element in elements {
            match element.kind() {
                "ConfigTestElement" if element.window() == "HttpDefaultsGui" => {
                    self.notes.extend(sampler::left_out(element));
                    scope.defaults.push(*element);
                }
                "HeaderManager" | "AuthManager" => scope.headers.push(*element),
                kind if timer::is_timer(kind) => scope.timers.push(*element),
                kind if answer::is_of_answers(kind) => scope.answers.push(*element),
                "CookieManager" if !element.list("CookieManager.cookies").is_empty() => {
                    return Err(element.fault(
                        "cookies that are there from the beginning are not supported: send them by a Header Manager",
                    ));
                }
                "CookieManager" if element.is("CookieManager.clearEachIteration") => {
                    self.notes.push(element.fault("users keep their cookies from round to round"));
                }
                "CacheManager" => {
                    self.notes.push(element.fault("users have no cache: each answer is asked for again"));
                }
                _ => {}
            }
        }
        Ok(scope)
    }

    /// Samplers and controllers in their order.
    fn walk<'d>(
        &mut self,
        elements: &[Element<'d>],
        outer: &Scope<'d>,
        items: &mut Vec<Item>,
    ) -> Result<(), String> {
        let scope = self.scope(elements, outer)?;
        for element in elements {
            match element.kind() {
                "HTTPSamplerProxy" | "HTTPSampler" | "HTTPSampler2" => {
                    element.children().iter().try_for_each(is_supported)?;
                    let inner = self.scope(&element.children(), &scope)?;
                    items.push(self.step(element, &inner)?);
                }
                "TestAction" => self.pause(element, items)?,
                kind if kind.ends_with("Controller") || kind == "InterleaveControl" => {
                    if let Some(block) = self.block(element, &scope)? {
                        items.push(block);
                    }
                }
                _ => is_supported(element)?,
            }
        }
        Ok(())
    }

    fn step(&mut self, sampler: &Element<'_>, scope: &Scope<'_>) -> Result<Item, String> {
        let request = sampler::request(sampler, scope, &self.values, &mut self.targets)?;
        let mut answer = Answer::default();
        for element in &scope.answers {
            answer.add(element, &self.values, &mut self.notes)?;
        }
        answer.check(sampler)?;
        if sampler.is("HTTPSampler.image_parser") {
            self.notes.push(
                sampler.fault("what its page refers to is not fetched: brisk bench page measures that"),
            );
        }
        self.notes.extend(sampler::left_out(sampler));
        let think = timer::think(&scope.timers, &self.values, &mut self.notes)?;
        let name = if sampler.name().is_empty() { request.path.clone() } else { sampler.name().to_owned() };
        let lines = answer.lines(request.follows_redirects);
        Ok(Item::Step { name, request, lines, think })
    }

    /// A Flow Control Action that pauses: the step before it has the pause behind it.
    fn pause(&mut self, element: &Element<'_>, items: &mut [Item]) -> Result<(), String> {
        let ms = self.values.number(element, "ActionProcessor.duration")?;
        if element.text("ActionProcessor.action") != "1" {
            return Err(element.fault("of flow control actions pauses are supported alone"));
        }
        match items.last_mut() {
            Some(Item::Step { think, .. }) if think.is_none() => {
                *think = Some(format!("{ms}ms"));
                Ok(())
            }
            _ => Err(element.fault("a pause stands behind a sampler that has no timer")),
        }
    }

    /// A controller as a block; `None`: it is never entered.
    fn block(&mut self, element: &Element<'_>, scope: &Scope<'_>) -> Result<Option<Item>, String> {
        let mut lines = Vec::new();
        match element.kind() {
            "GenericController" | "RecordingController" | "CriticalSectionController" => {}
            "TransactionController" => lines.push(format!("name = {}", toml_text(element.name()))),
            "OnceOnlyController" => lines.push("when = { \"user.round\" = \"0\" }".to_owned()),
            "LoopController" => {
                let loops = self.values.number(element, "LoopController.loops")?;
                lines.push(format!("repeat = {}", if loops < 0.0 { REPEAT_MAX } else { loops as u64 }));
                if loops == 0.0 {
                    return Ok(None);
                }
            }
            "IfController" | "WhileController" => {
                let is_while = element.kind() == "WhileController";
                let text = element.text(if is_while {
                    "WhileController.condition"
                } else {
                    "IfController.condition"
                });
                let condition = condition::parse(text).map_err(|why| element.fault(why))?;
                if condition.never {
                    return Ok(None);
                }
                lines.extend(condition.lines());
                if is_while {
                    lines.push(format!("repeat = {REPEAT_MAX}"));
                }
            }
            "RandomController" => lines.push("order = \"random\"".to_owned()),
            "InterleaveControl" => {
                lines.push("order = \"random\"".to_owned());
                self.notes
                    .push(element.fault("one of its children is drawn each time, they do not take turns"));
            }
            "ThroughputController" if element.text("ThroughputController.style") == "1" => {
                let share = element.float("ThroughputController.percentThroughput");
                let share = share.unwrap_or_else(|| element.text("ThroughputController.percentThroughput"));
                let share = self.values.literal_number(element, "the share", share)?;
                if share <= 0.0 {
                    return Ok(None);
                }
                lines.push(format!("chance = {}", share.min(100.0)));
            }
            _ => {
                return Err(element.fault(
                    "this controller is not supported: Simple, Transaction, Loop, If, While, Once Only, Random, Interleave and Throughput (percent) are",
                ));
            }
        }
        let mut items = Vec::new();
        self.walk(&element.children(), scope, &mut items)?;
        Ok((!items.is_empty()).then_some(Item::Block { lines, items }))
    }

    fn write(
        &self,
        users: &[(Element<'_>, groups::Schedule, Vec<Item>)],
        target: Option<&str>,
        first: &Element<'_>,
    ) -> Result<String, String> {
        let mut out = String::from("# Made of a test plan of JMeter.\n");
        for note in &self.notes {
            let _ = writeln!(out, "# Line {}", note.replace('\n', " "));
        }
        let most = self.targets.most().filter(|server| !server.contains("{{"));
        if let Some(target) = target.or(most) {
            let _ = writeln!(out, "target = {}", toml_text(target));
        }
        let length: f64 = users[0].1.stages.iter().map(|stage| stage.over + stage.hold).sum();
        if length > LENGTH_SECS_MAX as f64 {
            return Err(first.fault("a run of more than a week"));
        }
        let variables: BTreeMap<String, String> = self
            .values
            .variables
            .keys()
            .filter_map(|name| Some((name_of(name), self.values.literal(&format!("${{{name}}}")).ok()?)))
            .collect();
        if !variables.is_empty() {
            out.push_str("\n[variables]\n");
            for (name, value) in variables {
                let _ = writeln!(out, "{} = {}", toml_text(&name), toml_text(&value));
            }
        }
        for data in &self.data {
            let _ = write!(out, "\n{data}");
        }
        for (group, schedule, items) in users {
            if schedule.arrives {
                for stage in &schedule.stages {
                    let _ = write!(
                        out,
                        "\n[[stage]]\nrate = {}\nover = \"{}s\"\nhold = \"{}s\"\n",
                        stage.level, stage.over, stage.hold
                    );
                }
            }
            let _ = write!(out, "\n[[user]]\nname = {}\n", toml_text(group.name()));
            if let Some(rounds) = schedule.rounds.filter(|_| !schedule.arrives) {
                let _ = writeln!(out, "iterations = {rounds}");
            }
            for stage in schedule.stages.iter().filter(|_| !schedule.arrives) {
                let _ = write!(
                    out,
                    "\n[[user.stage]]\nusers = {:.0}\nover = \"{}s\"\nhold = \"{}s\"\n",
                    stage.level, stage.over, stage.hold
                );
            }
            write_items(&mut out, items, "user.step", target.or(most));
        }
        Ok(out)
    }
}

fn write_items(out: &mut String, items: &[Item], path: &str, target: Option<&str>) {
    for item in items {
        let _ = write!(out, "\n[[{path}]]\n");
        match item {
            Item::Step { name, request, lines, think } => {
                let url = match &request.server {
                    Some(server) if Some(server.as_str()) != target => format!("{server}{}", request.path),
                    _ => request.path.clone(),
                };
                let _ = write!(
                    out,
                    "name = {}\nrequest = {}\n",
                    toml_text(name),
                    toml_text(&format!("{} {url}", request.method))
                );
                request.lines.iter().chain(lines).for_each(|line| out.extend([line, "\n"]));
                if let Some(think) = think {
                    let _ = writeln!(out, "think = {}", toml_text(think));
                }
            }
            Item::Block { lines, items } => {
                lines.iter().for_each(|line| out.extend([line, "\n"]));
                write_items(out, items, &format!("{path}.step"), target);
            }
        }
    }
}

fn split_names(text: &str, delimiter: &str) -> Vec<String> {
    let names =
        text.trim_end_matches('\r').split(delimiter).map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// What would be left out without a word is refused.
fn is_supported(element: &Element<'_>) -> Result<(), String> {
    if is_known_beside(element, element.kind()) {
        return Ok(());
    }
    Err(element.fault(
        "this is not supported: HTTP samplers, controllers, timers, extractors and assertions are; disable it, or write it otherwise",
    ))
}

/// What a plan may hold without anything being asked for: what was read before, what shows results, what has no meaning here.
fn is_known_beside(element: &Element<'_>, kind: &str) -> bool {
    let is_config = matches!(
        kind,
        "TestPlan"
            | "Arguments"
            | "CSVDataSet"
            | "HeaderManager"
            | "AuthManager"
            | "CookieManager"
            | "CacheManager"
            | "DNSCacheManager"
            | "DebugSampler"
            | "DebugPostProcessor"
            | "TestFragmentController"
            | "NonTestElement"
            | "ProxyControl"
            | "WorkBench"
    );
    let shows_results = kind == "ResultCollector"
        || ["Summariser", "BackendListener", "Visualizer", "Reporter", "ResultSaver", "Collector"]
            .iter()
            .any(|end| kind.ends_with(end));
    is_config
        || shows_results
        || timer::is_timer(kind)
        || answer::is_of_answers(kind)
        || kind == "ConfigTestElement" && element.window() == "HttpDefaultsGui"
}

#[cfg(test)]
mod tests;
