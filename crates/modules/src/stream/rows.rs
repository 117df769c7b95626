//! Directives of `stream`.

use super::Conf;
use super::part::BLOCKS;
use brisk_conf::{Arity, Context, Diag, Directive, Risk, value};
use brisk_db::Attrs;
use brisk_host::vars::Template;
use brisk_server::conf::Cx;
use brisk_server::directive::directive;
use brisk_server::module::Row;

const SERVER: Context = Context::STREAM_SERVER;
const ATTRS: [(&str, Attrs); 6] = Attrs::ALL;

pub(super) static ROWS: &[Row] = &[
    directive("stream")
        .doc("Holds the configuration of the proxy of TCP connections and UDP datagrams.")
        .in_(Context::MAIN)
        .arity(Arity::NONE.block())
        .definition()
        .example("stream { server { listen 127.0.0.1:5432; proxy_pass 10.0.0.1:5432; } }")
        .block(super::stream),
    directive("server")
        .doc("A server: the addresses that it listens on, and what is done with connections or datagrams that come there.")
        .in_(Context::STREAM)
        .arity(Arity::NONE.block())
        .many()
        .definition()
        .example("server { listen 127.0.0.1:5432; proxy_pass 10.0.0.1:5432; }")
        .block(super::server),
    directive("listen")
        .doc("An address with a port, a port, a range of ports or unix:PATH. udp: datagrams; those of one address and port of a client are a session, and one thread of the process serves all sessions of the socket. proxy_protocol: connections begin with a PROXY header. default_server: serves clients whose name leads to no other server. ssl: TLS is ended here, with ssl_certificate and ssl_certificate_key.")
        .in_(SERVER)
        .arity(Arity::SOME)
        .takes("ADDRESS [udp] [ssl] [default_server] [proxy_protocol] [bind] [backlog=NUMBER] [rcvbuf=SIZE] [sndbuf=SIZE] [reuseport] [ipv6only=on|off] [so_keepalive=on|off|TIMES]")
        .many()
        .not_inherited()
        .example("listen 127.0.0.1:53 udp;")
        .set(super::listen::listen),
    directive("proxy_pass")
        .doc("Passes sessions on: to an address with a port, to unix:PATH, or to an upstream block. A text with variables must result in the name of an upstream block, or in an address or a name with a port; names are looked up by resolver.")
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
    directive("pass")
        .doc("Gives connections to another server of this process (of http or stream), by the address that it listens on, as if they had come there.")
        .in_(SERVER)
        .takes("ADDRESS")
        .not_inherited()
        .example("pass 127.0.0.1:8000;")
        .set(super::pass),
    // A name can be known only of TLS clients.
    directive("server_name")
        .doc("Names that clients of TLS ask for (SNI), by which a server of an address is chosen where TLS is ended (listen … ssl) or ssl_preread is on: exact, with * at the start or end, or a regular expression after ~.")
        .in_(SERVER)
        .arity(Arity::SOME)
        .takes("NAME ...")
        .default_told("no name")
        .many()
        .not_inherited()
        .example("server_name db.example.com;")
        .set(super::server_name),
    // Once for each session, before it is asked whether it may go on.
    directive("set")
        .doc("Sets a variable for the session.")
        .in_(SERVER)
        .arity(Arity::TWO)
        .takes("$VARIABLE VALUE")
        .many()
        .not_inherited()
        .example("set $name $remote_addr:$remote_port;")
        .set(super::set),
    directive("ssl_preread")
        .doc("Whether the ClientHello of a TLS connection is looked at before it is passed on as it is: for $ssl_preread_server_name and its kin, and for server_name.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("ssl_preread on;")
        .sets(|cx, on| cx.conf::<Conf>().ssl_preread = on),
    directive("preread_buffer_size")
        .doc("How much of a connection's beginning ssl_preread looks at.")
        .in_(BLOCKS)
        .takes_size()
        .range(1, 1 << 20)
        .default("16k")
        .risk(Risk::Resource)
        .example("preread_buffer_size 4k;")
        .sets(|cx, bytes| cx.conf::<Conf>().preread.buffer_bytes = bytes as usize),
    directive("preread_timeout")
        .doc("How long a client may take to send what ssl_preread looks at.")
        .in_(BLOCKS)
        .takes_time()
        .default("30s")
        .risk(Risk::Resource)
        .example("preread_timeout 5s;")
        .sets(|cx, time| cx.conf::<Conf>().preread.timeout = time),
    directive("proxy_protocol_timeout")
        .doc("How long a client may take to send its PROXY header.")
        .in_(BLOCKS)
        .takes_time()
        .default("30s")
        .risk(Risk::Resource)
        .example("proxy_protocol_timeout 5s;")
        .sets(|cx, time| cx.conf::<Conf>().proxy_protocol_timeout = time),
    directive("proxy_protocol")
        .doc("Whether servers are told of the client by a PROXY header (version 1) before anything else.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("proxy_protocol on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.proxy_protocol = on),
    directive("proxy_ssl")
        .doc("Whether connections to servers use TLS; proxy_ssl_name, proxy_ssl_verify and the like say how.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("proxy_ssl on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy_ssl = on),
    directive("proxy_bind")
        .doc("The local address of connections to servers; may contain variables, off for the kernel's choice. With transparent the client's address may be used, which needs rights and routing.")
        .in_(BLOCKS)
        .arity(Arity::between(1, 2))
        .takes("ADDRESS [transparent] | off")
        .risk(Risk::Security)
        .example("proxy_bind 127.0.0.1;")
        .set(super::proxy_bind),
    directive("proxy_socket_rcvbuf")
        .doc("The kernel's buffer for what comes from a server; 0: the kernel's choice.")
        .in_(BLOCKS)
        .takes_size()
        .range(0, 1 << 30)
        .default("0")
        .risk(Risk::Resource)
        .example("proxy_socket_rcvbuf 64k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.socket_rcvbuf = bytes as usize),
    directive("proxy_socket_sndbuf")
        .doc("The kernel's buffer for what goes to a server; 0: the kernel's choice.")
        .in_(BLOCKS)
        .takes_size()
        .range(0, 1 << 30)
        .default("0")
        .risk(Risk::Resource)
        .example("proxy_socket_sndbuf 64k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.socket_sndbuf = bytes as usize),
    // nginx's old names of proxy_buffer_size.
    directive("proxy_downstream_buffer")
        .doc("An old name of proxy_buffer_size.")
        .in_(BLOCKS)
        .takes_size()
        .range(1, 16 << 20)
        .risk(Risk::Resource)
        .example("proxy_downstream_buffer 32k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.buffer_bytes = bytes as usize),
    directive("proxy_upstream_buffer")
        .doc("An old name of proxy_buffer_size.")
        .in_(BLOCKS)
        .takes_size()
        .range(1, 16 << 20)
        .risk(Risk::Resource)
        .example("proxy_upstream_buffer 32k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.buffer_bytes = bytes as usize),
    directive("server_names_hash_max_size")
        .doc("The size of nginx's hash tables.")
        .in_(Context::STREAM)
        .takes("SIZE")
        .example("server_names_hash_max_size 1024;")
        .ignored("tables size themselves"),
    directive("server_names_hash_bucket_size")
        .doc("The size of nginx's hash buckets.")
        .in_(Context::STREAM)
        .takes("SIZE")
        .example("server_names_hash_bucket_size 64;")
        .ignored("tables size themselves"),
    directive("variables_hash_max_size")
        .doc("The size of nginx's hash tables.")
        .in_(Context::STREAM)
        .takes("SIZE")
        .example("variables_hash_max_size 2048;")
        .ignored("tables size themselves"),
    directive("variables_hash_bucket_size")
        .doc("The size of nginx's hash buckets.")
        .in_(Context::STREAM)
        .takes("SIZE")
        .example("variables_hash_bucket_size 64;")
        .ignored("tables size themselves"),
    directive("proxy_connect_timeout")
        .doc("How long connecting to a server may take.")
        .in_(BLOCKS)
        .takes_time()
        .default("60s")
        .example("proxy_connect_timeout 5s;")
        .sets(|cx, time| cx.conf::<Conf>().proxy.connect_timeout = time),
    // 10 minutes, as in nginx: an idle TCP connection is normal for databases and mail.
    directive("proxy_timeout")
        .doc("The longest time in which neither side sends anything; then the session ends.")
        .in_(BLOCKS)
        .takes_time()
        .default("10m")
        .example("proxy_timeout 1h;")
        .sets(|cx, time| cx.conf::<Conf>().proxy.timeout = time),
    // Only while connecting: a byte that was sent to one server cannot be taken back for another.
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
    // Both directions have one, so a session costs twice this at most.
    directive("proxy_buffer_size")
        .doc("The most that is read from one side before it is written to the other; both directions of a connection have such a buffer.")
        .in_(BLOCKS)
        .takes_size()
        .range(1, 16 << 20)
        .default("16k")
        .risk(Risk::Resource)
        .example("proxy_buffer_size 32k;")
        .sets(|cx, bytes| cx.conf::<Conf>().proxy.buffer_bytes = bytes as usize),
    // UDP has no end of its own: DNS answers each question with one datagram, and the session is over.
    directive("proxy_responses")
        .doc("How many datagrams a server sends in answer to each of a client; when all have come the session ends. Without it only proxy_timeout ends it.")
        .in_(BLOCKS)
        .takes_number()
        .unit("datagrams")
        .example("proxy_responses 1;")
        .sets(|cx, count| cx.conf::<Conf>().proxy.responses = Some(count)),
    // For protocols whose requests are independent: the next one may go to another server.
    directive("proxy_requests")
        .doc("After how many datagrams of a client the next one begins another session; 0: never.")
        .in_(BLOCKS)
        .takes_number()
        .unit("datagrams")
        .default("0")
        .example("proxy_requests 1;")
        .sets(|cx, count| cx.conf::<Conf>().proxy.requests = count),
    // Off, as in nginx: few protocols need it, and a client that has closed and gone would hold its session.
    directive("proxy_half_close")
        .doc("Whether the end of one side is passed on and the other may go on sending. Without it a connection ends with either side.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("proxy_half_close on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.half_close = on),
    // The primary by default, since it is not known whether a client writes.
    directive("target_session_attrs")
        .doc("Which server of an upstream with mysql_check or pgsql_check a session is given to, as libpq means it: read-write and primary: the primary; read-only and standby: a replica within its lag; prefer-standby: a replica, and the primary if there is none; any: any of those. A session ends when its server is lost or has another role.")
        .in_(BLOCKS)
        .takes_one_of(&ATTRS)
        .default("read-write")
        .example("target_session_attrs prefer-standby;")
        .set(|cx, d| {
            cx.conf::<Conf>().proxy.attrs = value::choice(d.arg(0), &ATTRS)?;
            Ok(())
        }),
    // A session is split only where it is known who it is, and which server takes the writes.
    directive("mysql_split")
        .doc("Whether sessions with the MySQL or MariaDB servers of an upstream (with mysql_check and zone) are split: SELECTs outside of transactions go to a replica within its lag that has what the session has written, everything else to the primary. Clients log in to Brisk, and Brisk to the servers with their accounts: by mysql_accounts, or by hashes of mysql_native_password, which the account of mysql_check reads from mysql.user. Sessions of other accounts are passed to the primary as they are.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .risk(Risk::Security)
        .example("mysql_split on;")
        .sets(|cx, on| cx.conf::<Conf>().splitting.is_on = on),
    directive("mysql_accounts")
        .doc("A file with accounts whose sessions are split (mysql_split): in each line a name and a password with a colon between them. Nobody but its owner may read it (0600).")
        .in_(BLOCKS)
        .takes("FILE")
        .risk(Risk::Security)
        .example("mysql_accounts /etc/brisk/mysql.accounts;")
        .set(super::split::accounts),
    // Off: what init_connect does for a connection is not done again for the next session.
    directive("mysql_pool")
        .doc("Connections to each server that each thread keeps for later sessions of the same account (mysql_split), for 10 seconds; 0: none. Nothing of a session is left for the next one (COM_RESET_CONNECTION, or COM_CHANGE_USER at another login and after 10 seconds); init_connect of the server is not carried out again.")
        .in_(BLOCKS)
        .takes_number()
        .range(0, 10_000)
        .unit("connections")
        .default("0")
        .risk(Risk::Resource)
        .example("mysql_pool 16;")
        .sets(|cx, count| cx.conf::<Conf>().splitting.pool_max = count as usize),
    // A session may be silent for hours, and firewalls forget connections that are.
    directive("proxy_socket_keepalive")
        .doc("Whether TCP's keepalive is on for connections to servers.")
        .in_(BLOCKS)
        .takes_flag()
        .default("off")
        .example("proxy_socket_keepalive on;")
        .sets(|cx, on| cx.conf::<Conf>().proxy.socket_keepalive = on),
    // By not reading: the kernel's window then slows the sender down. UDP has no such window.
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
    // Per session: two get twice as much.
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
    // A mistake in a number is reported now; a variable's value is known per session.
    if !d.arg(0).bytes().contains(&b'$') {
        value::size(d.arg(0))?;
    }
    cx.template(d.arg(0))
}
