//! Directives of `ngx_http_v2_module`.

use super::CoreConf;
use crate::conf::Cx;
use crate::ignored;
use crate::module::{Module, Row, Set};
use crate::row;
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};

/// HTTP/2, as a part of [`CoreConf`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Conf {
    /// `http2 on`. Where it is off, `listen … http2` may still allow it.
    pub enabled: bool,
    /// `http2_upgrade`: without TLS also by `Upgrade: h2c`.
    pub upgrade: bool,
    /// Streams of one connection at a time.
    pub max_concurrent_streams: u32,
    /// Bytes of a request body that a client may send before anybody reads it.
    pub body_preread_size: u32,
    /// Most bytes of a DATA frame.
    pub chunk_size: u32,
}

impl Default for Http2Conf {
    fn default() -> Http2Conf {
        Http2Conf {
            enabled: false,
            upgrade: false,
            max_concurrent_streams: 128,
            body_preread_size: 64 << 10,
            chunk_size: 8 << 10,
        }
    }
}

/// `ngx_http_v2_module`. Its configuration lives in [`CoreConf`]: connections need it before there is a location.
pub static HTTP2: Module = Module { name: "v2", rows: ROWS, ..Module::EMPTY };

const HS: Context = Context::HS;
const HSL: Context = Context::HSL;

/// A directive of former times that is taken with a warning.
macro_rules! obsolete {
    ($name:literal, $contexts:expr, $doc:expr, $set:expr) => {
        row!($name, $contexts, Arity::ONE, D::Nothing, Definition, true, $doc, Set::Simple($set))
    };
}

/// One whose part another directive has taken.
macro_rules! replaced {
    ($name:literal, $by:literal) => {
        obsolete!($name, HS, concat!("Obsolete: see ", $by, "."), |cx, d| replaced(cx, d, $by))
    };
}

const PUSH: &str = "Obsolete: nobody pushes any more; see early_hints.";

static ROWS: &[Row] = &[
    row!(
        "http2",
        HS,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "HTTP/2: chosen by ALPN with TLS; without TLS a connection may begin with HTTP/2.",
        Set::Simple(|cx, d| {
            core(cx).http2.enabled = value::flag("http2", d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "http2_upgrade",
        HS,
        Arity::ONE,
        D::Value("off"),
        Replace,
        false,
        "With http2 on and without TLS: whether a request may change its connection to HTTP/2 by Upgrade: h2c (RFC 7540 §3.2). \
         Not behind a proxy that passes Upgrade on: what follows would pass its rules. The address's default server decides.",
        Set::Simple(|cx, d| {
            core(cx).http2.upgrade = value::flag("http2_upgrade", d.arg(0))?;
            Ok(())
        })
    ),
    row!(
        "http2_max_concurrent_streams",
        HS,
        Arity::ONE,
        D::Value("128"),
        Replace,
        false,
        "Requests that one HTTP/2 connection may have in work at a time.",
        Set::Simple(|cx, d| {
            let count = value::number(d.arg(0))?;
            core(cx).http2.max_concurrent_streams = u32::try_from(count).unwrap_or(u32::MAX);
            Ok(())
        })
    ),
    row!(
        "http2_body_preread_size",
        HS,
        Arity::ONE,
        D::Value("64k"),
        Replace,
        false,
        "Bytes of a request body that an HTTP/2 client may send before anybody reads it.",
        Set::Simple(preread_size)
    ),
    row!(
        "http2_chunk_size",
        HSL,
        Arity::ONE,
        D::Value("8k"),
        Replace,
        false,
        "Most bytes of a response body in one HTTP/2 frame: less is fairer to other streams, more is cheaper.",
        Set::Simple(chunk_size)
    ),
    ignored!(
        "http2_recv_buffer_size",
        Context::HTTP,
        Arity::ONE,
        "Buffer for reading HTTP/2 connections.",
        "connections are read into memory that they share"
    ),
    ignored!("http2_pool_size", HS, Arity::ONE, "Memory per connection.", "memory is allocated as needed"),
    ignored!(
        "http2_streams_index_size",
        HS,
        Arity::ONE,
        "Size of a hash table of streams.",
        "hash tables size themselves"
    ),
    replaced!("http2_max_field_size", "large_client_header_buffers"),
    replaced!("http2_max_header_size", "large_client_header_buffers"),
    replaced!("http2_max_requests", "keepalive_requests"),
    replaced!("http2_recv_timeout", "client_header_timeout"),
    replaced!("http2_idle_timeout", "keepalive_timeout"),
    obsolete!("http2_max_concurrent_pushes", HS, PUSH, obsolete),
    obsolete!("http2_push", HSL, PUSH, obsolete),
    obsolete!("http2_push_preload", HSL, PUSH, obsolete),
];

fn core<'a>(cx: &'a mut Cx<'_, '_>) -> &'a mut CoreConf {
    cx.conf_of_mut()
}

fn preread_size(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let size = value::size(d.arg(0))?;
    let max = brisk_h2::frame::WINDOW_MAX;
    core(cx).http2.body_preread_size = u32::try_from(size)
        .ok()
        .filter(|&size| size <= max)
        .ok_or_else(|| Diag::emerg(d.span, format!("the maximum body preread buffer size is {max}")))?;
    Ok(())
}

fn chunk_size(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let size = value::size(d.arg(0))?;
    if size == 0 {
        return Err(Diag::emerg(d.span, "the http2 chunk size cannot be zero"));
    }
    let max = u64::from(brisk_h2::frame::PAYLOAD_BYTES_MAX);
    core(cx).http2.chunk_size = size.min(max) as u32;
    Ok(())
}

fn replaced(cx: &mut Cx<'_, '_>, d: &Directive, by: &str) -> Result<(), Diag> {
    let text = format!("the \"{}\" directive is obsolete, use the \"{by}\" directive instead", d.name());
    cx.warn(Diag::warn(d.span, text));
    Ok(())
}

fn obsolete(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    cx.warn(Diag::warn(d.span, format!("the \"{}\" directive is obsolete, ignored", d.name())));
    Ok(())
}
