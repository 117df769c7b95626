//! The rows of `memcached_…`.

use super::Conf;
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;
use brisk_upstream::conf::next;
use brisk_upstream::rows::{
    bind, buffer_size, connect_timeout, next_upstream_timeout, next_upstream_tries, read_timeout,
    send_timeout, socket_keepalive,
};

pub(super) static ROWS: &[Row] = &[
    // Not in `limit_except`, as in nginx: only GET and HEAD are answered.
    directive("memcached_pass")
        .doc("Answers GET and HEAD with the value whose key is $memcached_key: from host:port, unix:/path or an upstream; may contain variables. Keys longer than 250 bytes are 404, as ones without a value.")
        .in_(Context::LOCATION.or(Context::LOCATION_IF))
        .takes("[memcached://]ADDRESS")
        .not_inherited()
        .example("memcached_pass 127.0.0.1:11211;")
        .set(super::pass),
    directive("memcached_bind")
        .doc("The address that connections come from, with or without a port; with transparent it may be any.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 2))
        .takes("ADDRESS [transparent] | off")
        .risk(Risk::Security)
        .example("memcached_bind 127.0.0.1;")
        .set(bind::<Conf>),
    // The line `VALUE key flags bytes`; the value behind it is not buffered.
    directive("memcached_buffer_size")
        .doc("How long the line before a value may be.")
        .in_(Context::HSL)
        .takes_size()
        .default("4k")
        .risk(Risk::Resource)
        .example("memcached_buffer_size 8k;")
        .set(buffer_size::<Conf>),
    directive("memcached_connect_timeout")
        .doc("How long connecting may take.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("memcached_connect_timeout 5s;")
        .sets(connect_timeout::<Conf>),
    // Flags are the client library's own, so which bit means compression is for the configuration to say.
    directive("memcached_gzip_flag")
        .doc("Bits of a value's flags that say that it is compressed: it is sent with Content-Encoding gzip then. 0: none.")
        .in_(Context::HSL)
        .takes_number()
        .unit("bits")
        .default("0")
        .example("memcached_gzip_flag 2;")
        .sets(|cx, bits| cx.conf::<Conf>().module.gzip_flag = bits),
    // `not_found` makes sense where each server has a part of the keys.
    directive("memcached_next_upstream")
        .doc("When the next server is asked: error, timeout, invalid_response, not_found, off.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("error | timeout | invalid_response | not_found | off ...")
        .default("error timeout")
        .many()
        .example("memcached_next_upstream error timeout not_found;")
        .set(next_upstream),
    directive("memcached_next_upstream_timeout")
        .doc("How long after its beginning a request may be sent to another server; 0: no limit.")
        .in_(Context::HSL)
        .takes_time()
        .default("0")
        .example("memcached_next_upstream_timeout 10s;")
        .sets(next_upstream_timeout::<Conf>),
    directive("memcached_next_upstream_tries")
        .doc("How many servers a request may be sent to; 0: all.")
        .in_(Context::HSL)
        .takes_number()
        .unit("servers")
        .default("0")
        .example("memcached_next_upstream_tries 2;")
        .sets(next_upstream_tries::<Conf>),
    directive("memcached_read_timeout")
        .doc("The longest time between two reads of an answer.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("memcached_read_timeout 30s;")
        .sets(read_timeout::<Conf>),
    directive("memcached_send_timeout")
        .doc("The longest time between two writes of a request.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("memcached_send_timeout 30s;")
        .sets(send_timeout::<Conf>),
    directive("memcached_socket_keepalive")
        .doc("Whether connections to back ends use TCP's keepalive.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("memcached_socket_keepalive on;")
        .sets(socket_keepalive::<Conf>),
];

/// `memcached_next_upstream`, whose words are its own.
fn next_upstream(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // Far from the bits of conditions, so that `off` among other words can be told.
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
    // `off` wins over whatever stands beside it.
    cx.conf::<Conf>().settings.next_upstream = if set & OFF == 0 { set } else { OFF };
    Ok(())
}
