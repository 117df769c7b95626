//! Every key of a scenario file. Its reader, the remedies that it offers and the JSON Schema for editors come from here.

pub use crate::limits::LENGTH_SECS_MAX;
use crate::limits::{KEYS_USERS_MAX, RATE_MAX, REPEAT_MAX, WEIGHT_MAX};
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
    /// `arrivals = { … }`.
    Arrivals,
}

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A text that may hold `{{values}}`.
    Template,
    /// A URL of http or https.
    Url,
    /// A method and a path or URL, or a path or URL alone; it may hold `{{values}}`.
    Request,
    /// true or false.
    Bool,
    /// A whole number from 1, at most this.
    Count(u64),
    /// A whole number from 0, at most this.
    Whole(u64),
    /// A number above 0, at most this.
    Number(u64),
    /// A number from 0, at most this.
    Rate(u64),
    /// `500ms`, `10s`, `2m`, or a number of seconds.
    Time,
    /// The same, above 0.
    Span,
    /// A time, `1s..3s` (anything between), or `exp:2s` (exponential, by its mean).
    Think,
    /// What must hold in the end, in several texts.
    Thresholds,
    /// One text, or several.
    Texts,
    /// Names with texts.
    Table,
    /// Names of header fields with their values.
    Headers,
    /// Names with places in answers.
    Sources,
    /// Places in answers with what is to be found there.
    Equals,
    /// A number, or several.
    Statuses,
    /// Anything: it is sent as JSON.
    Any,
    /// One of these.
    One(&'static [&'static str]),
    /// One table with keys of its own.
    Inner(Scope),
    /// Several of them, one at least.
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
const REQUIRED: &[(Scope, &[&str])] =
    &[(Scope::User, &["step"]), (Scope::Data, &["name", "file"]), (Scope::Replay, &["log"])];

/// Keys that do not stand beside each other.
pub const APART: &[(Scope, &str, &str)] = &[
    (Scope::Root, "stage", "users"),
    (Scope::Root, "stage", "ramp"),
    (Scope::Root, "stage", "duration"),
    (Scope::Root, "replay", "user"),
    (Scope::Root, "replay", "arrivals"),
    (Scope::Root, "arrivals", "users"),
    (Scope::Step, "request", "step"),
    (Scope::Step, "body", "json"),
    (Scope::Step, "body", "form"),
    (Scope::Step, "body", "upload"),
    (Scope::Step, "body", "files"),
    (Scope::Step, "json", "form"),
    (Scope::Step, "json", "upload"),
    (Scope::Step, "json", "files"),
    (Scope::Step, "form", "upload"),
    (Scope::Step, "upload", "files"),
];

/// All of them.
pub const KEYS: &[Key] = &[
    key(Scope::Root, "target", Kind::Url, "URL that the paths of steps are relative to: http://host:port"),
    key(
        Scope::Root,
        "http",
        Kind::One(&["any", "1.1", "2"]),
        "version of HTTP; any: HTTP/2 where TLS agrees on it [any]",
    ),
    key(Scope::Root, "proxy", Kind::Text, "HTTP proxy that all is asked through: http://host:port"),
    key(Scope::Root, "insecure", Kind::Bool, "take any certificate [false]"),
    key(Scope::Root, "timeout", Kind::Span, "longest wait for a response [30s]"),
    key(Scope::Root, "redirects", Kind::Bool, "follow redirects, ten at most, as part of the step [true]"),
    key(Scope::Root, "users", Kind::Count(KEYS_USERS_MAX), "users at a time, where there are no stages [1]"),
    key(Scope::Root, "ramp", Kind::Time, "in which they come, evenly [0s]"),
    key(Scope::Root, "duration", Kind::Span, "how long, ramp included [10s, or the ramp]"),
    key(
        Scope::Root,
        "iterations",
        Kind::Count(i64::MAX as u64),
        "rounds after which a user is done; the duration is still the limit",
    ),
    key(Scope::Root, "headers", Kind::Headers, "sent with every request"),
    key(Scope::Root, "variables", Kind::Table, "values that every user begins with"),
    key(
        Scope::Root,
        "thresholds",
        Kind::Thresholds,
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
    key(
        Scope::Root,
        "arrivals",
        Kind::Inner(Scope::Arrivals),
        "users arrive at a rate, whatever becomes of those before, take their steps and go: { rate = 40, distribution = \"poisson\" }",
    ),
    key(
        Scope::Arrivals,
        "rate",
        Kind::Number(RATE_MAX),
        "users per second, where there are no stages; after the ramp",
    ),
    key(
        Scope::Arrivals,
        "distribution",
        Kind::One(&["constant", "poisson"]),
        "constant: at the same distance; poisson: independently of each other [constant]",
    ),
    key(
        Scope::Arrivals,
        "users_max",
        Kind::Count(KEYS_USERS_MAX),
        "users at a time; more than these count as not sent, and the run is INVALID [4000]",
    ),
    key(Scope::Stage, "rate", Kind::Rate(RATE_MAX), "users who arrive per second at the end of the ramp"),
    key(Scope::Stage, "users", Kind::Whole(KEYS_USERS_MAX), "users at the end of the ramp"),
    key(Scope::Stage, "over", Kind::Time, "length of the ramp [0s]"),
    key(Scope::Stage, "hold", Kind::Time, "length of the plateau behind it [0s]"),
    key(Scope::Data, "name", Kind::Text, "values are {{name.column}}"),
    key(Scope::Data, "file", Kind::Text, "CSV; its first line names the columns; relative to this file"),
    key(
        Scope::Data,
        "columns",
        Kind::Texts,
        "names of the columns, where the file's first line is a row already",
    ),
    key(
        Scope::Data,
        "skip_first",
        Kind::Bool,
        "the file's first line names columns, and columns takes its place [false]",
    ),
    key(Scope::Data, "delimiter", Kind::Text, "what stands between values [,]"),
    key(Scope::Data, "random", Kind::Bool, "a random row per round, not the next one [false]"),
    key(Scope::User, "name", Kind::Text, "name of this kind"),
    key(Scope::User, "weight", Kind::Count(WEIGHT_MAX), "share among all users [1]"),
    key(
        Scope::User,
        "stage",
        Kind::Inners(Scope::Stage),
        "how many of this kind there are when, in place of the file's; all kinds have it, or none",
    ),
    key(
        Scope::User,
        "iterations",
        Kind::Count(i64::MAX as u64),
        "rounds after which one of this kind is done [the file's]",
    ),
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
    key(
        Scope::Step,
        "tags",
        Kind::Texts,
        "steps with the same tag are also summed up together; --tags chooses by them",
    ),
    key(
        Scope::Step,
        "step",
        Kind::Inners(Scope::Step),
        "in place of a request: a block of steps, which are taken in order, as often as the block says; its name is their group",
    ),
    key(
        Scope::Step,
        "order",
        Kind::One(&["in turn", "random"]),
        "of a block; random: one of its steps each time, drawn by weight [in turn]",
    ),
    key(Scope::Step, "group", Kind::Text, "steps of one group are also summed up together"),
    key(Scope::Step, "weight", Kind::Count(WEIGHT_MAX), "share among steps that are drawn [1]"),
    key(Scope::Step, "repeat", Kind::Count(REPEAT_MAX), "taken so many times, one after the other [1]"),
    key(Scope::Step, "chance", Kind::Number(100), "taken in so many percent of cases, drawn each time [100]"),
    key(
        Scope::Step,
        "when",
        Kind::Table,
        "taken only if values of the user are these: { role = \"admin\" }; one that is not saved yet is empty",
    ),
    key(Scope::Step, "unless", Kind::Table, "left out if values of the user are these: { role = \"guest\" }"),
    key(
        Scope::Step,
        "request",
        Kind::Request,
        "method and path or URL: \"GET /\", \"POST /login\"; a path alone is a GET",
    ),
    key(Scope::Step, "headers", Kind::Headers, "sent with this request"),
    key(Scope::Step, "body", Kind::Template, "body as it is"),
    key(Scope::Step, "json", Kind::Any, "body as JSON"),
    key(Scope::Step, "form", Kind::Table, "body as a form: its fields"),
    key(
        Scope::Step,
        "files",
        Kind::Table,
        "files of the form, which is multipart/form-data then: photo = \"cat.jpg\", relative to this file",
    ),
    key(Scope::Step, "upload", Kind::Text, "body from a file as it is; relative to this file"),
    key(
        Scope::Step,
        "save",
        Kind::Sources,
        "values to remember: token = \"json:$.token\", \"regex:…(…)\", \"header:Name\", \"cookie:name\"",
    ),
    key(
        Scope::Step,
        "otherwise",
        Kind::Table,
        "what values to remember are where the answer has none; without it the step fails",
    ),
    key(
        Scope::Step,
        "check",
        Kind::Inner(Scope::Check),
        "what the answer must be like; a status of 400 and more fails unless it is asked for",
    ),
    key(Scope::Step, "think", Kind::Think, "pause after this step"),
    key(Scope::Check, "status", Kind::Statuses, "status, or one of several"),
    key(Scope::Check, "contains", Kind::Texts, "the body holds this text, or all of these"),
    key(Scope::Check, "lacks", Kind::Texts, "the body holds none of these texts"),
    key(Scope::Check, "matches", Kind::Texts, "the body matches this regular expression, or all of these"),
    key(Scope::Check, "equal", Kind::Equals, "values are these: \"json:$.ok\" = \"true\""),
    key(Scope::Check, "within", Kind::Time, "it takes no longer"),
    key(
        Scope::Replay,
        "log",
        Kind::Text,
        "access log in the common or combined format; relative to this file",
    ),
    key(Scope::Replay, "speed", Kind::Number(1_000_000), "2 is twice as fast [1]"),
    key(Scope::Replay, "connections", Kind::Count(20_000), "requests under way at most [256]"),
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

/// The least and the most that a number may be.
pub fn bounds(scope: Scope, name: &str) -> (u64, u64) {
    match of(scope).find(|key| key.name == name).map(|key| key.kind) {
        Some(Kind::Count(most)) => (1, most),
        Some(Kind::Whole(most) | Kind::Number(most) | Kind::Rate(most)) => (0, most),
        _ => (0, u64::MAX),
    }
}

/// JSON Schema (draft 2020-12) of a scenario file.
pub fn schema() -> Value {
    let mut schema = object(Scope::Root);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("anyOf".to_owned(), json!([{ "required": ["user"] }, { "required": ["replay"] }]));
    schema.insert("dependentRequired".to_owned(), json!({ "replay": ["target"] }));
    let somebody = json!({ "properties": { "users": { "minimum": 1 }, "rate": { "exclusiveMinimum": 0 } } });
    if let Some(stages) = schema.get_mut("properties").and_then(|properties| properties.get_mut("stage")) {
        stages["contains"] = somebody;
    }
    schema.insert("$defs".to_owned(), json!({ "step": object(Scope::Step) }));
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
    if scope == Scope::Stage {
        map.insert("anyOf".to_owned(), json!([{ "required": ["users"] }, { "required": ["rate"] }]));
    }
    if scope == Scope::Step {
        map.insert("anyOf".to_owned(), json!([{ "required": ["request"] }, { "required": ["step"] }]));
    }
    let apart = APART.iter().filter(|(of, ..)| *of == scope);
    let apart: Vec<Value> = apart.map(|(_, one, other)| json!({ "required": [one, other] })).collect();
    if !apart.is_empty() {
        map.insert("not".to_owned(), json!({ "anyOf": apart }));
    }
    map
}

/// A number as a time has it, and a unit.
const NUMBER: &str = r"([0-9]+\.?[0-9]*|\.[0-9]+)";
const UNIT: &str = "(us|ms|s|m|h)?";
/// A token (RFC 9110 §5.6.2), and a field's value (§5.5) as far as it would break a message apart.
const TOKEN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";
const VALUE: &str = r"^[^\r\n\u0000]*$";
/// Places in answers.
const SOURCE: &str = r"^(json:|regex:|header:.*\S|cookie:.*\S|(status|body)$)";

fn type_of(kind: Kind) -> Map<String, Value> {
    let time = format!("{NUMBER}{UNIT}");
    let scalar = ["string", "number", "boolean"];
    let value = match kind {
        Kind::Text | Kind::Template => json!({ "type": "string" }),
        Kind::Url => json!({ "type": "string", "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://[^ ]+$" }),
        Kind::Request => {
            let place = r"(/|\{\{|https?://)";
            let pattern = format!(r"^\s*([A-Z]+\s+{place}[^\r\n\u0000]*|{place}\S*\s*)$");
            json!({ "type": "string", "pattern": pattern })
        }
        Kind::Texts => {
            let texts = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
            json!({ "anyOf": [{ "type": "string" }, texts] })
        }
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Count(most) => json!({ "type": "integer", "minimum": 1, "maximum": most }),
        Kind::Whole(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
        Kind::Number(most) => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": most }),
        Kind::Rate(most) => json!({ "type": "number", "minimum": 0, "maximum": most }),
        Kind::Time => {
            json!({ "type": ["string", "number"], "pattern": format!("^{time}$"), "minimum": 0, "maximum": LENGTH_SECS_MAX })
        }
        Kind::Span => json!({ "type": ["string", "number"], "pattern": format!("^(?=.*[1-9]){time}$"),
            "exclusiveMinimum": 0, "maximum": LENGTH_SECS_MAX }),
        Kind::Think => json!({ "type": ["string", "number"], "minimum": 0, "maximum": LENGTH_SECS_MAX,
            "pattern": format!(r"^({time}(\.\.{time})?|exp:{time})$") }),
        Kind::Thresholds => {
            let share = format!(r"(mean|max|p{NUMBER})\s*[<>]\s*{time}");
            let number = format!("{NUMBER}([eE][+-]?[0-9]+)?");
            let count = format!(r"errors\s*[<>]\s*{number}\s*%?|(rate|count)\s*[<>]\s*{number}");
            let pattern = format!(r"^(.*: )?\s*({share}|{count})\s*$");
            json!({ "type": "array", "items": { "type": "string", "pattern": pattern } })
        }
        Kind::Table => json!({ "type": "object", "additionalProperties": { "type": scalar } }),
        Kind::Headers => json!({ "type": "object", "propertyNames": { "pattern": TOKEN },
            "additionalProperties": { "type": scalar, "pattern": VALUE } }),
        Kind::Sources => {
            json!({ "type": "object", "additionalProperties": { "type": "string", "pattern": SOURCE } })
        }
        Kind::Equals => json!({ "type": "object", "propertyNames": { "pattern": SOURCE },
            "additionalProperties": { "type": scalar } }),
        Kind::Statuses => {
            let one = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
            json!({ "anyOf": [one.clone(), { "type": "array", "items": one, "minItems": 1 }] })
        }
        Kind::Any => json!({}),
        Kind::One(values) => json!({ "enum": values }),
        Kind::Inner(scope) => Value::Object(object(scope)),
        // Steps may hold steps.
        Kind::Inners(Scope::Step) => {
            json!({ "type": "array", "items": { "$ref": "#/$defs/step" }, "minItems": 1 })
        }
        Kind::Inners(scope) => json!({ "type": "array", "items": object(scope), "minItems": 1 }),
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
            schema()["properties"]["user"]["items"]["properties"]["step"]["items"]["$ref"],
            "#/$defs/step"
        );
        assert_eq!(schema()["$defs"]["step"]["properties"]["check"]["type"], "object");
        assert_eq!(schema()["$defs"]["step"]["properties"]["step"]["items"]["$ref"], "#/$defs/step");
    }

    #[test]
    fn what_was_meant() {
        assert_eq!(nearest(Scope::User, "thnik"), Some("think"));
        assert_eq!(nearest(Scope::Root, "treshold"), Some("thresholds"));
        assert_eq!(nearest(Scope::Root, "zzzzzz"), None);
    }
}
