//! `ngx_http_log_module`: the access log.

use brisk_conf::{Arity, Context, Default as D, Diag, Directive, Token};
use brisk_server::conf::{Cx, LogId, LogTarget, invalid_parameter};
use brisk_server::module::{Module, ModuleConf, Row, Set};
use brisk_server::plan::{LogHandler, Plan, Purity};
use brisk_server::request::Request;
use brisk_server::{ignored, row};
use brisk_server::vars::{Part, Table, Template};
use std::sync::Arc;

pub static MODULE: Module = Module {
    name: "log",
    rows: ROWS,
    conf: || Arc::new(Conf { logs: None }),
    finish: Some(finish),
    install: Some(install),
    ..Module::EMPTY
};

static ROWS: &[Row] = &[
    row!(
        "log_format", Context::HTTP, Arity::at_least(2),
        D::Told("combined '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"'"),
        Definition, true,
        "Names a format of log lines; escape=json or escape=none changes how values are written.",
        Set::Simple(log_format)
    ),
    row!(
        "access_log", Context::HSLI.or(Context::LIMIT_EXCEPT), Arity::SOME, D::Told("logs/access.log combined"), Replace, true,
        "A file and format for lines about requests, if= a condition; off ends inherited ones. Lines are written when a thread has answered what is there.",
        Set::Simple(access_log)
    ),
    ignored!(
        "open_log_file_cache", Context::HSL, Arity::between(1, 4),
        "Descriptors of log files whose names have variables.", "log files stay open"
    ),
];

const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

#[derive(Clone)]
struct Conf {
    /// `None`: nothing was said, so the default applies.
    logs: Option<Arc<[Target]>>,
}

#[derive(Clone)]
struct Target {
    log: LogId,
    format: Arc<Format>,
    condition: Option<Template>,
}

impl Target {
    fn has_captures(&self) -> bool {
        self.format.template.has_captures() || self.condition.as_ref().is_some_and(Template::has_captures)
    }
}

impl ModuleConf for Conf {
    fn duplicate(&self) -> Arc<dyn ModuleConf> {
        Arc::new(self.clone())
    }
}

/// How values are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    Default,
    Json,
    None,
}

struct Format {
    template: Template,
    escape: Escape,
}

fn named(name: &str) -> (&'static str, String) {
    ("log_format", name.to_string())
}

fn log_format(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let name = d.arg(0).text().into_owned();
    if name == "combined" || cx.global.named.contains_key(&named(&name)) {
        return Err(Diag::emerg(d.arg(0).span, format!("duplicate \"log_format\" name \"{name}\"")));
    }
    let mut escape = Escape::Default;
    let mut parts = &d.args[1..];
    if let Some(text) = parts[0].str().strip_prefix("escape=") {
        escape = match text {
            "default" => Escape::Default,
            "json" => Escape::Json,
            "none" => Escape::None,
            _ => {
                return Err(Diag::emerg(parts[0].span, format!("unknown log format escaping \"{text}\""))
                    .help("it is default, json or none"));
            }
        };
        parts = &parts[1..];
    }
    let text: Vec<u8> = parts.iter().flat_map(|t| t.bytes().to_vec()).collect();
    let template = Template::parse_bytes(&mut cx.global.vars, &text, d.arg(0))?;
    cx.global.named.insert(named(&name), Box::new(Arc::new(Format { template, escape })));
    Ok(())
}

fn access_log(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_first = cx.first;
    let mut logs = match &cx.conf::<Conf>().logs {
        Some(logs) if !is_first => logs.to_vec(),
        _ => Vec::new(),
    };
    if d.arg(0).str() == "off" {
        if d.args.len() > 1 {
            return Err(invalid_parameter(d.arg(1)));
        }
        cx.conf::<Conf>().logs = Some(Arc::new([]));
        return Ok(());
    }
    let path = d.arg(0);
    let target = target(cx, path)?;
    let mut condition = None;
    let mut format_name = None;
    for token in &d.args[1..] {
        let text = token.str();
        if let Some(rest) = text.strip_prefix("if=") {
            condition = Some(Template::parse_bytes(&mut cx.global.vars, rest.as_bytes(), token)?);
        } else if text.starts_with("buffer=") || text.starts_with("flush=") {
            // Lines are always buffered, and never longer than a wake-up: nothing to size.
        } else if text.starts_with("gzip") {
            return Err(Diag::emerg(token.span, "compressed access logs are not supported yet")
                .help("remove the gzip parameter; logrotate can compress"));
        } else if format_name.is_none() {
            format_name = Some(token);
        } else {
            return Err(invalid_parameter(token));
        }
    }
    let format = match format_name {
        Some(token) => find_format(cx, token)?,
        None => combined(cx, path)?,
    };
    let log = cx.global.log(target);
    logs.push(Target { log, format, condition });
    cx.conf::<Conf>().logs = Some(logs.into());
    Ok(())
}

fn target(cx: &mut Cx<'_, '_>, token: &Token) -> Result<LogTarget, Diag> {
    let text = token.str();
    let unsupported = |what: &str, help: &str| {
        Err(Diag::emerg(token.span, format!("access_log to {what} is not supported yet")).help(help.to_string()))
    };
    if text == "stderr" {
        return Ok(LogTarget::Stderr);
    }
    if text.starts_with("syslog:") {
        return unsupported("syslog", "use a file");
    }
    if text.contains('$') {
        return unsupported("paths with variables", "use one file, with the variable in the log_format");
    }
    Ok(LogTarget::File(cx.full_path(text)))
}

fn find_format(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Arc<Format>, Diag> {
    if token.str() == "combined" {
        return combined(cx, token);
    }
    let found = cx.global.named.get(&named(token.str())).and_then(|f| f.downcast_ref::<Arc<Format>>());
    found.cloned().ok_or_else(|| {
        Diag::emerg(token.span, format!("unknown log format \"{}\"", token.text()))
            .help("define it with log_format further up in http")
    })
}

fn combined(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Arc<Format>, Diag> {
    let key = named("combined");
    if let Some(found) = cx.global.named.get(&key).and_then(|f| f.downcast_ref::<Arc<Format>>()) {
        return Ok(found.clone());
    }
    let vars: &mut Table = &mut cx.global.vars;
    let template = Template::parse_bytes(vars, COMBINED.as_bytes(), token)?;
    let format = Arc::new(Format { template, escape: Escape::Default });
    cx.global.named.insert(key, Box::new(format.clone()));
    Ok(format)
}

/// A server that says nothing, in an `http` that says nothing, logs to the default file.
fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    if cx.block != Context::SERVER || cx.conf::<Conf>().logs.is_some() {
        return Ok(());
    }
    let span = brisk_conf::Span { file: brisk_conf::FileId(0), start: 0, end: 0 };
    let format = combined(cx, &Token { value: Box::default(), span, quoted: false })?;
    let path = cx.full_path("logs/access.log");
    let log = cx.global.log(LogTarget::File(path));
    cx.conf::<Conf>().logs = Some(Arc::new([Target { log, format, condition: None }]));
    Ok(())
}

fn install(cx: &Cx<'_, '_>, plan: &mut Plan) {
    let Some(logs) = cx.conf_of::<Conf>().logs.clone() else { return };
    // An answer that is given again runs no regular expression: there would be nothing to write.
    if logs.iter().any(Target::has_captures) {
        plan.note(Purity::Impure);
    }
    if !logs.is_empty() {
        plan.log.push(Arc::new(AccessLog { logs }));
    }
}

struct AccessLog {
    logs: Arc<[Target]>,
}

impl LogHandler for AccessLog {
    fn log(&self, r: &Request) {
        for target in &*self.logs {
            if let Some(condition) = &target.condition {
                let value = condition.eval(r);
                if value.is_empty() || value == b"0" {
                    continue;
                }
            }
            let log = &r.live.logs[target.log.0 as usize];
            r.thread.logs.append(log, |out| target.format.line(r, out));
        }
    }
}

impl Format {
    fn line(&self, r: &Request, out: &mut Vec<u8>) {
        for part in self.template.parts() {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Var(id) => {
                    let start = out.len();
                    let found = r.var(*id, out);
                    self.escape(out, start, found);
                }
                Part::Capture(group) => {
                    let start = out.len();
                    r.captures.borrow().append(*group, out);
                    self.escape(out, start, true);
                }
            }
        }
        out.push(b'\n');
    }

    /// Rewrites the value that begins at `start`: a stranger's bytes must not end the line or the quotes.
    fn escape(&self, out: &mut Vec<u8>, start: usize, found: bool) {
        let value = &out[start..];
        match self.escape {
            Escape::None => {}
            Escape::Default => {
                if !found {
                    out.truncate(start);
                    out.push(b'-');
                } else if value.iter().any(|&b| !(b' '..0x7f).contains(&b) || b == b'"' || b == b'\\') {
                    let raw = value.to_vec();
                    out.truncate(start);
                    brisk_http::uri::escape_log(&raw, out);
                }
            }
            Escape::Json => {
                if value.iter().any(|&b| b < b' ' || b == b'"' || b == b'\\') {
                    let raw = value.to_vec();
                    out.truncate(start);
                    brisk_http::uri::escape_json(&raw, out);
                }
            }
        }
    }
}
