//! Which files the configuration allows to be read while connections are served: those that certificates' names with
//! variables in them can come to.
//!
//! Two ask: a worker before it reads, since a variable may hold what a client has sent, and the master before it reads for
//! a worker that may not. A client's value stands for a part of one file's or folder's name: it never has a slash in it and
//! is never `..`. What one name can come to is nothing to another one. A value that the configuration itself spells out
//! (`map`, `geo`, `split_clients`, `set`) may be anything.

use crate::limits::VERIFY_DEPTH_MAX;
use crate::vars::{Context, Kind, Part, Table, Template, VarId};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    /// Any value without a slash.
    Name,
    /// What a variable has for values.
    OneOf(Arc<[Pattern]>),
}

type Pattern = Arc<[Piece]>;

/// The files that may be read.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Where relative names begin.
    prefix: Arc<[u8]>,
    own: HashMap<Template, Pattern>,
    /// Of other parts of the configuration, which have variables of their own.
    others: Vec<Pattern>,
}

/// What one name of the configuration can come to.
#[derive(Clone, Debug)]
pub struct Rule {
    prefix: Arc<[u8]>,
    pattern: Option<Pattern>,
}

impl Allowed {
    /// From names as the configuration has them; relative ones begin at `prefix`.
    pub fn new<C: Context>(names: &[Template], vars: &Table<C>, prefix: &str) -> Allowed {
        let mut compiler = Compiler { vars, known: HashMap::new(), depth: 0 };
        let own = names.iter().map(|name| (name.clone(), compiler.pattern(name))).collect();
        Allowed { prefix: prefix.as_bytes().into(), own, others: Vec::new() }
    }

    /// Allows these files, too: those of another part. Both have the same prefix.
    pub fn add(&mut self, other: Allowed) {
        self.others.extend(other.own.into_values().chain(other.others));
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    /// What a name can come to; nothing, if it is none of those that this was made of.
    pub fn rule(&self, name: &Template) -> Rule {
        Rule { prefix: self.prefix.clone(), pattern: self.own.get(name).cloned() }
    }

    /// Whether any of the names can come to this path.
    pub fn has(&self, path: &str) -> bool {
        self.own.values().chain(&self.others).any(|pattern| is_path(pattern, &self.prefix, path))
    }
}

impl Rule {
    /// Whether this may be read: the worker reads with its own rights what it may, so it has to refuse by itself. The error is for the log.
    pub fn check(&self, path: &str) -> Result<(), String> {
        let is_allowed = self.pattern.as_ref().is_some_and(|pattern| {
            // The certificate itself is a client's where the configuration does not say `data:`.
            if path.starts_with("data:") { is_text(pattern) } else { is_path(pattern, &self.prefix, path) }
        });
        if is_allowed {
            return Ok(());
        }
        Err(format!(
            "cannot load certificate \"{path}\": the value of a variable is empty or leads out of its folder"
        ))
    }
}

/// Whether a name can come to this path.
// Both ways of writing it: the configuration may name a file by its whole path or from the prefix.
fn is_path(pattern: &Pattern, prefix: &[u8], path: &str) -> bool {
    let path = path.as_bytes();
    let relative = path.strip_prefix(prefix).filter(|rest| !rest.starts_with(b"/"));
    is_match(pattern, path) || relative.is_some_and(|text| is_match(pattern, text))
}

/// Whether the configuration says that the name holds the certificate itself.
fn is_text(pattern: &Pattern) -> bool {
    match pattern.first() {
        Some(Piece::Text(text)) => text.starts_with(b"data:"),
        Some(Piece::OneOf(values)) => values.iter().any(is_text),
        Some(Piece::Name) | None => false,
    }
}

struct Compiler<'t, C: 'static> {
    vars: &'t Table<C>,
    known: HashMap<VarId, Arc<[Pattern]>>,
    depth: usize,
}

impl<C: Context> Compiler<'_, C> {
    fn pattern(&mut self, name: &Template) -> Pattern {
        let mut pieces = Vec::new();
        for (at, part) in name.parts().iter().enumerate() {
            pieces.push(match part {
                // As `Pair::named` takes it.
                Part::Text(text) if at == 0 => {
                    Piece::Text(text.strip_prefix(b"store:file:").unwrap_or(text).into())
                }
                Part::Text(text) => Piece::Text(text.clone()),
                Part::Var(id) => self.values(*id).map_or(Piece::Name, Piece::OneOf),
                Part::Capture(_) => Piece::Name,
            });
        }
        pieces.into()
    }

    /// What a variable can be, if the configuration says that.
    fn values(&mut self, id: VarId) -> Option<Arc<[Pattern]>> {
        // A map may name another map, so what a variable can be is worked out once.
        if let Some(known) = self.known.get(&id) {
            return Some(known.clone());
        }
        if self.depth >= VERIFY_DEPTH_MAX {
            return None;
        }
        let computed = match &self.vars.get(id).kind {
            Kind::Eval { eval, .. } => eval.values(),
            _ => None,
        };
        let assigned: Vec<Template> = self.vars.assigned(id).cloned().collect();
        if computed.is_none() && assigned.is_empty() {
            return None;
        }
        // Where no `set` is carried out, a variable that nothing else spells out may be a client's.
        let other = computed.is_none().then(|| Pattern::from([Piece::Name]));
        if !assigned.is_empty() {
            // Of one that is set to a text with itself in it: many such lines would otherwise be worked out in all their combinations.
            self.known.insert(id, Arc::from([Pattern::from([Piece::Name])]));
        }
        self.depth += 1;
        let spelled = computed.into_iter().flatten().chain(assigned);
        let patterns: Arc<[Pattern]> = spelled.map(|value| self.pattern(&value)).chain(other).collect();
        self.depth -= 1;
        self.known.insert(id, patterns.clone());
        Some(patterns)
    }
}

fn is_match(pattern: &[Piece], text: &[u8]) -> bool {
    // The whole text must be used up: a path that only begins as one of them is another file.
    ends(pattern, text, &[0]).last() == Some(&text.len())
}

/// Where a match of the whole pattern can end that begins at one of `starts`; in order.
fn ends(pattern: &[Piece], text: &[u8], starts: &[usize]) -> Vec<usize> {
    let mut places = starts.to_vec();
    for piece in pattern {
        let mut next = Vec::new();
        match piece {
            Piece::Text(want) => {
                next.extend(
                    places.iter().filter(|&&at| text[at..].starts_with(want)).map(|at| at + want.len()),
                );
            }
            Piece::Name => places.iter().for_each(|&at| names(text, at, &mut next)),
            Piece::OneOf(values) => values.iter().for_each(|value| next.extend(ends(value, text, &places))),
        }
        next.sort_unstable();
        next.dedup();
        if next.is_empty() {
            // What cannot match any more needs no further look.
            return next;
        }
        places = next;
    }
    places
}

/// Where a value that begins at `start` can end: it has something other than dots in it, and no slash.
fn names(text: &[u8], start: usize, out: &mut Vec<usize>) {
    let mut has_more_than_dots = false;
    for (at, byte) in text.iter().enumerate().skip(start) {
        if matches!(byte, b'/' | 0) {
            return;
        }
        has_more_than_dots |= *byte != b'.';
        if has_more_than_dots {
            out.push(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LogLevel;
    use crate::regex::Captures;
    use crate::vars::{Eval, Store};
    use brisk_conf::{FileId, Span, Token};
    use std::cell::RefCell;
    use std::fmt;

    /// Nothing is computed here: names are only compiled.
    #[derive(Default)]
    struct Nobody {
        table: Table<Nobody>,
        store: Store,
        captures: RefCell<Captures>,
    }

    impl Context for Nobody {
        fn table(&self) -> &Table<Nobody> {
            &self.table
        }

        fn store(&self) -> &Store {
            &self.store
        }

        fn captures(&self) -> &RefCell<Captures> {
            &self.captures
        }

        fn log(&self, _: LogLevel, _: fmt::Arguments<'_>) {}

        fn note_anything(&self) {}

        fn warns_of_uninitialized(&self) -> bool {
            false
        }
    }

    struct Values(Vec<Template>);

    impl Eval<Nobody> for Values {
        fn eval(&self, _: &Nobody, _: &mut Vec<u8>) -> bool {
            false
        }

        fn values(&self) -> Option<Vec<Template>> {
            Some(self.0.clone())
        }
    }

    fn table() -> Table<Nobody> {
        let mut vars = Table::default();
        for (name, values) in
            [("whole", &["/keys/a.key", "b.key", "/by/$name/c.key", ""][..]), ("cycle", &["x$cycle"])]
        {
            let values = values.iter().map(|text| template(&mut vars, text)).collect();
            vars.define_eval(name, Arc::new(Values(values)), false).unwrap();
        }
        for value in ["/keys/a", "$name/b", "$whole", "${own}c"] {
            let own = vars.define_assigned("own").unwrap();
            let value = template(&mut vars, value);
            vars.note_assigned(own, &value);
        }
        vars
    }

    fn template(vars: &mut Table<Nobody>, text: &str) -> Template {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        let token = Token { value: text.as_bytes().into(), span, quoted: false };
        Template::parse(vars, &token).unwrap()
    }

    #[track_caller]
    fn check(name: &str, allowed: &[&str], refused: &[&str]) {
        let mut vars = table();
        let names = [template(&mut vars, name)];
        let rules = Allowed::new(&names, &vars, "/etc/conf/");
        allowed.iter().for_each(|path| assert!(rules.has(path), "{name}: {path}"));
        refused.iter().for_each(|path| assert!(!rules.has(path), "{name}: {path}"));
    }

    #[test]
    fn a_clients_value_is_a_part_of_one_name() {
        check(
            "/keys/$name.key",
            &["/keys/a.key", "/keys/a.test.key", "/keys/..a.key", "/keys/a..key"],
            &[
                "/keys/a/b.key",
                "/keys/.key",
                "/keys/../x.key",
                "/keys/...key",
                "/keys/a.key/",
                "/keys/a\0.key",
                "/keys/a.crt",
                "keys/a.key",
                "/etc/conf/keys/a.key",
                "",
            ],
        );
        check(
            "$name.key",
            &["/etc/conf/a.key"],
            &["/etc/conf//a.key", "/a.key", "/etc/conf/../a.key", "/etc/conf/d/a.key", "a.key/../b"],
        );
        check(
            "/k/$name/key",
            &["/k/a/key", "/k/a../key"],
            &["/k/../key", "/k/./key", "/k//key", "/k/a/b/key"],
        );
        check("store:file:/k/$1", &["/k/a"], &["/k/", "/k/.."]);
        check("../k/$name", &["/etc/conf/../k/a"], &["/etc/conf/../k/../a", "/k/a"]);
        check("/k/$name$other", &["/k/ab"], &["/k/a", "/k/a/b", "/k/a.."]);
    }

    #[test]
    fn what_one_name_can_come_to_is_nothing_to_another() {
        let mut vars = table();
        let names = ["/keys/$name/cert.pem", "/keys/$name.pem", "$name", "data:$name"];
        let names = names.map(|name| template(&mut vars, name));
        let allowed = Allowed::new(&names, &vars, "/etc/conf/");
        let [folder, file, any, text] = names.map(|name| allowed.rule(&name));
        let paths = ["/keys/a/cert.pem", "/keys/a.pem", "/etc/conf/a", "data:-----BEGIN CERTIFICATE-----/+"];
        for (at, rule) in [folder, file, any, text].iter().enumerate() {
            for (of, path) in paths.iter().enumerate() {
                assert_eq!(rule.check(path).is_ok(), at == of, "{rule:?} {path}");
            }
        }
        assert!(paths[..3].iter().all(|path| allowed.has(path)));
        assert!(allowed.rule(&template(&mut vars, "/other/$name")).check("/other/a").is_err());
    }

    #[test]
    fn what_the_configuration_spells_out_may_be_anything() {
        check(
            "$whole",
            &["/keys/a.key", "/etc/conf/b.key", "/by/me/c.key"],
            &["/keys/b.key", "/by/../c.key", "/etc/passwd", "/b.key"],
        );
        check("/x$whole", &["/x/keys/a.key", "/x"], &["/keys/a.key"]);
        check("/x$cycle", &["/xxxxxxxxxa"], &["/x/a"]);
        check(
            "$own.pem",
            &[
                "/keys/a.pem",
                "/etc/conf/n/b.pem",
                "/keys/a.key.pem",
                "/by/n/c.key.pem",
                // Where it is not set, or to a longer value of its own.
                "/etc/conf/n.pem",
                "/etc/conf/nc.pem",
            ],
            &["/keys/b.pem", "/keys/../a.pem", "/etc/conf/../b.pem", "/etc/conf/n/c.pem", "/n.pem"],
        );
    }
}
