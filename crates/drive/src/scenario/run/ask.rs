//! One step of a user: the request with its values, what is checked of the answer, and what is remembered of it.

use super::{Judged, Mind, Visitor};
use crate::client::{Exchange, Fields, Request, Url, decode, is_redirect};
use crate::limits::{PLAIN_BYTES_MAX, SCENARIO_REDIRECTS_MAX};
use crate::scenario::course::{Taken, Wrong};
use crate::scenario::model::{Check, Step};
use crate::scenario::template::{Escape, Template};
use crate::scenario::values;
use brisk_load::rng::Rng;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Visitor {
    /// Asks and judges.
    pub(super) async fn ask(&self, step: &Step, mind: &mut Mind, taken: &mut Taken) -> Judged {
        let began = Instant::now();
        let mut request = self.request(step, mind).map_err(Wrong::check)?;
        for _ in 0..=SCENARIO_REDIRECTS_MAX {
            let asked = self.elapsed();
            taken.status = 0;
            let exchange = mind.client.exchange(&request.with_cookies(&mind.jar)).await;
            let exchange = exchange.map_err(|failure| Wrong::from(&failure))?;
            self.here.shared.course.responses.fetch_add(1, Ordering::Relaxed);
            taken.saw(&exchange, asked);
            exchange.fill(&mut mind.jar, &request);
            let next = exchange.fields.get("location").filter(|_| is_redirect(exchange.status));
            if self.scenario().redirects
                && !wants_redirect(step)
                && let Some(url) = next.and_then(|location| request.url.join(location))
            {
                if exchange.status < 307 && request.method != "HEAD" {
                    "GET".clone_into(&mut request.method);
                    request.body = Vec::new();
                }
                request.url = url;
                continue;
            }
            taken.bytes = exchange.body_bytes;
            if exchange.status >= 400 && !accepts(step, exchange.status) {
                let refused = Wrong::refused(exchange.status);
                // A status that was not asked for is named as the check that failed.
                let text =
                    if asks_for_status(step) { format!("check: {}", refused.text) } else { refused.text };
                return Err(Wrong { text, ..refused });
            }
            return self.judge(step, mind, &exchange, began).map_err(Wrong::check);
        }
        Err(Wrong::check("too many redirects"))
    }

    fn request(&self, step: &Step, mind: &Mind) -> Result<Request, String> {
        let scenario = self.scenario();
        let value = |name: &str| self.value(mind, name);
        let fill = |template: &Template, escape| {
            template.fill(escape, &value).map_err(|name| format!("no value for {{{{{name}}}}}"))
        };
        let text = fill(&step.url, Escape::None)?;
        let url = match &scenario.target {
            // A value may be a reference that an answer had.
            Some(target) if step.url.begins_with_value() => {
                target.join(&text).ok_or_else(|| format!("bad URL {text}"))?
            }
            Some(target) => target.at(&text).ok_or_else(|| format!("bad URL {text}"))?,
            None => Url::parse(&text).map_err(|_| format!("bad URL {text}"))?,
        };
        let missing = |name: String| format!("no value for {{{{{name}}}}}");
        let (body, kind) = step.body.fill(&value).map_err(missing)?;
        let mut fields = Fields::default();
        if let Some(kind) = kind {
            fields.push("Content-Type", kind);
        }
        for (name, template) in step.headers.iter().chain(&scenario.headers) {
            if fields.get(name).is_none() {
                fields.push(name, fill(template, Escape::None)?);
            }
        }
        for (name, value) in
            [("User-Agent", "brisk"), ("Accept", "*/*"), ("Accept-Encoding", decode::ACCEPT_ENCODING)]
        {
            if fields.get(name).is_none() {
                fields.push(name, value);
            }
        }
        let request = Request { method: step.method.clone(), url, fields, body };
        match request.fault() {
            Some(fault) => Err(fault),
            None => Ok(request),
        }
    }

    pub(super) fn value(&self, mind: &Mind, name: &str) -> Option<String> {
        if let Some(value) = mind.values.get(name) {
            return Some(value.clone());
        }
        match name {
            "user.number" => return Some(self.number.to_string()),
            "user.round" => return Some(mind.round.to_string()),
            _ => {}
        }
        if let Some(value) = values::of(name, &mut Rng::from_clock()) {
            return Some(value);
        }
        let (table, column) = name.split_once('.')?;
        let at = self.scenario().data.iter().position(|data| data.name == table)?;
        self.scenario().data[at].table.value(mind.rows[at], column).map(str::to_owned)
    }

    /// Checks an answer and remembers what is to be remembered.
    fn judge(&self, step: &Step, mind: &mut Mind, exchange: &Exchange, began: Instant) -> Result<(), String> {
        let body = if step.looks_into_body() { plain_body(exchange)? } else { Cow::default() };
        for check in &step.checks {
            let fill = |template: &Template| template.fill(Escape::None, &|name| self.value(mind, name));
            match check {
                Check::Status(list) if !list.contains(&exchange.status) => {
                    return Err(format!("check: status {}", exchange.status));
                }
                Check::Contains(text) => {
                    let text = fill(text).map_err(|name| format!("no value for {{{{{name}}}}}"))?;
                    if memchr::memmem::find(&body, text.as_bytes()).is_none() {
                        return Err("check: contains".to_owned());
                    }
                }
                Check::Lacks(text) => {
                    let text = fill(text).map_err(|name| format!("no value for {{{{{name}}}}}"))?;
                    if memchr::memmem::find(&body, text.as_bytes()).is_some() {
                        return Err("check: lacks".to_owned());
                    }
                }
                Check::Matches(regex) if !regex.is_match(&body) => return Err("check: matches".to_owned()),
                Check::Equal(source, want) if source.find(exchange, &body) != fill(want).ok() => {
                    return Err("check: equal".to_owned());
                }
                Check::Within(limit) if began.elapsed() > *limit => return Err("check: within".to_owned()),
                _ => {}
            }
        }
        for (name, source) in &step.save {
            let otherwise =
                || step.otherwise.iter().find(|(have, _)| have == name).map(|(_, value)| value.clone());
            let value = source.find(exchange, &body).or_else(otherwise);
            let value = value.ok_or_else(|| format!("no value to save as {name}"))?;
            mind.values.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// A body without its coding; of a long one the beginning.
fn plain_body(exchange: &Exchange) -> Result<Cow<'_, [u8]>, String> {
    let (body, coding) = (&exchange.body[..], exchange.fields.get("content-encoding").unwrap_or_default());
    // Answers to HEAD, 204 and 304 tell the coding of a body that does not come.
    if body.is_empty() || coding.is_empty() {
        return Ok(Cow::Borrowed(body));
    }
    let is_whole = body.len() as u64 == exchange.body_bytes;
    let decode = if is_whole { decode::decode } else { decode::decode_beginning };
    let plain = decode(body, coding, PLAIN_BYTES_MAX).map_err(|_| "broken content coding".to_owned())?;
    Ok(plain.map_or(Cow::Borrowed(body), Cow::Owned))
}

/// A step that says which status is good.
fn asks_for_status(step: &Step) -> bool {
    step.checks.iter().any(|check| matches!(check, Check::Status(_)))
}

/// Whether this is one of the statuses that the step says are good.
fn accepts(step: &Step, status: u16) -> bool {
    let is_in = |check: &Check| !matches!(check, Check::Status(list) if !list.contains(&status));
    asks_for_status(step) && step.checks.iter().all(is_in)
}

/// A step that asks for a redirect's status wants to see it.
fn wants_redirect(step: &Step) -> bool {
    step.checks
        .iter()
        .any(|check| matches!(check, Check::Status(list) if list.iter().any(|&status| is_redirect(status))))
}
