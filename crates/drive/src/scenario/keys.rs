//! Every key of a scenario file. Its reader, the remedies that it offers and the JSON Schema for editors come from here.

use serde_json::{Map, Value, json};

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The file's top.
    Root,
    /// `[[stage]]`.
    Stage,
    /// `[[data]]`.
    Data,
    /// `[[user]]`.
    User,
    /// `[[user.step]]` and `[[user.start]]`.
    Step,
    /// `check = { … }` of a step.
    Check,
    /// `[replay]`.
    Replay,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A text that may hold `{{values}}`.
    Template,
    /// true or false.
    Bool,
    /// A whole number from 1.
    Count,
    /// A whole number from 0.
    Whole,
    /// A number above 0.
    Number,
    /// `500ms`, `10s`, `2m`, or a number of seconds.
    Time,
    /// A time, `1s..3s` (anything between), or `exp:2s` (exponential, by its mean).
    Think,
    /// Several texts.
    Texts,
    /// Names with texts.
    Table,
    /// A number, or several.
    Statuses,
    /// Anything: it is sent as JSON.
    Any,
    /// One of these.
    One(&'static [&'static str]),
    /// One table with keys of its own.
    Inner(Scope),
    /// Several of them.
    Inners(Scope),
}

/// One key.
#[derive(Debug)]
pub struct Key {
    /// Where it stands.
    pub scope: Scope,
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What it is for, with its default.
    pub doc: &'static str,
}

const fn key(scope: Scope, name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key { scope, name, kind, doc }
}

/// Keys that must be there.
const REQUIRED: &[(Scope, &[&str])] = &[
    (Scope::Stage, &["users"]),
    (Scope::Data, &["name", "file"]),
    (Scope::Step, &["request"]),
    (Scope::Replay, &["log"]),
];

/// All of them.
pub const KEYS: &[Key] = &[
    key(Scope::Root, "target", Kind::Text, "URL that the paths of steps are relative to: http://host:port"),
    key(
        Scope::Root,
        "http",
        Kind::One(&["any", "1.1", "2"]),
        "version of HTTP; any: HTTP/2 where TLS agrees on it [any]",
    ),
    key(Scope::Root, "insecure", Kind::Bool, "take any certificate [false]"),
    key(Scope::Root, "timeout", Kind::Time, "longest wait for a response [30s]"),
    key(Scope::Root, "redirects", Kind::Bool, "follow redirects, ten at most, as part of the step [true]"),
    key(Scope::Root, "users", Kind::Count, "users at a time, where there are no stages [1]"),
    key(Scope::Root, "ramp", Kind::Time, "in which they come, evenly [0s]"),
    key(Scope::Root, "duration", Kind::Time, "how long, ramp included [10s]"),
    key(
        Scope::Root,
        "iterations",
        Kind::Count,
        "rounds after which a user is done; the duration is still the limit",
    ),
    key(Scope::Root, "headers", Kind::Table, "sent with every request"),
    key(Scope::Root, "variables", Kind::Table, "values that every user begins with"),
    key(
        Scope::Root,
        "thresholds",
        Kind::Texts,
        "what must hold, else the exit code is 3: \"p99 < 500ms\", \"errors < 1%\", \"login: p95 < 1s\", \"rate > 50\"",
    ),
    key(Scope::Root, "stage", Kind::Inners(Scope::Stage), "ramps and plateaus, one after another"),
    key(Scope::Root, "data", Kind::Inners(Scope::Data), "CSV files that values come from"),
    key(Scope::Root, "user", Kind::Inners(Scope::User), "kinds of users"),
    key(
        Scope::Root,
        "replay",
        Kind::Inner(Scope::Replay),
        "an access log to be played again, in place of users",
    ),
    key(Scope::Stage, "users", Kind::Whole, "users at the end of the ramp"),
    key(Scope::Stage, "over", Kind::Time, "length of the ramp [0s]"),
    key(Scope::Stage, "hold", Kind::Time, "length of the plateau behind it [0s]"),
    key(Scope::Data, "name", Kind::Text, "values are {{name.column}}"),
    key(Scope::Data, "file", Kind::Text, "CSV; its first line names the columns; relative to this file"),
    key(Scope::Data, "random", Kind::Bool, "a random row per round, not the next one [false]"),
    key(Scope::User, "name", Kind::Text, "name of this kind"),
    key(Scope::User, "weight", Kind::Count, "share among all users [1]"),
    key(Scope::User, "think", Kind::Think, "pause after each step: 1s, 1s..3s, exp:2s [none]"),
    key(
        Scope::User,
        "order",
        Kind::One(&["in turn", "random"]),
        "random: each round takes one step, drawn by weight [in turn]",
    ),
    key(Scope::User, "start", Kind::Inners(Scope::Step), "steps taken once, when the user comes"),
    key(Scope::User, "step", Kind::Inners(Scope::Step), "steps taken again and again"),
    key(Scope::Step, "name", Kind::Text, "name in reports [the request]"),
    key(Scope::Step, "group", Kind::Text, "steps of one group are also summed up together"),
    key(Scope::Step, "weight", Kind::Count, "share among steps that are drawn [1]"),
    key(
        Scope::Step,
        "request",
        Kind::Template,
        "method and path or URL: \"GET /\", \"POST /login\"; a path alone is a GET",
    ),
    key(Scope::Step, "headers", Kind::Table, "sent with this request"),
    key(Scope::Step, "body", Kind::Template, "body as it is"),
    key(Scope::Step, "json", Kind::Any, "body as JSON"),
    key(Scope::Step, "form", Kind::Table, "body as a form"),
    key(
        Scope::Step,
        "save",
        Kind::Table,
        "values to remember: token = \"json:$.token\", \"regex:…(…)\", \"header:Name\", \"cookie:name\"",
    ),
    key(
        Scope::Step,
        "check",
        Kind::Inner(Scope::Check),
        "what the answer must be like; a status of 400 and more fails unless it is asked for",
    ),
    key(Scope::Step, "think", Kind::Think, "pause after this step"),
    key(Scope::Check, "status", Kind::Statuses, "status, or one of several"),
    key(Scope::Check, "contains", Kind::Template, "the body holds this text"),
    key(Scope::Check, "matches", Kind::Text, "the body matches this regular expression"),
    key(Scope::Check, "equal", Kind::Table, "values are these: \"json:$.ok\" = \"true\""),
    key(Scope::Check, "within", Kind::Time, "it takes no longer"),
    key(
        Scope::Replay,
        "log",
        Kind::Text,
        "access log in the common or combined format; relative to this file",
    ),
    key(Scope::Replay, "speed", Kind::Number, "2 is twice as fast [1]"),
    key(Scope::Replay, "connections", Kind::Count, "requests under way at most [256]"),
];

/// The keys of a scope.
pub fn of(scope: Scope) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.scope == scope)
}

/// The key that was probably meant.
pub fn nearest(scope: Scope, name: &str) -> Option<&'static str> {
    let close = of(scope).map(|key| (distance(key.name, name), key.name)).min()?;
    (close.0 <= 2.max(name.len() / 3)).then_some(close.1)
}

/// Letters to change, add or leave out.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[row.len() - 1]
}

/// JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let mut schema = object(Scope::Root);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("anyOf".to_owned(), json!([{ "required": ["user"] }, { "required": ["replay"] }]));
    schema.insert("title".to_owned(), json!("A scenario for brisk bench run"));
    Value::Object(schema)
}

fn object(scope: Scope) -> Map<String, Value> {
    let properties: Map<String, Value> = of(scope)
        .map(|key| {
            let mut value = type_of(key.kind);
            value.insert("description".to_owned(), json!(key.doc));
            (key.name.to_owned(), Value::Object(value))
        })
        .collect();
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("additionalProperties".to_owned(), json!(false));
    if let Some((_, names)) = REQUIRED.iter().find(|(of, _)| *of == scope) {
        map.insert("required".to_owned(), json!(names));
    }
    map
}

fn type_of(kind: Kind) -> Map<String, Value> {
    let value = match kind {
        Kind::Text | Kind::Template => json!({ "type": "string" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Whole => json!({ "type": "integer", "minimum": 0 }),
        Kind::Number => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Kind::Time => json!({ "type": ["string", "number"], "pattern": "^[0-9.]+(us|ms|s|m|h)?$" }),
        Kind::Think => json!({ "type": ["string", "number"] }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Table => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        Kind::Statuses => json!({ "type": ["integer", "array"], "items": { "type": "integer" } }),
        Kind::Any => json!({}),
        Kind::One(values) => json!({ "enum": values }),
        Kind::Inner(scope) => Value::Object(object(scope)),
        Kind::Inners(scope) => json!({ "type": "array", "items": object(scope) }),
    };
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_is_reached_and_the_schema_has_every_key() {
        let text = schema().to_string();
        for key in KEYS {
            assert!(text.contains(&format!("\"{}\"", key.name)), "{}", key.name);
        }
        assert_eq!(
            schema()["properties"]["user"]["items"]["properties"]["step"]["items"]["properties"]["check"]["type"],
            "object"
        );
    }

    #[test]
    fn what_was_meant() {
        assert_eq!(nearest(Scope::User, "thnik"), Some("think"));
        assert_eq!(nearest(Scope::Root, "treshold"), Some("thresholds"));
        assert_eq!(nearest(Scope::Root, "zzzzzz"), None);
    }
}
