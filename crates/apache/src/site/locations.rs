//! Locations of a host, of its lines about paths. Of Apache's lines the first that fits counts, those of back ends before those of aliases;
//! of locations the longest path does, or the first pattern. So a location has patterns that stand above its line inside of itself where
//! others stand below it.

use super::balancer;
use super::build::{block, statement};
use super::draft::{From, Mapping, Target, Translator};
use super::handlers;
use super::mapping::resolved;
use crate::limits::HOST_LOCATIONS_MAX;
use crate::syntax::Mistake;
use brisk_conf::{Directive, Span};
use std::collections::BTreeSet;

/// Adds the locations of a host. Gives the lines that no request can meet.
///
/// # Errors
/// There are too many.
pub(super) fn locations(
    this: &Translator<'_, '_>,
    mappings: &[&Mapping],
    at: Span,
    host: Option<&'static str>,
    out: &mut Vec<Directive>,
) -> Result<Vec<u32>, Mistake> {
    let all: Vec<Mapping> = mappings.iter().map(|mapping| resolved(this, mapping)).collect();
    let is_alias = |mapping: &Mapping| matches!(mapping.target, Target::File(_));
    let (aliases, proxies): (Vec<Mapping>, Vec<Mapping>) = all.into_iter().partition(is_alias);
    let lines = [proxies, aliases.clone()].concat();
    let mut writer = Writer { this, aliases, host, used: BTreeSet::new(), count: 0 };
    for at in 0..lines.len() {
        writer.line(&lines, at, out);
        writer.host_of(&lines[at], out);
        if writer.is_full() {
            let text = format!(
                "the paths and patterns so far come to more than {HOST_LOCATIONS_MAX} locations of this host: write patterns below all paths that they do not fit"
            );
            return Err(Mistake { line: lines[at].line, text });
        }
    }
    let is_root = |mapping: &Mapping| mapping.from == From::Prefix("/".into());
    if !lines.iter().any(is_root) {
        out.push(block(at, "location", ["/"], Vec::new()));
    }
    let is_path = |mapping: &&Mapping| matches!(mapping.from, From::Prefix(_));
    let lines = lines.iter().filter(is_path).map(|mapping| mapping.line);
    Ok(lines.filter(|line| !writer.used.contains(line)).collect())
}

struct Writer<'w, 'f, 'a> {
    this: &'w Translator<'f, 'a>,
    aliases: Vec<Mapping>,
    host: Option<&'static str>,
    /// Lines that some request can meet.
    used: BTreeSet<u32>,
    /// Locations so far.
    count: usize,
}

fn is_pattern(mapping: &Mapping) -> bool {
    matches!(mapping.from, From::Pattern(_))
}

/// Whether a line's path has another path in it.
fn has(known: &str, path: &str) -> bool {
    let rest = path.strip_prefix(known);
    rest.is_some_and(|rest| rest.is_empty() || known.ends_with('/') || rest.starts_with('/'))
}

/// Whether all of a path is a line's that is about paths.
fn covers(mapping: &Mapping, path: &str) -> bool {
    matches!(&mapping.from, From::Prefix(known) if has(known, path))
}

impl Writer<'_, '_, '_> {
    /// There are more locations than a host may have.
    fn is_full(&self) -> bool {
        self.count > HOST_LOCATIONS_MAX
    }

    /// Adds a location.
    fn add(&mut self, span: Span, args: &[&str], inner: Vec<Directive>, out: &mut Vec<Directive>) {
        self.count += 1;
        out.push(block(span, "location", args, inner));
    }

    /// Adds the locations of one line of several.
    fn line(&mut self, lines: &[Mapping], at: usize, out: &mut Vec<Directive>) {
        if self.is_full() {
            return;
        }
        let mapping = &lines[at];
        let span = self.this.span(mapping.line);
        match &mapping.from {
            From::Pattern(pattern) => {
                let mut inner = content(span, &mapping.target, None, self.host);
                if matches!(mapping.target, Target::Own) {
                    let aliases = self.aliases.clone();
                    self.inside(&aliases, &mut inner);
                }
                self.add(span, &["~", pattern], inner, out);
            }
            From::Prefix(from) => {
                self.path(lines, at, from, out);
                self.below(lines, at, from, out);
            }
        }
    }

    /// Adds locations inside of another one.
    fn inside(&mut self, lines: &[Mapping], out: &mut Vec<Directive>) {
        (0..lines.len()).for_each(|at| self.line(lines, at, out));
    }

    /// By a location that nothing leads to, the host of a pattern's URL is looked up when the configuration is read.
    fn host_of(&self, mapping: &Mapping, out: &mut Vec<Directive>) {
        if let (From::Pattern(_), Target::Proxy { url, .. }) = (&mapping.from, &mapping.target) {
            let span = self.this.span(mapping.line);
            let known = vec![statement(span, "proxy_pass", [host_of(url)])];
            out.push(block(span, "location", [format!("@apache_match_{}", mapping.line)], known));
        }
    }

    /// Adds the location of a line's very path.
    fn path(&mut self, lines: &[Mapping], at: usize, from: &str, out: &mut Vec<Directive>) {
        if from.ends_with('/') || lines[..at].iter().any(|mapping| covers(mapping, from)) {
            return;
        }
        let Some((line, target, end)) = self.of_path(&lines[..=at], from) else { return };
        // Groups with names are known in the pattern's own location only, which is the path's then.
        if matches!(&target, Target::File(to) if to.contains("${")) {
            return;
        }
        if line == lines[at].line {
            self.used.insert(line);
        }
        let span = self.this.span(lines[at].line);
        let mut inner = content(span, &target, end, self.host);
        if matches!(target, Target::Own)
            && let Some((line, target, end)) = self.of_path(&self.aliases, from)
        {
            self.used.insert(line);
            inner = content(span, &target, end, self.host);
        }
        self.add(span, &["=", from], inner, out);
    }

    /// What the first line that fits leads a path to, and what stands behind that in its location.
    fn of_path(&self, lines: &[Mapping], path: &str) -> Option<(u32, Target, Option<&'static str>)> {
        lines.iter().find_map(|mapping| match &mapping.from {
            From::Prefix(from) => {
                let rest = has(from, path).then(|| &path[from.len()..])?;
                Some((mapping.line, mapping.target.behind(rest), Some("")))
            }
            From::Pattern(pattern) => {
                let groups = (self.this.find)(pattern, path)?;
                Some((mapping.line, mapping.target.filled(&groups), None))
            }
        })
    }

    /// Adds the location of what is below a line's path.
    fn below(&mut self, lines: &[Mapping], at: usize, from: &str, out: &mut Vec<Directive>) {
        let folder = format!("{}/", from.trim_end_matches('/'));
        let (mapping, span) = (&lines[at], self.this.span(lines[at].line));
        if lines[..at].iter().any(|mapping| covers(mapping, &folder)) {
            return;
        }
        self.used.insert(mapping.line);
        let patterns: Vec<Mapping> =
            lines[..at].iter().filter(|mapping| is_pattern(mapping)).cloned().collect();
        let aliases = if matches!(mapping.target, Target::Own) { self.within(&folder) } else { Vec::new() };
        let is_whole = |mapping: &Mapping| mapping.from == From::Prefix(folder.clone());
        let inner = match aliases.as_slice() {
            [alias] if is_whole(alias) => {
                self.used.insert(alias.line);
                content(span, &alias.target, Some(""), self.host)
            }
            [] => {
                let end = if from.ends_with('/') { "" } else { "/" };
                content(span, &mapping.target, Some(end), self.host)
            }
            _ => {
                let mut inner = Vec::new();
                self.inside(&[patterns, aliases].concat(), &mut inner);
                self.add(span, &["^~", &folder], inner, out);
                return;
            }
        };
        self.in_order(&patterns, lines[at + 1..].iter().any(is_pattern), (span, &folder, inner), out);
    }

    /// Adds a location of all below a path, which counts behind the patterns above it and before those below it.
    fn in_order(
        &mut self,
        above: &[Mapping],
        has_patterns_below: bool,
        (span, folder, mut inner): (Span, &str, Vec<Directive>),
        out: &mut Vec<Directive>,
    ) {
        if above.is_empty() {
            self.add(span, &["^~", folder], inner, out);
        } else if has_patterns_below {
            self.inside(above, &mut inner);
            self.add(span, &["^~", folder], inner, out);
        } else {
            self.add(span, &[folder], inner, out);
        }
    }

    /// The aliases for what is below a path, up to the first that is for all of it.
    fn within(&self, folder: &str) -> Vec<Mapping> {
        let mut within = Vec::new();
        for mapping in &self.aliases {
            match &mapping.from {
                From::Prefix(from) if has(from, folder) => {
                    let target = mapping.target.behind(&folder[from.len()..]);
                    within.push(Mapping { line: mapping.line, from: From::Prefix(folder.into()), target });
                    break;
                }
                From::Prefix(from) if !from.starts_with(folder) => {}
                _ => within.push(mapping.clone()),
            }
        }
        within
    }
}

impl Target {
    /// With more of a path behind it.
    fn behind(&self, rest: &str) -> Target {
        let mut target = self.clone();
        if let Target::File(to) = &mut target {
            to.push_str(rest);
        }
        target
    }

    /// With the groups of a pattern in their places.
    fn filled(&self, groups: &[String]) -> Target {
        let fill = |text: &mut String| {
            for (number, group) in groups.iter().enumerate() {
                *text = text.replace(&format!("${number}"), group);
            }
        };
        let mut target = self.clone();
        match &mut target {
            Target::File(to) => fill(to),
            Target::Proxy { url, .. } => fill(url),
            Target::Script { path, .. } => fill(path),
            Target::Own | Target::Group { .. } => {}
        }
        target
    }
}

/// A URL's scheme and host.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let end = rest.find(['/', '$', '?']).unwrap_or(rest.len());
    format!("{scheme}://{}", &rest[..end])
}

/// What stands in the location; `end` is what the mapped path ends with, `None` where a pattern has made the whole target.
fn content(span: Span, target: &Target, end: Option<&str>, host: Option<&'static str>) -> Vec<Directive> {
    match target {
        // (Groups are resolved before.)
        Target::Own | Target::Group { .. } => Vec::new(),
        Target::File(to) => {
            let to = match end {
                None | Some("") => to.clone(),
                Some(end) => format!("{}{end}", to.trim_end_matches('/')),
            };
            vec![statement(span, "alias", [to])]
        }
        Target::Script { address, path, timeout_secs } => {
            handlers::asking(span, address, path, *timeout_secs)
        }
        Target::Proxy { url, timeout_secs } => {
            let has_path = url.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
            let url = match end {
                // A URL that variables have made is sent as it is; one without a path gets that of the request.
                None if url.contains('$') => format!("{url}$is_args$args"),
                None => url.clone(),
                Some("") if has_path => url.clone(),
                Some("") => format!("{url}/"),
                Some(end) => format!("{}{end}", url.trim_end_matches('/')),
            };
            // The members of a group have a name each; the group's own is none of a host.
            let usual = if balancer::is_group(&url) { "$http_host" } else { "$proxy_host" };
            let mut inner = vec![
                statement(span, "proxy_pass", [url.as_str()]),
                statement(span, "proxy_http_version", ["1.1"]),
                statement(span, "proxy_set_header", ["Host", host.unwrap_or(usual)]),
                statement(span, "proxy_set_header", ["X-Forwarded-For", "$proxy_add_x_forwarded_for"]),
                statement(span, "proxy_set_header", ["X-Forwarded-Host", "$http_host"]),
                statement(span, "proxy_set_header", ["X-Forwarded-Server", "$server_name"]),
            ];
            if let Some(seconds) = timeout_secs {
                inner.push(statement(span, "proxy_read_timeout", [format!("{seconds}s")]));
            }
            inner
        }
    }
}
