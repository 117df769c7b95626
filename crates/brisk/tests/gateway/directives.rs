//! Every directive of the three modules is accepted where nginx accepts it.

use super::{BIN, prefix};
use brisk_testkit::Builder;
use brisk_testkit::application::Speaks;

/// What all three have, in FastCGI's words.
const SHARED: &str = "
    fastcgi_bind off;
    fastcgi_buffer_size 8k;
    fastcgi_buffering on;
    fastcgi_buffers 8 8k;
    fastcgi_busy_buffers_size 16k;
    fastcgi_connect_timeout 5s;
    fastcgi_force_ranges on;
    fastcgi_hide_header X-A;
    fastcgi_ignore_client_abort on;
    fastcgi_ignore_headers Cache-Control Expires;
    fastcgi_intercept_errors on;
    fastcgi_limit_rate 10m;
    fastcgi_max_temp_file_size 10m;
    fastcgi_next_upstream error timeout http_503;
    fastcgi_next_upstream_timeout 5s;
    fastcgi_next_upstream_tries 2;
    fastcgi_param A b;
    fastcgi_pass_header Status;
    fastcgi_pass_request_body on;
    fastcgi_pass_request_headers on;
    fastcgi_read_timeout 5s;
    fastcgi_request_buffering on;
    fastcgi_send_timeout 5s;
    fastcgi_socket_keepalive on;
    fastcgi_socket_rcvbuf 64k;
    fastcgi_socket_sndbuf 64k;
    fastcgi_store off;
    fastcgi_store_access user:rw group:r;
    fastcgi_temp_file_write_size 16k;
    fastcgi_temp_path {{DIR}}/fastcgi_temp 1 2;
";

/// The same for the others.
const SCGI: &str = "
    scgi_bind off;
    scgi_buffer_size 8k;
    scgi_buffering on;
    scgi_buffers 8 8k;
    scgi_busy_buffers_size 16k;
    scgi_connect_timeout 5s;
    scgi_force_ranges on;
    scgi_hide_header X-A;
    scgi_ignore_client_abort on;
    scgi_ignore_headers Cache-Control Expires;
    scgi_intercept_errors on;
    scgi_limit_rate 10m;
    scgi_max_temp_file_size 10m;
    scgi_next_upstream error timeout http_503;
    scgi_next_upstream_timeout 5s;
    scgi_next_upstream_tries 2;
    scgi_param A b;
    scgi_pass_header Status;
    scgi_pass_request_body on;
    scgi_pass_request_headers on;
    scgi_read_timeout 5s;
    scgi_request_buffering on;
    scgi_send_timeout 5s;
    scgi_socket_keepalive on;
    scgi_socket_rcvbuf 64k;
    scgi_socket_sndbuf 64k;
    scgi_store off;
    scgi_store_access user:rw group:r;
    scgi_temp_file_write_size 16k;
    scgi_temp_path {{DIR}}/scgi_temp 1 2;
";

const UWSGI: &str = "
    uwsgi_bind off;
    uwsgi_buffer_size 8k;
    uwsgi_buffering on;
    uwsgi_buffers 8 8k;
    uwsgi_busy_buffers_size 16k;
    uwsgi_connect_timeout 5s;
    uwsgi_force_ranges on;
    uwsgi_hide_header X-A;
    uwsgi_ignore_client_abort on;
    uwsgi_ignore_headers Cache-Control Expires;
    uwsgi_intercept_errors on;
    uwsgi_limit_rate 10m;
    uwsgi_max_temp_file_size 10m;
    uwsgi_modifier1 1;
    uwsgi_modifier2 2;
    uwsgi_next_upstream error timeout http_503;
    uwsgi_next_upstream_timeout 5s;
    uwsgi_next_upstream_tries 2;
    uwsgi_param A b;
    uwsgi_pass_header Status;
    uwsgi_pass_request_body on;
    uwsgi_pass_request_headers on;
    uwsgi_read_timeout 5s;
    uwsgi_request_buffering on;
    uwsgi_send_timeout 5s;
    uwsgi_socket_keepalive on;
    uwsgi_socket_rcvbuf 64k;
    uwsgi_socket_sndbuf 64k;
    uwsgi_store off;
    uwsgi_store_access user:rw group:r;
    uwsgi_string x;
    uwsgi_temp_file_write_size 16k;
    uwsgi_temp_path {{DIR}}/uwsgi_temp 1 2;
";

const FASTCGI: &str = "
    fastcgi_catch_stderr PHP;
    fastcgi_index index.php;
    fastcgi_keep_conn on;
    fastcgi_send_lowat 0;
    fastcgi_split_path_info ^(.+\\.php)(/.*)$;
";

#[test]
fn every_directive_stands_in_http_server_and_location() {
    for (speaks, all) in [
        (Speaks::FastCgi, format!("{SHARED}{FASTCGI}")),
        (Speaks::Scgi, SCGI.to_string()),
        (Speaks::Uwsgi, UWSGI.to_string()),
    ] {
        let pass = format!("{}_pass 127.0.0.1:9;", prefix(speaks));
        let server = format!("listen 127.0.0.1:{{{{PORT}}}}; {all} location / {{ {all} {pass} }}");
        let prepared = Builder::new(BIN).http(&format!("{all} server {{ {server} }}")).prepare();
        let output = prepared.run(&["-t"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn buffers_must_fit_together() {
    for (directives, message) in [
        ("fastcgi_buffers 1 4k;", "there must be at least 2 \"fastcgi_buffers\""),
        ("fastcgi_busy_buffers_size 1k;", "\"fastcgi_busy_buffers_size\" must be equal to or greater than"),
        ("scgi_busy_buffers_size 1m;", "\"scgi_busy_buffers_size\" must be less than"),
        ("uwsgi_temp_file_write_size 1k;", "\"uwsgi_temp_file_write_size\" must be equal to or greater"),
        ("uwsgi_max_temp_file_size 1k;", "\"uwsgi_max_temp_file_size\" must be equal to zero"),
    ] {
        let server = format!("server {{ listen 127.0.0.1:{{{{PORT}}}}; {directives} }}");
        let output = Builder::new(BIN).http(&server).prepare().run(&["-t"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(message), "{directives}: {said}");
        assert!(said.contains(".conf:") && said.contains("as it stands: "), "{said}");
    }
}
