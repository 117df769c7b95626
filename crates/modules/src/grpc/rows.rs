//! The rows of `grpc_…`; those of TLS stand with their module.

use super::Conf;
use brisk_conf::{Arity, Context, Diag, Directive, Risk};
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;
use brisk_upstream::rows::{
    bind, buffer_size, connect_timeout, hide_header, ignore_headers, intercept_errors, next_upstream,
    next_upstream_timeout, next_upstream_tries, pass_header, read_timeout, send_timeout, socket_keepalive,
    socket_rcvbuf, socket_sndbuf,
};

pub(super) static ROWS: &[Row] = &[
    // HTTP/2 from the first byte (RFC 9113 §3.3): a gRPC server has no HTTP/1.1 to be upgraded from.
    directive("grpc_pass")
        .doc("Passes requests to a gRPC server: host:port, unix:/path or an upstream, with grpc:// before it or grpcs:// for TLS; may contain variables.")
        .in_(Context::LOCATION.or(Context::LOCATION_IF))
        .takes("[grpc:// | grpcs://]ADDRESS")
        .not_inherited()
        .example("grpc_pass grpc://127.0.0.1:50051;")
        .set(super::pass),
    // Applications believe such fields: what the client has sent under the same name is replaced.
    directive("grpc_set_header")
        .doc("Sets a field of requests to back ends, in place of the client's; a value may contain variables, an empty one removes the field. Host sets :authority.")
        .in_(Context::HSL)
        .arity(Arity::TWO)
        .takes("FIELD VALUE")
        .many()
        .example("grpc_set_header Host $host;")
        .set(set_header),
    directive("grpc_bind")
        .doc("The address that connections come from, with or without a port; with transparent it may be any.")
        .in_(Context::HSL)
        .arity(Arity::between(1, 2))
        .takes("ADDRESS [transparent] | off")
        .risk(Risk::Security)
        .example("grpc_bind 127.0.0.1;")
        .set(bind::<Conf>),
    // For heads only: messages are passed on as they come, since a client may wait for each.
    directive("grpc_buffer_size")
        .doc("How large an answer's head may be.")
        .in_(Context::HSL)
        .takes_size()
        .default("4k")
        .risk(Risk::Resource)
        .example("grpc_buffer_size 8k;")
        .set(buffer_size::<Conf>),
    // As long as for `proxy`: an address that does not answer is given up.
    directive("grpc_connect_timeout")
        .doc("How long connecting may take.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("grpc_connect_timeout 5s;")
        .sets(connect_timeout::<Conf>),
    // One more of nginx's list, in this block and below.
    directive("grpc_hide_header")
        .doc("A field of answers that is not passed on.")
        .in_(Context::HSL)
        .takes("FIELD")
        .many()
        .risk(Risk::Security)
        .example("grpc_hide_header X-Powered-By;")
        .set(hide_header::<Conf>),
    // `X-Accel-…` of a back end are orders; what is named here is a mere field.
    directive("grpc_ignore_headers")
        .doc("Fields of answers that are not obeyed.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("FIELD ...")
        .many()
        .risk(Risk::Security)
        .example("grpc_ignore_headers Set-Cookie Cache-Control;")
        .set(ignore_headers::<Conf>),
    // Off: gRPC tells its failures by trailers, with the status 200.
    directive("grpc_intercept_errors")
        .doc("Whether error_page answers in place of back ends' statuses from 300 on.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .example("grpc_intercept_errors on;")
        .sets(intercept_errors::<Conf>),
    // A call may have been carried out: `non_idempotent` says that it may be sent again.
    directive("grpc_next_upstream")
        .doc("What sends a request to the next server.")
        .in_(Context::HSL)
        .arity(Arity::SOME)
        .takes("error | timeout | invalid_header | http_500 | http_502 | http_503 | http_504 | http_403 | http_404 | http_429 | non_idempotent | off ...")
        .default("error timeout")
        .many()
        .example("grpc_next_upstream error timeout http_503;")
        .set(next_upstream::<Conf>),
    // From its first attempt on; without a limit each attempt has the time-outs alone.
    directive("grpc_next_upstream_timeout")
        .doc("How long after its beginning a request may be sent to another server; 0: no limit.")
        .in_(Context::HSL)
        .takes_time()
        .default("0")
        .example("grpc_next_upstream_timeout 10s;")
        .sets(next_upstream_timeout::<Conf>),
    directive("grpc_next_upstream_tries")
        .doc("How many servers a request may be sent to; 0: all.")
        .in_(Context::HSL)
        .takes_number()
        .unit("servers")
        .default("0")
        .example("grpc_next_upstream_tries 2;")
        .sets(next_upstream_tries::<Conf>),
    // (`Server` and `Date` are among those that usually are not.)
    directive("grpc_pass_header")
        .doc("A field of answers that is passed on although it usually is not.")
        .in_(Context::HSL)
        .takes("FIELD")
        .many()
        .risk(Risk::Security)
        .example("grpc_pass_header X-Accel-Redirect;")
        .set(pass_header::<Conf>),
    // A stream that is silent for as long is ended: clients that only listen need more.
    directive("grpc_read_timeout")
        .doc("The longest time between two reads of an answer.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("grpc_read_timeout 30s;")
        .sets(read_timeout::<Conf>),
    directive("grpc_send_timeout")
        .doc("The longest time between two writes of a request; also while the back end gives no leave to send more.")
        .in_(Context::HSL)
        .takes_time()
        .default("60s")
        .example("grpc_send_timeout 30s;")
        .sets(send_timeout::<Conf>),
    // For connections that stay idle behind firewalls.
    directive("grpc_socket_keepalive")
        .doc("Whether connections to back ends use TCP's keepalive.")
        .in_(Context::HSL)
        .takes_flag()
        .default("off")
        .risk(Risk::Safe)
        .example("grpc_socket_keepalive on;")
        .sets(socket_keepalive::<Conf>),
    // What the kernel measures is best nearly everywhere.
    directive("grpc_socket_rcvbuf")
        .doc("The receive buffer of connections to back ends; 0: the kernel's choice.")
        .in_(Context::HSL)
        .takes_size()
        .default("0")
        .risk(Risk::Resource)
        .example("grpc_socket_rcvbuf 256k;")
        .sets(socket_rcvbuf::<Conf>),
    directive("grpc_socket_sndbuf")
        .doc("The send buffer of connections to back ends; 0: the kernel's choice.")
        .in_(Context::HSL)
        .takes_size()
        .default("0")
        .risk(Risk::Resource)
        .example("grpc_socket_sndbuf 256k;")
        .sets(socket_sndbuf::<Conf>),
];

fn set_header(cx: &mut Cx<'_, '_>, d: &Directive) -> Result<(), Diag> {
    let (is_first, value) = (cx.first, cx.template(d.arg(1))?);
    cx.conf::<Conf>().module.set_headers.add(is_first, d, value);
    Ok(())
}
