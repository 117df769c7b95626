//! Rows and setters of [`Settings`].
//!
//! One list under four prefixes: `settings_rows!` puts a module's own rows behind it, and setters are generic
//! over the module's configuration.

use crate::conf::{Bind, HasSettings, Names, Settings, Store, next};
use crate::connect;
use crate::origin::ignored;
use brisk_conf::{Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter, invalid_value};
use std::sync::Arc;
use std::time::Duration;

type Done = Result<(), Diag>;

/// `settings_rows!("fastcgi", Conf, [ …further rows… ])`: a static list of rows. `Conf` is the module's
/// [`HasSettings`](crate::conf::HasSettings).
#[macro_export]
macro_rules! settings_rows {
    ($prefix:literal, $conf:ty, [$($extra:expr),* $(,)?]) => {
        &[
            // A part of what a kept connection must match (`Key::bind`): one that was made from another address is not used.
            brisk_server::directive::directive(concat!($prefix, "_bind"))
                .doc("The local address of connections to back ends; may contain variables, off for the kernel's choice. With transparent the client's address may be used, which needs rights and routing.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::between(1, 2))
                .takes("ADDRESS [transparent] | off")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_bind 127.0.0.1;"))
                .set($crate::rows::bind::<$conf>),
            // A page, as in nginx. It bounds what a back end can make the server keep before the head is known, early hints included.
            brisk_server::directive::directive(concat!($prefix, "_buffer_size"))
                .doc("The largest response head that is accepted, and how much is read at a time where answers are not buffered.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default("4k")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_buffer_size 8k;"))
                .set($crate::rows::buffer_size::<$conf>),
            // On: a back end's process is free as soon as it has answered, however slow the client is, which is what a proxy in front of it is for.
            brisk_server::directive::directive(concat!($prefix, "_buffering"))
                .doc("Whether an answer is read ahead of a slow client, into buffers and a temporary file. Otherwise the back end can send only as fast as the client reads. X-Accel-Buffering changes it for an answer.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("on")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_buffering off;"))
                .sets($crate::rows::buffering::<$conf>),
            // Both numbers are kept as they were written, since nginx's checks of them are made, too (`Settings::check`).
            brisk_server::directive::directive(concat!($prefix, "_buffers"))
                .doc("Number and size of buffers for an answer that is read ahead; only their product matters.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::TWO)
                .takes("NUMBER SIZE")
                .default("8 4k")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_buffers 8 16k;"))
                .set($crate::rows::buffers::<$conf>),
            // Kept for the check alone, so that a file that nginx accepts is accepted and one that it refuses
            // is refused.
            brisk_server::directive::directive(concat!($prefix, "_busy_buffers_size"))
                .doc("Checked as nginx does; what is on its way to the client is at most one piece at a time.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default_told("twice the larger buffer")
                .risk(brisk_conf::Risk::Safe)
                .example(concat!($prefix, "_busy_buffers_size 16k;"))
                .set($crate::rows::busy_buffers_size::<$conf>),
            // Linux gives up by itself after about two minutes (tcp_syn_retries), so more than that means nothing.
            brisk_server::directive::directive(concat!($prefix, "_connect_timeout"))
                .doc("The longest time to connect.")
                .in_(brisk_conf::Context::HSL)
                .takes_time()
                .default("60s")
                .example(concat!($prefix, "_connect_timeout 5s;"))
                .sets($crate::rows::connect_timeout::<$conf>),
            // Off: parts of an answer that is made anew for each request need not fit together.
            brisk_server::directive::directive(concat!($prefix, "_force_ranges"))
                .doc("Whether ranges are cut out of answers whatever Accept-Ranges says.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("off")
                .example(concat!($prefix, "_force_ranges on;"))
                .sets($crate::rows::force_ranges::<$conf>),
            // A row that adds up: a field named in an outer block and another one in an inner block are not both hidden. As in nginx the first
            // one of a block ends what was inherited.
            brisk_server::directive::directive(concat!($prefix, "_hide_header"))
                .doc("A field of answers that is not passed on.")
                .in_(brisk_conf::Context::HSL)
                .takes("FIELD")
                .many()
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_hide_header X-Powered-By;"))
                .set($crate::rows::hide_header::<$conf>),
            // Off: the answer is not wanted any more, and a back end that notices may stop working. With a cache the answer is wanted.
            brisk_server::directive::directive(concat!($prefix, "_ignore_client_abort"))
                .doc("Whether a request goes on when its client has left.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("off")
                .example(concat!($prefix, "_ignore_client_abort on;"))
                .sets($crate::rows::ignore_client_abort::<$conf>),
            // A security matter: without `Set-Cookie` in the way a cache stores the answer that logs one user in.
            brisk_server::directive::directive(concat!($prefix, "_ignore_headers"))
                .doc("Fields of answers that are passed on but not obeyed: X-Accel-…, Expires, Cache-Control, Set-Cookie, Vary.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::SOME)
                .takes("FIELD ...")
                .many()
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_ignore_headers Set-Cookie Cache-Control;"))
                .set($crate::rows::ignore_headers::<$conf>),
            // Off: what an application says of its own errors is better than what this server knows of them.
            brisk_server::directive::directive(concat!($prefix, "_intercept_errors"))
                .doc("Whether error_page applies to what back ends answer.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("off")
                .example(concat!($prefix, "_intercept_errors on;"))
                .sets($crate::rows::intercept_errors::<$conf>),
            // Of the reading: the client's rate is `limit_rate`. Only with buffering do the two differ.
            brisk_server::directive::directive(concat!($prefix, "_limit_rate"))
                .doc("Bytes per second that are read of an answer; 0: no limit. May contain variables.")
                .in_(brisk_conf::Context::HSL)
                .takes("RATE")
                .default("0")
                .example(concat!($prefix, "_limit_rate 1m;"))
                .set($crate::rows::limit_rate::<$conf>),
            // A gigabyte, as in nginx: a download that a slow client takes for an hour must not occupy a back end for as long.
            brisk_server::directive::directive(concat!($prefix, "_max_temp_file_size"))
                .doc("How much of an answer may wait in a temporary file; 0: nothing, what does not fit into the buffers waits at the back end.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default_told("1024m")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_max_temp_file_size 0;"))
                .set($crate::rows::max_temp_file_size::<$conf>),
            // Not after a head has come and left for the client: what was sent cannot be taken back.
            brisk_server::directive::directive(concat!($prefix, "_next_upstream"))
                .doc("When a request is passed to the next server: error, timeout, invalid_header, http_403, http_404, http_429, http_500, http_502, http_503, http_504, non_idempotent (also POST, LOCK and PATCH that were sent already), off.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::SOME)
                .takes("error | timeout | invalid_header | http_500 | http_502 | http_503 | http_504 | http_403 | http_404 | http_429 | non_idempotent | off ...")
                .default("error timeout")
                .many()
                .example(concat!($prefix, "_next_upstream error timeout http_503;"))
                .set($crate::rows::next_upstream::<$conf>),
            // Looked at when an attempt has failed: one that is under way is not cut off by it.
            brisk_server::directive::directive(concat!($prefix, "_next_upstream_timeout"))
                .doc("How long a request may be passed on to further servers; 0: no limit.")
                .in_(brisk_conf::Context::HSL)
                .takes_time()
                .default("0")
                .example(concat!($prefix, "_next_upstream_timeout 10s;"))
                .sets($crate::rows::next_upstream_timeout::<$conf>),
            // 0 means every peer once: also without a limit no peer is asked twice in a round.
            brisk_server::directive::directive(concat!($prefix, "_next_upstream_tries"))
                .doc("How many servers are tried; 0: all.")
                .in_(brisk_conf::Context::HSL)
                .takes_number()
                .unit("servers")
                .default("0")
                .example(concat!($prefix, "_next_upstream_tries 2;"))
                .sets($crate::rows::next_upstream_tries::<$conf>),
            // For fields of the module's own list (`hidden`), which are meant for this server.
            brisk_server::directive::directive(concat!($prefix, "_pass_header"))
                .doc("A field of answers that is passed on although it usually is not.")
                .in_(brisk_conf::Context::HSL)
                .takes("FIELD")
                .many()
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_pass_header X-Accel-Redirect;"))
                .set($crate::rows::pass_header::<$conf>),
            // The length is then not told either: with kept connections the next request would be taken for the body.
            brisk_server::directive::directive(concat!($prefix, "_pass_request_body"))
                .doc("Whether back ends get the request's body.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("on")
                .example(concat!($prefix, "_pass_request_body off;"))
                .sets($crate::rows::pass_request_body::<$conf>),
            // Off leaves only what `*_set_header` names: a back end that must not see cookies gets none by
            // accident.
            brisk_server::directive::directive(concat!($prefix, "_pass_request_headers"))
                .doc("Whether back ends get the request's header.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("on")
                .example(concat!($prefix, "_pass_request_headers off;"))
                .sets($crate::rows::pass_request_headers::<$conf>),
            // Between two reads, so that an answer that trickles for hours is no error while it moves.
            brisk_server::directive::directive(concat!($prefix, "_read_timeout"))
                .doc("The longest time between two reads of an answer.")
                .in_(brisk_conf::Context::HSL)
                .takes_time()
                .default("60s")
                .example(concat!($prefix, "_read_timeout 30s;"))
                .sets($crate::rows::read_timeout::<$conf>),
            // On: a back end is not occupied by a client that sends slowly, and another peer can be asked with the same body.
            brisk_server::directive::directive(concat!($prefix, "_request_buffering"))
                .doc("Whether a request's body is read as a whole before a back end is asked. Otherwise it is passed on as it comes, and cannot be sent to a second server once it was begun.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("on")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_request_buffering off;"))
                .sets($crate::rows::request_buffering::<$conf>),
            // Between two writes that take something. Time does not run while the client has not sent what is to be written.
            brisk_server::directive::directive(concat!($prefix, "_send_timeout"))
                .doc("The longest time between two writes of a request.")
                .in_(brisk_conf::Context::HSL)
                .takes_time()
                .default("60s")
                .example(concat!($prefix, "_send_timeout 30s;"))
                .sets($crate::rows::send_timeout::<$conf>),
            // The kernel's probes, for idle connections through firewalls that forget them; HTTP's keep-alive is the group's `keepalive`.
            brisk_server::directive::directive(concat!($prefix, "_socket_keepalive"))
                .doc("Whether connections to back ends use TCP's keepalive.")
                .in_(brisk_conf::Context::HSL)
                .takes_flag()
                .default("off")
                .risk(brisk_conf::Risk::Safe)
                .example(concat!($prefix, "_socket_keepalive on;"))
                .sets($crate::rows::socket_keepalive::<$conf>),
            // The kernel doubles what is asked for and bounds it by `net.core.rmem_max` (socket(7)),
            // silently.
            brisk_server::directive::directive(concat!($prefix, "_socket_rcvbuf"))
                .doc("The receive buffer of connections to back ends; 0: the kernel's choice.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default("0")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_socket_rcvbuf 256k;"))
                .sets($crate::rows::socket_rcvbuf::<$conf>),
            brisk_server::directive::directive(concat!($prefix, "_socket_sndbuf"))
                .doc("The send buffer of connections to back ends; 0: the kernel's choice.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default("0")
                .risk(brisk_conf::Risk::Resource)
                .example(concat!($prefix, "_socket_sndbuf 256k;"))
                .sets($crate::rows::socket_sndbuf::<$conf>),
            // A security matter: the path may have variables, and clients choose those.
            brisk_server::directive::directive(concat!($prefix, "_store"))
                .doc("Saves answers of status 200 as files: on (where root or alias puts the URI) or a path with variables.")
                .in_(brisk_conf::Context::HSL)
                .takes("on | off | PATH")
                .default("off")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_store /srv/copy$uri;"))
                .set($crate::rows::store::<$conf>),
            // Rights are set before the file has its name, so nobody reads it with others.
            brisk_server::directive::directive(concat!($prefix, "_store_access"))
                .doc("Rights of saved files: user:, group: and all: with r or rw.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::between(1, 3))
                .takes("user:RIGHTS [group:RIGHTS] [all:RIGHTS]")
                .default("user:rw")
                .risk(brisk_conf::Risk::Security)
                .example(concat!($prefix, "_store_access user:rw group:rw all:r;"))
                .set($crate::rows::store_access::<$conf>),
            // Each write is a job of the thread pool, and costs the same however little it moves.
            brisk_server::directive::directive(concat!($prefix, "_temp_file_write_size"))
                .doc("How much is written to the temporary file at a time.")
                .in_(brisk_conf::Context::HSL)
                .takes_size()
                .default_told("twice the larger buffer")
                .risk(brisk_conf::Risk::Safe)
                .example(concat!($prefix, "_temp_file_write_size 64k;"))
                .set($crate::rows::temp_file_write_size::<$conf>),
            // Two levels by default: a folder with a hundred thousand files is slow on many file systems.
            brisk_server::directive::directive(concat!($prefix, "_temp_path"))
                .doc("The folder of temporary files, and up to three levels of folders in it.")
                .in_(brisk_conf::Context::HSL)
                .arity(brisk_conf::Arity::between(1, 4))
                .takes("DIR [LEVEL [LEVEL [LEVEL]]]")
                .default_told(concat!($prefix, "_temp 1 2"))
                .example(concat!($prefix, "_temp_path /var/lib/brisk/temp 1 2;"))
                .set($crate::rows::temp_path::<$conf>),
            $($extra),*
        ]
    };
}

/// Setters that do nothing but write a field of the same name.
macro_rules! setters {
    ($($name:ident: $type:ty,)*) => {
        $(
            /// The setter of the directive with this name.
            pub fn $name<C: HasSettings>(cx: &mut Cx<'_, '_>, value: $type) {
                cx.conf::<C>().settings().$name = value;
            }
        )*
    };
}

// The type and range of each are checked by its row, so there is nothing to refuse here.
setters! {
    buffering: bool,
    connect_timeout: Duration,
    force_ranges: bool,
    ignore_client_abort: bool,
    intercept_errors: bool,
    next_upstream_timeout: Duration,
    next_upstream_tries: u64,
    pass_request_body: bool,
    pass_request_headers: bool,
    read_timeout: Duration,
    request_buffering: bool,
    send_timeout: Duration,
    socket_keepalive: bool,
    socket_rcvbuf: u64,
    socket_sndbuf: u64,
}

/// The same for sizes that are held against each other: errors show the one that was written last.
macro_rules! sizes {
    ($($name:ident = $value:expr;)*) => {
        $(
            /// The setter of the directive with this name.
            pub fn $name<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
                let value: fn(u64) -> _ = $value;
                let settings = cx.conf::<C>().settings();
                settings.$name = value(value::size(d.arg(0))?);
                settings.sizes_at = Some(d.arg(0).span);
                Ok(())
            }
        )*
    };
}

sizes! {
    buffer_size = |bytes| bytes;
    busy_buffers_size = Some;
    max_temp_file_size = Some;
    temp_file_write_size = Some;
}

/// `*_bind ADDRESS [transparent]`.
pub fn bind<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let transparent = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"transparent" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    if transparent {
        // Workers keep CAP_NET_RAW when they give up root: without it IP_TRANSPARENT is refused.
        cx.uses_raw_sockets();
    }
    let token = d.arg(0);
    // `off transparent` is an address named off, as in nginx, and refused as such.
    let bind = if token.bytes() == b"off" && d.args.len() == 1 {
        None
    } else {
        let address = cx.template(token)?;
        // What variables come to is read per request; a mistake there is logged and the kernel chooses.
        if address.is_literal() && connect::local_address(token.bytes()).is_none() {
            return Err(Diag::emerg(token.span, format!("invalid address \"{}\"", token.text()))
                .help("write an address with or without a port; names are not resolved here"));
        }
        Some(Arc::new(Bind { address, transparent }))
    };
    cx.conf::<C>().settings().bind = bind;
    Ok(())
}

/// `*_buffers NUMBER SIZE`.
pub fn buffers<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    // Buffers without room would never fill: the answer would stay where it is.
    let count = value::number(d.arg(0)).ok().filter(|&count| count > 0);
    let size = value::size(d.arg(1)).ok().filter(|&size| size > 0);
    let (Some(count), Some(size)) = (count, size) else {
        return Err(Diag::reason(d.span, "invalid value")
            .help("write a number of buffers and their size, such as 8 4k"));
    };
    let settings = cx.conf::<C>().settings();
    settings.buffers = (count, size);
    settings.sizes_at = Some(d.arg(0).span);
    Ok(())
}

/// `*_send_lowat SIZE`.
pub fn send_lowat<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    // As nginx does where it lacks SO_SNDLOWAT (ngx_http_proxy_lowat_check); the kernel refuses to set it (socket(7)).
    if value::size(d.arg(0))? > 0 {
        let text = format!("\"{}\" has no effect: Linux does not have it", d.name());
        cx.warn(Diag::notice(d.arg(0).span, text).help("leave it out"));
    }
    Ok(())
}

/// `*_limit_rate`.
pub fn limit_rate<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    // A literal is read now, so that a typing error is found by `-t`; a variable is read for each request.
    let template = cx.template(d.arg(0))?;
    // 0 is no rate: the location then reads as one without the directive does.
    let is_off = template.is_literal() && value::size(d.arg(0))? == 0;
    let rate = (!is_off).then(|| Arc::new(template));
    cx.conf::<C>().settings().limit_rate = rate;
    Ok(())
}

fn name_in<C: HasSettings>(cx: &mut Cx<'_, '_>, token: &Token, list: fn(&mut Settings) -> &mut Names) {
    let first = cx.first;
    let list = Arc::make_mut(list(cx.conf::<C>().settings()));
    if first {
        // A block that names fields has only these, as in nginx.
        list.clear();
    }
    // In lower case once, instead of for each field of each answer.
    list.push(token.bytes().to_ascii_lowercase().into());
}

/// `*_hide_header`.
pub fn hide_header<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    name_in::<C>(cx, d.arg(0), |settings| &mut settings.hide);
    Ok(())
}

/// `*_pass_header`.
pub fn pass_header<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    name_in::<C>(cx, d.arg(0), |settings| &mut settings.pass);
    Ok(())
}

/// nginx's list: fields that this server obeys, and by which a cache decides.
const IGNORED: &[(&str, u32)] = &[
    ("X-Accel-Redirect", ignored::X_ACCEL_REDIRECT),
    ("X-Accel-Expires", ignored::X_ACCEL_EXPIRES),
    ("X-Accel-Limit-Rate", ignored::X_ACCEL_LIMIT_RATE),
    ("X-Accel-Buffering", ignored::X_ACCEL_BUFFERING),
    ("X-Accel-Charset", ignored::X_ACCEL_CHARSET),
    ("Expires", ignored::EXPIRES),
    ("Cache-Control", ignored::CACHE_CONTROL),
    ("Set-Cookie", ignored::SET_COOKIE),
    ("Vary", ignored::VARY),
];

/// `*_ignore_headers`.
pub fn ignore_headers<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let before = cx.conf::<C>().settings().ignore_headers;
    let set = cx.bits(d, IGNORED, before)?;
    cx.conf::<C>().settings().ignore_headers = set;
    Ok(())
}

/// `*_next_upstream`.
pub fn next_upstream<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    // `off` wins over all other words, wherever it stands: a bit that no condition has.
    const OFF: u32 = 1 << 31;
    let words = [
        ("error", next::ERROR),
        ("timeout", next::TIMEOUT),
        ("invalid_header", next::INVALID_HEADER),
        ("non_idempotent", next::NON_IDEMPOTENT),
        ("http_500", next::HTTP_500),
        ("http_502", next::HTTP_502),
        ("http_503", next::HTTP_503),
        ("http_504", next::HTTP_504),
        ("http_403", next::HTTP_403),
        ("http_404", next::HTTP_404),
        ("http_429", next::HTTP_429),
        ("off", OFF),
    ];
    // Words add up over a block's lines; what was inherited goes with the first line (`Cx::bits`).
    let before = cx.conf::<C>().settings().next_upstream;
    let set = cx.bits(d, &words, before)?;
    cx.conf::<C>().settings().next_upstream = if set & OFF == 0 { set } else { OFF };
    Ok(())
}

/// `*_store on|off|PATH`.
pub fn store<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let store = match d.arg(0).bytes() {
        b"off" => Store::Off,
        b"on" => Store::On,
        // It would be the folder that the server was started in.
        b"" => return Err(Diag::emerg(d.arg(0).span, "empty path")),
        _ => Store::Path(Arc::new(cx.template(d.arg(0))?)),
    };
    cx.conf::<C>().settings().store = store;
    Ok(())
}

/// `*_store_access user:rw group:r …`.
pub fn store_access<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    cx.conf::<C>().settings().store_access = access(d)?;
    Ok(())
}

/// The rights that `user:rw group:r all:r` stand for; without a word about the user it may read and write.
/// Also for `dav_access`.
pub fn access(d: &Directive) -> Result<u32, Diag> {
    let mut rights = 0;
    // nginx's rule: the user keeps both rights unless a word is about the user.
    let mut user = 0o600;
    for token in &d.args {
        let bad = || invalid_value(d, token, "user:, group: or all: with r or rw");
        let (who, what) = token.str().split_once(':').ok_or_else(bad)?;
        let shift = match who {
            "user" => 6,
            "group" => 3,
            "all" => 0,
            _ => return Err(bad()),
        };
        // A word about the user is all that the user gets.
        if shift == 6 {
            user = 0;
        }
        rights |= match what {
            "rw" => 6u32,
            "r" => 4,
            _ => return Err(bad()),
        } << shift;
    }
    Ok(rights | user)
}

/// `*_temp_path PATH [LEVEL…]`.
pub fn temp_path<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    cx.conf::<C>().settings().temp_path = Some(cx.temp_path(d)?);
    Ok(())
}
