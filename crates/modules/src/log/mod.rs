//! `ngx_http_log_module`: the access log.

mod format;
mod sessions;
mod target;

pub use sessions::of_sessions;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, Token, value};
use brisk_server::conf::{Cx, LogTarget, invalid_parameter};
use brisk_server::directive::directive;
use brisk_server::log::NamedCache;
use brisk_server::module::{Module, ModuleConf, Row};
use brisk_server::plan::{Declared, Dependencies, Effects, LogHandler, Plan};
use brisk_server::request::Request;
use brisk_server::vars::{Kind, Part, Table, Template, VarId};
use format::Format;
use std::sync::Arc;
use std::time::Duration;
use target::{Keeping, To};

pub static MODULE: Module = Module {
    name: "log",
    rows: ROWS,
    conf: || Arc::new(Conf { logs: None, cache: None }),
    finish: Some(finish),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    // Escaped unless it is told not to: values are clients' own words, and a line break in one would begin a line of the log.
    directive("log_format")
        .doc("Names a format of log lines; escape=json or escape=none changes how values are written.")
        .in_(Context::HTTP.or(Context::STREAM))
        .arity(Arity::at_least(2))
        .takes("NAME [escape=default|json|none] TEXT ...")
        .default_told(
            "combined '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"'"
        )
        .many()
        .definition()
        .example("log_format timed '$remote_addr \"$request\" $status $request_time';")
        .set(format::log_format),
    directive("access_log")
        .doc("A file (its name may contain variables), stderr or syslog:server=ADDRESS[,facility=…][,severity=…][,tag=…][,nohostname] and a format for lines about requests or sessions, if= a condition; off ends inherited ones. Lines are written when a thread has answered what is there; with buffer=SIZE when there are as many, or after flush=TIME; gzip[=LEVEL] compresses them.")
        .in_(Context::HSLI.or(Context::LIMIT_EXCEPT).or(Context::STREAM).or(Context::STREAM_SERVER))
        .arity(Arity::SOME)
        .takes("FILE | stderr | syslog:server=ADDRESS[,PARAMETER...] [FORMAT] [buffer=SIZE] [gzip[=LEVEL]] [flush=TIME] [if=VALUE] | off")
        .default_told("logs/access.log combined")
        .many()
        .example("access_log /var/log/brisk/access.log combined;")
        .set(access_log),
    directive("open_log_file_cache")
        .doc("Keeps logs open whose names contain variables: max=N of them per thread that were used min_uses=1 times and not longer than inactive=10s ago; every valid=60s it is checked that an open one is still the file of its name.")
        .in_(Context::HSL.or(Context::STREAM).or(Context::STREAM_SERVER))
        .arity(Arity::between(1, 4))
        .takes("max=NUMBER [inactive=TIME] [min_uses=NUMBER] [valid=TIME] | off")
        .default("off")
        .risk(Risk::Resource)
        .example("open_log_file_cache max=1000 inactive=20s valid=1m;")
        .set(open_log_file_cache),
];

#[derive(Clone)]
struct Conf {
    /// `None`: nothing was said, so the default applies.
    logs: Option<Arc<[Target]>>,
    cache: Option<Arc<NamedCache>>,
}

#[derive(Clone)]
struct Target {
    to: To,
    format: Arc<Format>,
    condition: Option<Arc<Template>>,
}

impl Target {
    fn tells_of_making(&self, vars: &Table) -> bool {
        let name = match &self.to {
            To::Named(name) => Some(name.path()),
            To::Log { .. } => None,
        };
        let texts = [Some(self.format.template()), self.condition.as_deref(), name];
        texts.into_iter().flatten().any(|text| tells_of_making(text, vars))
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

fn access_log(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // The first `access_log` of a block replaces what was inherited; further ones add to it.
    let is_first = cx.first;
    let mut logs = match &cx.conf::<Conf>().logs {
        Some(logs) if !is_first => logs.to_vec(),
        _ => Vec::new(),
    };
    let path = d.arg(0);
    if path.str() == "off" {
        if d.args.len() > 1 {
            return Err(invalid_parameter(d.arg(1)));
        }
        // Empty is not the same as nothing said: no default file is opened.
        cx.conf::<Conf>().logs = Some(Arc::new([]));
        return Ok(());
    }
    let mut keeping = Keeping::default();
    let mut condition = None;
    let mut format_name = None;
    for token in &d.args[1..] {
        if let Some(rest) = token.str().strip_prefix("if=") {
            condition = Some(Arc::new(Template::parse_bytes(cx.names(), rest.as_bytes(), token)?));
        } else if keeping.read(token)? {
        } else if format_name.is_none() {
            format_name = Some(token);
        } else {
            return Err(invalid_parameter(token));
        }
    }
    let format = match format_name {
        Some(token) => format::find_format(cx, token)?,
        None if crate::stream::part::is_in_stream(cx.block) => {
            // `combined` names variables that sessions do not have.
            return Err(Diag::emerg(d.span, "log format is not specified")
                .help("stream has no format of its own: define one with log_format and name it here"));
        }
        None => format::combined(cx, path)?,
    };
    let to = target::parse(cx, path, &keeping)?;
    logs.push(Target { to, format, condition });
    cx.conf::<Conf>().logs = Some(logs.into());
    Ok(())
}

fn open_log_file_cache(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let seconds = Duration::from_secs;
    let mut cache = NamedCache { max: 0, inactive: seconds(10), valid: seconds(60), min_uses: 1 };
    for token in &d.args {
        let bad = |_| {
            Diag::emerg(token.span, format!("invalid \"open_log_file_cache\" parameter \"{}\"", token.text()))
        };
        let value = |text: &str| Token { value: text.as_bytes().into(), span: token.span, quoted: false };
        match token.str().split_once('=') {
            Some(("max", text)) => cache.max = value::number(&value(text)).map_err(bad)? as usize,
            Some(("min_uses", text)) => cache.min_uses = value::number(&value(text)).map_err(bad)?,
            Some(("inactive", text)) => cache.inactive = seconds(value::seconds(&value(text)).map_err(bad)?),
            Some(("valid", text)) => cache.valid = seconds(value::seconds(&value(text)).map_err(bad)?),
            None if token.str() == "off" => {
                cx.conf::<Conf>().cache = None;
                return Ok(());
            }
            _ => return Err(bad(invalid_parameter(token))),
        }
    }
    if cache.max == 0 {
        return Err(Diag::emerg(d.span, "\"open_log_file_cache\" must have \"max\" parameter")
            .help("write: open_log_file_cache max=N, or off"));
    }
    cx.conf::<Conf>().cache = Some(Arc::new(cache));
    Ok(())
}

/// A server that says nothing, in an `http` that says nothing, logs to the default file.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // Asked of servers alone: locations inherit it, and an `http` without servers logs nothing, so no file is
    // made for it.
    if cx.block != Context::SERVER || cx.conf::<Conf>().logs.is_some() {
        return Ok(());
    }
    // It stands nowhere in the text.
    let span = brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 };
    let format = format::combined(cx, &Token { value: Box::default(), span, quoted: false })?;
    let path = format!("{}access.log", cx.places().logs);
    let to = To::Log { log: cx.global.log(LogTarget::File(path), None), buffering: None };
    cx.conf::<Conf>().logs = Some(Arc::new([Target { to, format, condition: None }]));
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let conf = cx.conf_of::<Conf>();
    if let Some(logs) = conf.logs.clone().filter(|logs| !logs.is_empty()) {
        // Asked once per location: a prepared answer still writes its line, and can only do so if the line
        // needs nothing but the request.
        let tells_of_making = logs.iter().any(|log| log.tells_of_making(&cx.global.vars));
        plan.log.push(Arc::new(AccessLog { tells_of_making, logs, cache: conf.cache.clone() }));
    }
}

/// Whether a text shows what only the making of an answer tells: groups of a regular expression, the answer's fields. One that
/// is given again has neither.
fn tells_of_making(text: &Template, vars: &Table) -> bool {
    // Groups belong to the request in which the expression was evaluated.
    text.parts().iter().any(|part| matches!(part, Part::Capture(_)))
        || tells_of_fields(text, vars, &mut Vec::new())
}

/// Whether a text shows fields of the answer, also by way of a `map`: they are bytes in a prepared one, no longer fields.
fn tells_of_fields(text: &Template, vars: &Table, seen: &mut Vec<VarId>) -> bool {
    text.parts().iter().any(|part| {
        let Part::Var(id) = part else { return false };
        let var = vars.get(*id);
        match &var.kind {
            _ if var.name.starts_with("sent_") => true,
            // Each once: a map may name itself.
            Kind::Eval { eval, .. } if !seen.contains(id) => {
                seen.push(*id);
                eval.sources().into_iter().any(|source| tells_of_fields(source, vars, seen))
            }
            _ => false,
        }
    })
}

struct AccessLog {
    logs: Arc<[Target]>,
    /// See [`tells_of_making`].
    tells_of_making: bool,
    cache: Option<Arc<NamedCache>>,
}

impl LogHandler for AccessLog {
    fn declares(&self) -> Declared {
        let reads = if self.tells_of_making { Dependencies::STATE } else { Dependencies::NONE };
        Declared::RECORDED.depends_on(reads).does(Effects::LOGS)
    }

    fn logs_subrequests(&self) -> bool {
        true
    }

    fn log(&self, r: &Request) {
        for target in &*self.logs {
            // A condition that cannot be found out leaves no request out of the log.
            if target
                .condition
                .as_ref()
                .is_some_and(|condition| !condition.holds(r) && !r.state.shared.vars.have_failed())
            {
                continue;
            }
            match &target.to {
                To::Log { log, buffering } => {
                    // By the request's own configuration: after a reload it is still logged where it began.
                    let log = &r.live.logs[log.0 as usize];
                    r.thread.logs.append(log, buffering.as_ref(), |out| target.format.line(r, out));
                }
                To::Named(name) => {
                    let mut line = Vec::new();
                    // Not into the thread's buffer: which file it belongs to is known by its name alone, and
                    // another line may open another.
                    target.format.line(r, &mut line);
                    name.write(r, self.cache.as_deref(), &line);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{accepted, refused};

    #[test]
    fn parameters_are_checked() {
        refused(&[
            ("access_log a.log combined buffer=0;", "invalid buffer size \"0\""),
            ("access_log a.log combined buffer=x;", "invalid buffer size \"x\""),
            ("access_log a.log combined buffer=1k flush=0;", "invalid flush time \"0\""),
            ("access_log a.log combined flush=1s;", "no buffer is defined for access_log \"a.log\""),
            ("access_log a.log combined gzip=10;", "invalid compression level \"10\""),
            ("access_log $uri combined buffer=1k;", "buffered logs cannot have variables in name"),
            ("access_log syslog:server=1.2.3.4 combined gzip;", "logs to syslog cannot be buffered"),
            (
                "access_log a.log combined buffer=1k; server { access_log a.log combined buffer=2k; }",
                "access_log \"a.log\" already defined with conflicting parameters",
            ),
            ("access_log off combined;", "invalid parameter \"combined\""),
            ("access_log a.log nosuch;", "unknown log format \"nosuch\""),
        ]);
        refused(&[
            ("access_log a.log combined b;", "invalid parameter \"b\""),
            ("access_log syslog:tag=x;", "no syslog server specified"),
            ("open_log_file_cache min_uses=1;", "\"open_log_file_cache\" must have \"max\" parameter"),
            ("open_log_file_cache max=x;", "invalid \"open_log_file_cache\" parameter \"max=x\""),
            ("open_log_file_cache size=1;", "invalid \"open_log_file_cache\" parameter \"size=1\""),
        ]);
        accepted(&[
            "access_log a.log combined gzip=9 buffer=32k flush=1m if=$arg_a; access_log b.log combined gzip;",
            "access_log a.log combined buffer=1k; server { access_log a.log combined buffer=1k; }",
            "open_log_file_cache max=10 inactive=20s valid=1m min_uses=2; server { open_log_file_cache off; }",
            "access_log logs/$host.log; access_log syslog:server=unix:/dev/log,nohostname combined;",
        ]);
    }
}
