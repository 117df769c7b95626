//! `ngx_http_map_module`: a variable whose value is looked up by another value.
//!
//! Whole keys and host names are looked up in hash tables, so that a map of a hundred thousand lines costs no
//! more than one of ten; only regular expressions are tried one after another.

use crate::computed::{define, lines};
use brisk_conf::{Arity, Context, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, Row};
use brisk_server::names::{HostPattern, Names};
use brisk_server::regex::{MatchError, Regex};
use brisk_server::vars::{Context as VarContext, Eval, Reads, Template};

use std::collections::HashMap;
use std::sync::Arc;

pub static MODULE: Module = Module { name: "map", rows: ROWS, ..Module::EMPTY };

static ROWS: &[Row] = &[
    // A map that is not read costs a request nothing: it is looked up when its variable is.
    directive("map")
        .doc("Defines a variable by a table: the first value is looked up, without regard to case, among strings, then (with hostnames) wildcard names, then regular expressions in their order, then default. volatile: look again at each use.")
        .in_(Context::HTTP.or(Context::STREAM))
        .arity(Arity::TWO.block())
        .takes("VALUE $VARIABLE")
        .many()
        .definition()
        .example("map $http_upgrade $connection_upgrade { default upgrade; '' close; }")
        .set(map),
    directive("map_hash_max_size")
        .doc("The size of nginx's hash tables.")
        .in_(Context::HTTP.or(Context::STREAM))
        .takes("SIZE")
        .example("map_hash_max_size 2048;")
        .ignored("tables size themselves"),
    directive("map_hash_bucket_size")
        .doc("The size of nginx's hash buckets.")
        .in_(Context::HTTP.or(Context::STREAM))
        .takes("SIZE")
        .example("map_hash_bucket_size 64;")
        .ignored("tables size themselves"),
];

/// Index of a value in [`Map::values`]. Many keys share few values.
type ValueId = u32;

struct Map {
    source: Template,
    /// A final dot of the source is ignored.
    hostnames: bool,
    names: Names<ValueId>,
    regexes: Box<[(Regex, ValueId)]>,
    default: Option<ValueId>,
    values: Box<[Template]>,
}

/// A map while its lines are read.
#[derive(Default)]
struct Builder {
    hostnames: bool,
    volatile: bool,
    names: Names<ValueId>,
    regexes: Vec<(Regex, ValueId)>,
    default: Option<ValueId>,
    values: Vec<Template>,
    /// Values that were seen, as written.
    seen: HashMap<Box<[u8]>, ValueId>,
    lower: Vec<u8>,
}

fn map(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let source = cx.template(d.arg(0))?;
    let mut builder = Builder::default();
    for line in lines(cx, d) {
        // Each wrong line is told, not only the first: maps are often made by programs, with the same mistake
        // in all lines.
        if let Err(diag) = builder.line(cx, line) {
            cx.warn(diag);
        }
    }
    // It stays as it is until the configuration is replaced.
    builder.names.shrink_to_fit();
    let map = Map {
        source,
        hostnames: builder.hostnames,
        names: builder.names,
        regexes: builder.regexes.into(),
        default: builder.default,
        values: builder.values.into(),
    };
    define(cx, d.arg(1), Arc::new(map), builder.volatile).map(|_| ())
}

impl Builder {
    fn line(&mut self, cx: &mut Cx<'_, '_>, line: &Directive) -> Result<(), Diag> {
        let key = &line.name;
        // Words without a value are switches; with one they would be keys like any other.
        let [value] = line.args.as_slice() else {
            match key.bytes() {
                b"hostnames" if line.args.is_empty() => self.hostnames = true,
                b"volatile" if line.args.is_empty() => self.volatile = true,
                _ => {
                    return Err(Diag::emerg(line.span, "invalid number of the map parameters")
                        .help("a line is a key and a value; is the \";\" missing at its end?"));
                }
            }
            return Ok(());
        };
        // By the text: equal texts are equal templates.
        let id = match self.seen.get(value.bytes()) {
            Some(&id) => id,
            None => {
                let id = self.values.len() as ValueId;
                self.values.push(cx.template(value)?);
                self.seen.insert(value.bytes().into(), id);
                id
            }
        };
        match key.bytes() {
            b"default" if self.default.is_some() => {
                Err(Diag::emerg(line.span, "duplicate default map parameter").help("remove one of them"))
            }
            b"default" => {
                self.default = Some(id);
                Ok(())
            }
            [b'~', pattern @ ..] => {
                let (pattern, caseless) = match pattern {
                    [b'*', pattern @ ..] => (pattern, true),
                    pattern => (pattern, false),
                };
                self.regexes.push((cx.regex(key, pattern, caseless)?, id));
                Ok(())
            }
            // Takes a special meaning away: `\default`, `\include`, `\~`.
            [b'\\', text @ ..] => self.name(line, text, id),
            text => self.name(line, text, id),
        }
    }

    fn name(&mut self, line: &Directive, text: &[u8], id: ValueId) -> Result<(), Diag> {
        // One buffer for all lines of a map.
        self.lower.clear();
        self.lower.extend_from_slice(text);
        self.lower.make_ascii_lowercase();
        let shown = || String::from_utf8_lossy(text);
        let pattern = if self.hostnames {
            HostPattern::parse(&self.lower).ok_or_else(|| {
                Diag::emerg(line.name.span, format!("invalid hostname or wildcard \"{}\"", shown()))
                    .help("write example.com, .example.com, *.example.com or www.example.*")
            })?
        } else {
            // Without `hostnames` a `*` or a dot in a key is itself.
            HostPattern::Exact(&self.lower)
        };
        if self.names.add(pattern, id) {
            Ok(())
        } else {
            Err(Diag::emerg(line.name.span, format!("conflicting parameter \"{}\"", shown()))
                .help("this key is there already; keys are compared without regard to case"))
        }
    }
}

impl<C: VarContext> Eval<C> for Map {
    fn eval(&self, r: &C, out: &mut Vec<u8>) -> bool {
        let mut key = self.source.eval(r);
        // `example.com.` is the same host.
        if self.hostnames && key.last() == Some(&b'.') {
            key.pop();
        }
        // nginx takes the default where a match fails; that may be what lets a request in. Here the request fails.
        let Ok(found) = self.find(r, key) else { return false };
        if let Some(id) = found {
            self.values[id as usize].append(r, out);
        }
        true
    }

    fn values(&self) -> Option<Vec<Template>> {
        // What is not found is empty.
        Some(self.values.iter().cloned().chain([Template::default()]).collect())
    }

    fn reads(&self) -> Reads {
        Reads::Recorded
    }

    fn sources(&self) -> Vec<&Template> {
        self.values.iter().chain([&self.source]).collect()
    }
}

impl Map {
    fn find<C: VarContext>(&self, r: &C, mut key: Vec<u8>) -> Result<Option<ValueId>, MatchError> {
        // Regular expressions see the case, strings do not.
        let original =
            (!self.regexes.is_empty() && key.iter().any(u8::is_ascii_uppercase)).then(|| key.clone());
        // Keys were made so when they were read.
        key.make_ascii_lowercase();
        if let Some(id) = self.names.find(&key) {
            return Ok(Some(id));
        }
        let subject = original.unwrap_or(key);
        // nginx asks no expression about an empty value: it is for the exact key or the default.
        if !subject.is_empty() {
            for (regex, id) in &self.regexes {
                if regex.exec(r, &subject)? {
                    return Ok(Some(*id));
                }
            }
        }
        Ok(self.default)
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, http, refused};

    #[test]
    fn lines_are_checked_in_nginxs_words() {
        refused(&[
            ("map $uri x { }", "invalid variable name \"x\""),
            ("map $uri $host { }", "the duplicate \"host\" variable"),
            ("map $uri $x { a; }", "invalid number of the map parameters"),
            ("map $uri $x { a b c; }", "invalid number of the map parameters"),
            ("map $uri $x { a { } }", "unexpected \"{\""),
            ("map $uri $x { default a; default b; }", "duplicate default map parameter"),
            ("map $uri $x { a 1; A 2; }", "conflicting parameter \"A\""),
            ("map $uri $x { \\a 1; a 2; }", "conflicting parameter \"a\""),
            ("map $uri $x { hostnames; .a.b 1; a.b 2; }", "conflicting parameter \"a.b\""),
            ("map $uri $x { hostnames; *.a.b 1; .A.b 2; }", "conflicting parameter \".A.b\""),
            ("map $uri $x { hostnames; a.*.b 1; }", "invalid hostname or wildcard \"a.*.b\""),
            ("map $uri $x { a $nobody; }", "unknown \"nobody\" variable"),
            ("map $nobody $x { }", "unknown \"nobody\" variable"),
            ("server { map $uri $x { } }", "\"map\" directive is not allowed here"),
        ]);
    }

    #[test]
    fn all_forms_are_accepted() {
        accepted(&[
            "map $uri$args $x { volatile; hostnames; default d; ~^/(?<n>a) $n-$1; ~*b ''; *.c.d 1; \\default 2; }",
            "map $uri $x { *.c.d 1; a.*.b 2; a..b 3; \"\" 4; } map $x $y { 1 $x; }",
            "map_hash_max_size 4096; map_hash_bucket_size 128;",
            "map $http_upgrade $connection_upgrade { default upgrade; '' close; }",
            "map $uri $args { default x; }",
        ]);
    }

    #[test]
    fn a_hundred_thousand_keys_load_quickly() {
        let lines: Vec<_> = (0..100_000).map(|key| format!("/key/{key} value{};", key % 16)).collect();
        let text = format!("map $uri $x {{ {} }}", lines.join("\n"));
        let start = std::time::Instant::now();
        assert!(http(&text).is_ok());
        assert!(start.elapsed().as_secs() < 10, "{:?} without optimisation", start.elapsed());
    }
}
