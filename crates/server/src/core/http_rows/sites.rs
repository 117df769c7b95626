//! Blocks, and which site and location answers for what: `http`, `server`, `location`, their names and their files.

use crate::core::http_conf::{CoreConf, Satisfy};
use crate::core::{listen, location_rows, resolver, types};
use crate::module::{Row, Set};
use crate::{row, simple};
use brisk_conf::{Arity, Context, Default as D, value};

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;
const HSLI: Context = Context::HSLI;
const HTTP: Context = Context::HTTP;

pub const ROWS: &[Row] = &[
    row!(
        "http",
        Context::MAIN,
        Arity::NONE.block(),
        D::Nothing,
        Definition,
        false,
        "Holds the configuration of the HTTP server.",
        Set::Block(location_rows::http)
    ),
    row!(
        "server",
        HTTP,
        Arity::NONE.block(),
        D::Nothing,
        Definition,
        true,
        "A virtual server: addresses in listen, names in server_name.",
        Set::Block(location_rows::server)
    ),
    row!(
        "location",
        Context::SERVER.or(Context::LOCATION),
        Arity::between(1, 2).block(),
        D::Nothing,
        Definition,
        true,
        "Configuration for request URIs: a prefix, an exact URI (=), a prefix that keeps regular expressions out (^~), a regular expression (~, ~* without regard to case) or a name (@).",
        Set::Block(location_rows::location)
    ),
    row!(
        "limit_except",
        Context::LOCATION,
        Arity::SOME.block(),
        D::Nothing,
        No,
        false,
        "Directives (access rules) for all methods but the named ones. GET implies HEAD.",
        Set::Block(location_rows::limit_except)
    ),
    row!(
        "listen",
        Context::SERVER,
        Arity::SOME,
        D::Told("*:80 | *:8000"),
        Definition,
        true,
        "An address, port or unix socket on which the server answers, with socket options. Port 8000 is the default without root's rights.",
        Set::Simple(listen::set)
    ),
    row!(
        "server_name",
        Context::SERVER,
        Arity::SOME,
        D::Value("\"\""),
        Replace,
        true,
        "Names of the server: exact, with * at the start or end, or a regular expression after ~.",
        Set::Simple(location_rows::server_name)
    ),
    row!(
        "root",
        HSLI,
        Arity::ONE,
        D::Value("html"),
        Replace,
        false,
        "The folder in which files for requests are; the URI is appended. May contain variables.",
        Set::Simple(location_rows::root)
    ),
    row!(
        "alias",
        Context::LOCATION,
        Arity::ONE,
        D::Nothing,
        Replace,
        false,
        "Replaces the location's part of the URI by a path. Unlike nginx, a prefix location without final slash whose alias has one does not serve what lies beside the folder.",
        Set::Simple(location_rows::alias)
    ),
    row!(
        "types",
        HSL,
        Arity::NONE.block(),
        D::Told("text/html html; image/gif gif; image/jpeg jpg;"),
        Replace,
        true,
        "Media types by file extension.",
        Set::Simple(types::set)
    ),
    row!(
        "default_type",
        HSL,
        Arity::ONE,
        D::Value("text/plain"),
        Replace,
        false,
        "The media type of files whose extension is not in types.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().default_type = d.arg(0).bytes().into();
            Ok(())
        })
    ),
    row!(
        "internal",
        Context::LOCATION,
        Arity::NONE,
        D::Nothing,
        No,
        false,
        "The location answers only internal redirects and subrequests; others get 404.",
        Set::Simple(|cx, _| {
            cx.conf::<CoreConf>().internal = true;
            Ok(())
        })
    ),
    row!(
        "satisfy",
        HSL,
        Arity::ONE,
        D::Value("all"),
        Replace,
        false,
        "Whether all access modules must agree, or any one is enough.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().satisfy =
                value::choice(d.arg(0), &[("all", Satisfy::All), ("any", Satisfy::Any)])?;
            Ok(())
        })
    ),
    simple!(
        CoreConf,
        msec,
        "auth_delay",
        auth_delay,
        HSL,
        "0",
        "Delays answers with 401, against guessing of passwords by timing."
    ),
    row!(
        "error_page",
        HSLI,
        Arity::at_least(2),
        D::Nothing,
        Replace,
        true,
        "The URI or named location that answers for the given status codes, with =code to change the code.",
        Set::Simple(location_rows::error_page)
    ),
    row!(
        "error_log",
        HSL.or(Context::MAIN),
        Arity::SOME,
        D::Told("logs/error.log error"),
        Replace,
        true,
        "A file, stderr, memory:SIZE (the newest lines; brisk log prints them) or syslog:server=ADDRESS[,facility=…][,tag=…][,nohostname] for messages from the given level up: debug, info, notice, warn, error, crit, alert, emerg. format=json writes an object per line, format=color nginx's lines with colours for a terminal. rate=1000m/s: at most so many messages a second, more for more urgent ones; what is beyond is announced once and dropped. filter=message:TEXT, filter=logline:TEXT, filter=client:TEXT (server, request, upstream, host, referrer): only messages with the text; =TEXT is the whole value, ~TEXT a regular expression; several filters must all match.",
        Set::Simple(location_rows::error_log)
    ),
    simple!(
        CoreConf,
        flag,
        "log_not_found",
        log_not_found,
        HSL,
        "on",
        "Whether missing files are logged as errors."
    ),
    simple!(
        CoreConf,
        flag,
        "log_subrequest",
        log_subrequest,
        HSL,
        "off",
        "Whether subrequests are in the access log."
    ),
    simple!(
        CoreConf,
        flag,
        "recursive_error_pages",
        recursive_error_pages,
        HSL,
        "off",
        "Whether an error page that fails may lead to another one."
    ),
    row!(
        "post_action",
        HSLI,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "A URI or named location that is run after each request, without the client seeing it.",
        Set::Simple(|cx, d| {
            let value = (d.arg(0).str() != "off").then(|| d.arg(0).bytes().into());
            cx.conf::<CoreConf>().post_action = value;
            Ok(())
        })
    ),
    row!(
        "resolver",
        HSL,
        Arity::SOME,
        D::Nothing,
        Replace,
        false,
        "Name servers (address, with a port if it is not 53) that are asked in turn for names that are known only at run time. valid= overrides how long answers are kept; ipv4=off and ipv6=off leave out a family. All threads share one cache.",
        Set::Simple(resolver::set)
    ),
    simple!(
        CoreConf,
        msec,
        "resolver_timeout",
        resolver_timeout,
        HSL,
        "30s",
        "How long a name may take to be looked up."
    ),
    simple!(
        CoreConf,
        flag,
        "merge_slashes",
        merge_slashes,
        HS,
        "on",
        "Whether several slashes in a URI count as one."
    ),
];
