//! How long connections live, and how they end.

use crate::conf::cx::Cx;
use crate::core::http_conf::{CoreConf, LingeringClose};
use crate::directive::directive;
use crate::module::Row;

use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};

const HSL: Context = Context::HSL;

/// The words of `lingering_close`.
const LINGERING_CLOSE: [(&str, LingeringClose); 3] =
    [("off", LingeringClose::Off), ("on", LingeringClose::On), ("always", LingeringClose::Always)];

/// Rows about connections.
pub const ROWS: &[Row] = &[
    // nginx's default. An idle connection is cheap here (0.75 KiB at most, docs/decisions.md), a new one costs a handshake.
    directive("keepalive_timeout")
        .doc("How long an idle connection stays open; 0 turns keep-alive off. The second value is told to clients in a Keep-Alive header.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("TIME [TIME]")
        .default("75s")
        .risk(Risk::Resource)
        .example("keepalive_timeout 65s;")
        .set(|cx, d| {
            let timeout = value::msec(d.arg(0))?;
            // What clients are told may be less than what the server waits: a client that keeps to it never
            // meets a close.
            let header = d.args.get(1).map(value::seconds).transpose()?;
            let conf = cx.conf::<CoreConf>();
            conf.keepalive_timeout = timeout;
            conf.keepalive_header = header;
            Ok(())
        }),
    // nginx closes connections now and then to free what they have collected. Here one is a table entry between requests, so a large
    // number costs nothing.
    directive("keepalive_requests")
        .doc("Requests on one connection before it is closed.")
        .in_(HSL)
        .takes_number()
        .unit("requests")
        .default("1000")
        .risk(Risk::Safe)
        .example("keepalive_requests 10000;")
        .sets(|cx, count| cx.conf::<CoreConf>().keepalive_requests = count),
    // A balancer in front spreads its connections when they are made. Without an age they would stay for ever
    // with the server that was there first.
    directive("keepalive_time")
        .doc("Age of a connection after which its next response is its last.")
        .in_(HSL)
        .takes_time()
        .default("1h")
        .risk(Risk::Safe)
        .example("keepalive_time 1h;")
        .sets(|cx, time| cx.conf::<CoreConf>().keepalive_time = time),
    // A client that has just been answered may be sending its next request. A close at that moment loses it, and it cannot know whether a POST
    // was carried out (RFC 9112 §9.3.1).
    directive("keepalive_min_timeout")
        .doc("Time during which an idle connection is not closed by a graceful stop.")
        .in_(HSL)
        .takes_time()
        .default("0")
        .risk(Risk::Resource)
        .example("keepalive_min_timeout 1s;")
        .sets(|cx, time| cx.conf::<CoreConf>().keepalive_min_timeout = time),
    // MSIE 6 mishandles a kept connection behind a POST. Reading the browser's name makes the answer depend on `User-Agent`, which is recorded.
    directive("keepalive_disable")
        .doc("Browsers that get no keep-alive: none, msie6 (after POST), safari.")
        .in_(HSL)
        .arity(Arity::between(1, 2))
        .takes("none | msie6 | safari ...")
        .default("msie6")
        .many()
        .example("keepalive_disable none;")
        .set(keepalive_disable),
    // Between two advances of the client: a slow one may take as long as it likes, one that takes nothing may not.
    directive("send_timeout")
        .doc("Longest pause between two writes of a response.")
        .in_(HSL)
        .takes_time()
        .default("60s")
        .risk(Risk::Resource)
        .example("send_timeout 30s;")
        .sets(|cx, time| cx.conf::<CoreConf>().send_timeout = time),
    // A client that takes nothing leaves the kernel with its whole send buffer until the peer answers; a reset (RST) drops it at once.
    directive("reset_timedout_connection")
        .doc("Whether timed-out connections are reset, which frees their memory in the kernel at once.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .example("reset_timedout_connection on;")
        .sets(|cx, on| cx.conf::<CoreConf>().reset_timedout_connection = on),
    // Closing a socket with unread bytes makes the kernel send RST, and that may overtake the answer in the client's kernel: it would see a
    // broken connection in the place of a 413 (RFC 9112 §9.6).
    directive("lingering_close")
        .doc("Whether a closing connection waits for data the client still sends (on: if there may be some), so that it gets the response.")
        .in_(HSL)
        .takes_one_of(&LINGERING_CLOSE)
        .default("on")
        .example("lingering_close always;")
        .set(|cx, d| {
            cx.conf::<CoreConf>().lingering_close = value::choice(d.arg(0), &LINGERING_CLOSE)?;
            Ok(())
        }),
    // For all of it; `lingering_timeout` is renewed by each byte, which a client could send for ever.
    directive("lingering_time")
        .doc("How long data of a client is read and dropped before its connection is closed.")
        .in_(HSL)
        .takes_time()
        .default("30s")
        .risk(Risk::Resource)
        .example("lingering_time 10s;")
        .sets(|cx, time| cx.conf::<CoreConf>().lingering_time = time),
    // Renewed by each piece, and bounded as a whole by `lingering_time`.
    directive("lingering_timeout")
        .doc("Longest pause between two pieces of such data.")
        .in_(HSL)
        .takes_time()
        .default("5s")
        .risk(Risk::Resource)
        .example("lingering_timeout 2s;")
        .sets(|cx, time| cx.conf::<CoreConf>().lingering_timeout = time),
    // With Nagle's algorithm the last, short segment of an answer waits for the client's delayed acknowledgement, 40 ms and more.
    directive("tcp_nodelay")
        .doc("Whether small packets leave at once on kept-alive connections.")
        .in_(HSL.or(Context::STREAM).or(Context::STREAM_SERVER))
        .takes_flag()
        .default("on")
        .risk(Risk::Safe)
        .example("tcp_nodelay off;")
        .sets(|cx, on| cx.conf::<CoreConf>().tcp_nodelay = on),
    // The kernel is asked to hold segments back (TCP_CORK) where nginx would write head and file apart. One
    // write needs no such order.
    directive("tcp_nopush")
        .doc("Accepted: the head and the start of a file always go into one packet.")
        .in_(HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("tcp_nopush on;")
        .sets(|_, _| {}),
];

fn keepalive_disable(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    // As bits, so that `none` and repeated words are read as with other directives of this kind.
    // As bits, and not as two flags: `none` must be able to clear what was inherited.
    const MSIE6: u32 = 1;
    const SAFARI: u32 = 2;
    const NONE: u32 = 4;
    let conf = cx.conf::<CoreConf>();
    let before = if conf.keepalive_disable_msie6 { MSIE6 } else { 0 }
        | if conf.keepalive_disable_safari { SAFARI } else { 0 };
    let set = cx.bits(d, &[("none", NONE), ("msie6", MSIE6), ("safari", SAFARI)], before)?;
    let conf = cx.conf::<CoreConf>();
    conf.keepalive_disable_msie6 = set & MSIE6 != 0;
    conf.keepalive_disable_safari = set & SAFARI != 0;
    Ok(())
}
