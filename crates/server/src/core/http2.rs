//! Directives of `ngx_http_v2_module`.

use crate::conf::cx::Cx;
use crate::core::http_conf::CoreConf;
use crate::directive::{Draft, Own, directive};
use crate::module::{Module, Row};
use brisk_conf::{Context, Diag, Directive, Risk};

/// `ngx_http_v2_module`. Its configuration lives in [`CoreConf`]: connections need it before there is a location.
pub static HTTP2: Module = Module { name: "v2", rows: ROWS, ..Module::EMPTY };

const HS: Context = Context::HS;
const HSL: Context = Context::HSL;

/// A directive of former times that is taken with a warning.
const fn former(name: &'static str) -> Draft<Own> {
    directive(name).in_(HS).many().definition().risk(Risk::Safe)
}

/// One whose part another directive has taken.
macro_rules! replaced {
    ($name:literal, $arguments:literal, $example:literal, $by:literal) => {
        former($name)
            .doc(concat!("Obsolete: see ", $by, "."))
            .takes($arguments)
            .example(concat!($name, " ", $example, ";"))
            .set(|cx, d| replaced(cx, d, $by))
    };
}

// RFC 9113 §8.4 keeps pushes, but Chromium has taken them out (version 106) and Firefox too.
const PUSH: &str = "Obsolete: clients no longer take pushes; see early_hints.";

static ROWS: &[Row] = &[
    // Off by default, as in nginx. Without TLS the preface is recognised by its first bytes, so one port serves both versions.
    directive("http2")
        .doc("HTTP/2: chosen by ALPN with TLS; without TLS a connection may begin with HTTP/2.")
        .in_(HS)
        .takes_flag()
        .default("off")
        .example("http2 on;")
        .sets(|cx, on| core(cx).http2.enabled = on),
    // RFC 9113 §3.1 has done away with it; some clients still begin so.
    directive("http2_upgrade")
        .doc("With http2 on and without TLS: whether a request may change its connection to HTTP/2 by Upgrade: h2c (RFC 7540 §3.2). \
         Do not use it behind a proxy that passes Upgrade on: later requests would evade the proxy's rules. The address's default server decides.")
        .in_(HS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("http2_upgrade on;")
        .sets(|cx, on| core(cx).http2.upgrade = on),
    // nginx's default, and above the 100 that RFC 9113 §6.5.2 recommends as a minimum. Cancelled requests whose work goes on count too, or
    // resets would make the limit none (CVE-2023-44487).
    directive("http2_max_concurrent_streams")
        .doc("Requests that one HTTP/2 connection may have in work at a time; more than 4096 count as 4096.")
        .in_(HS)
        .takes_number()
        .unit("requests")
        .default("128")
        .risk(Risk::Resource)
        .example("http2_max_concurrent_streams 256;")
        .sets(|cx, count| {
            // Beyond it the order of streams (RFC 7540 §5.3) has no place for one.
            let count = u32::try_from(count).unwrap_or(u32::MAX).min(brisk_h2::STREAMS_MAX);
            core(cx).http2.max_concurrent_streams = count;
        }),
    // It becomes the initial window of a stream, so a client's body begins to come before it is known whether anybody reads it. 64k is the window
    // that a client may assume before it has seen SETTINGS (RFC 9113 §6.9.2).
    directive("http2_body_preread_size")
        .doc("Bytes of a request body that an HTTP/2 client may send before anybody reads it.")
        .in_(HS)
        .takes_size()
        .range(0, brisk_h2::frame::WINDOW_MAX as i64)
        .default("64k")
        .risk(Risk::Resource)
        .example("http2_body_preread_size 128k;")
        .sets(|cx, bytes| core(cx).http2.body_preread_size = bytes as u32),
    // A frame cannot be interrupted: a more urgent stream waits for the end of one that has begun.
    directive("http2_chunk_size")
        .doc("Most bytes of a response body in one HTTP/2 frame: less is fairer to other streams, more is cheaper.")
        .in_(HSL)
        .takes_size()
        .at_least(1)
        .default("8k")
        .risk(Risk::Safe)
        .example("http2_chunk_size 16k;")
        .sets(|cx, bytes| {
            // A frame's length has 24 bits (RFC 9113 §4.1).
            core(cx).http2.chunk_size = bytes.min(u64::from(brisk_h2::frame::PAYLOAD_BYTES_MAX)) as u32;
        }),
    // nginx's workers share one buffer of this size. Here a thread's arena is the buffer, and its size is in
    // limits.rs.
    directive("http2_recv_buffer_size")
        .doc("Buffer for reading HTTP/2 connections.")
        .in_(Context::HTTP)
        .takes("SIZE")
        .example("http2_recv_buffer_size 256k;")
        .ignored("connections are read into memory that they share"),
    // The next three size structures that this server does not have. They change nothing that a client sees.
    directive("http2_pool_size")
        .doc("Memory per connection.")
        .in_(HS)
        .takes("SIZE")
        .example("http2_pool_size 4k;")
        .ignored("memory is allocated as needed"),
    directive("http2_streams_index_size")
        .doc("Size of a hash table of streams.")
        .in_(HS)
        .takes("NUMBER")
        .example("http2_streams_index_size 32;")
        .ignored("hash tables size themselves"),
    // nginx has taken these five out in 1.19.7; configurations that are carried along still have them.
    replaced!("http2_max_field_size", "SIZE", "4k", "large_client_header_buffers"),
    replaced!("http2_max_header_size", "SIZE", "16k", "large_client_header_buffers"),
    replaced!("http2_max_requests", "NUMBER", "1000", "keepalive_requests"),
    replaced!("http2_recv_timeout", "TIME", "30s", "client_header_timeout"),
    replaced!("http2_idle_timeout", "TIME", "3m", "keepalive_timeout"),
    former("http2_max_concurrent_pushes")
        .doc(PUSH)
        .takes("NUMBER")
        .example("http2_max_concurrent_pushes 10;")
        // A push sends what the client may have already. 103 lets the client decide.
        .set(obsolete),
    former("http2_push").doc(PUSH).in_(HSL).takes("URI | off").example("http2_push off;").set(obsolete),
    former("http2_push_preload")
        .doc(PUSH)
        .in_(HSL)
        .takes("on | off")
        .example("http2_push_preload off;")
        .set(obsolete),
];

fn core<'a>(cx: &'a mut Cx<'_, '_>) -> &'a mut CoreConf {
    cx.conf_of_mut()
}

// A warning and no error: the file works in nginx as well.
fn replaced(cx: &mut Cx<'_, '_>, d: &Directive, by: &str) -> Result<(), Diag> {
    let text = format!("the \"{}\" directive is obsolete, use the \"{by}\" directive instead", d.name());
    cx.warn(Diag::warn(d.span, text));
    Ok(())
}

fn obsolete(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.warn(Diag::warn(d.span, format!("the \"{}\" directive is obsolete, ignored", d.name())));
    Ok(())
}
