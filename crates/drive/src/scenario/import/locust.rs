//! Locustfiles, as far as they are plain: classes of users, tasks with weights, waits, calls of `self.client`. Everything
//! else is named and refused: half a conversion would measure something else.

mod caught;

use super::written::{sound, toml_text};
use caught::Caught;
use std::fmt::Write as _;

/// A class with what was found in it.
#[derive(Debug, Default)]
struct Class {
    name: String,
    bases: String,
    line: usize,
    tasks: Vec<Task>,
    /// `task_set = Name` or `tasks = [Name]`.
    task_set: Option<String>,
    min_wait: Option<f64>,
    max_wait: Option<f64>,
    think: Option<String>,
    host: Option<String>,
    weight: Option<u32>,
}

#[derive(Debug)]
struct Task {
    name: String,
    weight: u32,
    is_start: bool,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    method: String,
    url: String,
    name: Option<String>,
    headers: Option<String>,
    json: Option<String>,
    form: Option<String>,
    body: Option<String>,
    /// `with … as response:`, and what its block says.
    caught: Option<Caught>,
}

/// A line of the file that means something.
struct Line<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

/// Makes a scenario. The error begins with the line's number.
pub fn convert(source: &str, target: Option<&str>) -> Result<String, String> {
    let classes = classes(source)?;
    let users: Vec<&Class> = classes.iter().filter(|class| class.is_user()).collect();
    if users.is_empty() {
        return Err("1: there is no class of users (HttpLocust, HttpUser, FastHttpUser)".to_owned());
    }
    let host = target.map(str::to_owned).or_else(|| users.iter().find_map(|user| user.host.clone()));
    let mut out = match host {
        Some(host) => format!("target = {}\n", toml_text(host.trim_end_matches('/'))),
        None => "# The locustfile names no host: give --target to brisk bench run.\n".to_owned(),
    };
    for user in users {
        let set = match &user.task_set {
            Some(name) => classes.iter().find(|class| class.name == *name).ok_or_else(|| {
                format!("{}: {} uses {name}, which is not in this file", user.line, user.name)
            })?,
            None => user,
        };
        write_user(&mut out, user, set)?;
    }
    sound(out).map_err(|why| format!("1: {why}"))
}

impl Class {
    fn is_user(&self) -> bool {
        ["HttpLocust", "HttpUser", "FastHttpUser", "FastHttpLocust"]
            .iter()
            .any(|base| self.bases.contains(base))
    }

    /// The pause, as a scenario writes it; times of old files are milliseconds, one second if nothing is said.
    fn pause(&self, set: &Self) -> Result<Option<String>, String> {
        if let Some(think) = self.think.as_ref().or(set.think.as_ref()) {
            return Ok(Some(think.clone()));
        }
        let is_old = self.bases.contains("Locust");
        let (min, max) = (self.min_wait.or(set.min_wait), self.max_wait.or(set.max_wait));
        if min.is_none() && max.is_none() && !is_old {
            return Ok(None);
        }
        let (min, max) = (min.unwrap_or(1000.0), max.unwrap_or(1000.0));
        if max < min {
            // A page that is printed, or copied by hand, loses digits: 00 is what is left of 1000.
            let is_cut = max == 0.0 && min < 1000.0;
            let meant = if is_cut { "; max_wait = 1000, Locust's default, was probably meant" } else { "" };
            return Err(format!(
                "{}: max_wait of {max} is less than min_wait of {min}: both are milliseconds{meant}",
                self.line
            ));
        }
        Ok(Some(format!("{min}ms..{max}ms")))
    }
}

fn write_user(out: &mut String, user: &Class, set: &Class) -> Result<(), String> {
    let _ = write!(out, "\n[[user]]\nname = {}\n", toml_text(&user.name));
    if let Some(weight) = user.weight {
        let _ = writeln!(out, "weight = {weight}");
    }
    if let Some(think) = user.pause(set)? {
        let _ = writeln!(out, "think = {}", toml_text(&think));
    }
    let tasks: Vec<&Task> = set.tasks.iter().filter(|task| !task.is_start).collect();
    if tasks.is_empty() {
        return Err(format!("{}: {} has no tasks", set.line, set.name));
    }
    let is_random = tasks.len() > 1;
    if is_random {
        out.push_str("order = \"random\"\n");
    }
    for task in &set.tasks {
        let list = if task.is_start { "user.start" } else { "user.step" };
        // A task of several calls that is drawn is drawn as a whole.
        let is_block = is_random && !task.is_start && task.calls.len() > 1;
        if is_block {
            let _ = write!(out, "\n[[{list}]]\nname = {}\n", toml_text(&task.name));
            if task.weight != 1 {
                let _ = writeln!(out, "weight = {}", task.weight);
            }
        }
        for call in &task.calls {
            let _ = write!(out, "\n[[{list}{}]]\n", if is_block { ".step" } else { "" });
            let name = call.name.clone().unwrap_or_else(|| task.name.clone());
            let _ = writeln!(out, "name = {}", toml_text(&name));
            let _ = writeln!(out, "request = {}", toml_text(&format!("{} {}", call.method, call.url)));
            if is_random && !is_block && !task.is_start && task.weight != 1 {
                let _ = writeln!(out, "weight = {}", task.weight);
            }
            for (key, value) in
                [("headers", &call.headers), ("json", &call.json), ("form", &call.form), ("body", &call.body)]
            {
                if let Some(value) = value {
                    let _ = writeln!(out, "{key} = {value}");
                }
            }
            if let Some(check) = call.caught.as_ref().and_then(Caught::check) {
                let _ = writeln!(out, "check = {check}");
            }
        }
    }
    Ok(())
}

/// Lines without comments and blank ones; statements over several lines, as brackets keep them open, are one.
fn lines(source: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut depth = 0i32;
    for (at, line) in source.lines().enumerate() {
        let (code, change) = code(line);
        if depth > 0 {
            if let Some((_, open)) = out.last_mut() {
                open.push(' ');
                open.push_str(code.trim());
            }
        } else if !code.trim().is_empty() {
            out.push((at + 1, code));
        }
        depth = (depth + change).max(0);
    }
    out
}

/// A line without its comment, and how many brackets it leaves open.
fn code(line: &str) -> (String, i32) {
    let (mut quote, mut depth, mut end) = (None, 0, line.len());
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => {
                end = at;
                break;
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    (line[..end].trim_end().to_owned(), depth)
}

fn classes(source: &str) -> Result<Vec<Class>, String> {
    let mut classes: Vec<Class> = Vec::new();
    let mut decorator: Option<u32> = None;
    for (number, text) in &lines(source) {
        let line = Line { number: *number, indent: text.len() - text.trim_start().len(), text: text.trim() };
        let refuse = || {
            format!(
                "{}: \"{}\" is not understood: only tasks, weights, waits and plain self.client calls are",
                line.number, line.text
            )
        };
        if line.indent == 0 {
            if line.text.starts_with("import ") || line.text.starts_with("from ") {
                let known = ["locust", "random", "time", "json"]
                    .iter()
                    .any(|name| line.text.split([' ', '.', ',']).any(|word| word == *name));
                if !known {
                    return Err(refuse());
                }
                continue;
            }
            let head = line
                .text
                .strip_prefix("class ")
                .and_then(|head| head.strip_suffix(':'))
                .ok_or_else(refuse)?;
            let (name, bases) = head.split_once('(').unwrap_or((head, ""));
            let (name, bases) = (name.trim().to_owned(), bases.trim_end_matches(')').to_owned());
            if !["TaskSet", "Locust", "User", "TaskSequence"].iter().any(|base| bases.contains(base))
                || bases.contains("Sequen")
            {
                return Err(refuse());
            }
            classes.push(Class { name, bases, line: line.number, ..Class::default() });
            decorator = None;
            continue;
        }
        let class = classes.last_mut().ok_or_else(refuse)?;
        member(class, &line, &mut decorator).map_err(|why| why.unwrap_or_else(refuse))?;
    }
    Ok(classes)
}

/// The block of a `with` that this line belongs to.
fn open_block<'c>(class: &'c mut Class, line: &Line<'_>) -> Option<&'c mut Caught> {
    let caught = class.tasks.last_mut()?.calls.last_mut()?.caught.as_mut()?;
    caught.holds(line.indent).then_some(caught)
}

/// One line inside of a class. The error may have words of its own.
fn member(class: &mut Class, line: &Line<'_>, decorator: &mut Option<u32>) -> Result<(), Option<String>> {
    let text = line.text;
    if let Some(rest) = text.strip_prefix("@task") {
        let weight = rest.trim().trim_start_matches('(').trim_end_matches(')').trim();
        *decorator = Some(if weight.is_empty() { 1 } else { weight.parse().map_err(|_| None)? });
        return Ok(());
    }
    if let Some(head) = text.strip_prefix("def ") {
        let name = head.split('(').next().unwrap_or_default().trim().to_owned();
        let is_start = name == "on_start";
        if decorator.is_none() && !is_start {
            return Err(Some(format!("{}: \"{name}\" is neither a task nor on_start", line.number)));
        }
        class.tasks.push(Task { name, weight: decorator.take().unwrap_or(1), is_start, calls: Vec::new() });
        return Ok(());
    }
    if text == "pass" || (text.starts_with("\"\"\"") && text.len() > 5 && text.ends_with("\"\"\"")) {
        return Ok(());
    }
    if let Some(caught) = open_block(class, line) {
        return caught.line(line.indent, text).ok_or(None);
    }
    if let Some((head, name)) =
        text.strip_prefix("with self.client.").and_then(|rest| rest.strip_suffix(':')?.rsplit_once(" as "))
    {
        let task = class.tasks.last_mut().ok_or(None)?;
        let mut call = self::call(head.trim()).ok_or(None)?;
        call.caught = Some(Caught::new(line.indent, name.trim()));
        task.calls.push(call);
        return Ok(());
    }
    if let Some(call) =
        text.strip_prefix("self.client.").or_else(|| text.split_once("= self.client.").map(|(_, call)| call))
    {
        let task = class.tasks.last_mut().ok_or(None)?;
        // What is done with an answer cannot be seen from here: only a call by itself is plain.
        if !text.starts_with("self.client.") || call.contains("catch_response") {
            return Err(None);
        }
        task.calls.push(self::call(call).ok_or(None)?);
        return Ok(());
    }
    let (name, value) =
        text.split_once('=').filter(|_| class.tasks.is_empty() || line.indent <= 4).ok_or(None)?;
    let (name, value) = (name.trim(), value.trim());
    let number = || value.parse::<f64>().map_err(|_| None);
    match name {
        "task_set" => class.task_set = Some(value.to_owned()),
        "tasks" => {
            let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).ok_or(None)?.trim();
            if inner.contains([',', '(']) {
                return Err(None);
            }
            class.task_set = Some(inner.to_owned());
        }
        "min_wait" => class.min_wait = Some(number()?),
        "max_wait" => class.max_wait = Some(number()?),
        "weight" => class.weight = Some(value.parse().map_err(|_| None)?),
        "host" => class.host = Some(text_of(value).ok_or(None)?),
        "wait_time" => class.think = Some(wait(value).ok_or(None)?),
        _ => return Err(None),
    }
    Ok(())
}

/// `between(1, 3)`, `constant(2)`.
fn wait(value: &str) -> Option<String> {
    let (name, inner) = value.strip_suffix(')')?.split_once('(')?;
    let numbers: Vec<f64> =
        inner.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>()?;
    match (name.rsplit('.').next()?, &numbers[..]) {
        ("between", [from, to]) if from <= to => Some(format!("{from}s..{to}s")),
        ("constant", [pause]) => Some(format!("{pause}s")),
        _ => None,
    }
}

/// A string literal without places.
fn text_of(value: &str) -> Option<String> {
    let value = value.trim();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\']) && !inner.contains("{{")).then(|| inner.to_owned())
}

/// `get("/a", name="x", headers={"A": "b"}, data={"c": 1}, json={…})`.
fn call(text: &str) -> Option<Call> {
    let (method, rest) = text.split_once('(')?;
    if !["get", "post", "put", "patch", "delete", "head", "options"].contains(&method) {
        return None;
    }
    let inner = rest.strip_suffix(')')?;
    let mut arguments = split(inner)?.into_iter();
    let first = arguments.next()?;
    let url = text_of(first.strip_prefix("url=").unwrap_or(&first))?;
    let method = method.to_ascii_uppercase();
    let mut call =
        Call { method, url, name: None, headers: None, json: None, form: None, body: None, caught: None };
    for argument in arguments {
        let (key, value) = argument
            .split_once('=')
            .filter(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || c == '_'))
            .unwrap_or(("data", &argument));
        match key.trim() {
            "name" => call.name = Some(text_of(value)?),
            // What the block below says of the answer is what counts.
            "catch_response" if matches!(value.trim(), "True" | "False") => {}
            "headers" => call.headers = Some(dictionary(value)?),
            "json" => call.json = Some(toml_of(value)?),
            "data" if value.trim().starts_with('{') => call.form = Some(dictionary(value)?),
            "data" => call.body = Some(toml_text(&text_of(value)?)),
            _ => return None,
        }
    }
    Some(call)
}

/// Splits at commas that are in no bracket and no string.
fn split(text: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut depth, mut quote) = (Vec::new(), String::new(), 0i32, None);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(std::mem::take(&mut part).trim().to_owned());
                continue;
            }
            _ => {}
        }
        part.push(c);
    }
    if !part.trim().is_empty() {
        parts.push(part.trim().to_owned());
    }
    (depth == 0 && quote.is_none()).then_some(parts)
}

/// A dictionary of plain values as a TOML table.
fn dictionary(text: &str) -> Option<String> {
    text.trim().starts_with('{').then(|| toml_of(text))?
}

/// A Python literal as TOML.
fn toml_of(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let pairs: Option<Vec<String>> = split(inner)?
            .iter()
            .map(|pair| {
                let quote = pair.chars().next().filter(|c| matches!(c, '"' | '\''))?;
                let close = pair[1..].find(quote)? + 2;
                let (key, value) = (text_of(&pair[..close])?, pair[close..].trim().strip_prefix(':')?);
                Some(format!("{} = {}", toml_text(&key), toml_of(value)?))
            })
            .collect();
        return Some(format!("{{ {} }}", pairs?.join(", ")));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let items: Option<Vec<String>> = split(inner)?.iter().map(|item| toml_of(item)).collect();
        return Some(format!("[{}]", items?.join(", ")));
    }
    match text {
        "True" => Some("true".to_owned()),
        "False" => Some("false".to_owned()),
        _ if text.parse::<f64>().is_ok_and(f64::is_finite) => Some(text.to_owned()),
        _ => text_of(text).map(|text| toml_text(&text)),
    }
}

#[cfg(test)]
mod tests;
