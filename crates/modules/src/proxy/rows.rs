//! The rows of `proxy_…`; those of caching and TLS stand with their modules.

use super::{Conf, cookie, pass, redirect};
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_http::Version;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;

use brisk_upstream::settings_rows;
use std::sync::Arc;

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
            .set(pass::set),
        directive("proxy_http_version")
            .doc("The version of HTTP that back ends are asked in: 1.0, 1.1 or 2 (with prior knowledge; over TLS it is offered by ALPN).")
            .in_(Context::HSL)
            .takes_one_of(&HTTP_VERSIONS)
            .default("1.1")
            .example("proxy_http_version 1.1;")
            .set(|cx, d| {
                cx.conf::<Conf>().version = value::choice(d.arg(0), &HTTP_VERSIONS)?;
                Ok(())
            }),
        directive("proxy_set_header")
            .doc("Sets a field of requests to back ends, in place of the client's; a value may contain variables, an empty one removes the field. Without it Host is $proxy_host, and Connection is not passed on.")
            .in_(Context::HSL)
            .arity(Arity::TWO)
            .takes("FIELD VALUE")
            .many()
            .example("proxy_set_header Host $host;")
            .set(set_header),
        directive("proxy_set_body")
            .doc("A body that is sent to back ends in place of the client's; may contain variables.")
            .in_(Context::HSL)
            .takes("VALUE")
            .example("proxy_set_body $request_body;")
            .set(|cx, d| {
                let body = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().set_body = Some(body);
                Ok(())
            }),
        directive("proxy_method")
            .doc("The method of requests to back ends in place of the client's; may contain variables.")
            .in_(Context::HSL)
            .takes("METHOD")
            .example("proxy_method POST;")
            .set(|cx, d| {
                let method = Arc::new(cx.template(d.arg(0))?);
                cx.conf::<Conf>().method = Some(method);
                Ok(())
            }),
        directive("proxy_redirect")
            .doc("Rewrites the beginning of Location and Refresh in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what. default turns what proxy_pass names into the location's prefix; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("default | off | TEXT TEXT | ~REGEX TEXT")
            .default("default")
            .many()
            .example("proxy_redirect http://localhost:8000/ /;")
            .set(redirect::set),
        directive("proxy_cookie_domain")
            .doc("Rewrites the domain of cookies in answers: what to replace (a text, or a regular expression after ~) and by what; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("off | TEXT TEXT | ~REGEX TEXT")
            .default("off")
            .many()
            .example("proxy_cookie_domain localhost example.com;")
            .set(cookie::domain),
        directive("proxy_cookie_path")
            .doc("Rewrites the path of cookies in answers: what to replace (a text, or a regular expression after ~ or ~*) and by what; off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 2))
            .takes("off | TEXT TEXT | ~REGEX TEXT")
            .default("off")
            .many()
            .example("proxy_cookie_path /app/ /;")
            .set(cookie::path),
        directive("proxy_cookie_flags")
            .doc("Sets or removes flags of a cookie (a name, or a regular expression after ~): secure, httponly, samesite=strict|lax|none, and nosecure, nohttponly, nosamesite. off changes nothing.")
            .in_(Context::HSL)
            .arity(Arity::between(1, 4))
            .takes("off | COOKIE [secure | nosecure | httponly | nohttponly | samesite=strict | samesite=lax | samesite=none | nosamesite ...]")
            .default("off")
            .many()
            .risk(Risk::Security)
            .example("proxy_cookie_flags ~ secure httponly samesite=lax;")
            .set(cookie::flags),
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
    cx.conf::<Conf>().set_headers.add(is_first, d, value);
    Ok(())
}
