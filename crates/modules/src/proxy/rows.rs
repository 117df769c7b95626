//! The rows of `proxy_…`; those of caching and TLS stand with their modules.

use super::{Conf, cookie, pass, redirect};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use brisk_http::Version;
use brisk_server::conf::Cx;
use brisk_server::module::{Row, Set};
use brisk_server::{ignored, row};
use brisk_upstream::settings_rows;
use std::sync::Arc;

const PASS: Context = Context::LOCATION.or(Context::LOCATION_IF).or(Context::LIMIT_EXCEPT);

pub(super) static ROWS: &[Row] = settings_rows!(
    "proxy",
    Conf,
    [
        row!(
            "proxy_pass",
            PASS,
            Arity::ONE,
            D::Nothing,
            No,
            false,
            "Passes requests to an HTTP server or an upstream group: a URL that may contain variables. With a URI in it, that URI takes the place of the part of the request's that the location's prefix matches.",
            Set::Simple(pass::set)
        ),
        row!(
            "proxy_http_version",
            Context::HSL,
            Arity::ONE,
            D::Value("1.1"),
            Replace,
            false,
            "The version of HTTP that back ends are asked in: 1.0, 1.1 or 2 (with prior knowledge; over TLS it is offered by ALPN).",
            Set::Simple(|cx, d| {
                let versions = [("1.0", Version::Http10), ("1.1", Version::Http11), ("2", Version::Http2)];
                cx.conf::<Conf>().version = value::choice(d.arg(0), &versions)?;
                Ok(())
            })
        ),
        row!(
            "proxy_set_header",
            Context::HSL,
            Arity::TWO,
            D::Nothing,
            Replace,
            true,
            "Sets a field of requests to back ends, in place of the client's; a value may contain variables, an empty one removes the field. Without it Host is $proxy_host, and Connection is not passed on.",
            Set::Simple(set_header)
        ),
        row!(
            "proxy_set_body",
            Context::HSL,
            Arity::ONE,
            D::Nothing,
            Replace,
            false,
            "A body that is sent to back ends in place of the client's; may contain variables.",
            Set::Simple(|cx, d| {
                let body = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().set_body = Some(body);
                Ok(())
            })
        ),
        row!(
            "proxy_method",
            Context::HSL,
            Arity::ONE,
            D::Nothing,
            Replace,
            false,
            "The method of requests to back ends in place of the client's; may contain variables.",
            Set::Simple(|cx, d| {
                let method = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().method = Some(method);
                Ok(())
            })
        ),
        row!(
            "proxy_redirect",
            Context::HSL,
            Arity::between(1, 2),
            D::Value("default"),
            Replace,
            true,
            "Rewrites the beginning of Location and Refresh in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what. default turns what proxy_pass names into the location's prefix; off changes nothing.",
            Set::Simple(redirect::set)
        ),
        row!(
            "proxy_cookie_domain",
            Context::HSL,
            Arity::between(1, 2),
            D::Value("off"),
            Replace,
            true,
            "Rewrites the domain of cookies in answers: what to replace (a text, or a regular expression after ~) and by what; off changes nothing.",
            Set::Simple(cookie::domain)
        ),
        row!(
            "proxy_cookie_path",
            Context::HSL,
            Arity::between(1, 2),
            D::Value("off"),
            Replace,
            true,
            "Rewrites the path of cookies in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what; off changes nothing.",
            Set::Simple(cookie::path)
        ),
        row!(
            "proxy_cookie_flags",
            Context::HSL,
            Arity::between(1, 4),
            D::Value("off"),
            Replace,
            true,
            "Sets or removes flags of a cookie (a name, or a regular expression after ~): secure, httponly, samesite=strict|lax|none, and nosecure, nohttponly, nosamesite. off changes nothing.",
            Set::Simple(cookie::flags)
        ),
        row!(
            "proxy_pass_trailers",
            Context::HSL,
            Arity::ONE,
            D::Value("off"),
            Replace,
            false,
            "Whether trailer fields of answers are passed on.",
            Set::Simple(|cx, d| {
                cx.conf::<Conf>().settings.pass_trailers = value::flag(d.name(), d.arg(0))?;
                Ok(())
            })
        ),
        brisk_upstream::settings_row!("proxy", "_send_lowat", between 1 1, Value("0"), brisk_upstream::conf::send_lowat::<Conf>,
        "Accepted for compatibility; Linux has no such thing, in nginx neither."),
        ignored!(
            "proxy_headers_hash_bucket_size",
            Context::HSL,
            Arity::ONE,
            "Size of a hash bucket.",
            "hash tables size themselves"
        ),
        ignored!(
            "proxy_headers_hash_max_size",
            Context::HSL,
            Arity::ONE,
            "Size of a hash table.",
            "hash tables size themselves"
        ),
    ]
);

fn set_header(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (is_first, value) = (cx.first, cx.template(d.arg(1))?);
    cx.conf::<Conf>().set_headers.add(is_first, d, value);
    Ok(())
}
