//! What the server has said, and what follows from two such answers: counters become rates.

use crate::limits::{APART_MIN_MS, COURSE_SECS_MAX};
use serde_json::Value;
use std::collections::BTreeMap;

/// One answer of a `dashboard` location.
#[derive(Clone, Debug)]
pub struct Sample(Value);

impl Sample {
    /// Takes an answer. The error says what it is not.
    pub fn new(answer: Value) -> Result<Sample, String> {
        if answer["own"]["now_ms"].is_i64() && answer["status"].is_object() {
            return Ok(Sample(answer));
        }
        Err("the answer is not that of a dashboard".into())
    }

    pub(crate) fn own(&self) -> &Value {
        &self.0["own"]
    }

    fn now_ms(&self) -> f64 {
        number(&self.own()["now_ms"])
    }

    /// Whether both are of one process: counters begin anew with another one.
    fn is_of_one_process(&self, other: &Sample) -> bool {
        self.own()["pid"] == other.own()["pid"]
    }

    /// The values of a family with their labels.
    pub(crate) fn family(&self, name: &str) -> impl Iterator<Item = (&Value, &Value)> {
        let values = self.0["status"][name]["values"].as_array();
        values.into_iter().flatten().map(|value| (&value["labels"], value))
    }

    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |own: &Value| labels.iter().all(|(label, value)| own[*label] == **value);
        self.family(name).filter(|(own, _)| fits(own)).map(|(_, value)| number(&value["value"])).sum()
    }
}

/// A number; 0 where there is none.
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// A text; empty where there is none.
pub(crate) fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The server as a whole, in the last second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// `0.1.0`.
    pub version: String,
    /// The worker process.
    pub pid: u64,
    /// Configurations so far.
    pub generation: u64,
    /// Its threads.
    pub threads: u64,
    /// Why the last reload was refused, if it was.
    pub refused: Option<String>,
    /// Requests that ended, per second.
    pub requests: f64,
    /// Of these, the share with a status of 500 or above.
    pub failed: f64,
    /// Half of them, 95 % and 99 % took at most so long, in microseconds; `None` where there was no request.
    pub times_us: [Option<f64>; 3],
    /// Bytes of responses per second.
    pub sent: f64,
    /// Bytes of requests per second.
    pub received: f64,
    /// Open connections of clients.
    pub connections: f64,
    /// New ones per second.
    pub accepted: f64,
    /// CPUs that the worker uses.
    pub cpus: f64,
    /// Its memory in bytes.
    pub memory: f64,
    /// Requests per second of the last ten minutes, the newest last.
    pub course: Vec<u64>,
}

/// What is shown: the last answer, beside the one before.
#[derive(Debug)]
pub struct Model {
    now: Sample,
    /// The counters of the answer before, if it is of the same process, and how long ago that was, in seconds.
    before: Option<(Sample, f64)>,
    course: BTreeMap<i64, u64>,
}

impl Model {
    /// Begins with one answer: there are no rates of counters yet.
    pub fn new(now: Sample) -> Model {
        let mut model = Model { now, before: None, course: BTreeMap::new() };
        model.keep_course();
        model
    }

    /// Takes the next answer.
    pub fn next(&mut self, now: Sample) {
        let apart_ms = now.now_ms() - self.now.now_ms();
        if !now.is_of_one_process(&self.now) {
            (self.before, self.now) = (None, now);
        } else if apart_ms >= APART_MIN_MS {
            let before = std::mem::replace(&mut self.now, now);
            self.before = Some((before, apart_ms / 1000.0));
        } else {
            self.now = now;
        }
        self.keep_course();
    }

    /// Later answers need no more of the history than what comes after this second: the newest one that is known, and what is new.
    pub fn since(&self) -> Option<i64> {
        self.course.last_key_value().map(|(secs, _)| secs - 1)
    }

    pub(crate) fn now(&self) -> &Sample {
        &self.now
    }

    /// A counter's growth per second; 0 before there is a second answer.
    pub(crate) fn rate(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let Some((before, secs)) = &self.before else { return 0.0 };
        (of(&self.now) - of(before)).max(0.0) / secs
    }

    pub(crate) fn rate_of(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.rate(|sample| sample.sum(name, labels))
    }

    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.now.sum(name, labels)
    }

    fn keep_course(&mut self) {
        let seconds = &self.now.own()["history"]["seconds"];
        let columns = ["unix_secs", "length_ms", "classes"].map(|name| seconds[name].as_array());
        let [Some(secs), Some(lengths), Some(classes)] = columns else { return };
        for ((secs, length), classes) in secs.iter().zip(lengths).zip(classes) {
            let ended: f64 = classes.as_array().into_iter().flatten().map(number).sum();
            let rate = ended * 1000.0 / number(length).max(1.0);
            self.course.insert(secs.as_i64().unwrap_or(0), rate.round() as u64);
        }
        while self.course.len() > COURSE_SECS_MAX {
            self.course.pop_first();
        }
    }

    /// Why the last reload was refused, if it was.
    fn refused(&self) -> Option<String> {
        let (_, last) = self.now.family("brisk_configuration_last_reload_successful").next()?;
        let (labels, _) = self.now.family("brisk_configuration_reload_refused_seconds").next()?;
        (number(&last["value"]) == 0.0).then(|| word(&labels["reason"]).to_string())
    }

    /// The server as a whole.
    pub fn summary(&self) -> Summary {
        let own = self.now.own();
        let seconds = &own["history"]["seconds"];
        let last = |name: &str| seconds[name].as_array().and_then(|column| column.last());
        let second = |name: &str| last(name).map_or(0.0, number);
        let per_second = 1000.0 / second("length_ms").max(1.0);
        let classes: Vec<f64> =
            last("classes").and_then(Value::as_array).into_iter().flatten().map(number).collect();
        let ended: f64 = classes.iter().sum();
        let whole = |name: &str| own[name].as_u64().unwrap_or(0);
        Summary {
            version: word(&own["version"]).to_string(),
            pid: whole("pid"),
            generation: whole("generation"),
            threads: whole("threads"),
            refused: self.refused(),
            requests: ended * per_second,
            failed: if ended > 0.0 { classes.last().copied().unwrap_or(0.0) / ended } else { 0.0 },
            times_us: ["p50_us", "p95_us", "p99_us"].map(|name| last(name).and_then(Value::as_f64)),
            sent: second("sent_bytes") * per_second,
            received: second("received_bytes") * per_second,
            connections: second("connections"),
            accepted: second("accepted") * per_second,
            cpus: second("cpu_us") * per_second / 1e6,
            memory: second("memory_bytes"),
            course: self.course.values().copied().collect(),
        }
    }
}
