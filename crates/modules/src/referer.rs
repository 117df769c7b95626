//! `ngx_http_referer_module`: `$invalid_referer` tells whether a request comes from a page of strangers.

use crate::limits::HOST_BYTES_MAX;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token};
use brisk_http::HeaderId;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::names::{HostPattern, Names};
use brisk_server::plan::Plan;
use brisk_server::regex::{MatchError, Regex};
use brisk_server::request::Request;
use brisk_server::server_name::Name;
use brisk_server::vars::{Variable, VariableGet};

use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "referer",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    finish: Some(finish),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

const SERVER_LOCATION: Context = Context::SERVER.or(Context::LOCATION);

static ROWS: &[Row] = &[
    // A security matter in name only: a client can write any `Referer`. It keeps browsers from showing pictures in strangers' pages.
    directive("valid_referers")
        .doc("Pages from which requests may come: host names, with wildcards or the beginning of a path; ~regex; server_names; none, if there need be no Referer; blocked, if it may be something without http://.")
        .in_(SERVER_LOCATION)
        .arity(Arity::SOME)
        .takes("none | blocked | server_names | TEXT | ~REGEX ...")
        .many()
        .risk(Risk::Security)
        .example("valid_referers none blocked server_names *.example.com;")
        .set(valid_referers),
    directive("referer_hash_max_size")
        .doc("The size of nginx's hash tables.")
        .in_(SERVER_LOCATION)
        .takes("SIZE")
        .example("referer_hash_max_size 2048;")
        .ignored("tables size themselves"),
    directive("referer_hash_bucket_size")
        .doc("The size of nginx's hash buckets.")
        .in_(SERVER_LOCATION)
        .takes("SIZE")
        .example("referer_hash_bucket_size 64;")
        .ignored("tables size themselves"),
];

static VARIABLES: &[Variable] = &[Variable {
    name: "invalid_referer",
    // Once per request: expressions may be dear.
    get: VariableGet::Once(invalid_referer),
    doc: "1 if the Referer header is none of valid_referers, else empty.",
    ..Variable::SILENT
}];

#[derive(Clone, Default)]
struct Conf {
    /// The directives of this block, while it is read.
    reading: Option<Reading>,
    /// Shared with all inner blocks that say nothing else.
    valid: Option<Arc<Referers>>,
}

/// What `valid_referers` of one block say.
#[derive(Clone, Default)]
struct Reading {
    none: bool,
    blocked: bool,
    server_names: bool,
    hosts: Vec<Token>,
    regexes: Vec<Arc<Regex>>,
}

#[derive(Default)]
struct Referers {
    none: bool,
    blocked: bool,
    /// Index of the beginning that the path must have.
    hosts: Names<u32>,
    paths: Vec<Box<[u8]>>,
    /// Matched with the host alone.
    server_names: Vec<Arc<Regex>>,
    /// Matched with all that follows the scheme.
    regexes: Vec<Arc<Regex>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn valid_referers(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    for token in &d.args {
        let regex = match token.bytes() {
            b"" => return Err(Diag::emerg(token.span, "invalid referer \"\"").help("write a host name")),
            b"~" => return Err(Diag::emerg(token.span, "empty regex in \"~\"")),
            [b'~', pattern @ ..] => Some(Arc::new(cx.regex(token, pattern, true)?)),
            _ => None,
        };
        let reading = cx.conf::<Conf>().reading.get_or_insert_default();
        match token.bytes() {
            b"none" => reading.none = true,
            b"blocked" => reading.blocked = true,
            b"server_names" => reading.server_names = true,
            _ => match regex {
                Some(regex) => reading.regexes.push(regex),
                None => reading.hosts.push(token.clone()),
            },
        }
    }
    Ok(())
}

/// Builds the table, when the server's names are all known.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // What is inherited was built with the outer block.
    if cx.conf_of::<Conf>().reading.is_none() {
        return Ok(());
    }
    let Some(reading) = cx.conf::<Conf>().reading.take() else { return Ok(()) };
    let mut valid = Referers {
        none: reading.none,
        blocked: reading.blocked,
        regexes: reading.regexes,
        ..Referers::default()
    };
    for token in &reading.hosts {
        valid.add(token)?;
    }
    if reading.server_names {
        // Of the server that is being read: `server_name` may stand below `valid_referers`.
        let names = cx.global.names.last().map(Vec::as_slice).unwrap_or_default();
        for name in names {
            valid.add_server_name(name);
        }
    }
    // nginx's check: `none` alone would make every page of strangers invalid, which was hardly meant.
    let is_empty = valid.hosts.is_empty() && valid.regexes.is_empty() && !reading.server_names;
    if (valid.none || valid.blocked) && is_empty {
        return Err(Diag::global(
            "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer",
        )
        .help("add a host name, a regular expression or server_names"));
    }
    cx.conf::<Conf>().valid = Some(Arc::new(valid));
    Ok(())
}

impl Referers {
    fn add(&mut self, token: &Token) -> Result<(), Diag> {
        let text = token.bytes();
        let (host, path) = text.split_at(memchr::memchr(b'/', text).unwrap_or(text.len()));
        // Names are compared in lower case, paths as they are.
        let lower = host.to_ascii_lowercase();
        let shown = String::from_utf8_lossy(host);
        let pattern = HostPattern::parse(&lower).ok_or_else(|| {
            Diag::emerg(token.span, format!("invalid hostname or wildcard \"{shown}\""))
                .help("write example.com, *.example.com, www.example.* or ~regex")
        })?;
        let path = self.path(path);
        if self.hosts.add(pattern, path) {
            Ok(())
        } else {
            // A table has one path per host: the second would replace the first without a word.
            Err(Diag::emerg(token.span, format!("conflicting parameter \"{shown}\""))
                .help("this host is there already; use a regular expression for several paths"))
        }
    }

    fn path(&mut self, path: &[u8]) -> u32 {
        // Most are empty: one entry serves them all.
        let index = self.paths.iter().position(|have| **have == *path).unwrap_or_else(|| {
            self.paths.push(path.into());
            self.paths.len() - 1
        });
        index as u32
    }

    /// What is there already stays as it is.
    fn add_server_name(&mut self, name: &Name) {
        let any = self.path(b"");
        match name {
            Name::Exact(host) => _ = self.hosts.add(HostPattern::Exact(host), any),
            Name::Head(host) => _ = self.hosts.add(HostPattern::Head(host), any),
            Name::Tail(host) => _ = self.hosts.add(HostPattern::Tail(host), any),
            Name::Regex(regex) => self.server_names.push(regex.clone()),
        }
    }

    fn is_valid(&self, referer: Option<&[u8]>) -> Result<bool, MatchError> {
        let Some(referer) = referer else { return Ok(self.none) };
        let Some(rest) = without_scheme(referer) else { return Ok(self.blocked) };
        let host_len = rest.iter().position(|b| matches!(b, b'/' | b':')).unwrap_or(rest.len());
        // No name is longer (RFC 1035 §2.3.4): what is cannot be one of the list.
        if host_len > HOST_BYTES_MAX {
            return Ok(false);
        }
        let host = rest[..host_len].to_ascii_lowercase();
        if let Some(index) = self.hosts.find(&host) {
            let path = memchr::memchr(b'/', rest).map_or(&b""[..], |at| &rest[at..]);
            // Without looking at the expressions: a host of the list is judged by the list, as in nginx.
            return Ok(path.starts_with(&self.paths[index as usize]));
        }
        Ok(any(&self.server_names, &host)? || any(&self.regexes, rest)?)
    }
}

fn any(regexes: &[Arc<Regex>], subject: &[u8]) -> Result<bool, MatchError> {
    for regex in regexes {
        if regex.is_match(subject)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What follows `http://` or `https://`; `None` also for what is too short to name a host.
fn without_scheme(referer: &[u8]) -> Option<&[u8]> {
    if referer.len() < b"http://i.ru".len() {
        return None;
    }
    [&b"http://"[..], b"https://"].iter().find_map(|scheme| {
        let (start, rest) = referer.split_at(scheme.len());
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if let Some(valid) = &cx.conf_of::<Conf>().valid {
        plan.put(valid.clone());
    }
}

fn invalid_referer(r: &Request, out: &mut Vec<u8>) -> bool {
    let valid = r.snap().location(r.route.loc).plan.data::<Referers>();
    match valid.map_or(Ok(true), |valid| valid.is_valid(r.header(HeaderId::Referer))) {
        Ok(true) => true,
        Ok(false) => {
            out.push(b'1');
            true
        }
        Err(error) => {
            error.fail(r);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, http, refused};

    /// Whether referers are valid by the parameters of `valid_referers`.
    fn check(parameters: &str, cases: &[(Option<&str>, bool)]) {
        let text =
            format!("server {{ server_name a.name *.head.name ~^re\\d$; valid_referers {parameters}; }}");
        let snap = http(&text).unwrap();
        let root = snap.location(snap.servers[0].root);
        let valid = root.plan.data::<super::Referers>().unwrap();
        for (referer, want) in cases {
            assert_eq!(
                valid.is_valid(referer.map(str::as_bytes)).unwrap(),
                *want,
                "{referer:?} in {parameters}"
            );
        }
    }

    #[test]
    fn hosts_paths_and_wildcards() {
        check(
            "www.example.org/uri *.example.com mail.*",
            &[
                (Some("http://www.example.org/uri/x"), true),
                (Some("https://WWW.example.org:81/uri"), true),
                (Some("http://www.example.org/"), false),
                (Some("http://www.example.org"), false),
                (Some("http://a.example.com"), true),
                (Some("http://example.com"), false),
                (Some("http://mail.org/x"), true),
                (Some("www.example.org/uri"), false),
                (Some("http://su"), false),
                (None, false),
            ],
        );
    }

    #[test]
    fn none_blocked_and_patterns() {
        check("none blocked ~\\.eu/x", &[(None, true), (Some(""), true), (Some("junk"), true)]);
        check("~\\.eu/x", &[(Some("http://a.EU/x"), true), (Some("http://a.eu/y"), false), (None, false)]);
        let long = format!("http://{}", "a".repeat(257));
        check("~.", &[(Some(&long), false), (Some(&long[..263]), true)]);
    }

    #[test]
    fn names_of_the_server() {
        check(
            "server_names",
            &[
                (Some("http://a.name/"), true),
                (Some("http://x.head.name/"), true),
                (Some("http://RE1:80/"), true),
                (Some("http://re12/"), false),
            ],
        );
    }

    #[test]
    fn parameters_are_checked_in_nginxs_words() {
        refused(&[
            ("server { valid_referers ''; }", "invalid referer \"\""),
            ("server { valid_referers ~; }", "empty regex in \"~\""),
            ("server { valid_referers a.*.b; }", "invalid hostname or wildcard \"a.*.b\""),
            ("server { valid_referers a.b a.b/x; }", "conflicting parameter \"a.b\""),
            (
                "server { valid_referers none blocked; }",
                "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive without any valid referer",
            ),
        ]);
        accepted(&[
            "server { valid_referers none server_names; referer_hash_max_size 9; location / { if ($invalid_referer) { return 403; } } }",
        ]);
    }
}
