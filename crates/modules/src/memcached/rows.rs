//! The rows of `memcached_…`.

use super::Conf;
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};
use brisk_server::conf::Cx;
use brisk_server::module::{Row, Set};
use brisk_server::row;
use brisk_upstream::conf::{
    bind, buffer_size, connect_timeout, next, next_upstream_timeout, next_upstream_tries, read_timeout,
    send_timeout, socket_keepalive,
};
use brisk_upstream::settings_row;

pub(super) static ROWS: &[Row] = &[
    row!(
        "memcached_pass",
        Context::LOCATION.or(Context::LOCATION_IF),
        Arity::ONE,
        D::Nothing,
        No,
        false,
        "Answers GET and HEAD with the value whose key is $memcached_key: from host:port, unix:/path or an upstream; may contain variables. Keys longer than 250 bytes are 404, as ones without a value.",
        Set::Simple(super::pass)
    ),
    settings_row!("memcached", "_bind", between 1 2, Nothing, bind::<Conf>,
        "The address that connections come from, with or without a port; with transparent it may be any."),
    settings_row!("memcached", "_buffer_size", between 1 1, Value("4k"), buffer_size::<Conf>,
        "How long the line before a value may be."),
    settings_row!("memcached", "_connect_timeout", between 1 1, Value("60s"), connect_timeout::<Conf>,
        "How long connecting may take."),
    row!(
        "memcached_gzip_flag",
        Context::HSL,
        Arity::ONE,
        D::Value("0"),
        Replace,
        false,
        "Bits of a value's flags that say that it is compressed: it is sent with Content-Encoding gzip then. 0: none.",
        Set::Simple(|cx, d| {
            cx.conf::<Conf>().gzip_flag = value::number(d.arg(0))?;
            Ok(())
        })
    ),
    settings_row!("memcached", "_next_upstream", many 1 255, Value("error timeout"), next_upstream,
        "When the next server is asked: error, timeout, invalid_response, not_found, off."),
    settings_row!("memcached", "_next_upstream_timeout", between 1 1, Value("0"), next_upstream_timeout::<Conf>,
        "How long after its beginning a request may be sent to another server; 0: no limit."),
    settings_row!("memcached", "_next_upstream_tries", between 1 1, Value("0"), next_upstream_tries::<Conf>,
        "How many servers a request may be sent to; 0: all."),
    settings_row!("memcached", "_read_timeout", between 1 1, Value("60s"), read_timeout::<Conf>,
        "The longest time between two reads of an answer."),
    settings_row!("memcached", "_send_timeout", between 1 1, Value("60s"), send_timeout::<Conf>,
        "The longest time between two writes of a request."),
    settings_row!("memcached", "_socket_keepalive", between 1 1, Value("off"), socket_keepalive::<Conf>,
        "Whether connections to back ends use TCP's keepalive."),
];

/// `memcached_next_upstream`, whose words are its own.
fn next_upstream(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    const OFF: u32 = 1 << 31;
    let words = [
        ("error", next::ERROR),
        ("timeout", next::TIMEOUT),
        ("invalid_response", next::INVALID_HEADER),
        ("not_found", next::HTTP_404),
        ("off", OFF),
    ];
    let before = cx.conf::<Conf>().settings.next_upstream;
    let set = cx.bits(d, &words, before)?;
    cx.conf::<Conf>().settings.next_upstream = if set & OFF == 0 { set } else { OFF };
    Ok(())
}
