//! Users, steps, checks, data, thresholds, replays.

use super::super::data::Table;
use super::super::extract::Source;
use super::super::keys::{self, APART, Scope};
use super::super::model::{Act, Block, Body, Check, Data, Replay, Stage, Step, Terms, User};
use super::super::template::{Escape, Template};
use super::super::threshold::Threshold;
use super::fields::{example, json};
use super::{Node, Reader, find};
use crate::limits::FILE_BYTES_MAX;
use brisk_load::request::FormField;
use std::ops::Range;
use std::path::PathBuf;

/// What a block of steps may say; the rest is of requests.
const BLOCK_KEYS: [&str; 10] =
    ["name", "group", "tags", "step", "order", "weight", "repeat", "chance", "when", "unless"];

/// The only character of a text.
fn single(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

impl Reader<'_> {
    pub(super) fn users(&mut self, root: Node<'_>) -> Vec<User> {
        let mut users = Vec::new();
        for (span, node) in self.tables(root, "user") {
            self.known(node, Scope::User);
            let name =
                self.text(node, "name").map_or_else(|| format!("user {}", users.len() + 1), |(_, name)| name);
            let (mut start, mut steps) = (Vec::new(), Vec::new());
            let start_acts = self.acts(node, "start", None, &mut start);
            let acts = self.acts(node, "step", None, &mut steps);
            let user = User {
                name,
                weight: self.count(node, Scope::User, "weight").unwrap_or(1) as u32,
                think: self.think(node, "think"),
                random: self.one_of(node, Scope::User, "order") == Some("random"),
                stages: self.own_stages(node),
                iterations: self.count(node, Scope::User, "iterations"),
                start_acts,
                start,
                acts,
                steps,
            };
            if user.steps.is_empty() && find(node, "step").is_none() {
                self.fault(
                    span,
                    format!("user \"{}\" takes no steps", user.name),
                    "write at least one [[user.step]] below it",
                );
            }
            users.push(user);
        }
        users
    }

    /// The steps and blocks of a list; their requests go into `steps`. `group`: of those that say nothing else.
    fn acts(&mut self, node: Node<'_>, list: &str, group: Option<&str>, steps: &mut Vec<Step>) -> Vec<Act> {
        let mut acts = Vec::new();
        for (span, node) in self.tables(node, list) {
            self.known(node, Scope::Step);
            if find(node, "step").is_some() {
                acts.push(Act::Block(self.block(node, group, steps)));
            } else if let Some(step) = self.step(span, node, group) {
                acts.push(Act::Step(steps.len()));
                steps.push(step);
            }
        }
        acts
    }

    fn block(&mut self, node: Node<'_>, group: Option<&str>, steps: &mut Vec<Step>) -> Block {
        for (name, value) in node {
            let name = name.get_ref().as_ref();
            if !BLOCK_KEYS.contains(&name) && keys::of(Scope::Step).any(|key| key.name == name) {
                let help = "write it in one of the block's steps, or leave out step";
                self.fault(value.span(), format!("\"{name}\" has no meaning in a block of steps"), help);
            }
        }
        let own = self.text(node, "group").or_else(|| self.text(node, "name")).map(|(_, name)| name);
        let terms = self.terms(node);
        let random = self.one_of(node, Scope::Step, "order") == Some("random");
        let (from, tags) = (steps.len(), self.tags(node));
        let acts = self.acts(node, "step", own.as_deref().or(group), steps);
        for step in &mut steps[from..] {
            step.tags.extend(tags.iter().filter(|tag| !step.tags.contains(tag)).cloned().collect::<Vec<_>>());
        }
        Block { terms, random, acts }
    }

    fn tags(&mut self, node: Node<'_>) -> Vec<String> {
        self.texts(node, "tags").into_iter().map(|(_, tag)| tag).collect()
    }

    fn terms(&mut self, node: Node<'_>) -> Terms {
        Terms {
            weight: self.count(node, Scope::Step, "weight").unwrap_or(1) as u32,
            repeat: self.count(node, Scope::Step, "repeat").unwrap_or(1),
            chance: self.number(node, Scope::Step, "chance").unwrap_or(100.0) / 100.0,
            when: self.values(node, "when"),
            unless: self.values(node, "unless"),
        }
    }

    /// Stages of one kind of users.
    fn own_stages(&mut self, node: Node<'_>) -> Vec<Stage> {
        let mut stages = Vec::new();
        for (span, node) in self.tables(node, "stage") {
            self.known(node, Scope::Stage);
            if find(node, "users").is_none() || find(node, "rate").is_some() {
                self.fault(span, "a kind of users has stages of users", "write users = 50, without a rate");
            }
            let users = self.count(node, Scope::Stage, "users").unwrap_or(0) as usize;
            let (over, hold) = (self.time(node, "over"), self.time(node, "hold"));
            stages.push(Stage { users, over: over.unwrap_or_default(), hold: hold.unwrap_or_default() });
        }
        stages
    }

    fn step(&mut self, span: Range<usize>, node: Node<'_>, group: Option<&str>) -> Option<Step> {
        if let Some(value) = find(node, "order") {
            self.fault(
                value.span(),
                "\"order\" is of a block of steps",
                "leave it out, or write [[user.step.step]] below",
            );
        }
        if find(node, "request").is_none() {
            let help = "write request = \"GET /\", or steps below it: [[user.step.step]]";
            self.fault(span, "a step without a request", help);
            return None;
        }
        let (place, request) = self.text(node, "request")?;
        let (method, url) = match request.trim().split_once(char::is_whitespace) {
            Some((method, url)) => (method.to_owned(), url.trim().to_owned()),
            None => ("GET".to_owned(), request.trim().to_owned()),
        };
        let is_absolute = url.starts_with("http://") || url.starts_with("https://");
        if !(url.starts_with('/') || url.starts_with("{{") || is_absolute) {
            self.fault(
                place.clone(),
                format!("\"{url}\" is not a path"),
                "paths begin with /, URLs with http:// or https://",
            );
        }
        if !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            self.fault(
                place.clone(),
                format!("\"{method}\" is not a method"),
                "methods are written GET, POST, PUT …",
            );
        }
        let url = self.place(place.clone(), &url)?;
        self.can_be_asked_for(place, &url);
        let mut headers = self.headers(node);
        let body = self.body(node, &mut headers);
        Some(Step {
            name: self.text(node, "name").map_or(request, |(_, name)| name),
            group: self.text(node, "group").map(|(_, group)| group).or_else(|| group.map(str::to_owned)),
            tags: self.tags(node),
            terms: self.terms(node),
            method,
            url,
            headers,
            body,
            save: self.save(node),
            otherwise: self
                .pairs(node, "otherwise")
                .into_iter()
                .map(|(_, name, text)| (name, text))
                .collect(),
            checks: self.checks(node),
            think: self.think(node, "think"),
        })
    }

    fn values(&mut self, node: Node<'_>, name: &str) -> Vec<(String, Template)> {
        let pairs = self.pairs(node, name);
        pairs.into_iter().filter_map(|(span, name, text)| Some((name, self.place(span, &text)?))).collect()
    }

    /// Whether a request for this can be written, whatever its values are.
    fn can_be_asked_for(&mut self, place: Range<usize>, url: &Template) {
        let filled = url.fill(Escape::None, &|_| Some("1".to_owned())).unwrap_or_default();
        let is_one_line = !filled.contains(|c: char| c.is_control());
        // A place at its beginning may be a whole URL.
        let is_sound = url.begins_with_value() || example().at(&filled).is_some();
        if !(is_one_line && is_sound) {
            self.fault(
                place,
                format!("\"{}\" cannot be asked for", filled.escape_debug()),
                "write a path, or http://host:port/path",
            );
        }
    }

    fn body(&mut self, node: Node<'_>, headers: &mut Vec<(String, Template)>) -> Body {
        for (_, one, other) in APART.iter().filter(|(scope, ..)| *scope == Scope::Step) {
            if let (Some(_), Some(value)) = (find(node, one), find(node, other)) {
                self.fault(value.span(), "a step has one body", format!("leave out {one} or {other}"));
            }
        }
        let mut kind = |value: &str| {
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                headers.push(("Content-Type".to_owned(), Template::plain(value)));
            }
        };
        if let Some(value) = find(node, "json") {
            kind("application/json");
            let template = self.place(value.span(), &json(value.get_ref()).to_string());
            return template.map_or(Body::None, |template| Body::Text(template, Escape::Json));
        }
        if find(node, "files").is_some() {
            // Its Content-Type names the boundary, which is made with the body.
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            let (fields, files) = (self.fields(node), self.files(node));
            return Body::Multipart(fields, files);
        }
        if find(node, "form").is_some() {
            kind("application/x-www-form-urlencoded");
            return Body::Form(self.fields(node));
        }
        if let Some((span, name)) = self.text(node, "upload") {
            kind("application/octet-stream");
            return self.file(span, &name).map_or(Body::None, |bytes| Body::File(bytes.into()));
        }
        self.template(node, "body").map_or(Body::None, |template| Body::Text(template, Escape::None))
    }

    /// Of a form.
    fn fields(&mut self, node: Node<'_>) -> Vec<(String, Template)> {
        let pairs = self.pairs(node, "form");
        pairs.into_iter().filter_map(|(span, name, text)| Some((name, self.place(span, &text)?))).collect()
    }

    fn files(&mut self, node: Node<'_>) -> Vec<FormField> {
        let mut files = Vec::new();
        for (span, name, path) in self.pairs(node, "files") {
            let file_name = path.rsplit('/').next().map(str::to_owned);
            files.extend(self.file(span, &path).map(|value| FormField { name, file_name, value }));
        }
        files
    }

    /// The bytes of a file that is sent.
    fn file(&mut self, span: Range<usize>, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let is_small = |length: u64| {
            if length <= FILE_BYTES_MAX {
                Ok(())
            } else {
                Err(std::io::Error::other("it is larger than 1 GiB"))
            }
        };
        let read = std::fs::metadata(&path)
            .and_then(|meta| is_small(meta.len()))
            .and_then(|()| std::fs::read(&path));
        match read {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let text = format!("cannot read {}: {error}", path.display());
                self.fault(span, text, "the path is relative to this file");
                None
            }
        }
    }

    fn source(&mut self, span: Range<usize>, text: &str) -> Option<Source> {
        match Source::parse(text) {
            Ok(source) => Some(source),
            Err(error) => {
                let help = "write \"json:$.a.b\", \"regex:…(…)\", \"header:Name\", \"cookie:name\", \"status\" or \"body\"";
                self.fault(span, error, help);
                None
            }
        }
    }

    fn save(&mut self, node: Node<'_>) -> Vec<(String, Source)> {
        let pairs = self.pairs(node, "save");
        pairs.into_iter().filter_map(|(span, name, text)| Some((name, self.source(span, &text)?))).collect()
    }

    fn checks(&mut self, step: Node<'_>) -> Vec<Check> {
        let Some(value) = find(step, "check") else { return Vec::new() };
        let Some(node) = value.get_ref().as_table() else {
            self.fault(
                value.span(),
                "\"check\" is a table",
                "write check = { status = 200, contains = \"…\" }",
            );
            return Vec::new();
        };
        self.known(node, Scope::Check);
        let mut checks = Vec::new();
        if let Some(value) = find(node, "status") {
            let status = |value: &toml::de::DeValue<'_>| {
                let number: u16 = value.as_integer()?.as_str().parse().ok()?;
                (100..=599).contains(&number).then_some(number)
            };
            let list = match value.get_ref().as_array() {
                Some(list) => list.iter().map(|item| status(item.get_ref())).collect(),
                None => status(value.get_ref()).map(|one| vec![one]),
            };
            match list {
                Some(list) if !list.is_empty() => checks.push(Check::Status(list)),
                _ => self.fault(
                    value.span(),
                    "\"status\" is a status, or several",
                    "write status = 200 or [200, 302]",
                ),
            }
        }
        for (span, text) in self.texts(node, "contains") {
            checks.extend(self.place(span, &text).map(Check::Contains));
        }
        for (span, text) in self.texts(node, "lacks") {
            checks.extend(self.place(span, &text).map(Check::Lacks));
        }
        checks.extend(self.time(node, "within").map(Check::Within));
        for (span, text) in self.texts(node, "matches") {
            match regex::bytes::Regex::new(&text) {
                Ok(regex) => checks.push(Check::Matches(regex)),
                Err(error) => self.fault(
                    span,
                    format!("not a regular expression: {error}"),
                    "see docs.rs/regex for what is known",
                ),
            }
        }
        for (span, source, want) in self.pairs(node, "equal") {
            if let (Some(source), Some(want)) = (self.source(span.clone(), &source), self.place(span, &want))
            {
                checks.push(Check::Equal(source, want));
            }
        }
        checks
    }

    pub(super) fn data(&mut self, root: Node<'_>) -> Vec<Data> {
        let mut all = Vec::new();
        for (span, node) in self.tables(root, "data") {
            self.known(node, Scope::Data);
            let (Some((_, name)), Some((place, file))) = (self.text(node, "name"), self.text(node, "file"))
            else {
                self.fault(
                    span,
                    "data needs a name and a file",
                    "write name = \"accounts\" and file = \"accounts.csv\"",
                );
                continue;
            };
            let path = self.folder.join(&file);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()));
            let columns: Vec<String> =
                self.texts(node, "columns").into_iter().map(|(_, name)| name).collect();
            let delimiter = match self.text(node, "delimiter") {
                None => ',',
                Some((span, text)) => single(&text).unwrap_or_else(|| {
                    self.fault(span, "\"delimiter\" is one character", "write delimiter = \";\" or \"\\t\"");
                    ','
                }),
            };
            let columns = (!columns.is_empty()).then_some(&columns[..]);
            let skips_first = self.bool(node, "skip_first").unwrap_or(false);
            let read = |text: String| {
                Table::read(&text, columns, skips_first, delimiter).map_err(|error| format!("{file}:{error}"))
            };
            match text.and_then(read) {
                Ok(table) => {
                    all.push(Data { name, table, random: self.bool(node, "random").unwrap_or(false) });
                }
                Err(error) => self.fault(
                    place,
                    error,
                    "a CSV file whose first line names the columns, relative to this file",
                ),
            }
        }
        all
    }

    pub(super) fn thresholds(&mut self, root: Node<'_>) -> Vec<Threshold> {
        let Some(value) = find(root, "thresholds") else { return Vec::new() };
        let Some(list) = value.get_ref().as_array() else {
            self.fault(
                value.span(),
                "\"thresholds\" is a list",
                "write thresholds = [\"p99 < 500ms\", \"errors < 1%\"]",
            );
            return Vec::new();
        };
        let mut thresholds = Vec::new();
        for item in list {
            match Threshold::parse(item.get_ref().as_str().unwrap_or_default()) {
                Ok(threshold) => thresholds.push(threshold),
                Err(error) => self.fault(
                    item.span(),
                    error,
                    "p50, p99.9, mean, max, errors, rate or count, < or >, a limit",
                ),
            }
        }
        thresholds
    }

    pub(super) fn replay(&mut self, root: Node<'_>) -> Option<Replay> {
        let value = find(root, "replay")?;
        let Some(node) = value.get_ref().as_table() else {
            self.fault(
                value.span(),
                "\"replay\" is a table",
                "write [replay] with log = \"access.log\" below it",
            );
            return None;
        };
        self.known(node, Scope::Replay);
        let Some((place, log)) = self.text(node, "log") else {
            self.fault(value.span(), "a replay needs a log", "write log = \"access.log\"");
            return None;
        };
        let log: PathBuf = self.folder.join(log);
        if !log.is_file() {
            self.fault(
                place,
                format!("there is no file {}", log.display()),
                "the path is relative to this file",
            );
        }
        let speed = self.number(node, Scope::Replay, "speed").unwrap_or(1.0);
        let connections = self.count(node, Scope::Replay, "connections").unwrap_or(256) as usize;
        Some(Replay { log, speed, connections, lines_max: 5_000_000 })
    }
}
