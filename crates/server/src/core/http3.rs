//! Directives of `ngx_http_v3_module`. Those about QUIC concern listening sockets: what the default server of one says holds there.

use crate::conf::cx::{Cx, invalid_value};
use crate::conf::snapshot::HostKey;
use crate::core::http_conf::Http3Conf;
use crate::directive::directive;
use crate::limits::QUIC_HOST_KEY_BYTES_MIN;
use crate::module::{Module, Row};
use brisk_conf::{Context, Diag, Directive, Risk, value};
use brisk_quic::Retry;
use brisk_quic::limits::PEER_CIDS_MAX;

/// Its configuration lives in the core's: connections need it before there is a location.
pub static HTTP3: Module = Module { name: "v3", rows: ROWS, ..Module::EMPTY };

const HS: Context = Context::HS;

static ROWS: &[Row] = &[
    // On: `listen … quic` says already that QUIC is wanted. nginx has the same default.
    directive("http3")
        .doc("HTTP/3, for connections that come by listen … quic: whether the server answers requests there.")
        .in_(HS)
        .takes_flag()
        .default("on")
        .example("http3 off;")
        .sets(|cx, on| http3(cx).enabled = on),
    // HTTP/0.9 over QUIC has no fields, no status and no errors, so no rule of access could be kept.
    directive("http3_hq")
        .doc("HTTP/0.9 over QUIC, which only tests of QUIC speak: it is not spoken here, so on is refused.")
        .in_(HS)
        .takes("off")
        .default("off")
        .example("http3_hq off;")
        .set(hq),
    // As with HTTP/2: it bounds what one connection can make the server do at a time.
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
    // The window of a stream (RFC 9000 §4.1). Memory per connection is this times the number of streams, at
    // worst.
    directive("http3_stream_buffer_size")
        .doc("Bytes of a stream that an HTTP/3 client may send before anybody reads them.")
        .in_(HS)
        .takes_size()
        .range(1024, 1 << 30)
        .default("64k")
        .risk(Risk::Resource)
        .example("http3_stream_buffer_size 128k;")
        .sets(|cx, bytes| http3(cx).stream_buffer_size = u32::try_from(bytes).unwrap_or(u32::MAX)),
    // The kernel knows a thread by an ID's first byte, so IDs are made when they are needed. More of the
    // client's IDs would only be kept.
    directive("quic_active_connection_id_limit")
        .doc("Connection IDs that a client may give to the server: 5 are kept, whatever stands here.")
        .in_(HS)
        .takes_number()
        .at_least(2)
        .unit("connection IDs")
        .default("5")
        .example("quic_active_connection_id_limit 5;")
        .set(connection_ids),
    // nginx loads an eBPF program, which needs privileges. Here the routing is a classic filter, which any user may
    // attach (`net/src/sys/udp.rs`).
    directive("quic_bpf")
        .doc("Packets of a connection reach its thread by a program in the kernel that needs no privilege, always.")
        .in_(Context::MAIN)
        .takes("on | off")
        .example("quic_bpf on;")
        .ignored("packets are routed by the kernel anyway"),
    // Sending is the dearest part of QUIC: without it each datagram is a system call.
    directive("quic_gso")
        .doc("Several datagrams may leave in one system call; the kernel splits them. Switches itself off where a network interface cannot do it.")
        .in_(HS)
        .takes_flag()
        .default("on")
        .example("quic_gso off;")
        .sets(|cx, on| http3(cx).gso = on),
    // A secret of the whole process. With different ones a packet that comes to the other server would look
    // like one of nobody's.
    directive("quic_host_key")
        .doc("A file with the secret that stateless resets, tokens and connection IDs are made of, for several servers that stand in for each other; the same for all servers of the configuration. Without it the secret is random and lasts as long as the server, upgrades included.")
        .in_(HS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("quic_host_key /etc/brisk/quic.key;")
        .set(host_key),
    // An attacker with a forged source address makes the server keep state and send to a victim (RFC 9000
    // §8.1). `auto` asks for proof only while that is likely: a round trip more for every visitor would be
    // the price.
    directive("quic_retry")
        .doc("Clients have to show that they receive what is sent to their address before anything is kept for them, which takes them a round trip more. auto: while more than 100 handshakes are under way in a thread.")
        .in_(HS)
        .takes_one_of(&RETRY)
        .default("auto")
        .risk(Risk::Safe)
        .example("quic_retry on;")
        .set(retry),
];

static RETRY: [(&str, Retry); 3] = [("on", Retry::On), ("off", Retry::Off), ("auto", Retry::Auto)];

fn retry(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let found = RETRY.iter().find(|(word, _)| word.as_bytes() == d.arg(0).bytes());
    let Some((_, retry)) = found else { return Err(invalid_value(d, d.arg(0), "on, off or auto")) };
    http3(cx).retry = *retry;
    Ok(())
}

fn hq(_: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    if d.arg(0).bytes() == b"off" {
        return Ok(());
    }
    Err(Diag::emerg(d.span, "HTTP/0.9 over QUIC is not spoken")
        .help("remove \"http3_hq\": no browser uses it"))
}

// A notice and no error: nginx's value only bounds what it keeps.
fn connection_ids(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let token = d.arg(0);
    if value::number(token)? != PEER_CIDS_MAX {
        let text = format!("\"{}\" has no effect here: {PEER_CIDS_MAX} are kept", d.name());
        cx.warn(Diag::notice(d.span, text));
    }
    Ok(())
}

fn host_key(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let key = HostKey(cx.read_file(d.arg(0))?);
    // Tokens and resets are made of it. A secret that can be guessed lets anybody end all connections (RFC
    // 9000 §10.3).
    if key.0.len() < QUIC_HOST_KEY_BYTES_MIN {
        let text = format!("\"{}\" is too short for a secret", d.arg(0).text());
        return Err(Diag::emerg(d.span, text).help("make one with \"head -c 32 /dev/urandom\""));
    }
    // Packets are looked at before their server name is known, so there can be one secret only.
    let before = cx.global.quic_host_key.get_or_insert_with(|| key.clone());
    if *before == key {
        return Ok(());
    }
    Err(Diag::emerg(d.span, "another \"quic_host_key\" stands elsewhere")
        .help("packets are taken before a server is chosen: write one key, in the http block"))
}

fn http3<'a>(cx: &'a mut Cx<'_, '_>) -> &'a mut Http3Conf {
    let core: &mut crate::core::http_conf::CoreConf = cx.conf_of_mut();
    &mut core.http3
}
