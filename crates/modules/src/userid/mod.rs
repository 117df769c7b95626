//! `ngx_http_userid_module`: cookies that tell clients apart.

mod cookie;

use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use brisk_server::conf::Cx;
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::plan::{Plan, Purity, Stage};
use brisk_server::row;
use brisk_server::vars::{VarId, Variable, VariableGet};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "userid",
    rows: ROWS,
    variables: VARIABLES,
    conf: || Arc::new(Conf::default()),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    row!(
        "userid",
        Context::HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "on or v1 (an older form) gives clients a cookie; log only reads it.",
        Set::Simple(userid)
    ),
    row!(
        "userid_domain",
        Context::HSL,
        Arity::ONE,
        D::Value("none"),
        Replace,
        false,
        "The cookie's domain, or none.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().domain = not_none(d);
            Ok(())
        })
    ),
    row!(
        "userid_expires",
        Context::HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "How long browsers keep the cookie: a time, max (until 2037), or off for as long as they run.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().expires = match d.arg(0).bytes() {
                b"off" => Expires::Session,
                b"max" => Expires::Max,
                _ => match value::seconds(d.arg(0))? {
                    0 => Expires::Session,
                    seconds => Expires::After(seconds as i64),
                },
            };
            Ok(())
        })
    ),
    row!(
        "userid_flags",
        Context::HSL,
        Arity::between(1, 3),
        D::Value("off"),
        Replace,
        true,
        "Attributes of the cookie: secure, httponly, samesite=strict, samesite=lax, samesite=none; or off.",
        Set::Simple(userid_flags)
    ),
    row!(
        "userid_mark",
        Context::HSL,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "A letter, digit or = at the end of the cookie; a client whose cookie has another one gets it anew with the same identifier.",
        Set::Simple(userid_mark)
    ),
    row!(
        "userid_name",
        Context::HSL,
        Arity::ONE,
        D::Value("uid"),
        Replace,
        false,
        "The cookie's name.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().name = d.arg(0).bytes().into();
            Ok(())
        })
    ),
    row!(
        "userid_p3p",
        Context::HSL,
        Arity::ONE,
        D::Value("none"),
        Replace,
        false,
        "The P3P header that goes with the cookie, or none.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().p3p = not_none(d);
            Ok(())
        })
    ),
    row!(
        "userid_path",
        Context::HSL,
        Arity::ONE,
        D::Value("/"),
        Replace,
        false,
        "The cookie's path.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().path = d.arg(0).bytes().into();
            Ok(())
        })
    ),
    row!(
        "userid_service",
        Context::HSL,
        Arity::ONE,
        D::Told("with v1 0, else the last four bytes of the server's address"),
        Replace,
        false,
        "A number that is part of identifiers: give each server another one, so that they never give the same.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().service = Some(value::number(d.arg(0))? as u32);
            Ok(())
        })
    ),
];

static VARIABLES: &[Variable] = &[
    Variable {
        name: "uid_got",
        get: VariableGet::Once(cookie::got_variable),
        set: None,
        doc: "The cookie's name and the identifier that the client sent.",
    },
    Variable {
        name: "uid_set",
        get: VariableGet::Once(cookie::set_variable),
        set: None,
        doc: "The cookie's name and the identifier that the client is given.",
    },
    Variable {
        name: "uid_reset",
        get: VariableGet::Once(|_, _| true),
        set: None,
        doc: "If set to anything but 0, the client gets a new identifier; log also writes the old one to the error log.",
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

fn userid(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let modes = [("off", Mode::Off), ("log", Mode::Log), ("v1", Mode::V1), ("on", Mode::On)];
    let mode = value::choice(d.arg(0), &modes)?;
    let reset = cx.global.vars.refer("uid_reset", None);
    let conf = cx.conf::<Conf>();
    conf.mode = mode;
    conf.reset = Some(reset);
    Ok(())
}

fn userid_flags(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
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
    plan.put(conf.clone());
    if conf.mode.sets() {
        plan.add_filter(Stage::Headers, Purity::Impure, Arc::new(cookie::SetCookie { conf }));
    }
}
