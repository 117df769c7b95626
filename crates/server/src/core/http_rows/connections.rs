//! How long connections live, and how they end.

use crate::conf::Cx;
use crate::core::http_conf::{CoreConf, LingeringClose};
use crate::module::{Row, Set};
use crate::{row, simple};
use brisk_conf::{Arity, Context, Default as D, Diag, Directive, value};

const HSL: Context = Context::HSL;

pub const ROWS: &[Row] = &[
    row!(
        "keepalive_timeout",
        HSL,
        Arity::between(1, 2),
        D::Value("75s"),
        Replace,
        false,
        "How long an idle connection stays open; 0 turns keep-alive off. The second value is told to clients in a Keep-Alive header.",
        Set::Simple(|cx, d| {
            let timeout = value::msec(d.arg(0))?;
            let header = d.args.get(1).map(value::seconds).transpose()?;
            let conf = cx.conf::<CoreConf>();
            conf.keepalive_timeout = timeout;
            conf.keepalive_header = header;
            Ok(())
        })
    ),
    simple!(
        CoreConf,
        number,
        "keepalive_requests",
        keepalive_requests,
        HSL,
        "1000",
        "Requests on one connection before it is closed."
    ),
    simple!(
        CoreConf,
        msec,
        "keepalive_time",
        keepalive_time,
        HSL,
        "1h",
        "Age of a connection after which its next response is its last."
    ),
    simple!(
        CoreConf,
        msec,
        "keepalive_min_timeout",
        keepalive_min_timeout,
        HSL,
        "0",
        "Time during which an idle connection is not closed by a graceful stop."
    ),
    row!(
        "keepalive_disable",
        HSL,
        Arity::between(1, 2),
        D::Value("msie6"),
        Replace,
        true,
        "Browsers that get no keep-alive: none, msie6 (after POST), safari.",
        Set::Simple(keepalive_disable)
    ),
    simple!(
        CoreConf,
        msec,
        "send_timeout",
        send_timeout,
        HSL,
        "60s",
        "Longest pause between two writes of a response."
    ),
    simple!(
        CoreConf,
        flag,
        "reset_timedout_connection",
        reset_timedout_connection,
        HSL,
        "off",
        "Whether timed-out connections are reset, which frees their memory in the kernel at once."
    ),
    row!(
        "lingering_close",
        HSL,
        Arity::ONE,
        D::Value("on"),
        Replace,
        false,
        "Whether a closing connection waits for data the client still sends (on: if there may be some), so that it gets the response.",
        Set::Simple(|cx, d| {
            cx.conf::<CoreConf>().lingering_close = value::choice(
                d.arg(0),
                &[
                    ("off", LingeringClose::Off),
                    ("on", LingeringClose::On),
                    ("always", LingeringClose::Always),
                ],
            )?;
            Ok(())
        })
    ),
    simple!(
        CoreConf,
        msec,
        "lingering_time",
        lingering_time,
        HSL,
        "30s",
        "How long data of a client is read and dropped before its connection is closed."
    ),
    simple!(
        CoreConf,
        msec,
        "lingering_timeout",
        lingering_timeout,
        HSL,
        "5s",
        "Longest pause between two pieces of such data."
    ),
    simple!(
        CoreConf,
        flag,
        "tcp_nodelay",
        tcp_nodelay,
        HSL,
        "on",
        "Whether small packets leave at once on kept-alive connections."
    ),
    simple!(
        CoreConf,
        flag,
        "tcp_nopush",
        tcp_nopush,
        HSL,
        "off",
        "Whether the head and the start of a file go into one packet when sendfile is used."
    ),
];

fn keepalive_disable(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
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
