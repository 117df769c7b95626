//! Directives of `ngx_http_v3_module` about HTTP; those about QUIC are with the listening sockets.

use crate::conf::cx::Cx;
use crate::core::http_conf::Http3Conf;
use crate::directive::directive;
use crate::module::{Module, Row};
use brisk_conf::{Context, Risk};

/// A part of `ngx_http_v3_module`: it is called `v3` once the directives of QUIC are there, too. Its configuration lives in the core's: connections need it before there is a location.
pub static HTTP3: Module = Module { name: "http3", rows: ROWS, ..Module::EMPTY };

const HS: Context = Context::HS;

static ROWS: &[Row] = &[
    directive("http3")
        .doc("HTTP/3, for connections that come by listen … quic: whether the server answers requests there. So far only builds for development listen so.")
        .in_(HS)
        .takes_flag()
        .default("on")
        .example("http3 off;")
        .sets(|cx, on| http3(cx).enabled = on),
    directive("http3_max_concurrent_streams")
        .doc("Requests that one HTTP/3 connection may have in work at a time.")
        .in_(HS)
        .takes_number()
        .range(1, 65_536)
        .unit("requests")
        .default("128")
        .risk(Risk::Resource)
        .example("http3_max_concurrent_streams 256;")
        .sets(|cx, count| http3(cx).max_concurrent_streams = u32::try_from(count).unwrap_or(u32::MAX)),
    directive("http3_stream_buffer_size")
        .doc("Bytes of a stream that an HTTP/3 client may send before anybody reads them.")
        .in_(HS)
        .takes_size()
        .range(1024, 1 << 30)
        .default("64k")
        .risk(Risk::Resource)
        .example("http3_stream_buffer_size 128k;")
        .sets(|cx, bytes| http3(cx).stream_buffer_size = u32::try_from(bytes).unwrap_or(u32::MAX)),
];

fn http3<'a>(cx: &'a mut Cx<'_, '_>) -> &'a mut Http3Conf {
    let core: &mut crate::core::http_conf::CoreConf = cx.conf_of_mut();
    &mut core.http3
}
