//! Rows and setters of [`Settings`](super::Settings).

use super::{Bind, HasSettings, Store, next};
use crate::origin::ignored;
use brisk_conf::{Diag, Directive, Token, value};
use brisk_server::conf::{Cx, invalid_parameter, invalid_value};
use brisk_server::core::TempPath;
use std::sync::Arc;

type Done = Result<(), Diag>;

/// `settings_rows!("fastcgi", Conf, [ …further rows… ])`: a static list of rows. `Conf` is the module's
/// [`HasSettings`](crate::conf::HasSettings).
#[macro_export]
macro_rules! settings_rows {
    ($prefix:literal, $conf:ty, [$($extra:expr),* $(,)?]) => {
        &[
            $crate::settings_row!($prefix, "_bind", between 1 2, Nothing, $crate::conf::bind::<$conf>,
                "The local address of connections to back ends; may contain variables, off for the kernel's choice. With transparent the client's address may be used, which needs rights and routing."),
            $crate::settings_row!($prefix, "_buffer_size", between 1 1, Value("4k"), $crate::conf::buffer_size::<$conf>,
                "The largest response head that is accepted, and how much is read at a time where answers are not buffered."),
            $crate::settings_row!($prefix, "_buffering", between 1 1, Value("on"), $crate::conf::buffering::<$conf>,
                "Whether an answer is read ahead of a slow client, into buffers and a temporary file. Otherwise the back end is as slow as the client. X-Accel-Buffering changes it for an answer."),
            $crate::settings_row!($prefix, "_buffers", between 2 2, Value("8 4k"), $crate::conf::buffers::<$conf>,
                "Number and size of buffers for an answer that is read ahead; only their product matters."),
            $crate::settings_row!($prefix, "_busy_buffers_size", between 1 1, Told("twice the larger buffer"), $crate::conf::busy_buffers_size::<$conf>,
                "Checked as nginx does; what is on its way to the client is at most one piece at a time."),
            $crate::settings_row!($prefix, "_connect_timeout", between 1 1, Value("60s"), $crate::conf::connect_timeout::<$conf>,
                "The longest time to connect."),
            $crate::settings_row!($prefix, "_force_ranges", between 1 1, Value("off"), $crate::conf::force_ranges::<$conf>,
                "Whether ranges are cut out of answers whatever Accept-Ranges says."),
            $crate::settings_row!($prefix, "_hide_header", many 1 1, Nothing, $crate::conf::hide_header::<$conf>,
                "A field of answers that is not passed on."),
            $crate::settings_row!($prefix, "_ignore_client_abort", between 1 1, Value("off"), $crate::conf::ignore_client_abort::<$conf>,
                "Whether a request goes on when its client has left."),
            $crate::settings_row!($prefix, "_ignore_headers", many 1 255, Nothing, $crate::conf::ignore_headers::<$conf>,
                "Fields of answers that are passed on but not obeyed: X-Accel-…, Expires, Cache-Control, Set-Cookie, Vary."),
            $crate::settings_row!($prefix, "_intercept_errors", between 1 1, Value("off"), $crate::conf::intercept_errors::<$conf>,
                "Whether error_page applies to what back ends answer."),
            $crate::settings_row!($prefix, "_limit_rate", between 1 1, Value("0"), $crate::conf::limit_rate::<$conf>,
                "Bytes per second that are read of an answer; 0: no limit. May contain variables."),
            $crate::settings_row!($prefix, "_max_temp_file_size", between 1 1, Told("1024m"), $crate::conf::max_temp_file_size::<$conf>,
                "How much of an answer may wait in a temporary file; 0: nothing, what does not fit into the buffers waits at the back end."),
            $crate::settings_row!($prefix, "_next_upstream", many 1 255, Value("error timeout"), $crate::conf::next_upstream::<$conf>,
                "When a request is passed to the next server: error, timeout, invalid_header, http_403, http_404, http_429, http_500, http_502, http_503, http_504, non_idempotent (also POST, LOCK and PATCH that were sent already), off."),
            $crate::settings_row!($prefix, "_next_upstream_timeout", between 1 1, Value("0"), $crate::conf::next_upstream_timeout::<$conf>,
                "How long a request may be passed on to further servers; 0: no limit."),
            $crate::settings_row!($prefix, "_next_upstream_tries", between 1 1, Value("0"), $crate::conf::next_upstream_tries::<$conf>,
                "How many servers are tried; 0: all."),
            $crate::settings_row!($prefix, "_pass_header", many 1 1, Nothing, $crate::conf::pass_header::<$conf>,
                "A field of answers that is passed on although it usually is not."),
            $crate::settings_row!($prefix, "_pass_request_body", between 1 1, Value("on"), $crate::conf::pass_request_body::<$conf>,
                "Whether back ends get the request's body."),
            $crate::settings_row!($prefix, "_pass_request_headers", between 1 1, Value("on"), $crate::conf::pass_request_headers::<$conf>,
                "Whether back ends get the request's header."),
            $crate::settings_row!($prefix, "_read_timeout", between 1 1, Value("60s"), $crate::conf::read_timeout::<$conf>,
                "The longest time between two reads of an answer."),
            $crate::settings_row!($prefix, "_request_buffering", between 1 1, Value("on"), $crate::conf::request_buffering::<$conf>,
                "Whether a request's body is read as a whole before a back end is asked. Otherwise it is passed on as it comes, and cannot be sent to a second server once it was begun."),
            $crate::settings_row!($prefix, "_send_timeout", between 1 1, Value("60s"), $crate::conf::send_timeout::<$conf>,
                "The longest time between two writes of a request."),
            $crate::settings_row!($prefix, "_socket_keepalive", between 1 1, Value("off"), $crate::conf::socket_keepalive::<$conf>,
                "Whether connections to back ends use TCP's keepalive."),
            $crate::settings_row!($prefix, "_socket_rcvbuf", between 1 1, Value("0"), $crate::conf::socket_rcvbuf::<$conf>,
                "The receive buffer of connections to back ends; 0: the kernel's choice."),
            $crate::settings_row!($prefix, "_socket_sndbuf", between 1 1, Value("0"), $crate::conf::socket_sndbuf::<$conf>,
                "The send buffer of connections to back ends; 0: the kernel's choice."),
            $crate::settings_row!($prefix, "_store", between 1 1, Value("off"), $crate::conf::store::<$conf>,
                "Saves answers of status 200 as files: on (where root or alias puts the URI) or a path with variables."),
            $crate::settings_row!($prefix, "_store_access", between 1 3, Value("user:rw"), $crate::conf::store_access::<$conf>,
                "Rights of saved files: user:, group: and all: with r or rw."),
            $crate::settings_row!($prefix, "_temp_file_write_size", between 1 1, Told("twice the larger buffer"), $crate::conf::temp_file_write_size::<$conf>,
                "How much is written to the temporary file at a time."),
            $crate::settings_row!($prefix, "_temp_path", between 1 4, Told(concat!($prefix, "_temp 1 2")), $crate::conf::temp_path::<$conf>,
                "The folder of temporary files, and up to three levels of folders in it."),
            $($extra),*
        ]
    };
}

/// One row of [`settings_rows!`].
#[macro_export]
macro_rules! settings_row {
    ($prefix:literal, $name:literal, many $min:literal $max:literal, $($rest:tt)*) => {
        $crate::settings_row!(@ $prefix, $name, $min, $max, true, $($rest)*)
    };
    ($prefix:literal, $name:literal, between $min:literal $max:literal, $($rest:tt)*) => {
        $crate::settings_row!(@ $prefix, $name, $min, $max, false, $($rest)*)
    };
    (@ $prefix:literal, $name:literal, $min:literal, $max:literal, $many:literal, $default:ident $(($value:expr))?, $set:expr, $doc:literal) => {
        brisk_server::module::Row {
            name: concat!($prefix, $name),
            contexts: brisk_conf::Context::HSL,
            arity: brisk_conf::Arity { min: $min, max: $max, block: false },
            default: brisk_conf::Default::$default $(($value))?,
            inherit: brisk_conf::Inherit::Replace,
            many: $many,
            doc: $doc,
            set: brisk_server::module::Set::Simple($set),
        }
    };
}

macro_rules! setters {
    ($($name:ident = $parse:expr;)*) => {
        $(
            /// The setter of the directive with this name.
            pub fn $name<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
                let parse: fn(&Directive) -> _ = $parse;
                cx.conf::<C>().settings().$name = parse(d)?;
                Ok(())
            }
        )*
    };
}

setters! {
    buffering = |d| value::flag(d.name(), d.arg(0));
    connect_timeout = |d| value::msec(d.arg(0));
    force_ranges = |d| value::flag(d.name(), d.arg(0));
    ignore_client_abort = |d| value::flag(d.name(), d.arg(0));
    intercept_errors = |d| value::flag(d.name(), d.arg(0));
    next_upstream_timeout = |d| value::msec(d.arg(0));
    next_upstream_tries = |d| value::number(d.arg(0));
    pass_request_body = |d| value::flag(d.name(), d.arg(0));
    pass_request_headers = |d| value::flag(d.name(), d.arg(0));
    read_timeout = |d| value::msec(d.arg(0));
    request_buffering = |d| value::flag(d.name(), d.arg(0));
    send_timeout = |d| value::msec(d.arg(0));
    socket_keepalive = |d| value::flag(d.name(), d.arg(0));
    socket_rcvbuf = |d| value::size(d.arg(0));
    socket_sndbuf = |d| value::size(d.arg(0));
}

/// The same for sizes that are held against each other.
macro_rules! sizes {
    ($($name:ident = $parse:expr;)*) => {
        $(
            /// The setter of the directive with this name.
            pub fn $name<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
                let parse: fn(&Directive) -> _ = $parse;
                let settings = cx.conf::<C>().settings();
                settings.$name = parse(d)?;
                settings.sizes_at = Some(d.arg(0).span);
                Ok(())
            }
        )*
    };
}

sizes! {
    buffer_size = |d| value::size(d.arg(0));
    busy_buffers_size = |d| value::size(d.arg(0)).map(Some);
    max_temp_file_size = |d| value::size(d.arg(0)).map(Some);
    temp_file_write_size = |d| value::size(d.arg(0)).map(Some);
}

/// `*_bind ADDRESS [transparent]`.
pub fn bind<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let transparent = match d.args.get(1) {
        None => false,
        Some(token) if token.bytes() == b"transparent" => true,
        Some(token) => return Err(invalid_parameter(token)),
    };
    if transparent {
        cx.uses_raw_sockets();
    }
    let token = d.arg(0);
    let bind = if token.bytes() == b"off" && d.args.len() == 1 {
        None
    } else {
        let address = cx.template(token)?;
        if address.is_literal() && crate::connect::local_address(token.bytes()).is_none() {
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
    if value::size(d.arg(0))? > 0 {
        let text = format!("\"{}\" has no effect: Linux does not have it", d.name());
        cx.warn(Diag::notice(d.arg(0).span, text).help("leave it out"));
    }
    Ok(())
}

/// `*_limit_rate`.
pub fn limit_rate<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let template = cx.template(d.arg(0))?;
    let is_off = template.is_literal() && value::size(d.arg(0))? == 0;
    let rate = (!is_off).then(|| Arc::new(template));
    cx.conf::<C>().settings().limit_rate = rate;
    Ok(())
}

fn name_in<C: HasSettings>(
    cx: &mut Cx<'_, '_>,
    token: &Token,
    list: fn(&mut super::Settings) -> &mut super::Names,
) {
    let first = cx.first;
    let list = Arc::make_mut(list(cx.conf::<C>().settings()));
    if first {
        list.clear();
    }
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
        b"" => return Err(Diag::emerg(d.arg(0).span, "empty path")),
        _ => Store::Path(Arc::new(cx.template(d.arg(0))?)),
    };
    cx.conf::<C>().settings().store = store;
    Ok(())
}

/// `*_store_access user:rw group:r …`.
pub fn store_access<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let mut rights = 0;
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
        if shift == 6 {
            user = 0;
        }
        rights |= match what {
            "rw" => 6u32,
            "r" => 4,
            _ => return Err(bad()),
        } << shift;
    }
    cx.conf::<C>().settings().store_access = rights | user;
    Ok(())
}

/// `*_temp_path PATH [LEVEL…]`.
pub fn temp_path<C: HasSettings>(cx: &mut Cx<'_, '_>, d: &Directive) -> Done {
    let mut levels = Vec::new();
    for token in &d.args[1..] {
        match value::number(token)? {
            level @ 1..=3 => levels.push(level as u8),
            _ => return Err(invalid_value(d, token, "from 1 to 3")),
        }
    }
    let path = cx.full_path(d.arg(0).str());
    cx.keeps_temporary(path.as_ref());
    cx.conf::<C>().settings().temp_path = Some(Arc::new(TempPath { path, levels }));
    Ok(())
}
