//! Blocks, and which site and location answers for what: `http`, `server`, `location`, their names and their files.

use crate::core::http_conf::{CoreConf, Satisfy};
use crate::core::{listen, location_rows, resolver, types};
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Risk, value};

const HSL: Context = Context::HSL;
const HS: Context = Context::HS;
const HSLI: Context = Context::HSLI;
const HTTP: Context = Context::HTTP;

/// The words of `satisfy`.
const SATISFY: [(&str, Satisfy); 2] = [("all", Satisfy::All), ("any", Satisfy::Any)];

/// Rows about servers and locations.
pub const ROWS: &[Row] = &[
    // No value of its own: what stands in it is carried out as part of the same block (`Cx::block_here`).
    directive("http")
        .doc("Holds the configuration of the HTTP server.")
        .in_(Context::MAIN)
        .arity(Arity::NONE.block())
        .definition()
        .example("http { include conf.d/*.conf; }")
        .block(location_rows::http),
    // Each has a number by its place in the text. The first one of an address answers for names that no
    // server has.
    directive("server")
        .doc("A virtual server: addresses in listen, names in server_name.")
        .in_(HTTP)
        .arity(Arity::NONE.block())
        .many()
        .definition()
        .example("server { listen 80; server_name example.com; root /srv/www; }")
        .block(location_rows::server),
    // Prefixes count by length and not by order; regular expressions count in the order of the text, and only where the longest
    // prefix has not kept them out with ^~ (`location.rs`).
    directive("location")
        .doc("Configuration for request URIs: a prefix, an exact URI (=), a prefix that keeps regular expressions out (^~), a regular expression (~, ~* without regard to case) or a name (@).")
        .in_(Context::SERVER.or(Context::LOCATION))
        .arity(Arity::between(1, 2).block())
        .takes("[= | ~ | ~* | ^~] URI | @NAME")
        .many()
        .definition()
        .example("location ~* \\.(gif|jpe?g|png)$ { expires 30d; }")
        .block(location_rows::location),
    // Not inherited, as in nginx: a location inside has only limits of its own. What the block says of access holds for all
    // methods that are not named, HEAD excepted where GET is (RFC 9110 §9.3.2).
    directive("limit_except")
        .doc("Directives (access rules) for all methods but the named ones. GET implies HEAD.")
        .in_(Context::LOCATION)
        .arity(Arity::SOME.block())
        .takes("METHOD ...")
        .not_inherited()
        .risk(Risk::Security)
        .example("limit_except GET { deny all; }")
        .block(location_rows::limit_except),
    // Several are one list and no contradiction: addresses are put together when all servers are known (`listen::resolve`),
    // since a default server or an option of a socket may stand in a server further down.
    directive("listen")
        .doc("An address, port or unix socket on which the server answers, with socket options. Port 8000 is the default without root's rights.")
        .in_(Context::SERVER)
        .arity(Arity::SOME)
        .takes("ADDRESS[:PORT] | PORT | unix:PATH [default_server] [ssl] [proxy_protocol] [setfib=NUMBER] [fastopen=NUMBER] [backlog=NUMBER] [rcvbuf=SIZE] [sndbuf=SIZE] [deferred] [bind] [ipv6only=on|off] [reuseport] [so_keepalive=on|off|[IDLE]:[INTERVAL]:[COUNT]]")
        .default_told("*:80 | *:8000")
        .many()
        .definition()
        .risk(Risk::Security)
        .example("listen 80 default_server;")
        .set(listen::set),
    // The row's default is the empty name, which matches requests without a `Host`. Such a server is also what a name leads to
    // that no server has, if it is the first of its address.
    directive("server_name")
        .doc("Names of the server: exact, with * at the start or end, or a regular expression after ~.")
        .in_(Context::SERVER)
        .arity(Arity::SOME)
        .takes("NAME ...")
        .default("\"\"")
        .many()
        .example("server_name example.com *.example.com ~^www\\d+\\.example\\.com$;")
        .set(location_rows::server_name),
    // Inherited by `if` and nested locations, unlike `alias`, which belongs to the text of its own location.
    directive("root")
        .doc("The folder in which files for requests are; the URI is appended. May contain variables.")
        .in_(HSLI)
        .takes("PATH")
        .default("html")
        .risk(Risk::Security)
        .example("root /srv/www/$host;")
        .set(location_rows::root),
    // The check for a missing slash is made when a request is mapped (`path.rs`): `location /img { alias /srv/img/; }` would let
    // `/img../secret` out of the folder.
    directive("alias")
        .doc("Replaces the location's part of the URI by a path. Unlike nginx, a prefix location without final slash whose alias has one does not serve what lies beside the folder.")
        .in_(Context::LOCATION)
        .takes("PATH")
        .risk(Risk::Security)
        .example("alias /srv/images/;")
        .set(location_rows::alias),
    // The first block of a level replaces what was inherited, further ones add to it: nginx's rule for lists.
    directive("types")
        .doc("Media types by file extension.")
        .in_(HSL)
        .arity(Arity::NONE.block())
        .default_told("text/html html; image/gif gif; image/jpeg jpg;")
        .many()
        .example("types { text/html html htm; image/avif avif; }")
        .set(types::set),
    // nginx's default. It is also the type of what `return` sends, so that text of a configuration is shown as text.
    directive("default_type")
        .doc("The media type of files whose extension is not in types.")
        .in_(HSL)
        .takes("TYPE")
        .default("text/plain")
        .example("default_type application/octet-stream;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().default_type = d.arg(0).bytes().into();
            Ok(())
        }),
    // Inherited, as nginx merges it. 404 and not 403: a client is not told that there is something.
    directive("internal")
        .doc("The location answers only internal redirects and subrequests; others get 404.")
        .in_(Context::LOCATION)
        .arity(Arity::NONE)
        .risk(Risk::Security)
        .example("internal;")
        .set(|cx, _| {
            cx.conf::<CoreConf>().internal = true;
            Ok(())
        }),
    // Decides among the handlers of the access phase only. Preaccess (`limit_req`, `limit_conn`) has been passed by then and cannot be
    // overruled by a password.
    directive("satisfy")
        .doc("Whether all access modules must agree, or any one is enough.")
        .in_(HSL)
        .takes_one_of(&SATISFY)
        .default("all")
        .risk(Risk::Security)
        .example("satisfy any;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().satisfy =
                value::choice(d.arg(0), &SATISFY)?;
            Ok(())
        }),
    // The answer is held back, not the check: how long that has taken would tell a guesser which names exist.
    directive("auth_delay")
        .doc("Delays answers with 401, against guessing of passwords by timing.")
        .in_(HSL)
        .takes_time()
        .default("0")
        .risk(Risk::Security)
        .example("auth_delay 1s;")
        .sets(|cx, time| cx.conf::<CoreConf>().auth_delay = time),
    // Several add up within a block; the first of a block ends what was inherited. The codes of one directive share its target.
    directive("error_page")
        .doc("The URI or named location that answers for the given status codes, with =code to change the code.")
        .in_(HSLI)
        .arity(Arity::at_least(2))
        .takes("CODE ... [=[CODE]] URI")
        .many()
        .example("error_page 500 502 503 504 /50x.html;")
        .set(location_rows::error_page),
    // In `main`, too, where the master and everything without a request writes. Each log of the list gets the messages of its own level.
    directive("error_log")
        .doc("A file, stderr, memory:SIZE (the newest lines; brisk log prints them) or syslog:server=ADDRESS[,facility=…][,tag=…][,nohostname] for messages from the given level up: debug, info, notice, warn, error, crit, alert, emerg. format=json writes an object per line, format=color nginx's lines with colours for a terminal. rate=1000m/s: at most so many messages a second, more for more urgent ones; what is beyond is announced once and dropped. filter=message:TEXT, filter=logline:TEXT, filter=client:TEXT (server, request, upstream, host, referrer): only messages with the text; =TEXT is the whole value, ~TEXT a regular expression; several filters must all match.")
        .in_(HSL.or(Context::MAIN).or(Context::STREAM).or(Context::STREAM_SERVER))
        .arity(Arity::SOME)
        .takes("FILE | stderr | memory:SIZE | syslog:server=ADDRESS[,facility=NAME][,tag=NAME][,nohostname] [debug | info | notice | warn | error | crit | alert | emerg] [format=json | format=color]")
        .default_told("logs/error.log error")
        .many()
        .example("error_log /var/log/brisk/error.log warn;")
        .set(location_rows::error_log),
    // Only a matter of the log: the client's answer is the same, so no change of it can be harmful.
    directive("log_not_found")
        .doc("Whether missing files are logged as errors.")
        .in_(HSL)
        .takes_flag()
        .default("on")
        .risk(Risk::Safe)
        .example("log_not_found off;")
        .sets(|cx, on| cx.conf::<CoreConf>().log_not_found = on),
    // Off: a page with many includes would have a line for each of them.
    directive("log_subrequest")
        .doc("Whether subrequests are in the access log.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("log_subrequest on;")
        .sets(|cx, on| cx.conf::<CoreConf>().log_subrequest = on),
    // Off keeps a page that fails from leading to another one for ever; where it is on, the budget of URI changes ends that.
    directive("recursive_error_pages")
        .doc("Whether an error page that fails may lead to another one.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("recursive_error_pages on;")
        .sets(|cx, on| cx.conf::<CoreConf>().recursive_error_pages = on),
    // Undocumented in nginx, and kept since configurations that account for downloads use it. What it answers is thrown away.
    directive("post_action")
        .doc("A URI or named location that is run after each request, without the client seeing it.")
        .in_(HSLI)
        .takes("URI | off")
        .default("off")
        .example("post_action @count;")
        .set(|cx, d| {
            let value = (d.arg(0).str() != "off").then(|| d.arg(0).bytes().into());
            cx.conf::<CoreConf>().post_action = value;
            Ok(())
        }),
    // A security matter: the server that answers for a name decides where requests with their cookies and passwords go.
    directive("resolver")
        .doc("Name servers (address, with a port if it is not 53) that are asked in turn for names that are known only at run time. valid= overrides how long answers are kept; ipv4=off and ipv6=off leave out a family. All threads share one cache.")
        .in_(HSL.or(Context::STREAM).or(Context::STREAM_SERVER))
        .arity(Arity::SOME)
        .takes("ADDRESS[:PORT] ... [valid=TIME] [ipv4=on|off] [ipv6=on|off]")
        .risk(Risk::Security)
        .example("resolver 127.0.0.53 valid=30s;")
        .set(resolver::set),
    // For the whole look-up, all servers that are asked included.
    directive("resolver_timeout")
        .doc("How long a name may take to be looked up.")
        .in_(HSL.or(Context::STREAM).or(Context::STREAM_SERVER))
        .takes_time()
        .default("30s")
        .example("resolver_timeout 5s;")
        .sets(|cx, time| cx.conf::<CoreConf>().resolver_timeout = time),
    // In the server, as the URI is normalised before a location is known. Rules of access are written for one slash: with `off` `//admin`
    // is another URI than `/admin`, while most back ends take both for the same.
    directive("merge_slashes")
        .doc("Whether several slashes in a URI count as one.")
        .in_(HS)
        .takes_flag()
        .default("on")
        .risk(Risk::Security)
        .example("merge_slashes off;")
        .sets(|cx, on| cx.conf::<CoreConf>().merge_slashes = on),
];
