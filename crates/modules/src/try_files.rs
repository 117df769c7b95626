//! `ngx_http_try_files_module`: the first of several files that exists, or another URI.

use brisk_conf::{Arity, Context, Diag, Directive, Token};
use brisk_net::file::Kind;
use brisk_server::conf::Cx;
use brisk_server::core::AliasOf;
use brisk_server::directive::directive;
use brisk_server::files::{Found, reason};
use brisk_server::flow::Flow;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::path::{self, Mapped};
use brisk_server::plan::{Declared, Handler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::{Part, Target as _, Template};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "try_files",
    rows: ROWS,
    conf: || Arc::new(Conf { tries: None }),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[directive("try_files")
    .doc("Looks for files (with final slash: directories) below the root and goes on with the first that exists as URI; if there is none, with the last parameter: a URI, a named location or =code. Unlike nginx, a value that climbs by \"..\" is not looked for.")
    .in_(Context::SERVER.or(Context::LOCATION))
    .arity(Arity::at_least(2))
    .takes("FILE ... URI | FILE ... =CODE | FILE ... @NAME")
    .not_inherited()
    .example("try_files $uri $uri/ /index.php?$args;")
    .set(set)];

#[derive(Clone)]
struct Conf {
    tries: Option<Arc<TryFiles>>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }

    fn must_enter(&self, into: Context) -> bool {
        // What is compiled late stands for the block itself: it keeps its parent's.
        self.tries.is_some() && into != Context::LATE
    }

    /// Inner locations inherit nothing, nor do `if` blocks.
    fn enter(&mut self, _: Context) -> bool {
        self.tries = None;
        true
    }
}

/// One parameter that names a file.
struct Try {
    name: Template,
    kind: Want,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    File,
    Directory,
}

/// The last parameter.
enum Fallback {
    Status(u16),
    Uri(Template),
}

struct TryFiles {
    tries: Box<[Try]>,
    fallback: Fallback,
}

fn set(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (last, files) = d.args.split_last().expect("the row's arity was checked");
    let mut tries = Vec::with_capacity(files.len());
    for token in files {
        let (text, kind) = match token.bytes() {
            // The slash is no part of the name that is looked for: with it a link to a folder would be followed
            // even where links are not.
            [text @ .., b'/'] => (text, Want::Directory),
            text => (text, Want::File),
        };
        let name = Template::parse_bytes(&mut cx.global.vars, text, token)?;
        tries.push(Try { name, kind });
    }
    let fallback = match last.bytes() {
        [b'=', ..] => Fallback::Status(status(last)?),
        _ => Fallback::Uri(cx.template(last)?),
    };
    cx.conf::<Conf>().tries = Some(Arc::new(TryFiles { tries: tries.into(), fallback }));
    Ok(())
}

/// `=404`.
fn status(token: &Token) -> Result<u16, Diag> {
    let digits = &token.str()[1..];
    let code = digits.parse().ok().filter(|code| *code <= 999 && digits.bytes().all(|b| b.is_ascii_digit()));
    code.ok_or_else(|| {
        Diag::emerg(token.span, format!("invalid code \"{}\"", token.text()))
            .help("write a status code behind the \"=\", such as =404")
    })
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    if let Some(tries) = &cx.conf_of::<Conf>().tries {
        plan.precontent.push(tries.clone());
    }
}

impl Handler for TryFiles {
    fn declares(&self) -> Declared {
        Declared::RECORDED
    }

    fn handle(&self, r: &mut Request) -> Flow {
        for entry in &self.tries {
            let name = name(r, &entry.name);
            if climbs(&entry.name, &name) {
                brisk_server::rlog!(
                    r,
                    Error,
                    "\"{}\" climbs out of its folder",
                    String::from_utf8_lossy(&name)
                );
                continue;
            }
            let Some(mapped) = path::under_root(r, &name) else { continue };
            brisk_server::dlog!(r, "trying to use file: \"{}\"", String::from_utf8_lossy(&name));
            match exists(r, &mapped, entry.kind) {
                Ok(true) => {
                    // The URI changes within the location: no new search, so the handlers that follow are the
                    // same location's.
                    take(r, &name, entry.kind);
                    return Flow::Next;
                }
                Ok(false) => {}
                Err(flow) => return flow,
            }
        }
        match &self.fallback {
            Fallback::Status(code) => Flow::Status(*code),
            Fallback::Uri(uri) => redirect(r, uri),
        }
    }
}

/// A redirect to the last parameter.
fn redirect(r: &Request, template: &Template) -> Flow {
    let (path, args) = template.split_target(r);
    // Of the value, as in nginx: a variable may choose a named location.
    if path.starts_with(b"@") {
        return Flow::Named(template.eval(r));
    }
    Flow::Redirect { uri: without_alias(r, template, path), args: Some(args.unwrap_or_default()) }
}

/// A parameter's value. With `alias`, the part of the URI that the alias stands for is cut from values with variables,
/// so that `$uri` means the same as with `root`. nginx does so for the last parameter too, and configurations rely on it.
fn name(r: &Request, template: &Template) -> Vec<u8> {
    without_alias(r, template, template.eval(r))
}

fn without_alias(r: &Request, template: &Template, mut name: Vec<u8>) -> Vec<u8> {
    if let (Some(AliasOf::Prefix(len)), false) = (&r.core().root.alias, template.is_literal())
        && r.route.uri.get(..*len).is_some_and(|prefix| name.starts_with(prefix))
    {
        name.drain(..*len);
    }
    name
}

/// Whether a variable's value leads upwards. nginx looks outside the root then, which tells a client what exists there.
fn climbs(template: &Template, name: &[u8]) -> bool {
    let is_up = |text: &[u8]| text.split(|&b| b == b'/').any(|segment| segment == b"..");
    let written = template.parts().iter().any(|part| matches!(part, Part::Text(text) if is_up(text)));
    // What the configuration itself writes is its author's wish.
    !written && is_up(name)
}

fn exists(r: &mut Request, mapped: &Mapped, kind: Want) -> Result<bool, Flow> {
    let symlinks = path::symlinks(r, mapped);
    match r.stat_file(mapped.path(), symlinks)? {
        Found::Missing(error) => {
            // ENOENT, ENOTDIR, ENAMETOOLONG
            if !matches!(error.raw_os_error(), Some(2 | 20 | 36)) {
                let path = mapped.path().display();
                brisk_server::rlog!(r, Crit, "stat() \"{path}\" failed ({})", reason(&error));
            }
            Ok(false)
        }
        found => {
            let is_directory = found.info().is_some_and(|info| info.kind == Kind::Directory);
            Ok(is_directory == (kind == Want::Directory))
        }
    }
}

/// Makes the file that was found the request's URI.
fn take(r: &mut Request, name: &[u8], kind: Want) {
    match r.core().root.alias {
        None => {
            r.route.uri.clear();
            r.route.uri.extend_from_slice(name);
        }
        Some(AliasOf::Prefix(len)) => {
            r.route.uri.truncate(len);
            r.route.uri.extend_from_slice(name);
        }
        Some(AliasOf::Whole) if kind == Want::File => {
            r.route.uri.clear();
            r.route.uri.extend_from_slice(name);
            r.route.add_uri_to_alias = true;
        }
        // The alias of a regular expression is the whole path: a folder's URI has nowhere to go.
        Some(AliasOf::Whole) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::messages_in_location;
    use brisk_server::vars::Table;

    #[test]
    fn parameters_are_checked() {
        messages_in_location("try_files $uri $uri/ =404;", &[]);
        messages_in_location("try_files $uri /index.php?$args;", &[]);
        messages_in_location("try_files $uri @fallback;", &[]);
        messages_in_location("try_files $uri;", &["invalid number of arguments in \"try_files\" directive"]);
        messages_in_location("try_files a b; try_files c d;", &["\"try_files\" directive is duplicate"]);
        for code in ["=", "=abc", "=1000", "=+40", "=99999999999"] {
            messages_in_location(&format!("try_files $uri {code};"), &[&format!("invalid code \"{code}\"")]);
        }
        messages_in_location("try_files $nosuch =404;", &["unknown \"nosuch\" variable"]);
    }

    #[test]
    fn values_do_not_climb_but_the_configuration_may() {
        let token = |text: &str| Token {
            value: text.as_bytes().into(),
            span: brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 },
            quoted: false,
        };
        let climbs = |text: &str, value: &str| {
            climbs(&Template::parse(&mut Table::default(), &token(text)).unwrap(), value.as_bytes())
        };
        assert!(climbs("/files/$arg_f", "/files/../../etc/passwd"));
        assert!(climbs("$uri", "../secret"));
        assert!(!climbs("$uri", "/a..b/..c"));
        assert!(!climbs("$uri/../index.html", "/a/../index.html"));
    }
}
