//! Directives of `stream`.

use super::Conf;
use super::part::BLOCKS;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_host::vars::Template;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;

const SERVER: Context = Context::STREAM_SERVER;

pub(super) static ROWS: &[Row] = &[
    directive("stream")
        .doc("Holds the configuration of the proxy of TCP connections and UDP datagrams.")
        .in_(Context::MAIN)
        .arity(Arity::NONE.block())
        .definition()
        .example("stream { server { listen 127.0.0.1:5432; proxy_pass 10.0.0.1:5432; } }")
        .block(super::stream),
    directive("server")
        .doc("What is done with the connections or datagrams that come to some addresses.")
        .in_(Context::STREAM)
        .arity(Arity::NONE.block())
        .many()
        .definition()
        .example("server { listen 127.0.0.1:5432; proxy_pass 10.0.0.1:5432; }")
        .block(super::server),
    directive("listen")
        .doc("An address with a port, a port, a range of ports or unix:PATH. udp: datagrams; those of one address and port of a client are a session, and one thread of the process serves all sessions of the socket. ssl and proxy_protocol are not supported yet.")
        .in_(SERVER)
        .arity(Arity::SOME)
        .takes("ADDRESS [udp] [bind] [backlog=NUMBER] [rcvbuf=SIZE] [sndbuf=SIZE] [reuseport] [ipv6only=on|off] [so_keepalive=on|off|TIMES]")
        .many()
        .not_inherited()
        .example("listen 127.0.0.1:53 udp;")
        .set(super::listen::listen),
    directive("proxy_pass")
        .doc("Passes sessions on: to an address with a port, to unix:PATH, or to an upstream block. A text with variables must come to the name of an upstream block or to an IP address with a port.")
        .in_(SERVER)
        .takes("ADDRESS")
        .not_inherited()
        .example("proxy_pass 127.0.0.1:5432;")
        .set(super::proxy_pass),
    directive("return")
        .doc("Sends a text to the client and ends the session.")
        .in_(SERVER)
        .takes("TEXT")
        .not_inherited()
        .example("return $remote_addr;")
        .set(super::return_),
    directive("proxy_connect_timeout")
        .doc("How long connecting to a server may take.")
        .in_(BLOCKS)
        .takes_time()
        .default("60s")
        .example("proxy_connect_timeout 5s;")
        .sets(|cx, time| cx.conf::<Conf>().proxy.connect_timeout = time),
    directive("proxy_timeout")
        .doc("How long neither side may send anything; then the session is over.")
        .in_(BLOCKS)
        .takes_time()
        .default("10m")
        .example("proxy_timeout 1h;")
        .sets(|cx, time| cx.conf::<Conf>().proxy.timeout = time),
    directive("proxy_next_upstream")
        .doc("Whether another server is tried if one cannot be connected to.")
        .in_(BLOCKS)
        .takes_flag()
        .default("on")
        .example("proxy_next_upstream off;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.next_upstream = on),
    directive("proxy_next_upstream_tries")
        .doc("How many servers are tried; 0: all.")
        .in_(BLOCKS)
        .takes_number()
        .unit("servers")
        .default("0")
        .example("proxy_next_upstream_tries 2;")
        .sets(|cx, count| cx.conf::<Conf>().proxy.next_upstream_tries = u32::try_from(count).unwrap_or(u32::MAX)),
    directive("proxy_next_upstream_timeout")
        .doc("How long servers are tried; 0: no limit.")
        .in_(BLOCKS)
        .takes_time()
        .default("0")
        .example("proxy_next_upstream_timeout 10s;")
        .sets(|cx, time| cx.conf::<Conf>().proxy.next_upstream_timeout = time),
    directive("proxy_buffer_size")
        .doc("The most that is read from one side before it is written to the other; both directions of a connection have such a buffer.")
        .in_(BLOCKS)
        .takes_size()
        .range(1, 16 << 20)
        .default("16k")
        .risk(Risk::Resource)
        .example("proxy_buffer_size 32k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.buffer_bytes = bytes as usize),
    directive("proxy_responses")
        .doc("How many datagrams a server answers each one of a client with; when all have come the session ends. Without it only proxy_timeout ends it.")
        .in_(BLOCKS)
        .takes_number()
        .unit("datagrams")
        .example("proxy_responses 1;")
        .sets(|cx, count| cx.conf::<Conf>().proxy.responses = Some(count)),
    directive("proxy_requests")
        .doc("After how many datagrams of a client the next one begins another session; 0: never.")
        .in_(BLOCKS)
        .takes_number()
        .unit("datagrams")
        .default("0")
        .example("proxy_requests 1;")
        .sets(|cx, count| cx.conf::<Conf>().proxy.requests = count),
    directive("proxy_half_close")
        .doc("Whether the end of one side is passed on and the other may go on sending. Without it a connection ends with either side.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("proxy_half_close on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.half_close = on),
    directive("proxy_socket_keepalive")
        .doc("Whether TCP's keepalive is on for connections to servers.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("proxy_socket_keepalive on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.socket_keepalive = on),
    directive("proxy_upload_rate")
        .doc("Bytes per second that are read from a client's connection; 0: no limit.")
        .in_(BLOCKS)
        .takes("RATE")
        .default("0")
        .example("proxy_upload_rate 100k;")
        .set(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<Conf>().proxy.upload_rate = rate;
            Ok(())
        }),
    directive("proxy_download_rate")
        .doc("Bytes per second that are read from a server's connection; 0: no limit.")
        .in_(BLOCKS)
        .takes("RATE")
        .default("0")
        .example("proxy_download_rate 1m;")
        .set(|cx, d| {
            let rate = rate(cx, d)?;
            cx.conf::<Conf>().proxy.download_rate = rate;
            Ok(())
        }),
];

/// A rate: a size, or a text with variables that comes to one.
fn rate(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<Template, Diag> {
    if !d.arg(0).bytes().contains(&b'$') {
        value::size(d.arg(0))?;
    }
    cx.template(d.arg(0))
}
