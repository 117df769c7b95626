//! Rules applied in their order, as mod_rewrite's `apply_rewrite_list` does.

use super::context::Context;
use super::outcome::Cookie;
use super::rule::{Change, Cond, CondTest, End, Next, Query, Rule, Rules};
use super::{template, uri};
use crate::expr::Evaluation;
use crate::limits::{LINE_WORK_BYTES, PATH_BYTES_MAX};
use crate::{Facts as _, Pattern, Stop, Variable};

/// What a pass has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No rule has changed the path.
    Unchanged,
    /// One has; the path and the query are in the context's target.
    Changed {
        /// Its URL is sent as it is (NE).
        is_raw: bool,
        /// The status of the redirect, if it is one.
        status: u16,
        /// How the last rule was flagged: the path is a URI for all mappings.
        is_passed_through: bool,
        /// The last rule says that its path is a file's.
        is_file_trusted: bool,
    },
    /// The request is answered with this status.
    Answered(u16),
}

/// What one rule has come to.
enum Outcome {
    NoMatch,
    /// It matched and changed nothing.
    Matched,
    /// It matched and changed the path.
    Changed,
    /// What the request brings must not be used so.
    Refused(u16),
}

/// Applies rules to the context's target.
///
/// # Errors
/// A fact is to come, or there will be none.
pub(super) fn apply<P: Pattern>(rules: &Rules<P>, context: &mut Context<'_>) -> Result<Verdict, Stop> {
    let is_asked_why = context.facts.is_asked_why();
    let mut verdict = Verdict::Unchanged;
    let mut round = 1;
    let mut at = 0;
    while let Some(rule) = rules.list.get(at) {
        at += 1;
        context.facts.spend(context.target.path.len() + context.target.path_info.len() + LINE_WORK_BYTES)?;
        let is_redirect = matches!(rule.change, Change::Substitute { end: End::Redirect, .. });
        if context.target.is_subrequest && (rule.flags.is_for_main_requests || is_redirect) {
            continue;
        }
        let before = context.effects.vary.len();
        let outcome = one(rule, context)?;
        if is_asked_why {
            tell(rule, &outcome, context)?;
        }
        match outcome {
            Outcome::NoMatch => {
                // What earlier rules have read counts, not what this one has: it changed nothing.
                context.effects.vary.truncate(before);
                at = behind_chain(rules, at);
                continue;
            }
            Outcome::Refused(status) => return Ok(Verdict::Answered(status)),
            Outcome::Matched | Outcome::Changed => {}
        }
        if context.target.path.len() > PATH_BYTES_MAX {
            return Err(Stop::Failed(format!(
                "a rewrite rule has made a path of more than {PATH_BYTES_MAX} bytes"
            )));
        }
        if rule.flags.answers {
            return Ok(Verdict::Answered(rule.flags.status));
        }
        if matches!(outcome, Outcome::Changed) {
            verdict = Verdict::Changed {
                is_raw: rule.flags.keeps_raw,
                status: rule.flags.status,
                is_passed_through: false,
                is_file_trusted: rule.flags.is_stat_trusted,
            };
        }
        if rule.flags.next == Next::PassThrough {
            let status = rule.flags.status;
            return Ok(Verdict::Changed {
                is_raw: false,
                status,
                is_passed_through: true,
                is_file_trusted: false,
            });
        }
        match proceed(rule, context, at, &mut round)? {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(verdict)
}

/// Says what a rule has come to.
fn tell<P: Pattern>(rule: &Rule<P>, outcome: &Outcome, context: &Context<'_>) -> Result<(), Stop> {
    let facts = context.facts;
    let path = String::from_utf8_lossy(&context.target.path);
    let applies = !matches!(outcome, Outcome::NoMatch);
    let tell = |text: std::fmt::Arguments<'_>| facts.tell(&rule.origin, applies, text);
    match outcome {
        Outcome::NoMatch => {
            let subject = String::from_utf8_lossy(&context.subject);
            let is_match = rule.pattern.find(&context.subject)?.is_some() != rule.is_negated;
            if is_match {
                tell(format_args!("matches \"{subject}\", but a condition before it does not hold"));
            } else {
                tell(format_args!("does not match \"{subject}\""));
            }
        }
        Outcome::Refused(status) => {
            tell(format_args!("would make a query of what was sent, so it answers with {status}"));
        }
        _ if rule.flags.answers => tell(format_args!("applies and answers with {}", rule.flags.status)),
        Outcome::Matched => tell(format_args!("applies and leaves the path as it is")),
        Outcome::Changed => tell(format_args!("applies: the path is {path} now")),
    }
    Ok(())
}

/// The first rule that is not chained with the one before `at`, which did not match.
fn behind_chain<P>(rules: &Rules<P>, at: usize) -> usize {
    let chained = rules.list[at - 1..].iter().take_while(|rule| rule.flags.is_chained).count();
    (at + chained).min(rules.list.len())
}

/// The rule behind one that applied; `None`: the pass is over.
fn proceed<P>(
    rule: &Rule<P>,
    context: &mut Context<'_>,
    at: usize,
    round: &mut u32,
) -> Result<Option<usize>, Stop> {
    context.effects.is_last_pass |= rule.flags.next == Next::End;
    if matches!(rule.change, Change::Substitute { end: End::Proxy, .. }) {
        return Ok(None);
    }
    match rule.flags.next {
        Next::Skip(count) => Ok(Some(at.saturating_add(count))),
        Next::Last | Next::End | Next::PassThrough => Ok(None),
        Next::Again(rounds_max) => {
            *round += 1;
            if *round >= rounds_max {
                let text = format!("a rewrite rule was applied in more than {rounds_max} rounds (flag N)");
                return Err(Stop::Failed(text));
            }
            Ok(Some(0))
        }
    }
}

fn one<P: Pattern>(rule: &Rule<P>, context: &mut Context<'_>) -> Result<Outcome, Stop> {
    context.subject = subject(context);
    let found = rule.pattern.find(&context.subject)?;
    if found.is_some() == rule.is_negated {
        return Ok(Outcome::NoMatch);
    }
    context.cond_captures.clear();
    match found {
        Some(spans) => context.rule_captures.set(&context.subject, spans),
        None => context.rule_captures.clear(),
    }
    if !conditions_hold(&rule.conditions, context)? {
        return Ok(Outcome::NoMatch);
    }
    let path = match &rule.change {
        Change::None => None,
        Change::Substitute { template, query, allows_foreign_query, .. } => {
            let expanded =
                template.expand_substitution(context, rule.flags.escapes.as_ref(), query.is_last)?;
            if expanded.has_foreign_query && !allows_foreign_query {
                // Apache: AH10508, CVE-2024-38474.
                return Ok(Outcome::Refused(403));
            }
            Some(expanded.text)
        }
    };
    for template in &rule.flags.env {
        set_env(template, context)?;
    }
    for template in &rule.flags.cookies {
        let text = template.expand(context)?;
        if let Some(cookie) = cookie(&text) {
            set_cookie(cookie, context)?;
        }
    }
    let outcome = match path {
        None => Outcome::Matched,
        Some(path) => {
            if substitute(rule, path, context)? == Kind::Elsewhere {
                // What leads elsewhere has no type and no handler here.
                return Ok(Outcome::Changed);
            }
            Outcome::Changed
        }
    };
    let lower = |mut text: Vec<u8>| {
        text.make_ascii_lowercase();
        Some(text).filter(|text| !text.is_empty())
    };
    if let Some(template) = &rule.flags.content_type {
        let text = template.expand(context)?;
        context.effects.content_type = lower(text).or(context.effects.content_type.take());
    }
    if let Some(template) = &rule.flags.handler {
        let text = template.expand(context)?;
        context.effects.handler = lower(text).or(context.effects.handler.take());
    }
    Ok(outcome)
}

/// What a pattern is held against: the path, for the rules of a directory the part below its folder.
fn subject(context: &Context<'_>) -> Vec<u8> {
    let target = &context.target;
    let Some(folder) = context.folder else { return target.path.clone() };
    let whole = [target.path.as_slice(), &target.path_info].concat();
    match whole.strip_prefix(folder) {
        Some(below) if !target.is_proxied => below.to_vec(),
        _ => whole,
    }
}

/// Whether what stands before a rule holds; in a row of conditions with the flag OR, one is enough.
fn conditions_hold<P: Pattern>(conditions: &[Cond<P>], context: &mut Context<'_>) -> Result<bool, Stop> {
    let mut at = 0;
    while let Some(condition) = conditions.get(at) {
        context.read.clear();
        let holds = condition_holds(condition, context)?;
        if context.facts.is_asked_why() {
            let verb = if holds { "holds" } else { "does not hold" };
            let input = String::from_utf8_lossy(&condition.input.expand(context)?).into_owned();
            // The rule behind it is what applies.
            context.facts.tell(&condition.origin, false, format_args!("{verb} for \"{input}\""));
        }
        if condition.is_unvaried || (condition.or_next && !holds) {
            context.read.clear();
        }
        if condition.or_next && holds {
            // The rest of the row is not looked at.
            while conditions.get(at).is_some_and(|condition| condition.or_next) {
                at += 1;
            }
        } else if !condition.or_next && !holds {
            return Ok(false);
        }
        let read = std::mem::take(&mut context.read);
        for name in read {
            if !context.effects.vary.contains(&name) {
                context.effects.vary.push(name);
            }
        }
        at += 1;
    }
    Ok(true)
}

fn condition_holds<P: Pattern>(condition: &Cond<P>, context: &mut Context<'_>) -> Result<bool, Stop> {
    let input = condition.input.expand(context)?;
    context.facts.spend(input.len() + LINE_WORK_BYTES)?;
    let holds = match &condition.test {
        CondTest::File(test) => context.facts.file(&input, *test)?,
        CondTest::Uri => !input.is_empty() && context.facts.status_of_uri(&input)? < 400,
        // (A file is not served where a redirect is, unlike in expressions.)
        CondTest::Served => !input.is_empty() && context.facts.status_of_file(&input)? < 300,
        CondTest::Number { order, value } => order.holds(crate::expr::leading_number(&input).cmp(value)),
        CondTest::Text { order, text, ignores_case: false } => {
            // Apache compares lengths first.
            order.holds(input.len().cmp(&text.len()).then_with(|| input.cmp(text)))
        }
        CondTest::Text { order, text, ignores_case: true } => {
            order.holds(input.to_ascii_lowercase().cmp(&text.to_ascii_lowercase()))
        }
        CondTest::Pattern(pattern) => {
            let found = pattern.find(&input)?;
            let is_match = found.is_some();
            if let Some(spans) = found
                && !condition.is_negated
            {
                context.cond_captures.set(&input, spans);
            }
            is_match
        }
        CondTest::Expression(expression) => {
            let mut evaluation = Evaluation::new(&*context);
            let holds = evaluation.holds(expression)?;
            let (captures, vary) = (evaluation.captures, evaluation.vary);
            if holds && !condition.is_negated {
                context.cond_captures = captures;
            }
            context.read.extend(vary);
            holds
        }
    };
    Ok(holds != condition.is_negated)
}

fn set_env(template: &template::Template, context: &mut Context<'_>) -> Result<(), Stop> {
    let text = template.expand(context)?;
    let change = match text.strip_prefix(b"!") {
        Some(name) => (name.to_vec(), None),
        None => match text.iter().position(|&byte| byte == b':') {
            Some(colon) => (text[..colon].to_vec(), Some(text[colon + 1..].to_vec())),
            None => (text, Some(Vec::new())),
        },
    };
    let env = &mut context.effects.env;
    context.facts.spend(env.len() + LINE_WORK_BYTES)?;
    env.retain(|(known, _)| !known.eq_ignore_ascii_case(&change.0));
    env.push(change);
    Ok(())
}

/// The last cookie of a name counts.
fn set_cookie(cookie: Cookie, context: &mut Context<'_>) -> Result<(), Stop> {
    let cookies = &mut context.effects.cookies;
    context.facts.spend(cookies.len() + LINE_WORK_BYTES)?;
    cookies.retain(|known| known.name != cookie.name);
    cookies.push(cookie);
    Ok(())
}

/// `name:value:domain[:lifetime[:path[:secure[:httponly[:samesite]]]]]`, or the same with `;` behind a first `;`. Empty parts
/// do not count; without a domain there is no cookie.
fn cookie(text: &[u8]) -> Option<Cookie> {
    let (separator, text) = match text.strip_prefix(b";") {
        Some(text) => (b';', text),
        None => (b':', text),
    };
    let mut parts = text.split(|&byte| byte == separator).filter(|part| !part.is_empty());
    let (name, value, domain) = (parts.next()?.to_vec(), parts.next()?.to_vec(), parts.next()?.to_vec());
    let is_one_of = |part: Option<&[u8]>, word: &str| {
        part.is_some_and(|part| {
            part == b"1" || part.eq_ignore_ascii_case(b"true") || part.eq_ignore_ascii_case(word.as_bytes())
        })
    };
    Some(Cookie {
        name,
        value,
        domain,
        lifetime_mins: parts.next().map(crate::expr::leading_number).filter(|&minutes| minutes != 0),
        path: parts.next().map(<[u8]>::to_vec),
        is_secure: is_one_of(parts.next(), "secure"),
        is_http_only: is_one_of(parts.next(), "HttpOnly"),
        same_site: parts
            .next()
            .filter(|part| *part != b"0" && !part.eq_ignore_ascii_case(b"false"))
            .map(<[u8]>::to_vec),
    })
}

/// Where a substitution leads.
#[derive(PartialEq, Eq)]
enum Kind {
    Here,
    /// To a back end or another host.
    Elsewhere,
}

/// Makes the expanded substitution the target's path and query.
fn substitute<P>(rule: &Rule<P>, mut path: Vec<u8>, context: &mut Context<'_>) -> Result<Kind, Stop> {
    let Change::Substitute { text, query, end, keeps_slashes, .. } = &rule.change else {
        return Ok(Kind::Here);
    };
    let mut has_prefix = false;
    if !context.target.is_proxied && !path.starts_with(b"/") && uri::scheme(&path).is_none() {
        match context.folder {
            Some(folder) => {
                path.splice(..0, folder.iter().copied());
                has_prefix = true;
            }
            // A text of the request must not become the scheme of a URL.
            None if *end == End::Local => {
                path.insert(0, b'/');
                has_prefix = true;
            }
            None => {}
        }
    }
    if context.folder.is_some() && rule.flags.discards_path_info {
        context.target.path_info.clear();
    }
    context.target.path = path;
    context.literal_prefix.clone_from(text);
    split_query(*query, context);
    match end {
        End::Proxy => {
            qualify(context)?;
            context.target.path.splice(..0, *b"proxy:");
            return Ok(Kind::Elsewhere);
        }
        End::Redirect => {
            qualify(context)?;
            return Ok(Kind::Elsewhere);
        }
        End::Local => reduce(context)?,
    }
    if uri::scheme(&context.target.path).is_some() {
        return Ok(Kind::Elsewhere);
    }
    let has_literal_slashes = text.starts_with(b"//");
    if !keeps_slashes && !has_prefix && !has_literal_slashes {
        let path = &mut context.target.path;
        let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
        path.drain(..slashes.saturating_sub(1));
    }
    Ok(Kind::Here)
}

/// Takes the query out of the path.
fn split_query(how: Query, context: &mut Context<'_>) {
    let target = &mut context.target;
    if how.is_none {
        target.query = None;
        return;
    }
    let scheme = match uri::scheme(&target.path) {
        Some((_, false)) => {
            target.query = None;
            return;
        }
        Some((length, true)) => length,
        None => 0,
    };
    if how.discards {
        target.query = None;
    }
    let is_mark = |byte: &u8| *byte == b'?';
    let behind = &target.path[scheme..];
    let mark = if how.is_last { behind.iter().rposition(is_mark) } else { behind.iter().position(is_mark) };
    let Some(mark) = mark else { return };
    let mut query = target.path.split_off(scheme + mark);
    query.remove(0);
    if how.appends {
        if !query.is_empty() {
            query.push(b'&');
            query.extend_from_slice(target.query.as_deref().unwrap_or_default());
            target.query = Some(query);
        }
    } else {
        target.query = Some(query);
    }
    match &mut target.query {
        Some(query) if query.is_empty() => target.query = None,
        Some(query) if query.ends_with(b"&") => drop(query.pop()),
        _ => {}
    }
}

/// Makes a path a URL of this server.
fn qualify(context: &mut Context<'_>) -> Result<(), Stop> {
    if uri::scheme(&context.target.path).is_some()
        || *context.variable(&Variable::RequestMethod)? == *b"CONNECT"
    {
        return Ok(());
    }
    let scheme = context.variable(&Variable::RequestScheme)?.into_owned();
    let port = context.variable(&Variable::ServerPort)?.into_owned();
    let mut url = [scheme.as_slice(), b"://", &context.variable(&Variable::ServerName)?].concat();
    if port != default_port(&scheme).to_string().as_bytes() {
        url.push(b':');
        url.extend_from_slice(&port);
    }
    if !context.target.path.starts_with(b"/") {
        url.push(b'/');
    }
    url.extend_from_slice(&context.target.path);
    context.target.path = url;
    Ok(())
}

fn default_port(scheme: &[u8]) -> u16 {
    if scheme == b"https" { 443 } else { 80 }
}

/// Makes a URL of this server a path.
fn reduce(context: &mut Context<'_>) -> Result<(), Stop> {
    let scheme = context.variable(&Variable::RequestScheme)?.into_owned();
    let path = &context.target.path;
    let Some(start) = path.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(&scheme)) else {
        return Ok(());
    };
    let Some(rest) = path[start.len()..].strip_prefix(b"://").filter(|rest| !rest.is_empty()) else {
        return Ok(());
    };
    let slash = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (authority, local) = rest.split_at(slash);
    let colon = authority.iter().position(|&byte| byte == b':');
    let host = &authority[..colon.unwrap_or(authority.len())];
    let port = match colon {
        Some(colon) => u16::try_from(crate::expr::leading_number(&authority[colon + 1..])).unwrap_or(0),
        None => default_port(&scheme),
    };
    if context.facts.is_own_host(host, port) {
        let local = if local.is_empty() { b"/".to_vec() } else { local.to_vec() };
        context.target.path = local;
        context.is_reduced = true;
    }
    Ok(())
}
