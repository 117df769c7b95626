//! The rows of `grpc_…`; those of TLS stand with their module.

use super::Conf;
use brisk_conf::{Arity, Context, Default as D, Diag, Directive};
use brisk_server::conf::Cx;
use brisk_server::module::{Row, Set};
use brisk_server::row;
use brisk_upstream::conf::{
    bind, buffer_size, connect_timeout, hide_header, ignore_headers, intercept_errors, next_upstream,
    next_upstream_timeout, next_upstream_tries, pass_header, read_timeout, send_timeout, socket_keepalive,
    socket_rcvbuf, socket_sndbuf,
};
use brisk_upstream::settings_row;

pub(super) static ROWS: &[Row] = &[
    row!(
        "grpc_pass",
        Context::LOCATION.or(Context::LOCATION_IF),
        Arity::ONE,
        D::Nothing,
        No,
        false,
        "Passes requests to a gRPC server: host:port, unix:/path or an upstream, with grpc:// before it or grpcs:// for TLS; may contain variables.",
        Set::Simple(super::pass)
    ),
    row!(
        "grpc_set_header",
        Context::HSL,
        Arity::TWO,
        D::Nothing,
        Replace,
        true,
        "Sets a field of requests to back ends, in place of the client's; a value may contain variables, an empty one removes the field. Host sets :authority.",
        Set::Simple(set_header)
    ),
    settings_row!("grpc", "_bind", between 1 2, Nothing, bind::<Conf>,
        "The address that connections come from, with or without a port; with transparent it may be any."),
    settings_row!("grpc", "_buffer_size", between 1 1, Value("4k"), buffer_size::<Conf>,
        "How large an answer's head may be."),
    settings_row!("grpc", "_connect_timeout", between 1 1, Value("60s"), connect_timeout::<Conf>,
        "How long connecting may take."),
    settings_row!("grpc", "_hide_header", many 1 1, Nothing, hide_header::<Conf>,
        "A field of answers that is not passed on."),
    settings_row!("grpc", "_ignore_headers", many 1 255, Nothing, ignore_headers::<Conf>,
        "Fields of answers that are not obeyed."),
    settings_row!("grpc", "_intercept_errors", between 1 1, Value("off"), intercept_errors::<Conf>,
        "Whether error_page answers in place of back ends' statuses from 300 on."),
    settings_row!("grpc", "_next_upstream", many 1 255, Value("error timeout"), next_upstream::<Conf>,
        "What sends a request to the next server."),
    settings_row!("grpc", "_next_upstream_timeout", between 1 1, Value("0"), next_upstream_timeout::<Conf>,
        "How long after its beginning a request may be sent to another server; 0: no limit."),
    settings_row!("grpc", "_next_upstream_tries", between 1 1, Value("0"), next_upstream_tries::<Conf>,
        "How many servers a request may be sent to; 0: all."),
    settings_row!("grpc", "_pass_header", many 1 1, Nothing, pass_header::<Conf>,
        "A field of answers that is passed on although it usually is not."),
    settings_row!("grpc", "_read_timeout", between 1 1, Value("60s"), read_timeout::<Conf>,
        "The longest time between two reads of an answer."),
    settings_row!("grpc", "_send_timeout", between 1 1, Value("60s"), send_timeout::<Conf>,
        "The longest time between two writes of a request; also while the back end gives no leave to send more."),
    settings_row!("grpc", "_socket_keepalive", between 1 1, Value("off"), socket_keepalive::<Conf>,
        "Whether connections to back ends use TCP's keepalive."),
    settings_row!("grpc", "_socket_rcvbuf", between 1 1, Value("0"), socket_rcvbuf::<Conf>,
        "The receive buffer of connections to back ends; 0: the kernel's choice."),
    settings_row!("grpc", "_socket_sndbuf", between 1 1, Value("0"), socket_sndbuf::<Conf>,
        "The send buffer of connections to back ends; 0: the kernel's choice."),
];

fn set_header(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (is_first, value) = (cx.first, cx.template(d.arg(1))?);
    cx.conf::<Conf>().set_headers.add(is_first, d, value);
    Ok(())
}
