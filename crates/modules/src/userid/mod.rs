//! `ngx_http_userid_module`: cookies that tell clients apart.
//!
//! Rows and settings are here; the cookie itself, and the identifier in it, are in `cookie`.

mod cookie;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Plan, Stage};
use brisk_server::vars::{VarId, Variable, VariableGet};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "userid",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    idle_by_default: true,
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    directive("userid")
        .doc("on or v1 (an older form) gives clients a cookie; log only reads it.")
        .in_(Context::HSL)
        .takes_one_of(&MODES)
        .default("off")
        .example("userid on;")
        .set(userid),
    directive("userid_domain")
        .doc("The cookie's domain, or none.")
        .in_(Context::HSL)
        .takes("NAME | none")
        .default("none")
        .example("userid_domain example.com;")
        .set(|cx, d| {
            cx.conf::<Conf>().domain = not_none(d);
            Ok(())
        }),
    // `max` ends in 2037, as in nginx: clients with 32 bits of time cannot go further.
    directive("userid_expires")
        .doc("How long browsers keep the cookie: a time, max (until 2037), or off for as long as they run.")
        .in_(Context::HSL)
        .takes("TIME | max | off")
        .default("off")
        .example("userid_expires 365d;")
        .set(|cx, d| {
            cx.conf::<Conf>().expires = match d.arg(0).bytes() {
                b"off" => Expires::Session,
                b"max" => Expires::Max,
                _ => match value::seconds(d.arg(0))? {
                    0 => Expires::Session,
                    seconds => Expires::After(seconds as i64),
                },
            };
            Ok(())
        }),
    directive("userid_flags")
        .doc("Attributes of the cookie: secure, httponly, samesite=strict, samesite=lax, samesite=none; or off.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 3))
        .takes("off | secure | httponly | samesite=strict | samesite=lax | samesite=none ...")
        .default("off")
        .many()
        .risk(Risk::Security)
        .example("userid_flags secure httponly samesite=lax;")
        .set(userid_flags),
    // For a change of how cookies are given: those without the mark are given anew, and the identifier stays.
    directive("userid_mark")
        .doc("A letter, digit or = at the end of the cookie; a client whose cookie has another one gets it anew with the same identifier.")
        .in_(Context::HSL)
        .takes("LETTER | DIGIT | = | off")
        .default("off")
        .example("userid_mark a;")
        .set(userid_mark),
    directive("userid_name")
        .doc("The cookie's name.")
        .in_(Context::HSL)
        .takes("NAME")
        .default("uid")
        .example("userid_name visitor;")
        .set(|cx, d| {
            cx.conf::<Conf>().name = d.arg(0).bytes().into();
            Ok(())
        }),
    // Internet Explorer refused cookies of embedded pages without it; nothing reads it today.
    directive("userid_p3p")
        .doc("The P3P header that goes with the cookie, or none.")
        .in_(Context::HSL)
        .takes("TEXT | none")
        .default("none")
        .example("userid_p3p 'policyref=\"/w3c/p3p.xml\"';")
        .set(|cx, d| {
            cx.conf::<Conf>().p3p = not_none(d);
            Ok(())
        }),
    directive("userid_path")
        .doc("The cookie's path.")
        .in_(Context::HSL)
        .takes("PATH")
        .default("/")
        .example("userid_path /;")
        .set(|cx, d| {
            cx.conf::<Conf>().path = d.arg(0).bytes().into();
            Ok(())
        }),
    // Without it the number is made of the address that the connection came to, which machines behind one address share.
    directive("userid_service")
        .doc("A number that is part of identifiers: give each server another one, so that they never give the same.")
        .in_(Context::HSL)
        .takes_number()
        .unit("identifier")
        .range(0, u32::MAX as i64)
        .default_told("with v1 0, else the last four bytes of the server's address")
        .example("userid_service 1;")
        .sets(|cx, count| cx.conf::<Conf>().service = Some(count as u32)),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "uid_got",
        // Once: the log must show the identifier that the filter has seen.
        get: VariableGet::Once(cookie::got_variable),
        doc: "The cookie's name and the identifier that the client sent.",
        ..Variable::SILENT
    },
    Variable {
        name: "uid_set",
        get: VariableGet::Once(cookie::set_variable),
        doc: "The cookie's name and the identifier that the client is given.",
        ..Variable::SILENT
    },
    Variable {
        name: "uid_reset",
        // Empty until `set` gives it a value: it is a place for the configuration to write to.
        get: VariableGet::Once(|_, _| true),
        doc: "If set to anything but 0, the client gets a new identifier; log also writes the old one to the error log.",
        ..Variable::SILENT
    },
];

/// `userid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Off,
    Log,
    V1,
    On,
}

impl Mode {
    fn sets(self) -> bool {
        matches!(self, Mode::V1 | Mode::On)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expires {
    #[default]
    Session,
    Max,
    After(i64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    secure: bool,
    httponly: bool,
    samesite: Option<&'static str>,
}

#[derive(Clone, Debug, Default)]
struct Conf {
    mode: Mode,
    name: Arc<[u8]>,
    domain: Option<Arc<[u8]>>,
    path: Arc<[u8]>,
    p3p: Option<Arc<[u8]>>,
    expires: Expires,
    flags: Flags,
    mark: Option<u8>,
    service: Option<u32>,
    /// `$uid_reset`.
    reset: Option<VarId>,
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn not_none(d: &Directive) -> Option<Arc<[u8]>> {
    Some(d.arg(0).bytes()).filter(|value| *value != b"none" && !value.is_empty()).map(Arc::from)
}

/// The words of `userid`.
const MODES: [(&str, Mode); 4] = [("off", Mode::Off), ("log", Mode::Log), ("v1", Mode::V1), ("on", Mode::On)];

fn userid(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let mode = value::choice(d.arg(0), &MODES)?;
    // By number: it is asked for with every request.
    let reset = cx.global.vars.refer("uid_reset", None);
    let conf = cx.conf::<Conf>();
    conf.mode = mode;
    conf.reset = Some(reset);
    Ok(())
}

fn userid_flags(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // A block that names flags begins with none: what was inherited does not mix with them.
    let mut flags = if cx.first { Flags::default() } else { cx.conf::<Conf>().flags };
    for token in &d.args {
        match token.bytes() {
            b"off" => flags = Flags::default(),
            b"secure" => flags.secure = true,
            b"httponly" => flags.httponly = true,
            b"samesite=strict" => flags.samesite = Some("strict"),
            b"samesite=lax" => flags.samesite = Some("lax"),
            b"samesite=none" => flags.samesite = Some("none"),
            _ => {
                return Err(Diag::emerg(token.span, format!("invalid value \"{}\"", token.text())).help(
                    "the flags are secure, httponly, samesite=strict, samesite=lax, samesite=none and off",
                ));
            }
        }
    }
    cx.conf::<Conf>().flags = flags;
    Ok(())
}

fn userid_mark(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf::<Conf>().mark = match d.arg(0).bytes() {
        b"off" => None,
        [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
        _ => {
            return Err(Diag::emerg(
                d.arg(0).span,
                "\"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\"",
            ));
        }
    };
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if conf.mode == Mode::Off {
        return;
    }
    let conf = cx.shared::<Conf>();
    // Variables find the location's settings there, also with `userid log`, which sets nothing.
    plan.put(conf.clone());
    // `log` reads only: without a filter its answers may be shared by clients.
    if conf.mode.sets() {
        plan.add_filter(Stage::Headers, Arc::new(cookie::SetCookie { conf }));
    }
}
