//! The rows of `proxy_…`; those of caching and TLS stand with their modules.

use super::conf::Conf;
use super::cookie::CookieFlags;
use super::pass::{Fixed, Pass, Passed, Url, Variable};
use super::redirect::{Redirects, Rewrite};
use crate::upstream;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_http::Version;
use brisk_server::conf::{Cx, invalid_parameter};
use brisk_server::core::CoreConf;
use brisk_server::directive::directive;
use brisk_server::module::Row;

use brisk_upstream::settings_rows;
use std::sync::Arc;

// Not in `server`: a server without a location has nothing that a URI could take the place of.
const PASS: Context = Context::LOCATION.or(Context::LOCATION_IF).or(Context::LIMIT_EXCEPT);

/// The words of `proxy_http_version`.
const HTTP_VERSIONS: [(&str, Version); 3] =
    [("1.0", Version::Http10), ("1.1", Version::Http11), ("2", Version::Http2)];

pub(super) static ROWS: &[Row] = settings_rows!(
    "proxy",
    Conf,
    [
        directive("proxy_pass")
            .doc("Passes requests to an HTTP server or an upstream group: a URL that may contain variables. With a URI in it, that URI takes the place of the part of the request's that the location's prefix matches.")
            .in_(PASS)
            .takes("URL")
            .not_inherited()
            .example("proxy_pass http://127.0.0.1:8080;")
            .set(proxy_pass),
        // 1.1 is nginx's default since 1.29.7; before, a connection was closed behind each answer unless asked otherwise.
        directive("proxy_http_version")
            .doc("The version of HTTP that back ends are asked in: 1.0, 1.1 or 2 (with prior knowledge; over TLS it is offered by ALPN).")
            .in_(Context::HSL)
            .takes_one_of(&HTTP_VERSIONS)
            .default("1.1")
            .example("proxy_http_version 1.1;")
            .set(|cx, d| {
                cx.conf::<Conf>().module.version = value::choice(d.arg(0), &HTTP_VERSIONS)?;
                Ok(())
            }),
        // The first of a block ends what was inherited: nginx's rule for lists, and the usual surprise with it.
        directive("proxy_set_header")
            .doc("Sets a field of requests to back ends, in place of the client's; a value may contain variables, an empty one removes the field. Without it Host is $proxy_host, and Connection is not passed on.")
            .in_(Context::HSL)
            .arity(Arity::TWO)
            .takes("FIELD VALUE")
            .many()
            .example("proxy_set_header Host $host;")
            .set(set_header),
        // A body of the location's own is sent in each attempt; the client's is read and dropped.
        directive("proxy_set_body")
            .doc("A body that is sent to back ends in place of the client's; may contain variables.")
            .in_(Context::HSL)
            .takes("VALUE")
            .example("proxy_set_body $request_body;")
            .set(|cx, d| {
                let body = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().module.set_body = Some(body);
                Ok(())
            }),
        // Variables may come to anything, so what is no token is refused when the request is made (`request.rs`).
        directive("proxy_method")
            .doc("The method of requests to back ends in place of the client's; may contain variables.")
            .in_(Context::HSL)
            .takes("METHOD")
            .example("proxy_method POST;")
            .set(|cx, d| {
                let method = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().module.method = Some(method);
                Ok(())
            }),
        // On by default: a back end that is asked as 127.0.0.1:8080 writes that into `Location`, where no client can go.
        directive("proxy_redirect")
            .doc("Rewrites the beginning of Location and Refresh in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what. default turns what proxy_pass names into the location's prefix; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("default | off | TEXT TEXT | ~REGEX TEXT")
            .default("default")
            .many()
            .example("proxy_redirect http://localhost:8000/ /;")
            .set(proxy_redirect),
        // Browsers drop a cookie for a domain that is not the site's (RFC 6265 §5.3), such as the back end's own name.
        directive("proxy_cookie_domain")
            .doc("Rewrites the domain of cookies in answers: what to replace (a text, or a regular expression after ~) and by what; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("off | TEXT TEXT | ~REGEX TEXT")
            .default("off")
            .many()
            .example("proxy_cookie_domain localhost example.com;")
            .set(cookie_domain),
        // A cookie for a path that only the back end knows would never be sent back (RFC 6265 §5.1.4).
        directive("proxy_cookie_path")
            .doc("Rewrites the path of cookies in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("off | TEXT TEXT | ~REGEX TEXT")
            .default("off")
            .many()
            .example("proxy_cookie_path /app/ /;")
            .set(cookie_path),
        // A security matter: `nosecure` gives a session away to anybody who can read the network.
        directive("proxy_cookie_flags")
            .doc("Sets or removes flags of a cookie (a name, or a regular expression after ~): secure, httponly, samesite=strict|lax|none, and nosecure, nohttponly, nosamesite. off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 4))
            .takes("off | COOKIE [secure | nosecure | httponly | nohttponly | samesite=strict | samesite=lax | samesite=none | nosamesite ...]")
            .default("off")
            .many()
            .risk(Risk::Security)
            .example("proxy_cookie_flags ~ secure httponly samesite=lax;")
            .set(cookie_flags),
        // Off, as in nginx: trailers may be dropped on the way (RFC 9110 §6.5.1), so nothing may rely on them.
        directive("proxy_pass_trailers")
            .doc("Whether trailer fields of answers are passed on.")
            .in_(Context::HSL)
            .takes_flag()
            .default("off")
            .example("proxy_pass_trailers on;")
            .sets(|cx, on| cx.conf::<Conf>().settings.pass_trailers = on),
        directive("proxy_send_lowat")
            .doc("Accepted for compatibility; Linux has no such thing, in nginx neither.")
            .in_(Context::HSL)
            .takes_size()
            .default("0")
            .risk(Risk::Safe)
            .example("proxy_send_lowat 0;")
            .set(brisk_upstream::rows::send_lowat::<Conf>),
        directive("proxy_headers_hash_bucket_size")
            .doc("Size of a hash bucket.")
            .in_(Context::HSL)
            .takes("SIZE")
            .example("proxy_headers_hash_bucket_size 128;")
            .ignored("hash tables size themselves"),
        directive("proxy_headers_hash_max_size")
            .doc("Size of a hash table.")
            .in_(Context::HSL)
            .takes("SIZE")
            .example("proxy_headers_hash_max_size 1024;")
            .ignored("hash tables size themselves"),
    ]
);

fn set_header(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (is_first, value) = (cx.first, cx.template(d.arg(1))?);
    cx.conf::<Conf>().module.set_headers.add(is_first, d, value);
    Ok(())
}

/// The setter of `proxy_pass`.
fn proxy_pass(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    let template = cx.template(token)?;
    // In `if` and `limit_except` the block has no prefix of its own that a URI could take the place of.
    let is_nameless = cx.block != Context::LOCATION;
    let core = cx.conf_of::<CoreConf>();
    let is_named = core.location_text.starts_with(b"@");
    let takes_no_uri = is_nameless || core.location_is_regex || is_named;
    let location = if takes_no_uri { Arc::from(&b""[..]) } else { core.location_text.clone() };
    let passed = if template.is_literal() {
        let url = Url::parse(token.bytes()).map_err(|why| {
            let help = match token.text().split_once("://") {
                None => {
                    format!("a URL begins with its scheme: http://{}", token.text().trim_start_matches('/'))
                }
                Some(_) => {
                    "write http:// or https://, a host or an upstream block's name, and a port if need be"
                        .into()
                }
            };
            Diag::emerg(token.span, why).help(help)
        })?;
        // Refused, as in nginx: which part of the request's URI it should take the place of cannot be told.
        if !url.uri.is_empty() && takes_no_uri {
            return Err(Diag::emerg(
                d.span,
                "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, or inside \"if\" statement, or inside \"limit_except\" block",
            )
            .help("leave out what follows host and port, or build the URI with variables"));
        }
        // Names without variables are looked up now, as in nginx; one that is not known yet is a warning.
        let group = upstream::implicit(cx, token, &url.address, url.default_port())?;
        Passed::Fixed(Fixed { url, group, text: token.bytes().into() })
    } else {
        Passed::Template(Variable { template })
    };
    cx.conf::<Conf>().pass = Some(Arc::new(Pass { passed, location }));
    Ok(())
}

/// The setter of `proxy_redirect`.
fn proxy_redirect(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let is_first = cx.first;
    let before = std::mem::replace(&mut cx.conf::<Conf>().module.redirects, Redirects::Default);
    // The first rule of a block replaces what was inherited, `default` included.
    let before = if is_first { None } else { Some(before) };
    if matches!(before, Some(Redirects::Off)) {
        return Err(Diag::reason(d.span, "is duplicate"));
    }
    let rule = match d.args.as_slice() {
        [token] if token.bytes() == b"off" => {
            if before.is_some() {
                return Err(Diag::reason(d.span, "is duplicate"));
            }
            cx.conf::<Conf>().module.redirects = Redirects::Off;
            return Ok(());
        }
        [token] if token.bytes() == b"default" => {
            // The row's default is set outside any location.
            match cx.conf_of::<Conf>().pass.clone() {
                None if cx.block == Context::MAIN => return Ok(()),
                None => {
                    return Err(Diag::emerg(
                        d.span,
                        "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
                    )
                    .help("move the line below \"proxy_pass\", in the same location"));
                }
                Some(pass) => match &pass.passed {
                    Passed::Fixed(fixed) => Rewrite::default_of(fixed, &pass.location),
                    Passed::Template(_) => {
                        return Err(Diag::emerg(
                            d.span,
                            "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables",
                        )
                        .help("write what is to be replaced, and by what: proxy_redirect http://back/ /;"));
                    }
                },
            }
        }
        [token] => return Err(invalid_parameter(token)),
        [pattern, replacement, ..] => Rewrite::parse(cx, pattern, replacement)?,
        [] => unreachable!("the row's arity was checked"),
    };
    let mut rules = match before {
        Some(Redirects::Rules(rules)) => rules.to_vec(),
        _ => Vec::new(),
    };
    rules.push(rule);
    cx.conf::<Conf>().module.redirects = Redirects::Rules(Arc::new(rules));
    Ok(())
}

/// The rules of a directive that may be `off`.
fn cookie_rules<T: Clone>(
    cx: &mut Cx<'_, '_>,
    d: &Directive,
    list: fn(&mut Conf) -> &mut Arc<Vec<T>>,
    rule: Option<T>,
) -> Result<(), Diag> {
    let is_first = cx.first;
    let list = list(cx.conf::<Conf>());
    match rule {
        None if !is_first => return Err(Diag::reason(d.span, "is duplicate")),
        None => *list = Arc::default(),
        Some(rule) => {
            // After "off" the list of this block is empty although it is not the first.
            let mut rules = if is_first { Vec::new() } else { list.to_vec() };
            rules.push(rule);
            *list = Arc::new(rules);
        }
    }
    Ok(())
}

/// The setter of `proxy_cookie_domain`.
fn cookie_domain(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let rule = match d.args.as_slice() {
        [off] if off.bytes() == b"off" => None,
        [token] => return Err(invalid_parameter(token)),
        args => Some(Rewrite::for_domain(cx, &args[0], &args[1])?),
    };
    cookie_rules(cx, d, |conf| &mut conf.module.cookies.domains, rule)
}

/// The setter of `proxy_cookie_path`.
fn cookie_path(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let rule = match d.args.as_slice() {
        [off] if off.bytes() == b"off" => None,
        [token] => return Err(invalid_parameter(token)),
        args => Some(Rewrite::parse(cx, &args[0], &args[1])?),
    };
    cookie_rules(cx, d, |conf| &mut conf.module.cookies.paths, rule)
}

/// The setter of `proxy_cookie_flags`.
fn cookie_flags(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let rule = match d.args.as_slice() {
        [off] if off.bytes() == b"off" => None,
        [token] => return Err(invalid_parameter(token)),
        [name, flags @ ..] => Some(CookieFlags::parse(cx, name, flags)?),
        [] => unreachable!("the row's arity was checked"),
    };
    cookie_rules(cx, d, |conf| &mut conf.module.cookies.flags, rule)
}
