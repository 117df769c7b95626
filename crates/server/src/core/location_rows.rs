//! Blocks and the directives that shape them: `http`, `server`, `location`, `root`, `error_page` …

use super::http_conf::{AliasOf, CoreConf, ErrorPage, LimitExcept, PageTarget, Root};
use crate::conf::cx::Cx;
use crate::conf::ids::ServerId;
use crate::conf::snapshot::Server;
use crate::limits::LOG_MEMORY_BYTES_MIN;
use crate::location::Pattern;
use brisk_conf::{Context, Diag, Directive, Token, value};
use brisk_host::log::{Filter, Format, Gate, Limit, LogId, LogLevel, LogTarget, LogTo, Syslog};
use brisk_host::main_conf::MainConf;
use brisk_host::vars::Template;
use std::sync::Arc;

/// Runs at the end of every block: without an `error_log` at the main level, errors go where `-e` says.
pub fn finish(cx: &mut Cx<'_, '_>) -> Result<(), Diag> {
    // At the end of the main block, since `error_log` may stand anywhere in it.
    if cx.block == Context::MAIN && cx.conf::<CoreConf>().error_log.is_empty() {
        // A daemon has no terminal to write to; `-t` and a server in the foreground have.
        let target = match cx.global.env.error_log.as_str() {
            "" if cx.conf_of::<MainConf>().daemon && !cx.global.env.test => {
                LogTarget::File(format!("{}error.log", cx.places().logs))
            }
            "" | "stderr" => LogTarget::Stderr,
            path => LogTarget::File(path.to_string()),
        };
        let log = cx.global.log(target, None);
        cx.conf::<CoreConf>().error_log =
            Arc::new([LogTo { log, level: LogLevel::Error, format: Format::Text, gate: None }]);
    }
    Ok(())
}

/// The setter of `http`.
pub fn http(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.conf_of_mut::<MainConf>().has_http = true;
    // `http` has no configuration of its own but that of `main`, which it goes on with: `Cx::block_here`.
    let outer = std::mem::replace(&mut cx.block, Context::HTTP);
    cx.block_here(d);
    cx.block = outer;
    Ok(())
}

/// The setter of `server`.
pub fn server(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // The server itself is a location: what is served where none matches.
    // nginx has no such location; its server context is merged into each of them. Here one mechanism does
    // both.
    let root = cx.global.reserve_location();
    let id = ServerId(cx.global.servers.len() as u32);
    cx.global.servers.push(Server {
        name: Box::default(),
        root,
        named: hashbrown::HashMap::new(),
        tls: None,
    });
    // Kept beside the servers until all are read: the table of an address is made of those of all its servers.
    cx.global.names.push(Vec::new());
    let before = cx.global.listens.len();
    // The server is in the list before its block is read: directives in it ask for "the present server".
    cx.child(root, d, Context::SERVER, b"", |_| {});
    // Asked when its block has been read, since a `listen` may stand anywhere in it.
    if cx.global.listens.len() == before {
        super::listen::default(cx, id, d.span);
    }
    Ok(())
}

/// The setter of `server_name`.
pub fn server_name(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    for token in &d.args {
        let found = super::server_names::names(cx, token)?;
        // The default of the row runs outside any server.
        // It is run on the row's default before any text is read.
        let Some(server) = cx.global.servers.last_mut() else { return Ok(()) };
        let names = cx.global.names.last_mut().expect("one list per server");
        if names.is_empty() {
            server.name = super::server_names::first_name(&cx.global.env.hostname, token);
        }
        names.extend(found);
    }
    Ok(())
}

/// The setter of `location`.
pub fn location(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (modifier, token) = match d.args.as_slice() {
        [modifier, token] => (modifier.bytes(), token),
        // nginx takes `location =/x` and `location = /x` for the same, and configurations have both.
        [token] => split_modifier(token.bytes()).map_or((&b""[..], token), |m| (m, token)),
        _ => unreachable!("the row's arity was checked"),
    };
    let text = if d.args.len() == 1 { &token.bytes()[modifier.len()..] } else { token.bytes() };
    let pattern = match modifier {
        b"=" => Pattern::Exact(text.into()),
        b"^~" => Pattern::Prefix { text: text.into(), no_regex: true },
        b"~" => Pattern::Regex(cx.regex(token, text, false)?),
        b"~*" => Pattern::Regex(cx.regex(token, text, true)?),
        b"" if text.starts_with(b"@") => Pattern::Named(text.into()),
        b"" => Pattern::Prefix { text: text.into(), no_regex: false },
        _ => {
            return Err(Diag::emerg(
                d.arg(0).span,
                format!("invalid location modifier \"{}\"", d.arg(0).text()),
            )
            .help("the modifiers are =, ^~, ~ and ~*"));
        }
    };
    // A location inside another is looked for only where the outer one matched: what cannot match there is a
    // mistake.
    check_nesting(cx, &pattern, text, token)?;
    let is_regex = matches!(pattern, Pattern::Regex(_));
    // Before its block, so that the numbers follow the text and an inner location finds the outer one's text.
    let id = cx.global.reserve_location();
    let shown: Box<[u8]> = text.into();
    let location_text: Arc<[u8]> = text.into();
    cx.child(id, d, Context::LOCATION, &shown, |inner| {
        let core = inner.conf_of_mut::<CoreConf>();
        core.location_text = location_text;
        core.location_is_regex = is_regex;
    });
    // After its block: the tree is built of locations that are complete.
    cx.scope.add(pattern, id, token)
}

/// nginx accepts `location =/x` and `location ~\.php$` without a space.
/// The two-character modifiers first: `^~` begins with no other one, but `~*` begins with `~`.
fn split_modifier(text: &[u8]) -> Option<&[u8]> {
    let len = match text {
        [b'^', b'~', ..] | [b'~', b'*', ..] => 2,
        [b'=' | b'~', ..] => 1,
        _ => return None,
    };
    Some(&text[..len])
}

/// nginx finds the same by merging trees. A location that can never match is mostly a slip that would leave a
/// folder without its rules.
fn check_nesting(cx: &Cx<'_, '_>, pattern: &Pattern, text: &[u8], token: &Token) -> Result<(), Diag> {
    if cx.block != Context::LOCATION {
        return Ok(());
    }
    let outer = cx.conf_of::<CoreConf>();
    let outer_name = String::from_utf8_lossy(&outer.location_text);
    let fail = |message: String, help: &str| Err(Diag::emerg(token.span, message).help(help));
    if outer.location_text.starts_with(b"@") && !outer.location_is_regex {
        return fail(
            format!("location \"{}\" cannot be inside the named location \"{outer_name}\"", token.text()),
            "put it beside the named location",
        );
    }
    match pattern {
        // Named locations are the server's: a request is sent there from anywhere, so one inside of another
        // would say nothing.
        Pattern::Named(_) => fail(
            format!("named location \"{}\" can be on the server level only", token.text()),
            "move it out of the enclosing location",
        ),
        // Below a regular expression any prefix may stand: what it matches cannot be told from its text.
        Pattern::Exact(_) | Pattern::Prefix { .. }
            if !outer.location_is_regex && !text.starts_with(&outer.location_text) =>
        {
            fail(
                format!("location \"{}\" is outside location \"{outer_name}\"", token.text()),
                "an inner location's prefix must begin with the outer one's",
            )
        }
        _ => Ok(()),
    }
}

/// The setter of `limit_except`.
pub fn limit_except(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // nginx's list: an unknown word is a typing error that would leave a method open.
    const METHODS: [&str; 15] = [
        "GET",
        // HEAD is added with GET below and may be named alone as well.
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
        "TRACE",
    ];
    let mut methods: Vec<Box<[u8]>> = Vec::new();
    for token in &d.args {
        let upper = token.str().to_ascii_uppercase();
        if !METHODS.contains(&upper.as_str()) {
            return Err(Diag::emerg(token.span, format!("invalid method \"{}\"", token.text())));
        }
        // RFC 9110 §9.3.2: HEAD is a GET without its body, so it may not be less.
        if upper == "GET" {
            methods.push(b"HEAD"[..].into());
        }
        methods.push(upper.into_bytes().into());
    }
    // A location of its own, so that the rest of the server need not know of methods: `set_location` puts it in the other's place.
    let block = cx.global.reserve_location();
    let name: Box<[u8]> = cx.conf_of::<CoreConf>().location_text[..].into();
    cx.child(block, d, Context::LIMIT_EXCEPT, &name, |_| {});
    cx.conf_of_mut::<CoreConf>().limit_except =
        Some(Arc::new(LimitExcept { methods: methods.into(), block }));
    Ok(())
}

/// Checked here, since `root` and `alias` set one field and the later one would win in silence.
fn root_once(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_default = cx.block == Context::MAIN;
    let conf = cx.conf::<CoreConf>();
    if conf.root_here {
        let other = if d.name() == "alias" { "root" } else { "alias" };
        return Err(Diag::emerg(
            d.span,
            format!("\"{}\" directive is duplicate, \"{other}\" directive was specified earlier", d.name()),
        )
        .help("a location has either root or alias"));
    }
    // The default of the row is no statement of the user's.
    conf.root_here = !is_default;
    Ok(())
}

/// A path that begins with a variable is taken as the variable has it: whether that is absolute is known per
/// request.
fn path_template(cx: &mut Cx<'_, '_>, token: &Token) -> Result<Template, Diag> {
    let text = token.bytes();
    let is_absolute = text.is_empty() || text.starts_with(b"/") || text.starts_with(b"$");
    let path = cx.template(token)?;
    // A dollar sign in the prefix is no variable.
    Ok(if is_absolute { path } else { path.after(cx.global.env.prefix.as_bytes()) })
}

/// The setter of `root`.
pub fn root(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    root_once(cx, d)?;
    let mut token = d.arg(0).clone();
    // The URI that is appended begins with a slash.
    // Otherwise a path would have two slashes, which `$request_filename` and logs would show.
    while token.value.len() > 1 && token.value.ends_with(b"/") {
        token.value = token.value[..token.value.len() - 1].into();
    }
    if &*token.value == b"/" {
        token.value = Box::default();
    }
    let path = path_template(cx, &token)?;
    cx.conf::<CoreConf>().root = Arc::new(Root { path, alias: None });
    Ok(())
}

/// The setter of `alias`.
pub fn alias(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    root_once(cx, d)?;
    let conf = cx.conf_of::<CoreConf>();
    if conf.location_text.starts_with(b"@") && !conf.location_is_regex {
        // It has no part of a URI that could be replaced.
        return Err(Diag::emerg(d.span, "the \"alias\" directive cannot be used inside the named location")
            .help("use root there"));
    }
    let alias =
        // An expression's length says nothing: its alias is the whole path, made of captures.
        if conf.location_is_regex { AliasOf::Whole } else { AliasOf::Prefix(conf.location_text.len()) };
    let path = path_template(cx, d.arg(0))?;
    cx.conf::<CoreConf>().root = Arc::new(Root { path, alias: Some(alias) });
    Ok(())
}

/// The setter of `error_page`.
pub fn error_page(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (target, rest) = d.args.split_last().expect("the row's arity was checked");
    let (overwrite, codes) = match rest.last() {
        // It stands before the target and behind the codes, so the last but one word decides.
        Some(token) if token.bytes().starts_with(b"=") => (Some(overwrite(token)?), &rest[..rest.len() - 1]),
        _ => (None, rest),
    };
    if codes.is_empty() {
        return Err(Diag::emerg(d.span, "invalid number of arguments in \"error_page\" directive")
            .help("write: error_page CODE … [=CODE] URI"));
    }
    let mut list = Vec::new();
    for token in codes {
        let invalid = || Diag::emerg(token.span, format!("invalid value \"{}\"", token.text()));
        match value::number(token).map_err(|_| invalid().help("write status codes from 300 to 599"))? {
            // 499 is nginx's own status for a client that has gone.
            499 => return Err(invalid().help("there is nobody to send a page to")),
            // From 300 on, as nginx: `error_page 301 =…` replaces what the server itself would send.
            code @ 300..=599 => list.push(code as u16),
            _ => {
                return Err(Diag::emerg(
                    token.span,
                    format!("value \"{}\" must be between 300 and 599", token.text()),
                )
                .help(
                    "pages are for redirects and errors; =CODE behind the codes gives a page another status",
                ));
            }
        }
    }
    let is_of_file = cx.global.is_late();
    let target = if target.bytes().starts_with(b"@") {
        if is_of_file {
            // No client is led there: the writer of the file need not be trusted with it.
            return Err(Diag::emerg(target.span, format!("\"{}\" is a named location", target.text()))
                .help("a file of a folder may name pages that clients may ask for"));
        }
        PageTarget::Named(target.bytes().into())
    } else {
        PageTarget::Uri(cx.template(target)?)
    };
    let page = ErrorPage { codes: list.into(), overwrite, target, is_of_file };
    let first = cx.first;
    let conf = cx.conf::<CoreConf>();
    // The first `error_page` of a block ends what was inherited, for all codes, as in nginx.
    let mut pages = if first { Vec::new() } else { conf.error_pages.to_vec() };
    pages.push(page);
    conf.error_pages = pages.into();
    Ok(())
}

/// An empty text takes the status of the page itself, such as that of a script.
fn overwrite(token: &Token) -> Result<Option<u16>, Diag> {
    match &token.str()[1..] {
        "" => Ok(None),
        // As of `return`: more digits, or a sign, are no status of HTTP.
        text => {
            let code =
                text.parse().ok().filter(|code| *code <= 999 && text.bytes().all(|b| b.is_ascii_digit()));
            code.map(Some).ok_or_else(|| {
                Diag::emerg(token.span, format!("invalid value \"{}\"", token.text())).help(
                    "write a status code behind the \"=\", such as =200, or \"=\" alone for that of the page",
                )
            })
        }
    }
}

/// The setter of `error_log`.
pub fn error_log(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let target = match d.arg(0).str() {
        "stderr" => LogTarget::Stderr,
        // Parsed and its name looked up once: a log must not wait for a name server.
        text if text.starts_with("syslog:") => LogTarget::Syslog(Syslog::parse(
            &text["syslog:".len()..],
            &cx.global.env.hostname,
            cx.global.loader,
            d.arg(0),
        )?),
        text if text.starts_with("memory:") => {
            let size = &text["memory:".len()..];
            let bytes =
                value::parse_size(size.as_bytes(), false).filter(|&bytes| bytes >= LOG_MEMORY_BYTES_MIN);
            LogTarget::Memory(bytes.ok_or_else(|| {
                Diag::emerg(d.arg(0).span, format!("invalid buffer size \"{size}\""))
                    .help("at least 8k are expected, such as memory:32m")
            })?)
        }
        text => LogTarget::File(cx.full_path(text)),
    };
    // The log is declared once per target, whatever its levels: two lines naming one file share a descriptor.
    let log = error_log_parameters(cx.global.log(target, Some(d.span)), &d.args[1..])?;
    let first = cx.first;
    let conf = cx.conf::<CoreConf>();
    let mut list = if first { Vec::new() } else { conf.error_log.to_vec() };
    list.push(log);
    conf.error_log = list.into();
    Ok(())
}

/// What stands behind the target: a level, `format=`, `rate=` and any number of `filter=`.
/// In any order, as words of `access_log` are.
fn error_log_parameters(log: LogId, tokens: &[Token]) -> Result<LogTo, Diag> {
    let mut level = None;
    let mut is_debug_part = false;
    let mut format = Format::Text;
    let mut rate = 0;
    let mut filters = Vec::new();
    for token in tokens {
        if let Some(name) = token.str().strip_prefix("format=") {
            let formats = [("text", Format::Text), ("json", Format::Json), ("color", Format::Color)];
            let found = formats.iter().find(|(have, _)| *have == name);
            format = found.map(|(_, format)| *format).ok_or_else(|| {
                Diag::emerg(token.span, format!("invalid log format \"{name}\""))
                    .help("it is text, json or color")
            })?;
        } else if let Some(text) = token.str().strip_prefix("filter=") {
            let filter = Filter::parse(text);
            filters.push(filter.map_err(|why| Diag::emerg(token.span, why).help(Filter::help()))?);
        } else if let Some(text) = token.str().strip_prefix("rate=") {
            rate = text.strip_suffix("m/s").unwrap_or(text).parse::<u32>().map_err(|_| {
                Diag::emerg(token.span, format!("invalid rate \"{}\"", token.text())).help(
                    "write rate=1000m/s for at most so many messages in a second, or rate=0 for any number",
                )
            })?;
        } else {
            // nginx's `debug_core`, `debug_http` and the like: parts of a debug build's log, of which there is one here.
            // A file for a debug build of nginx is taken as it is.
            let is_part = token.str().starts_with("debug_");
            let found = if is_part { Some(LogLevel::Debug) } else { LogLevel::parse(token.str()) };
            let found = found.ok_or_else(|| {
                Diag::emerg(token.span, format!("invalid log level \"{}\"", token.text()))
                    .help("the levels are debug, info, notice, warn, error, crit, alert and emerg")
            })?;
            // Several parts of the debug log are one level.
            if level.is_some() && !(is_part && is_debug_part) {
                return Err(Diag::emerg(token.span, format!("duplicate log level \"{}\"", token.text())));
            }
            (level, is_debug_part) = (Some(found), is_part);
        }
    }
    let level = level.unwrap_or(LogLevel::Error);
    let limit = (rate > 0).then(|| Limit::new(rate.into(), level));
    // None is the usual case and costs a message one comparison.
    let gate = (limit.is_some() || !filters.is_empty()).then(|| Arc::new(Gate { filters, limit }));
    Ok(LogTo { log, level, format, gate })
}
