//! Templates and variables.

use super::*;
use crate::conf::{Environment, LogTarget, build};
use crate::directive::directive;
use crate::live::Live;
use crate::log::LogFile;
use crate::module::Module;
use crate::purity::Purity;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_conf::{NoFiles, SourceMap, Token};
use brisk_http::uri::{UriOptions, parse_target};
use brisk_http::{HeadOptions, head::parse_request};
use std::rc::Rc;
use std::sync::Arc;

/// A value that counts how often it is asked for.
struct Count(std::sync::atomic::AtomicU32);

impl Eval<Request> for Count {
    fn eval(&self, _: &Request, out: &mut Vec<u8>) -> bool {
        let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        out.push(b'0' + count as u8);
        true
    }
}

/// A value that is another variable's.
struct Other(Template);

impl Eval<Request> for Other {
    fn eval(&self, r: &Request, out: &mut Vec<u8>) -> bool {
        self.0.append(r, out);
        true
    }

    fn reads(&self) -> Reads {
        Reads::Recorded
    }
}

/// Variables of every kind: `$count` and `$fresh` (volatile), `$alias` of `$uri`, `$agent` of a header, `$ring`, which
/// refers to itself; `$mine` is assigned, `$group` captured, `$once` may be replaced.
static KINDS: Module = Module {
    name: "kinds",
    rows: &[directive("kinds")
        .in_(brisk_conf::Context::HTTP)
        .arity(brisk_conf::Arity::NONE)
        .definition()
        .set(|cx, d| {
            let span = d.span;
            let mut other = |text: &str| {
                let token = Token { value: text.as_bytes().into(), span, quoted: false };
                Template::parse(&mut cx.global.vars, &token).map(Other).map(Arc::new)
            };
            let (alias, agent, ring) = (other("$uri")?, other("$http_user_agent")?, other("<$ring>")?);
            let vars = &mut cx.global.vars;
            vars.define_eval("count", Arc::new(Count(0.into())), false);
            vars.define_eval("fresh", Arc::new(Count(0.into())), true);
            vars.define_eval("alias", alias, false);
            vars.define_eval("agent", agent, false);
            vars.define_eval("ring", ring, false);
            assert!(vars.define_assigned("mine").is_some());
            assert!(vars.define_assigned("http_mine").is_some());
            assert!(vars.define_assigned("args").is_some());
            assert!(vars.define_assigned("once").is_some());
            assert!(vars.define_assigned("uri").is_none(), "built in");
            assert!(vars.define_slot("group").is_some());
            assert!(vars.define_eval("host", Arc::new(Count(0.into())), false).is_none(), "built in");
            Ok(())
        })],
    variables: &[Variable {
        name: "once",
        get: VariableGet::Once(|_, out| {
            out.push(b'1');
            true
        }),
        ..Variable::SILENT
    }],
    ..Module::EMPTY
};

static MODULES: &[&Module] = &[&crate::core::MAIN, &crate::core::HTTP, &KINDS];

/// A request, with templates that were parsed with its configuration.
pub(crate) fn request(head: &str, templates: &[&str]) -> (Request, Vec<Template>) {
    let env = Environment::nowhere();
    let mut sources = SourceMap::default();
    let mut diags = Vec::new();
    let text = "events {} http { kinds; server { server_name named; root /srv; } }";
    let file = sources.add("test.conf", text.as_bytes().to_vec());
    let tree = brisk_conf::parse(&mut sources, file, &NoFiles, &mut diags);
    let snap = build(MODULES, &env, &mut sources, &NoFiles, &tree, &mut diags);
    let mut snap = snap.unwrap_or_else(|| panic!("{diags:?}"));
    let parsed = templates.iter().map(|text| {
        let token = Token { value: text.as_bytes().into(), span: tree[0].span, quoted: false };
        Template::parse(Arc::get_mut(&mut snap.vars).unwrap(), &token).unwrap()
    });
    let parsed = parsed.collect();
    let open = |target: &LogTarget| Arc::new(LogFile::new(target.clone(), LogFile::open(target).unwrap()));
    let logs = snap.logs.iter().map(open).collect();
    let live = Live::new(Arc::new(snap), Arc::new(logs), 1);
    let thread = Thread::install(0, Arc::new(Shared::new(1, None).unwrap()), live);
    let live = thread.live.borrow().clone();
    let mut r = Request::new(thread, live);
    r.head.buf.extend_from_slice(head.replace('\n', "\r\n").as_bytes());
    parse_request(&r.head.buf, &HeadOptions::default(), &mut r.head.parsed).unwrap();
    parse_target(r.head.parsed.target.of(&r.head.buf), UriOptions::default(), &mut r.head.target).unwrap();
    r.route.uri = r.head.target.path.clone();
    r.route.args = r.head.target.args.of(r.head.parsed.target.of(&r.head.buf)).to_vec();
    r.route.loc = r.snap().servers[0].root;
    (r, parsed)
}

/// What a client has encoded in its path begins no arguments; what the configuration writes, and sent arguments, do.
#[test]
fn targets_are_cut_at_the_question_marks_that_are_meant() {
    let check = |path: &str, text: &str, target: &str, split: (&str, Option<&str>)| {
        let (mut r, templates) = request(&format!("GET {path} HTTP/1.0\n\n"), &[text]);
        r.route.has_decoded_delimiter = r.route.uri.iter().any(|b| b"?#".contains(b));
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (cut, args) = templates[0].split_target(&r);
        assert_eq!(text_of(&templates[0].eval_target(&r)), target, "{path} {text}");
        assert_eq!((text_of(&cut).as_str(), args.as_deref().map(text_of).as_deref()), split, "{path} {text}");
    };
    check("/", "/index.php?a=b?c", "/index.php?a=b?c", ("/index.php", Some("a=b?c")));
    check("/", "/index.html", "/index.html", ("/index.html", None));
    check("/", "/index.php?", "/index.php?", ("/index.php", Some("")));
    check("/a?b", "/i$uri?$args", "/i/a?b", ("/i/a", Some("b")));
    check("/a%20b%25?c", "$uri?$args", "/a b%?c", ("/a b%", Some("c")));
    check("/a%3fb%23?c", "$uri?$args", "/a%3Fb%23?c", ("/a?b#", Some("c")));
    check("/a%3fb?c%3f", "$uri$is_args$args", "/a%3Fb?c%3f", ("/a?b", Some("c%3f")));
    check("/a%3fb?c", "$request_uri", "/a%3fb?c", ("/a%3fb", Some("c")));
    check("/a%3fb?x=y?z", "/p$document_uri$arg_x", "/p/a%3Fby?z", ("/p/a?by", Some("z")));
}

/// The value of one variable; `None` is "not found".
fn value(head: &str, name: &str) -> Option<String> {
    let (r, templates) = request(head, &[name]);
    let Part::Var(id) = templates[0].parts()[0] else { panic!("{name} is a variable") };
    r.var_value(id).map(|value| String::from_utf8_lossy(&value).into_owned())
}

const HEAD: &str = "GET /a%20b/./c.html?x=1&X2=&empty&y=%26 HTTP/1.1\nHost: Example.com:81\nCookie: one=1; two = 2 ;THREE=3\nCookie: four=4\nX-List: a\nX-List: b\nReferer:\n\n";

#[test]
fn built_in_variables() {
    let check = |name: &str, want: Option<&str>| assert_eq!(value(HEAD, name).as_deref(), want, "{name}");
    check("$uri", Some("/a b/c.html"));
    check("$request_uri", Some("/a%20b/./c.html?x=1&X2=&empty&y=%26"));
    check("$args", Some("x=1&X2=&empty&y=%26"));
    check("$is_args", Some("?"));
    check("$arg_x", Some("1"));
    check("$arg_x2", Some(""));
    check("$arg_y", Some("%26"));
    check("$arg_empty", None);
    check("$arg_z", None);
    check("$cookie_one", Some("1"));
    check("$cookie_two", Some("2"));
    check("$cookie_three", Some("3"));
    check("$cookie_four", Some("4"));
    check("$cookie_five", None);
    check("$http_x_list", Some("a, b"));
    check("$http_cookie", Some("one=1; two = 2 ;THREE=3; four=4"));
    check("$http_referer", Some(""));
    check("$http_nothing", None);
    check("$http_host", Some("Example.com:81"));
    check("$host", Some("named"));
    check("$server_name", Some("named"));
    check("$hostname", Some("machine"));
    check("$request", Some("GET /a%20b/./c.html?x=1&X2=&empty&y=%26 HTTP/1.1"));
    check("$request_method", Some("GET"));
    check("$server_protocol", Some("HTTP/1.1"));
    check("$document_root", Some("/srv"));
    check("$request_filename", Some("/srv/a b/c.html"));
    check("$scheme", Some("http"));
    check("$https", Some(""));
    check("$remote_user", None);
    check("$status", Some("000"));
    check("$URI", Some("/a b/c.html"));
}

#[test]
fn absent_and_empty_arguments_differ() {
    let check = |target: &str, want: Option<&str>| {
        let head = format!("GET {target} HTTP/1.1\nHost: a\n\n");
        assert_eq!(value(&head, "$args").as_deref(), want, "{target}");
        assert_eq!(value(&head, "$is_args").as_deref(), Some(""), "{target}");
    };
    check("/", None);
    check("/?", Some(""));
}

#[test]
fn computed_values_are_kept_unless_volatile() {
    let (r, t) = request(HEAD, &["$count$count", "$fresh$fresh", "$alias"]);
    assert_eq!(t[0].eval(&r), b"00");
    assert_eq!(t[1].eval(&r), b"01");
    assert_eq!(t[2].eval(&r), b"/a b/c.html");
}

#[test]
fn a_variable_that_refers_to_itself_is_empty() {
    let (r, t) = request(HEAD, &["$ring"]);
    assert_eq!(t[0].eval(&r), b"<>");
}

#[test]
fn assigned_values_come_before_others() {
    let (mut r, t) = request(HEAD, &["$http_mine", "$once", "$args", "$mine", "$group"]);
    let id = |t: &Template| match t.parts()[0] {
        Part::Var(id) => id,
        _ => panic!("a variable"),
    };
    assert_eq!(r.var_value(id(&t[0])), None, "the header, as long as nothing is assigned");
    assert_eq!(r.var_value(id(&t[4])), None, "captured by nobody");
    assert_eq!(r.var_value(id(&t[3])).as_deref(), Some(&b""[..]), "assigned by nobody");
    r.state.shared.vars.set(id(&t[0]), Some(Rc::from(&b"set"[..])));
    assert_eq!(t[0].eval(&r), b"set");
    assert_eq!(t[1].eval(&r), b"1");
    r.state.shared.vars.set(id(&t[1]), Some(Rc::from(&b"2"[..])));
    assert_eq!(t[1].eval(&r), b"2");
    let assign = r.snap().vars.get(id(&t[2])).assign.unwrap();
    assign(&mut r, b"new=1");
    assert_eq!(t[2].eval(&r), b"new=1");
    assert!(!r.route.unparsed_uri_valid);
}

#[test]
fn what_was_read_decides_what_may_be_kept() {
    let check = |text: &str, want| {
        let (r, t) = request(HEAD, &[text]);
        t[0].eval(&r);
        assert_eq!(r.declared().purity() == Purity::Pure, want, "{text}");
    };
    check("text $uri$is_args$args$arg_x $host $request_uri$request_filename", true);
    check("$alias", true);
    check("$mine$group$1", true);
    check("$agent", false);
    check("$http_cookie", false);
    check("$cookie_one", false);
    check("$count", false);
    check("$msec", false);
    check("$once", false);
}

#[test]
fn templates_are_cut_up_as_nginx_does() {
    let check = |text: &str, want: &[u8]| {
        let (r, t) = request(HEAD, &[text]);
        assert_eq!(t[0].eval(&r), want, "{text}");
    };
    check("", b"");
    check("plain", b"plain");
    check("${scheme}s", b"https");
    check("$scheme-$scheme", b"http-http");
    check("a$1b${2}c", b"abc");
    let mut table = Table::default();
    let refused = |table: &mut Table, text: &str| {
        let span = brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 };
        let token = Token { value: text.as_bytes().into(), span, quoted: false };
        Template::parse(table, &token).unwrap_err().message
    };
    assert_eq!(refused(&mut table, "a$"), "invalid variable name");
    assert_eq!(refused(&mut table, "$-"), "invalid variable name");
    assert_eq!(refused(&mut table, "${}"), "invalid variable name");
    assert_eq!(refused(&mut table, "${uri"), "the closing bracket in \"uri\" variable is missing");
}
